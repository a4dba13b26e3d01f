"""Words of the command line as the values that Python's keywords take."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from npuscope.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

# 18 digits fit 64 bits; int() itself would also take signs, spaces and underscores.
_SIZE = re.compile(r"[0-9]{1,18}")


def parse_overrides(texts: Iterable[str]) -> dict[str, object]:
    """What --set was given: KEY=VALUE each."""
    table: dict[str, object] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise UsageError(f"expected KEY=VALUE, found '{text}'", where="--set")
        table[key.strip()] = parse_value(key.strip(), value.strip())
    return table


def parse_value(key: str, text: str) -> object:
    """A value in TOML's spelling; anything else is plain text."""
    import tomllib

    from npuscope.bounded_file import parse_toml

    try:
        return parse_toml(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    except ValueError as error:
        raise UsageError(str(error), where=f"--set {key}") from None


def parse_shapes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """What --shape was given: NAME=1,224,224,3 each, or SYMBOL,128 as the vendor writes it."""
    return dict(map(_shape, texts))


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    # Tensor names may hold '=' themselves, sizes may not.
    name, separator, sizes = text.rpartition("=")
    if not separator and text.count(",") == 1:
        name, separator, sizes = text.rpartition(",")
    parts = sizes.split(",")
    if not separator or not name or not all(_SIZE.fullmatch(part.strip()) for part in parts):
        raise UsageError(f"expected NAME=1,224,224,3, found '{text}'", where="--shape")
    shape = tuple(int(part) for part in parts)
    if 0 in shape:
        raise UsageError(f"a size of 0 in '{text}'", where="--shape")
    return name, shape


def read_arrays(files: Iterable[str]) -> list[np.ndarray]:
    """What --inputs was given: a .npy file each."""
    from npuscope.bounded_file import read_array

    return [read_array(file) for file in files]
