"""The sweep file: which models, on which machines, with which choices. TOML to a frozen Spec."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from msgspec import Struct, field

from npuscope.bounded_file import SWEEP, read_toml
from npuscope.errors import FileError
from npuscope.machine.load import DEFAULT_GENERATION, DEFAULT_MACHINE
from npuscope.options.rows import DATA_TYPES, LEVELS
from npuscope.plain_data import I63, Range, shown
from npuscope.records import TOML, OneOrMore, decode
from npuscope.text import safe_terminal

# The tables of a sweep file as they stand there.

_Size = Annotated[int, Range(1, I63)]


class _ModelTable(Struct, frozen=True):
    path: str
    shapes: dict[str, tuple[_Size, ...]] = field(default_factory=dict)


class _PoolTable(Struct, frozen=True):
    name: str | None = None
    mpool: str | None = None
    set: dict[str, Any] = field(default_factory=dict)


class _ClockTable(Struct, frozen=True):
    name: str | None = None
    mcu_mhz: int | float | None = None
    npu_mhz: int | float | None = None


class _SetTable(Struct, frozen=True):
    name: str | None = None
    set: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


class _SweepFile(Struct, frozen=True):
    models: tuple[_ModelTable, ...] = ()
    machines: OneOrMore[str] = ()
    machine_files: OneOrMore[str] = ()
    generations: OneOrMore[str] = ()
    epoch_controller: OneOrMore[bool] = ()
    optimization: OneOrMore[int] = ()
    input_data_type: OneOrMore[str] = ()
    output_data_type: OneOrMore[str] = ()
    pools: tuple[_PoolTable, ...] = ()
    clocks: tuple[_ClockTable, ...] = ()
    sets: tuple[_SetTable, ...] = ()
    findings: bool = False


_GLOB = "*?["
_FROM_HERE = "paths are relative to the sweep file"
T = TypeVar("T")


class SpecModel(Struct, frozen=True):
    """A model file; `label` is its path as seen from the sweep file."""

    path: Path
    label: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


class SpecMachine(Struct, frozen=True):
    """A packaged machine by name, or the user's own file."""

    name: str
    file: Path | None = None


class Choice(Struct, frozen=True):
    """One value of an axis that changes the machine: its pools, its clocks, a what-if."""

    name: str
    overrides: Mapping[str, object] = field(default_factory=dict)
    mpool: Path | None = None
    options: Mapping[str, object] = field(default_factory=dict)  # of the machine's family


class Spec(Struct, frozen=True):
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
    table = read_toml(path, SWEEP)
    models = table.get("models")
    if not isinstance(models, list):
        models = []  # told with the way to name them
    # A model that is only a text is the path of one.
    table["models"] = [{"path": one} if isinstance(one, str) else one for one in models]
    try:
        return _spec(decode(table, _SweepFile, "", TOML), path)
    except FileError as error:
        where = f"{path}: {error.where}" if error.where else str(path)
        raise FileError(error.message, where=where, hint=error.hint) from None


def _spec(table: _SweepFile, path: Path) -> Spec:
    folder, default = path.parent, Spec(path, ())
    files = (folder / text for text in _once(table.machine_files))
    by_name = map(SpecMachine, _once(table.machines))
    machines = (*by_name, *(SpecMachine(file.stem, file) for file in files))
    return Spec(
        file=path,
        models=_models(table, folder),
        machines=machines or default.machines,
        generations=_once(table.generations) or default.generations,
        epoch_controller=_once(table.epoch_controller) or (None,),
        optimization=_among("optimization", table.optimization, LEVELS),
        input_data_type=_among("input_data_type", table.input_data_type, DATA_TYPES),
        output_data_type=_among("output_data_type", table.output_data_type, DATA_TYPES),
        pools=_named("pools", _pools(table, folder)) or default.pools,
        clocks=_named("clocks", _clocks(table)) or default.clocks,
        sets=_named("sets", _sets(table)) or default.sets,
        findings=table.findings,
    )


def _once(values: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))


# Models.


def _models(table: _SweepFile, folder: Path) -> tuple[SpecModel, ...]:
    if not table.models:
        raise FileError("no models", hint='name them: models = ["a.tflite", "nets/*.onnx"]')
    by_label: dict[str, SpecModel] = {}
    for index, entry in enumerate(table.models):
        for path in _matching(f"models[{index}]", folder, entry.path):
            inside = path.is_relative_to(folder)
            label = (path.relative_to(folder) if inside else path).as_posix()
            by_label[label] = SpecModel(path, label, entry.shapes)
    return tuple(by_label.values())


def _matching(place: str, folder: Path, text: str) -> list[Path]:
    """The file of a path, or the files of a pattern."""
    plain = folder / text
    # A file may have such characters in its name.
    if os.path.exists(plain):  # unlike Path.exists, it takes names that are too long
        return [plain]
    if not any(char in text for char in _GLOB):
        raise FileError(f"no such file: '{safe_terminal(text)}'", where=place, hint=_FROM_HERE)
    root = Path(plain.anchor) if plain.is_absolute() else folder
    pattern = str(plain.relative_to(root)) if plain.is_absolute() else text
    try:
        paths = sorted(path for path in root.glob(pattern) if path.is_file())
    except (OSError, ValueError, NotImplementedError) as error:
        raise FileError(f"'{text}' is not a pattern: {error}", where=place) from None
    if not paths:
        raise FileError(f"no file matches '{safe_terminal(text)}'", where=place, hint=_FROM_HERE)
    return paths


def _among(key: str, values: tuple[T, ...], choices: tuple[T, ...]) -> tuple[T | None, ...]:
    """The values if all are known; (None,) where there are none."""
    for value in values:
        if value not in choices:
            names = ", ".join(map(str, choices))
            raise FileError(f"unknown value {shown(value)}", where=key, hint=f"known: {names}")
    return _once(values) or (None,)


def _pools(table: _SweepFile, folder: Path) -> Iterator[Choice]:
    for one in table.pools:
        mpool = folder / one.mpool if one.mpool else None
        values = dict(_dotted(one.set))
        yield Choice(one.name or (mpool.stem if mpool else _spelled(values)), values, mpool)


def _clocks(table: _SweepFile) -> Iterator[Choice]:
    for one in table.clocks:
        mhz_of = {"clocks.mcu_mhz": one.mcu_mhz, "clocks.npu_mhz": one.npu_mhz}
        values = {key: mhz for key, mhz in mhz_of.items() if mhz is not None}
        speeds = "/".join(f"{mhz:g}" for mhz in values.values())
        yield Choice(one.name or speeds or "default", values)


def _sets(table: _SweepFile) -> Iterator[Choice]:
    for one in table.sets:
        values = dict(_dotted(one.set))
        name = one.name or _spelled({**values, **one.options})
        yield Choice(name, values, options=one.options)


def _dotted(table: Mapping[str, Any], above: str = "") -> list[tuple[str, object]]:
    """What-if values by dotted path; `a.b = 1` and `"a.b" = 1` mean the same."""
    pairs: list[tuple[str, object]] = []
    for key, value in table.items():
        path = f"{above}{key}"
        pairs += _dotted(value, f"{path}.") if isinstance(value, dict) else [(path, value)]
    return pairs


def _spelled(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items()) or "default"


def _named(key: str, choices: Iterator[Choice]) -> tuple[Choice, ...]:
    """Reports tell choices apart by name."""
    by_name: dict[str, Choice] = {}
    for choice in choices:
        if choice.name in by_name:
            raise FileError(f"two of them have the name '{choice.name}'", where=key)
        by_name[choice.name] = choice
    return tuple(by_name.values())
