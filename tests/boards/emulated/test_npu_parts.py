"""Interrupt lines, the NPU's time, and registers in front of the debug unit and the cache."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.boards.emulated import npu_debug as intctrl
from npuscope.boards.emulated.memory import BoardMemory
from npuscope.boards.emulated.npu import Npu
from npuscope.boards.emulated.npu_debug import CacheRegisters, DebugRegisters, InterruptController
from npuscope.boards.emulated.npu_groups import NpuTime
from npuscope.errors import DeviceError
from npuscope.machine.load import load_machine
from npuscope.program.ec_blob.registers import UNIT_BY_NAME, page_of
from npuscope.sim.counters import CacheCounts
from npuscope.sim.debug_unit import Activity, DebugUnit, Level, Signal


def controller() -> InterruptController:
    found = InterruptController()
    found.write(intctrl.CTRL, 1)
    return found


def test_a_line_fires_on_any_bit_that_its_or_mask_lets_through() -> None:
    found = controller()
    found.write(intctrl.FIRST_OR_MASK + 1, ~0x14 & 0xFFFFFFFF)
    found.write(intctrl.INTSET, 0x08)
    assert found.lines == 0
    found.write(intctrl.INTSET, 0x10)
    assert (found.lines, found.read(intctrl.INTREG)) == (0b10, 0x18)
    found.write(intctrl.INTCLR, 0x10)
    assert (found.lines, found.read(intctrl.INTREG)) == (0, 0x08)


def test_a_line_fires_when_all_bits_of_its_and_mask_are_set() -> None:
    found = controller()
    found.write(intctrl.FIRST_AND_MASK, ~0x14 & 0xFFFFFFFF)
    found.write(intctrl.INTSET, 0x10)
    assert found.lines == 0
    found.write(intctrl.INTSET, 0x04)
    assert found.lines == 1
    found.write(intctrl.FIRST_AND_MASK, 0xFFFFFFFF)
    assert found.lines == 0, "all of none is never"
    found.write(intctrl.FIRST_AND_MASK, ~0x14 & 0xFFFFFFFF)
    found.write(intctrl.CTRL, 0)
    assert found.lines == 0, "switched off"


def word(signal: int, event: int = 1, extra: int = 0) -> int:
    return 1 | signal << 1 | event << 14 | extra


def test_counters_keep_their_value_when_they_are_stopped() -> None:
    unit = DebugUnit()
    registers = DebugRegisters(unit)
    registers.write(0x40 // 4 + 3, word(Signal.VDD))
    unit.advance(Activity(50))
    registers.write(0x40 // 4 + 3, word(Signal.VDD) & ~1)
    unit.advance(Activity(50))
    assert registers.read(0x84 // 4 + 3) == 50
    registers.write(0x40 // 4 + 3, word(Signal.VDD))
    unit.advance(Activity(5))
    assert registers.read(0x84 // 4 + 3) == 55
    registers.write(0x84 // 4 + 3, 7)
    assert registers.read(0x84 // 4 + 3) == 7


def test_counters_wrap_count_down_and_bind() -> None:
    unit = DebugUnit()
    registers = DebugRegisters(unit)
    registers.write(0x84 // 4, 0xFFFFFFFE)
    registers.write(0x84 // 4 + 1, 0xFFFFFFFE)
    registers.write(0x84 // 4 + 2, 10)
    registers.write(0x40 // 4, word(Signal.VDD, extra=1 << 16))
    registers.write(0x40 // 4 + 1, word(Signal.VDD))
    registers.write(0x40 // 4 + 2, word(Signal.VDD, extra=1 << 17))
    registers.write(0x40 // 4 + 3, word(Signal.OUTPUT_HENV + 4, event=2))
    bound = 1 << 19 | 3 << 21
    registers.write(0x40 // 4 + 4, word(Signal.VDD, extra=bound))
    registers.write(0x40 // 4 + 5, word(0x1FFF))
    unit.advance(Activity(4))
    unit.advance(Activity(2, {Signal.OUTPUT_HENV + 4: Level(1, 1, 1)}))
    values = [registers.read(0x84 // 4 + i) for i in range(6)]
    assert values == [4, 0xFFFFFFFF, 4, 1, 2, 0]


def test_cache_monitors_count_while_they_are_on() -> None:
    unit = DebugUnit()
    registers = CacheRegisters(unit)
    counts = CacheCounts(1, 2, 3, 4, 5, 6, 7, 8)
    unit.advance(Activity(1, cache=counts))
    registers.write(0, 0x33330001)
    unit.advance(Activity(1, cache=counts))
    registers.write(0, 1)
    unit.advance(Activity(1, cache=counts))
    assert [registers.read(4 + i) for i in range(8)] == [1, 2, 3, 4, 5, 6, 7, 8]
    registers.write(0, 1 << 29 | 1 << 18)
    unit.advance(Activity(1, cache=counts))
    assert [registers.read(4 + i) for i in range(8)] == [0, 2, 3, 8, 5, 6, 7, 8]
    assert registers.read(0) == 1 << 29


def test_time_read_in_the_middle_of_work_adds_up() -> None:
    unit = DebugUnit()
    registers, time = DebugRegisters(unit), NpuTime(unit)
    registers.write(0x40 // 4, word(Signal.VDD))
    registers.write(0x40 // 4 + 1, word(Signal.OUTPUT_STALL, event=0))
    registers.write(0x40 // 4 + 2, word(Signal.OUTPUT_STALL + 1, event=1))
    time.advance_to(100)
    busy = {int(Signal.OUTPUT_STALL): Level(30, 10, 1)}
    time.start([(Activity(40, busy), 0b100), (Activity(5), 0b1)])
    assert (time.end, time.advance_to(120)) == (140, 0)
    assert [registers.read(0x84 // 4 + i) for i in range(3)] == [120, 0, 120]
    assert time.advance_to(141) == 0b100
    assert [registers.read(0x84 // 4 + i) for i in range(3)] == [141, 30, 141]
    assert (time.end, time.advance_to(145), time.is_busy) == (145, 0b1, False)
    assert time.busy_cycles == 45


class Clocked:
    """An NPU whose clock is set by hand."""

    def __init__(self) -> None:
        self.now = 0
        self.memory = BoardMemory()
        self.npu = Npu(self.memory, load_machine(), lambda: self.now)

    def write(self, unit: str, number: int, register: str, value: int) -> None:
        index = UNIT_BY_NAME[unit].by_name[register].index
        self.npu.write(page_of(unit, number) * 4096 + 4 * index, value)

    def engine(self, number: int, address: int, count: int, outwards: bool) -> None:
        """A raw engine of bytes."""
        self.write("STRENG", number, "ADDR", address)
        self.write("STRENG", number, "FSIZE", count)
        self.write("STRENG", number, "LIMIT", 1)
        self.write("STRENG", number, "LIMITEN", 1 << 2)
        self.write("STRENG", number, "CTRL", 1 | outwards << 3 | 1 << 8 | 8 << 16)

    def copy(self, source: int, target: int) -> None:
        self.write("STRSWITCH", 0, "DSTSTRENG1", 1)
        self.engine(0, source, 64, False)
        self.engine(1, target, 64, True)

    def control(self, number: int) -> int:
        return self.npu.read(page_of("STRENG", number) * 4096)


def test_engines_run_when_they_are_looked_at() -> None:
    clocked = Clocked()
    clocked.memory.write(0x34200000, bytes(range(64)))
    clocked.now = 1000
    clocked.copy(0x34200000, 0x34270001)
    assert clocked.memory.read(0x34270001, 64) == bytes(64)
    assert clocked.control(1) >> 31 == 1
    assert clocked.memory.read(0x34270001, 64) == bytes(range(64))
    end = clocked.npu.next_cycle
    assert end is not None and end > 1000 and clocked.npu.interrupts.pending == 0
    clocked.now = end - 1
    assert clocked.control(0) >> 31 == 1
    clocked.now = end
    assert clocked.control(0) >> 31 == 0
    assert clocked.npu.interrupts.pending == 0b10, "the engine that stores"


def test_engines_run_by_themselves_after_a_while() -> None:
    clocked = Clocked()
    clocked.memory.write(0x34200000, b"\x55" * 64)
    clocked.copy(0x34200000, 0x34270000)
    event = clocked.npu.next_cycle
    assert event is not None
    clocked.now = event
    clocked.npu.look()
    assert clocked.memory.read(0x34270000, 64) == b"\x55" * 64


def test_an_engine_that_is_stopped_raises_nothing() -> None:
    clocked = Clocked()
    clocked.copy(0x34200000, 0x34270000)
    assert clocked.control(1) >> 31 == 1
    clocked.write("STRENG", 1, "CTRL", 1 << 1)
    assert clocked.npu.next_cycle is None
    clocked.now = 1 << 30
    clocked.npu.look()
    assert clocked.npu.interrupts.pending == 0


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (0x34200000, 0x71000000, "stream engine 1 writes to octoFlash, which is read only"),
        (0x20000000, 0x34200000, "a stream engine starts at 0x20000000, which is unmapped"),
        (0x34200000, 0x343BFFF0, "are outside of every buffer"),
    ],
)
def test_engines_stay_inside_memory(source: int, target: int, message: str) -> None:
    clocked = Clocked()
    clocked.copy(source, target)
    if target == 0x343BFFF0:
        # The engine may touch some bytes behind a memory, not more.
        clocked.write("STRENG", 1, "CTRL", 0)
        clocked.engine(1, target, 4096, True)
        clocked.engine(0, source, 4096, False)
    with pytest.raises(DeviceError, match=message):
        clocked.control(1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((0xECBF0030, 4), "no blob: 0xecbf0030, 4 words"),
        ((0xCA057A7A, 1 << 30), "no blob: 0xca057a7a, 1073741824 words"),
        ((0xCA057A7A, 1, 0x1F), "unknown operation 31, word 2"),
        ((0xCA057A7A, 1, 0x00), "the code ends inside an instruction, word 2"),
    ],
)
def test_the_controller_refuses_what_is_no_blob(words: tuple[int, ...], message: str) -> None:
    clocked = Clocked()
    data = b"".join(value.to_bytes(4, "little") for value in words)
    clocked.memory.write(0x90000000, data)
    clocked.write("EPOCHCTRL", 0, "ADDR", 0x90000000)
    with pytest.raises(DeviceError, match=message):
        clocked.write("EPOCHCTRL", 0, "CTRL", 1)


@pytest.mark.parametrize(("address", "cycles"), [(0x90000000, 0), (0x70000000, 40)])
def test_a_blob_without_units_ends_with_its_interrupt(address: int, cycles: int) -> None:
    """16 bytes from flash are 8 of its clocks of 200 MHz, 40 of the NPU's 1 GHz."""
    clocked = Clocked()
    clocked.memory.write(address, b"".join(v.to_bytes(4, "little") for v in BLOB))
    clocked.write("EPOCHCTRL", 0, "ADDR", address)
    clocked.write("EPOCHCTRL", 0, "CTRL", 1)
    assert clocked.npu.time.busy_cycles == cycles
    clocked.now = cycles
    clocked.npu.look()
    assert clocked.npu.interrupts.pending == 1 << 28
    assert clocked.npu.read(page_of("EPOCHCTRL", 0) * 4096 + 4 * 7) == 5


BLOB = (0xCA057A7A, 2, 5 << 5 | 29, 12)  # label 5, interrupt


@pytest.mark.parametrize("seed", range(4))
def test_senseless_registers_are_device_errors(seed: int) -> None:
    """Any words in any registers: either the units run, or the error tells."""
    random = np.random.default_rng(seed)
    failed = 0
    for _ in range(60):
        clocked = Clocked()
        clocked.copy(0x34200000, 0x34270000)
        for _ in range(12):
            unit = str(random.choice(["STRENG", "CONVACC", "ARITH", "ACTIV", "POOL", "STRSWITCH"]))
            names = [r.name for r in UNIT_BY_NAME[unit].registers if r.name not in LONG_LOOPS]
            # Small numbers, so that nothing runs for long.
            value = int(random.integers(0, 1 << int(random.choice([1, 4, 9]))))
            clocked.write(
                unit,
                int(random.integers(0, 2)) % UNIT_BY_NAME[unit].count,
                str(random.choice(names)),
                value,
            )
        try:
            clocked.control(0)
            clocked.npu.wait()
        except DeviceError as error:
            failed += bool(error.message)
    assert failed > 10


LONG_LOOPS = ("LIMIT", "FRAME_RPT")
