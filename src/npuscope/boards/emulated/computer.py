"""The whole board: core, system registers, NPU and serial port on one clock."""

from __future__ import annotations

from npuscope.boards.emulated.cpu import EmulatedCpu, Stop
from npuscope.boards.emulated.memory import (
    CACHE_ADDRESS,
    DWT_ADDRESS,
    FIRMWARE_ADDRESS,
    FLASH_ADDRESS,
    FLASH_BYTES,
    NPU_ADDRESS,
    NPU_BYTES,
    NPU_INTERRUPT,
    PAGE_BYTES,
    SYSTEM_ADDRESS,
    UART_ADDRESS,
    UART_INTERRUPT,
    BoardMemory,
    FetchCost,
)
from npuscope.boards.emulated.npu import Npu
from npuscope.boards.emulated.npu_debug import LINES
from npuscope.boards.emulated.ports import CachePort, NpuPort, SystemPort, Uart, UartPort
from npuscope.boards.emulated.system import (
    FIRST_EXTERNAL,
    SVC,
    Clock,
    CycleCounter,
    Entries,
    SystemRegisters,
)
from npuscope.machine.model import Machine, non_secure_alias

SLICE_INSTRUCTIONS = 2_000_000
# An interrupt that waits for its mask to fall is taken with the next instruction, or, when the
# mask stays for long, a little later.
_MASKED_STEPS = 32
_MASKED_SLICE = 64
# A processor that polls the serial port is left alone for so long, by the board's clock.
_POLL_S = 0.02
# Who works for so many instructions before it looks at the time has loaded and checked an image.
_LONG_START = 100_000
_CACHE_PAGE = CACHE_ADDRESS & ~(PAGE_BYTES - 1)
DEFAULT_BUDGET = 2_000_000_000


