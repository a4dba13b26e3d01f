"""EthosMachine: an Ethos-U with the memories around it, as data from the TOML files beside."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from msgspec import Struct

from npuscope.bounded_file import MACHINE, read_toml
from npuscope.errors import FileError, UsageError
from npuscope.machine.load import UnknownMachine
from npuscope.machine.marks import Bytes, Cycles, Elements, Mhz, Rate, Some
from npuscope.machine.schema import UNRANGED, range_faults
from npuscope.machine.set_keys import apply_overrides
from npuscope.plain_data import Range
from npuscope.records import decode

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
    clock_mhz: Mhz
    sram: MemoryPort
    external: MemoryPort
    constants: str  # sram or external
    arena: str
    board: str = ""  # whose memories these are, where Vela has no configuration of that name

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
) -> EthosMachine:
    """`overrides` replaces single values by their path: {"sram.read_latency_cycles": 16}."""
    if name not in machine_names():
        raise UnknownMachine(name, machine_names())
    product, _, macs = name.rpartition("-")
    record = dict(_table(product))
    record |= {"name": name, "macs": int(macs)} | record.pop("variants")[macs]
    record["system"] = system or record["system"]
    record["memory_mode"] = memory_mode or record["memory_mode"]
    record |= _entry("systems", record["system"], "--system-config")
    record |= _entry("memory_modes", record["memory_mode"], "--memory-mode")
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


def _entry(table: str, name: str, option: str) -> dict[str, Any]:
    entries = _table("systems")[table]
    if name not in entries:
        raise UsageError(
            f"unknown name '{name}'", where=option, hint=f"known: {', '.join(entries)}"
        )
    entry: dict[str, Any] = entries[name]
    return entry
