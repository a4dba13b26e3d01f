"""Registers of the NPU's units: pages, offsets, fields and reset values, written down once.

The disassembler names things by this table, lifting reads fields through it and lowering packs
them through it. A page is 4 KiB of addresses, a register index counts 32-bit words in it.
"""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from npuscope.errors import InternalError
from npuscope.program.ec_blob.register_map import UNITS

WORD_BITS = 32
WORD_MASK = 0xFFFFFFFF
REGISTERS_PER_PAGE = 1024
PAGES = 64

# Every unit's CTRL is register 0 and has these bits.
CTRL = 0
ENABLE_BIT = 0
CLEAR_BIT = 1
RESET_BIT = 30  # registers take their reset values, memories of coefficients stay
RUNNING_BIT = 31


class BitField(Struct, frozen=True):
    """Some bits of a register."""

    name: str
    lsb: int
    width: int = 1
    reset: int = 0

    @property
    def mask(self) -> int:
        return ((1 << self.width) - 1) << self.lsb

    def get(self, word: int) -> int:
        return (word & self.mask) >> self.lsb

    def put(self, word: int, value: int) -> int:
        """The word with this field replaced; the caller has checked the range."""
        return word & ~self.mask | (value << self.lsb) & self.mask


class Register(Struct, frozen=True, dict=True):
    name: str
    index: int
    fields: tuple[BitField, ...]

    @cached_property
    def reset(self) -> int:
        return sum(field.reset << field.lsb for field in self.fields)

    @cached_property
    def by_name(self) -> dict[str, BitField]:
        return {field.name: field for field in self.fields}


class UnitPages(Struct, frozen=True, dict=True):
    """A type of unit: `count` of them on consecutive pages from `page`."""

    name: str
    page: int
    count: int
    registers: tuple[Register, ...]

    @cached_property
    def by_name(self) -> dict[str, Register]:
        return {register.name: register for register in self.registers}

    @cached_property
    def by_index(self) -> dict[int, Register]:
        return {register.index: register for register in self.registers}

    def field(self, path: str) -> tuple[Register, BitField]:
        """A field by its path, e.g. "DFORMAT.FSHIFT"."""
        name, _, field = path.partition(".")
        register = self.by_name.get(name)
        if register is None or field not in register.by_name:
            raise InternalError(f"the register map has no {self.name} {path}")
        return register, register.by_name[field]


def _unit(name: str, page: int, count: int, table: dict[str, tuple[int, str]]) -> UnitPages:
    registers = tuple(Register(key, index, _fields(text)) for key, (index, text) in table.items())
    return UnitPages(name, page, count, registers)


def _fields(text: str) -> tuple[BitField, ...]:
    """The map's short form: "NAME lsb+width=reset", width 1 and reset 0 left out."""
    return tuple(_field(*entry.split(":")) for entry in text.split())


def _field(name: str, bits: str) -> BitField:
    place, _, reset = bits.partition("=")
    lsb, _, width = place.partition("+")
    return BitField(name, int(lsb), int(width or 1), int(reset or "0", 0))


UNIT_BY_NAME: dict[str, UnitPages] = {
    name: _unit(name, page, count, table) for name, (page, count, table) in UNITS.items()
}
UNIT_BY_PAGE: dict[int, UnitPages] = {
    unit.page + number: unit for unit in UNIT_BY_NAME.values() for number in range(unit.count)
}


def page_of(unit: str, number: int) -> int:
    return UNIT_BY_NAME[unit].page + number


def page_name(page: int) -> str:
    """ "ARITH2"; a unit that exists once goes without its number."""
    unit = UNIT_BY_PAGE.get(page)
    if unit is None:
        return f"PAGE{page}"
    return unit.name if unit.count == 1 else f"{unit.name}{page - unit.page}"


PAGE_BY_NAME: dict[str, int] = {page_name(page): page for page in range(PAGES)}


def register_name(page: int, index: int) -> str:
    """ "KFORMAT"; a word without a name is its index, as in "@256"."""
    unit = UNIT_BY_PAGE.get(page)
    register = unit.by_index.get(index) if unit else None
    return register.name if register else f"@{index}"


def register_index(page: int, name: str) -> int | None:
    unit = UNIT_BY_PAGE.get(page)
    register = unit.by_name.get(name) if unit else None
    return register.index if register else None


def reset_value(page: int, index: int) -> int:
    unit = UNIT_BY_PAGE.get(page)
    register = unit.by_index.get(index) if unit else None
    return register.reset if register else 0


def clock_gate(page: int) -> int:
    """Bit of CLKCTRL.BGATES that clocks a unit: they follow the order of the pages."""
    return page - UNIT_BY_NAME["STRENG"].page
