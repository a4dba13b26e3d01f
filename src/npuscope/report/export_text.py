"""What was exported, as text and as JSON."""

from __future__ import annotations

from typing import Any

from npuscope.report.export_drawing import Export
from npuscope.report.figures import source_of
from npuscope.text import safe_terminal


def export_text(subject: Export) -> str:
    layers = f"{subject.annotated} of {len(subject.nodes)} nodes"
    name = safe_terminal(subject.path.name)
    total, rest = subject.profile.total_ms, subject.unassigned_ms
    lines = [f"{layers} of {name} with times: {total - rest:.3f} of {total:.3f} ms"]
    return "\n".join([*lines, *(f"  {file}" for file in subject.files)])


def export_json(subject: Export) -> dict[str, Any]:
    return {
        "schema": "npuscope/export/1",
        "model": subject.path.name,
        "files": list(subject.files),
        "nodes": len(subject.nodes),
        "annotated": subject.annotated,
        "total_ms": round(subject.profile.total_ms, 6),
        "unassigned_ms": round(subject.unassigned_ms, 6),
        "provenance": source_of(subject.profile).value,
    }
