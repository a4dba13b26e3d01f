"""The virtual board as a host sees it: every command, every revision, and what is refused."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from boards.played import Played
from fake_device import CLOCKS, MEMORY_START, NODES, PAIR, TINY, FakeDevice, counted
from npuscope.boards.device import CounterOption, Inference, Request, TensorDesc
from npuscope.boards.listeners import SocketStream
from npuscope.boards.server import VirtualBoard
from npuscope.boards.server_run import NodeTensors, ServerTiming, bsd_checksum
from npuscope.boards.wire.framing import (
    Revision,
    State,
    TensorFlag,
    WireCommand,
    WireFault,
    host_packets,
    receive_from_device,
    send_to_device,
)
from npuscope.boards.wire.messages import Ack, Data, Req, Resp, Tensor, decode, encode
from npuscope.boards.wire.statistics import read_node
from npuscope.errors import DeviceError, TargetError
from npuscope.structs import replace
from processes import LIMIT_S

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.json"))
QUICK = ServerTiming(idle=5, silence=0.05, packet_gap=0.15, message_gap=0.15)
IMAGE = (np.arange(48) - 20).astype(np.int8).reshape(1, 4, 4, 3)
CLASSES = IMAGE.reshape(16, 3).sum(0, dtype=np.int8)
Connect = Callable[..., "Host"]


class Host:
    """The other end: sends requests, answers logs and keeps them."""

    def __init__(self, line: socket.socket, revision: Revision) -> None:
        self.line = line
        self.revision = revision
        self.reqid = 0
        self.logs: list[str] = []
        line.settimeout(LIMIT_S)

    def read(self, n: int) -> bytes:
        data = b""
        while len(data) < n:
            piece = self.line.recv(n - len(data))
            if not piece:
                raise DeviceError("the board closed the line")
            data += piece
        return data

    def send(self, message: Req | Ack | Data) -> None:
        send_to_device(self.read, self.line.sendall, encode(message), self.revision)

    def ask(self, cmd: int, param: int = 0, name: str = "", opt: int = 0) -> Resp:
        self.reqid += 1
        self.send(Req(self.reqid, cmd, param, name, opt))
        return self.answer()

    def answer(self) -> Resp:
        while True:
            found = decode(Resp, receive_from_device(self.read, self.revision, 1 << 20))
            assert found.reqid == self.reqid
            if found.log is None:
                return found
            self.logs.append(found.log.text)
            self.send(Ack())

    def run(self, *inputs: bytes, param: int = 1, name: str = "tiny", opt: int = 0) -> Resp:
        """Up to the first message after the inputs."""
        assert self.ask(WireCommand.NETWORK_RUN, param, name, opt).state == State.WAITING
        for data in inputs:
            self.send(Data(size_bytes=len(data), data=data))
            found = self.answer()
            if found.state == State.ERROR:
                return found
            self.send(Ack())
        return self.answer()

    def silent(self) -> bool:
        self.line.settimeout(0.25)
        with contextlib.suppress(TimeoutError):
            return self.line.recv(1) == b""
        self.line.settimeout(LIMIT_S)
        return True


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Hosts on boards of their own."""
    with contextlib.ExitStack() as stack:

        def made(
            device: FakeDevice | None = None,
            revision: Revision = Revision.W2,
            *,
            memory: bool = True,
            timing: ServerTiming = QUICK,
        ) -> Host:
            device = device or FakeDevice()
            ours, theirs = socket.socketpair()
            board = VirtualBoard(device, memory=device if memory else None, timing=timing)
            worker = threading.Thread(target=board.serve, args=(SocketStream(theirs),))
            worker.start()
            stack.callback(theirs.close)
            stack.callback(worker.join, 5)
            stack.callback(ours.close)
            return Host(ours, revision)

        yield made


REVISIONS = pytest.mark.parametrize("revision", [Revision.W1, Revision.W2])


@REVISIONS
def test_who_the_board_is(connect: Connect, revision: Revision) -> None:
    host = connect(revision=revision)
    sync = host.ask(WireCommand.SYNC).sync
    assert sync is not None
    assert (sync.version, sync.capability, sync.rtid & 0xFF) == (0x301, 1 | 8, 4)
    info = host.ask(WireCommand.SYS_INFO).sysinfo
    assert info is not None
    assert (info.device_id, info.mcu_hz, info.bus_hz) == (0x486, CLOCKS.mcu_hz, CLOCKS.noc_hz)
    assert info.cache == 0x05010C01
    assert info.field5 == info.field6 == (0, CLOCKS.npu_hz, CLOCKS.nic_hz, 0)
    assert info.com_param == 0


