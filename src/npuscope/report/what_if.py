"""What a changed machine does to a network, in one line; and which key would help most."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from npuscope.advice.sensitivity import STEP, Sensitivity
from npuscope.advice.what_if import WhatIf
from npuscope.machine.set_keys import Change
from npuscope.report.numbers import ms, percent
from npuscope.text import safe_terminal

_SHOWN = 12


def what_if_line(found: WhatIf) -> str:
    keys = ", ".join(_change(change) for change in found.changes)
    before, after = found.baseline.total_ms, found.profile.total_ms
    sign = "+" if found.delta_ms >= 0 else "-"
    share = percent(abs(found.delta_ms), before)
    times = f"{ms(before)} -> {ms(after)} ms ({sign}{ms(abs(found.delta_ms))} ms, {sign}{share})"
    return f"what-if  {keys}: {times}, {_how(found)}"


def _change(change: Change) -> str:
    return safe_terminal(f"{change.key} {shown(change.old)} -> {shown(change.new)}")


def shown(value: object) -> str:
    """A value as the TOML would have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(shown, value))}]"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _how(found: WhatIf) -> str:
    if not found.recompiled:
        return "re-timed, not recompiled"
    if found.vendor is not None:
        given = ms(found.vendor.total_ms)
        return f"both compiled by npuscope; the vendor's program takes {given} ms"
    if not found.mapping_changed:
        return "recompiled, the mapping stays the same"
    before, after = len(found.baseline.epochs), len(found.profile.epochs)
    return f"recompiled, the mapping changed ({before} -> {after} epochs)"


def what_if_json(found: WhatIf) -> dict[str, Any]:
    """Keys of `estimate --json` that only a what-if has."""
    return {
        "what_if": [
            {"key": c.key, "old": c.old, "new": c.new, "kind": c.effect.value}
            for c in found.changes
        ],
        "baseline_ms": round(found.baseline.total_ms, 6),
        "recompiled": found.recompiled,
        "mapping_changed": found.mapping_changed,
    } | ({"vendor_ms": round(found.vendor.total_ms, 6)} if found.vendor else {})


def sensitivity_lines(rows: tuple[Sensitivity, ...], total_ms: float) -> list[str]:
    heading = f"{'key':<42} {'value':>9} {'tried':>9} {'saved ms':>9} {'share':>6}"
    lines = [f"Sensitivity  one timing key {STEP:.0%} better at a time; what saves most:"]
    lines.append(f"  {heading}")
    for row in rows[:_SHOWN]:
        share = percent(row.saved_ms, total_ms)
        lines.append(
            f"  {safe_terminal(row.key):<42} {row.value:>9.6g} {row.better:>9.6g} "
            f"{ms(row.saved_ms):>9} {share:>6}"
        )
    if len(rows) > _SHOWN:
        lines.append(f"  and {len(rows) - _SHOWN} more that save less (--json lists them)")
    return lines


def sensitivity_json(rows: Iterable[Sensitivity]) -> dict[str, Any]:
    return {
        "sensitivity": [
            {
                "key": row.key,
                "value": row.value,
                "tried": round(row.better, 9),
                "saved_ms": round(row.saved_ms, 6),
            }
            for row in rows
        ]
    }
