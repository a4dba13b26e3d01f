"""Nodes of an inference, put together from the lines that a board sends about each.

A node begins with `evt_pre_start`; what follows belongs to it. Which counters come depends on
the options of that inference: the board has 16 counters, so a full picture takes several."""

from __future__ import annotations

import re

from msgspec import Struct, field

from npuscope.program.generate_report.lines import LineRule, ReportDraft, number, whole

# --- Lines of a profiler log: one rule for each kind of line ---

_EVENT = re.compile(r"\s*s:([a-z_]{1,20}):([A-Za-z0-9_]{1,40}):(\S*)\s*$")
_TITLE = re.compile(
    r"\s*(EpochBlock_\d{1,9}) \(c_idx=(\d{1,9}), num=(\d{1,9}):(\d{1,9}), c_type=(\w{1,12}),"
    r" extra=(\d{1,9})\)\s*$",
    re.ASCII,
)
_BUS = re.compile(r"\s*busif (\d{1,4}|\(total\)) +: r=(\d{1,18}) +w=(\d{1,18})", re.ASCII)
_BURSTS = re.compile(r"([rw])burst\[([\d,]{1,40})\]x(\d{1,4})=\(([\d,]{1,90})\)", re.ASCII)
_RATE = re.compile(r"-> ([\d.]{1,20}) ([KMG]?B/s)", re.ASCII)
_ENGINE = re.compile(
    r"\s*active +: STRENG\.(\d{1,4})\.([io]): busif=(\d{1,4}), (\d{1,18}) cycles, (.{1,80}), "
    r"(\d{1,6})%\s*$",
    re.ASCII,
)
_SUMMARY = re.compile(r"\s*Summary '([^']{1,200})' - \[")
_CACHE = re.compile(r"\s*NPU cache cnts +: R\[([^\[\]]{1,200})\], W\[([^\[\]]{1,200})\]\s*$")
_INFERENCE = re.compile(
    r'\s*name="([^"]{0,200})" counters="([^"]{0,40})"\[([\d, ]{1,200})\] dur=([\d.]{1,20})ms'
    r" id=(\d{1,9}\.\d{1,9}) type=(0x[0-9a-f]{1,16})/(.{0,60})$",
    re.ASCII,
)


class LogEvent(Struct, frozen=True):
    """A line of the board: `s:category:key:value:value...`."""

    category: str
    key: str
    values: tuple[str, ...]


class BlockTitle(Struct, frozen=True):
    name: str
    c_idx: int
    first: int
    last: int
    kind: str
    extra: int


class Bursts(Struct, frozen=True):
    """Bursts of one direction by their length in beats of `beat_bytes`."""

    direction: str
    lengths: tuple[int, ...]
    beat_bytes: int
    counts: tuple[int, ...]


class BusLine(Struct, frozen=True):
    """Bytes over one bus interface, or over both; the rate is in the unit printed."""

    id: int | None
    read_bytes: int
    write_bytes: int
    bursts: tuple[Bursts, ...]
    rate: float | None
    unit: str


class EngineLine(Struct, frozen=True):
    id: int
    direction: str
    busif: int
    active_cycles: int
    data: str
    percent: int


class CacheLine(Struct, frozen=True):
    read: tuple[tuple[str, int], ...]
    write: tuple[tuple[str, int], ...]


class InferenceLine(Struct, frozen=True):
    """Counters of one inference, or of one node inside it."""

    name: str
    counter: str
    counters: tuple[int, ...]
    ms: float
    id: str  # first and last epoch with a dot between
    type: int
    text: str


def event(text: str, draft: ReportDraft) -> LogEvent | None:
    match = _EVENT.match(text)
    if not match:
        return None
    return LogEvent(match[1], match[2], tuple(match[3].split(":")))


def title(text: str, draft: ReportDraft) -> BlockTitle | None:
    match = _TITLE.match(text)
    if not match:
        return None
    c_idx, first, last, extra = (int(match[i]) for i in (2, 3, 4, 6))
    return BlockTitle(match[1], c_idx, first, last, match[5], extra)


def bus(text: str, draft: ReportDraft) -> BusLine | None:
    match = _BUS.match(text)
    if not match:
        return None
    rate = _RATE.search(text, match.end())
    return BusLine(
        whole(match[1]),
        int(match[2]),
        int(match[3]),
        tuple(
            Bursts(direction, _whole_list(lengths), int(beat), _whole_list(counts))
            for direction, lengths, beat, counts in _BURSTS.findall(text, match.end())
        ),
        number(rate[1]) if rate else None,
        rate[2] if rate else "",
    )


def _whole_list(text: str) -> tuple[int, ...]:
    values = (whole(part.strip()) for part in text.split(","))
    return tuple(value for value in values if value is not None)


def engine(text: str, draft: ReportDraft) -> EngineLine | None:
    match = _ENGINE.match(text)
    if not match:
        return None
    number_of, direction, busif, cycles, data, percent = match.groups()
    return EngineLine(int(number_of), direction, int(busif), int(cycles), data, int(percent))


def cache(text: str, draft: ReportDraft) -> CacheLine | None:
    match = _CACHE.match(text)
    return CacheLine(_named(match[1]), _named(match[2])) if match else None


def _named(text: str) -> tuple[tuple[str, int], ...]:
    pairs = (part.partition("=") for part in text.split(","))
    values = ((key.strip(), whole(value.strip())) for key, _, value in pairs)
    return tuple((key, value) for key, value in values if value is not None)