@REVISIONS
def test_several_networks(connect: Connect, revision: Revision) -> None:
    host = connect(revision=revision)
    models = [host.ask(WireCommand.NETWORK_INFO, index).model for index in (0, 1)]
    assert [model.name for model in models if model] == ["tiny", "pair"]
    tiny = models[0]
    assert tiny is not None
    assert (tiny.inputs[0].dims, tiny.inputs[0].scale, tiny.inputs[0].zero_point) == (
        (1, 4, 4, 3),
        0.5,
        -3,
    )
    assert (tiny.runtime_version, tiny.tool_version) == (0x01020300, 0x04000100)
    assert (tiny.activations[0].size, tiny.params[0].size) == (51, 1000)
    end = host.ask(WireCommand.NETWORK_INFO, 2)
    assert (end.state, end.ack) == (State.ERROR, Ack(4, WireFault.INVALID_PARAM))
    # Only newer clients keep the lines; an old one would print them.
    assert len(host.logs) == (0 if revision is Revision.W1 else 14)


def test_networks_of_one_name_are_told_apart(connect: Connect) -> None:
    host = connect(FakeDevice((TINY, TINY)))
    names = [host.ask(WireCommand.NETWORK_INFO, index).model for index in (0, 1)]
    assert [model.name for model in names if model] == ["tiny", "tiny_2"]


def test_a_network_the_wire_cannot_describe_is_refused_at_once() -> None:
    wide = replace(TINY, outputs=(TensorDesc("out", (1,), "int64"),))
    with pytest.raises(DeviceError, match="'int64' has no code"):
        VirtualBoard(FakeDevice((wide,)))


@REVISIONS
def test_inputs_and_outputs_alone(connect: Connect, revision: Revision) -> None:
    host = connect(revision=revision)
    whole = host.run(IMAGE.tobytes()).operator
    assert whole is not None
    assert whole.type == 0
    assert whole.counters[::2] == (159, 2452, 5936, 8547, 0)
    last = host.answer()
    assert last.state == State.DONE
    assert last.tensor is not None
    assert last.tensor.desc.flags & TensorFlag.LAST
    assert last.tensor.data.data == CLASSES.tobytes()
    assert host.logs == []


@REVISIONS
def test_two_inputs_of_many_packets(connect: Connect, revision: Revision) -> None:
    device = FakeDevice()
    host = connect(device, revision)
    a, b = np.arange(5, dtype="<f4"), np.arange(300).astype(np.uint8)
    host.run(a.tobytes(), b.tobytes(), name="pair")
    first, second = host.answer(), host.answer()
    assert (first.state, second.state) == (State.PROCESSING, State.DONE)
    assert first.tensor is not None and second.tensor is not None
    assert first.tensor.data.data == np.float32(10).tobytes()
    assert second.tensor.data.data == b[::-1].tobytes()
    (request,) = device.requests
    assert request.inputs is not None
    assert [value.shape for value in request.inputs] == [(1, 5), (1, 300)]


@pytest.mark.parametrize(
    "options", [CounterOption(0), CounterOption.STRG_I_ACTIVE, CounterOption.BUSIF_RW_DATA]
)
def test_every_epoch_with_its_counters(connect: Connect, options: CounterOption) -> None:
    device = FakeDevice()
    host = connect(device)
    found = host.run(IMAGE.tobytes(), param=3, opt=options << 8 | 1)
    nodes = []
    while found.operator is not None and found.operator.type >> 24:
        nodes.append(read_node(found.operator, host.logs))
        host.logs.clear()
        found = host.answer()
    assert tuple(nodes) == tuple(counted(node, options) for node in NODES)
    assert device.requests[0].options == options


def test_an_old_host_gets_epochs_without_lines(connect: Connect) -> None:
    host = connect(revision=Revision.W1)
    found = host.run(IMAGE.tobytes(), param=3)
    assert found.operator is not None
    assert found.operator.counters == (100, 2000, 30)
    assert found.operator.duration_ms == pytest.approx(2130 / 800e3)
    assert host.logs == []


