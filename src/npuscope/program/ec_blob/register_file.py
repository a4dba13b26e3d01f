"""What the units' registers hold while a blob runs, the stream switch's among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from npuscope.errors import FileError, TargetError
from npuscope.program.ec_blob.instructions import (
    Burst,
    Instruction,
    Write,
    WriteField,
)
from npuscope.program.ec_blob.register_map import DESTINATIONS, FIRST_DESTINATION, SOURCES
from npuscope.program.ec_blob.registers import (
    CTRL,
    ENABLE_BIT,
    RESET_BIT,
    UNIT_BY_NAME,
    UNIT_BY_PAGE,
    WORD_BITS,
    WORD_MASK,
    page_of,
    reset_value,
)
from npuscope.program.units import Link, Port, Unit

# --- Fields of a unit's record and their bits in its registers, for both directions ---

# Input shifters count from -16: a register value of 16 shifts by nothing.
SHIFT_BIAS = 16


class FieldBinding(Struct, frozen=True):
    """A record's field and its bits; `bias` is added in the register, `invert` flips a flag."""

    name: str
    path: str
    signed: bool = False
    bias: int = 0
    invert: bool = False


class UnitRegisters:
    """The registers of one unit, by name, starting from their reset values."""

    def __init__(self, unit: str, words: Mapping[int, int] | None = None) -> None:
        self.unit = UNIT_BY_NAME[unit]
        contents = words or {}
        self.words = {r.name: contents.get(r.index, r.reset) for r in self.unit.registers}

    def get(self, path: str, signed: bool = False) -> int:
        register, field = self.unit.field(path)
        value = field.get(self.words[register.name])
        return value - (1 << field.width) if signed and value >> field.width - 1 else value

    def put(self, path: str, value: int, signed: bool = False) -> None:
        """Set a field; a value that does not fit is a TargetError that names the register."""
        register, field = self.unit.field(path)
        if signed:
            low, high = -(1 << field.width - 1), (1 << field.width - 1) - 1
        else:
            low, high = 0, (1 << field.width) - 1
        if not low <= value <= high:
            raise TargetError(
                f"{self.unit.name} register {path} holds {low} to {high}, not {value}"
            )
        self.words[register.name] = field.put(self.words[register.name], value)

    def lift(self, bounds: Iterable[FieldBinding]) -> dict[str, Any]:
        """The bound fields of a record."""
        return {bound.name: self._lifted(bound) for bound in bounds}

    def _lifted(self, bound: FieldBinding) -> int:
        value = self.get(bound.path, bound.signed) - bound.bias
        return int(not value) if bound.invert else value

    def lower(self, bounds: Iterable[FieldBinding], record: Unit) -> None:
        for bound in bounds:
            value = int(getattr(record, bound.name))
            value = int(not value) if bound.invert else value
            self.put(bound.path, value + bound.bias, bound.signed)


def output_stage(where: str, relu: str = "") -> tuple[FieldBinding, ...]:
    """Rounding, saturation and width at a unit's output; `relu`: where the modes sit."""
    modes = relu or where
    return (
        FieldBinding("rounding_o", f"{where}.ROUND"),
        FieldBinding("saturation_o", f"{where}.SAT"),
        FieldBinding("round_mode_o", f"{modes}.ORNDMODE"),
        FieldBinding("relu_mode_o", f"{modes}.ORELU"),
        FieldBinding("outbytes_o", f"{modes}.OBYTES"),
    )


def input_stage(where: str, modes: str = "") -> tuple[FieldBinding, ...]:
    """Rounding, saturation, shift and width of the input f."""
    return (
        FieldBinding("rounding_f", f"{where}.FROUND"),
        FieldBinding("saturation_f", f"{where}.FSAT"),
        FieldBinding("round_mode_f", f"{modes or where}.FRNDMODE"),
        FieldBinding("inbytes_f", f"{where}.FBYTES"),
        FieldBinding("shift_f", f"{where}.FSHIFT", bias=SHIFT_BIAS),
    )


# --- What the units' registers hold while a blob runs ---

# Words from here on are a unit's memory for coefficients; a reset leaves it alone.
MEMORY_WORD = 0x100
# Entries of an arithmetic unit's memory that the first of its two windows cannot reach.
SECOND_WINDOW = 128
_ENTRY_WORDS = 2
_PROCESSORS = ("STRENG", "CONVACC", "DECUN", "ACTIV", "ARITH", "POOL", "RECBUF")


