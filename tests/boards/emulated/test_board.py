"""The board's process: orders, serial line, faults, and that nothing stays behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from advice.sweep.processes import is_gone, needs_proc, wait_for
from boards.emulated.programs import program
from npuscope import child
from npuscope.boards.client_exchange import Timeouts
from npuscope.boards.emulated import board
from npuscope.boards.emulated.board import EmulatedBoard, EmulatedMachine, EmulatedSetup
from npuscope.boards.emulated.cpu import FaultError
from npuscope.boards.emulated.memory import EXEC_RAM_ADDRESS
from npuscope.boards.link import BoardLink
from npuscope.errors import DeviceError, FileError
from processes import LIMIT_S, started

_WAIT_S = 30.0  # of the board


def setup(name: str, **limits: object) -> EmulatedSetup:
    return EmulatedSetup(program(name), **limits)  # type: ignore[arg-type]


@pytest.fixture
def echo() -> Iterator[EmulatedMachine]:
    with EmulatedMachine(setup("echo")) as machine:
        machine.start()
        yield machine


def received(link: BoardLink, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = link.read(count - len(data), _WAIT_S)
        assert part, "no answer"
        data += part
    return data


def inverted(data: bytes) -> bytes:
    return bytes(255 - byte for byte in data)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_bytes_pass_through_the_serial_line(echo: EmulatedMachine) -> None:
    link = echo.link()
    data = bytes(range(255)) * 40
    link.write(data)
    assert received(link, len(data)) == inverted(data)
    assert link.read(1, 0.05) == b""
    link.close()
    again = echo.link()
    again.write(b"x")
    assert received(again, 1) == inverted(b"x")


@pytest.mark.parametrize("an_order", [2, 256])
def test_packets_go_on_as_long_as_each_is_asked_for(
    echo: EmulatedMachine, an_order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board, "_PACKETS_AN_ORDER", an_order)
    link, ask = echo.link(), inverted(b"a")
    assert link.deliver([b"a"] * 5, ask, _WAIT_S) == 5
    assert link.deliver([b"a"], ask, _WAIT_S) == 0  # what the board said was not read yet
    assert received(link, 1) == ask
    assert link.deliver([b"a", b"a", b"b", b"a"], ask, _WAIT_S) == 3
    assert received(link, 1) == inverted(b"b")


def test_packets_that_are_delivered_take_the_time_of_those_that_are_written(
    echo: EmulatedMachine,
) -> None:
    packets, ask = [b"a"] * 20, inverted(b"a")
    link = echo.link()
    for packet in packets:
        link.write(packet)
        assert received(link, 1) == ask
    written = echo.state()
    echo.reset()
    assert echo.link().deliver(packets, ask, _WAIT_S) == len(packets)
    assert echo.state() == written


def test_memory_and_state_can_be_asked_for(echo: EmulatedMachine) -> None:
    echo.flash(0x71000000, b"weights")
    assert echo.read(0x71000000, 8) == b"weights\0"
    before = echo.state()
    assert before["runs"] and before["npu_busy_cycles"] == 0
    link = echo.link()
    link.write(b"abc")
    received(link, 3)
    after = echo.state()
    assert after["instructions"] > before["instructions"]
    assert after["npu_cycles"] == int(after["mcu_cycles"] * 1.25)


def test_a_reset_keeps_memory_and_drops_old_bytes(echo: EmulatedMachine) -> None:
    echo.flash(0x90000000, b"kept")
    link = echo.link()
    link.write(b"old")
    received(link, 3)
    echo.reset()
    link.write(b"new")
    assert received(link, 3) == inverted(b"new")
    assert echo.read(0x90000000, 4) == b"kept"


def test_resets_do_not_use_up_the_address_space() -> None:
    with EmulatedMachine(setup("echo", most_memory_bytes=1 << 30)) as machine:
        for _ in range(15):
            machine.reset()
        link = machine.link()
        link.write(b"still here")
        assert received(link, 10) == inverted(b"still here")


@pytest.mark.parametrize(
    ("address", "size"), [(0x20000000, 4), (0x343BFFFE, 4), (0x90000000, -1), (0, 0)]
)
def test_reads_outside_of_memory_are_refused(
    echo: EmulatedMachine, address: int, size: int
) -> None:
    with pytest.raises(DeviceError, match="are in no memory of the board"):
        echo.read(address, size)
    assert echo.state()["runs"]


def test_a_fault_ends_the_read_and_a_new_link_starts_anew() -> None:
    with EmulatedMachine(setup("faults", most_instructions=1_000_000)) as machine:
        machine.start()
        for what, message in ((b"j", "jump to"), (b"l", "no pause within"), (b"w", "write to")):
            link = machine.link()
            link.write(what)
            with pytest.raises(FaultError, match=message) as caught:
                link.read(1, _WAIT_S)
            assert machine.fault() is caught.value
            assert caught.value.where.startswith("emulated, pc 0x")
            assert machine.state() == {"runs": False}
        link = machine.link()
        link.write(b"k")
        assert received(link, 1) == b"k"
        assert machine.fault() is None


def test_a_program_that_asks_for_a_reset_starts_anew() -> None:
    with EmulatedMachine(setup("faults")) as machine:
        machine.start()
        link = machine.link()
        link.write(b"R")
        assert link.read(1, _WAIT_S) == b""
        link.write(b"k")
        assert link.read(1, _WAIT_S) == b"k"
        assert link.now() > _WAIT_S, "time goes on over a reset"


def test_the_last_stop_tells_that_the_host_is_slow() -> None:
    with EmulatedMachine(setup("faults", most_wall_s=0.2)) as machine:
        machine.start()
        link = machine.link()
        link.write(b"l")
        with pytest.raises(DeviceError) as caught:
            link.read(1, _WAIT_S)
        assert re.match(
            r"timed out: simulated \d\.\d{6} s and [\d,]+ instructions in 0\.2 s; "
            "the board was executing code at pc",
            caught.value.message,
        )
        assert "less load on the host" in caught.value.hint


def test_waiting_for_the_host_is_a_rest() -> None:
    """The budget is less than all rounds need together."""
    with EmulatedMachine(setup("echo", most_instructions=100_000)) as machine:
        machine.start()
        link = machine.link()
        for _ in range(10):
            link.write(b"x" * 1000)
            assert received(link, 1000) == inverted(b"x" * 1000)
        assert machine.state()["instructions"] > 100_000


def test_time_is_the_boards_own(echo: EmulatedMachine) -> None:
    """Waits cost the host nothing, and what follows a wait counts as much as before it."""
    link = echo.link()
    assert link.read(1, 0.1) == b""
    spent = []
    for silence_s in (0.0, 100.0, 0.0123456789):
        before = link.now()
        assert link.read(1, silence_s) == b""
        assert link.now() - before == pytest.approx(silence_s, abs=1e-6)
        start = echo.state()
        link.write(b"abc")
        assert received(link, 3) == inverted(b"abc")
        end = echo.state()
        spent.append((end["instructions"] - start["instructions"], link.now() - before))
    assert spent[0][0] == spent[1][0] == spent[2][0]


def test_who_waits_in_vain_learns_what_the_board_does(echo: EmulatedMachine) -> None:
    link = echo.link()
    assert link.read(1, 0.5) == b""
    assert re.fullmatch(
        r"after 0\.500\d{3} s of simulated time the emulated board is executing code at pc 0x\w{8}",
        link.hint,
    )
    link.write(b"\xff")  # by interrupt from here on
    assert received(link, 1) == b"\0"
    assert "waiting for serial input" in link.hint


def test_close_ends_the_process_also_one_that_is_busy() -> None:
    for name, byte in (("echo", b"a"), ("faults", b"l")):
        machine = EmulatedMachine(setup(name))
        machine.start()
        link = machine.link()
        link.write(byte)
        with ThreadPoolExecutor() as threads:
            read = threads.submit(link.read, 1, 1e9)
            if name == "echo":
                assert read.result(LIMIT_S) == inverted(byte)
            machine.close()
            if name == "faults":
                with pytest.raises(DeviceError, match="the board's process has ended"):
                    read.result(LIMIT_S)
        machine.close()
        assert not is_alive(machine.pid)
        with pytest.raises(DeviceError, match="the board's process has ended"):
            machine.state()


def test_a_killed_process_is_told(echo: EmulatedMachine) -> None:
    os.kill(echo.pid, signal.SIGKILL)
    with pytest.raises(DeviceError, match="the board's process has ended"):
        for _ in range(100):
            echo.state()
    with pytest.raises(DeviceError, match="the board's process has ended"):
        echo.link().read(1, _WAIT_S)


OWNER = """
import sys
from pathlib import Path
from npuscope.boards.emulated.board import EmulatedMachine, EmulatedSetup
machine = EmulatedMachine(EmulatedSetup(Path(sys.argv[1]).read_bytes()))
machine.start()
link = machine.link()
link.write(b"l")
print(machine.pid, flush=True)
link.read(1, 1e9)
"""


@needs_proc
def test_the_process_ends_with_its_owner_in_the_middle_of_an_order(tmp_path: Path) -> None:
    """Nobody says stop: its input just closes."""
    elf = tmp_path / "faults.elf"
    elf.write_bytes(program("faults"))
    command = [*child.command(), "-c", OWNER, str(elf)]
    with started(command, env=child.environment(), stdout=subprocess.PIPE, text=True) as owner:
        pid = int(owner.stdout.readline())
    wait_for(lambda: is_gone(pid))


def test_what_is_no_firmware_is_refused() -> None:
    with pytest.raises(FileError, match="is not an ELF file"):
        EmulatedMachine(EmulatedSetup(b"\x7fELF and nothing else"))
    with pytest.raises(DeviceError, match="unknown machine 'toaster'"):
        EmulatedMachine(EmulatedSetup(program("echo"), machine="toaster"))


def test_the_clocks_of_the_machine_count() -> None:
    slow = EmulatedSetup(program("echo"), overrides={"clocks.npu_mhz": 800})
    with EmulatedMachine(slow) as machine:
        machine.start()
        link = machine.link()
        link.write(b"abc")
        received(link, 3)
        state = machine.state()
        assert state["npu_cycles"] == state["mcu_cycles"] > 0


def test_code_that_the_host_replaces_is_run() -> None:
    elf = program("rewrite")
    with EmulatedMachine(EmulatedSetup(elf)) as machine:
        machine.start()
        link = machine.link()
        link.write(b"1")
        assert received(link, 1) == b"\x01"
        machine.flash(EXEC_RAM_ADDRESS, bytes.fromhex("2a207047"))  # movs r0, #42; bx lr
        link.write(b"r")
        assert received(link, 1) == b"\x2a"


def test_a_device_over_a_firmware_that_does_not_speak() -> None:
    quick = Timeouts(sync_s=0.1, quiet_s=0.02, packet_s=0.1)
    board = EmulatedBoard.boot(setup("faults"), {0x71000000: b"weights"}, quick)
    assert board.source == "emulated board"
    assert board.machine.read(0x71000000, 7) == b"weights"
    with pytest.raises(DeviceError):
        board.info()
    board.close()
    assert not is_alive(board.machine.pid)
