"""Inputs that are not what the network was trained on, or not what the application wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from npuscope.diagnosis.causes.registry import FaultPlace, cause
from npuscope.diagnosis.fault import BoardFault, Feed, Supply
from npuscope.diagnosis.scene import BoardScene
from npuscope.diagnosis.sights import Array
from npuscope.graph.model import Quant

_PITCHES = (16, 32, 64, 128)
_ROW_ENDS = (4, 8, 12, 16, 24, 32, 64)  # bytes that a camera pipe or a stride adds to each row


def targets(scene: BoardScene) -> Iterator[tuple[str, frozenset[str]]]:
    """All inputs, then each of several."""
    names = scene.program.inputs
    yield "", frozenset(names)
    if 1 < len(names) <= 4:
        for name in names:
            yield f" of input '{name}'", frozenset((name,))


def on_inputs(names: frozenset[str], change: Supply) -> Supply:
    """A change of some inputs; others, and those that it does not apply to, stay as they are."""

    def supply(feed: Feed) -> Array | None:
        return change(feed) if feed.buffer.name in names else feed.stored()

    return supply


def _pictures(change: Callable[[Array], Array]) -> Supply:
    """A change of (N, H, W, C), written in the order of memory."""

    def supply(feed: Feed) -> Array | None:
        return feed.stored(change(feed.values)) if feed.values.ndim == 4 else feed.stored()

    return supply


def supplied(scene: BoardScene, rows: dict[str, Supply]) -> Iterator[BoardFault]:
    for place, names in targets(scene):
        for words, change in rows.items():
            yield BoardFault(words + place, supply=on_inputs(names, change))


@cause(
    "input-layout",
    FaultPlace.INPUT,
    "write the input in the order that the build's input descriptor states",
    often=3,
)
def layout(scene: BoardScene) -> Iterator[BoardFault]:
    """The input has its channels first where the network wants them last, or the reverse."""

    def planes(feed: Feed) -> Array | None:
        values = feed.values
        if values.ndim < 3 or values.shape[-1] == 1:
            return feed.stored()
        first = np.moveaxis(values, -1, 1).reshape(-1)
        return values.reshape(-1) if np.array_equal(first, feed.stored()) else first

    def pixels(feed: Feed) -> Array | None:
        """The same mistake on data that are channel-first already: taken for (C, H, W)."""
        values = feed.values
        if values.ndim < 3 or values.shape[-1] == 1:
            return feed.stored()
        turned = values.reshape(values.shape[0], values.shape[-1], *values.shape[1:-1])
        return feed.stored(np.ascontiguousarray(np.moveaxis(turned, 1, -1)))

    rows: dict[str, Supply] = {
        "written channel by channel instead of pixel by pixel": planes,
        "written pixel by pixel, turned as if channel by channel": pixels,
    }
    yield from supplied(scene, rows)


@cause("input-bgr", FaultPlace.INPUT, "swap red and blue in the camera pipe or the copy", often=2)
def bgr(scene: BoardScene) -> Iterator[BoardFault]:
    """Red and blue are swapped."""
    yield from supplied(scene, {"channels in reverse order": _pictures(lambda v: v[..., ::-1])})


@cause(
    "input-turned",
    FaultPlace.INPUT,
    "turn or mirror the picture as the network was trained, or swap height and width",
    often=2,
)
def turned(scene: BoardScene) -> Iterator[BoardFault]:
    """The picture is turned or mirrored."""
    changes: dict[str, Callable[[Array], Array]] = {
        "mirrored left to right": lambda v: v[:, :, ::-1],
        "upside down": lambda v: v[:, ::-1],
        "turned by 180 degrees": lambda v: v[:, ::-1, ::-1],
        "rows and columns swapped": lambda v: np.ascontiguousarray(v.swapaxes(1, 2)).reshape(
            v.shape
        ),
        "turned by 90 degrees": lambda v: np.ascontiguousarray(
            v.swapaxes(1, 2)[:, :, ::-1]
        ).reshape(v.shape),
        "turned by 270 degrees": lambda v: np.ascontiguousarray(v.swapaxes(1, 2)[:, ::-1]).reshape(
            v.shape
        ),
    }
    yield from supplied(scene, {words: _pictures(change) for words, change in changes.items()})


@cause(
    "input-pitch",
    FaultPlace.INPUT,
    "copy row by row, without the bytes that the camera pipe adds at the end of each row",
    often=2,
)
def pitch(scene: BoardScene) -> Iterator[BoardFault]:
    """Rows of the picture are longer in memory than the network reads them."""

    def padded(bytes_: int, added: int = 0) -> Supply:
        def supply(feed: Feed) -> Array | None:
            if feed.values.ndim != 4 or 0 < feed.buffer.batch < feed.values.shape[-1]:
                return feed.stored()
            stored = feed.stored().view(np.uint8)
            row = stored.size // (feed.values.shape[0] * feed.values.shape[1])
            step = -(-row // bytes_) * bytes_ + added
            if step == row:
                return feed.stored()
            lines = stored.reshape(-1, row)
            wide = np.zeros((lines.shape[0], step), np.uint8)
            wide[:, :row] = lines
            return np.ascontiguousarray(wide.reshape(-1)[: stored.size]).view(feed.values.dtype)

        return supply

    yield from supplied(scene, {f"rows padded to {n} bytes": padded(n) for n in _PITCHES})
    longer = {f"{n} bytes more in each row": padded(1, n) for n in _ROW_ENDS}
    yield from supplied(scene, longer)


@cause(
    "input-signed",
    FaultPlace.INPUT,
    "subtract 128 from each byte (flip its top bit): the network wants int8, pixels are uint8",
    often=5,
)
def signed(scene: BoardScene) -> Iterator[BoardFault]:
    """Bytes of uint8 are given where int8 is wanted, or the reverse."""

    def flipped(feed: Feed) -> Array | None:
        if feed.values.dtype.itemsize != 1:
            return feed.stored()
        return (feed.stored().view(np.uint8) ^ 0x80).view(feed.values.dtype)

    yield from supplied(scene, {"the top bit of each byte flipped": flipped})


@cause(
    "input-scale",
    FaultPlace.INPUT,
    "quantize the input with the scale and zero point of this network's input",
    often=4,
)
def scale(scene: BoardScene) -> Iterator[BoardFault]:
    """The input was normalised or quantized in another way than the network wants."""
    rows: dict[str, Supply] = {}
    for words, change in _RANGES.items():
        rows[words] = _requantized(change)
    yield from supplied(scene, rows)


def _requantized(change: Callable[[Array, Quant], Array]) -> Supply:
    def supply(feed: Feed) -> Array | None:
        quant = feed.buffer.quant or Quant((1.0,), (0,))
        values = change(feed.values.astype(np.float64), quant)
        if np.ptp(np.rint(values)) == 0:
            return None  # what is left is a constant, which is a cause of its own
        if feed.values.dtype.kind == "f":
            return feed.stored(values.astype(feed.values.dtype))
        limits = np.iinfo(feed.values.dtype)
        rounded = np.rint(values).clip(limits.min, limits.max)
        return feed.stored(rounded.astype(feed.values.dtype))

    return supply


def _real(q: Array, quant: Quant) -> Array:
    return (q - quant.zero_point) * quant.scale


def _again(real: Array, quant: Quant) -> Array:
    return real / quant.scale + quant.zero_point


# What the application does, on the stored value q of the right input with its (scale, zero point).
_RANGES: dict[str, Callable[[Array, Quant], Array]] = {
    "real values stored without scale and zero point": _real,
    "the zero point left out": lambda q, t: q - t.zero_point,
    "quantized twice": _again,
    "divided by 255 once too often": lambda q, t: _again(_real(q, t) / 255, t),
    "0 to 255 instead of 0 to 1": lambda q, t: _again(_real(q, t) * 255, t),
    "0 to 1 instead of -1 to 1": lambda q, t: _again((_real(q, t) + 1) / 2, t),
    "-1 to 1 instead of 0 to 1": lambda q, t: _again(_real(q, t) * 2 - 1, t),
    "half the range": lambda q, t: _again(_real(q, t) / 2, t),
    "twice the range": lambda q, t: _again(_real(q, t) * 2, t),
    "scale 1/255, zero point -128": lambda q, t: _real(q, t) * 255 - 128,
    "scale 1/127.5, zero point -1": lambda q, t: _real(q, t) * 127.5 - 1,
    "scale 1/128, zero point 0": lambda q, t: _real(q, t) * 128,
    "mean and deviation of ImageNet applied": lambda q, t: _again((_real(q, t) - 0.449) / 0.226, t),
    "inverted": lambda q, t: -1 - q,
    "a zero point that is 1 too low": lambda q, t: q + 1,
    "a zero point that is 1 too high": lambda q, t: q - 1,
    "0 to 127 instead of -128 to 127": lambda q, t: np.floor((q + 128) / 2),
}


@cause(
    "input-constant",
    FaultPlace.INPUT,
    "check that the front end ran before the network, and that it writes into the input buffer",
    often=4,
)
def constant(scene: BoardScene) -> Iterator[BoardFault]:
    """The input is constant: nobody computes it or copies it."""
    values: dict[str, Callable[[Feed], float]] = {
        "all zero bytes": lambda feed: 0,
        "all at the zero point": lambda feed: (
            feed.buffer.quant.zero_point if feed.buffer.quant else 0
        ),
        "all 0xFF": lambda feed: -1 if feed.values.dtype.kind == "i" else 255,
        "all 0x80": lambda feed: -128 if feed.values.dtype.kind == "i" else 128,
    }
    rows: dict[str, Supply] = {
        words: (lambda feed, of=of: np.full_like(feed.stored(), of(feed)))  # type: ignore[misc]
        for words, of in values.items()
    }
    yield from supplied(scene, rows)
