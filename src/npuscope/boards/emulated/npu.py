"""The NPU behind its registers: what is written is kept, what is started is run by the simulator.

Units run when the processor waits for them: it reads the CTRL of one that is on or the interrupt
register, sleeps, or does something else for a while. The epoch controller runs its blob when it
is switched on. Data is there at once; time passes after it, and interrupts come when it is over.
"""

from __future__ import annotations

from collections.abc import Callable

from npuscope.boards.emulated.memory import (
    FLASH_ADDRESS,
    FLASH_BYTES,
    BoardMemory,
    UnitMemory,
    flash_beats,
)
from npuscope.boards.emulated.npu_debug import (
    CONTROLLER_BIT,
    INTREG,
    CacheRegisters,
    DebugRegisters,
    InterruptController,
)
from npuscope.boards.emulated.npu_groups import SETTLE_CYCLES, Groups, NpuTime, UnitGroup
from npuscope.boards.runtime import FETCH_BUSIF, fetch_bursts
from npuscope.errors import DeviceError, FileError
from npuscope.machine.model import Machine
from npuscope.program.ec_blob.instructions import (
    HEADER_WORDS,
    MAGIC,
    Instruction,
    Irq,
    Label,
    Poll,
    Write,
    decode,
)
from npuscope.program.ec_blob.lift import waits_for_engine
from npuscope.program.ec_blob.register_file import MEMORY_WORD, RegisterFile
from npuscope.program.ec_blob.registers import (
    CLEAR_BIT,
    CTRL,
    ENABLE_BIT,
    REGISTERS_PER_PAGE,
    RESET_BIT,
    RUNNING_BIT,
    UNIT_BY_NAME,
    UNIT_BY_PAGE,
    page_of,
    reset_value,
)
from npuscope.sim.debug_unit import Activity, DebugUnit, core_activity, fetch_activity
from npuscope.structs import replace

# Reads of a running unit that are answered as they are; then the clock goes on to its end.
_PATIENCE = 2
_INTCTRL = page_of("INTCTRL", 0)
_CONTROLLER = page_of("EPOCHCTRL", 0)
_DEBUG = page_of("DEBUG_TRACE", 0)
_LABEL = UNIT_BY_NAME["EPOCHCTRL"].by_name["LABEL"].index
_FALLING = ~(1 << CLEAR_BIT | 1 << RESET_BIT | 1 << RUNNING_BIT)
_MOST_WORDS = 1 << 22
_KNOWN_BLOBS = 64


