"""Counters of a node as the text lines that carry them, and back.

The wire has no fields for what the NPU counts: it travels as log lines `s:node:<name>:<values>`
before the operator they belong to, and the clocks as `s:config:<name>:<value>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from npuscope.boards.device import NOTHING, BoardClocks, CounterOption, NodeCounters, granted
from npuscope.boards.wire.framing import OPERATOR_FLAG_SHIFT, BlockType, OperatorFlag
from npuscope.boards.wire.messages import Operator
from npuscope.program.model import EpochKind
from npuscope.structs import replace

CONFIG, NODE = "s:config:", "s:node:"
CONFIG_VERSION = "1.0"
LEVEL = 1
BEAT_BYTES = 8
BEATS = (1, 2, 4, 8)
_BLOB_FLAG = 4  # the runtime's flag of a block that the epoch controller starts
_LONGEST_NUMBER = 18

# The way that is named where engines were counted and none of them moved anything.
_IDLE_WAYS = {
    CounterOption.STRG_I_ACTIVE: "i",
    CounterOption.STRG_O_ACTIVE: "o",
    CounterOption.STRG_ACTIVE: "i",
}
_NO_ENGINE = -1

# EC is a blob of the epoch controller, EXTRA is DMA of the hybrid before it.
BLOCK_KINDS = {
    BlockType.HW: EpochKind.HW,
    BlockType.EXTRA: EpochKind.HW,
    BlockType.SW: EpochKind.SW,
    BlockType.HYBRID: EpochKind.HYBRID,
    BlockType.EC: EpochKind.HW,
}


class NodePlace(Struct, frozen=True):
    """Where a node stands: its index, and the last epoch number that was not negative."""

    index: int
    current: int


def block_type(node: NodeCounters) -> BlockType:
    """Bits 3..0 of the operator's type."""
    if node.extra:
        return BlockType.EXTRA
    if node.kind is EpochKind.SW:
        return BlockType.SW
    if node.kind is EpochKind.HYBRID:
        return BlockType.HYBRID
    return BlockType.EC if node.flags & _BLOB_FLAG else BlockType.HW


def operator_type(node: NodeCounters, *, tensors: int) -> int:
    """The operator's type word; the sub-number of an extra block is minus its number."""
    flags = OperatorFlag.INTERNAL | (OperatorFlag(0) if tensors else OperatorFlag.WITHOUT_TENSOR)
    sub = (-node.last & 0x3F) << 4 if node.extra else 0
    return flags << OPERATOR_FLAG_SHIFT | sub | block_type(node)


def operator_id(node: NodeCounters, current: int) -> int:
    """First epoch in the low half, last in the high half; an extra block's last is negative."""
    first = current if node.extra else node.number
    return (node.last & 0xFFFF) << 16 | first & 0xFFFF


def config_lines(device_id: int, clocks: BoardClocks, *, npu_cache: bool) -> list[str]:
    """What a board says of itself before each network's description."""
    values = {
        "version": CONFIG_VERSION,
        "dev_id": f"{device_id:#x}",
        "mcu_freq": clocks.mcu_hz,
        "noc_freq": clocks.noc_hz,
        "npu_freq": clocks.npu_hz,
        "nic_freq": clocks.nic_hz,
        "npu_cache": int(npu_cache),
    }
    return [f"{CONFIG}{name}:{value}" for name, value in values.items()]


def read_config(lines: Iterable[str]) -> dict[str, str]:
    """Names and values; other lines are passed over."""
    pairs = (line[len(CONFIG) :].partition(":") for line in lines if line.startswith(CONFIG))
    return {name: value for name, _, value in pairs}


def config_clocks(config: dict[str, str]) -> BoardClocks | None:
    """The four clocks, if all are there."""
    hertz = [number(config.get(f"{name}_freq", "")) for name in ("mcu", "noc", "npu", "nic")]
    mcu, noc, npu, nic = hertz
    if mcu is None or noc is None or npu is None or nic is None:
        return None
    return BoardClocks(mcu, noc, npu, nic)


def node_lines(
    node: NodeCounters, place: NodePlace, options: CounterOption = NOTHING, *, tensors: int = 0
) -> list[str]:
    """All lines of a node in a run with these options, in the order of the vendor's firmware."""
    return [NODE + line for line in _node_lines(node, place, granted(options), tensors)]


def _node_lines(
    node: NodeCounters, place: NodePlace, options: CounterOption, tensors: int
) -> Iterator[str]:
    number = node.last if node.extra else node.number
    where = f"{place.index}:{place.current}:{number}:{node.last}"
    kind = operator_type(node, tensors=tensors)
    yield f"evt_pre_start:{where}:{node.flags:08X}:{kind:08X}:{block_type(node).name}"
    yield f"evt_post_end:{where}:{tensors}"
    yield f"mcu_cycles:{_joined(node.mcu_cycles)}"
    if node.npu_cycles is not None:
        yield f"npu_cycles:{_joined(node.npu_cycles)}"
    for (engine, way), active in sorted(node.engines.items(), key=lambda item: item[0][::-1]):
        yield f"streng_active:{way}:{engine}:{active}:{_core(node) - active}"
    yield from _busiest_lines(node, options)
    for engine, cycles in sorted(node.henv.items()):
        yield f"streng_henv:i:{engine}:{cycles}:{_core(node) - cycles}"
    yield from _burst_lines(node)
    for way, counts in (("r", node.cache_read), ("w", node.cache_write)):
        if counts is not None:
            yield f"npu_cache:{way}:{_joined(counts)}"


