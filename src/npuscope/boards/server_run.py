"""What a host asks of a virtual board: its memory, and inferences with epochs, counters and
outputs."""

from __future__ import annotations

import logging
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from msgspec import Struct

from npuscope.boards.device import (
    NOTHING,
    CounterOption,
    Device,
    Inference,
    NetworkDesc,
    NodeCounters,
    NodeTensors,
    Request,
)
from npuscope.boards.wire.describe import inference_message, node_message, values_message
from npuscope.boards.wire.framing import (
    LOG_BYTES,
    MEMORY_CHUNK_BYTES,
    OPTION_SHIFT,
    SMALL_PAYLOAD_BYTES,
    Revision,
    RunParam,
    State,
    TensorFlag,
    WireFault,
    detect,
    device_packets,
    receive_from_host,
)
from npuscope.boards.wire.messages import (
    Ack,
    Data,
    Log,
    Payload,
    Req,
    Resp,
    decode,
    encode,
    has_field,
)
from npuscope.boards.wire.statistics import NodePlace, node_lines
from npuscope.errors import DeviceError, NpuscopeError

# The board's end of a conversation: requests and data in, answers out.
#
# What the host sends has no envelope, so the board reads it by context. A host that gives up and
# starts again is still understood: only a request has a fifth field.

_OPT_FIELD = 5  # required in a request, in no other message of the host
_DRAIN_BYTES = 4096
_LOG_LEVEL = 1

Sent = TypeVar("Sent", Ack, Data)


class Stream(Protocol):
    """Bytes to and from one client."""

    def read(self, n: int, timeout_s: float) -> bytes:
        """1 to n bytes; none when the time is over; Gone when the client left."""

    def write(self, data: bytes) -> None: ...


class Gone(DeviceError):
    """The client left."""


class Idle(DeviceError):
    """The client said nothing for long."""


class RefusedRequest(DeviceError):
    """A request that is answered with an error."""

    def __init__(self, message: str, fault: WireFault, param: int | None = None) -> None:
        super().__init__(message)
        self.fault = fault
        self.param = int(fault) if param is None else param


class Interrupted(DeviceError):
    """A new request came where data of the old one was expected."""

    def __init__(self, request: Req) -> None:
        super().__init__(f"request {request.reqid} came inside another one")
        self.request = request


class ServerTiming(Struct, frozen=True):
    """Seconds. Between the packets of a message a slow host may think, inside one it may not."""

    idle: float = 600.0
    silence: float = 0.2
    packet_gap: float = 5.0
    message_gap: float = 10.0


class ServerExchange:
    """One client's conversation; the revision is seen anew at each message it sends."""

    def __init__(self, stream: Stream, limit_bytes: int, timing: ServerTiming) -> None:
        self.revision = Revision.W2
        self._stream = stream
        self._limit_bytes = limit_bytes
        self._timing = timing
        self._reqid = 0

    @property
    def takes_statistics(self) -> bool:
        """A W1 client prints `s:` lines instead of keeping them."""
        return self.revision is not Revision.W1

    def request(self) -> Req:
        """The next request; its number goes into every answer from here on."""
        return self.begin(decode(Req, self._message(self._timing.idle)))

    def begin(self, request: Req) -> Req:
        self._reqid = request.reqid
        return request

    def receive(self, kind: type[Sent]) -> Sent:
        """The message that must follow now."""
        data = self._message(self._timing.message_gap)
        if has_field(data, _OPT_FIELD):
            raise Interrupted(decode(Req, data))
        return decode(kind, data)

    def reply(self, state: State, payload: Payload) -> None:
        message = encode(Resp.of(self._reqid, state, payload))
        self._stream.write(device_packets(message, self.revision))

    def refuse(self, fault: WireFault, param: int | None = None) -> None:
        self.reply(State.ERROR, Ack(int(fault) if param is None else param, fault))

    def log(self, text: str) -> None:
        """A line for the host, which acknowledges it."""
        self.reply(State.WAITING, Log(_LOG_LEVEL, text[:LOG_BYTES]))
        self.receive(Ack)

    def drop_input(self) -> None:
        """Forget what is still coming, until the line is silent: a new packet starts after it."""
        while self._stream.read(_DRAIN_BYTES, self._timing.silence):
            pass

    def _message(self, wait_s: float) -> bytes:
        first = self._stream.read(1, wait_s)
        if not first:
            raise Idle("no data from the client")
        revision = detect(first[0])
        if revision is None:
            raise DeviceError(f"no packet begins with {first[0]:#04x}")
        rest = revision.header_bytes + SMALL_PAYLOAD_BYTES - 1
        begun = first + self._exactly(rest, self._timing.silence)
        self.revision = revision
        return receive_from_host(
            self._packet, self._stream.write, revision, self._limit_bytes, begun=begun
        )

    def _packet(self, n: int) -> bytes:
        return self._exactly(n, self._timing.packet_gap)

    def _exactly(self, n: int, first_wait_s: float) -> bytes:
        """n bytes: the first may take its time, the others follow without a pause."""
        data = bytearray()
        while len(data) < n:
            wait_s = self._timing.silence if data else first_wait_s
            piece = self._stream.read(n - len(data), wait_s)
            if not piece:
                raise DeviceError(f"a packet broke off, {n - len(data)} bytes are missing")
            data += piece
        return bytes(data)


