"""The validation server in C answers as our virtual board does, byte for byte."""

from __future__ import annotations

import base64
import json
import socket
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from fake_device import MEMORY_START, TINY, FakeDevice
from firmware.validation_conversations import (
    CONVERSATIONS,
    IMAGE,
    SAMPLE,
    Showing,
    a_run,
    host_bytes,
    messages,
    ours,
)
from firmware.validation_host import Server, the_server
from npuscope.boards.device import CounterOption, Request
from npuscope.boards.link import SocketLink
from npuscope.boards.remote import RemoteBoard
from npuscope.boards.server_run import bsd_checksum
from npuscope.boards.wire.framing import Revision, WireCommand, WireFault, host_packets
from npuscope.boards.wire.messages import Ack, Req
from npuscope.structs import replace
from processes import LIMIT_S

RECORDED = sorted((Path(__file__).parents[1] / "boards" / "recorded").glob("*.json"))


@pytest.fixture(scope="module")
def server() -> Server:
    return the_server()


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_vendors_clients_hear_what_they_heard(server: Server, path: Path) -> None:
    record = json.loads(path.read_text(encoding="utf-8"))
    host, device = (zlib.decompress(base64.b64decode(record[side])) for side in ("host", "device"))
    assert server.played([host]) == [device]


@pytest.mark.parametrize("revision", [Revision.W1, Revision.W2])
@pytest.mark.parametrize("bits", range(128))
def test_every_option_has_the_same_lines(server: Server, bits: int, revision: Revision) -> None:
    sent = host_bytes(*a_run(3, bits, IMAGE.tobytes(), lines=80), revision=revision)
    found = server.played([sent])[0]
    assert found == ours(sent)
    assert len(found) > 400


@pytest.mark.parametrize("revision", [Revision.W1, Revision.W2])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversations(server: Server, name: str, revision: Revision) -> None:
    sent = host_bytes(*CONVERSATIONS[name], revision=revision)
    assert server.played([sent]) == [ours(sent)]


def test_tensors_of_an_epoch(server: Server) -> None:
    sent = host_bytes(*a_run(7, 1, SAMPLE, lines=60))
    assert server.played([sent], "shows") == [ours(sent, Showing())]
    assert server.played([sent]) == [ours(sent)]


def test_without_memory(server: Server) -> None:
    asked = [Req(1, WireCommand.SYNC), Req(2, WireCommand.MEMORY_READ, MEMORY_START, opt=4)]
    sent = host_bytes(*asked)
    assert server.played([sent], "closed") == [ours(sent, memory=False)]


def test_a_run_that_fails(server: Server) -> None:
    (answers,) = server.played(
        [host_bytes(*a_run(3, 0, SAMPLE), Req(8, WireCommand.SYNC))], "fails"
    )
    found = messages(answers)
    assert [m.ack for m in found[2:3]] == [Ack(10, WireFault.GENERIC)]
    assert found[3].sync is not None


def test_networks_that_were_not_installed_are_in_the_system_info(server: Server) -> None:
    (answers,) = server.played([host_bytes(Req(1, WireCommand.SYS_INFO))], "failures")
    system = messages(answers)[0].sysinfo
    assert system is not None
    # Entry 1, code -2; what older hosts read there is as it was.
    assert system.extra[4:] == (1 << 16 | 0xFFFE,)
    assert (len(system.field5), system.com_param) == (4, 0)


# Conversations over a line, with its silences.


@pytest.fixture
def board(server: Server) -> Iterator[Callable[..., RemoteBoard]]:
    with ExitStack() as stack:

        def opened(*words: str) -> RemoteBoard:
            mine, theirs = socket.socketpair()
            process = server.start(theirs.fileno(), *words)
            theirs.close()
            stack.callback(process.wait, LIMIT_S)
            stack.callback(mine.close)
            # The line stays when the client opens it again, as a serial one does.
            return RemoteBoard(lambda: SocketLink(mine.dup(), "line"))

        yield opened


def test_our_client(board: Callable[..., RemoteBoard]) -> None:
    device = board("patient")
    info = device.info()
    assert info.link_checked is False  # the fake's memory does not hold its outputs
    assert [network.name for network in info.networks] == ["tiny", "pair"]
    expected = FakeDevice()
    assert replace(info.networks[0], runtime="", tools="") == replace(TINY, runtime="", tools="")
    assert info.clocks == expected.info().clocks
    for options in (
        CounterOption(0),
        CounterOption(0x31),
        CounterOption(0x51),
        CounterOption(8),
        CounterOption(6),
    ):
        request = Request("tiny", (IMAGE,), options=options)
        found, wanted = device.run(request), expected.run(request)
        assert found.nodes == wanted.nodes
        assert np.array_equal(found.outputs[0], wanted.outputs[0])
        assert found.mcu_cycles == wanted.mcu_cycles
    device.close()


@pytest.mark.parametrize(
    "noise",
    [b"\xff" * 50, b"\x00", b"\x00\x0b\x0a\x08\x01", b"\x00\x03\x02\x0b\x0b" + bytes(29)],
    ids=["no packet", "one byte", "half a packet", "no message"],
)
def test_noise_is_dropped_after_a_silence(server: Server, noise: bytes) -> None:
    mine, theirs = socket.socketpair()
    process = server.start(theirs.fileno())
    theirs.close()
    with mine, process:
        mine.sendall(noise)
        mine.settimeout(2.0)
        with pytest.raises(TimeoutError):
            mine.recv(1)
        mine.settimeout(LIMIT_S)
        mine.sendall(host_bytes(Req(5, WireCommand.SYNC)))
        assert messages(mine.recv(34))[0].sync is not None
        mine.close()


def test_an_abandoned_run_is_forgotten(board: Callable[..., RemoteBoard], server: Server) -> None:
    mine, theirs = socket.socketpair()
    process = server.start(theirs.fileno())
    theirs.close()
    with mine, process:
        mine.settimeout(LIMIT_S)
        mine.sendall(host_bytes(Req(1, WireCommand.NETWORK_RUN, 1, "tiny")))
        assert messages(mine.recv(34))[0].ack == Ack(48)
        mine.settimeout(2.0)
        with pytest.raises(TimeoutError):
            mine.recv(1)
        # Without a fifth field this would be taken for data if the run still waited for it.
        request = bytes((0x08, 0x06, 0x10, 0x00))
        mine.settimeout(LIMIT_S)
        mine.sendall(b"\x00\x05" + bytes((4,)) + request + bytes(27))
        answer = messages(mine.recv(34))[0]
        assert (answer.reqid, answer.sync is not None) == (6, True)
        mine.close()


def test_lengths_are_bounded_by_the_largest_input(server: Server) -> None:
    largest = 300 + (64 << 10)
    for size, asks in ((largest + 1, b""), (largest, b"\xaa")):
        first = host_packets(bytes(size), Revision.W2)[0]
        assert server.played([first]) == [asks]


def test_the_checksum_is_the_clients(server: Server) -> None:
    sent = host_bytes(Req(1, WireCommand.MEMORY_CHECKSUM, MEMORY_START, opt=3072))
    (answers,) = server.played([sent])
    assert messages(answers)[0].ack == Ack(bsd_checksum(bytes(range(256)) * 12))
