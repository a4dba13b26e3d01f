"""Runs one group of units: a pull model with one generator per unit and one queue per port.

A sink asks for words, its source makes them, asking its own sources in turn. Units that are
already asked stay suspended, so a loop through the switch or through memory simply finds the
words that were made before.
"""

from __future__ import annotations

from msgspec import Struct, field

from npuscope.errors import InternalError, TargetError
from npuscope.program.addresses import reach
from npuscope.program.model import Group
from npuscope.program.unit_words import word_bytes
from npuscope.program.units import Activ, Arith, Convacc, Decun, PoolUnit, Port, Streng, Unit
from npuscope.sim.arithmetic import convacc
from npuscope.sim.arithmetic import streams as streng
from npuscope.sim.arithmetic import units as arith
from npuscope.sim.arithmetic.convacc import ClampTally
from npuscope.sim.arithmetic.pool import run_pool
from npuscope.sim.arithmetic.streams import Inbox, Stream, Take, Words
from npuscope.sim.arithmetic.units import refuse, run_activ
from npuscope.sim.memory import Memory


class RunningUnit(Struct, eq=False):
    """A unit at work."""

    unit: Unit
    inboxes: dict[int, Inbox] = field(default_factory=dict)
    sources: dict[int, RunningUnit] = field(default_factory=dict)
    outlets: list[Inbox] = field(default_factory=list)
    writers: list[RunningUnit] = field(
        default_factory=list
    )  # engines that store what this one reads
    stream: Stream | None = None
    pending: Take | None = None  # a request that could not be met yet
    frames: int = 0  # frames given so far
    busy: bool = False
    ended: bool = False

    @property
    def name(self) -> str:
        return f"{self.unit.unit} {self.unit.id}"

    @property
    def is_sink(self) -> bool:
        return isinstance(self.unit, Streng) and bool(self.unit.dir)


def run_by_frames(group: Group, memory: Memory, tally: ClampTally) -> None:
    """Execute until every engine that stores has stored its frames."""
    nodes = connect(group)
    # Pair engines whose bytes overlap: partial sums that pass through memory.
    engines = [(node, node.unit) for node in nodes if isinstance(node.unit, Streng)]
    spans = {id(node): _span(unit, memory) for node, unit in engines}
    for reader, _ in engines:
        for writer, _ in engines:
            (low, high), (start, end) = spans[id(reader)], spans[id(writer)]
            if writer.is_sink and not reader.is_sink and low < end and start < high:
                reader.writers.append(writer)
    for node in nodes:
        node.stream = _start(node, memory, tally)
    sinks = [node for node in nodes if node.is_sink]
    while sum(_advance(node) for node in sinks):
        pass  # one frame each in turn keeps the queues short
    for node in sinks:
        _check_finished(node)


def connect(group: Group) -> list[RunningUnit]:
    nodes = {(unit.unit, unit.id): RunningUnit(unit) for unit in group.units}
    for link in group.links:
        source, destination = _node(nodes, link.source), _node(nodes, link.destination)
        inbox = Inbox(link)
        destination.inboxes[link.destination.port] = inbox
        destination.sources[link.destination.port] = source
        source.outlets.append(inbox)
    return list(nodes.values())


def _node(nodes: dict[tuple[str, int], RunningUnit], port: Port) -> RunningUnit:
    node = nodes.get((port.unit, port.id))
    if node is None:
        raise TargetError(f"a link names {port.unit} {port.id}, which is not in the group")
    return node


def _span(engine: Streng, memory: Memory) -> tuple[int, int]:
    base = memory.address(engine.addr_base)
    low, high = reach(engine)
    return base + low, base + high


def _start(node: RunningUnit, memory: Memory, tally: ClampTally) -> Stream:
    unit = node.unit
    match unit:
        case Streng():
            return streng.write(unit, memory) if unit.dir else streng.read(unit, memory)
        case Convacc():
            widths = {port: word_bytes(source.unit) for port, source in node.sources.items()}
            return convacc.run(unit, widths, tally)
        case Arith():
            return arith.run(unit, 1 in node.sources, memory, tally)
        case Activ():
            return run_activ(unit, memory)
        case PoolUnit():
            return run_pool(unit)
        case Decun():
            raise refuse(unit)


def _advance(node: RunningUnit) -> bool:
    """Let a unit give one more frame; False if it cannot, because inputs ended or wait for it."""
    if node.busy or node.ended:
        return False
    node.busy = True
    # Store every frame already made before memory is read again.
    for writer in node.writers:
        while _advance(writer):
            pass
    gave = _give_frame(node)
    node.busy = False
    return gave


def _give_frame(node: RunningUnit) -> bool:
    wish = node.pending or _resume(node)
    while isinstance(wish, Take):
        node.pending = wish
        if not _fill(node, wish):
            return False
        wish = _resume(node, node.inboxes[wish.port].take(wish.words))
    node.pending = None
    if wish is None:
        return False
    for outlet in node.outlets:
        outlet.put(wish)
    node.frames += 1
    return True


def _resume(node: RunningUnit, words: Words | None = None) -> Take | Words | None:
    """Run the generator up to its next request or frame; not before it is needed, because a
    reading engine looks at memory here."""
    if node.stream is None:
        raise InternalError(f"{node.name} was not started")
    try:
        return next(node.stream) if words is None else node.stream.send(words)
    except StopIteration:
        node.ended = True
        return None


def _fill(node: RunningUnit, wish: Take) -> bool:
    inbox = node.inboxes.get(wish.port)
    if inbox is None:
        raise TargetError(f"{node.name} waits for port {wish.port}, which no link feeds")
    while not inbox.holds(wish.words):
        if not _advance(node.sources[wish.port]):
            return False
    return True


def _check_finished(node: RunningUnit) -> None:
    if node.ended or not isinstance(node.unit, Streng):
        return
    raise TargetError(
        f"{node.name} stored {node.frames} of {node.unit.frames} frames: its source ended early",
        hint="the sizes of the units in this group do not match",
    )
