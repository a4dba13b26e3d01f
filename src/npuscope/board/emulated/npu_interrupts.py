"""The NPU's interrupt controller: one bit a source, four lines with masks of their own."""

from __future__ import annotations

from npuscope.program.ec_blob.registers import ENABLE_BIT, RESET_BIT, WORD_MASK

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
        wanted = ~self._masks[LINES + line] & WORD_MASK
        any_of = self.pending & ~self._masks[line]
        return bool(any_of) or (bool(wanted) and self.pending & wanted == wanted)

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