class Computer:
    """`budget` is how many instructions may pass without sleep or serial traffic."""

    def __init__(
        self,
        memory: BoardMemory,
        machine: Machine,
        *,
        vectors: int = FIRMWARE_ADDRESS,
        budget: int = DEFAULT_BUDGET,
    ) -> None:
        self.memory = memory
        self.uart = Uart()
        self._budget = budget
        self._cpu = EmulatedCpu(memory)
        self._fetches = FetchCost(machine)
        self._cpu.watch(FLASH_ADDRESS, FLASH_BYTES, self._fetches)
        self.clock = Clock(self._cpu, machine, self._fetches)
        self.npu = Npu(memory, machine, lambda: self.clock.npu_cycles)
        self._system = SystemRegisters(self.clock, vectors)
        self._entries = Entries(self._cpu, memory, self._system)
        self._asleep: Stop | None = None
        self._event = False
        self._last_rest = 0
        self._masked = 0
        self._reads_charged: bool | None = None  # False: from the next slice on
        self._lines = 0  # of the NPU, as they were last seen
        alias = (lambda address: address) if self.memory.secure else non_secure_alias
        self._cpu.attach(alias(NPU_ADDRESS), NPU_BYTES, NpuPort(self))
        self._cpu.attach(alias(_CACHE_PAGE), PAGE_BYTES, CachePort(self))
        self._cpu.attach(alias(UART_ADDRESS), PAGE_BYTES, UartPort(self))
        self._cpu.attach(SYSTEM_ADDRESS, PAGE_BYTES, SystemPort(self, self._system))
        self._cpu.attach(DWT_ADDRESS, PAGE_BYTES, CycleCounter(self.clock, self._charge_reads))
        stack, entry = memoryview(self.memory.read(vectors, 8)).cast("I")
        self._cpu.put("SP", stack)
        self._cpu.put("PC", entry)

    @property
    def reset_requested(self) -> bool:
        return self._system.reset_requested

    @property
    def asleep(self) -> bool:
        return self._asleep is not None

    @property
    def instructions(self) -> int:
        return self._cpu.instructions

    # Time.

    def catch_up(self) -> None:
        """Devices see the time, the interrupt controller sees the devices."""
        self.npu.look()
        self._system.tick()
        lines = self.npu.interrupts.lines
        if lines != self._lines:
            self._lines = lines
            for line in range(LINES):
                number = FIRST_EXTERNAL + NPU_INTERRUPT + line
                self._system.exceptions.set_line(number, bool(lines >> line & 1))
        self._system.exceptions.set_line(FIRST_EXTERNAL + UART_INTERRUPT, self.uart.interrupts)

    def attend(self) -> None:
        """A device was touched: end the slice if that made something pending."""
        self.catch_up()
        if self._system.exceptions.first() is not None or self._system.reset_requested:
            self._cpu.stop_soon()
        if self.uart.is_waited_for:
            self._cpu.stop_soon()

    def _charge_reads(self) -> None:
        """From the first look at the cycle counter on, data from flash takes time. A loader that
        checks a whole image reads millions of bytes before that, and nobody times it."""
        if self._reads_charged is None:
            self._reads_charged = False
            self._cpu.stop_soon()
            if self.instructions > _LONG_START:
                self._fetches.forget_start()

    def end_slice(self) -> None:
        self._cpu.stop_soon()

    def skip_to_npu(self, npu_cycle: int) -> None:
        """The processor does nothing but look: that time need not be emulated."""
        self.clock.skip_to(self.clock.at_npu(npu_cycle))
        self.attend()

    def _next_event(self, end: int) -> int:
        """The cycle of the first thing that happens by itself, at most this one."""
        npu, tick = self.npu.next_cycle, self._system.next_tick
        events = (end, tick, None if npu is None else self.clock.at_npu(npu))
        return min(cycle for cycle in events if cycle is not None)

    # Running.

    def receive(self, data: bytes) -> None:
        """Bytes from the host. What they start is timed alike whenever they came."""
        self.clock.align()
        self.uart.receive(data)

    def run(self, end: int) -> bool:
        """Go on for a slice, up to a cycle. True: only the host or time can help it on."""
        if self._asleep is not None:
            # Awake when an exception is pending, also one that a mask still holds back.
            self.catch_up()
            if self._system.exceptions.first() is not None:
                self._asleep, self._event = None, False
                return False
            if self.npu.next_cycle is None:
                return True
            self.clock.skip_to(self._next_event(end))
            return False
        if self._reads_charged is False:
            self._cpu.watch_reads()
            self._reads_charged = True
        self._entries.take()
        stop = self._cpu.run(self._slice(end))
        self.catch_up()
        if stop is Stop.RETURN:
            self._entries.leave()
            self._event = True
        elif stop is Stop.CALL:
            self._system.exceptions.pending.add(SVC)
        elif stop in (Stop.SLEEP, Stop.EVENT):
            self._fall_asleep(stop)
        # Whether it does nothing but look for bytes of the host, or for room to send.
        if self.uart.is_waited_for:
            self.uart.rest()
            self._last_rest = self.instructions
            return True
        if self.instructions - self._last_rest > self._budget:
            raise self._cpu.fault(f"no pause within {self._budget} instructions")
        return False

    def _slice(self, end: int) -> int:
        if self._entries.held:
            self._masked += 1
            return 1 if self._masked < _MASKED_STEPS else _MASKED_SLICE
        self._masked = 0
        return min(self.clock.instructions_until(self._next_event(end)), SLICE_INSTRUCTIONS)

    def _fall_asleep(self, stop: Stop) -> None:
        self._last_rest = self.instructions
        # An event that came before counts: the processor goes on at once.
        if stop is Stop.EVENT and self._event:
            self._event = False
            return
        self._asleep = stop
        self.npu.wait()

    def rest(self, end: int) -> None:
        """The host says nothing: time passes up to the next event."""
        if self._asleep is None:
            end = min(end, self.clock.after(_POLL_S))
        self.clock.skip_to(self._next_event(end))

    @property
    def doing(self) -> str:
        """In words, for whoever waits for it in vain."""
        place = f"pc {self._cpu.get('PC'):#010x}"
        if self._asleep is None:
            return f"executing code at {place}"
        if self.npu.next_cycle is not None:
            return f"asleep at {place}, waiting for the NPU"
        if self._system.next_tick is not None:
            return f"asleep at {place}, waiting for its timer or serial input"
        return f"asleep at {place}, waiting for serial input"

    def forget_code(self) -> None:
        """Memory was written from outside: translated instructions may be old."""
        self._cpu.forget_code()
