"""Registers of the debug unit and of the NPU cache's monitors, in front of their models."""

from __future__ import annotations

from npuscope.program.ec_blob.registers import CLEAR_BIT, ENABLE_BIT, RESET_BIT, WORD_MASK
from npuscope.sim.debug_unit import (
    COUNTERS,
    LAST_SIGNAL,
    CounterConfig,
    DebugUnit,
    Signal,
    SignalEvent,
    cache_rows,
)

FIRST_CONFIG = 0x40 // 4
FIRST_VALUE = 0x84 // 4
_LIMIT = 1 << 32


class DebugRegisters:
    """16 configurations and 16 values; other words only hold what was written."""

    def __init__(self, unit: DebugUnit) -> None:
        self._unit = unit
        self._words: dict[int, int] = {}

    def read(self, index: int) -> int:
        counter = index - FIRST_VALUE
        if 0 <= counter < COUNTERS:
            return self._unit.read(counter)
        return self._words.get(index, 0)

    def write(self, index: int, value: int) -> None:
        if index == 0:
            self._control(value)
        elif 0 <= index - FIRST_CONFIG < COUNTERS:
            self._words[index] = value
            self._configure(index - FIRST_CONFIG, value)
        elif 0 <= index - FIRST_VALUE < COUNTERS:
            self._unit.write(index - FIRST_VALUE, value)
        else:
            self._words[index] = value

    def _control(self, value: int) -> None:
        if value & (1 << CLEAR_BIT | 1 << RESET_BIT):
            self._unit.release()
            self._words = {}
        self._words[0] = value & 1 << ENABLE_BIT

    def _configure(self, counter: int, word: int) -> None:
        """The count stays when a configuration is written, also when that ends counting."""
        if not word & 1:
            self._unit.stop(counter)
            return
        self._unit.configure(counter, _config(word, self._unit.read(counter)))
        self._unit.start(counter)


def _config(word: int, value: int) -> CounterConfig:
    signal = word >> 1 & 0x1FFF
    return CounterConfig(
        # A signal that does not exist never moves.
        signal if signal <= LAST_SIGNAL else Signal.GND,
        SignalEvent(word >> 14 & 3),
        wrap=bool(word >> 16 & 1),
        count_down=bool(word >> 17 & 1),
        start=word >> 21 & 0xF if word >> 19 & 1 else None,
        stop=word >> 25 & 0xF if word >> 20 & 1 else None,
        value=value,
    )


CR1, SR = 0, 1
_FIRST_MONITOR = 4
_BUSY_ENDED, _COMMAND_ENDED = 1 << 1, 1 << 4
# By monitor, in the order of their registers: the bit of CR1 that lets it count and the one that
# sets it to zero (read hit, miss, allocate miss, evict, write hit, miss, allocate miss, through).
_ENABLE_BITS = (16, 17, 24, 29, 20, 21, 25, 28)
_RESET_BITS = (18, 19, 26, 31, 22, 23, 27, 30)
_RESETS = sum(1 << bit for bit in _RESET_BITS)


class CacheRegisters:
    """The NPU cache keeps no data here: its commands end at once, its monitors count."""

    def __init__(self, unit: DebugUnit) -> None:
        self._unit = unit
        unit.cache.start()
        self._words: dict[int, int] = {}
        self._values = [0] * len(_ENABLE_BITS)
        self._seen = self._totals

    @property
    def _totals(self) -> tuple[int, ...]:
        reads, writes = cache_rows(self._unit.cache.read())
        return *reads, *writes

    def read(self, index: int) -> int:
        self._count()
        if 0 <= index - _FIRST_MONITOR < len(self._values):
            return self._values[index - _FIRST_MONITOR]
        return _BUSY_ENDED | _COMMAND_ENDED if index == SR else self._words.get(index, 0)

    def write(self, index: int, value: int) -> None:
        self._count()
        if index != CR1:
            self._words[index] = value
            return
        self._words[CR1] = value & ~_RESETS
        for monitor, bit in enumerate(_RESET_BITS):
            if value >> bit & 1:
                self._values[monitor] = 0

    def _count(self) -> None:
        """Add what has passed since the last look to the monitors that are on."""
        totals, control = self._totals, self._words.get(CR1, 0)
        for monitor, bit in enumerate(_ENABLE_BITS):
            if control >> bit & 1:
                passed = (totals[monitor] - self._seen[monitor]) % _LIMIT
                self._values[monitor] = (self._values[monitor] + passed) % _LIMIT
        self._seen = totals


# The NPU's interrupt controller: one bit a source, four lines with masks of their own.

LINES = 4
CTRL, VERSION, INTREG, INTSET, INTCLR = range(5)
FIRST_OR_MASK = 5
FIRST_AND_MASK = FIRST_OR_MASK + LINES
CONTROLLER_BIT = 28


class InterruptController:
    """Line n fires on any bit that OR mask n lets through, or when all those that AND mask n
    lets through are set. A 1 in a mask takes a bit out."""

    def __init__(self) -> None:
        self.pending = 0
        self._reset()

    def _reset(self) -> None:
        self._control = 0
        self._masks = [WORD_MASK] * (2 * LINES)

    @property
    def lines(self) -> int:
        """Bits of the lines that fire."""
        if not self.pending or not self._control >> ENABLE_BIT & 1:
            return 0
        return sum(1 << line for line in range(LINES) if self._fires(line))

    def _fires(self, line: int) -> bool:
        mask = ~self._masks[LINES + line] & WORD_MASK
        any_of = self.pending & ~self._masks[line]
        return bool(any_of) or (bool(mask) and self.pending & mask == mask)

    def read(self, index: int) -> int:
        if index == CTRL:
            return self._control
        if index == INTREG:
            return self.pending
        at = index - FIRST_OR_MASK
        return self._masks[at] if 0 <= at < len(self._masks) else 0

    def write(self, index: int, value: int) -> None:
        if index == CTRL:
            self._control = value & 1 << ENABLE_BIT
            if value >> RESET_BIT & 1:
                self._reset()
        elif index == INTSET:
            self.pending |= value
        elif index == INTCLR:
            self.pending &= ~value
        elif 0 <= index - FIRST_OR_MASK < len(self._masks):
            self._masks[index - FIRST_OR_MASK] = value
