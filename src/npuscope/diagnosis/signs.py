"""What evidence shows by itself, where no cause reproduces it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from npuscope.diagnosis.causes.inputs import LINE_BYTES
from npuscope.diagnosis.causes.registry import CauseKind
from npuscope.diagnosis.evidence import Evidence, Fit, SeenValues
from npuscope.diagnosis.fault import RIGHT
from npuscope.diagnosis.scene import Scene
from npuscope.diagnosis.sights import Array, View

# Evidence of a place, and what it means if it is not as predicted.
_PLACES = {
    View.WEIGHTS: (CauseKind.WEIGHTS, "the weights are not those of the build"),
    View.INPUT: (CauseKind.INPUT, "the input buffer does not hold the frame"),
    View.INPUT_RAM: (CauseKind.INPUT, "RAM does not hold the frame that the program wrote"),
    View.BUFFER: (CauseKind.MEMORY, "a buffer inside the network is wrong already"),
    View.OUTPUT_RAM: (CauseKind.MEMORY, "the output is wrong in RAM already"),
}
_FEW = 8  # values of which an order proves something


class Sign(Struct, frozen=True):
    kind: CauseKind
    words: str


def signs(scene: Scene, evidence: Evidence, right: list[Fit | None], tolerant: bool) -> list[Sign]:
    """The strongest first: a place that was looked at, then what the values themselves show."""
    wrong: dict[View, bool] = {}
    for one, fit in zip(evidence.seen, right, strict=True):
        sight = getattr(one, "sight", None)
        if sight is not None and fit is not None:
            wrong[sight.view] = wrong.get(sight.view, False) or not fit.holds(tolerant)
    found = [Sign(*_PLACES[view]) for view in _PLACES if wrong.get(view)]
    if wrong.get(View.OUTPUT) and wrong.get(View.OUTPUT_RAM) is False:
        found.insert(
            0, Sign(CauseKind.OUTPUT, "the output is right in RAM: the program misreads it")
        )
    return [*found, *_of_values(scene, evidence)]


def _of_values(scene: Scene, evidence: Evidence) -> Iterator[Sign]:
    outputs = [
        one
        for one in evidence.seen
        if isinstance(one, SeenValues) and one.sight.view is View.OUTPUT and not one.decoded
    ]
    for one in outputs[:1]:
        values = scene.predict(one.sight, RIGHT)
        if values is None or values.size != one.values.size:
            continue
        if values.size >= _FEW and np.array_equal(np.sort(values), np.sort(one.values)):
            yield Sign(CauseKind.OUTPUT, "the values are right, in another order")
        elif (lines := _wrong_lines(values, one.values)) is not None:
            start, end = lines[0] * LINE_BYTES, lines[1] * LINE_BYTES + LINE_BYTES - 1
            yield Sign(CauseKind.OUTPUT, f"only bytes {start} to {end} are wrong")
    by_name: dict[str, list[Array]] = {}
    for one in outputs:
        by_name.setdefault(one.sight.name, []).append(one.values)
    several = [rows for rows in by_name.values() if len(rows) > 1]
    if several and all(np.array_equal(rows[0], row) for rows in several for row in rows):
        yield Sign(CauseKind.WEIGHTS, "the output is the same for different inputs")


def _wrong_lines(values: Array, seen: Array) -> tuple[int, int] | None:
    """First and last cache line that differ, where they are whole, in a row and few."""
    differ = np.flatnonzero(values.view(np.uint8) != seen.view(np.uint8))
    if not differ.size:
        return None
    first, last = int(differ[0]) // LINE_BYTES, int(differ[-1]) // LINE_BYTES
    lines = -(-values.nbytes // LINE_BYTES)
    covered = len(set((differ // LINE_BYTES).tolist())) == last - first + 1
    return (first, last) if covered and 4 * (last - first + 1) <= lines else None
