"""A device, its networks and what ran on it, as messages of the wire."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from npuscope.boards.device import DeviceInfo, Inference, NetworkDesc, NodeCounters, TensorDesc
from npuscope.boards.wire import messages as wire
from npuscope.boards.wire.framing import (
    COUNTERS_32,
    COUNTERS_64,
    MACC_NOT_GIVEN,
    N6_CACHE_WORD,
    N6_NPU_CACHE,
    NAME_BYTES,
    RTID,
    SHAPE_AS_IS,
    SHAPE_SHIFT,
    SYNC_VERSION,
    Capability,
    TensorFlag,
    format_word,
)
from npuscope.boards.wire.statistics import operator_id, operator_type

_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?", re.ASCII)
_WORD = 0xFFFFFFFF


def sync_message(*, memory: bool) -> wire.Sync:
    able = Capability.OBSERVER | (Capability.READ_WRITE if memory else Capability(0))
    return wire.Sync(SYNC_VERSION, able, RTID)


def sysinfo_message(info: DeviceInfo) -> wire.SysInfo:
    clocks = info.clocks
    cache = N6_CACHE_WORD | (N6_NPU_CACHE if info.npu_cache else 0)
    extra = (0, clocks.npu_hz, clocks.nic_hz, 0)
    return wire.SysInfo.for_all(info.device_id, clocks.mcu_hz, clocks.noc_hz, cache, extra)


def model_message(network: NetworkDesc, name: str) -> wire.ModelInfo:
    """A network under the name it has on this board."""
    return wire.ModelInfo(
        name=name,
        rtid=RTID | (0 if network.macc else MACC_NOT_GIVEN),
        signature=short(network.signature),
        compiled=short(network.compiled),
        runtime_version=version_word(network.runtime),
        tool_version=version_word(network.tools),
        macc=network.macc,
        n_nodes=network.nodes,
        n_inputs=len(network.inputs),
        inputs=tuple(tensor_message(desc, TensorFlag.INPUT) for desc in network.inputs),
        n_outputs=len(network.outputs),
        outputs=tuple(tensor_message(desc, TensorFlag.OUTPUT) for desc in network.outputs),
        n_activations=1,
        activations=(_total("activations", network.activations_bytes),),
        n_params=1,
        params=(_total("params", network.params_bytes),),
        runtime_desc=short(network.runtime),
    )


def tensor_message(desc: TensorDesc, flags: TensorFlag) -> wire.TensorDesc:
    dims = desc.shape or (1,)
    placed = TensorFlag.IN_MEMPOOL if desc.address else TensorFlag(0)
    return wire.TensorDesc(
        name=short(desc.name),
        format=format_word(desc.dtype),
        size=int(np.prod(dims, dtype=np.int64)),
        n_dims=SHAPE_AS_IS << SHAPE_SHIFT | len(dims),
        dims=dims,
        scale=desc.scale,
        zero_point=desc.zero_point,
        address=desc.address & _WORD,
        flags=flags | placed,
    )


def values_message(
    desc: TensorDesc, values: np.ndarray, flags: TensorFlag, *, with_data: bool
) -> wire.Tensor:
    """A tensor with its elements, or without them when they were not asked for."""
    if not with_data:
        return wire.Tensor(tensor_message(desc, flags | TensorFlag.NO_DATA))
    data = np.ascontiguousarray(values, np.dtype(desc.dtype).newbyteorder("<")).tobytes()
    body = wire.Data(size_bytes=len(data), address=desc.address & _WORD, data=data)
    return wire.Tensor(tensor_message(desc, flags), body)


def node_message(node: NodeCounters, current: int, mcu_hz: int, *, tensors: int) -> wire.Operator:
    """One epoch block with its three phases in MCU cycles."""
    return wire.Operator(
        type=operator_type(node, tensors=tensors),
        id=operator_id(node, current),
        duration_ms=1e3 * sum(node.mcu_cycles) / max(1, mcu_hz),
        counter_type=COUNTERS_32,
        counters=tuple(min(cycles, _WORD) for cycles in node.mcu_cycles),
    )


def inference_message(inference: Inference) -> wire.Operator:
    """The whole inference: pre, core, post, all of them, and the NPU's core cycles."""
    npu = sum(node.npu_cycles[1] for node in inference.nodes if node.npu_cycles is not None)
    counts = (*inference.mcu_cycles, sum(inference.mcu_cycles), npu)
    halves = tuple(half for n in counts for half in (n & _WORD, n >> 32 & _WORD))
    return wire.Operator(
        duration_ms=inference.duration_ms, counter_type=COUNTERS_64, counters=halves
    )


def version_word(text: str) -> int:
    """'1.1.1-14' as major << 24 | minor << 16 | patch << 8; 0 when there is no version."""
    match = _VERSION.search(text)
    if match is None:
        return 0
    major, minor, patch = (min(int(part or 0), 0xFF) for part in match.groups())
    return major << 24 | minor << 16 | patch << 8


def short(text: str) -> str:
    """Text cut to the firmware's buffers, never inside a character."""
    return text.encode("utf-8", "replace")[: NAME_BYTES - 1].decode("utf-8", "ignore")


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names short enough for the wire; one that was there already gets a number."""
    names_so_far: list[str] = []
    for name in names:
        base, cut, number = short(name) or "network", "", 1
        while base + cut in names_so_far:
            number += 1
            cut = f"_{number}"
            base = base[: NAME_BYTES - 1 - len(cut)]
        names_so_far.append(base + cut)
    return tuple(names_so_far)


def _total(name: str, size_bytes: int) -> wire.TensorDesc:
    """All activations or parameters as one stretch of bytes."""
    desc = TensorDesc(name, (size_bytes & _WORD,), "uint8")
    return tensor_message(desc, TensorFlag.MEMPOOL)
