"""What every device can do: say what it is, run an inference, tell what was counted.

The simulated board, a board behind a serial line or a socket, and a recorded log are all this."""

from __future__ import annotations

from enum import Enum, IntFlag
from typing import Protocol

import numpy as np
from msgspec import Struct, field

from npuscope.errors import UsageError
from npuscope.program.model import EpochKind
from npuscope.structs import Apart
from npuscope.text import safe_terminal


class CounterOption(IntFlag):
    """What a per-epoch run counts; the bits of the vendor's firmware."""

    EPOCH_LEN = 1
    STRG_ACTIVE = 2
    STRG_HENV = 4
    BUSIF_RW_DATA = 8
    NPU_CACHE = 16
    STRG_I_ACTIVE = 32
    STRG_O_ACTIVE = 64


NOTHING = CounterOption(0)
_ENGINE_CHOICES = (
    CounterOption.STRG_I_ACTIVE,
    CounterOption.STRG_O_ACTIVE,
    CounterOption.STRG_ACTIVE,
    CounterOption.STRG_HENV,
)


def granted(options: CounterOption) -> CounterOption:
    """What a run with these options really counts: one choice for the counters, and the cache."""
    cache = options & CounterOption.NPU_CACHE
    for choice in _ENGINE_CHOICES:
        if choice in options:
            return choice | CounterOption.EPOCH_LEN | cache
    if CounterOption.BUSIF_RW_DATA in options:
        return CounterOption.BUSIF_RW_DATA | cache
    return options & CounterOption.EPOCH_LEN | cache


class BoardClocks(Struct, frozen=True):
    """Hertz."""

    mcu_hz: int
    noc_hz: int
    npu_hz: int
    nic_hz: int


class TensorDesc(Apart, frozen=True):
    """An input or output as the device describes it; `dtype` is numpy's name."""

    apart = ("memory",)

    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float = 0.0
    zero_point: int = 0
    address: int = 0
    # "activations", "user" or "mempool", where the device tells
    memory: str = ""

    @property
    def size_bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


NodeTensors = tuple[tuple[TensorDesc, np.ndarray], ...]


class NetworkDesc(Struct, frozen=True):
    """One of the networks on a device."""

    name: str
    inputs: tuple[TensorDesc, ...]
    outputs: tuple[TensorDesc, ...]
    nodes: int
    activations_bytes: int = 0
    params_bytes: int = 0
    macc: int = 0
    signature: str = ""
    compiled: str = ""
    runtime: str = ""
    tools: str = ""


_CLOCKS = ("mcu", "noc", "npu", "nic")


class DeviceInfo(Struct, frozen=True):
    """The device itself; `description` and `protocol` are what reports print."""

    description: str
    protocol: str
    device_id: int
    clocks: BoardClocks
    npu_cache: bool
    capabilities: tuple[str, ...]
    networks: tuple[NetworkDesc, ...]
    link_checked: bool = False  # tensors were checked beyond the wire's own framing
    core: tuple[str, ...] = ()  # what the processor has: fpu, core_icache, core_dcache

    @property
    def attributes(self) -> tuple[str, ...]:
        """Processor, caches and clocks, in the vendor's words."""
        hertz = (getattr(self.clocks, f"{name}_hz") for name in _CLOCKS)
        pairs = zip(_CLOCKS, hertz, strict=True)
        speeds = (f"{name}_freq={value / 1e6:g}MHz" for name, value in pairs)
        return (*self.core, f"npu_cache={int(self.npu_cache)}", *speeds)


class NodeCounters(Struct, frozen=True):
    """One executed epoch block of one inference; what a run did not count is None or empty.

    An `extra` node is internal DMA of the hybrid before it.
    """

    name: str
    number: int
    last: int
    kind: EpochKind
    extra: bool = False
    flags: int = 0
    mcu_cycles: tuple[int, int, int] = (0, 0, 0)  # pre, core, post
    npu_cycles: tuple[int, int, int] | None = None
    engines: dict[tuple[int, str], int] = field(default_factory=dict)  # (id, "i"|"o") -> active
    henv: dict[int, int] = field(default_factory=dict)
    # (bus interface, "r"|"w") -> bursts of 1, 2, 4 and 8 beats
    bursts: dict[tuple[int, str], tuple[int, int, int, int]] = field(default_factory=dict)
    cache_read: tuple[int, int, int, int] | None = None  # hit, miss, alloc-miss, evict
    cache_write: tuple[int, int, int, int] | None = None  # hit, miss, alloc-miss, through


