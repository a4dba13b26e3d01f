"""One inference on a board: inputs out, epochs and counters in, outputs in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.board.client_describe import tensor_of
from npuscope.board.client_exchange import CONTROL_BYTES, Exchange
from npuscope.board.device import (
    NetworkDesc,
    NodeCounters,
    Request,
    TensorDesc,
)
from npuscope.board.server_memory import bsd_checksum
from npuscope.board.wire.constants import (
    OPERATOR_FLAG_SHIFT,
    OPTION_SHIFT,
    Command,
    OperatorFlag,
    RunParam,
    State,
    TensorFlag,
)
from npuscope.board.wire.messages import (
    Ack,
    Data,
    Operator,
    Tensor,
)
from npuscope.board.wire.statistics import read_node
from npuscope.errors import UsageError
from npuscope.text import safe_terminal

_MOST_NODES = 1 << 16
_MOST_TENSORS = 256


def start_run(exchange: Exchange, network: NetworkDesc, request: Request) -> None:
    mode = RunParam.IO_ONLY
    mode |= RunParam.PER_LAYER if request.per_layer else RunParam(0)
    mode |= RunParam.CONST_VALUE if request.inputs is None else RunParam(0)
    # Bit 0 tells the board that this is the first sample of a batch: each of ours is.
    opt = request.options << OPTION_SHIFT | 1
    exchange.request(Command.NETWORK_RUN, param=mode, name=network.name, opt=opt)
    what = f"the start of '{safe_terminal(network.name)}'"
    exchange.answer(Ack, exchange.timeouts.run_s, what, State.WAITING)


def send_inputs(exchange: Exchange, inputs: Sequence[bytes]) -> None:
    for i, data in enumerate(inputs):
        exchange.send(Data(size_bytes=len(data), data=data))
        state = State.PROCESSING if i + 1 == len(inputs) else State.WAITING
        what = f"the acknowledgement of input {i}"
        ack, _ = exchange.answer(Ack, exchange.timeouts.data_s, what, state)
        if ack.param != len(data):
            raise exchange.failed(f"the board took {ack.param} of {len(data)} bytes of input {i}")
        exchange.send(Ack())


def receive_nodes(exchange: Exchange) -> tuple[list[NodeCounters], Operator]:
    """The epochs in order, and the operator that stands for the whole inference."""
    nodes: list[NodeCounters] = []
    while len(nodes) <= _MOST_NODES:
        what = f"epoch block {len(nodes)} or the end of the inference"
        timeout_s = exchange.timeouts.operator_s
        operator, _ = exchange.answer(Operator, timeout_s, what, State.PROCESSING)
        flags = operator.type >> OPERATOR_FLAG_SHIFT
        if not flags:
            return nodes, operator
        nodes.append(read_node(operator, exchange.take_lines()))
        if not flags & OperatorFlag.WITHOUT_TENSOR:
            _skip_tensors(exchange, what)
    raise exchange.failed(f"the board reported more than {_MOST_NODES} epoch blocks")


def _skip_tensors(exchange: Exchange, what: str) -> None:
    """The tensors of an epoch: asked for without data, so there is nothing to keep."""
    for _ in range(_MOST_TENSORS):
        timeout_s = exchange.timeouts.node_tensor_s
        tensor, _ = exchange.answer(Tensor, timeout_s, f"a tensor of {what}", State.PROCESSING)
        if tensor.desc.flags & TensorFlag.LAST:
            return
    raise exchange.failed(f"more than {_MOST_TENSORS} tensors of {what}")


def receive_output(exchange: Exchange, expected: TensorDesc, *, last: bool) -> np.ndarray:
    what = f"output '{safe_terminal(expected.name)}'"
    limit = expected.size_bytes + CONTROL_BYTES
    state = State.DONE if last else State.PROCESSING
    timeout_s = exchange.timeouts.output_s
    tensor, _ = exchange.answer(Tensor, timeout_s, what, state, limit_bytes=limit)
    got = tensor_of(tensor.desc)
    if (got.shape, got.dtype) != (expected.shape, expected.dtype):
        raise exchange.failed(f"{what} is {got.dtype}{list(got.shape)}, expected another form")
    if bool(tensor.desc.flags & TensorFlag.LAST) != last:
        raise exchange.failed(f"{what} came out of its order")
    data = tensor.data.data
    padded_bytes = tensor.desc.size * np.dtype(expected.dtype).itemsize
    if len(data) != padded_bytes:
        raise exchange.failed(f"{what} has {len(data)} bytes, expected {padded_bytes}")
    values = np.frombuffer(data[: expected.size_bytes], _little(expected.dtype))
    return values.reshape(expected.shape)


def compare_memory(exchange: Exchange, network: NetworkDesc, outputs: Sequence[np.ndarray]) -> None:
    for tensor, array in zip(network.outputs, outputs, strict=True):
        if memory_checksum(exchange, tensor) != bsd_checksum(array.tobytes()):
            raise exchange.failed(f"output '{safe_terminal(tensor.name)}' was damaged on its way")
    exchange.end()


def memory_checksum(exchange: Exchange, tensor: TensorDesc) -> int:
    address, size = tensor.address, tensor.size_bytes
    exchange.request(Command.MEMORY_CHECKSUM, param=address, opt=size)
    what = f"the checksum of {size} bytes at {address:#x}"
    ack, _ = exchange.answer(Ack, exchange.timeouts.memory_s, what, State.DONE)
    return ack.param


def total_phases(total: Operator) -> tuple[int, int, int]:
    """Pre, core and post of the inference: pairs of words, the low one first."""
    words = total.counters
    if total.counter_type >> 16:
        counts = list(words)
    else:
        counts = [low | high << 32 for low, high in zip(words[::2], words[1::2], strict=False)]
    pre, core, post = (*counts, 0, 0, 0)[:3] if len(counts) >= 3 else (0, 0, 0)
    return pre, core, post


def input_bytes(network: NetworkDesc, inputs: Sequence[np.ndarray] | None) -> list[bytes]:
    if inputs is None:  # one element each, repeated by the board
        return [bytes(np.dtype(tensor.dtype).itemsize) for tensor in network.inputs]
    if len(inputs) != len(network.inputs):
        raise UsageError(f"{len(inputs)} inputs given, '{network.name}' has {len(network.inputs)}")
    return [_as_bytes(*pair) for pair in zip(network.inputs, inputs, strict=True)]


def _as_bytes(tensor: TensorDesc, array: np.ndarray) -> bytes:
    if array.dtype != np.dtype(tensor.dtype) or array.shape != tensor.shape:
        raise UsageError(
            f"input '{safe_terminal(tensor.name)}' is {array.dtype}{list(array.shape)}, "
            f"expected {tensor.dtype}{list(tensor.shape)}"
        )
    return array.astype(_little(tensor.dtype)).tobytes()


def _little(dtype: str) -> np.dtype:
    return np.dtype(dtype).newbyteorder("<")
