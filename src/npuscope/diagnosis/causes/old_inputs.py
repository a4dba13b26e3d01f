"""Inputs of another moment: of the run before, in part or as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from npuscope.diagnosis.causes.inputs import on_inputs, targets
from npuscope.diagnosis.causes.lines import LINE_BYTES, line_count, tail_start
from npuscope.diagnosis.causes.registry import FaultPlace, cause
from npuscope.diagnosis.fault import BoardFault, Feed, Supply
from npuscope.diagnosis.scene import BoardScene
from npuscope.diagnosis.sights import Array
from npuscope.structs import replace

CACHE_BYTES = 32 << 10
_COARSE = 24
_RARE_ROWS = 3  # every third of them is tried before the others


@cause(
    "input-address",
    FaultPlace.INPUT,
    "ask the runtime for the address of the input buffer, and fill that one",
    often=3,
)
def address(scene: BoardScene) -> Iterator[BoardFault]:
    """The application fills another address: the NPU runs on what the run before left there."""
    for place, names in targets(scene):
        words = f"the input buffer holds what the run before left{place}"
        left = on_inputs(names, lambda feed: feed.left)
        yield BoardFault(words, supply=left, untouched=("inputs",))
        words = f"the input buffer is never written and holds zeros{place}"
        zeros = on_inputs(names, lambda feed: np.zeros_like(feed.stored()))
        yield BoardFault(words, supply=zeros, untouched=("inputs",))


@cause(
    "input-destroyed",
    FaultPlace.INPUT,
    "fill the input before every run: this build lets other buffers overwrite it",
    often=3,
)
def destroyed(scene: BoardScene) -> Iterator[BoardFault]:
    """The network ran again without a new input, which its first run had overwritten."""

    def leftover(feed: Feed) -> Array | None:
        own = scene.left_by(feed)
        return None if own is None or np.array_equal(own, feed.stored()) else own

    yield BoardFault("a second run on what the first one left of the input", fetch=leftover)


@cause(
    "input-late",
    FaultPlace.INPUT,
    "start the run only when the new frame is complete, and read the result only after it ended",
    often=2,
)
def late(scene: BoardScene) -> Iterator[BoardFault]:
    """The NPU gets the frame before."""
    for place, names in targets(scene):
        yield BoardFault(f"the frame before{place}", supply=on_inputs(names, _before))


def _before(feed: Feed) -> Array | None:
    return None if feed.before is None else feed.stored(feed.before)


def _stale(scene: BoardScene, lines: int, old: Supply) -> Supply:
    """The last cache lines are not in RAM yet; the first of them may be one in part."""

    def fetch(feed: Feed) -> Array | None:
        raw, before = feed.stored().view(np.uint8), old(feed)
        if before is None:
            return None
        start = tail_start(scene.address(feed.buffer.name)[0], raw.size, lines)
        other = np.ascontiguousarray(before).view(np.uint8)
        mixed = np.where(np.arange(raw.size) < start, raw, other)
        return mixed.astype(np.uint8).view(feed.values.dtype)

    return fetch


_OLD: dict[str, Supply] = {
    "the frame before": _before,
    "zeros": lambda feed: np.zeros_like(feed.stored()),
    "what the run before left": lambda feed: feed.left,
}


def _all_lines(scene: BoardScene) -> int:
    """Of the largest input."""
    spans = [scene.address(name) for name in scene.program.inputs]
    return max(line_count(start, end - start) for start, end in spans)


def _most_lines(scene: BoardScene) -> int:
    """As far as the cache can hold them."""
    return min(_all_lines(scene), CACHE_BYTES // LINE_BYTES)


def _stale_near(scene: BoardScene, place: float, width: float) -> Iterator[BoardFault]:
    low, high = max(1, int(place - width)), int(place + width) + 1
    step = max(1, (high - low) // _COARSE)
    for lines in range(low, min(high, _most_lines(scene)) + 1, step):
        yield from _stale_faults(scene, lines)


def _stale_faults(scene: BoardScene, lines: int, rare: bool = False) -> Iterator[BoardFault]:
    name = scene.program.inputs[0]
    start, end = scene.address(name)
    count = end - start - tail_start(start, end - start, lines)
    for words, old in _OLD.items():
        text = f"the last {count} bytes are {words}"
        fetch = _stale(scene, lines, old)
        yield BoardFault(text, fetch=fetch, parameter=lines, variant=words, rare=rare)


def _stale_tails(scene: BoardScene) -> Iterator[BoardFault]:
    most = _most_lines(scene)
    grid = {most, *(2**n for n in range(11) if 2**n <= most)}
    usual = {most, *(4**n for n in range(6))}
    grid.update(np.linspace(1, most, _COARSE).astype(int).tolist())
    for lines in sorted(grid):
        yield from _stale_faults(scene, lines, rare=lines not in usual)


@cause(
    "input-stale-cache",
    FaultPlace.INPUT,
    "clean the D-cache over the input buffer (aligned to 32 bytes) after the CPU wrote it; "
    "invalidating instead loses what was written",
    often=6,
    near=_stale_near,
)
def stale(scene: BoardScene) -> Iterator[BoardFault]:
    """The CPU's last writes to the input are still in its cache."""
    for words, old in _OLD.items():
        yield BoardFault(f"all of it is {words}", fetch=old)
    yield from _stale_tails(scene)


