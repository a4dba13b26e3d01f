"""What hosts say, and what the virtual board answers."""

from __future__ import annotations

import numpy as np

from boards.played import Played
from fake_device import MEMORY_START, FakeDevice
from npuscope.boards.device import Inference, NodeTensors, Request, TensorDesc
from npuscope.boards.server import VirtualBoard
from npuscope.boards.wire.framing import Revision, WireCommand, host_packets, receive_from_device
from npuscope.boards.wire.messages import Ack, Data, Req, Resp, decode, encode

IMAGE = (np.arange(48) - 20).astype(np.int8).reshape(1, 4, 4, 3)
SHOWN = np.arange(6, dtype="<i2").reshape(1, 6)
Said = list[Req | Ack | Data]


class Showing(FakeDevice):
    def run_with_tensors(self, request: Request) -> tuple[Inference, tuple[NodeTensors, ...]]:
        found = self.run(request)
        one = (TensorDesc("mid", (1, 6), "int16"), SHOWN)
        return found, ((one, one), *(() for _ in found.nodes[1:]))


def ours(data: bytes, device: FakeDevice | None = None, *, memory: bool = True) -> bytes:
    """What the virtual board says."""
    device, stream = device or FakeDevice(), Played(data)
    VirtualBoard(device, memory=device if memory else None).serve(stream)
    return bytes(stream.sent)


def host_bytes(*messages: Req | Ack | Data, revision: Revision = Revision.W2) -> bytes:
    return b"".join(packet for m in messages for packet in host_packets(encode(m), revision))


def a_run(param: int, options: int = 0, *inputs: bytes, name: str = "tiny", lines: int = 0) -> Said:
    """A run as a host sends it that acknowledges `lines` lines."""
    sent: Said = [Req(7, WireCommand.NETWORK_RUN, param, name, options << 8 | 1)]
    for data in inputs:
        sent += [Data(size_bytes=len(data), data=data), Ack()]
    return [*sent, *[Ack()] * lines]


PAIR_INPUTS = (np.arange(5, dtype="<f4").tobytes(), np.arange(300).astype(np.uint8).tobytes())
SAMPLE = IMAGE.tobytes()
CONVERSATIONS: dict[str, Said] = {
    "sync": [
        Req(1, WireCommand.SYNC),
        Req(2, WireCommand.SYS_INFO),
        Req(3, WireCommand.DISCONNECT),
    ],
    "networks": [
        m for i in range(4) for m in (Req(i, WireCommand.NETWORK_INFO, i), *[Ack()] * (7 * (i < 2)))
    ],
    "two inputs": a_run(1, 0, *PAIR_INPUTS, name="pair"),
    "for speed": a_run(0x209, 0, b"\x05"),
    "for speed, floats": a_run(0x20B, 1, PAIR_INPUTS[0][4:8], b"\x09", name="pair", lines=9),
    "no name": a_run(1, 0, SAMPLE, name=""),
    "unknown name": a_run(1, 0, SAMPLE, name="tin"),
    "longer name": a_run(1, 0, SAMPLE, name="tiny" * 20),
    "zero in the name": a_run(1, 0, SAMPLE, name="tiny\0"),
    "direct": a_run(0x401, 0, SAMPLE) + a_run(0x801, 0, SAMPLE),
    "sizes": [m for n in (0, 1, 47, 49, 4096) for m in a_run(1, 0, bytes(n))[:2]],
    "sizes of elements": [m for n in (0, 2, 9, 4096) for m in a_run(0x209, 0, bytes(n))[:2]],
    "unknown commands": [Req(n, command) for n, command in enumerate((12, 30, 100, 200, 255))],
    "started again": [*a_run(1)[:1], Req(9, WireCommand.SYNC), Req(10, WireCommand.SYS_INFO)],
    "started again in a node": [*a_run(3, 1, SAMPLE, lines=3), Req(9, WireCommand.SYNC)],
    "memory": [
        Req(1, WireCommand.MEMORY_WRITE, MEMORY_START + 7, opt=1500),
        Data(size_bytes=1024, data=bytes(range(256)) * 4),
        Data(size_bytes=476, data=b"abcd" * 119),
        Req(2, WireCommand.MEMORY_CHECKSUM, MEMORY_START, opt=3072),
        Req(3, WireCommand.MEMORY_READ, MEMORY_START, opt=3072),
        Ack(),
        Ack(),
        Req(4, WireCommand.MEMORY_READ, MEMORY_START + 3071, opt=1),
    ],
    "memory edges": [
        Req(i, command, address, opt=size)
        for i, command in enumerate((20, 21, 22))
        for address, size in (
            (0, 4),
            (MEMORY_START - 1, 4),
            (MEMORY_START, 3073),
            (MEMORY_START + 3072, 1),
            (0xFFFFFFFF, 0xFFFFFFFF),
            (MEMORY_START, 0),
        )
    ],
    "memory in wrong chunks": [
        Req(1, WireCommand.MEMORY_WRITE, MEMORY_START, opt=4),
        Data(size_bytes=5, data=b"12345"),
        Req(2, WireCommand.MEMORY_WRITE, MEMORY_START, opt=3000),
        Data(size_bytes=1025, data=bytes(1025)),
        Req(3, WireCommand.MEMORY_WRITE, MEMORY_START, opt=4),
        Req(4, WireCommand.MEMORY_READ, MEMORY_START, "name that is no data", 8),
    ],
}


def messages(data: bytes) -> list[Resp]:
    """The device's messages; bytes that ask for packets are passed over."""
    found, at = [], 0

    def read(n: int) -> bytes:
        nonlocal at
        at += n
        return data[at - n : at]

    while at < len(data):
        if data[at] == 0xAA:
            at += 1
        else:
            found.append(decode(Resp, receive_from_device(read, Revision.W2, 1 << 20)))
    return found
