"""The core's own registers: SysTick, interrupt controller, system control, cycle counter."""

from __future__ import annotations

from npuscope.boards.emulated.clock import Clock

SVC, PENDSV, SYSTICK, FIRST_EXTERNAL = 11, 14, 15, 16
EXTERNALS = 240
_WORD = 0xFFFFFFFF
_CPUID = 0x410FD213  # Cortex-M33 r0p3
_CPUID_AT, _ICSR, _VTOR, _AIRCR, _SHPR, _SHPR_END = 0xD00, 0xD04, 0xD08, 0xD0C, 0xD18, 0xD24
_SYST_CSR, _SYST_RVR, _SYST_CVR = 0x10, 0x14, 0x18
_ENABLE, _DISABLE, _PEND, _UNPEND, _ACTIVE, _PRIORITY = 0x100, 0x180, 0x200, 0x280, 0x300, 0x400
_BANK = 0x80
_RESET_KEY, _RESET_REQUEST = 0x05FA, 1 << 2
_PEND_SV_SET, _PEND_SV_CLEAR, _PEND_TICK_SET, _PEND_TICK_CLEAR = (1 << i for i in (28, 27, 26, 25))
_TICK_ON, _TICK_INTERRUPT, _TICKED = 1, 2, 1 << 16


class Exceptions:
    """Which exceptions are enabled, pending, active, and which comes first.

    A smaller priority number is more urgent; of equal ones the smaller exception is.
    """

    def __init__(self) -> None:
        self.enabled = {SVC, PENDSV, SYSTICK}
        self.pending: set[int] = set()
        self.levels: set[int] = set()  # lines that are held up by their device
        self.active: list[int] = []
        self.priorities: dict[int, int] = {}

    def set_line(self, number: int, up: bool) -> None:
        """A device's line: it pends as long as it is up."""
        if not up:
            self.levels.discard(number)
        elif number not in self.levels:
            self.levels.add(number)
            self.pending.add(number)

    def first(self) -> int | None:
        """The most urgent exception that could be taken, masks apart."""
        ready = self.pending & self.enabled
        return min(ready, key=self._urgency) if ready else None

    def next(self, basepri: int = 0) -> int | None:
        """The one to take now: more urgent than what is running and than the mask."""
        found = self.first()
        if found is None:
            return None
        priority = self.priorities.get(found, 0)
        if self.active and priority >= min(self.priorities.get(n, 0) for n in self.active):
            return None
        return None if basepri and priority >= basepri else found

    def _urgency(self, number: int) -> tuple[int, int]:
        return self.priorities.get(number, 0), number

    def enter(self, number: int) -> None:
        self.pending.discard(number)
        self.active.append(number)

    def leave(self) -> None:
        number = self.active.pop()
        if number in self.levels:
            self.pending.add(number)