class Inference(Struct, frozen=True):
    """One inference: its epochs in order (none when not asked for), its outputs."""

    nodes: tuple[NodeCounters, ...]
    outputs: tuple[np.ndarray, ...]
    mcu_cycles: tuple[int, int, int]
    duration_ms: float


class Request(Struct, frozen=True):
    """What to run: inputs in the network's order (None: the device's own constants)."""

    network: str
    inputs: tuple[np.ndarray, ...] | None = None
    per_layer: bool = True
    options: CounterOption = NOTHING


def random_values(
    generator: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...]
) -> np.ndarray:
    """Inputs to run with where none are given: all integers, floats from -1 to 1."""
    if dtype.kind == "f":
        return generator.uniform(-1, 1, shape).astype(dtype)
    limits = np.iinfo(dtype)
    return generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)


class Device(Protocol):
    @property
    def source(self) -> str:
        """Where its numbers come from: simulation, board or log."""

    def info(self) -> DeviceInfo: ...

    def run(self, request: Request) -> Inference: ...

    def close(self) -> None: ...


# Which device to use, as text and as a value.

BAUD = 921600


class DescriptorKind(Enum):
    SIMULATED = "simulated"
    EMULATED = "emulated"
    SERIAL = "serial"
    SOCKET = "socket"
    LOG = "log"


class Descriptor(Struct, frozen=True):
    """Which device to use; `path` is a serial port ("" = find one) or a recorded log."""

    kind: DescriptorKind
    path: str = ""
    baud: int = BAUD
    host: str = ""
    tcp_port: int = 0

    def __str__(self) -> str:
        match self.kind:
            case DescriptorKind.SERIAL:
                return ":".join(part for part in ("serial", self.path, str(self.baud)) if part)
            case DescriptorKind.SOCKET:
                host = f"[{self.host}]" if ":" in self.host else self.host
                return f"socket:{host}:{self.tcp_port}"
            case DescriptorKind.LOG:
                return f"log:{self.path}"
        return str(self.kind.value)


_GRAMMAR = "simulated | emulated | serial[:PORT][:BAUD] | socket:HOST:PORT | log:FILE"


def parse_descriptor(text: str) -> Descriptor:
    """`serial:/dev/ttyACM0:921600` and its like as a value."""
    kind, _, rest = text.partition(":")
    match kind:
        case "simulated" | "emulated" if not rest:
            return Descriptor(DescriptorKind(kind))
        case "simulated" | "emulated":
            raise misused(text, f"'{kind}' takes no parameters", f"write just '{kind}'")
        case "serial":
            tokens = [token for token in rest.split(":") if token]
            bauds = [int(token) for token in tokens if _is_number(token)]
            ports = [token for token in tokens if not _is_number(token)]
            if len(bauds) > 1 or len(ports) > 1:
                raise misused(
                    text, "expected at most a port and a baud rate", "serial[:PORT][:BAUD]"
                )
            if 0 in bauds:
                raise misused(text, "the baud rate is 0", f"leave it out for {BAUD}")
            return Descriptor(
                DescriptorKind.SERIAL, path="".join(ports), baud=bauds[0] if bauds else BAUD
            )
        case "socket":
            host, _, port = rest.rpartition(":")
            if not host or not _is_number(port) or not 0 < int(port) < 0x10000:
                raise misused(
                    text, "expected a host and a port from 1 to 65535", "socket:HOST:PORT"
                )
            return Descriptor(DescriptorKind.SOCKET, host=host.strip("[]"), tcp_port=int(port))
        case "log" if rest:
            return Descriptor(DescriptorKind.LOG, path=rest)
        case "log":
            raise misused(text, "no file given", "log:FILE, a saved profiler log")
    raise misused(text, "unknown device", _GRAMMAR)


def misused(text: str, what: str, hint: str) -> UsageError:
    return UsageError(f"{what}: '{safe_terminal(text)}'", where="--connect", hint=hint)


def _is_number(token: str) -> bool:
    return token.isascii() and token.isdigit()