def test_for_speed_alone_no_data_is_moved(connect: Connect) -> None:
    device = FakeDevice()
    host = connect(device)
    host.run(b"\x05", param=0x209)
    tensor = host.answer().tensor
    assert tensor is not None
    assert tensor.desc.flags & TensorFlag.NO_DATA
    assert tensor.data.data == b""
    assert device.requests[0].inputs is not None
    assert np.array_equal(device.requests[0].inputs[0], np.full((1, 4, 4, 3), 5))


class Showing(FakeDevice):
    def run_with_tensors(self, request: Request) -> tuple[Inference, tuple[NodeTensors, ...]]:
        found = self.run(request)
        values = np.arange(6, dtype=np.int16).reshape(1, 6)
        one = (TensorDesc("mid", (1, 6), "int16"), values)
        return found, ((one, one), *(() for _ in found.nodes[1:]))


def test_tensors_of_an_epoch(connect: Connect) -> None:
    host = connect(Showing())
    found = host.run(IMAGE.tobytes(), param=7)
    assert found.operator is not None
    assert found.operator.type >> 24 == 1
    tensors = [host.answer().tensor for _ in range(2)]
    lasts = [bool(one.desc.flags & TensorFlag.LAST) for one in tensors if one]
    assert lasts == [False, True]
    assert isinstance(tensors[0], Tensor)
    assert tensors[0].data.data == np.arange(6, dtype="<i2").tobytes()
    following = host.answer().operator
    assert following is not None
    assert following.type >> 24 == 5


def test_a_device_that_shows_no_tensors_says_so(connect: Connect) -> None:
    found = connect().run(IMAGE.tobytes(), param=7)
    assert found.operator is not None
    assert found.operator.type >> 24 == 5


@pytest.mark.parametrize("size", [0, 1, 47, 49, 4096])
def test_an_input_of_wrong_size(connect: Connect, size: int) -> None:
    host = connect()
    found = host.run(bytes(size))
    assert (found.state, found.ack) == (State.ERROR, Ack(size, WireFault.INVALID_SIZE))
    assert host.ask(WireCommand.SYNC).sync is not None


@pytest.mark.parametrize("command", [12, 30, 100, 200, 255])
def test_unknown_commands_are_refused(connect: Connect, command: int) -> None:
    found = connect().ask(command)
    assert (found.state, found.ack) == (State.ERROR, Ack(4, WireFault.INVALID_PARAM))


@pytest.mark.parametrize(("param", "name"), [(1, "other"), (0x401, "tiny"), (0x801, "tiny")])
def test_runs_that_are_refused(connect: Connect, param: int, name: str) -> None:
    found = connect().ask(WireCommand.NETWORK_RUN, param, name)
    assert (found.state, found.ack) == (State.ERROR, Ack(4, WireFault.INVALID_PARAM))


def test_a_device_that_fails(connect: Connect) -> None:
    class Failing(FakeDevice):
        def run(self, request: Request) -> Inference:
            raise TargetError("no such kernel")

    host = connect(Failing())
    assert host.run(IMAGE.tobytes()).ack == Ack(10, WireFault.GENERIC)
    assert host.ask(WireCommand.SYNC).sync is not None


def test_memory(connect: Connect) -> None:
    device = FakeDevice()
    host = connect(device)
    data = bytes(range(200)) * 6
    assert host.ask(WireCommand.MEMORY_WRITE, MEMORY_START + 7, opt=len(data)).ack == Ack(1024)
    for start in (0, 1024):
        chunk = data[start : start + 1024]
        host.send(Data(size_bytes=len(chunk), data=chunk))
        found = host.answer()
        assert found.ack == Ack(bsd_checksum(chunk))
    assert found.state == State.DONE
    assert device.read(MEMORY_START + 7, len(data)) == data
    assert host.ask(WireCommand.MEMORY_CHECKSUM, MEMORY_START + 7, opt=1200).ack == Ack(
        bsd_checksum(data)
    )
    assert host.ask(WireCommand.MEMORY_READ, MEMORY_START + 7, opt=len(data)).ack == Ack(1024)
    first = host.answer()
    host.send(Ack())
    second = host.answer()
    assert (first.state, second.state) == (State.PROCESSING, State.DONE)
    assert first.data is not None and second.data is not None
    assert first.data.data + second.data.data == data


@pytest.mark.parametrize("command", [20, 21, 22])
@pytest.mark.parametrize(
    ("address", "size"),
    [(0, 4), (MEMORY_START - 1, 4), (MEMORY_START, 3073), (0xFFFFFFFF, 0xFFFFFFFF)],
)
def test_only_mapped_memory_is_served(
    connect: Connect, command: int, address: int, size: int
) -> None:
    found = connect().ask(command, address, opt=size)
    assert (found.state, found.ack) == (State.ERROR, Ack(4, WireFault.INVALID_PARAM))


