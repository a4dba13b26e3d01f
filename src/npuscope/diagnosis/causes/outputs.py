"""Outputs that the program reads otherwise than the NPU wrote them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from npuscope.diagnosis.causes.inputs import LINE_BYTES
from npuscope.diagnosis.causes.registry import CauseKind, cause
from npuscope.diagnosis.fault import Drain, Drained, Fault
from npuscope.diagnosis.scene import Scene
from npuscope.diagnosis.sights import Array
from npuscope.program.model import Buffer

_COARSE = 24


@cause(
    "output-late",
    CauseKind.OUTPUT,
    "wait for the end of the run before reading the outputs; with two buffers, take the one that "
    "the run wrote",
    often=2,
)
def late(scene: Scene) -> Iterator[Fault]:
    """The program reads the result of the run before: it is one inference late."""
    yield Fault(
        "the outputs of the frame before", settle=lambda drain: drain.before, untouched=("outputs",)
    )


def _tail(lines: int, old: Drained) -> Drained:
    def read(drain: Drain) -> Array | None:
        before = old(drain)
        if before is None:
            return None
        raw, other = drain.values.view(np.uint8), np.ascontiguousarray(before).view(np.uint8)
        start = max(0, -(-raw.size // LINE_BYTES) - lines) * LINE_BYTES
        mixed = np.where(np.arange(raw.size) < start, raw, other).astype(np.uint8)
        return mixed.view(drain.values.dtype)

    return read


def _head(lines: int, old: Drained) -> Drained:
    def read(drain: Drain) -> Array | None:
        before = old(drain)
        if before is None:
            return None
        raw, other = drain.values.view(np.uint8), np.ascontiguousarray(before).view(np.uint8)
        fresh = np.arange(raw.size) >= lines * LINE_BYTES
        return np.where(fresh, raw, other).astype(np.uint8).view(drain.values.dtype)

    return read


_OLD: dict[str, Drained] = {
    "of the run before": lambda drain: drain.before,
    "zeros": lambda drain: np.zeros_like(drain.values),
}


def _lines(scene: Scene) -> int:
    sizes = [scene.buffers[name].size_bytes for name in scene.program.outputs]
    return -(-max(sizes) // LINE_BYTES)


def _stale_faults(lines: int) -> Iterator[Fault]:
    for words, old in _OLD.items():
        count = lines * LINE_BYTES
        yield Fault(f"the last {count} bytes are {words}", read=_tail(lines, old), parameter=lines)
        yield Fault(f"the first {count} bytes are {words}", read=_head(lines, old), parameter=lines)


def _stale_near(scene: Scene, place: float, width: float) -> Iterator[Fault]:
    low, high = max(1, int(place - width)), min(_lines(scene), int(place + width) + 1)
    for lines in range(low, high + 1, max(1, (high - low) // _COARSE)):
        yield from _stale_faults(lines)


@cause(
    "output-stale-cache",
    CauseKind.OUTPUT,
    "invalidate the D-cache over the output buffer (aligned to 32 bytes) after the run, before "
    "the program reads it",
    often=5,
    near=_stale_near,
)
def stale(scene: Scene) -> Iterator[Fault]:
    """The CPU's cache still holds what was in the output buffer before."""
    for words, old in _OLD.items():
        yield Fault(f"all bytes are {words}", read=old, untouched=("outputs",))
    most = _lines(scene)
    grid = {*np.linspace(1, most, min(most, _COARSE)).astype(int).tolist()}
    for lines in sorted(grid):
        yield from _stale_faults(lines)


@cause(
    "output-blocked",
    CauseKind.OUTPUT,
    "let the CPU read the bank of the output: security attributes (RIF, RISAF) and clock",
    often=2,
)
def blocked(scene: Scene) -> Iterator[Fault]:
    """The CPU may not read the output buffer and gets zeros."""
    yield Fault("the CPU reads zeros", read=lambda drain: np.zeros_like(drain.values))


@cause(
    "output-signed",
    CauseKind.OUTPUT,
    "read the output with the element type that the build states",
    often=3,
)
def signed(scene: Scene) -> Iterator[Fault]:
    """The output is read as uint8 where it is int8, or the reverse."""

    def flipped(drain: Drain) -> Array | None:
        if drain.values.dtype.itemsize != 1:
            return None
        return (drain.values.view(np.uint8) ^ 0x80).view(drain.values.dtype)

    def other(buffer: Buffer, values: Array) -> Array:
        kind = np.uint8 if values.dtype == np.int8 else np.int8
        return _decoded(buffer, values.view(kind) if values.dtype.itemsize == 1 else values)

    yield Fault("the top bit of each byte is flipped", read=flipped)
    yield Fault("bytes are taken for the other type", decode=other)


def _decoded(buffer: Buffer, values: Array) -> Array:
    if buffer.quant is None:
        return values.astype(np.float64)
    return (values.astype(np.float64) - buffer.quant.zero_point) * buffer.quant.scale


@cause(
    "output-scale",
    CauseKind.OUTPUT,
    "decode with (value - zero point) * scale of this output, once",
    often=3,
)
def scale(scene: Scene) -> Iterator[Fault]:
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
        yield Fault(words, decode=decode)


def _scale(buffer: Buffer) -> float:
    return buffer.quant.scale if buffer.quant else 1.0


def _zero(buffer: Buffer) -> float:
    return buffer.quant.zero_point if buffer.quant else 0.0


@cause(
    "output-order",
    CauseKind.OUTPUT,
    "read outputs in the order, and with the axes, that the build's descriptors state",
    often=2,
)
def order(scene: Scene) -> Iterator[Fault]:
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

    yield Fault("read channel by channel", read=planes)
    yield Fault("read pixel by pixel", read=pixels)
    yield Fault("read from the end", read=lambda drain: drain.values[::-1].copy())
    names = scene.program.outputs
    for step in range(1, min(len(names), 6)):
        yield Fault(f"each output taken for the one {step} further on", read=_swapped(names, step))


def _swapped(names: tuple[str, ...], step: int) -> Drained:
    def read(drain: Drain) -> Array | None:
        other = names[(names.index(drain.buffer.name) + step) % len(names)]
        raw = np.ascontiguousarray(drain.others[other]).view(np.uint8)
        wanted = drain.values.nbytes
        return raw[:wanted].copy().view(drain.values.dtype) if raw.size >= wanted else None

    return read


@cause(
    "output-width",
    CauseKind.OUTPUT,
    "read the output with the element width that the build states",
    often=2,
)
def width(scene: Scene) -> Iterator[Fault]:
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
        yield Fault(
            f"read {abs(count)} bytes too {'late' if count > 0 else 'early'}", read=offset(count)
        )
    for count in (2, 4):
        yield Fault(f"every {count}. element read", read=spread(count))
