"""The board's process: orders, serial line, faults, and that nothing stays behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from board.emulated.programs import program
from npuscope import child
from npuscope.board.client_exchange import Timeouts
from npuscope.board.emulated.board import EmulatedBoard, EmulatedMachine, EmulatedSetup
from npuscope.board.emulated.faults import FaultError
from npuscope.board.emulated.memory_map import EXEC_RAM_ADDRESS
from npuscope.board.link import Link
from npuscope.errors import DeviceError

_WAIT_S = 30.0


def setup(name: str, **limits: object) -> EmulatedSetup:
    return EmulatedSetup(program(name), **limits)  # type: ignore[arg-type]


@pytest.fixture
def echo() -> Iterator[EmulatedMachine]:
    with EmulatedMachine(setup("echo")) as machine:
        machine.start()
        yield machine


def received(link: Link, count: int) -> bytes:
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
    with pytest.raises(DeviceError, match="lie in no memory of the board"):
        echo.read(address, size)
    assert echo.state()["runs"]


def test_a_fault_ends_the_read_and_a_new_link_starts_anew() -> None:
    with EmulatedMachine(setup("faults", most_instructions=1_000_000)) as machine:
        machine.start()
        for what, message in ((b"j", "a jump to"), (b"l", "no end after"), (b"w", "a write to")):
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
        # The byte may be lost in the reset, as on a board: ask until there is an answer.
        end = time.monotonic() + _WAIT_S
        answer = b""
        while not answer and time.monotonic() < end:
            link.write(b"k")
            answer = link.read(1, 0.2)
        assert answer == b"k"


def test_no_rest_for_too_long_is_a_fault() -> None:
    with EmulatedMachine(setup("faults", most_wall_s=0.2)) as machine:
        machine.start()
        link = machine.link()
        link.write(b"l")
        with pytest.raises(DeviceError, match=r"no rest for 0\.2 s"):
            link.read(1, _WAIT_S)


def test_waiting_for_the_host_is_a_rest() -> None:
    with EmulatedMachine(setup("echo", most_wall_s=0.3)) as machine:
        machine.start()
        link = machine.link()
        for _ in range(2):
            time.sleep(0.6)
            link.write(b"x" * 3000)
            assert received(link, 3000) == inverted(b"x" * 3000)


def test_close_ends_the_process_also_one_that_is_busy() -> None:
    for name, byte in (("echo", b"a"), ("faults", b"l")):
        machine = EmulatedMachine(setup(name))
        machine.start()
        machine.link().write(byte)
        machine.close()
        machine.close()
        assert not is_alive(machine.pid)
        with pytest.raises(DeviceError, match="the board's process has ended"):
            machine.state()


def test_a_killed_process_is_told(echo: EmulatedMachine) -> None:
    os.kill(echo.pid, signal.SIGKILL)
    with pytest.raises(DeviceError, match="the board's process has ended"):
        for _ in range(100):
            echo.state()
    with pytest.raises(DeviceError, match="the connection was lost"):
        echo.link().read(1, _WAIT_S)


def test_the_process_ends_with_its_owner() -> None:
    """Nobody says stop: its input just closes."""
    near, far = socket.socketpair()
    board = child.start_module(
        "npuscope.board.emulated.child",
        str(far.fileno()),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(far.fileno(),),
    )
    far.close()
    with near, board:
        assert board.stdin is not None
        board.stdin.close()
        assert board.wait(_WAIT_S) == 0


def test_what_is_no_firmware_is_refused() -> None:
    with pytest.raises(DeviceError, match="is no ELF file"):
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
