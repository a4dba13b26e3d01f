"""Pictures in another colour format than the network reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from npuscope.diagnosis.causes.inputs import supplied
from npuscope.diagnosis.causes.registry import FaultPlace, cause
from npuscope.diagnosis.fault import BoardFault, Feed, Supply
from npuscope.diagnosis.scene import BoardScene
from npuscope.diagnosis.sights import Array


@cause(
    "input-format",
    FaultPlace.INPUT,
    "let the camera pipe convert to RGB888, or convert before the copy",
    often=2,
)
def colour_format(scene: BoardScene) -> Iterator[BoardFault]:
    """The bytes are of another colour format (YUV, RGB565, grey) than the network reads."""
    rows: dict[str, Supply] = {}
    for words, encode in _FORMATS.items():
        rows[words] = _pixels(encode)
    yield from supplied(scene, rows)


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
