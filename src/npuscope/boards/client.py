"""One inference on a board behind a link: what it says of itself, inputs out, epochs and counters
in, outputs in."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from npuscope.boards.client_exchange import CONTROL_BYTES, Exchange
from npuscope.boards.device import (
    BoardClocks,
    NetworkDesc,
    NodeCounters,
    Request,
    TensorDesc,
)
from npuscope.boards.server_run import bsd_checksum
from npuscope.boards.wire import messages
from npuscope.boards.wire.framing import (
    COMPILERS,
    MACC_NOT_GIVEN,
    OPERATOR_FLAG_SHIFT,
    OPTION_SHIFT,
    STM32N6,
    Capability,
    OperatorFlag,
    RunParam,
    RuntimeId,
    State,
    TensorFlag,
    WireCommand,
    format_dtype,
    memory_of,
)
from npuscope.boards.wire.messages import (
    Ack,
    Data,
    ModelInfo,
    Operator,
    Tensor,
)
from npuscope.boards.wire.statistics import read_node
from npuscope.errors import DeviceError, UsageError
from npuscope.text import safe_terminal

# What a board says of itself and its networks, as values.

_BUILD_ID = re.compile(r"[0-9a-f]{6,40}")


def tensor_of(desc: messages.TensorDesc) -> TensorDesc:
    dtype = format_dtype(desc.format)
    place = (desc.address, memory_of(desc.flags))
    values = (desc.name, desc.dims, dtype, desc.scale, desc.zero_point, *place)
    tensor = TensorDesc(*values)
    # The vendor allows up to three elements of padding in `size`.
    if (
        desc.n_dims & 0xFFFFFF != len(desc.dims)
        or not 0 <= desc.size - tensor.size_bytes // np.dtype(dtype).itemsize <= 3
    ):
        raise DeviceError(f"a tensor of {desc.size} elements in the shape {list(desc.dims)}")
    return tensor


def network_of(model: ModelInfo) -> NetworkDesc:
    if (model.n_inputs, model.n_outputs) != (len(model.inputs), len(model.outputs)):
        raise DeviceError(
            f"network '{safe_terminal(model.name)}' is listed without some of its tensors"
        )
    version = _version(model.tool_version)
    tool = ""
    if version and model.rtid & 0xFF == RuntimeId.ATONN:
        # Virtual boards say so in their runtime's line; what they run was compiled by npuscope.
        ours = any(word in model.runtime_desc for word in ("npuscope", "simulated", "emulated"))
        tool = "npuscope " if ours else "ST Neural ART (LL_ATON api) v"
    return NetworkDesc(
        name=model.name,
        inputs=tuple(tensor_of(desc) for desc in model.inputs),
        outputs=tuple(tensor_of(desc) for desc in model.outputs),
        nodes=model.n_nodes,
        activations_bytes=sum(desc.size for desc in model.activations),
        params_bytes=sum(desc.size for desc in model.params),
        macc=0 if model.rtid & MACC_NOT_GIVEN else model.macc,
        signature=model.signature,
        compiled=model.compiled,
        runtime=_runtime_line(model),
        tools=f"{tool}{version}",
    )


def _runtime_line(model: ModelInfo) -> str:
    """The runtime, and behind a build id the library's version, as the vendor's client has it."""
    version = _version(model.runtime_version)
    name, _, build = model.runtime_desc.rpartition(" ")
    if not name or not _BUILD_ID.fullmatch(build):
        return model.runtime_desc or version
    built_with = COMPILERS.get(model.rtid >> 16 & 0xFF, "")
    return f"{name} (optimized SW lib v{version}-{build} {built_with}".rstrip() + ")"


def _version(word: int) -> str:
    return "" if not word else f"{word >> 24}.{word >> 16 & 0xFF}.{word >> 8 & 0xFF}"


def device_line(device_id: int, clocks: BoardClocks, networks: Sequence[NetworkDesc]) -> str:
    name = "STM32N6" if device_id == STM32N6 else f"device {device_id:#x}"
    # Nobody shall take a virtual board's numbers for measured ones.
    runtimes = " ".join(f"{network.runtime} {network.compiled}" for network in networks)
    virtual = "".join(f", {word}" for word in ("simulated", "emulated") if word in runtimes)
    return f"{name} @{clocks.mcu_hz / 1e6:g}/{clocks.noc_hz / 1e6:g}MHz{virtual}"


def capability_names(word: int) -> tuple[str, ...]:
    names_by_bit = {
        Capability.OBSERVER: ("PER_LAYER", "PER_LAYER_WITH_DATA"),
        Capability.RELOC: ("RELOC",),
        Capability.READ_WRITE: ("MEMORY_RW",),
        Capability.SELF_TEST: ("SELF_TEST",),
    }
    groups = (names for bit, names in names_by_bit.items() if word & bit)
    return ("IO_ONLY", *(name for names in groups for name in names))


# One inference on a board: inputs out, epochs and counters in, outputs in.

_MOST_NODES = 1 << 16
_MOST_TENSORS = 256


def start_run(exchange: Exchange, network: NetworkDesc, request: Request) -> None:
    mode = RunParam.IO_ONLY
    mode |= RunParam.PER_LAYER if request.per_layer else RunParam(0)
    mode |= RunParam.CONST_VALUE if request.inputs is None else RunParam(0)
    # Bit 0 tells the board that this is the first sample of a batch: each of ours is.
    opt = request.options << OPTION_SHIFT | 1
    exchange.request(WireCommand.NETWORK_RUN, param=mode, name=network.name, opt=opt)
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
        raise exchange.failed(f"{what} came out of order")
    data = tensor.data.data
    padded_bytes = tensor.desc.size * np.dtype(expected.dtype).itemsize
    if len(data) != padded_bytes:
        raise exchange.failed(f"{what} has {len(data)} bytes, expected {padded_bytes}")
    values = np.frombuffer(data[: expected.size_bytes], _little(expected.dtype))
    return values.reshape(expected.shape)


def compare_memory(exchange: Exchange, network: NetworkDesc, outputs: Sequence[np.ndarray]) -> None:
    for tensor, array in zip(network.outputs, outputs, strict=True):
        if memory_checksum(exchange, tensor) != bsd_checksum(array.tobytes()):
            raise exchange.failed(f"output '{safe_terminal(tensor.name)}' was damaged in transfer")
    exchange.end()


def memory_checksum(exchange: Exchange, tensor: TensorDesc) -> int:
    address, size = tensor.address, tensor.size_bytes
    exchange.request(WireCommand.MEMORY_CHECKSUM, param=address, opt=size)
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
