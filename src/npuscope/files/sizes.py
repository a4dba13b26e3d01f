"""Dynamic sizes of graph inputs: what the user pinned, 1 for a batch, a stated default otherwise.

A model whose sizes are open is common (images of any side, sequences of any length), and a figure
for one usual size says more than a refusal. Which size was taken is always noted, with the option
that gives another.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from npuscope.errors import ModelError, UsageError
from npuscope.text import safe_terminal

Shape = tuple[int, ...]
Dims = Sequence[int | str | None]  # a symbol, or None where the size has not even a name

_BATCH, _CHANNELS = 1, 3


class Usual(NamedTuple):
    """Sizes that are taken where a file leaves them open, by what the axis seems to be."""

    height: int
    width: int
    samples: int
    sequence: int
    rows: int  # of an input of two axes whose first one alone is open


# In this order: a later one where the network cannot have the sizes before it (readers of text
# lines fix the height, filters need more samples than one window, rows may be steps in time).
USUAL = (
    Usual(224, 224, 512, 128, _BATCH),
    Usual(48, 320, 16000, 512, _BATCH),
    Usual(640, 640, 1280, 64, 128),
    Usual(320, 320, 4096, 16, 128),
    Usual(320, 320, 4096, 4, 128),
)
_TERM = re.compile(r"\s*([+*-])\s*")


class Given(NamedTuple):
    """What the user gave: shapes by input or symbol, and the batch where a file leaves it open."""

    shapes: Mapping[str, Sequence[int]]
    batch: int | None = None


class Pins:
    """Sizes that the user gave, by input or by symbol; those taken in their place; the use of any.

    `used` tells that the sizes which a file states for what follows do not hold.
    """

    def __init__(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        usual: Usual = USUAL[0],
        batch: int | None = None,
    ) -> None:
        self.usual, self.batch = usual, batch or _BATCH
        self.open = False  # whether an input left a size open
        self.shapes = {name: tuple(dims) for name, dims in (shapes or {}).items()}
        self.symbols: dict[str, int] = {}
        self.used = False
        self.resized = False  # rows and columns that the file states are others now
        self.guessed: list[str] = []  # options that would pin what was guessed

    def check_names(self, inputs: Mapping[str, Dims], op_outputs: Container[str] = ()) -> None:
        """Every pinned name must be an input, a symbol with one size, or one of `op_outputs`."""
        symbols = _symbols(inputs.values())
        for name, sizes in list(self.shapes.items()):
            if name in inputs:
                # What an input was pinned to holds for its symbols at other inputs too.
                dims = inputs[name]
                for dim, size in zip(dims, sizes, strict=False):
                    if isinstance(dim, str) and dim not in self.shapes:
                        self.symbols.setdefault(dim, size)
                continue
            if name in op_outputs:
                continue
            if name not in symbols:
                input_names = ", ".join(safe_terminal(text) for text in inputs)
                raise UsageError(f"the model has no input '{name}'", hint=f"inputs: {input_names}")
            if len(sizes) != 1:
                raise UsageError(
                    f"'{name}' is a single size of an input, but {len(sizes)} sizes were given"
                )
            self.symbols[name] = sizes[0]


def _symbols(inputs: Iterable[Dims]) -> set[str]:
    """Names of sizes, and those inside of sums and products of them."""
    symbols = {dim for dims in inputs for dim in dims if isinstance(dim, str)}
    return symbols | {
        part for dim in symbols for part in _TERM.split(dim)[::2] if not part.isdigit()
    }


def static_shape(
    name: str, dims: Dims, pins: Pins, notes: list[str], stated: Shape = (), real: bool = True
) -> Shape:
    """The fixed shape of an input.

    `stated` is the shape that the file has beside its open one, `real` tells floats from indices.
    """
    label = safe_terminal(name)
    if name in pins.shapes:
        return _pinned(label, dims, pins, pins.shapes[name])
    open_axes = [axis for axis, dim in enumerate(dims) if not isinstance(dim, int)]
    pinned_axes = [axis for axis in open_axes if _defined(dims[axis], pins) is not None]
    pins.open = pins.open or len(pinned_axes) < len(open_axes)
    rows = open_axes == [0] and len(dims) == 2 and pins.usual.rows > _BATCH
    if open_axes in ([], [0]) and not pinned_axes and not rows:
        if open_axes:
            # A row of values may have no batch: its length is a choice.
            other = f"; a length is set by --shape {label}=..." if len(dims) == 1 else ""
            notes.append(f"input '{label}': the dynamic batch size was set to {pins.batch}{other}")
            if isinstance(dims[0], str):
                pins.symbols.setdefault(dims[0], pins.batch)
        return tuple(dim if isinstance(dim, int) else pins.batch for dim in dims)
    shape = tuple(_size(axis, dims, pins, stated, real) for axis in range(len(dims)))
    for dim, size in zip(dims, shape, strict=True):
        if isinstance(dim, str):
            pins.symbols.setdefault(dim, size)
    pins.used = pins.used or shape != stated
    if pinned_axes != open_axes:
        option = f"--shape {label}={','.join(map(str, shape))}"
        pins.guessed.append(option)
        notes.append(f"input '{label}': dynamic sizes {_text(dims)} were taken as {option}")
    return shape


def _size(axis: int, dims: Dims, pins: Pins, stated: Shape, real: bool) -> int:
    dim = dims[axis]
    if isinstance(dim, int):
        return dim
    defined = _defined(dim, pins)
    if defined is not None:
        return defined
    if axis < len(stated) and stated[axis] > 1:
        return stated[axis]
    size = _by_name(dim, pins.usual) or _by_place(axis, dims, pins.usual, real)
    return pins.batch if axis == 0 and size == _BATCH else size


def _by_name(dim: str | None, usual: Usual) -> int:
    """By what the symbol is called; 0 for a name that says nothing."""
    names = (
        (("batch", "beam"), _BATCH),
        (("height", "image", "pixel"), usual.height),
        (("width",), usual.width),
        (("sample", "audio", "wave"), usual.samples),
        (("seq", "token", "len", "time", "frame", "past"), usual.sequence),
    )
    lower = (dim or "").lower()
    return next((size for words, size in names if any(word in lower for word in words)), 0)


def _by_place(axis: int, dims: Dims, usual: Usual, real: bool) -> int:
    """Batches first, images of four axes, samples or tokens of two."""
    if axis == 0:
        return usual.rows if len(dims) == 2 and isinstance(dims[1], int) else _BATCH
    if len(dims) >= 4:
        if axis == 1 and all(not isinstance(dim, int) for dim in dims):
            return _CHANNELS
        sides = [place for place, dim in enumerate(dims) if place and not isinstance(dim, int)]
        return usual.width if axis == sides[-1] else usual.height
    if len(dims) == 3:
        # (layers, ?, units) is a state; an image without batch has its channels first or last.
        image = 1 in (dims[0], dims[2]) or _CHANNELS in (dims[0], dims[2])
        return usual.height if image else _BATCH if isinstance(dims[0], int) else usual.sequence
    return usual.samples if real else usual.sequence


def _defined(dim: int | str | None, pins: Pins) -> int | None:
    """The size of a symbol, or of a sum or product of symbols and numbers."""
    if not isinstance(dim, str):
        return None
    if dim in pins.symbols:
        return pins.symbols[dim]
    words = _TERM.split(dim)
    sizes = [int(word) if word.isdigit() else pins.symbols.get(word) for word in words[::2]]
    if len(words) == 1 or any(size is None for size in sizes):
        return None
    total = sizes[0] or 0
    for sign, size in zip(words[1::2], sizes[1:], strict=True):
        part = size or 0
        total = total * part if sign == "*" else total + part if sign == "+" else total - part
    return total if total > 0 else None


def _pinned(label: str, dims: Dims, pins: Pins, shape: Shape) -> Shape:
    fits = len(dims) == len(shape) and all(
        size > 0 and (not isinstance(dim, int) or dim == size or axis in _image_axes(dims))
        for axis, (dim, size) in enumerate(zip(dims, shape, strict=False))
    )
    if not fits:
        raise UsageError(
            f"shape {','.join(map(str, shape))} does not fit input '{label}': {_text(dims)}"
        )
    pins.used = True
    pins.resized = pins.resized or any(
        isinstance(dim, int) and dim != size for dim, size in zip(dims, shape, strict=True)
    )
    return shape


def _image_axes(dims: Dims) -> tuple[int, ...]:
    """Rows and columns of a picture: whoever reads the ops finds out whether they bear others."""
    if len(dims) != 4:
        return ()
    return (2, 3) if dims[1] in (1, 3) and dims[3] not in (1, 3) else (1, 2)


def _text(dims: Dims) -> str:
    return f"({', '.join('?' if dim is None else safe_terminal(str(dim)) for dim in dims)})"


def named_guesses(error: ModelError, pins: Pins) -> None:
    """A refusal behind guessed sizes may come from the guess: say how to pin them."""
    if pins.guessed:
        advice = f"the file has dynamic sizes, taken as {' '.join(pins.guessed)}: try others"
        error.hint = f"{error.hint}; {advice}" if error.hint else advice
