"""Bad images on the emulated board: what is refused, by whom, and that the board stays alive."""

from __future__ import annotations

import struct

import pytest

from boards.emulated.loads import (
    CLOCKS,
    Net33,
    bench,
    check_values,
    packaged,
    patched,
    start_as_it_is,
    start_good,
    with_code,
    with_context,
    with_header,
)
from npuscope.boards.emulated import boot as mailbox
from npuscope.boards.emulated.board import EmulatedBoard
from npuscope.boards.emulated.boot import Placed, load, side_by_side
from npuscope.boards.emulated.cpu import FaultError
from npuscope.boards.emulated.memory import EXEC_RAM_ADDRESS, FIRMWARE_ADDRESS, MAILBOX_ADDRESS
from npuscope.errors import DeviceError, FileError
from npuscope.loadable.codes import Cpu
from npuscope.loadable.image import context_place
from npuscope.loadable.layout import version_word
from npuscope.structs import replace

INVALID, MEMORY, NOT_SUPPORTED, PARAM_ADDR = -1, -2, -3, -7
# Thumb: an instruction that no core has, jump to unmapped memory, itself again, a call of a
# supervisor that is not there.
UNDEFINED, FAR_JUMP, FOREVER, CALL = (
    bytes.fromhex(code) for code in ("00de", "4ff0c0400047", "fee7", "00df")
)


@pytest.fixture
def net() -> Net33:
    return packaged("hardware", controller=False)


CHECKSUM = "the checksum is wrong: the file is damaged"
POOL = "a pool does not fit the memories on offer"
REFUSED = {
    "another core": (
        lambda n: _flags(n, cpu=Cpu.CORTEX_M55),
        NOT_SUPPORTED,
        "the image is for another CPU",
    ),
    "no debug info": (
        lambda n: _flags(n, debug_info=False),
        NOT_SUPPORTED,
        "debug info of epochs differs",
    ),
    "not secure": (
        lambda n: _flags(n, secure=False),
        NOT_SUPPORTED,
        "secure and non-secure do not mix",
    ),
    "another interface": (
        lambda n: _flags(n, major=1),
        NOT_SUPPORTED,
        "the image has another version of the loader API",
    ),
    "another runtime": (
        lambda n: with_context(n, "rt_version", version_word(9, 0, 0)),
        NOT_SUPPORTED,
        "the image is for another version of the runtime",
    ),
    "another checksum": (lambda n: _changed(n, -1), INVALID, CHECKSUM),
    "a changed byte": (lambda n: _changed(n, 4000), INVALID, CHECKSUM),
    "cut parameters": (lambda n: n.file[:-100], INVALID, "parameters are not inside the file"),
    "cut code": (lambda n: n.file[:2048], INVALID, "code is not inside the file"),
    "cut header": (lambda n: n.file[:64], INVALID, "the file ends inside its header"),
    "no image": (lambda n: bytes(4096), INVALID, "this is not an image: wrong magic"),
    "context outside": (
        lambda n: with_header(n, "context", 0x40FFFFF8),
        INVALID,
        "the context is not inside the data",
    ),
    "pool outside": (lambda n: _pool(n, 0x30000000), MEMORY, POOL),
    "pool over the firmware": (lambda n: _pool(n, FIRMWARE_ADDRESS), MEMORY, POOL),
    "pool over its code": (lambda n: _pool(n, EXEC_RAM_ADDRESS), MEMORY, POOL),
    "pool over the mailbox": (lambda n: _pool(n, MAILBOX_ADDRESS), MEMORY, POOL),
}


def _changed(net: Net33, at: int) -> bytes:
    data = bytearray(net.file)
    data[at] ^= 1
    return bytes(data)


def _flags(net: Net33, **changes: object) -> bytes:
    return with_header(net, "flags", replace(net.image.flags, **changes).pack())  # type: ignore


def _pool(net: Net33, address: int) -> bytes:
    """The pool of the activations, elsewhere."""
    header, pools = net.image.header, net.image.pools
    (index,) = (i for i, pool in enumerate(pools) if pool.fixed)
    first = context_place(header, "state") - header.context + header.params_start
    return patched(net.file, first + 20 * index + 12, struct.pack("<I", address))


def test_what_the_loader_refuses(net: Net33) -> None:
    """One after the other on one board, which answers after each and takes a good image then."""
    with bench() as machine:
        for what, (change, code, reason) in REFUSED.items():
            result = start_as_it_is(machine, net, data=change(net))
            assert result == mailbox.Result(code, mailbox.Status.REFUSED, reason), what
            assert EmulatedBoard(machine).info().networks == ()
        start_good(machine, net)


