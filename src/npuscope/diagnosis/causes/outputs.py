"""Outputs that the program reads otherwise than the NPU wrote them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from npuscope.diagnosis.causes.lines import LINE_BYTES, head_end, line_count, tail_start
from npuscope.diagnosis.causes.registry import FaultPlace, cause
from npuscope.diagnosis.fault import BoardFault, Drain, Drained
from npuscope.diagnosis.scene import BoardScene
from npuscope.diagnosis.sights import Array
from npuscope.program.model import Buffer

_COARSE = 24
Extent = Callable[[Drain], int]


@cause(
    "output-late",
    FaultPlace.OUTPUT,
    "wait for the end of the run before reading the outputs; with two buffers, take the one that "
    "the run wrote",
    often=2,
)
def late(scene: BoardScene) -> Iterator[BoardFault]:
    """The program reads the result of the run before: it is one inference late."""
    yield BoardFault(
        "the outputs of the frame before", settle=lambda drain: drain.before, untouched=("outputs",)
    )


def _partly(old: Drained, start: Extent, end: Extent) -> Drained:
    """Old bytes from `start` to `end`, which depend on the buffer."""

    def read(drain: Drain) -> Array | None:
        before = old(drain)
        if before is None:
            return None
        raw, other = drain.values.view(np.uint8), np.ascontiguousarray(before).view(np.uint8)
        place = np.arange(raw.size)
        stale = (place >= start(drain)) & (place < end(drain))
        return np.where(stale, other, raw).astype(np.uint8).view(drain.values.dtype)

    return read


_OLD: dict[str, Drained] = {
    "of the run before": lambda drain: drain.before,
    "zeros": lambda drain: np.zeros_like(drain.values),
}


def _lines(scene: BoardScene) -> int:
    spans = [scene.address(name) for name in scene.program.outputs]
    return max(line_count(start, end - start) for start, end in spans)


def _stale_faults(scene: BoardScene, lines: int) -> Iterator[BoardFault]:
    """Whole lines at either end, and what the buffer has of the first and the last one."""

    def start(drain: Drain) -> int:
        return tail_start(scene.address(drain.buffer.name)[0], drain.values.nbytes, lines)

    def end(drain: Drain) -> int:
        return head_end(scene.address(drain.buffer.name)[0], drain.values.nbytes, lines)

    first, last = scene.address(scene.program.outputs[0])
    size = last - first
    for words, old in _OLD.items():
        text = f"the last {size - tail_start(first, size, lines)} bytes are {words}"
        yield BoardFault(text, read=_partly(old, start, _size), parameter=lines)
        text = f"the first {head_end(first, size, lines)} bytes are {words}"
        yield BoardFault(text, read=_partly(old, _nought, end), parameter=lines)


def _stale_near(scene: BoardScene, place: float, width: float) -> Iterator[BoardFault]:
    low, high = max(1, int(place - width)), min(_lines(scene), int(place + width) + 1)
    for lines in range(low, high + 1, max(1, (high - low) // _COARSE)):
        yield from _stale_faults(scene, lines)


def _size(drain: Drain) -> int:
    return int(drain.values.nbytes)


def _nought(_drain: Drain) -> int:
    return 0


def _ragged_faults(count: int) -> Iterator[BoardFault]:
    """The program reads into a buffer of its own that is not aligned: a part of a line is old."""

    def start(drain: Drain) -> int:
        return _size(drain) - count

    part = count / LINE_BYTES
    for words, old in _OLD.items():
        text = f"the last {count} bytes are {words}: the buffer does not end on a cache line"
        yield BoardFault(text, read=_partly(old, start, _size), parameter=part)
        text = f"the first {count} bytes are {words}: the buffer does not begin on a cache line"
        yield BoardFault(text, read=_partly(old, _nought, lambda _drain: count), parameter=part)


@cause(
    "output-stale-cache",
    FaultPlace.OUTPUT,
    "invalidate the D-cache over the output buffer (aligned to 32 bytes) after the run, before "
    "the program reads it",
    often=5,
    near=_stale_near,
)
def stale(scene: BoardScene) -> Iterator[BoardFault]:
    """The CPU's cache still holds what was in the output buffer before."""
    for words, old in _OLD.items():
        yield BoardFault(f"all bytes are {words}", read=old, untouched=("outputs",))
    most = _lines(scene)
    grid = {*np.linspace(1, most, min(most, _COARSE)).astype(int).tolist()}
    for lines in sorted(grid):
        yield from _stale_faults(scene, lines)
    largest = max(scene.buffers[name].size_bytes for name in scene.program.outputs)
    for count in range(1, min(LINE_BYTES, largest)):
        yield from _ragged_faults(count)


@cause(
    "output-blocked",
    FaultPlace.OUTPUT,
    "let the CPU read the bank of the output: security attributes (RIF, RISAF) and clock",
    often=2,
)
def blocked(scene: BoardScene) -> Iterator[BoardFault]:
    """The CPU may not read the output buffer and gets zeros."""
    yield BoardFault("the CPU reads zeros", read=lambda drain: np.zeros_like(drain.values))


