"""The inferences of a profiler log: which network ran, what was asked for, what was counted.

The tool's own lines say which network ran, with which options. A bare capture of the board's
lines has neither: there a node whose index does not grow begins an inference, and the options
follow from what was counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from math import prod
from pathlib import Path

from msgspec import Struct

from npuscope.boards.device import (
    NOTHING,
    BoardClocks,
    CounterOption,
    DeviceInfo,
    Inference,
    NetworkDesc,
    NodeCounters,
    Request,
    TensorDesc,
)
from npuscope.boards.wire.framing import CORE_BITS
from npuscope.boards.wire.statistics import BLOCK_KINDS, block_name
from npuscope.errors import DeviceError, FileError
from npuscope.profiling.printed import compiler_texts, printed_nodes, printed_notes, printed_totals
from npuscope.profiling.profiler_events import InferenceLine, LogEvent, NodeRun
from npuscope.profiling.profiler_log import ProfilerLog, parse_profiler_log, read_profiler_log
from npuscope.profiling.validate_report import MeasuredEpoch
from npuscope.program.generate_report.lines import KeyValue, number, read_lines, whole
from npuscope.program.network_c.layout import Flag
from npuscope.structs import replace
from npuscope.text import safe_terminal

Quad = tuple[int, int, int, int]

_KINDS = {block.name: kind for block, kind in BLOCK_KINDS.items()}
_BOTH_WAYS = CounterOption.STRG_I_ACTIVE | CounterOption.STRG_O_ACTIVE
_REQUEST = "Requested RUN mode"
_OPTION = re.compile(r"option=0x([0-9a-fA-F]{1,8})\)")


class Recorded(Struct, frozen=True):
    """One inference of the log and what had been asked for."""

    network: str
    per_layer: bool
    options: CounterOption
    inference: Inference


def recorded_inferences(log: ProfilerLog, clocks: BoardClocks, where: str) -> Iterator[Recorded]:
    # Counters of a node that was not understood would be taken for the node before it, and an
    # engine that was not would look idle.
    odd = [event for event in log.other_events if _is_lost(event)]
    if odd:
        line = safe_terminal(":".join((odd[0].key, *odd[0].values)))
        raise FileError(
            f"{len(odd)} lines of the board hold values that cannot be read, first: {line}",
            where=where,
            hint="expected whole numbers, in a node's first line flags and type in hexadecimal",
        )
    ends = [line for line in log.inferences if line.type == 0]
    if not ends:
        name = log.networks[0] if len(log.networks) == 1 else ""
        starts = [i for i, n in enumerate(log.nodes) if i == 0 or n.index <= log.nodes[i - 1].index]
        groups = [
            log.nodes[a:b] for a, b in zip(starts, [*starts[1:], len(log.nodes)], strict=False)
        ]
        # A capture may stop in the middle of an inference.
        cut = len(groups) > 1 and (
            len(groups[-1]) < len(groups[0]) or not groups[-1][-1].mcu_cycles
        )
        for group in groups[:-1] if cut else groups:
            yield Recorded(name, True, _counted(group), _inference(group, None, clocks, where))
        return
    # What the tool asked for; the low byte of its option is not the firmware's
    values = (e.value for e in log.results.report.entries if e.key.endswith(_REQUEST))
    hits = (_OPTION.search(value) for value in values)
    requests = [CounterOption(int(hit[1], 16) >> 8) for hit in hits if hit]
    for end, group, request in zip_longest(ends, _groups(log), requests[: len(ends)]):
        options = _options(group, request)
        yield Recorded(end.name, bool(group), options, _inference(group, end, clocks, where))


def _is_lost(event: LogEvent) -> bool:
    """Without the busiest engine, which is -1 where none ran, and a line cut off at the end."""
    engine = event.key.startswith("streng_") and event.values[0] != "max"
    return event.key == "evt_pre_start" or (engine and len(event.values) == 4)


def _options(nodes: tuple[NodeRun, ...], request: CounterOption | None) -> CounterOption:
    """As asked, unless something else was counted: after a failed run requests are one too many.

    A network of software epochs shows no engine, so that what was asked for says more.
    """
    counters = _counted(nodes)
    fits = (
        request is not None
        and counters in request | CounterOption.EPOCH_LEN
        and bool(nodes) >= bool(request)
    )
    return request if request is not None and fits else counters


def _groups(log: ProfilerLog) -> Iterator[tuple[NodeRun, ...]]:
    """Nodes of each finished inference: the tool prints one line per node, then one for all."""
    at, size = 0, 0
    for line in log.inferences:
        if line.type:
            size += 1
            continue
        yield log.nodes[at : at + size]
        at, size = at + size, 0


def _counted(nodes: tuple[NodeRun, ...]) -> CounterOption:
    """The options that make a board send these counters."""
    options = NOTHING
    for node in nodes:
        # A block without engines names -1 as the busiest, in whatever direction.
        busiest = {row.direction for row in node.busiest if row.id >= 0}
        ways = busiest | {row.direction for row in node.engines}
        henv = any(row.counter == "streng_henv" for row in node.engines)
        options |= CounterOption.EPOCH_LEN if node.npu_cycles else NOTHING
        options |= CounterOption.NPU_CACHE if node.cache_read else NOTHING
        options |= CounterOption.BUSIF_RW_DATA if node.bursts else NOTHING
        options |= CounterOption.STRG_HENV if henv else NOTHING
        options |= CounterOption.STRG_I_ACTIVE if "i" in ways and not henv else NOTHING
        options |= CounterOption.STRG_O_ACTIVE if "o" in ways else NOTHING
    return options & ~_BOTH_WAYS | CounterOption.STRG_ACTIVE if _BOTH_WAYS in options else options


def _inference(
    group: tuple[NodeRun, ...], end: InferenceLine | None, clocks: BoardClocks, where: str
) -> Inference:
    nodes = tuple(_node(run, where) for run in group)
    pre, core, post = (sum(node.mcu_cycles[i] for node in nodes) for i in range(3))
    # The fourth counter of a network is the whole inference, its loop included.
    total = end.counters[3] if end and len(end.counters) > 3 else pre + core + post
    return Inference(nodes, (), (pre, core, post), total * 1000 / clocks.mcu_hz)


def _node(run: NodeRun, where: str) -> NodeCounters:
    # A block inside a hybrid has a negative number; `current` is that of the hybrid.
    first = run.first if run.first >= 0 else run.current
    name = block_name(first, run.last)
    place = f"{where}: {name}"
    if run.kind not in _KINDS:
        raise FileError(f"unknown kind of node '{safe_terminal(run.kind)}'", where=place)
    return NodeCounters(
        name=name,
        number=first,
        last=run.last,
        kind=_KINDS[run.kind],
        extra=run.kind == "EXTRA",
        flags=run.flags,
        mcu_cycles=_phases(run.mcu_cycles, place),
        npu_cycles=_phases(run.npu_cycles, place) if run.npu_cycles else None,
        engines={(e.id, e.direction): e.cycles for e in run.engines if e.counter[7:] == "active"},
        henv={e.id: e.cycles for e in run.engines if e.counter[7:] == "henv"},
        bursts=dict(_bursts(run)),
        cache_read=_quad(run.cache_read, place),
        cache_write=_quad(run.cache_write, place),
    )


def _phases(values: tuple[int, ...], place: str) -> tuple[int, int, int]:
    if len(values) != 3:
        raise FileError(f"expected cycles of pre, core, post, found {len(values)}", where=place)
    return values[0], values[1], values[2]


def _bursts(run: NodeRun) -> Iterator[tuple[tuple[int, str], Quad]]:
    """The two ports; `portx` only adds them up."""
    for row in run.bursts:
        counts = _quad(row.counts, row.port)
        if row.port in ("port0", "port1") and counts:
            yield (int(row.port[4:]), row.direction), counts


def _quad(values: tuple[int, ...], place: str) -> Quad | None:
    if len(values) not in (0, 4):
        raise FileError(f"expected four counts, found {len(values)}", where=place)
    return (values[0], values[1], values[2], values[3]) if values else None


# --- A recorded log as a device: it returns what a board once answered ---

_BANNER = re.compile(r"NPU Utility - .{1,100}\(version [\w.]{1,20}\)", re.ASCII)
_SESSION = re.compile(r"session with `([^`]{1,200})` descriptor", re.ASCII)
_DEVICE_ID = re.compile(r" - (0x[0-9a-fA-F]{1,8}) - ")
_TENSOR = re.compile(
    r"([IO])\[\d{1,4}/\d{1,4}\] '(.{1,200})' *: +(\w{1,20})\[([\d,]{1,100})\], \d{1,18} Bytes"
    r"(?:, QLinear\(([\d.e+-]{1,30}),(-?\d{1,9}),\w{1,20}\))?(?:, (\w{1,20}))?",
    re.ASCII,
)

_INTEGERS = tuple(f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u"))
_TYPES = (*_INTEGERS, "float16", "float32", "float64", "bool")
_SHORT = {"f": "float", "i": "int", "s": "int", "u": "uint"}  # as reports abbreviate them
_MOST_AXES, _MOST_ELEMENTS = 16, 1 << 32


def _table_nodes(rows: tuple[MeasuredEpoch, ...]) -> tuple[NodeRun, ...]:
    """The mean of a validation's samples as one inference; it counts the MCU's cycles only."""
    return tuple(
        NodeRun(
            index,
            row.first,
            row.first,
            row.last,
            int(Flag.blob) if row.controller else 0,
            0,
            row.kind.value,
            mcu_cycles=row.cycles[:3],
        )
        for index, row in enumerate(rows)
    )


class LogDevice:
    """Inferences come in the order of the log; it has no tensors, so outputs are empty.

    `said` is what a printed report says of its epochs for the compiler.
    """

    source = "log"

    def __init__(
        self, log: ProfilerLog, where: str = "log", clocks: BoardClocks | None = None
    ) -> None:
        self.where = where
        self.said = {} if log.nodes else compiler_texts(log)
        is_printed = bool(log.epochs) and not log.nodes
        stated = _first_values(log.results.report.entries).get("n_nodes", "")
        self.totals = printed_totals(log) if is_printed else None
        self.notes = (*printed_notes(log, whole(stated) or 0),) if is_printed else ()
        # The tool's name, when it asked and how it reached the board; "" where it does not say
        texts = [message.value for message in log.messages]
        banner = next(filter(_BANNER.fullmatch, texts), "")
        session = next(filter(None, map(_SESSION.search, texts)), None)
        created = _first_values(log.results.report.entries).get("Creating date", "")
        self.banner, self.created, self.session = banner, created, session[1] if session else ""
        if not log.nodes:
            log = replace(log, nodes=printed_nodes(log) or _table_nodes(log.results.epochs))
        self.clocks = clocks or recorded_clocks(log, where)
        self.recorded = tuple(recorded_inferences(log, self.clocks, where))
        try:
            self._info = _info(log, self.clocks, self.recorded)
        except FileError as error:
            error.where = self.where
            raise
        self._given: Counter[tuple[str, bool, CounterOption]] = Counter()

    @classmethod
    def open(cls, path: str | Path) -> LogDevice:
        """A profiler's log or the report it printed, or a validation's table of times per node."""
        log = parse_profiler_log(read_lines(path))
        if log.nodes or not log.results.epochs:
            log = read_profiler_log(path)  # refuses what is none of these
        return cls(log, str(path))

    def info(self) -> DeviceInfo:
        return self._info

    def run(self, request: Request) -> Inference:
        inferences = self.inferences(request.options, request.network, request.per_layer)
        key = (request.network, request.per_layer, request.options)
        if self._given[key] >= len(inferences):
            raise self._exhausted(request, len(inferences))
        self._given[key] += 1
        return inferences[self._given[key] - 1]

    def inferences(
        self, options: CounterOption, network: str = "", per_layer: bool = True
    ) -> tuple[Inference, ...]:
        """All of one pass. No name means any network; a bare capture knows no names."""
        return tuple(
            row.inference
            for row in self.recorded
            if (row.options, row.per_layer) == (options, per_layer)
            and (row.network == network or not network or not row.network)
        )

    def close(self) -> None:
        """Back to the first inference: nothing is held open."""
        self._given.clear()

    def _exhausted(self, request: Request, count: int) -> DeviceError:
        what = f"options {int(request.options):#x} for '{safe_terminal(request.network)}'"
        if count:
            return DeviceError(
                f"no more inferences with {what}: the log has {count}",
                where=self.where,
                hint="ask for fewer, or record a longer run (npu_profiler --batch)",
            )
        passes = Counter(f"{int(row.options):#x}" for row in self.recorded if row.per_layer)
        passes_text = ", ".join(f"{option} ({n})" for option, n in passes.items()) or "none"
        return DeviceError(
            f"the log has no inference with {what}",
            where=self.where,
            hint=f"per-layer passes in it, with their inferences: {passes_text}",
        )


def recorded_clocks(log: ProfilerLog, where: str = "log") -> BoardClocks:
    """From the board's configuration lines, else from the tool's header."""
    names = ("mcu", "noc", "npu", "nic")
    header = log.results.clocks
    stated = {name: getattr(header, f"{name}_mhz") for name in names}
    hertz = {name: log.clock_hz(name) or round(stated[name] * 1e6) for name in names}
    missing = [f"{name}_freq" for name in names if not hertz[name]]
    if missing:
        raise FileError(
            f"the log lacks {', '.join(missing)}",
            where=where,
            hint="keep the lines s:config:... of the board in the log, or give the clocks",
        )
    return BoardClocks(*(hertz[name] for name in names))


def _info(log: ProfilerLog, clocks: BoardClocks, recorded: tuple[Recorded, ...]) -> DeviceInfo:
    config, header = dict(log.config), _first_values(log.results.report.entries)
    described = _DEVICE_ID.search(header.get("device.desc", ""))
    code = config.get("dev_id", described[1] if described else "").removeprefix("0x")
    able = header.get("capabilities", "").split(",")
    has = header.get("device.attrs", "").split(",")
    return DeviceInfo(
        description=header.get("device.desc", "") or "recorded board",
        protocol=header.get("protocol", "") or "profiler log",
        device_id=int(code, 16) if re.fullmatch(r"[0-9a-fA-F]{1,8}", code) else 0,
        clocks=clocks,
        npu_cache=config.get("npu_cache", "") == "1" or "npu_cache=1" in has,
        capabilities=tuple(word.strip() for word in able if word.strip()),
        networks=tuple(_networks(log, recorded)),
        core=tuple(word for word in has if word in CORE_BITS),
    )


def _first_values(entries: Iterable[KeyValue]) -> dict[str, str]:
    values: dict[str, str] = {}
    for entry in entries:
        values.setdefault(entry.key, entry.value)
    return values


def _networks(log: ProfilerLog, recorded: tuple[Recorded, ...]) -> Iterator[NetworkDesc]:
    """One summary a network, in the order in which they ran; none in a bare capture."""
    # A tensor's name with a colon in it keeps its line from being `key : value`.
    lines = sorted((*log.results.report.entries, *log.messages), key=lambda entry: entry.line)
    starts = [i for i, line in enumerate(lines) if _text(line).startswith("I[1/")]
    nodes = {row.network: len(row.inference.nodes) for row in recorded if row.per_layer}
    names = dict.fromkeys(row.network for row in recorded)
    parts = [lines[a:b] for a, b in zip(starts, [*starts[1:], None], strict=False)]
    for name, part in zip_longest(names, parts[: len(names)], fillvalue=()):
        yield _network(str(name), nodes.get(str(name), 0), list(part))


def _network(name: str, nodes: int, lines: list[KeyValue]) -> NetworkDesc:
    values = _first_values(lines)
    tensors = [hit for line in lines if (hit := _TENSOR.match(_text(line)))]
    return NetworkDesc(
        name=name,
        inputs=tuple(_tensor(hit) for hit in tensors if hit[1] == "I"),
        outputs=tuple(_tensor(hit) for hit in tensors if hit[1] == "O"),
        nodes=whole(values.get("n_nodes", "")) or nodes,
        activations_bytes=whole(values.get("activations", "")) or 0,
        compiled=values.get("compile_datetime", ""),
        runtime=values.get("runtime lib", ""),
        tools=values.get("tools", ""),
    )


def _text(line: KeyValue) -> str:
    return f"{line.key} : {line.value}" if line.key else line.value


def _tensor(hit: re.Match[str]) -> TensorDesc:
    shape = tuple(int(dim) for dim in hit[4].split(",") if dim)
    kind = re.sub(r"^([fisu])(\d+)$", lambda part: _SHORT[part[1]] + part[2], hit[3])
    if kind not in _TYPES or len(shape) > _MOST_AXES or prod(shape) > _MOST_ELEMENTS:
        sizes = ",".join(map(str, shape))
        raise FileError(
            f"tensor '{safe_terminal(hit[2])}' has an impossible type or size: {hit[3]}[{sizes}]",
            hint=f"element types: {', '.join(_TYPES)}",
        )
    values = (number(hit[5] or "") or 0.0, int(hit[6] or 0))
    return TensorDesc(hit[2], shape, kind, *values, memory=hit[7] or "")