# Reading, writing and summing up the board's memory for a host.


class ServedMemory(Protocol):
    """Mapped memory by address; outside of it both raise one of our errors."""

    def read(self, address: int, size: int, /) -> bytes: ...

    def write(self, address: int, data: bytes, /) -> None: ...


def read(exchange: ServerExchange, request: Req, memory: ServedMemory | None) -> None:
    """All chunks but the last are acknowledged by the host."""
    content = _content(request, _served(memory))
    exchange.reply(State.PROCESSING, Ack(MEMORY_CHUNK_BYTES))
    for start in range(0, len(content), MEMORY_CHUNK_BYTES):
        data = content[start : start + MEMORY_CHUNK_BYTES]
        last = start + len(data) == len(content)
        chunk = Data(size_bytes=len(data), address=request.param + start, data=data)
        exchange.reply(State.DONE if last else State.PROCESSING, chunk)
        if not last:
            exchange.receive(Ack)


def write(exchange: ServerExchange, request: Req, memory: ServedMemory | None) -> None:
    """Each chunk is answered with its checksum."""
    target = _served(memory)
    # The whole range is looked at before the host is asked for data.
    remaining = len(_content(request, target))
    address = request.param
    exchange.reply(State.WAITING, Ack(MEMORY_CHUNK_BYTES))
    while remaining:
        data = exchange.receive(Data).data
        if not 0 < len(data) <= min(MEMORY_CHUNK_BYTES, remaining):
            raise RefusedRequest(f"a chunk of {len(data)} bytes", WireFault.INVALID_SIZE, len(data))
        try:
            target.write(address, data)
        except NpuscopeError as error:
            raise RefusedRequest(error.message, WireFault.INVALID_PARAM) from None
        address += len(data)
        remaining -= len(data)
        exchange.reply(State.WAITING if remaining else State.DONE, Ack(bsd_checksum(data)))


def checksum(exchange: ServerExchange, request: Req, memory: ServedMemory | None) -> None:
    exchange.reply(State.DONE, Ack(bsd_checksum(_content(request, _served(memory)))))


def bsd_checksum(data: bytes) -> int:
    """The 16-bit checksum of BSD: rotate right by one, add the byte."""
    total = 0
    for byte in data:
        total = ((total >> 1 | (total & 1) << 15) + byte) & 0xFFFF
    return total


def _served(memory: ServedMemory | None) -> ServedMemory:
    if memory is None:
        raise RefusedRequest("this board's memory is not served", WireFault.INVALID_CMD)
    return memory


def _content(request: Req, memory: ServedMemory) -> bytes:
    if request.opt == 0:
        raise RefusedRequest("0 bytes of memory", WireFault.INVALID_SIZE)
    try:
        return memory.read(request.param, request.opt)
    except NpuscopeError as error:
        raise RefusedRequest(error.message, WireFault.INVALID_PARAM) from None


# One inference for a host: inputs in, epochs and counters, outputs out.

_LOGGER = logging.getLogger(__name__)

_DIRECT = RunParam.DIRECT_WRITE | RunParam.DIRECT_READ
_EACH_EPOCH = RunParam.PER_LAYER | RunParam.PER_LAYER_WITH_DATA
_ALL_OPTIONS = sum(CounterOption)


