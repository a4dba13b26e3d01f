"""Symbolic sizes of graph inputs: the batch becomes 1, the user pins the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npuscope.errors import ModelError, UsageError
from npuscope.text import safe_terminal

Shape = tuple[int, ...]


class Pins:
    """Shapes the user gave for inputs, and whether one of them was needed."""

    def __init__(self, shapes: Mapping[str, Sequence[int]] | None = None) -> None:
        self.shapes = {name: tuple(dims) for name, dims in (shapes or {}).items()}
        self.used = False

    def check_names(self, inputs: Sequence[str]) -> None:
        """Every pinned name must be an input of the model."""
        for name in self.shapes:
            if name not in inputs:
                known = ", ".join(safe_terminal(text) for text in inputs)
                raise UsageError(f"the model has no input '{name}'", hint=f"inputs: {known}")


def static_shape(
    name: str, dims: Sequence[int | str | None], pins: Pins, notes: list[str]
) -> Shape:
    """The fixed shape of an input; `dims` has a symbol or None where the size is open."""
    label = safe_terminal(name)
    if name in pins.shapes:
        return _pinned(label, dims, pins, pins.shapes[name])
    open_axes = [axis for axis, dim in enumerate(dims) if not isinstance(dim, int)]
    if open_axes and open_axes != [0]:
        raise ModelError(
            f"input '{label}' has open sizes: {_text(dims)}",
            where=f"input '{label}'",
            hint=f"pin them: --shape {label}={_example(dims)}",
        )
    if open_axes:
        notes.append(f"input '{label}': the open batch size was set to 1")
    return tuple(dim if isinstance(dim, int) else 1 for dim in dims)


def _pinned(label: str, dims: Sequence[int | str | None], pins: Pins, wanted: Shape) -> Shape:
    fits = len(dims) == len(wanted) and all(
        size > 0 and (not isinstance(dim, int) or dim == size)
        for dim, size in zip(dims, wanted, strict=False)
    )
    if not fits:
        raise UsageError(
            f"shape {','.join(map(str, wanted))} does not fit input '{label}': {_text(dims)}"
        )
    pins.used = True
    return wanted


def _text(dims: Sequence[int | str | None]) -> str:
    return f"({', '.join('?' if dim is None else safe_terminal(str(dim)) for dim in dims)})"


def _example(dims: Sequence[int | str | None]) -> str:
    """A command line value: known sizes stay, the batch is 1, 224 stands for the others."""
    guess = [
        dim if isinstance(dim, int) else 1 if axis == 0 else 224 for axis, dim in enumerate(dims)
    ]
    return ",".join(map(str, guess))
