"""Words of the command line as the values that Python's keywords take."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from npuscope.errors import UsageError
from npuscope.options.kinds import Option, OptionKind

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


# --- The way back: values of keywords as words ---


def option_words(rows: Iterable[Option], values: Mapping[str, Any]) -> list[str]:
    """What was given, as a command line has it; without what is left at its default."""
    words: list[str] = []
    for row in rows:
        value = values.get(row.name)
        if row.shell and row.is_given(value):
            words += _words(row, value)
    return words


def _words(row: Option, value: Any) -> list[str]:
    if row.kind is OptionKind.SWITCH:
        return [row.long if value else row.long.replace("--", "--no-", 1)]
    if row.kind is OptionKind.FLAG:
        return [row.long] if value else []
    if isinstance(value, Mapping):
        return [word for key, one in value.items() for word in (row.long, f"{key}={_listed(one)}")]
    if row.kind is OptionKind.LIST:
        return [word for one in value for word in (row.long, str(one))]
    return [row.long, f"{value:g}" if isinstance(value, float) else str(value)]


def _listed(value: object) -> str:
    """Shapes are written 1,224,224,3; lists of a machine as TOML has them."""
    if isinstance(value, tuple) and all(isinstance(size, int) for size in value):
        return ",".join(map(str, value))
    return spelt(value)


def spelt(value: object) -> str:
    """As --set takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else str(value)
