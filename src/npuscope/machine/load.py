"""Machines from TOML: the packaged ones by name, any other by file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, fields

from npuscope.bounded_file import MACHINE, parse_json, read_bytes, read_head, read_toml
from npuscope.errors import FileError, UsageError
from npuscope.machine.model import SCHEMA, Machine, MemoryPool
from npuscope.machine.schema import UNRANGED, find_fault
from npuscope.machine.set_keys import with_overrides
from npuscope.options.kinds import DEFAULT_MACHINE as DEFAULT_MACHINE
from npuscope.records import decode, hints_of
from npuscope.structs import replace

DEFAULT_GENERATION = "4.0"
# Versions that follow the rules of another one but for some rows of their own. They are accepted by
# name and not listed.
VARIANTS = {"2.0": "2.2", "2.1": "2.2"}
_FOLDER = Path(__file__).parent


def load_machine(
    name: str = DEFAULT_MACHINE,
    *,
    generation: str = DEFAULT_GENERATION,
    epoch_controller: bool = True,
    overrides: Mapping[str, object] | None = None,
    machine_file: str | Path | None = None,
) -> Machine:
    """The machine `name`, programmed by compilers of `generation`.

    `overrides` replaces single values, by their path in the TOML; `machine_file` is read
    instead of a packaged machine.
    """
    if machine_file is None:
        machine = _packaged_machine(name, generation, epoch_controller)
    else:
        path = Path(machine_file)
        machine = _build(read_table(path), path, generation, epoch_controller)
    if not overrides:
        return machine
    return with_overrides(machine, plain_overrides(overrides, name, machine_file))


_NAMED = ("clock_mode", "flash", "psram")


def plain_overrides(
    overrides: Mapping[str, object], name: str, machine_file: str | Path | None
) -> dict[str, object]:
    """Overrides with named clock modes and set-ups replaced by their values.

    Single values have priority.
    """
    single = {key: value for key, value in overrides.items() if key not in _NAMED}
    if len(single) == len(overrides):
        return single
    table = _packaged_table(name) if machine_file is None else read_table(Path(machine_file))
    clocks: dict[str, object] = {}
    if "clock_mode" in overrides:
        mode = _chosen(table.get("clock_modes", {}), overrides["clock_mode"], "clock_mode")
        clocks = {f"clocks.{clock}": mhz for clock, mhz in mode.items()}
    roads = [
        _road(table, memory, overrides[memory], clocks | single)
        for memory in ("flash", "psram")
        if memory in overrides
    ]
    return {**clocks, **{key: value for road in roads for key, value in road.items()}, **single}


def _chosen(rows: Mapping[str, Any], name: object, key: str) -> Mapping[str, Any]:
    if name not in rows:
        kind = {"clock_mode": "clock mode"}.get(key, f"set-up of the {key}")
        raise UsageError(
            f"unknown {kind} '{name}'",
            where="--set clock_mode" if key == "clock_mode" else f"--{key}",
            hint=f"known: {', '.join(rows) or 'none'}",
        )
    row: Mapping[str, Any] = rows[str(name)]
    return row


def _road(
    table: Mapping[str, Any], memory: str, name: object, set_: Mapping[str, object]
) -> dict[str, object]:
    """What a set-up of flash or PSRAM makes of its road."""
    rows = table.get(memory, {})
    row = _chosen(rows, name, memory)
    usual = next(iter(rows.values()))
    path = table["paths"][row["road"]]
    clock = f"clocks.{path['clock']}"
    mhz = set_.get(clock, table["clocks"][path["clock"]])
    megabytes = row["mhz"] * row["lines"] / 8 * row["edges"] * row["share"]
    road = f"paths.{row['road']}"
    return {
        f"{road}.bytes_per_cycle": megabytes / float(str(mhz)),
        f"{road}.wait": usual["mhz"] / row["mhz"],
    }


def set_ups(name: str, memory: str) -> tuple[str, ...]:
    """Names of the set-ups of a packaged machine's flash or PSRAM, the usual one first."""
    return tuple(_packaged_table(name).get(memory, {}))