class Npu:
    """The unit pages, the interrupt controller, the debug unit and the NPU cache."""

    def __init__(self, board: BoardMemory, machine: Machine, now: Callable[[], int]) -> None:
        """`now` gives the NPU's cycle by the board's clock."""
        self._board = board
        self._machine = machine
        self._now = now
        self._groups = Groups(UnitMemory(board, machine), machine)
        self._blobs: dict[bytes, tuple[Instruction, ...]] = {}
        self.unit = DebugUnit()
        self.time = NpuTime(self.unit)
        self.interrupts = InterruptController()
        self.cache = CacheRegisters(self.unit)
        self._debug = DebugRegisters(self.unit)
        self._file = RegisterFile()
        self._running: frozenset[int] = frozenset()
        self._enabled_at = 0  # NPU cycle at which the last unit was switched on
        self._polls = 0
        self.wants_time = 0  # NPU cycle that the processor waits for while it polls

    # What the rest of the board asks.

    @property
    def next_cycle(self) -> int | None:
        """When something will happen without the processor."""
        return self._enabled_at + SETTLE_CYCLES if self._file.started else self.time.end

    def look(self) -> None:
        """See whether something has happened; idle time is told when it matters."""
        event = self.next_cycle
        if event is not None and event <= self._now():
            self.catch_up()

    def catch_up(self) -> None:
        """Everything up to now."""
        if self._file.started and self._enabled_at + SETTLE_CYCLES <= self._now():
            self._start()
        self.interrupts.pending |= self.time.advance_to(self._now())
        if not self.time.is_busy:
            self._running = frozenset()

    def _asked(self) -> None:
        """The debug unit: units that are on begin now."""
        self.catch_up()
        if self._file.started:
            self._enabled_at = self._now()
            self._start()
        self.interrupts.pending |= self.time.look(self._now())

    def wait(self) -> None:
        """The processor sleeps: nothing is configured any more."""
        if self._file.started:
            self._start()

    # Registers.

    def read(self, offset: int) -> int:
        page, index = divmod(offset // 4, REGISTERS_PER_PAGE)
        if page == _INTCTRL:
            if index == INTREG:
                self._polled()
            return self.interrupts.read(index)
        if page == _DEBUG:
            self._asked()
            return self._debug.read(index)
        if index == CTRL:
            # CTRL of a unit that is on is read to learn whether it has finished.
            if page in self._file.enabled or page in self._running:
                self._polled()
            control = self._file.registers.get(page, {}).get(CTRL, reset_value(page, CTRL))
            return control & _FALLING | (page in self._running) << RUNNING_BIT
        if index >= MEMORY_WORD:
            return self._file.memory(page).get(index - MEMORY_WORD, 0)
        return self._file.registers.get(page, {}).get(index, reset_value(page, index))

    def write(self, offset: int, value: int) -> None:
        page, index = divmod(offset // 4, REGISTERS_PER_PAGE)
        if page == _INTCTRL:
            self.interrupts.write(index, value)
        elif page == _DEBUG:
            self._asked()
            self._debug.write(index, value)
        elif index == CTRL:
            self.look()
            self._file.run(Write(page, index, value))
            if self._file.started:
                self._enabled_at = self._now()
            if value & (1 << CLEAR_BIT | 1 << RESET_BIT) and page in self._running:
                self._running = frozenset()
                self.time.stop()
            if page == _CONTROLLER and value >> ENABLE_BIT & 1 and page not in self._running:
                self._run_blob(self._file.image(page).get("ADDR.REG"))
        else:
            self._file.run(Write(page, index, value))

    def _polled(self) -> None:
        self.look()
        self.wait()
        end = self.time.end
        if end is None:
            return
        self._polls += 1
        if self._polls > _PATIENCE:
            self.wants_time = end

    # Work.

    def _start(self) -> None:
        """The processor has started units: they are one group."""
        work = self._captured()
        self._groups.run(work)
        activity = core_activity(self._groups.count((work,), blob=False))
        pages = frozenset(p for p in work.pages if UNIT_BY_PAGE[p].name == "STRENG")
        self._begin([(activity, work.engines_out)], pages, self._enabled_at)

    def _captured(self) -> UnitGroup:
        self._file.started = False
        return self._groups.lift(self._file)

    def _begin(
        self, activities: list[tuple[Activity, int]], pages: frozenset[int], cycle: int
    ) -> None:
        """At a cycle, unless the debug unit has been told of a later one."""
        self.interrupts.pending |= self.time.advance_to(cycle)
        self._polls, self.wants_time = 0, 0
        self._running |= pages
        self.time.start(activities)

    def _run_blob(self, address: int) -> None:
        """Every epoch of a blob, on the same registers; time is counted epoch by epoch."""
        epochs: list[list[UnitGroup]] = [[]]
        where = f"epoch controller, {address:#x}"
        magic, count = _words(self._board.read(address, 4 * HEADER_WORDS))
        if magic != MAGIC or count > _MOST_WORDS:
            raise DeviceError(f"no blob: {magic:#010x}, {count} words", where=where)
        code = self._board.read(address + 4 * HEADER_WORDS, 4 * count)
        if code not in self._blobs:
            if len(self._blobs) >= _KNOWN_BLOBS:
                self._blobs.clear()
            try:
                self._blobs[code] = decode(_words(code), HEADER_WORDS)
            except FileError as error:
                raise DeviceError(f"{error.message}, {error.where}", where=where) from error
        for instruction in self._blobs[code]:
            self._file.run(instruction)
            match instruction:
                case Label(number):
                    self._file.run(Write(_CONTROLLER, _LABEL, number))
                    epochs.append([])
                case Poll() if waits_for_engine(instruction) and self._file.started:
                    epochs[-1].append(self._captured())
                    self._groups.run(epochs[-1][-1])
                case Irq():
                    break
        counters = [self._groups.count(tuple(work), blob=True) for work in epochs if work]
        last = len(counters) - 1
        activities = [(core_activity(row, i == last), 0) for i, row in enumerate(counters)]
        ending = (self._fetched(address), 1 << CONTROLLER_BIT)
        self._begin([*activities, ending], frozenset((_CONTROLLER,)), self._now())

    def _fetched(self, address: int) -> Activity:
        """The reads that brought the blob; it is a whole number of 64-bit words.

        From RAM they take no time of their own. From flash they do: registers are written one epoch
        after the other, so little of a blob can be there before it is needed.
        """
        _, count = _words(self._board.read(address, 4 * HEADER_WORDS))
        size = 4 * (HEADER_WORDS + count)
        reads = fetch_activity(FETCH_BUSIF, fetch_bursts(size + size % 8))
        if not FLASH_ADDRESS <= address < FLASH_ADDRESS + FLASH_BYTES:
            return reads
        clocks = self._machine.clocks
        cycles = flash_beats(self._machine, size) * clocks.npu_mhz / clocks.xspi_mhz
        return replace(reads, cycles=round(cycles))


def _words(data: bytes) -> tuple[int, ...]:
    return tuple(memoryview(data).cast("I"))