class SystemRegisters:
    """The page at 0xE000E000. What is not known here only holds what was written."""

    def __init__(self, clock: Clock, vectors: int) -> None:
        self.exceptions = Exceptions()
        self.vectors = vectors
        self.reset_requested = False
        self._clock = clock
        self._words: dict[int, int] = {}
        self._control = self._reload = 0
        self._tick_base = 0  # cycle at which the count was last full
        self._ticked = False

    # SysTick counts processor cycles down from its reload value.

    @property
    def next_tick(self) -> int | None:
        """Cycle of the next tick, None when it raises nothing."""
        wanted = _TICK_ON | _TICK_INTERRUPT
        if self._control & wanted != wanted or not self._reload:
            return None
        return self._tick_base + self._reload + 1

    def tick(self) -> None:
        """Take note of the time."""
        period = self._reload + 1
        if not self._control & _TICK_ON or not self._reload:
            return
        turns = (self._clock.cycles - self._tick_base) // period
        if turns <= 0:
            return
        self._tick_base += turns * period
        self._ticked = True
        if self._control & _TICK_INTERRUPT:
            self.exceptions.pending.add(SYSTICK)

    def _left(self) -> int:
        if not self._control & _TICK_ON:
            return 0
        return max(0, self._reload - (self._clock.cycles - self._tick_base))

    # Words.

    def read(self, offset: int) -> int:
        self.tick()
        if offset == _SYST_CSR:
            ticked, self._ticked = self._ticked, False
            return self._control | ticked * _TICKED
        if offset == _SYST_RVR:
            return self._reload
        if offset == _SYST_CVR:
            return self._left()
        if _ENABLE <= offset < _ENABLE + 2 * _BANK:
            return self._bits(self.exceptions.enabled, offset % _BANK)
        if _PEND <= offset < _PEND + 2 * _BANK:
            return self._bits(self.exceptions.pending, offset % _BANK)
        if _ACTIVE <= offset < _ACTIVE + _BANK:
            return self._bits(set(self.exceptions.active), offset % _BANK)
        if offset in (_CPUID_AT, _ICSR, _VTOR):
            return {_CPUID_AT: _CPUID, _ICSR: self._state(), _VTOR: self.vectors}[offset]
        return self._words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        self.tick()
        exceptions = self.exceptions
        if _SYST_CSR <= offset <= _SYST_CVR:
            self._write_tick(offset, value)
        elif _ENABLE <= offset < _ENABLE + _BANK:
            exceptions.enabled |= _numbers(offset - _ENABLE, value)
        elif _DISABLE <= offset < _DISABLE + _BANK:
            exceptions.enabled -= _numbers(offset - _DISABLE, value)
        elif _PEND <= offset < _PEND + _BANK:
            exceptions.pending |= _numbers(offset - _PEND, value)
        elif _UNPEND <= offset < _UNPEND + _BANK:
            exceptions.pending -= _numbers(offset - _UNPEND, value) - exceptions.levels
        elif offset == _ICSR:
            self._write_state(value)
        elif offset == _VTOR:
            self.vectors = value & ~0x7F
        elif offset == _AIRCR:
            self.reset_requested |= value >> 16 == _RESET_KEY and bool(value & _RESET_REQUEST)
        else:
            self._words[offset] = value
            self._write_priority(offset, value)

    def _bits(self, numbers: set[int], offset: int) -> int:
        first = FIRST_EXTERNAL + 8 * offset
        return sum(1 << n - first for n in numbers if first <= n < first + 32)

    def _write_tick(self, offset: int, value: int) -> None:
        if offset == _SYST_CSR:
            if value & ~self._control & _TICK_ON:
                self._tick_base = self._clock.cycles
            self._control = value & 7
        elif offset == _SYST_RVR:
            self._reload = value & 0xFFFFFF
        else:
            self._tick_base, self._ticked = self._clock.cycles, False

    def _state(self) -> int:
        pending, active = self.exceptions.pending, self.exceptions.active
        flags = (PENDSV in pending) * _PEND_SV_SET | (SYSTICK in pending) * _PEND_TICK_SET
        return flags | (self.exceptions.first() or 0) << 12 | (active[-1] if active else 0)

    def _write_state(self, value: int) -> None:
        pending = self.exceptions.pending
        for number, up, down in (
            (PENDSV, _PEND_SV_SET, _PEND_SV_CLEAR),
            (SYSTICK, _PEND_TICK_SET, _PEND_TICK_CLEAR),
        ):
            if value & up:
                pending.add(number)
            if value & down:
                pending.discard(number)

    def _write_priority(self, offset: int, value: int) -> None:
        if _PRIORITY <= offset < _PRIORITY + EXTERNALS:
            first = FIRST_EXTERNAL + offset - _PRIORITY
        elif _SHPR <= offset < _SHPR_END:
            first = 4 + offset - _SHPR
        else:
            return
        for i in range(4):
            self.exceptions.priorities[first + i] = value >> 8 * i & 0xFF


def _numbers(offset: int, value: int) -> set[int]:
    first = FIRST_EXTERNAL + 8 * offset
    return {first + bit for bit in range(32) if value >> bit & 1}


class CycleCounter:
    """DWT: CYCCNT counts processor cycles, asleep too; the other words hold what was written."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._words: dict[int, int] = {}
        self._zero = 0

    def read(self, offset: int) -> int:
        if offset == 4:
            # Between two reads as many instructions then count as many cycles, wherever they are.
            self._clock.skip_to(self._clock.cycles)
            return self._clock.cycles - self._zero & _WORD
        return self._words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        if offset == 4:
            self._zero = self._clock.cycles - value
        else:
            self._words[offset] = value