def road_of(machine: Machine, memory: str) -> str:
    """The path to the flash or PSRAM of a packaged machine; empty for others."""
    if machine.name not in known_machines():
        return ""
    rows = _packaged_table(machine.name).get(memory, {})
    return str(next(iter(rows.values()))["road"]) if rows else ""


def set_up_of(machine: Machine, memory: str) -> str:
    """How a machine's flash or PSRAM is driven: by name, or as a rate; "none" without a pool."""
    path = road_of(machine, memory)
    if not path:
        return ""
    table = _packaged_table(machine.name)
    rows = table[memory]
    if not any(pool.size_bytes for pool in machine.pools if pool.path == path):
        return "none"
    road = machine.paths[path]
    clocks = asdict(machine.clocks)
    stated = {f"clocks.{name}": mhz for name, mhz in clocks.items()}
    for name in map(str, rows):
        if math.isclose(
            float(str(_road(table, memory, name, stated)[f"paths.{path}.bytes_per_cycle"])),
            road.bytes_per_cycle,
        ):
            return str(name)
    return f"{road.bytes_per_cycle * clocks[road.clock]:.0f} MB/s"


@lru_cache(maxsize=16)
def _packaged_table(name: str) -> dict[str, Any]:
    """Read once; whoever asks leaves it as it is."""
    return read_table(packaged(name))


@lru_cache(maxsize=16)
def _packaged_machine(name: str, generation: str, epoch_controller: bool) -> Machine:
    """Machines are immutable, so all callers share one."""
    return _build(_packaged_table(name), packaged(name), generation, epoch_controller)


@lru_cache(maxsize=1)
def known_machines() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def known_generations(table: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in table.get("generations", {}) if name not in VARIANTS)


@lru_cache(maxsize=1)
def generations() -> tuple[str, ...]:
    """Compiler generations, oldest first: the order in the default machine's file."""
    return known_generations(_packaged_table(DEFAULT_MACHINE))


class UnknownMachine(UsageError):
    def __init__(self, name: str, names: tuple[str, ...]) -> None:
        hint = f"known: {', '.join(names)}; --machine-file reads your own"
        super().__init__(f"unknown machine '{name}'", where="--machine", hint=hint)
        self.known = names


def packaged(name: str) -> Path:
    if name not in known_machines():
        raise UnknownMachine(name, known_machines())
    return _FOLDER / f"{name}.toml"


def read_table(path: Path) -> dict[str, Any]:
    """The TOML with generations completed, sizes in bytes and defaults of pools filled in."""
    table = read_toml(path, MACHINE)
    generations = _expect_table(table.get("generations"), "generations", path)
    table["generations"] = {
        name: _inherit(generations, name, path, children=()) for name in generations
    }
    optional = {f.name: f.default for f in fields(MemoryPool) if not f.required}
    table["pools"] = [
        {**optional, **_expect_table(pool, f"pools[{index}]", path)}
        for index, pool in enumerate(_pools(table, path))
    ]
    return table


def _inherit(
    generations: dict[str, Any], name: str, path: Path, children: tuple[str, ...]
) -> dict[str, Any]:
    """A generation with the values it inherits from the one named by `like`."""
    place = f"generations.{name}"
    own = dict(_expect_table(generations.get(name), place, path))
    base_name = own.pop("like", None)
    if base_name is None:
        return own
    known = isinstance(base_name, str) and base_name in generations
    if not known or base_name in (*children, name):
        raise _bad_toml(
            path, f"{place}.like", f"'{base_name}' is not another generation of this machine"
        )
    return _merge(_inherit(generations, base_name, path, (*children, name)), own)


