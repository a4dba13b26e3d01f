"""The sweep file: which models, on which machines, with which choices. TOML to a frozen Spec."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from npuscope.bounded_file import SWEEP, read_toml
from npuscope.errors import FileError
from npuscope.machine.load import DEFAULT_GENERATION, DEFAULT_MACHINE
from npuscope.options.rows import DATA_TYPES, LEVELS
from npuscope.text import safe_terminal

# --- Tables of the sweep file, read key by key; unknown keys are errors ---

Read = TypeVar("Read", str, bool, int)
_NAMES = {str: "text", bool: "true or false", int: "a whole number"}


class SpecTable:
    """One table with its place in the file, e.g. `pools[1]`."""

    def __init__(self, rows: object, file: str, known: tuple[str, ...], place: str = "") -> None:
        self.file = file
        self.place = place
        if not isinstance(rows, dict):
            raise self.error("", f"expected a table, found {shown(rows)}")
        self._rows: dict[str, Any] = rows
        for key in rows:
            if key not in known:
                raise self._unknown(key, known)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def get(self, key: str) -> Any:
        return self._rows.get(key)

    def value(self, key: str, kind: type[Read]) -> Read | None:
        """A single value, None where the file has none."""
        if key not in self._rows:
            return None
        return self._typed(key, self._rows[key], kind)

    def values(self, key: str, kind: type[Read]) -> tuple[Read, ...]:
        """A list of values, or one value alone; empty where the file has none."""
        if key not in self._rows:
            return ()
        found = self._rows[key]
        listed = found if isinstance(found, list) else [found]
        if not listed:
            raise self.error(key, "the list is empty", "leave the key out for the default")
        typed = tuple(self._typed(key, value, kind) for value in listed)
        return tuple(dict.fromkeys(typed))

    def tables(self, key: str, known: tuple[str, ...]) -> tuple[SpecTable, ...]:
        """The tables [[key]]; empty where the file has none."""
        found = self._rows.get(key, [])
        if not isinstance(found, list):
            raise self.error(key, f"expected tables [[{key}]], found {shown(found)}")
        places = (f"{key}[{index}]" for index in range(len(found)))
        return tuple(
            SpecTable(rows, self.file, known, place)
            for rows, place in zip(found, places, strict=True)
        )

    def overrides(self, key: str) -> dict[str, object]:
        """What-if values by dotted path; `a.b = 1` and `"a.b" = 1` mean the same."""
        found = self._rows.get(key, {})
        if not isinstance(found, dict):
            raise self.error(key, f"expected a table of what-if values, found {shown(found)}")
        return dict(_dotted(found))

    def error(self, key: str, message: str, hint: str = "") -> FileError:
        path = ".".join(part for part in (self.place, key) if part)
        return FileError(message, where=f"{self.file}: {path}" if path else self.file, hint=hint)

    def _typed(self, key: str, value: object, kind: type[Read]) -> Read:
        if type(value) is not kind:  # a switch is not a number
            raise self.error(key, f"expected {_NAMES[kind]}, found {shown(value)}")
        return value

    def _unknown(self, key: str, known: tuple[str, ...]) -> FileError:
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
        return self.error("", f"unknown key '{safe_terminal(key)}'", hint)


def _dotted(table: Mapping[str, Any], above: str = "") -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for key, value in table.items():
        path = f"{above}{key}"
        found += _dotted(value, f"{path}.") if isinstance(value, dict) else [(path, value)]
    return found


def shown(value: object) -> str:
    text = safe_terminal(str(value).lower() if isinstance(value, bool) else repr(value))
    return text if len(text) <= 40 else f"{text[:37]}..."


_KEYS = (
    "models",
    "machines",
    "machine_files",
    "generations",
    "epoch_controller",
    "optimization",
    "input_data_type",
    "output_data_type",
    "pools",
    "clocks",
    "sets",
    "findings",
)
_MODEL_KEYS = ("path", "shapes")
_POOL_KEYS = ("name", "mpool", "set")
_CLOCK_KEYS = ("name", "mcu_mhz", "npu_mhz")
_SET_KEYS = ("name", "set")
_GLOB = "*?["
_FROM_HERE = "paths are relative to the sweep file"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SpecModel:
    """A model file; `label` is its path as seen from the sweep file."""

    path: Path
    label: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpecMachine:
    """A packaged machine by name, or the user's own file."""

    name: str
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of an axis that changes the machine: its pools, its clocks, a what-if."""

    name: str
    overrides: Mapping[str, object] = field(default_factory=dict)
    mpool: Path | None = None


@dataclass(frozen=True, slots=True)
class Spec:
    """All axes of a sweep; the runs are their product. None stands for the default."""

    file: Path
    models: tuple[SpecModel, ...]
    machines: tuple[SpecMachine, ...] = (SpecMachine(DEFAULT_MACHINE),)
    generations: tuple[str, ...] = (DEFAULT_GENERATION,)
    epoch_controller: tuple[bool | None, ...] = (None,)
    optimization: tuple[int | None, ...] = (None,)
    input_data_type: tuple[str | None, ...] = (None,)
    output_data_type: tuple[str | None, ...] = (None,)
    pools: tuple[Choice, ...] = (Choice("default"),)
    clocks: tuple[Choice, ...] = (Choice("default"),)
    sets: tuple[Choice, ...] = (Choice(""),)
    findings: bool = False

    @property
    def size(self) -> int:
        """How many runs the product has, before runs that are the same are found."""
        axes = (
            self.models, self.machines, self.generations, self.epoch_controller,
            self.optimization, self.input_data_type, self.output_data_type, self.pools,
            self.clocks, self.sets,
        )  # fmt: skip
        return math.prod(len(axis) for axis in axes)


def read_spec(path: str | Path) -> Spec:
    """Read a sweep file. Paths in it are relative to it."""
    path = Path(path)
    table = SpecTable(read_toml(path, SWEEP), str(path), _KEYS)
    default = Spec(path, ())
    return Spec(
        file=path,
        models=_models(table, path.parent),
        machines=_machines(table, path.parent) or default.machines,
        generations=table.values("generations", str) or default.generations,
        epoch_controller=table.values("epoch_controller", bool) or (None,),
        optimization=_among(table, "optimization", table.values("optimization", int), LEVELS),
        input_data_type=_data_types(table, "input_data_type"),
        output_data_type=_data_types(table, "output_data_type"),
        pools=_named(table, "pools", _pools(table, path.parent)) or default.pools,
        clocks=_named(table, "clocks", _clocks(table)) or default.clocks,
        sets=_named(table, "sets", _sets(table)) or default.sets,
        findings=table.value("findings", bool) or False,
    )


# --- Models ---


def _models(table: SpecTable, folder: Path) -> tuple[SpecModel, ...]:
    listed = table.get("models")
    if not isinstance(listed, list) or not listed:
        raise table.error("", "no models", 'name them: models = ["a.tflite", "nets/*.onnx"]')
    found: dict[str, SpecModel] = {}
    for index, entry in enumerate(listed):
        for model in _model_entry(table, folder, index, entry):
            found[model.label] = model
    return tuple(found.values())


def _model_entry(table: SpecTable, folder: Path, index: int, entry: object) -> Iterator[SpecModel]:
    """A path, a pattern, or a table with the shapes that its inputs are pinned to."""
    place = f"models[{index}]"
    rows = {"path": entry} if isinstance(entry, str) else entry
    one = SpecTable(rows, table.file, _MODEL_KEYS, place)
    text = one.value("path", str)
    if text is None:
        raise one.error("path", "this key is missing")
    shapes = _shapes(one)
    for path in _matching(one, folder, text):
        yield SpecModel(path, _label(path, folder), shapes)


def _matching(one: SpecTable, folder: Path, text: str) -> list[Path]:
    plain = folder / text
    # A file may have such characters in its name.
    if os.path.exists(plain):  # unlike Path.exists, it takes names that are too long
        return [plain]
    if not any(char in text for char in _GLOB):
        raise one.error("", f"no such file: '{safe_terminal(text)}'", _FROM_HERE)
    root = Path(plain.anchor) if plain.is_absolute() else folder
    pattern = str(plain.relative_to(root)) if plain.is_absolute() else text
    try:
        found = sorted(path for path in root.glob(pattern) if path.is_file())
    except (OSError, ValueError, NotImplementedError) as error:
        raise one.error("", f"'{text}' is not a pattern: {error}") from None
    if not found:
        raise one.error("", f"no file matches '{safe_terminal(text)}'", _FROM_HERE)
    return found


def _label(path: Path, folder: Path) -> str:
    return path.relative_to(folder).as_posix() if path.is_relative_to(folder) else path.as_posix()


def _shapes(one: SpecTable) -> dict[str, tuple[int, ...]]:
    rows = one.get("shapes") or {}
    if not isinstance(rows, dict):
        raise one.error("shapes", f"expected NAME = [1, 224, 224, 3], found {shown(rows)}")
    return {name: _shape(one, name, sizes) for name, sizes in rows.items()}


def _shape(one: SpecTable, name: str, sizes: object) -> tuple[int, ...]:
    fine = isinstance(sizes, list) and all(type(size) is int and size > 0 for size in sizes)
    if not fine or not isinstance(sizes, list):
        raise one.error(f"shapes.{name}", f"expected sizes above 0, found {shown(sizes)}")
    return tuple(sizes)


# --- Machines and their options ---


def _machines(table: SpecTable, folder: Path) -> tuple[SpecMachine, ...]:
    names = table.values("machines", str)
    files = (folder / text for text in table.values("machine_files", str))
    return (*map(SpecMachine, names), *(SpecMachine(file.stem, file) for file in files))


def _data_types(table: SpecTable, key: str) -> tuple[str | None, ...]:
    return _among(table, key, table.values(key, str), DATA_TYPES)


def _among(
    table: SpecTable, key: str, values: tuple[T, ...], known: tuple[T, ...]
) -> tuple[T | None, ...]:
    """The values if all are known; (None,) where there are none."""
    for value in values:
        if value not in known:
            names = ", ".join(map(str, known))
            raise table.error(key, f"{shown(value)} is not known", f"known: {names}")
    return values or (None,)


def _pools(table: SpecTable, folder: Path) -> Iterator[Choice]:
    for one in table.tables("pools", _POOL_KEYS):
        text = one.value("mpool", str)
        mpool = folder / text if text else None
        values = one.overrides("set")
        name = mpool.stem if mpool else _spelled(values)
        yield Choice(one.value("name", str) or name, values, mpool)


def _clocks(table: SpecTable) -> Iterator[Choice]:
    for one in table.tables("clocks", _CLOCK_KEYS):
        values: dict[str, object] = {
            f"clocks.{key}": one.get(key) for key in ("mcu_mhz", "npu_mhz") if key in one
        }
        for key, value in values.items():
            if type(value) not in (int, float):
                raise one.error(key.partition(".")[2], f"expected MHz, found {shown(value)}")
        speeds = "/".join(f"{value:g}" for value in values.values())
        yield Choice(one.value("name", str) or speeds or "default", values)


def _sets(table: SpecTable) -> Iterator[Choice]:
    for one in table.tables("sets", _SET_KEYS):
        values = one.overrides("set")
        yield Choice(one.value("name", str) or _spelled(values), values)


def _spelled(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items()) or "default"


def _named(table: SpecTable, key: str, choices: Iterator[Choice]) -> tuple[Choice, ...]:
    """Reports tell choices apart by name."""
    found: dict[str, Choice] = {}
    for choice in choices:
        if choice.name in found:
            raise table.error(key, f"two of them are named '{choice.name}'")
        found[choice.name] = choice
    return tuple(found.values())
