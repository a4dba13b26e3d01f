"""What evidence shows by itself, where no cause reproduces it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from npuscope.diagnosis.causes.lines import LINE_BYTES, line_count
from npuscope.diagnosis.causes.registry import FaultPlace
from npuscope.diagnosis.evidence import BoardEvidence, Likeness, SeenDigest, SeenValues
from npuscope.diagnosis.fault import RIGHT
from npuscope.diagnosis.scene import BoardScene
from npuscope.diagnosis.sights import Array, SightView
from npuscope.shown import counted

_INSIDE = (FaultPlace.WEIGHTS, FaultPlace.INPUT, FaultPlace.MEMORY, FaultPlace.PROGRAM)
# Evidence of a place, and what it means if it is not as predicted.
_PLACES = {
    SightView.WEIGHTS: ((FaultPlace.WEIGHTS,), "the weights are not those of the build"),
    SightView.INPUT: ((FaultPlace.INPUT,), "the input buffer does not hold the frame"),
    SightView.INPUT_RAM: (
        (FaultPlace.INPUT,),
        "RAM does not hold the frame that the program wrote",
    ),
    SightView.BUFFER: (_INSIDE, "a buffer inside the network is wrong already"),
    SightView.OUTPUT_RAM: (_INSIDE, "the output is wrong in RAM already"),
}
# What is as predicted excludes a place.
_EXCLUDES = {
    SightView.WEIGHTS: FaultPlace.WEIGHTS,
    SightView.INPUT_RAM: FaultPlace.INPUT,
}
_FEW = 8  # values of which an order proves something
_START = 32  # bytes that are right before most are wrong
# Wrong weights would show in the first values too.
_NOT_WEIGHTS = (FaultPlace.INPUT, FaultPlace.MEMORY, FaultPlace.PROGRAM, FaultPlace.OUTPUT)


class Sign(Struct, frozen=True):
    """`kinds` are the places where the fault may be."""

    kinds: tuple[FaultPlace, ...]
    words: str


def signs(
    scene: BoardScene, evidence: BoardEvidence, right: list[Likeness | None], tolerant: bool
) -> list[Sign]:
    """The strongest first: a place that was looked at, then what the values themselves show."""
    wrong: dict[SightView, bool] = {}
    for one, fit in zip(evidence.seen, right, strict=True):
        sight = getattr(one, "sight", None)
        if sight is not None and fit is not None:
            wrong[sight.view] = wrong.get(sight.view, False) or not fit.holds(tolerant)
    right_places = {place for view, place in _EXCLUDES.items() if wrong.get(view) is False}

    def sign(kinds: tuple[FaultPlace, ...], words: str) -> Sign:
        return Sign(tuple(kind for kind in kinds if kind not in right_places), words)

    places = [sign(*_PLACES[view]) for view in _PLACES if wrong.get(view)]
    if wrong.get(SightView.WEIGHTS):  # with the checksums, where there are any
        pairs = []
        for one in evidence.seen:
            if isinstance(one, SeenDigest) and one.sight.view is SightView.WEIGHTS:
                fit = one.fit(scene, RIGHT)
                if fit is not None and not fit.exact:
                    digests = f"{one.name} {one.digest}, not {one.right(scene)}"
                    pairs.append(f"{one.sight.name}: {digests}")
        words = "the weights in memory are not those of this build"
        words = f"{words} ({'; '.join(pairs)})" if pairs else words
        places[0] = Sign((FaultPlace.WEIGHTS,), words)
    if wrong.get(SightView.OUTPUT) and wrong.get(SightView.OUTPUT_RAM) is False:
        words = "the output is right in RAM: the program misreads it"
        places.insert(0, Sign((FaultPlace.OUTPUT,), words))
    return [*places, *(sign(*row) for row in _of_values(scene, evidence))]


def _of_values(
    scene: BoardScene, evidence: BoardEvidence
) -> Iterator[tuple[tuple[FaultPlace, ...], str]]:
    """Places and words."""
    outputs = [
        one
        for one in evidence.seen
        if isinstance(one, SeenValues) and one.sight.view is SightView.OUTPUT and not one.decoded
    ]
    for one in outputs[:1]:
        values = scene.predict(one.sight, RIGHT)
        if values is None or values.size != one.values.size:
            continue
        if values.size >= _FEW and np.array_equal(np.sort(values), np.sort(one.values)):
            yield (FaultPlace.OUTPUT,), "the values are right, in another order"
            continue
        base = scene.address(one.sight.name)[0] % LINE_BYTES
        if (lines := _wrong_lines(values, one.values, base)) is not None:
            start = max(0, lines[0] * LINE_BYTES - base)
            end = min(values.nbytes, (lines[1] + 1) * LINE_BYTES - base)
            places = FaultPlace.OUTPUT, FaultPlace.MEMORY
            yield places, f"only bytes {start} to {end - 1} are wrong"
            continue
        if (steps := _offset(values, one.values)) is not None:
            way = "higher" if steps > 0 else "lower"
            words = f"every value is {counted(abs(steps), 'step')} {way}"
            yield (FaultPlace.OUTPUT, FaultPlace.PROGRAM), f"{words}: an offset is another one"
        elif (count := _right_start(values, one.values)) is not None:
            yield _NOT_WEIGHTS, f"bytes 0 to {count - 1} are right, most behind them are wrong"
    by_name: dict[str, list[Array]] = {}
    for one in outputs:
        by_name.setdefault(one.sight.name, []).append(one.values)
    several = [rows for rows in by_name.values() if len(rows) > 1]
    if several and all(np.array_equal(rows[0], row) for rows in several for row in rows):
        yield _INSIDE, "the output is the same for different inputs"


def _wrong_lines(values: Array, seen: Array, base: int) -> tuple[int, int] | None:
    """First and last cache line that differ, where they are in a row and few; the buffer begins
    `base` bytes behind a line."""
    differ = np.flatnonzero(values.view(np.uint8) != seen.view(np.uint8)) + base
    if not differ.size:
        return None
    first, last = int(differ[0]) // LINE_BYTES, int(differ[-1]) // LINE_BYTES
    lines = line_count(base, values.nbytes)
    covered = len(set((differ // LINE_BYTES).tolist())) == last - first + 1
    return (first, last) if covered and 4 * (last - first + 1) <= lines else None


def _offset(values: Array, seen: Array) -> int | None:
    """The steps by which all integers are off; the ends of their range tell nothing."""
    if values.dtype.kind not in "iu" or seen.dtype != values.dtype:
        return None
    limits = np.iinfo(values.dtype.name)
    inner = (seen > limits.min) & (seen < limits.max)
    steps = np.unique(seen[inner].astype(np.int64) - values[inner])
    if inner.sum() < _FEW or steps.size != 1 or not steps[0]:
        return None
    clipped = np.clip(values.astype(np.int64) + steps[0], limits.min, limits.max)
    return int(steps[0]) if np.array_equal(clipped, seen) else None


def _right_start(values: Array, seen: Array) -> int | None:
    """Bytes that are right at the start, where most of those behind are wrong."""
    wrong = values.view(np.uint8) != seen.view(np.uint8)
    start = int(wrong.argmax())
    return start if start >= _START and 2 * int(wrong[start:].sum()) > wrong.size - start else None
