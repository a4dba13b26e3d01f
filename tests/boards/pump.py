"""A virtual board and a client joined in one process, on a clock that only waiting moves.

Both ends run in turns: an end runs until it has to wait for bytes, then the clock jumps to what
happens next. So every run is the same, a time-out costs nothing and a slow line is only slow on
the clock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from npuscope.boards.device import (
    BoardClocks,
    CounterOption,
    DeviceInfo,
    Inference,
    NetworkDesc,
    NodeCounters,
    Request,
    TensorDesc,
)
from npuscope.boards.server import VirtualBoard
from npuscope.boards.server_run import Gone, ServerTiming
from npuscope.errors import DeviceError, TargetError
from npuscope.program.model import EpochKind

NEVER = float("inf")
CLIENT, SERVER = 0, 1
PIECE_BYTES = 34


class FaultKind(Enum):
    DROP = "drop"
    DUPLICATE = "duplicate"
    CORRUPT = "corrupt"
    STALL = "stall"
    RESET = "reset"  # the board starts anew, the line stays
    DISCONNECT = "disconnect"
    UNPLUG = "unplug"  # as above, and it stays so


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one byte of what an end (`sender`) has sent since the beginning."""

    kind: FaultKind
    sender: int
    position: int
    flip: int = 1
    stall_s: float = 0.0


@dataclass(slots=True)
class _Way:
    """Bytes under way from one end to the other."""

    sent: int = 0
    free_at: float = 0.0
    stalled_until: float = 0.0
    queue: deque[tuple[float, bytes]] = field(default_factory=deque)


