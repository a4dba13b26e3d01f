"""Outputs with unlike ranges in parts: what a last Concat joins keeps a scale of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct

from npuscope.edits import EditRequest, NotFitting, apply_edit, open_document
from npuscope.edits.registry import whole_bytes
from npuscope.files.load import load_model
from npuscope.graph.model import Graph
from npuscope.quantizing.outputs import column_spans
from npuscope.quantizing.samples import Sample
from npuscope.quantizing.work import FloatFile
from npuscope.text import safe_terminal


class Join(Struct, frozen=True):
    """An output that is given in so many parts now, to be joined along an axis."""

    name: str
    parts: tuple[str, ...]
    axis: int


class _Facts(Struct, frozen=True):
    graph: Graph


def unlike_outputs(work: FloatFile, samples: Sequence[Sample]) -> list[str]:
    """Those whose columns differ by orders of magnitude, so that one step serves only some."""
    rows = list(work.outputs(None, samples))
    names = [name for name, values in rows[0].items() if values.dtype.kind == "f"]
    return [n for n in names if len(column_spans(np.stack([row[n] for row in rows]))) > 1]


def split_outputs(
    path: Path, names: Sequence[str], shapes: Mapping[str, Sequence[int]] | None, folder: Path
) -> tuple[Path, tuple[Join, ...], list[str]]:
    """The float file with the parts of these outputs, and why others stay whole."""
    document = open_document(path, whole_bytes(path))
    facts = _Facts(load_model(path, shapes))
    origins = {origin for op in facts.graph.ops for origin in op.origin}
    joins, notes = [], []
    for output in [t for t in document.network_outputs if document.name(t) in names]:
        name = document.name(output)
        maker = document.producer(output)
        try:
            if maker is None or document.kind(maker) != "Concat":
                raise NotFitting("it is not made by a Concat")
            axis = int(document.attribute(maker, "axis", 0))
            parts = tuple(document.name(part) for part in document.inputs(maker))
            maker_origins = tuple(origin for origin in origins if document.op(origin) is maker)
            request = EditRequest(maker_origins, {}, facts)  # type: ignore[arg-type]
            apply_edit(document, "separate-outputs", request)
        except NotFitting as misfit:
            notes.append(f"output '{safe_terminal(name)}' stays whole: {misfit}")
            continue
        joins.append(Join(name, parts, axis))
        listed = ", ".join(f"'{safe_terminal(part)}'" for part in parts)
        notes.append(
            f"output '{safe_terminal(name)}' is given as {listed}, each with a scale of its own: "
            f"join them along axis {axis}"
        )
    target = folder / f"parts{path.suffix}"
    target.write_bytes(document.to_bytes())
    return target, tuple(joins), notes


def whole_outputs(
    values: Sequence[np.ndarray], counts: Sequence[tuple[int, int]]
) -> list[np.ndarray]:
    """Parts joined again: how many make each output, and along which axis."""
    rest, wholes = list(values), []
    for count, axis in counts:
        parts, rest = rest[:count], rest[count:]
        wholes.append(parts[0] if count == 1 else np.concatenate(parts, axis))
    return wholes