def inference(text: str, draft: ReportDraft) -> InferenceLine | None:
    match = _INFERENCE.match(text)
    ms = number(match[4]) if match else None
    if not match or ms is None:
        return None
    counters = _whole_list(match[3])
    kind = int(match[6], 16)
    return InferenceLine(match[1], match[2], counters, ms, match[5], kind, match[7])


def summary(text: str, draft: ReportDraft) -> str | None:
    match = _SUMMARY.match(text)
    return match[1] if match else None


PROFILER_RULES: tuple[LineRule, ...] = (
    ("summaries", summary),
    ("events", event),
    ("titles_of_epochs", title),
    ("bus", bus),
    ("engine", engine),
    ("cache", cache),
    ("inferences", inference),
)


_START = "evt_pre_start"


class EngineCount(Struct, frozen=True):
    """One stream engine: cycles in which it moved data (or had room), and the rest."""

    counter: str  # streng_active or streng_henv
    direction: str
    id: int
    cycles: int
    rest: int


class Busiest(Struct, frozen=True):
    counter: str
    direction: str
    id: int
    cycles: int


class PortBursts(Struct, frozen=True):
    """Bursts by length on one port; on `portx` bytes read, written and together."""

    port: str
    direction: str
    counts: tuple[int, ...]


class NodeRun(Struct, frozen=True):
    """One node in one inference. Cycles are (pre, core, post)."""

    index: int
    current: int
    first: int
    last: int
    flags: int
    type: int
    kind: str
    end: tuple[int, ...] = ()
    mcu_cycles: tuple[int, ...] = ()
    npu_cycles: tuple[int, ...] = ()
    engines: tuple[EngineCount, ...] = ()
    busiest: tuple[Busiest, ...] = ()
    cache_read: tuple[int, ...] = ()
    cache_write: tuple[int, ...] = ()
    bursts: tuple[PortBursts, ...] = ()


class _Open(Struct):
    """A node whose lines are still coming."""

    start: tuple[int, int, int, int, int, int, str]
    triples: dict[str, tuple[int, ...]] = field(default_factory=dict)
    engines: list[EngineCount] = field(default_factory=list)
    busiest: list[Busiest] = field(default_factory=list)
    bursts: list[PortBursts] = field(default_factory=list)

    def closed(self) -> NodeRun:
        return NodeRun(
            *self.start,
            self.triples.get("evt_post_end", ()),
            self.triples.get("mcu_cycles", ()),
            self.triples.get("npu_cycles", ()),
            tuple(self.engines),
            tuple(self.busiest),
            self.triples.get("npu_cache:r", ()),
            self.triples.get("npu_cache:w", ()),
            tuple(self.bursts),
        )


def nodes_of(events: tuple[LogEvent, ...]) -> tuple[tuple[NodeRun, ...], tuple[LogEvent, ...]]:
    """The nodes, and the events that fit none."""
    nodes: list[_Open] = []
    others: list[LogEvent] = []
    for event in events:
        start = _start(event) if event.key == _START else None
        if start:
            nodes.append(_Open(start))
        elif not nodes or not _take(nodes[-1], event):
            others.append(event)
    return tuple(node.closed() for node in nodes), tuple(others)


def _start(event: LogEvent) -> tuple[int, int, int, int, int, int, str] | None:
    """Index, current, first and last epoch, flags and type in hex, kind in words."""
    if len(event.values) != 7:
        return None
    plain = [_signed(value) for value in event.values[:4]]
    coded = [_hex(value) for value in event.values[4:6]]
    index, current, first, last, flags, kind = (*plain, *coded)
    if index is None or current is None or first is None:
        return None
    if last is None or flags is None or kind is None:
        return None
    return index, current, first, last, flags, kind, event.values[6]


def _signed(text: str) -> int | None:
    """Numbers of internal blocks are negative, and so is the rest of an engine that runs long."""
    value = whole(text.removeprefix("-"))
    return -value if value is not None and text.startswith("-") else value


def _hex(text: str) -> int | None:
    try:
        return int(text, 16) if 0 < len(text) <= 16 else None
    except ValueError:
        return None


def _take(node: _Open, event: LogEvent) -> bool:
    """Add the event to the node if it has a known form."""
    if event.key in ("streng_active", "streng_henv"):
        # `i:4:cycles:rest`, or `max:i:4:cycles` for the busiest.
        most = event.values[0] == "max"
        direction, *rest = event.values[1:] if most else event.values
        values = _wholes(tuple(rest))
        if values is None or direction not in ("i", "o") or len(values) != (2 if most else 3):
            return False
        if most:
            node.busiest.append(Busiest(event.key, direction, *values))
        else:
            node.engines.append(EngineCount(event.key, direction, *values))
        return True
    if event.key.startswith("port"):
        values = _wholes(event.values[2:])
        if values is None or event.values[0] != "burst":
            return False
        node.bursts.append(PortBursts(event.key, event.values[1], values))
        return True
    if event.key == "npu_cache" and event.values[0] in ("r", "w"):
        return _take_plain(node, f"npu_cache:{event.values[0]}", event.values[1:])
    if event.key in ("mcu_cycles", "npu_cycles", "evt_post_end"):
        return _take_plain(node, event.key, event.values)
    return False


def _wholes(words: tuple[str, ...]) -> tuple[int, ...] | None:
    values = [_signed(word) for word in words]
    wholes = tuple(value for value in values if value is not None)
    return wholes if wholes and len(wholes) == len(values) else None


def _take_plain(node: _Open, name: str, words: tuple[str, ...]) -> bool:
    values = _wholes(words)
    if values is None or name in node.triples:
        return False
    node.triples[name] = values
    return True