def test_memory_edges(connect: Connect) -> None:
    host = connect()
    assert host.ask(WireCommand.MEMORY_READ, MEMORY_START).ack == Ack(1, WireFault.INVALID_SIZE)
    host.ask(WireCommand.MEMORY_WRITE, MEMORY_START, opt=4)
    host.send(Data(size_bytes=5, data=b"12345"))
    assert host.answer().ack == Ack(5, WireFault.INVALID_SIZE)
    closed = connect(memory=False)
    assert closed.ask(WireCommand.MEMORY_READ, MEMORY_START, opt=4).ack == Ack(
        6, WireFault.INVALID_CMD
    )
    sync = closed.ask(WireCommand.SYNC).sync
    assert sync is not None
    assert sync.capability == 1


def test_a_goodbye_is_not_answered(connect: Connect) -> None:
    host = connect()
    host.send(Req(1, WireCommand.DISCONNECT))
    assert host.silent()
    assert host.ask(WireCommand.SYNC).sync is not None


def test_the_next_client_may_speak_another_revision(connect: Connect) -> None:
    host = connect(revision=Revision.W2)
    for revision in (Revision.W2, Revision.W1, Revision.W3):
        host.revision = revision
        assert host.ask(WireCommand.SYNC).sync is not None


def test_a_client_that_starts_again_inside_a_run(connect: Connect) -> None:
    host = connect(timing=ServerTiming(idle=5, silence=0.05, packet_gap=2, message_gap=2))
    assert host.ask(WireCommand.NETWORK_RUN, 1, "tiny").state == State.WAITING
    assert host.ask(WireCommand.SYNC).sync is not None


def test_data_that_stays_out_ends_the_run(connect: Connect) -> None:
    host = connect()
    host.ask(WireCommand.NETWORK_RUN, 1, "tiny")
    assert host.silent()
    assert host.ask(WireCommand.SYNC).sync is not None


@pytest.mark.parametrize(
    "noise",
    [
        b"\xff" * 50,
        b"\x00",
        b"\x00\x0b\x0a\x08\x01",
        b"\x00\x03\xff\xff\x7f" + bytes(29),
        b"\x00\x03\x02\x0b\x0b" + bytes(29),
        b"AT\r\n",
    ],
    ids=["no packet", "one byte", "half a packet", "far too long", "no message", "a modem"],
)
def test_noise_is_dropped_after_a_silence(connect: Connect, noise: bytes) -> None:
    host = connect()
    host.line.sendall(noise)
    assert host.silent()
    assert host.ask(WireCommand.SYNC).sync is not None


def test_a_length_is_bounded_by_the_largest_input(connect: Connect) -> None:
    host = connect()
    largest = max(desc.size_bytes for net in (TINY, PAIR) for desc in net.inputs)
    host.line.sendall(host_packets(bytes(largest + (64 << 10) + 1), Revision.W2)[0])
    assert host.silent()
    host.line.sendall(host_packets(bytes(largest + (64 << 10)), Revision.W2)[0])
    assert host.read(1) == b"\xaa"


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_vendors_clients_hear_what_they_heard(path: Path) -> None:
    """Bytes of unmodified clients, recorded once, against the board of today."""
    record = json.loads(path.read_text(encoding="utf-8"))
    host, device = (zlib.decompress(base64.b64decode(record[side])) for side in ("host", "device"))
    fake, stream = FakeDevice(), Played(host)
    VirtualBoard(fake, memory=fake).serve(stream)
    assert stream.left == b""
    assert bytes(stream.sent) == device


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_no_damage_to_a_clients_bytes_ends_the_board(path: Path) -> None:
    record = json.loads(path.read_text(encoding="utf-8"))
    data = zlib.decompress(base64.b64decode(record["host"]))
    chance = random.Random(3)
    for _ in range(40):
        broken = bytearray(data)
        for _ in range(chance.randint(1, 30)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        fake, stream = FakeDevice(), Played(bytes(broken))
        VirtualBoard(fake, memory=fake).serve(stream)
        assert stream.left == b""  # it listened to the end


def test_there_is_a_record_of_each_revision() -> None:
    clients = {json.loads(path.read_text(encoding="utf-8"))["client"] for path in RECORDED}
    assert clients == {"W1", "W2", "W3"}