def _busiest_lines(node: NodeCounters, options: CounterOption) -> Iterator[str]:
    """One for each way; of equals the first. Where the NPU did nothing, one that says so."""
    for way in sorted({way for _, way in node.engines}):
        active = {e: cycles for (e, which), cycles in sorted(node.engines.items()) if which == way}
        engine = max(active, key=active.__getitem__)
        yield f"streng_active:max:{way}:{engine}:{active[engine]}"
    if not node.engines:
        ways = [way for choice, way in _IDLE_WAYS.items() if choice in options]
        yield from (f"streng_active:max:{way}:{_NO_ENGINE}:0" for way in ways)


def _core(node: NodeCounters) -> int:
    return node.npu_cycles[1] if node.npu_cycles is not None else 0


def _burst_lines(node: NodeCounters) -> Iterator[str]:
    if not node.bursts:
        return
    none = (0, 0, 0, 0)
    for port in (0, 1):
        for way in ("w", "r"):
            yield f"port{port}:burst:{way}:{_joined(node.bursts.get((port, way), none))}"
    read, stored = (_bytes(node, way) for way in ("r", "w"))
    yield f"portx:burst:rw:{read}:{stored}:{read + stored}:0"


def _bytes(node: NodeCounters, way: str) -> int:
    counts = [bursts for (_, which), bursts in node.bursts.items() if which == way]
    return BEAT_BYTES * sum(
        n * beats for bursts in counts for n, beats in zip(bursts, BEATS, strict=True)
    )


def _joined(values: Iterable[int]) -> str:
    return ":".join(str(value) for value in values)


def read_node(operator: Operator, lines: Iterable[str]) -> NodeCounters:
    """A node from its operator message and the lines that came before it."""
    number_of_kind = operator.type & 0xF
    kind = BlockType(number_of_kind) if number_of_kind in BLOCK_KINDS else BlockType.HW
    first, last = operator.id & 0xFFFF, operator.id >> 16
    last -= 1 << 16 if last & 0x8000 else 0
    counters = operator.counters[:3]
    cycles = (counters[0], counters[1], counters[2]) if len(counters) == 3 else (0, 0, 0)
    name = operator.name or block_name(first, last)
    extra = kind is BlockType.EXTRA
    node = NodeCounters(name, first, last, BLOCK_KINDS[kind], extra, mcu_cycles=cycles)
    for line in lines:
        if line.startswith(NODE):
            node = _with_line(node, line[len(NODE) :].split(":"))
    return node


def block_name(first: int, last: int) -> str:
    if last < 0:
        return f"EpochBlock_{first} ({-last})"
    return f"EpochBlock_{first}" if first == last else f"EpochBlock_{first} -> {last}"


def _with_line(node: NodeCounters, words: list[str]) -> NodeCounters:
    """The node with what one line tells; a line of unknown form changes nothing."""
    match words:
        case ["evt_pre_start", _, _, _, _, flags, _, _]:
            is_hex = (
                len(flags) <= 8
                and flags != ""
                and all(c in "0123456789abcdefABCDEF" for c in flags)
            )
            return replace(node, flags=int(flags, 16) if is_hex else node.flags)
        case ["mcu_cycles", *rest]:
            return replace(node, mcu_cycles=_three(rest) or node.mcu_cycles)
        case ["npu_cycles", *rest]:
            return replace(node, npu_cycles=_three(rest) or node.npu_cycles)
        case ["streng_active", "i" | "o" as way, engine, active, _]:
            return _with_engine(node, way, engine, active)
        case ["streng_henv", "i", engine, cycles, _]:
            return _with_henv(node, engine, cycles)
        case ["port0" | "port1" as port, "burst", "r" | "w" as way, *rest]:
            counts = _four(rest)
            if counts is None:
                return node
            return replace(node, bursts={**node.bursts, (int(port[-1]), way): counts})
        case ["npu_cache", "r", *rest]:
            return replace(node, cache_read=_four(rest) or node.cache_read)
        case ["npu_cache", "w", *rest]:
            return replace(node, cache_write=_four(rest) or node.cache_write)
    return node


def _with_engine(node: NodeCounters, way: str, engine: str, active: str) -> NodeCounters:
    which, cycles = number(engine), number(active)
    if which is None or cycles is None:
        return node
    return replace(node, engines={**node.engines, (which, way): cycles})


def _with_henv(node: NodeCounters, engine: str, text: str) -> NodeCounters:
    which, cycles = number(engine), number(text)
    if which is None or cycles is None:
        return node
    return replace(node, henv={**node.henv, which: cycles})


def _three(words: list[str]) -> tuple[int, int, int] | None:
    values = [number(word) for word in words]
    numbers = [value for value in values if value is not None]
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == len(values) == 3 else None


def _four(words: list[str]) -> tuple[int, int, int, int] | None:
    values = [number(word) for word in words]
    numbers = [value for value in values if value is not None]
    return (
        (numbers[0], numbers[1], numbers[2], numbers[3])
        if len(numbers) == len(values) == 4
        else None
    )


def number(text: str) -> int | None:
    """A count; anything else, and anything too long to be one, is None."""
    plain = text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER
    return int(text) if plain else None