def _merge(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in own.items():
        nested = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if nested else value
    return merged


def _build(
    table: Mapping[str, Any], path: Path, generation: str, epoch_controller: bool
) -> Machine:
    if generation not in table["generations"]:
        names = ", ".join(sorted(table.get("generations", {})))
        raise UsageError(
            f"unknown generation '{generation}'", where="--generation", hint=f"known: {names}"
        )
    # The chosen generation goes where the record has it.
    chosen = _expect_table(table["generations"][generation], f"generations.{generation}", path)
    apart = ("generations", "clock_modes", "flash", "psram")
    rows = {key: value for key, value in table.items() if key not in apart}
    # Kernels of its library that cost other than those of the newest one.
    place = f"generations.{generation}.software"
    kernels = _expect_table(chosen.get("software", {}), place, path)
    rows["software"] = _merge(_expect_table(rows.get("software"), "software", path), kernels)
    own = {key: value for key, value in chosen.items() if key != "software"}
    rows["generation"] = {"name": generation, **own}
    rows["epoch_controller"] = epoch_controller
    rows["pools"] = [_sized(pool) for pool in table["pools"]]
    return _checked(rows, path)


def _checked(rows: object, path: Path) -> Machine:
    try:
        machine: Machine = decode(rows, Machine, "", UNRANGED)
    except FileError as error:
        raise _bad_toml(path, error.where, error.message, error.hint) from None
    fault = find_fault(machine)
    if fault is not None:
        raise _bad_toml(path, fault.path, fault.message)
    return machine


def _sized(pool: dict[str, Any]) -> dict[str, Any]:
    """`size_kib` of the TOML as the record's `size_bytes`."""
    size = pool.get("size_kib")
    if not isinstance(size, int) or isinstance(size, bool):
        return pool  # the schema reports what is wrong
    rest = {key: value for key, value in pool.items() if key != "size_kib"}
    return {**rest, "size_bytes": size * 1024}


def _pools(table: dict[str, Any], path: Path) -> list[object]:
    pools = table.get("pools")
    if not isinstance(pools, list):
        raise _bad_toml(path, "pools", "expected a list of tables [[pools]]")
    return pools


def _expect_table(value: object, place: str, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _bad_toml(path, place, "expected a table")
    return value


def _bad_toml(path: Path, place: str, message: str, hint: str = "") -> FileError:
    return FileError(f"{place}: {message}", where=str(path), hint=hint)


# --- A Machine as a file: all values, with pool file and what-if values applied ---

_HEAD_BYTES = 256


def machine_text(machine: Machine) -> str:
    """One line of JSON, the same for equal machines."""
    import orjson

    return orjson.dumps(machine, default=asdict, option=orjson.OPT_SORT_KEYS).decode()


def machine_from(text: str | bytes) -> Machine:
    machine: Machine = decode(parse_json(text), Machine, "", UNRANGED)
    return machine


class MachineReader:
    """Reads one machine after the other; parts that are equal to those before are the same."""

    def __init__(self) -> None:
        self._table: dict[str, Any] = {}
        self._machine: Machine | None = None

    def read(self, text: str | bytes) -> Machine:
        """As `machine_from` does."""
        table = parse_json(text)
        if self._machine is None or table.keys() != self._table.keys():
            self._machine = machine_from(text)
        else:
            hints = hints_of(Machine)
            changed = {
                name: decode(value, hints[name], name, UNRANGED)
                for name, value in table.items()
                if value != self._table[name]
            }
            self._machine = replace(self._machine, **changed)
        self._table = table
        return self._machine


def is_saved_machine(path: Path) -> bool:
    return f'"schema": "{SCHEMA}"'.encode() in read_head(path, _HEAD_BYTES)


def read_machine(path: Path) -> Machine:
    """A saved machine; an error names the key."""
    data = read_bytes(path, MACHINE)
    try:
        record = parse_json(data)["machine"]
    except (ValueError, KeyError, TypeError) as error:
        raise FileError(f"is not a saved machine: {error}", where=str(path)) from None
    return _checked(record, path)