class Pump:
    """The line. `reset_on_open` is TCP: each opening starts a new conversation with the board."""

    def __init__(
        self,
        board: VirtualBoard,
        *,
        fault: Fault | None = None,
        baud: int | None = None,
        reset_on_open: bool = True,
    ) -> None:
        self.clock = 0.0
        self.touched = False
        self.openings = 0
        self._board = board
        self._fault = fault
        self._second_per_byte = 10 / baud if baud else 0.0
        self._reset_on_open = reset_on_open
        self._ways = (_Way(), _Way())
        self._wake = [0.0, NEVER]
        self._turn = CLIENT
        self._change = threading.Condition()
        self._connected = self._serving = False
        self._unplugged = self._resetting = self._rebooted = False
        self._thread: threading.Thread | None = None
        self.crash: BaseException | None = None

    @property
    def sent_bytes(self) -> tuple[int, int]:
        return self._ways[CLIENT].sent, self._ways[SERVER].sent

    def open(self) -> ClientEnd:
        self.openings += 1
        if self._unplugged:
            raise DeviceError("cannot open: the cable is out", where="pump")
        if self._reset_on_open or not self._connected:
            self.hang_up()
            self._connect()
        return ClientEnd(self)

    def hang_up(self) -> None:
        """End the conversation; the board's thread sees it and returns."""
        self._connected = False
        thread, self._thread = self._thread, None
        if thread is not None:
            self._give(SERVER)
            thread.join(10.0)
            assert not thread.is_alive()
        for way in self._ways:
            way.queue.clear()
            way.free_at = way.stalled_until = 0.0

    def _connect(self) -> None:
        self._connected = self._serving = True
        self._wake[SERVER] = self.clock
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        try:
            self._await_turn(SERVER)
            self._converse()
        except BaseException as error:
            self.crash = error
        self._serving = False
        self._wake[SERVER] = NEVER
        self._give(CLIENT)

    def _converse(self) -> None:
        """A serial board goes on for ever, a socket is closed after one conversation."""
        going_on = True
        while going_on:
            self._rebooted = False
            self._board.serve(ServerEnd(self))
            going_on = self._connected and (self._rebooted or not self._reset_on_open)
        self._connected = False

    def _reboot(self, side: int) -> None:
        """Where the board notices that it was reset: all it knew is gone."""
        if side == SERVER and self._resetting:
            self._resetting, self._rebooted = False, True
            self._ways[CLIENT].queue.clear()
            raise Gone("reset")

    def _give(self, side: int) -> None:
        with self._change:
            self._turn = side
            self._change.notify_all()

    def _await_turn(self, side: int) -> None:
        with self._change:
            while self._turn != side:
                assert self._change.wait(30.0), "both ends wait for each other"

    def closed(self, side: int) -> bool:
        return not self._connected and (side == SERVER or not self._ways[SERVER].queue)

    def read(self, side: int, n: int, timeout_s: float) -> bytes:
        end = self.clock + max(0.0, timeout_s)
        queue = self._ways[1 - side].queue
        while True:
            self._reboot(side)
            if queue and queue[0][0] <= self.clock:
                return _take(queue, n)
            if self.closed(side):
                raise _gone(side)
            if self.clock >= end:
                return b""
            self._wake[side] = min(end, queue[0][0] if queue else NEVER)
            self._pass_on(side)

    def _pass_on(self, side: int) -> None:
        """The end that has to do something next gets its turn, at that time."""
        other = 1 - side
        arriving = self._ways[side].queue
        if arriving and self._serving:
            self._wake[other] = min(self._wake[other], arriving[0][0])
        whose = other if self._wake[other] <= self._wake[side] else side
        self.clock = max(self.clock, self._wake[whose])
        if whose != side:
            self._give(other)
            self._await_turn(side)

    def write(self, side: int, data: bytes) -> None:
        if self.closed(side) or not self._connected:
            raise _gone(side)
        for i in range(0, len(data), PIECE_BYTES):
            self._send(side, data[i : i + PIECE_BYTES])
            self._reboot(side)

    def _send(self, side: int, piece: bytes) -> None:
        way = self._ways[side]
        piece, start = self._spoil(side, piece, way.sent), max(self.clock, way.free_at)
        way.sent += len(piece)
        way.free_at = start + len(piece) * self._second_per_byte
        if piece and self._connected:
            way.queue.append((max(way.free_at, way.stalled_until), piece))

    def _spoil(self, side: int, piece: bytes, sent: int) -> bytes:
        fault = self._fault
        if fault is None or fault.sender != side or not 0 <= fault.position - sent < len(piece):
            return piece
        # One fault is one event: what is sent again passes.
        self._fault, self.touched = None, True
        return self._apply(fault, self._ways[side], piece, fault.position - sent)

    def _apply(self, fault: Fault, way: _Way, piece: bytes, at: int) -> bytes:
        before, byte, after = piece[:at], piece[at : at + 1], piece[at + 1 :]
        match fault.kind:
            case FaultKind.DROP:
                return before + after
            case FaultKind.DUPLICATE:
                return before + byte + byte + after
            case FaultKind.CORRUPT:
                return before + bytes([byte[0] ^ fault.flip]) + after
            case FaultKind.STALL:
                way.stalled_until = self.clock + fault.stall_s
                return piece
            case FaultKind.RESET:
                self._resetting = True
                return before
        self._connected = False
        self._unplugged = fault.kind is FaultKind.UNPLUG
        return before


def _take(queue: deque[tuple[float, bytes]], n: int) -> bytes:
    at, data = queue.popleft()
    if len(data) > n:
        queue.appendleft((at, data[n:]))
    return data[:n]


def _gone(side: int) -> DeviceError:
    if side == SERVER:
        return Gone("the client left")
    return DeviceError(
        "the connection was lost: the other side closed the connection", where="pump"
    )


class ServerEnd:
    def __init__(self, pump: Pump) -> None:
        self._pump = pump

    def read(self, n: int, timeout_s: float) -> bytes:
        return self._pump.read(SERVER, n, timeout_s)

    def write(self, data: bytes) -> None:
        self._pump.write(SERVER, data)


class ClientEnd:
    """A Link on the pump's clock."""

    name = "pump"
    hint = "look at the pump"

    def __init__(self, pump: Pump) -> None:
        self._pump = pump

    def now(self) -> float:
        return self._pump.clock

    def read(self, n: int, timeout_s: float) -> bytes:
        return self._pump.read(CLIENT, n, timeout_s)

    def write(self, data: bytes) -> None:
        self._pump.write(CLIENT, data)

    def deliver(self, packets: object, ask: bytes, timeout_s: float) -> int:
        return 0

    def flush(self) -> None:
        while self.read(4096, 0.0):
            pass

    def close(self) -> None:
        """A serial line stays as it is when a client leaves."""
        if self._pump._reset_on_open:
            self._pump.hang_up()


