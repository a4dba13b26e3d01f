"""The core's own registers: SysTick, interrupt controller, system control, cycle counter."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from npuscope.boards.emulated.cpu import EmulatedCpu
from npuscope.boards.emulated.memory import BoardMemory, FetchCost
from npuscope.errors import DeviceError
from npuscope.machine.model import Machine

# Time on the emulated board: processor cycles, and the NPU's clock beside them.
#
# Nothing here knows the host's time: cycles pass by executed instructions and by sleep.

# Cycles of one instruction on average. Not measured: most instructions of a Cortex-M take one
# cycle, a load two and a taken branch two or three, and code here is built for the M33 while the
# real core is an M55. Processor time is right within about 40 %; the NPU's own time does not
# depend on it.
CYCLES_PER_INSTRUCTION = 1.25


class Clock:
    """Executed instructions and time asleep, since power-up."""

    def __init__(self, cpu: EmulatedCpu, machine: Machine, fetches: FetchCost) -> None:
        self._cpu = cpu
        self._fetches = fetches
        self._fetched = 0  # cycles of fetches up to the end of the last sleep
        self._mcu_hz = round(machine.clocks.mcu_mhz * 1e6)
        self._npu_hz = round(machine.clocks.npu_mhz * 1e6)
        # Both clocks are at a whole cycle once in so many cycles of the processor.
        self._period = self._mcu_hz // math.gcd(self._mcu_hz, self._npu_hz)
        self._passed = 0  # cycles up to the end of the last sleep
        self._instructions = 0  # executed by then

    @property
    def cycles(self) -> int:
        executed = self._cpu.instructions - self._instructions
        waited = self._fetches.cycles - self._fetched
        return int(executed * CYCLES_PER_INSTRUCTION) + waited + self._passed

    @property
    def npu_cycles(self) -> int:
        return self.cycles * self._npu_hz // self._mcu_hz

    @property
    def seconds(self) -> float:
        return self.cycles / self._mcu_hz

    def at_npu(self, npu_cycle: int) -> int:
        """The processor's first cycle at which the NPU's clock shows this."""
        return -(-npu_cycle * self._mcu_hz // self._npu_hz)

    def after(self, seconds: float) -> int:
        """The first cycle at which so much time has passed from now."""
        return self.cycles + math.ceil(seconds * self._mcu_hz)

    def skip_to(self, cycle: int) -> None:
        """Time passes without instructions; the next one begins with a whole cycle."""
        self._passed = max(cycle, self.cycles)
        self._instructions = self._cpu.instructions
        self._fetched = self._fetches.cycles

    def align(self) -> None:
        """Go on to where the NPU's clock is at a whole cycle too: what follows then counts the
        same, however long the wait before it was."""
        self.skip_to(-(-self.cycles // self._period) * self._period)

    def instructions_until(self, cycle: int) -> int:
        """Instructions that fit before a cycle, at least one."""
        return max(1, int((cycle - self.cycles) / CYCLES_PER_INSTRUCTION))


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
        return min(ready, key=lambda n: (self.priorities.get(n, 0), n)) if ready else None

    def next(self, basepri: int = 0) -> int | None:
        """The one to take now: more urgent than what is running and than the mask."""
        number = self.first()
        if number is None:
            return None
        priority = self.priorities.get(number, 0)
        if self.active and priority >= min(self.priorities.get(n, 0) for n in self.active):
            return None
        return None if basepri and priority >= basepri else number

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
        needed = _TICK_ON | _TICK_INTERRUPT
        if self._control & needed != needed or not self._reload:
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

    # Words.

    def read(self, offset: int) -> int:
        self.tick()
        if offset == _SYST_CSR:
            ticked, self._ticked = self._ticked, False
            return self._control | ticked * _TICKED
        if offset == _SYST_RVR:
            return self._reload
        if offset == _SYST_CVR:
            if not self._control & _TICK_ON:
                return 0
            return max(0, self._reload - (self._clock.cycles - self._tick_base))
        if _ENABLE <= offset < _ENABLE + 2 * _BANK:
            return self._bits(self.exceptions.enabled, offset % _BANK)
        if _PEND <= offset < _PEND + 2 * _BANK:
            return self._bits(self.exceptions.pending, offset % _BANK)
        if _ACTIVE <= offset < _ACTIVE + _BANK:
            return self._bits(set(self.exceptions.active), offset % _BANK)
        if offset in (_CPUID_AT, _ICSR, _VTOR):
            pending, active = self.exceptions.pending, self.exceptions.active
            flags = (PENDSV in pending) * _PEND_SV_SET | (SYSTICK in pending) * _PEND_TICK_SET
            return {
                _CPUID_AT: _CPUID,
                _ICSR: flags | (self.exceptions.first() or 0) << 12 | (active[-1] if active else 0),
                _VTOR: self.vectors,
            }[offset]
        return self._words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        self.tick()
        exceptions = self.exceptions
        if _SYST_CSR <= offset <= _SYST_CVR:
            if offset == _SYST_CSR:
                if value & ~self._control & _TICK_ON:
                    self._tick_base = self._clock.cycles
                self._control = value & 7
            elif offset == _SYST_RVR:
                self._reload = value & 0xFFFFFF
            else:
                self._tick_base, self._ticked = self._clock.cycles, False
        elif _ENABLE <= offset < _ENABLE + _BANK:
            exceptions.enabled |= _numbers(offset - _ENABLE, value)
        elif _DISABLE <= offset < _DISABLE + _BANK:
            exceptions.enabled -= _numbers(offset - _DISABLE, value)
        elif _PEND <= offset < _PEND + _BANK:
            exceptions.pending |= _numbers(offset - _PEND, value)
        elif _UNPEND <= offset < _UNPEND + _BANK:
            exceptions.pending -= _numbers(offset - _UNPEND, value) - exceptions.levels
        elif offset == _ICSR:
            pending = self.exceptions.pending
            for number, up, down in (
                (PENDSV, _PEND_SV_SET, _PEND_SV_CLEAR),
                (SYSTICK, _PEND_TICK_SET, _PEND_TICK_CLEAR),
            ):
                if value & up:
                    pending.add(number)
                if value & down:
                    pending.discard(number)
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

    def __init__(self, clock: Clock, measured: Callable[[], None]) -> None:
        self._clock = clock
        self._measured = measured  # called at every look at the time
        self._words: dict[int, int] = {}
        self._zero = 0

    def read(self, offset: int) -> int:
        if offset == 4:
            self._measured()
            # Between two reads as many instructions then count as many cycles, wherever they are.
            self._clock.skip_to(self._clock.cycles)
            return self._clock.cycles - self._zero & _WORD
        return self._words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        if offset == 4:
            self._zero = self._clock.cycles - value
        else:
            self._words[offset] = value


# Exception entry and return, which the emulator leaves to its user.

_FRAME = struct.Struct("<8I")
_STACKED = ("R0", "R1", "R2", "R3", "R12", "LR")
_THUMB = 1 << 24
_REALIGNED = 1 << 9
_RETURN_TO_THREAD, _RETURN_TO_HANDLER = 0xFFFFFFF9, 0xFFFFFFF1


class Entries:
    """Takes exceptions and returns from them. Floating-point registers are kept aside, not on
    the firmware's stack."""

    def __init__(self, cpu: EmulatedCpu, memory: BoardMemory, system: SystemRegisters) -> None:
        self._cpu = cpu
        self._memory = memory
        self._system = system
        self._floats: list[tuple[int, ...]] = []
        self.held = False  # something pends, and the core's masks keep it from being taken

    @property
    def masked(self) -> bool:
        return bool(self._cpu.get("PRIMASK") & 1 or self._cpu.get("FAULTMASK") & 1)

    def take(self) -> bool:
        """Enter the handler of what is pending, if it may be taken now."""
        exceptions = self._system.exceptions
        self.held = exceptions.first() is not None and self.masked
        if self.held or exceptions.first() is None:
            return False
        number = exceptions.next(self._cpu.get("BASEPRI"))
        if number is None:
            return False
        cpu, exceptions = self._cpu, self._system.exceptions
        status, pointer = cpu.get("XPSR"), cpu.get("SP")
        aligned = pointer & ~7
        frame = [cpu.get(name) for name in _STACKED]
        status_word = status | _REALIGNED if pointer != aligned else status & ~_REALIGNED
        try:
            self._memory.write(
                aligned - _FRAME.size, _FRAME.pack(*frame, cpu.get("PC"), status_word)
            )
        except DeviceError as error:
            raise self._cpu.fault(f"no room on the stack: {error.message}") from error
        self._floats.append(cpu.get_float())
        cpu.put("SP", aligned - _FRAME.size)
        cpu.put("LR", _RETURN_TO_HANDLER if exceptions.active else _RETURN_TO_THREAD)
        exceptions.enter(number)
        cpu.put("XPSR", _THUMB | number)
        vector = self._load(self._system.vectors + 4 * number, 4)
        address = int.from_bytes(vector, "little")
        if not address & 1:
            raise self._cpu.fault(f"exception {number} has no handler: {address:#x}")
        cpu.put("PC", address)
        return True

    def leave(self) -> None:
        """A handler has returned: go on where it came in."""
        cpu = self._cpu
        if not self._floats:
            raise cpu.fault("return from an exception that was not taken")
        pointer = cpu.get("SP")
        *frame, pc, status = _FRAME.unpack(self._load(pointer, _FRAME.size))
        cpu.put("XPSR", status & ~_REALIGNED)
        cpu.put("SP", pointer + _FRAME.size + (4 if status & _REALIGNED else 0))
        for name, value in zip(_STACKED, frame, strict=True):
            cpu.put(name, value)
        cpu.put_float(self._floats.pop())
        self._system.exceptions.leave()
        cpu.put("PC", pc | 1)

    def _load(self, address: int, size_bytes: int) -> bytes:
        try:
            return self._memory.read(address, size_bytes)
        except DeviceError as error:
            raise self._cpu.fault(f"the stack or vector table is lost: {error.message}") from error