@runtime_checkable
class ShowsTensors(Protocol):
    """A device that can also give what each epoch wrote, one entry a node."""

    def run_with_tensors(self, request: Request) -> tuple[Inference, tuple[NodeTensors, ...]]: ...


def run(exchange: ServerExchange, request: Req, device: Device, network: NetworkDesc) -> None:
    """The whole of NETWORK_RUN."""
    param = RunParam(request.param)
    if param & _DIRECT:
        raise RefusedRequest("inputs written straight into memory", WireFault.INVALID_PARAM)
    inputs = _inputs(exchange, network, constant=bool(param & RunParam.CONST_VALUE))
    per_layer = bool(param & _EACH_EPOCH)
    bits = request.opt >> OPTION_SHIFT & _ALL_OPTIONS
    inference_request = Request(
        network.name, inputs, per_layer, CounterOption(bits) if per_layer else NOTHING
    )
    inference, tensors = _compute(device, inference_request, param)
    mcu_hz = device.info().clocks.mcu_hz
    if inference_request.per_layer:
        _send_nodes(exchange, inference.nodes, tensors, inference_request.options, mcu_hz)
    exchange.reply(State.PROCESSING, inference_message(inference))
    # The last one is marked twice, by its flag and by the state: hosts check both.
    with_data = not param & RunParam.PERF
    pairs = list(zip(network.outputs, inference.outputs, strict=True))
    for i, (desc, values) in enumerate(pairs, 1):
        last = i == len(pairs)
        flags = TensorFlag.OUTPUT | (TensorFlag.LAST if last else TensorFlag(0))
        message = values_message(desc, values, flags, with_data=with_data)
        exchange.reply(State.DONE if last else State.PROCESSING, message)


def _compute(
    device: Device, request: Request, param: RunParam
) -> tuple[Inference, tuple[NodeTensors, ...]]:
    with_data = param & RunParam.PER_LAYER_WITH_DATA and not param & RunParam.PERF
    try:
        if with_data and isinstance(device, ShowsTensors):
            return device.run_with_tensors(request)
        return device.run(request), ()
    except NpuscopeError as error:
        _LOGGER.warning("the inference failed: %s", error)
        raise RefusedRequest(error.message, WireFault.GENERIC) from None


def _inputs(
    exchange: ServerExchange, network: NetworkDesc, *, constant: bool
) -> tuple[np.ndarray, ...]:
    first = network.inputs[0].size_bytes if network.inputs else 0
    exchange.reply(State.WAITING, Ack(first))
    inputs: list[np.ndarray] = []
    for desc in network.inputs:
        data = exchange.receive(Data).data
        # An input from its bytes; with one element for all of it, that one repeated.
        dtype = np.dtype(desc.dtype)
        expected = dtype.itemsize if constant else desc.size_bytes
        if len(data) != expected:
            text = f"{len(data)} bytes for input '{desc.name}', expected {expected}"
            raise RefusedRequest(text, WireFault.INVALID_SIZE, len(data))
        values = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype)
        inputs.append(np.full(desc.shape, values[0]) if constant else values.reshape(desc.shape))
        last = len(inputs) == len(network.inputs)
        exchange.reply(State.PROCESSING if last else State.WAITING, Ack(len(data)))
        exchange.receive(Ack)
    return tuple(inputs)


def _send_nodes(
    exchange: ServerExchange,
    nodes: tuple[NodeCounters, ...],
    tensors: tuple[NodeTensors, ...],
    options: CounterOption,
    mcu_hz: int,
) -> None:
    current = 0
    for index, node in enumerate(nodes):
        current = current if node.extra else node.number
        node_tensors = tensors[index] if index < len(tensors) else ()
        if exchange.takes_statistics:
            for line in node_lines(
                node, NodePlace(index, current), options, tensors=len(node_tensors)
            ):
                exchange.log(line)
        operator = node_message(node, current, mcu_hz, tensors=len(node_tensors))
        exchange.reply(State.PROCESSING, operator)
        for i, (desc, values) in enumerate(node_tensors, 1):
            flags = TensorFlag.INTERNAL | (
                TensorFlag.LAST if i == len(node_tensors) else TensorFlag(0)
            )
            exchange.reply(State.PROCESSING, values_message(desc, values, flags, with_data=True))
