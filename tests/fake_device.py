"""A device of two small networks whose every number is known beforehand."""

from __future__ import annotations

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
from npuscope.errors import DeviceError
from npuscope.program.model import EpochKind
from npuscope.structs import replace

MEMORY_START = 0x34200000
CLOCKS = BoardClocks(800_000_000, 400_000_000, 1_000_000_000, 900_000_000)

TINY = NetworkDesc(
    "tiny",
    (TensorDesc("image", (1, 4, 4, 3), "int8", 0.5, -3, MEMORY_START),),
    (TensorDesc("classes", (1, 3), "int8", 0.25, 7, MEMORY_START + 64),),
    nodes=3,
    activations_bytes=51,
    params_bytes=1000,
    macc=4321,
    signature="0123456789abcdef0123456789abcdef",
    compiled="Jan 01 2026",
    runtime="fake 1.2.3",
    tools="4.0.1",
)
PAIR = NetworkDesc(
    "pair",
    (TensorDesc("a", (1, 5), "float32"), TensorDesc("b", (1, 300), "uint8", 0.1, 128)),
    (TensorDesc("sum", (1, 1), "float32"), TensorDesc("back", (1, 300), "uint8", 0.1, 128)),
    nodes=1,
)

NODES = (
    NodeCounters("EpochBlock_1 -> 3", 1, 3, EpochKind.HW, flags=0x17, mcu_cycles=(100, 2000, 30)),
    NodeCounters("EpochBlock_4", 4, 4, EpochKind.HYBRID, flags=0x43, mcu_cycles=(10, 20, 900)),
    NodeCounters("EpochBlock_4 (1)", 4, -1, EpochKind.HW, True, flags=0x93, mcu_cycles=(5, 400, 6)),
    NodeCounters("EpochBlock_5", 5, 5, EpochKind.SW, flags=0x23, mcu_cycles=(44, 32, 5000)),
)


def counted(node: NodeCounters, options: CounterOption) -> NodeCounters:
    """The node with everything that the options ask for."""
    core = node.mcu_cycles[1]
    if options & ~(CounterOption.NPU_CACHE | CounterOption.BUSIF_RW_DATA):
        node = replace(node, npu_cycles=(9, core, 8))
    if CounterOption.STRG_I_ACTIVE in options:
        node = replace(node, engines={(0, "i"): core - 3, (7, "i"): 21})
    elif CounterOption.STRG_O_ACTIVE in options:
        node = replace(node, engines={(2, "o"): core - 5})
    elif CounterOption.STRG_ACTIVE in options:
        node = replace(node, engines={(0, "i"): core - 3, (2, "o"): core - 5})
    elif CounterOption.STRG_HENV in options:
        node = replace(node, henv={0: core - 1})
    elif CounterOption.BUSIF_RW_DATA in options:
        counts = {(p, w): (1, p, 2, 40 + p) for p in (0, 1) for w in ("w", "r")}
        node = replace(node, bursts=counts)
    if CounterOption.NPU_CACHE in options:
        node = replace(node, cache_read=(11, 12, 13, 14), cache_write=(21, 22, 23, 24))
    return node


class FakeDevice:
    """Adds up its inputs; `requests` is what it was asked for."""

    source = "board"

    def __init__(self, networks: tuple[NetworkDesc, ...] = (TINY, PAIR)) -> None:
        self.networks = networks
        self.requests: list[Request] = []
        self.bytes = bytearray(range(256)) * 12

    def info(self) -> DeviceInfo:
        return DeviceInfo(
            "fake", "fake", 0x486, CLOCKS, True, ("IO_ONLY", "PER_LAYER"), self.networks
        )

    def run(self, request: Request) -> Inference:
        self.requests.append(request)
        assert request.inputs is not None
        nodes = NODES if request.network == "tiny" else NODES[:1]
        nodes = tuple(counted(node, request.options) for node in nodes)
        totals = [sum(node.mcu_cycles[i] for node in nodes) for i in range(3)]
        kept = nodes if request.per_layer else ()
        duration_ms = sum(totals) * 1e3 / CLOCKS.mcu_hz
        return Inference(
            kept, self._outputs(request), (totals[0], totals[1], totals[2]), duration_ms
        )

    def _outputs(self, request: Request) -> tuple[np.ndarray, ...]:
        inputs = request.inputs or ()
        if request.network == "tiny":
            return (inputs[0].reshape(16, 3).sum(0, dtype=np.int8).reshape(1, 3),)
        return inputs[0].sum().reshape(1, 1), inputs[1][:, ::-1]

    def close(self) -> None: ...

    def read(self, address: int, size: int) -> bytes:
        return bytes(self.bytes[self._at(address, size)])

    def write(self, address: int, data: bytes) -> None:
        self.bytes[self._at(address, len(data))] = data

    def _at(self, address: int, size: int) -> slice:
        start = address - MEMORY_START
        if start < 0 or start + size > len(self.bytes):
            raise DeviceError("outside of the fake's memory")
        return slice(start, start + size)
