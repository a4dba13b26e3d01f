"""EthosMachine: an Ethos-U with the memories around it, as data from the TOML files beside."""

from __future__ import annotations

import math
from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from msgspec import Struct

from npuscope.bounded_file import MACHINE, read_bytes, read_toml
from npuscope.errors import FileError, UsageError
from npuscope.machine.load import UnknownMachine
from npuscope.machine.marks import Bytes, Cycles, Elements, Mhz, Rate, Some
from npuscope.machine.schema import UNRANGED, range_faults
from npuscope.machine.set_keys import apply_overrides
from npuscope.plain_data import Range
from npuscope.records import decode
from npuscope.text import safe_terminal

_FOLDER = Path(__file__).parent / "machines"
_PRODUCTS = ("ethos-u55", "ethos-u65", "ethos-u85")


class MemoryPort(Struct, frozen=True):
    bytes_per_cycle: Rate
    read_latency_cycles: Cycles
    write_latency_cycles: Cycles
    burst_bytes: Bytes


class OutputRates(Struct, frozen=True):
    """Cycles per element of the output stage."""

    unary32: Rate
    binary32: Rate
    mul32: Rate
    mul: Rate
    add: Rate
    max: Rate
    other: Rate


class EthosMachine(Struct, frozen=True):
    name: str
    product: str
    description: str
    system: str
    memory_mode: str
    macs: Elements
    cores: Some
    output_unit: tuple[Annotated[int, Range(1, 64)], ...]  # height, width, channels
    port_bytes: Bytes
    read_bytes_per_cycle: Rate  # of one kernel, whatever its ports give
    max_blockdep: Some
    command_buffer_bytes: Bytes  # of commands that are read ahead
    kernel_queue: Some  # kernels that are issued and not finished
    transfer_queue: Some
    reads_ahead: bool  # inputs of a kernel that depends on nothing, while the one before runs
    scale_buffer_bytes: Bytes  # of reads under way
    weight_buffer_bytes: Bytes
    input_blocks: Some  # that are kept for the next block of channels
    input_buffer_bytes: Bytes
    depthwise_group: Some  # cycles for a group of taps, with those that are padding
    cpu_mhz: Mhz
    output_rates: OutputRates
    table_rate: Rate
    host_ms: Annotated[float, Range(0, 1e6)]  # assumed, to start an inference on the host
    clock_mhz: Mhz
    sram: MemoryPort
    external: MemoryPort
    constants: str  # sram or external
    arena: str
    board: str = ""  # whose memories these are
    in_vela: bool = True  # whether Vela's own file has a configuration of that name
    vela_lines: tuple[str, ...] = ()  # of one that is written for Vela, beside what is known here

    def port(self, region: int) -> MemoryPort:
        """Region 0 holds constants, 1 the arena, 2 its fast part."""
        name = {0: self.constants, 2: "sram"}.get(region, self.arena)
        return self.sram if name == "sram" else self.external


@cache
def machine_names() -> tuple[str, ...]:
    return tuple(
        f"{product}-{macs}" for product in _PRODUCTS for macs in _table(product)["variants"]
    )


def systems() -> tuple[str, ...]:
    return tuple(_table("systems")["systems"])


def memory_modes() -> tuple[str, ...]:
    return tuple(_table("systems")["memory_modes"])


def load_machine(
    name: str,
    *,
    system: str = "",
    memory_mode: str = "",
    overrides: Mapping[str, object] | None = None,
    config: str | Path = "",
) -> EthosMachine:
    """`overrides` replaces single values by their path: {"sram.read_latency_cycles": 16}; `config`
    is a configuration file of Vela's, for names that are not known here."""
    if name not in machine_names():
        raise UnknownMachine(name, machine_names())
    product, _, macs = name.rpartition("-")
    record = dict(_table(product))
    record |= {"name": name, "macs": int(macs)} | record.pop("variants")[macs]
    record["system"] = system or record["system"]
    record["memory_mode"] = memory_mode or record["memory_mode"]
    own = VelaConfig(Path(config)) if config else None
    record |= _entry("systems", record["system"], "--system-config", own, record["port_bytes"])
    record |= _entry("memory_modes", record["memory_mode"], "--memory-mode", own)
    if overrides:
        fixed = (
            "name",
            "product",
            "description",
            "system",
            "memory_mode",
            "macs",
            "cores",
            "board",
            "in_vela",
            "vela_lines",
            "reads_ahead",
        )
        free = {key: value for key, value in record.items() if key not in fixed}
        apply_overrides(free, overrides)
        record |= free
    try:
        machine: EthosMachine = decode(record, EthosMachine, "", UNRANGED)
    except FileError as error:
        raise UsageError(error.message, where=f"--set {error.where}", hint=error.hint) from None
    for fault in range_faults(machine):
        raise UsageError(fault.message, where=f"--set {fault.path}")
    return machine


@cache
def _text_table(stem: str) -> dict[str, Any]:
    return read_toml(_FOLDER / f"{stem}.toml", MACHINE)


def _table(stem: str) -> dict[str, Any]:
    """A copy, for what-if values change it."""
    return deepcopy(_text_table(stem))