@pytest.mark.parametrize(
    ("changes", "code", "reason"),
    [
        ({"exec_ram_bytes": 64}, MEMORY, "the exec RAM is too small"),
        ({"exec_ram": FIRMWARE_ADDRESS}, MEMORY, "the exec RAM is not one of this board"),
        ({"file": 0x71000004}, INVALID, "the address is not aligned"),
        ({"mode": 0}, -4, ""),
    ],
)
def test_places_that_the_loader_refuses(
    net: Net33, changes: dict[str, int], code: int, reason: str
) -> None:
    with bench() as machine:
        result = start_as_it_is(machine, net, **changes)
        assert result.code == code
        assert reason in result.reason
        start_good(machine, net)


def test_parameters_that_are_missing() -> None:
    split = packaged("hardware", controller=False, split=True)
    with pytest.raises(FileError, match="the parameters are in a separate file"):
        split.load(params=None)
    with bench() as machine:
        result = start_as_it_is(machine, split, params=0, params_bytes=0)
        assert result.code == PARAM_ADDR
        assert result.reason == "parameters are in a file of their own"


def test_what_is_refused_before_a_board_is_started(net: Net33) -> None:
    m55 = packaged("hardware", controller=False, cpu="cortex-m55")
    with pytest.raises(FileError, match="built for Cortex-M55") as caught:
        load([m55.placed], "4.0", CLOCKS)
    assert caught.value.hint == "package it with --cpu cortex-m33"
    for data, message in (
        (net.file[:2048], "the file ends at 2048"),
        (b"nothing", "the file ends at byte 7"),
        (_changed(net, -1), "the checksum is wrong: the file is damaged"),
    ):
        with pytest.raises(FileError, match=message):
            load([Placed(data)], "4.0", CLOCKS)
    for address in (0x6FFFFFC0, 0x77FFFFC0, 0x34000000):
        with pytest.raises(DeviceError, match="are outside of the flash"):
            load([Placed(net.file, address=address)], "4.0", CLOCKS)
    with pytest.raises(DeviceError, match="the board takes at most 4 networks, found 5"):
        load(side_by_side([net.file] * 5), "4.0", CLOCKS)


@pytest.mark.parametrize("entry", ["ec_network_init", "ec_inference_init"])
@pytest.mark.parametrize(
    ("code", "message"),
    [(UNDEFINED, "invalid instruction for this core"), (FOREVER, "no pause within")],
    ids=["undefined", "forever"],
)
def test_code_that_does_no_good(net: Net33, entry: str, code: bytes, message: str) -> None:
    """While it is loaded or while it runs: the place is told, a reset helps."""
    with bench(most_instructions=20_000_000) as machine:
        with pytest.raises(FaultError, match=message) as caught:
            start_as_it_is(machine, net, data=with_code(net, entry, code))
            check_values(EmulatedBoard(machine), net)
        assert caught.value.pc == EXEC_RAM_ADDRESS + net.image.entry_points[entry]
        assert f"pc {caught.value.pc:#010x}" in caught.value.where
        start_good(machine, net)


def test_a_jump_to_nowhere(net: Net33) -> None:
    with bench() as machine:
        with pytest.raises(FaultError, match="jump to unmapped memory") as caught:
            start_as_it_is(machine, net, data=with_code(net, "ec_network_init", FAR_JUMP))
        assert "pc 0x60000000" in caught.value.where
        start_good(machine, net)


def test_an_exception_without_a_handler(net: Net33) -> None:
    with bench() as machine:
        with pytest.raises(DeviceError, match="took an unexpected exception") as caught:
            start_as_it_is(machine, net, data=with_code(net, "ec_network_init", CALL))
        assert f"pc {EXEC_RAM_ADDRESS + net.image.entry_points['ec_network_init'] + 2:#010x}" in (
            caught.value.where
        )
        start_good(machine, net)


def test_a_device_starts_anew_after_a_fault(net: Net33) -> None:
    """The same network faults again, and its neighbour on the board still runs."""
    bad = with_code(net, "ec_inference_init", UNDEFINED)
    found = load(side_by_side([bad, net.file]), "4.0", CLOCKS)
    found.require_all()
    for _ in range(2):
        with pytest.raises(FaultError, match="pc 0x3406"):
            check_values(found.board, net, "network")
        check_values(found.board, net, "network_2")
    found.board.close()


def test_a_mailbox_that_was_overwritten() -> None:
    data = mailbox.pack((), mailbox.ClockRates(1, 1, 1, 1))
    with pytest.raises(DeviceError, match="was overwritten: 0x63 is not a state"):
        mailbox.state_of(data[:28] + b"c" + data[29:])
    with pytest.raises(DeviceError, match="was overwritten"):
        mailbox.results_of(bytes([255]) * mailbox.BYTES, 1)
