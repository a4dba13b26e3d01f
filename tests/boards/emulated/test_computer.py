"""Small programs on the emulated core: time, interrupts, sleep, serial line, faults."""

from __future__ import annotations

import pytest

from boards.emulated.programs import Bench, program
from npuscope.boards.emulated.cpu import EmulatedCpu, FaultError, Stop
from npuscope.boards.emulated.memory import BoardMemory
from npuscope.boards.emulated.system import CYCLES_PER_INSTRUCTION
from npuscope.errors import TargetError
from npuscope.machine.load import load_machine


def test_sleep_ticks_calls_and_events() -> None:
    bench = Bench(program("sleep"))
    bench.run()
    found = {i: bench.report(i) for i in range(9)}
    assert found[0] == 77, "main did not return"
    assert found[1] == 0x410FD213
    assert 100_000 <= found[2] < 100_500, "ten periods of 10000 cycles"
    assert found[3] == 0, "no tick while interrupts are masked"
    assert found[4] == 11, "the tick that came while masked is taken when the mask falls"
    assert (found[5], found[6]) == (1, 1)
    assert found[7] == 910_000, "floats survive interrupts"
    assert found[8] == 1, "ticks come while the processor spins"


def test_bytes_come_back_polled_and_by_interrupt() -> None:
    bench = Bench(program("echo"))
    assert bench.run(b"abc") == bytes(255 - byte for byte in b"abc")
    assert bench.report(1) == 0
    assert bench.run(b"\xff") == b"\0"
    assert bench.run(bytes(range(100))) == bytes(255 - byte for byte in range(100))
    assert bench.report(1) == 100


def test_a_masked_sleep_ends_with_a_byte_or_a_tick() -> None:
    bench = Bench(program("masked"))
    assert bench.run() == b""
    assert bench.report(1) == 3
    for data in (b"a", b"bcd"):
        assert bench.run(data) == bytes(255 - byte for byte in data)
    assert 2 <= bench.report(2) <= 6, "asleep between the bytes"


def test_code_that_a_program_writes_is_run() -> None:
    bench = Bench(program("rewrite"))
    assert bench.run(b"\x01\x02\x03\x0f\x01") == b"\x01\x02\x03\x0f\x01"


@pytest.mark.parametrize(
    ("what", "message", "address"),
    [
        (b"j", "jump to unmapped memory", 0x10000000),
        (b"w", "write to read-only memory", 0x70000040),
        (b"r", "read from unmapped memory", 0x1234),
        (b"u", "invalid instruction for this core", None),
        (b"s", "no room on the stack: 32 bytes at 0xe0 are in no memory of the board", None),
        (b"n", "exception 23 has no handler: 0x0", None),
        (b"l", "no pause within 1000000 instructions", None),
    ],
)
def test_faults_name_their_place(what: bytes, message: str, address: int | None) -> None:
    bench = Bench(program("faults"), budget=1_000_000)
    with pytest.raises(FaultError) as caught:
        bench.run(what)
    error = caught.value
    assert (error.message, error.address) == (message, address)
    code = 0x10000000 if what == b"j" else bench.firmware.symbols["main"] & ~1
    assert code <= error.pc < code + 0x100
    assert error.where.startswith(f"pc {error.pc:#010x}, lr {error.lr:#010x}")


def test_flash_keeps_what_a_program_tries_to_write() -> None:
    bench = Bench(program("faults"))
    bench.memory.write(0x70000040, b"\x12\x34\x56\x78")
    with pytest.raises(FaultError):
        bench.run(b"w")
    assert bench.memory.read(0x70000040, 4) == b"\x12\x34\x56\x78"


def test_data_in_flash_costs_its_way_until_the_cache_holds_it() -> None:
    machine = load_machine()
    bench = Bench(program("flash"), machine)
    bench.memory.write(0x70000000, (99).to_bytes(4, "little"))
    bench.run()
    first, second, ram = (bench.report(i) for i in (1, 2, 3))
    beats = 32 / machine.paths["xspi2"].bytes_per_cycle + machine.core_caches.lead_cycles
    line = round(beats * machine.clocks.mcu_mhz / machine.clocks.xspi_mhz)
    # An instruction is 1.25 cycles, and the counter shows whole ones.
    assert abs(second - ram) <= 1
    assert abs(first - second - 32 * line) <= 1
    assert (bench.report(0), bench.report(4), bench.report(5)) == (77, 100, 8)


def test_a_program_may_ask_for_a_reset() -> None:
    bench = Bench(program("faults"))
    bench.run(b"R")
    assert bench.computer.reset_requested


# movw r0, #1000; subs r0, #1; bne back; wfi
LOOP = bytes.fromhex("40f2e830 0138 fdd1 30bf".replace(" ", ""))


@pytest.mark.parametrize("slice_", [1, 7, 1000, 1_000_000])
def test_instructions_are_counted_whatever_the_slices(slice_: int) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed")
    memory = BoardMemory()
    memory.write(0x34000000, LOOP)
    cpu = EmulatedCpu(memory)
    cpu.put("PC", 0x34000001)
    while (stop := cpu.run(slice_)) is Stop.COUNT:
        pass
    assert stop is Stop.SLEEP
    assert cpu.instructions == 1 + 2 * 1000 + 1


def test_an_emulator_that_counts_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed")
    monkeypatch.setattr("npuscope.boards.emulated.cpu._SCAN_WORDS", 2)
    with pytest.raises(TargetError, match="does not expose its instruction count"):
        EmulatedCpu(BoardMemory())


def test_time_is_instructions_and_sleep() -> None:
    bench = Bench(program("echo"))
    bench.run(b"x")
    clock, instructions = bench.computer.clock, bench.computer.instructions
    assert clock.cycles == int(instructions * CYCLES_PER_INSTRUCTION)
    assert clock.npu_cycles == int(clock.cycles * 1.25)
    for cycle in (1, 7, 1001, 12345):
        at = clock.at_npu(cycle)
        assert int(at * 1.25) >= cycle > int((at - 1) * 1.25)