class RegisterFile:
    """Registers by page and index, memories apart, and which units are on, in their order."""

    def __init__(self) -> None:
        self.registers: dict[int, dict[int, int]] = {}
        self.memories: dict[int, dict[int, int]] = {}
        self.enabled: dict[int, None] = {}
        self.started = False  # a unit was switched on since this was last cleared

    def run(self, instruction: Instruction) -> None:
        """Apply what an instruction writes; the caller handles waits and labels."""
        match instruction:
            case Write(page, index, value, lsb, msb):
                self._write(page, index, value, lsb, msb)
            case WriteField(page, index, bit, value):
                self._write(page, index, value, bit, bit)
            case Burst(page, first, values, increment):
                for i, value in enumerate(values):
                    self._write(page, first + i * increment, value, 0, WORD_BITS - 1)

    def image(self, page: int) -> UnitRegisters:
        unit = UNIT_BY_PAGE[page]
        return UnitRegisters(unit.name, self.registers.get(page, {}))

    def memory(self, page: int) -> dict[int, int]:
        return self.memories.get(page, {})

    def _write(self, page: int, index: int, value: int, lsb: int, msb: int) -> None:
        if index >= MEMORY_WORD:
            word = index - MEMORY_WORD + self._window(page)
            self.memories.setdefault(page, {})[word] = value
            return
        registers = self.registers.setdefault(page, {})
        mask = WORD_MASK >> (WORD_BITS - 1 - msb) & WORD_MASK << lsb
        before = registers.get(index, reset_value(page, index))
        after = before & ~mask | value << lsb & mask
        registers[index] = after
        if index == CTRL:
            self._control(page, after)

    def _control(self, page: int, value: int) -> None:
        if value >> RESET_BIT & 1:
            self.registers[page] = {}
            value = 0
        if not value >> ENABLE_BIT & 1:
            self.enabled.pop(page, None)
        elif page not in self.enabled:
            unit = UNIT_BY_PAGE.get(page)
            if unit is not None and unit.name in _PROCESSORS:
                self.enabled[page] = None
                self.started = True

    def _window(self, page: int) -> int:
        """Words to add to reach the upper entries of an arithmetic unit's memory."""
        arith = UNIT_BY_NAME["ARITH"]
        if not 0 <= page - arith.page < arith.count:
            return 0
        translates = self.registers.get(page, {}).get(arith.by_name["TRANSLATEADDR"].index, 0)
        return 0 if translates & 1 else SECOND_WINDOW * _ENTRY_WORDS

    @property
    def switch(self) -> UnitRegisters:
        return self.image(page_of("STRSWITCH", 0))


# --- The stream switch: links between units as destination registers ---

_DESTINATIONS: tuple[Port, ...] = tuple(
    Port(unit, number, port)
    for unit, count, ports in DESTINATIONS
    for number in range(count)
    for port in range(ports)
)
_SOURCES: tuple[Port, ...] = tuple(
    Port(unit, number) for unit, count in SOURCES for number in range(count)
)
_REGISTERS = {port: FIRST_DESTINATION + i for i, port in enumerate(_DESTINATIONS)}
_NUMBERS = {port: i for i, port in enumerate(_SOURCES)}


def lift_links(image: UnitRegisters) -> tuple[Link, ...]:
    """All links that have a context on, in the order of their registers."""
    links = []
    for port, index in _REGISTERS.items():
        name = image.unit.by_index[index].name
        if image.get(f"{name}.EN0") or image.get(f"{name}.EN1"):
            enable0, enable1 = image.get(f"{name}.EN0"), image.get(f"{name}.EN1")
            sources = {image.get(f"{name}.LINK{i}") for i, on in ((0, enable0), (1, enable1)) if on}
            source = min(sources)
            if len(sources) > 1 or source >= len(_SOURCES):
                raise FileError(
                    f"{port.unit} {port.id} port {port.port} is linked to sources {sorted(sources)}"
                )
            frames0, frames1 = image.get(f"{name}.FNR0"), image.get(f"{name}.FNR1")
            links.append(
                Link(_SOURCES[source], port, bool(enable0), frames0, bool(enable1), frames1)
            )
    return tuple(links)


def lower_links(links: tuple[Link, ...]) -> dict[int, int]:
    """Destination register -> its word."""
    image = UnitRegisters("STRSWITCH")
    words: dict[int, int] = {}
    for link in links:
        index = _REGISTERS.get(link.destination)
        source = _NUMBERS.get(Port(link.source.unit, link.source.id))
        if index is None or source is None or index in words:
            raise TargetError(
                f"no switch register for the link {link.source} to {link.destination}"
            )
        name = image.unit.by_index[index].name
        second = bool(link.enable1 or link.frames1)
        values = {
            "EN0": int(link.enable0),
            "LINK0": source,
            "FNR0": link.frames0,
            "EN1": int(link.enable1),
            "LINK1": source if second else 0,
            "FNR1": link.frames1,
        }
        for field, value in values.items():
            image.put(f"{name}.{field}", value)
        words[index] = image.words[name]
    return words