@cause(
    "output-signed",
    FaultPlace.OUTPUT,
    "read the output with the element type that the build states",
    often=3,
)
def signed(scene: BoardScene) -> Iterator[BoardFault]:
    """The output is read as uint8 where it is int8, or the reverse."""

    def flipped(drain: Drain) -> Array | None:
        if drain.values.dtype.itemsize != 1:
            return None
        return (drain.values.view(np.uint8) ^ 0x80).view(drain.values.dtype)

    def other(buffer: Buffer, values: Array) -> Array:
        kind = np.uint8 if values.dtype == np.int8 else np.int8
        return _decoded(buffer, values.view(kind) if values.dtype.itemsize == 1 else values)

    yield BoardFault("the top bit of each byte is flipped", read=flipped)
    yield BoardFault("bytes are taken for the other type", decode=other)


def _decoded(buffer: Buffer, values: Array) -> Array:
    if buffer.quant is None:
        return values.astype(np.float64)
    return (values.astype(np.float64) - buffer.quant.zero_point) * buffer.quant.scale


@cause(
    "output-scale",
    FaultPlace.OUTPUT,
    "decode with (value - zero point) * scale of this output, once",
    often=3,
)
def scale(scene: BoardScene) -> Iterator[BoardFault]:
    """The output is decoded with another scale or zero point, or twice; its bytes are right."""
    rows: dict[str, Callable[[Buffer, Array], Array]] = {
        "not decoded at all": lambda buffer, values: values.astype(np.float64),
        "decoded without the zero point": lambda buffer, values: values * _scale(buffer),
        "decoded without the scale": lambda buffer, values: (
            _decoded(buffer, values) / _scale(buffer)
        ),
        "decoded twice": lambda buffer, values: _decoded(buffer, _decoded(buffer, values)),
        "decoded with scale 1/255": lambda buffer, values: values / 255.0,
        "decoded with scale 1/256": lambda buffer, values: values / 256.0,
        "decoded with scale 1/256 and zero point -128": lambda buffer, values: (
            (values + 128.0) / 256
        ),
        "the zero point is added instead of subtracted": lambda buffer, values: (
            (values.astype(np.float64) + _zero(buffer)) * _scale(buffer)
        ),
    }
    for name in scene.program.outputs:
        own = scene.buffers[name]
        if own.quant is not None and len(scene.program.outputs) > 1:
            rows[f"decoded as output '{name}'"] = lambda buffer, values, own=own: _decoded(  # type: ignore[misc]
                own, values
            )
    for words, decode in rows.items():
        yield BoardFault(words, decode=decode)


def _scale(buffer: Buffer) -> float:
    return buffer.quant.scale if buffer.quant else 1.0


def _zero(buffer: Buffer) -> float:
    return buffer.quant.zero_point if buffer.quant else 0.0


@cause(
    "output-order",
    FaultPlace.OUTPUT,
    "read outputs in the order, and with the axes, that the build's descriptors state",
    often=2,
)
def order(scene: BoardScene) -> Iterator[BoardFault]:
    """The outputs are read in another order: exchanged, or with channels first instead of last."""

    def planes(drain: Drain) -> Array | None:
        shape = drain.buffer.shape
        if len(shape) < 3 or shape[-1] == 1:
            return None
        values = drain.values.reshape(shape)
        return np.moveaxis(values, -1, 1).reshape(-1)

    def pixels(drain: Drain) -> Array | None:
        shape = drain.buffer.shape
        if len(shape) < 3 or shape[-1] == 1:
            return None
        values = drain.values.reshape(shape[0], shape[-1], *shape[1:-1])
        return np.moveaxis(values, 1, -1).reshape(-1)

    yield BoardFault("read channel by channel", read=planes)
    yield BoardFault("read pixel by pixel", read=pixels)
    yield BoardFault("read from the end", read=lambda drain: drain.values[::-1].copy())
    names = scene.program.outputs
    for step in range(1, min(len(names), 6)):
        yield BoardFault(
            f"each output taken for the one {step} further on", read=_swapped(names, step)
        )


def _swapped(names: tuple[str, ...], step: int) -> Drained:
    def read(drain: Drain) -> Array | None:
        other = names[(names.index(drain.buffer.name) + step) % len(names)]
        raw = np.ascontiguousarray(drain.others[other]).view(np.uint8)
        wanted = drain.values.nbytes
        return raw[:wanted].copy().view(drain.values.dtype) if raw.size >= wanted else None

    return read


@cause(
    "output-width",
    FaultPlace.OUTPUT,
    "read the output with the element width that the build states",
    often=2,
)
def width(scene: BoardScene) -> Iterator[BoardFault]:
    """The output is read with another element width, or from a wrong offset."""

    def offset(count: int) -> Drained:
        def read(drain: Drain) -> Array | None:
            raw = drain.values.view(np.uint8)
            if abs(count) >= raw.size:
                return None
            moved = np.zeros_like(raw)
            if count > 0:
                moved[:-count] = raw[count:]
            else:
                moved[-count:] = raw[:count]
            return moved.view(drain.values.dtype)

        return read

    def spread(count: int) -> Drained:
        """One element of each `count`: wider elements were expected."""

        def read(drain: Drain) -> Array | None:
            values = drain.values[::count]
            return np.concatenate([values, np.zeros(drain.values.size - values.size)]).astype(
                drain.values.dtype
            )

        return read

    for count in (1, 2, 4, 8, 16, 32, -1, -2, -4, -8, -16, -32):
        yield BoardFault(
            f"read {abs(count)} bytes too {'late' if count > 0 else 'early'}", read=offset(count)
        )
    for count in (2, 4):
        yield BoardFault(f"every {count}. element read", read=spread(count))
