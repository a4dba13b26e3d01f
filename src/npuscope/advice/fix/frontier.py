"""Where the NPU's work ends: the tensors at which the network should stop, so that what comes
behind them runs in the application."""

from __future__ import annotations

from collections.abc import Iterator
from math import fsum

from msgspec import Struct, field

from npuscope.graph.model import Graph, Op
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.profiling.model import Profile, TensorInfo
from npuscope.program.model import EpochKind
from npuscope.rulebook.queries import live_ops
from npuscope.shown import counted, significant

# What the CPU takes for the work of an NPU epoch: small NPU work behind much CPU work may go too.
_CPU_SLOWDOWN = 20.0
_MOVES = having(Trait.MOVES, Trait.RESCALING) - having(Trait.PICKS)
_BORDER = "output:"  # layout changes that a reader adds; no op of the file


class Frontier(Struct, frozen=True):
    """`tensors` are the outputs to have, by their names in the Graph; none: nothing to cut.

    `removed` are the source ops that go to the application, in their order. `cpu_ms` is their
    time on the CPU, library calls included; `npu_ms` is NPU work among them.
    """

    tensors: tuple[TensorInfo, ...] = ()
    removed: tuple[str, ...] = ()
    cpu_ms: float = 0.0
    npu_ms: float = 0.0
    sentence: str = ""

    @property
    def size_bytes(self) -> int:
        """What the application reads after every inference."""
        return sum(tensor.size_bytes for tensor in self.tensors)


def frontier(graph: Graph | None, profile: Profile) -> Frontier:
    """The last place where only the NPU's work lies in front."""
    if graph is None:
        return Frontier(sentence="the network is unknown: give the model file")
    units = _units(graph, profile)
    if not any(unit.npu_ms for unit in units):
        return Frontier(sentence="nothing runs on the NPU, so it cannot be cut")
    removed = _tail(units)
    names = tuple(_exposed(graph, removed))
    if not any(unit.cpu_ms for unit in removed) or set(names) == set(graph.outputs):
        return Frontier(sentence="the network already ends on the NPU: nothing to cut")
    if not names:
        return Frontier(sentence="nothing would be left of the network")
    return _frontier_at(graph, profile, removed, names)


class _Unit(Struct, eq=False):
    """Ops of the Graph that came from one op of the file: cut before all of them or behind."""

    ops: list[Op] = field(default_factory=list)
    behind: set[_Unit] = field(default_factory=set)
    cpu_ms: float = 0.0
    npu_ms: float = 0.0
    live: bool = True
    makes_output: bool = False
    shrinks: bool = False  # gives fewer bytes than it takes
    moved: int = 0  # bytes that it takes and gives

    @property
    def only_moves(self) -> bool:
        return all(op.kind in _MOVES for op in self.ops)

    def chained(self, other: _Unit) -> bool:
        return self in other.behind or other in self.behind


def _units(graph: Graph, profile: Profile) -> list[_Unit]:
    """In order of execution, with their times and all that comes behind them."""
    units: dict[str, _Unit] = {}
    by_op: dict[str, _Unit] = {}
    for op in graph.ops:
        # An op of the file is cut as a whole, although readers may make several ops of it.
        unit = units.setdefault(op.origin[-1] if op.origin else op.name, _Unit())
        unit.ops.append(op)
        by_op[op.name] = unit
    _link(graph, by_op)
    live = {op.name for op in live_ops(graph)}
    for unit in units.values():
        unit.live = any(op.name in live for op in unit.ops)
        unit.makes_output = any(set(op.outputs) & set(graph.outputs) for op in unit.ops)
        # What it reads and writes, without constants.
        results = {name for op in unit.ops for name in op.outputs}
        operands = {name for op in unit.ops for name in op.inputs if name}
        inputs = [graph.tensor(n) for n in operands - results if not graph.tensor(n).is_constant]
        outputs = [graph.tensor(n) for n in results - operands]
        before, after = sum(t.size_bytes for t in inputs), sum(t.size_bytes for t in outputs)
        unit.shrinks, unit.moved = after < before, before + after
    _charge(graph, profile, by_op)
    return list(units.values())


def _link(graph: Graph, by_op: dict[str, _Unit]) -> None:
    readers = graph.consumers()
    next_units = {
        unit: {by_op[r.name] for op in unit.ops for name in op.outputs for r in readers[name]}
        for unit in by_op.values()
    }
    # From the end: what is behind a unit is mostly known by then, so it is not walked again.
    finished: set[_Unit] = set()
    for unit in reversed(next_units):
        waiting = [unit]
        while waiting:
            one = waiting.pop()
            new = (one.behind if one in finished else next_units[one]) - unit.behind
            unit.behind |= new
            if one not in finished:
                waiting += new
        unit.behind.discard(unit)
        finished.add(unit)


