"""What a board says of itself and its networks, as values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.board.device import (
    Clocks,
    NetworkDesc,
    TensorDesc,
)
from npuscope.board.wire import messages
from npuscope.board.wire.constants import (
    MACC_NOT_GIVEN,
    STM32N6,
    Capability,
    format_dtype,
)
from npuscope.board.wire.messages import (
    ModelInfo,
)
from npuscope.errors import DeviceError
from npuscope.text import safe_terminal


def tensor_of(desc: messages.TensorDesc) -> TensorDesc:
    dtype = format_dtype(desc.format)
    values = (desc.name, desc.dims, dtype, desc.scale, desc.zero_point, desc.address)
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
        raise DeviceError(f"network '{safe_terminal(model.name)}' lacks some of its tensors")
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
        runtime=model.runtime_desc or _version(model.runtime_version),
        tools=_version(model.tool_version),
    )


def _version(word: int) -> str:
    return "" if not word else f"{word >> 24}.{word >> 16 & 0xFF}.{word >> 8 & 0xFF}"


def device_line(device_id: int, clocks: Clocks, networks: Sequence[NetworkDesc]) -> str:
    name = "STM32N6" if device_id == STM32N6 else f"device {device_id:#x}"
    # Nobody shall take a virtual board's numbers for measured ones.
    told = " ".join(f"{network.runtime} {network.compiled}" for network in networks)
    virtual = "".join(f", {word}" for word in ("simulated", "emulated") if word in told)
    return f"{name} @{clocks.mcu_hz / 1e6:g}/{clocks.noc_hz / 1e6:g}MHz{virtual}"


def capability_names(word: int) -> tuple[str, ...]:
    known = {
        Capability.OBSERVER: ("PER_LAYER", "PER_LAYER_WITH_DATA"),
        Capability.RELOC: ("RELOC",),
        Capability.READ_WRITE: ("MEMORY_RW",),
        Capability.SELF_TEST: ("SELF_TEST",),
    }
    found = (names for bit, names in known.items() if word & bit)
    return ("IO_ONLY", *(name for names in found for name in names))