Compute = Callable[[tuple[np.ndarray, ...]], tuple[np.ndarray, ...]]


@dataclass(frozen=True)
class FakeNetwork:
    """A network whose outputs follow from its inputs, and whose counters follow from its name."""

    desc: NetworkDesc
    compute: Compute

    def nodes(self, options: CounterOption) -> tuple[NodeCounters, ...]:
        return tuple(_node(i, options) for i in range(self.desc.nodes))


def _node(index: int, options: CounterOption) -> NodeCounters:
    counted = CounterOption.EPOCH_LEN in options
    active = {(0, "i"): 900 + index, (5, "o"): 700 + index} if counted else {}
    kind = (EpochKind.HW, EpochKind.SW, EpochKind.HYBRID)[index % 3]
    return NodeCounters(
        name=f"EpochBlock_{index}",
        number=index,
        last=index,
        kind=kind,
        flags=0x13,
        mcu_cycles=(40 + index, 1000 * index, 7),
        npu_cycles=(3, 1000 + index, 4) if counted else None,
        engines=active,
        cache_read=(index, 1, 2, 3) if CounterOption.NPU_CACHE in options else None,
        cache_write=(4, 5, 6, index) if CounterOption.NPU_CACHE in options else None,
    )


class FakeDevice:
    """Small networks, with the outputs of the last run in its memory."""

    def __init__(self, *networks: FakeNetwork) -> None:
        self._networks = {network.desc.name: network for network in networks}
        self._memory: dict[int, np.ndarray] = {}
        for network in networks:
            for tensor in network.desc.outputs:
                self._memory[tensor.address] = np.zeros(tensor.size_bytes, np.uint8)

    def info(self) -> DeviceInfo:
        networks = tuple(network.desc for network in self._networks.values())
        clocks = BoardClocks(800_000_000, 400_000_000, 1_000_000_000, 900_000_000)
        return DeviceInfo("fake", "none", 0x486, clocks, True, ("IO_ONLY", "PER_LAYER"), networks)

    def run(self, request: Request) -> Inference:
        network = self._networks[request.network]
        assert request.inputs is not None
        outputs = network.compute(request.inputs)
        for tensor, array in zip(network.desc.outputs, outputs, strict=True):
            self._memory[tensor.address] = np.frombuffer(array.tobytes(), np.uint8)
        nodes = network.nodes(request.options) if request.per_layer else ()
        return Inference(nodes, outputs, (11, 22 << 32, 33), 1.5)

    def close(self) -> None:
        pass

    def read(self, address: int, size: int, /) -> bytes:
        found = self._memory.get(address)
        if found is None or len(found) < size:
            raise TargetError("no memory there")
        return found[:size].tobytes()

    def write(self, address: int, data: bytes, /) -> None:
        raise TargetError("this memory is not written to")


def network(
    name: str, shape: tuple[int, ...], dtype: str = "int8", *, inputs: int = 1, nodes: int = 2
) -> FakeNetwork:
    """Outputs: the sum of the inputs, and its reverse as int16."""
    size = int(np.prod(shape))
    ins = tuple(TensorDesc(f"in{i}", shape, dtype, 0.5, 3) for i in range(inputs))
    # Addresses from the name, so that networks do not lie in the same place.
    base = 0x34000000 + sum(name.encode()) * 0x1000
    outs = (
        TensorDesc("sum", shape, dtype, 0.25, -1, base),
        TensorDesc("back", (size,), "int16", 1.0, 0, base + 0x800),
    )

    def compute(arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        total = np.sum(np.stack(arrays), axis=0).astype(dtype)
        return total, total.reshape(-1)[::-1].astype(np.int16)

    return FakeNetwork(NetworkDesc(name, ins, outs, nodes, 1000, 2000, 12345, "5a"), compute)


def virtual_board(device: FakeDevice, *, memory: bool = False, scale: float = 1.0) -> VirtualBoard:
    plain = ServerTiming()
    timing = ServerTiming(
        plain.idle * scale,
        plain.silence * scale,
        plain.packet_gap * scale,
        plain.message_gap * scale,
    )
    return VirtualBoard(device, memory=device if memory else None, timing=timing)
