"""Pictures as inputs: the colours, size, range and order of axes that a network takes."""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from npuscope.bounded_file import RESULT, read_bytes
from npuscope.errors import FileError, UsageError
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from PIL.Image import Image

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".tif", ".tiff")

_GREY, _RGB = 1, 3
# A picture of 8K video has 33.2 million. Pillow takes 4 bytes for each, twice where it converts.
MAX_PIXELS = 1 << 25
# What Pillow's readers of damaged files raise.
_NO_PICTURE: tuple[type[Exception], ...] = (
    *(OSError, ValueError, SyntaxError, EOFError, struct.error, LookupError, TypeError),
    *(ArithmeticError, RuntimeError, MemoryError, NotImplementedError),
)


class ImageForm(Struct, frozen=True):
    """Pixels of 0 to 255 become (pixel * `factor` - mean) / std, channel by channel."""

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    factor: float = 1 / 255
    layout: str = ""  # nchw or nhwc; without one the shape tells
    bgr: bool = False
    resize: str = "stretch"


FORMS = {
    "unit": ImageForm(),
    "signed": ImageForm(mean=(1.0,), factor=1 / 127.5),
    "uint8": ImageForm(factor=1.0),
    "mean=0.485,0.456,0.406,std=0.229,0.224,0.225": ImageForm(
        (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    ),
}


def image_form(
    mean: str | Sequence[float] | None,
    std: str | Sequence[float] | None,
    pixel_max: float,
    layout: str | None,
) -> ImageForm:
    if pixel_max <= 0:
        raise UsageError(f"expected a number above 0, found {pixel_max:g}", where="--pixel-max")
    spread = _numbers(std, "--std")
    if any(value <= 0 for value in spread):
        raise UsageError("expected numbers above 0", where="--std")
    return ImageForm(_numbers(mean, "--mean"), spread, pixel_max / 255, layout or "")


def _numbers(numbers: str | Sequence[float] | None, flag: str) -> tuple[float, ...]:
    parts = numbers.split(",") if isinstance(numbers, str) else numbers or ()
    try:
        return tuple(float(part) for part in parts)
    except ValueError:
        raise UsageError(f"expected numbers with commas, found '{numbers}'", where=flag) from None


def named_form(text: str, layout: str = "", resize: str = "stretch") -> ImageForm:
    """`--preprocess`: the name of a form, or mean=…,std=…; `,bgr` behind either swaps colours.

    Means above 2 are those of pixels from 0 to 255, smaller ones those of pixels from 0 to 1."""
    words = text.split(",")
    bgr = "bgr" in words
    rest = ",".join(word for word in words if word not in ("bgr", "rgb"))
    if rest in FORMS:
        plain = FORMS[rest]
        return ImageForm(plain.mean, plain.std, plain.factor, layout, bgr, resize)
    parts: dict[str, list[str]] = {}
    name = ""
    for word in rest.split(","):
        key, equals, value = word.rpartition("=")
        name = key if equals else name
        parts.setdefault(name, []).append(value)
    if not parts.keys() <= {"mean", "std"}:
        examples = ", ".join([*list(FORMS)[:3], "mean=…,std=…"])
        raise UsageError(
            f"unknown preprocessing '{text}'",
            where="--preprocess",
            hint=f"known: {examples}; ',bgr' behind it swaps red and blue",
        )
    mean, std = (
        _numbers(",".join(parts.get(key, [])) or None, "--preprocess") for key in ("mean", "std")
    )
    if any(value <= 0 for value in std):
        raise UsageError("expected numbers above 0", where="--preprocess std")
    factor = 1.0 if max((*mean, *std), default=0) > 2 else 1 / 255
    return ImageForm(mean, std, factor, layout, bgr, resize)


def form_text(form: ImageForm) -> str:
    """The words that `named_form` reads."""
    plain = ImageForm(form.mean, form.std, form.factor)
    name = next((name for name, other in FORMS.items() if other == plain), "")
    if not name:
        parts = [("mean", form.mean), ("std", form.std)]
        name = ",".join(
            f"{key}={','.join(map('{:g}'.format, values))}" for key, values in parts if values
        )
    return name + (",bgr" if form.bgr else "")


def channels_first(shape: Sequence[int], layout: str) -> bool:
    """The axis of one or three channels tells; the one that is last wins where both could be."""
    if len(shape) != 4:
        raise UsageError(
            f"the input has the shape {tuple(shape)}: images need batch, rows, columns, channels",
            where="--data",
            hint="give a .npz instead of a folder",
        )
    if layout:
        first = layout == "nchw"
        channels = shape[1 if first else 3]
        if channels not in (_GREY, _RGB):
            raise UsageError(
                f"{layout} gives the input {tuple(shape)} {channels} channels, expected 1 or 3",
                where="--layout",
                hint="leave it out: the axis with 1 or 3 tells the order",
            )
        return first
    last, second = (shape[axis] in (_GREY, _RGB) for axis in (3, 1))
    if not last and not second:
        raise UsageError(f"no axis of the input {tuple(shape)} has 1 or 3 channels", where="--data")
    return second and not last


@contextmanager
def opened_picture(file: Path) -> Iterator[Image]:
    """A picture to be decoded, of no more pixels than one can have: a small file may claim many."""
    from PIL import Image, UnidentifiedImageError

    try:
        # Our own limit is the lower one, and Pillow's would print a warning first.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(BytesIO(read_bytes(file, RESULT)))
        with image:
            if math.prod(image.size) > MAX_PIXELS:
                raise FileError(
                    f"has {image.width:,} x {image.height:,} pixels, at most {MAX_PIXELS:,} are "
                    "read",
                    where=str(file),
                    hint="make it smaller: the network's input is",
                )
            yield image
    except _NO_PICTURE as error:
        reason = safe_terminal(str(error)[:200])
        raise FileError(f"cannot be read as an image: {reason}", where=str(file)) from None
    except (UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise FileError(f"cannot be read as an image: {error}", where=str(file)) from None


def pixels_of(
    file: Path, rows: int, columns: int, channels: int, resize: str = "stretch"
) -> np.ndarray:
    """Rows, columns, channels of a picture, from 0 to 255."""
    from PIL import Image

    with opened_picture(file) as image:
        picture = image.convert("L" if channels == _GREY else "RGB")
    bilinear = Image.Resampling.BILINEAR
    if resize != "stretch":
        scale = (max if resize == "crop" else min)(rows / picture.height, columns / picture.width)
        size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
        if math.prod(size) > MAX_PIXELS:
            raise FileError(
                f"{picture.width} x {picture.height} pixels are too narrow for --resize {resize}",
                where=str(file),
            )
        picture = picture.resize(size, bilinear)
        left, top = (size[0] - columns) // 2, (size[1] - rows) // 2  # negative: grey is added
        grey = Image.new(picture.mode, (columns, rows), (114,) * len(picture.getbands()))
        grey.paste(picture, (-left, -top))
        picture = grey
    sized = (
        picture if picture.size == (columns, rows) else picture.resize((columns, rows), bilinear)
    )
    return np.asarray(sized, np.float32).reshape(rows, columns, channels)


def formed(pixels: np.ndarray, form: ImageForm) -> np.ndarray:
    """Real values of pixels whose last axis is the colour."""
    channels = pixels.shape[-1]
    ordered = pixels[..., ::-1] if form.bgr and channels == _RGB else pixels
    mean, std = _each(form.mean, channels, 0.0, "mean"), _each(form.std, channels, 1.0, "std")
    return np.asarray((ordered * np.float32(form.factor) - mean) / std, np.float32)


def _each(values: Sequence[float], channels: int, default: float, what: str) -> np.ndarray:
    if len(values) not in (0, 1, channels):
        raise UsageError(
            f"{len(values)} numbers, but the images have {channels} channels", where=f"--{what}"
        )
    return np.array(tuple(values) or (default,), np.float32)
