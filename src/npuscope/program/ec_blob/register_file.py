"""What the units' registers hold while a blob runs."""

from __future__ import annotations

from npuscope.program.ec_blob.bindings import Image
from npuscope.program.ec_blob.instructions import (
    Burst,
    Instruction,
    Write,
    WriteField,
)
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
        """Do what an instruction writes; waiting and labels are the caller's business."""
        match instruction:
            case Write(page, index, value, lsb, msb):
                self._write(page, index, value, lsb, msb)
            case WriteField(page, index, bit, value):
                self._write(page, index, value, bit, bit)
            case Burst(page, first, values, increment):
                for i, value in enumerate(values):
                    self._write(page, first + i * increment, value, 0, WORD_BITS - 1)

    def image(self, page: int) -> Image:
        unit = UNIT_BY_PAGE[page]
        return Image(unit.name, self.registers.get(page, {}))

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
        elif page not in self.enabled and _is_processor(page):
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
    def switch(self) -> Image:
        return self.image(page_of("STRSWITCH", 0))


def _is_processor(page: int) -> bool:
    unit = UNIT_BY_PAGE.get(page)
    return unit is not None and unit.name in _PROCESSORS
