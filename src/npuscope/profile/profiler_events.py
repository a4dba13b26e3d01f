"""Nodes of an inference, put together from the lines that a board sends about each.

A node begins with `evt_pre_start`; what follows belongs to it. Which counters come depends on
the options of that inference: the board has 16 counters, so a full picture takes several.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from npuscope.profile.profiler_rules import Event
from npuscope.program.generate_report.draft import whole

_START = "evt_pre_start"


@dataclass(frozen=True, slots=True)
class EngineCount:
    """One stream engine: cycles in which it moved data (or had room), and the rest."""

    counter: str  # streng_active or streng_henv
    direction: str
    id: int
    cycles: int
    rest: int


@dataclass(frozen=True, slots=True)
class Busiest:
    counter: str
    direction: str
    id: int
    cycles: int


@dataclass(frozen=True, slots=True)
class PortBursts:
    """Bursts by length on one port; on `portx` bytes read, written and together."""

    port: str
    direction: str
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class NodeRun:
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


@dataclass(slots=True)
class _Open:
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


def nodes_of(events: tuple[Event, ...]) -> tuple[tuple[NodeRun, ...], tuple[Event, ...]]:
    """The nodes, and the events that fit none."""
    nodes: list[_Open] = []
    others: list[Event] = []
    for event in events:
        start = _start(event) if event.key == _START else None
        if start:
            nodes.append(_Open(start))
        elif not nodes or not _take(nodes[-1], event):
            others.append(event)
    return tuple(node.closed() for node in nodes), tuple(others)


def _start(event: Event) -> tuple[int, int, int, int, int, int, str] | None:
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


def _take(node: _Open, event: Event) -> bool:
    """Add the event to the node if it has a known form."""
    if event.key in ("streng_active", "streng_henv"):
        return _take_engine(node, event)
    if event.key.startswith("port"):
        return _take_bursts(node, event)
    if event.key == "npu_cache" and event.values[0] in ("r", "w"):
        return _take_plain(node, f"npu_cache:{event.values[0]}", event.values[1:])
    if event.key in ("mcu_cycles", "npu_cycles", "evt_post_end"):
        return _take_plain(node, event.key, event.values)
    return False


def _wholes(words: tuple[str, ...]) -> tuple[int, ...] | None:
    values = [_signed(word) for word in words]
    found = tuple(value for value in values if value is not None)
    return found if found and len(found) == len(values) else None


def _take_plain(node: _Open, name: str, words: tuple[str, ...]) -> bool:
    values = _wholes(words)
    if values is None or name in node.triples:
        return False
    node.triples[name] = values
    return True


def _take_engine(node: _Open, event: Event) -> bool:
    """`i:4:cycles:rest`, or `max:i:4:cycles` for the busiest."""
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


def _take_bursts(node: _Open, event: Event) -> bool:
    values = _wholes(event.values[2:])
    if values is None or event.values[0] != "burst":
        return False
    node.bursts.append(PortBursts(event.key, event.values[1], values))
    return True