def _written_so(scene: BoardScene, faults: Iterable[BoardFault]) -> Iterator[BoardFault]:
    """The program wrote itself what stale lines would leave: no run tells the two apart. Rows of
    two frames are a torn frame, and all of it another input: causes of their own."""
    for fault in faults:
        if fault.parameter == _all_lines(scene):
            continue

        def supply(feed: Feed, stale: Supply | None = fault.fetch) -> Array | None:
            stored = None if stale is None else stale(feed)
            return None if stored is None or _is_torn(feed, stored) else stored

        yield replace(fault, fetch=None, supply=supply)


def _is_torn(feed: Feed, stored: Array) -> bool:
    if feed.values.ndim != 4 or feed.before is None:
        return False
    rows = feed.logical(stored)
    parts = [(rows == frame).all(axis=(0, 2, 3)) for frame in (feed.values, feed.before)]
    return bool(np.logical_or(*parts).all())


@cause(
    "input-stale-line",
    FaultPlace.INPUT,
    "clean the D-cache over the whole input buffer after the CPU wrote it: a line stays behind "
    "where the range is short, or where somebody else writes the same line",
    often=1,
)
def stale_line(scene: BoardScene) -> Iterator[BoardFault]:
    """One line of the CPU's cache inside of the input was not written back."""
    name = scene.program.inputs[0]
    base, end = scene.address(name)
    count = line_count(base, end - base)
    if count > MOST_SINGLE_LINES:
        return
    for line in range(count - 1):  # the last one is a tail
        first = max(0, (base // LINE_BYTES + line) * LINE_BYTES - base)
        last = (base // LINE_BYTES + line + 1) * LINE_BYTES - base
        for words, old in _OLD.items():

            def fetch(
                feed: Feed, first: int = first, last: int = last, old: Supply = old
            ) -> Array | None:
                before = old(feed)
                if feed.buffer.name != name or before is None:
                    return None
                mixed = feed.stored().view(np.uint8).copy()
                mixed[first:last] = np.ascontiguousarray(before).view(np.uint8)[first:last]
                return mixed.view(feed.values.dtype)

            text = f"bytes {first} to {last} of '{name}' are {words}"
            yield BoardFault(text, fetch=fetch, rare=True)


MOST_SINGLE_LINES = 256


@cause(
    "input-part",
    FaultPlace.INPUT,
    "write the whole input buffer: compare the length of the copy with the buffer's size, and "
    "the end of the picture with that of the PC (bars, padding)",
    near=lambda scene, place, width: _written_so(scene, _stale_near(scene, place, width)),
)
def part(scene: BoardScene) -> Iterator[BoardFault]:
    """The program writes only the first part of the input, or one that ends in zeros."""
    yield from _written_so(scene, _stale_tails(scene))


def _rows_near(scene: BoardScene, place: float, width: float) -> Iterator[BoardFault]:
    rows = _rows(scene)
    low, high = max(1, int(place - width)), min(rows - 1, int(place + width) + 1)
    for row in range(low, high + 1, max(1, (high - low) // _COARSE)):
        yield from _torn_faults(row)


def _rows(scene: BoardScene) -> int:
    shapes = [scene.buffers[name].shape for name in scene.program.inputs]
    return max((shape[1] for shape in shapes if len(shape) == 4), default=0)


def _torn_faults(row: int, rare: bool = False) -> Iterator[BoardFault]:
    for above in (True, False):

        def fetch(feed: Feed, above: bool = above) -> Array | None:
            if feed.values.ndim != 4 or feed.before is None:
                return None
            new = np.arange(feed.values.shape[1]) < row
            keep = (new if above else ~new)[None, :, None, None]
            return feed.stored(np.where(keep, feed.values, feed.before))

        part = "below" if above else "above"
        text = f"the frame before {part} row {row}"
        yield BoardFault(text, supply=fetch, parameter=row, variant=part, rare=rare)


@cause(
    "input-torn",
    FaultPlace.INPUT,
    "use two frame buffers, and hand over a whole one",
    often=1,
    near=_rows_near,
)
def torn(scene: BoardScene) -> Iterator[BoardFault]:
    """The camera writes the next frame during the run: the picture is of two frames."""
    rows = _rows(scene)
    grid = sorted({*np.linspace(1, max(1, rows - 1), _COARSE).astype(int).tolist()})
    for number, row in enumerate(grid):
        yield from _torn_faults(row, rare=bool(number % _RARE_ROWS)) if rows > 1 else ()


def _bytes_near(scene: BoardScene, place: float, width: float) -> Iterator[BoardFault]:
    low, high = max(1, int(place - width)), min(_bytes(scene) - 1, int(place + width) + 1)
    for byte in range(low, high + 1, max(1, (high - low) // _COARSE)):
        yield from _torn_inside(byte)


def _bytes(scene: BoardScene) -> int:
    """Of the largest picture."""
    pictures = [n for n in scene.program.inputs if len(scene.buffers[n].shape) == 4]
    spans = [scene.address(name) for name in pictures]
    return max((end - start for start, end in spans), default=0)


def _torn_inside(byte: int, rare: bool = False) -> Iterator[BoardFault]:
    for behind in (True, False):

        def supply(feed: Feed, behind: bool = behind) -> Array | None:
            if feed.values.ndim != 4 or feed.before is None:
                return None
            new, old = feed.stored().view(np.uint8), feed.stored(feed.before).view(np.uint8)
            row = new.size // (feed.values.shape[0] * feed.values.shape[1])
            if not 0 < byte < new.size or byte % row == 0:
                return None  # between two rows: a cause of its own
            is_new = (np.arange(new.size) < byte) == behind
            return np.where(is_new, new, old).astype(np.uint8).view(feed.values.dtype)

        part = "from byte {} on" if behind else "up to byte {}"
        text = f"the frame before {part.format(byte)}, inside of a row"
        yield BoardFault(text, supply=supply, parameter=byte, variant=part, rare=rare)


@cause(
    "input-torn-inside",
    FaultPlace.INPUT,
    "use two frame buffers, and hand over a whole one",
    near=_bytes_near,
)
def torn_inside(scene: BoardScene) -> Iterator[BoardFault]:
    """The camera writes the next frame during the run: it got as far as the middle of a row."""
    size = _bytes(scene)
    if size > 1 and scene.has_frames_before:
        name = scene.program.inputs[0]
        start, end = scene.address(name)
        tails = (tail_start(start, end - start, 2**n) for n in range(11))
        grid = {*np.linspace(1, size - 1, _COARSE).astype(int).tolist(), *tails}
        for number, byte in enumerate(sorted(grid - {0})):
            yield from _torn_inside(byte, rare=bool(number % _RARE_ROWS))