def _entry(
    table: str, name: str, option: str, own: VelaConfig | None = None, port_bytes: int = 0
) -> dict[str, Any]:
    entries = _table("systems")[table]
    entry: dict[str, Any] | None = entries.get(name)
    if own is not None:
        given = own.system(name, port_bytes) if port_bytes else own.memory_mode(name)
        if entry is not None and given is not None:
            _refuse_other(name, entry, given, own.path)
        entry = entry or given
    if entry is None:
        known = (*entries, *(own.names(table) if own is not None else ()))
        raise UsageError(
            f"unknown name '{safe_terminal(name)}'",
            where=option,
            hint=f"known: {', '.join(map(safe_terminal, dict.fromkeys(known)))}; "
            "--vela-config FILE reads others",
        )
    return entry


# --- Configuration files of Vela's ---

_SECTIONS = {"systems": "System_Config", "memory_modes": "Memory_Mode"}
_MOST_INHERITED = 8
_SAME = 0.1  # clocks and rates of a configuration that has a known name


class VelaConfig:
    """Clocks and memories in the words of a file for Vela's option --config."""

    def __init__(self, path: Path) -> None:
        self.path = path
        parser = ConfigParser(interpolation=None)
        try:
            parser.read_string(read_bytes(path, MACHINE).decode())
        except (ConfigParserError, UnicodeDecodeError) as error:
            line = str(error).splitlines()[0]
            raise FileError(
                f"not a configuration file of Vela's: {safe_terminal(line)}", where=str(path)
            ) from None
        self._parser = parser

    def names(self, table: str) -> tuple[str, ...]:
        head = f"{_SECTIONS[table]}."
        return tuple(name[len(head) :] for name in self._parser.sections() if name.startswith(head))

    def system(self, name: str, port_bytes: int) -> dict[str, Any] | None:
        values = self._section(f"System_Config.{name}")
        if values is None:
            return None
        areas = {values.get("axi0_port", "").lower(), values.get("axi1_port", "").lower()}
        far = areas - {"sram"} or {"sram"}
        if "sram" not in areas or len(far) != 1 or "" in areas:
            raise self._wrong(name, "expected axi0_port=Sram and axi1_port=Dram or a flash")
        ports = {"sram": "sram", "external": far.pop()}
        clock_mhz = self._number(name, values, "core_clock", None) / 1e6
        memories = {key: self._port(name, values, area, port_bytes) for key, area in ports.items()}
        return {"clock_mhz": clock_mhz, **memories}

    def memory_mode(self, name: str) -> dict[str, str] | None:
        """Of U55, U65 and U85, whose first port reaches the SRAM."""
        values = self._section(f"Memory_Mode.{name}")
        if values is None:
            return None
        areas = {"axi0": "sram", "axi1": "external"}
        entry = {
            "constants": areas.get(values.get("const_mem_area", "").lower(), ""),
            "arena": areas.get(values.get("arena_mem_area", "").lower(), ""),
        }
        if not all(entry.values()):
            raise self._wrong(name, "const_mem_area and arena_mem_area are Axi0 or Axi1")
        return entry

    def _section(self, name: str, depth: int = 0) -> dict[str, str] | None:
        """With what it inherits."""
        if not self._parser.has_section(name):
            return None
        values = dict(self._parser.items(name))
        base = values.pop("inherit", "")
        if not base:
            return values
        above = self._section(base, depth + 1) if depth < _MOST_INHERITED else None
        if above is None:
            raise self._wrong(name, f"cannot inherit from '{safe_terminal(base)}'")
        return above | values

    def _port(
        self, name: str, values: Mapping[str, str], area: str, port_bytes: int
    ) -> dict[str, float]:
        def number(key: str, default: float) -> float:
            return self._number(name, values, f"{area}_{key}", default)

        return {
            "bytes_per_cycle": number("clock_scale", 1) * number("ports_used", 1) * port_bytes,
            "read_latency_cycles": number("read_latency", 0),
            "write_latency_cycles": number("write_latency", 0),
            "burst_bytes": int(number("burst_length", 1)),
        }

    def _number(
        self, name: str, values: Mapping[str, str], key: str, default: float | None
    ) -> float:
        try:
            value = values.get(key, default)
            number = float("nan" if value is None else value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            found = safe_terminal(values.get(key, "nothing"))
            raise self._wrong(name, f"expected a number as {key}, found {found}")
        return number

    def _wrong(self, name: str, message: str) -> FileError:
        return FileError(message, where=f"{self.path}: {safe_terminal(name)}")


def _refuse_other(
    name: str, known: Mapping[str, Any], given: Mapping[str, Any], path: Path
) -> None:
    """A known name stands for the numbers here, which measurements have corrected."""

    def rates(entry: Mapping[str, Any]) -> dict[str, Any]:
        ports = ("sram", "external")
        found = {port: entry[port]["bytes_per_cycle"] for port in ports if port in entry}
        words = {key: entry[key] for key in ("constants", "arena") if key in entry}
        return found | words | ({"clock_mhz": entry["clock_mhz"]} if found else {})

    for key, value in rates(given).items():
        expected = rates(known)[key]
        if value != expected and (
            isinstance(value, str) or abs(value - expected) > _SAME * abs(expected)
        ):
            raise UsageError(
                f"'{name}' is known with another {key}: {expected}, the file has {value}",
                where=f"--vela-config {path}",
                hint="give the section a name of its own",
            )