def _charge(graph: Graph, profile: Profile, by_op: dict[str, _Unit]) -> None:
    """Spread the epochs' times over the units."""
    by_origin: dict[str, set[_Unit]] = {}
    for op in graph.ops:
        for name in op.origin:
            by_origin.setdefault(name, set()).add(by_op[op.name])
    for epoch in profile.epochs:
        names = [name for name in epoch.origin if not name.startswith(_BORDER)]
        units = set().union(*(by_origin.get(name, set()) for name in names))
        if epoch.kind is EpochKind.HW:
            _charge_npu(units, epoch.ms)
            continue
        for unit in units:
            unit.cpu_ms += epoch.ms / len(units)


def _charge_npu(units: set[_Unit], ms: float) -> None:
    """By the bytes that pass through each: branches of very different sizes share epochs. Moves
    are not worth keeping: those of other branches take their time along, those in a chain with
    work are part of it."""
    working = {unit for unit in units if not unit.only_moves}
    apart = {unit for unit in units - working if not any(unit.chained(w) for w in working)}
    worked = max(1, sum(unit.moved for unit in working))
    lost = sum(unit.moved for unit in apart) / max(1, sum(unit.moved for unit in units))
    for unit in working:
        unit.npu_ms += ms * (1 - lost) * unit.moved / worked


def _tail(units: list[_Unit]) -> set[_Unit]:
    """What goes: CPU work with all behind it where that pays, then the moves in front."""
    removed: set[_Unit] = set()
    for unit in reversed(units):
        new = {unit, *unit.behind} - removed
        if sum(u.cpu_ms - _CPU_SLOWDOWN * u.npu_ms for u in new) > 0:
            removed |= new
    for unit in reversed(units):
        if unit.behind <= removed and (not unit.live or _leads_to(unit, removed)):
            removed.add(unit)
    return removed


def _leads_to(unit: _Unit, removed: set[_Unit]) -> bool:
    """Is it a move that serves only what goes?"""
    inside = bool(unit.behind & removed) and not unit.makes_output
    # A move that makes the result smaller saves the application bytes to read, so it stays.
    return inside and unit.only_moves and not unit.shrinks


def _exposed(graph: Graph, removed: set[_Unit]) -> Iterator[str]:
    """Tensors that the rest of the network makes and the application needs, in output order."""
    removed_ops = {op.name for unit in removed for op in unit.ops}
    makers = graph.producers()
    visited: set[str] = set()
    waiting = [*reversed(graph.outputs)]
    while waiting:
        name = waiting.pop()
        maker = makers.get(name)
        if name in visited or maker is None:
            continue
        visited.add(name)
        if maker.name in removed_ops:
            waiting += reversed([n for n in maker.inputs if n])
        else:
            yield name


def _frontier_at(
    graph: Graph, profile: Profile, removed: set[_Unit], names: tuple[str, ...]
) -> Frontier:
    tensors = tuple(_info(graph, name) for name in names)
    # Exact, because a set has no order: the same network gives the same figures.
    cpu_ms, npu_ms = fsum(u.cpu_ms for u in removed), fsum(u.npu_ms for u in removed)
    removed_ops = {op.name for unit in removed for op in unit.ops}
    origins = (name for op in graph.ops if op.name in removed_ops for name in op.origin)
    ops = tuple(dict.fromkeys(name for name in origins if not name.startswith(_BORDER)))
    count = counted(len(tensors), "tensor")
    size = sum(tensor.size_bytes for tensor in tensors)
    lost = f", including {significant(npu_ms, 2)} ms of NPU work" if npu_ms else ""
    last = f"the last {len(ops)} ops take" if len(ops) > 1 else "the last op takes"
    sentence = (
        f"end at {count} ({size} bytes): {last} {significant(cpu_ms, 3)} of "
        f"{significant(profile.total_ms, 3)} ms "
        f"on the CPU{lost}"
    )
    return Frontier(tensors, ops, cpu_ms, npu_ms, sentence)


def _info(graph: Graph, name: str) -> TensorInfo:
    """Its shape is that of the file."""
    tensor = graph.tensor(name)
    single = tensor.quant if tensor.quant and not tensor.quant.per_channel else None
    return TensorInfo(
        name,
        tensor.source_shape or tensor.shape,
        tensor.dtype.value,
        single.scale if single else None,
        single.zero_point if single else None,
        tensor.size_bytes,
    )
