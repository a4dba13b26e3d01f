"""Inputs that are not what the network was trained on, or not what the application wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from npuscope.diagnosis.causes.registry import CauseKind, cause
from npuscope.diagnosis.fault import Fault, Feed, Supply
from npuscope.diagnosis.scene import Scene
from npuscope.diagnosis.sights import Array
from npuscope.graph.model import Quant

LINE_BYTES = 32
CACHE_BYTES = 32 << 10
_PITCHES = (16, 32, 64, 128)
_COARSE = 24


def _targets(scene: Scene) -> Iterator[tuple[str, frozenset[str]]]:
    """All inputs, then each of several."""
    names = scene.program.inputs
    yield "", frozenset(names)
    if 1 < len(names) <= 4:
        for name in names:
            yield f" of input '{name}'", frozenset((name,))


def _on(names: frozenset[str], change: Supply) -> Supply:
    """A change of some inputs; others, and those that it does not apply to, stay as they are."""

    def supply(feed: Feed) -> Array | None:
        return change(feed) if feed.buffer.name in names else feed.stored()

    return supply


def _pictures(change: Callable[[Array], Array]) -> Supply:
    """A change of (N, H, W, C), written in the order of memory."""

    def supply(feed: Feed) -> Array | None:
        return feed.stored(change(feed.values)) if feed.values.ndim == 4 else feed.stored()

    return supply


def _supplied(scene: Scene, rows: dict[str, Supply]) -> Iterator[Fault]:
    for place, names in _targets(scene):
        for words, change in rows.items():
            yield Fault(words + place, supply=_on(names, change))


@cause(
    "input-layout",
    CauseKind.INPUT,
    "write the input in the order that the build's input descriptor states",
    often=3,
)
def layout(scene: Scene) -> Iterator[Fault]:
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
    yield from _supplied(scene, rows)


@cause("input-bgr", CauseKind.INPUT, "swap red and blue in the camera pipe or the copy", often=2)
def bgr(scene: Scene) -> Iterator[Fault]:
    """Red and blue are swapped."""
    yield from _supplied(scene, {"channels in reverse order": _pictures(lambda v: v[..., ::-1])})


@cause(
    "input-turned",
    CauseKind.INPUT,
    "turn or mirror the picture as the network was trained, or swap height and width",
    often=2,
)
def turned(scene: Scene) -> Iterator[Fault]:
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
    yield from _supplied(scene, {words: _pictures(change) for words, change in changes.items()})


@cause(
    "input-pitch",
    CauseKind.INPUT,
    "copy row by row, without the bytes that the camera pipe adds at the end of each row",
    often=2,
)
def pitch(scene: Scene) -> Iterator[Fault]:
    """Rows of the picture are longer in memory than the network reads them."""

    def padded(bytes_: int) -> Supply:
        def supply(feed: Feed) -> Array | None:
            if feed.values.ndim != 4 or 0 < feed.buffer.batch < feed.values.shape[-1]:
                return feed.stored()
            stored = feed.stored().view(np.uint8)
            row = stored.size // (feed.values.shape[0] * feed.values.shape[1])
            step = -(-row // bytes_) * bytes_
            if step == row:
                return feed.stored()
            lines = stored.reshape(-1, row)
            wide = np.zeros((lines.shape[0], step), np.uint8)
            wide[:, :row] = lines
            return np.ascontiguousarray(wide.reshape(-1)[: stored.size]).view(feed.values.dtype)

        return supply

    yield from _supplied(scene, {f"rows padded to {n} bytes": padded(n) for n in _PITCHES})


@cause(
    "input-format",
    CauseKind.INPUT,
    "let the camera pipe convert to RGB888, or convert before the copy",
    often=2,
)
def colour_format(scene: Scene) -> Iterator[Fault]:
    """The bytes are of another colour format (YUV, RGB565, grey) than the network reads."""
    rows: dict[str, Supply] = {}
    for words, encode in _FORMATS.items():
        rows[words] = _pixels(encode)
    yield from _supplied(scene, rows)


def _pixels(encode: Callable[[Array], Array]) -> Supply:
    """Pixels of 0 to 255 encoded otherwise; bytes that are missing at the end are zero."""

    def supply(feed: Feed) -> Array | None:
        values = feed.values
        if values.ndim != 4 or values.shape[-1] != 3 or values.dtype.itemsize != 1:
            return feed.stored()
        flip = 128 if values.dtype == np.int8 else 0
        rgb = (values.view(np.uint8) ^ flip).astype(np.int32)
        encoded = encode(rgb).reshape(-1)
        result = np.zeros(values.size, np.uint8)
        result[: encoded.size] = encoded[: values.size]
        return (result ^ flip).view(values.dtype)

    return supply


def _yuv(rgb: Array) -> tuple[Array, Array, Array]:
    """BT.601, limited range, as camera pipes give it."""
    red, green, blue = (rgb[..., i] for i in range(3))
    luma = (66 * red + 129 * green + 25 * blue + 128 >> 8) + 16
    u = (-38 * red - 74 * green + 112 * blue + 128 >> 8) + 128
    v = (112 * red - 94 * green - 18 * blue + 128 >> 8) + 128
    return tuple(part.clip(0, 255).astype(np.uint8) for part in (luma, u, v))


def _yuyv(rgb: Array) -> Array:
    luma, u, v = (part.reshape(-1) for part in _yuv(rgb))
    chroma = np.where(np.arange(luma.size) % 2 == 0, u, v).astype(np.uint8)
    return np.stack([luma, chroma], -1)


def _rgb565(rgb: Array) -> Array:
    word = (rgb[..., 0] >> 3 << 11 | rgb[..., 1] >> 2 << 5 | rgb[..., 2] >> 3).astype("<u2")
    return np.ascontiguousarray(word).reshape(-1).view(np.uint8)


_FORMATS: dict[str, Callable[[Array], Array]] = {
    "YUV 4:4:4 words (U, Y, V)": lambda rgb: np.stack([_yuv(rgb)[i] for i in (1, 0, 2)], -1),
    "YUV 4:4:4 words (Y, U, V)": lambda rgb: np.stack(_yuv(rgb), -1),
    "YUV 4:2:2 (YUYV)": _yuyv,
    "YUV 4:2:2 (UYVY)": lambda rgb: _yuyv(rgb)[:, ::-1],
    "RGB565": _rgb565,
    "RGB565, bytes swapped": lambda rgb: _rgb565(rgb).reshape(-1, 2)[:, ::-1],
    "RGBA8888": lambda rgb: np.concatenate([rgb, np.full_like(rgb[..., :1], 255)], -1).astype(
        np.uint8
    ),
    "grey, one byte per pixel": lambda rgb: _yuv(rgb)[0],
}


@cause(
    "input-signed",
    CauseKind.INPUT,
    "subtract 128 from each byte (flip its top bit): the network wants int8, pixels are uint8",
    often=5,
)
def signed(scene: Scene) -> Iterator[Fault]:
    """Bytes of uint8 are given where int8 is wanted, or the reverse."""

    def flipped(feed: Feed) -> Array | None:
        if feed.values.dtype.itemsize != 1:
            return feed.stored()
        return (feed.stored().view(np.uint8) ^ 0x80).view(feed.values.dtype)

    yield from _supplied(scene, {"the top bit of each byte flipped": flipped})


@cause(
    "input-scale",
    CauseKind.INPUT,
    "quantize the input with the scale and zero point of this network's input",
    often=4,
)
def scale(scene: Scene) -> Iterator[Fault]:
    """The input was normalised or quantized in another way than the network wants."""
    rows: dict[str, Supply] = {}
    for words, change in _RANGES.items():
        rows[words] = _requantized(change)
    yield from _supplied(scene, rows)


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
}


@cause(
    "input-constant",
    CauseKind.INPUT,
    "check that the front end ran before the network, and that it writes into the input buffer",
    often=4,
)
def constant(scene: Scene) -> Iterator[Fault]:
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
    yield from _supplied(scene, rows)


@cause(
    "input-address",
    CauseKind.INPUT,
    "ask the runtime for the address of the input buffer, and fill that one",
    often=3,
)
def address(scene: Scene) -> Iterator[Fault]:
    """The application fills another address: the NPU runs on what the run before left there."""
    for place, names in _targets(scene):
        words = f"the input buffer holds what the run before left{place}"
        left = _on(names, lambda feed: feed.left)
        yield Fault(words, supply=left, untouched=("inputs",))
        words = f"the input buffer is never written and holds zeros{place}"
        zeros = _on(names, lambda feed: np.zeros_like(feed.stored()))
        yield Fault(words, supply=zeros, untouched=("inputs",))


@cause(
    "input-destroyed",
    CauseKind.INPUT,
    "fill the input before every run: this build lets other buffers overwrite it",
    often=3,
)
def destroyed(scene: Scene) -> Iterator[Fault]:
    """The network ran again without a new input, which its first run had overwritten."""

    def leftover(feed: Feed) -> Array | None:
        own = scene.left_by(feed)
        return None if own is None or np.array_equal(own, feed.stored()) else own

    yield Fault("a second run on what the first one left of the input", fetch=leftover)


@cause(
    "input-late",
    CauseKind.INPUT,
    "start the run only when the new frame is complete, and read the result only after it ended",
    often=2,
)
def late(scene: Scene) -> Iterator[Fault]:
    """The NPU gets the frame before."""
    for place, names in _targets(scene):
        yield Fault(f"the frame before{place}", supply=_on(names, _before))


def _before(feed: Feed) -> Array | None:
    return None if feed.before is None else feed.stored(feed.before)


def _mixed(feed: Feed, fresh: Array, old: Array | None) -> Array | None:
    """The new bytes where `fresh`, else the old ones."""
    if old is None:
        return None
    raw, other = feed.stored().view(np.uint8), np.ascontiguousarray(old).view(np.uint8)
    return np.where(fresh, raw, other).astype(np.uint8).view(feed.values.dtype)


def _zeros(feed: Feed) -> Array | None:
    return np.zeros_like(feed.stored())


def _stale(tail_bytes: int, old: Supply) -> Supply:
    """The last bytes, in whole cache lines, are not in RAM yet."""

    def fetch(feed: Feed) -> Array | None:
        raw = feed.stored().view(np.uint8)
        start = max(0, raw.size - tail_bytes) // LINE_BYTES * LINE_BYTES
        return _mixed(feed, np.arange(raw.size) < start, old(feed))

    return fetch


_OLD: dict[str, Supply] = {
    "the frame before": _before,
    "zeros": _zeros,
    "what the run before left": lambda feed: feed.left,
}


def _largest(scene: Scene) -> int:
    return max(scene.buffers[name].size_bytes for name in scene.program.inputs)


def _stale_near(scene: Scene, place: float, width: float) -> Iterator[Fault]:
    low, high = max(1, int(place - width)), int(place + width) + 1
    step = max(1, (high - low) // _COARSE)
    most = -(-min(_largest(scene), CACHE_BYTES) // LINE_BYTES)
    for lines in range(low, min(high, most) + 1, step):
        yield from _stale_faults(lines)


def _stale_faults(lines: int) -> Iterator[Fault]:
    for words, old in _OLD.items():
        text = f"the last {lines * LINE_BYTES} bytes are {words}"
        yield Fault(text, fetch=_stale(lines * LINE_BYTES, old), parameter=lines)


@cause(
    "input-stale-cache",
    CauseKind.INPUT,
    "clean the D-cache over the input buffer (aligned to 32 bytes) after the CPU wrote it; "
    "invalidating instead loses what was written",
    often=6,
    near=_stale_near,
)
def stale(scene: Scene) -> Iterator[Fault]:
    """The CPU's last writes to the input are still in its cache."""
    most = -(-min(_largest(scene), CACHE_BYTES) // LINE_BYTES)
    grid = {*np.linspace(1, most, _COARSE).astype(int).tolist(), most}
    grid |= {2**n for n in range(11) if 2**n <= most}
    for words, old in _OLD.items():
        yield Fault(f"all of it is {words}", fetch=_stale(_largest(scene), old))
    for lines in sorted(grid):
        yield from _stale_faults(lines)


def _rows_near(scene: Scene, place: float, width: float) -> Iterator[Fault]:
    rows = _rows(scene)
    low, high = max(1, int(place - width)), min(rows - 1, int(place + width) + 1)
    for row in range(low, high + 1, max(1, (high - low) // _COARSE)):
        yield from _torn_faults(row)


def _rows(scene: Scene) -> int:
    shapes = [scene.buffers[name].shape for name in scene.program.inputs]
    return max((shape[1] for shape in shapes if len(shape) == 4), default=0)


def _torn_faults(row: int) -> Iterator[Fault]:
    for above in (True, False):

        def fetch(feed: Feed, above: bool = above) -> Array | None:
            if feed.values.ndim != 4 or feed.before is None:
                return None
            new = np.arange(feed.values.shape[1]) < row
            keep = (new if above else ~new)[None, :, None, None]
            return feed.stored(np.where(keep, feed.values, feed.before))

        part = "below" if above else "above"
        yield Fault(f"the frame before {part} row {row}", supply=fetch, parameter=row)


@cause(
    "input-torn",
    CauseKind.INPUT,
    "use two frame buffers, and hand over a whole one",
    often=1,
    near=_rows_near,
)
def torn(scene: Scene) -> Iterator[Fault]:
    """The camera writes the next frame during the run: the picture is of two frames."""
    rows = _rows(scene)
    for row in sorted({*np.linspace(1, max(1, rows - 1), _COARSE).astype(int).tolist()}):
        yield from _torn_faults(row) if rows > 1 else ()
