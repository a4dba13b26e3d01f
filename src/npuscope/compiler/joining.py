"""Whether a stage may join an epoch: what it reads can stream into it, and units are left."""

from __future__ import annotations

from npuscope.compiler.groups import StageGroup, unit_needs
from npuscope.compiler.stages import (
    ActivStage,
    ArithStage,
    CallStage,
    ConvStage,
    CopyStage,
    Lowered,
    PieceOrder,
    PoolStage,
    Stage,
    Value,
)
from npuscope.geometry.tiling import ConvMode, pool_limit
from npuscope.machine.model import Machine
from npuscope.program.modes import Simd


def root(lowered: Lowered, value: Value) -> Value:
    """The value whose bytes a view shows."""
    while value.name in lowered.views:
        value = lowered.views[value.name]
    return value


def joins(
    stage: Stage,
    group: StageGroup,
    lowered: Lowered,
    readers: dict[str, list[str]],
    machine: Machine,
) -> bool:
    if isinstance(stage, CallStage) or isinstance(group.stages[0], CallStage):
        return False
    readable = can_read(stage, group, lowered, machine)
    return readable and has_room(stage, group, lowered, readers, machine)


def can_read(stage: Stage, group: StageGroup, lowered: Lowered, machine: Machine) -> bool:
    """What it takes from inside the epoch can stream into it."""
    return (
        not _reads_view_of(stage, group, lowered)
        and _copies_apart(stage, group)
        and all(_streams(stage, value, group, machine) for value in stage.inputs)
        and _chain_goes_on(stage, group, machine)
        and not reconverges(stage, group, machine.generation.cuts_reconvergence)
    )


def has_room(
    stage: Stage,
    group: StageGroup,
    lowered: Lowered,
    readers: dict[str, list[str]],
    machine: Machine,
) -> bool:
    """Units and engines are left for it."""
    return (
        not isinstance(stage, CallStage)
        and not isinstance(group.stages[0], CallStage)
        and _pieces_fit(stage, group)
        and all(n + group.units.get(u, 0) <= machine.units[u] for u, n in unit_needs(stage).items())
        and _engines([*group.stages, stage], lowered, readers) <= machine.units["STRENG"]
    )


_LONGEST_SHORT_CHAIN = 2  # stages


def _chain_goes_on(stage: Stage, group: StageGroup, machine: Machine) -> bool:
    """Small maps are computed by few arithmetic units in a row."""
    small = stage.output.elements <= machine.generation.short_chain_values
    if not small or not isinstance(stage, ArithStage):
        return True
    makers = [maker for maker in map(group.producer, stage.inputs) if maker]
    names = {name for maker in makers for name in _ancestors(group, maker)}
    before = [member for member in group.stages if member.name in names]
    plain = all(isinstance(member, ArithStage) for member in before)
    return not plain or len(before) < _LONGEST_SHORT_CHAIN


def _copies_apart(stage: Stage, group: StageGroup) -> bool:
    """A copy goes from memory to memory: what it reads and what reads it are other epochs."""
    makers = [maker for maker in map(group.producer, stage.inputs) if maker]
    copies = isinstance(stage, CopyStage) or any(isinstance(m, CopyStage) for m in makers)
    return not (makers and copies)


def _reads_view_of(stage: Stage, group: StageGroup, lowered: Lowered) -> bool:
    """True if it reads a view of bytes that this epoch writes: they exist in memory only."""
    others = [value for value in stage.inputs if value.name not in group.makers]
    return any(share_bytes(lowered, s.output, value) for s in group.stages for value in others)


def share_bytes(lowered: Lowered, one: Value, other: Value) -> bool:
    """Two values lie in the same buffer, and not in different parts or channels of it."""
    if root(lowered, one).name != root(lowered, other).name:
        return False
    if one.skip + one.elements <= other.skip or other.skip + other.elements <= one.skip:
        return False
    apart = one.first + one.channels <= other.first or other.first + other.channels <= one.first
    return not (one.pitch and one.pitch == other.pitch and apart)


def _pieces_fit(stage: Stage, group: StageGroup) -> bool:
    """Pieces of a dilated kernel stand alone, many of another one go in pairs.

    Parts that are cut by passes follow each other.
    """
    orders = [s.order for s in (*group.stages, stage) if isinstance(s, ConvStage)]
    if PieceOrder.CHAIN in orders or orders.count(PieceOrder.SERIES) > 1:
        return False
    return orders.count(PieceOrder.PAIRS) <= _PAIR


_PAIR = 2


def _streams(stage: Stage, value: Value, group: StageGroup, machine: Machine) -> bool:
    """True if the value can come directly from its producer in the epoch."""
    if value.name not in group.frames:
        return True
    if isinstance(stage, ActivStage) and stage.from_memory:
        return False
    if not _reads_unsigned(stage) and not value.signed:
        return False  # an engine widens such bytes on their way from memory
    frame = group.frames[value.name]
    if isinstance(stage, ConvStage):
        tiling = stage.tiling
        each_once = tiling.grouped and tiling.tiles * tiling.depth == value.channels
        once = (tiling.tiles == 1 or each_once) and tiling.passes == 1
        # Words of two channels are put together by an engine that reads memory.
        words = tiling.mode is not ConvMode.DSS2
        whole = stage.seen == stage.size
        return once and words and whole and tiling.pipe == 1 and tiling.depth == frame
    if isinstance(stage, PoolStage):
        fits = frame <= pool_limit(value.shape[1], machine)
        return fits and _pool_joins(stage, group, machine)
    if value.shape != stage.output.shape:
        return False  # a vector is broadcast from memory
    # 16-bit sums in memory lie in the frames in which they were made.
    if not all(other == frame for other in group.known_frames(stage.inputs)):
        return False
    # Bytes in memory too: a sum with a shortcut of other frames has an epoch of its own [code:
    # BlazeFace, YOLOv8n-pose, a palm detector].
    return all(other == frame for other in group.written_frames(stage))


def _reads_unsigned(stage: Stage) -> bool:
    """Takes bytes above 127 as they come: the 8x8 mode, and what works modulo 256."""
    if isinstance(stage, ConvStage):
        return stage.simd == Simd.S8X8
    return isinstance(stage, ArithStage) and stage.wrap


def _pool_joins(stage: PoolStage, group: StageGroup, machine: Machine) -> bool:
    """Later compilers give a padded pool an epoch of its own behind a convolution."""
    if machine.generation.joins_padded_pools or not any(stage.pads):
        return True
    return not any(isinstance(member, ConvStage) for member in group.stages)


def reconverges(stage: Stage, group: StageGroup, always: bool) -> bool:
    """Two operands from inside with a common ancestor: one branch would starve the other.

    A convolution with passes through memory holds the data back, which resolves it. Later
    compilers cut only (not `always`) where a branch has a convolution or pool of its own.
    """
    inside = [p for p in map(group.producer, stage.inputs) if p]
    if len(inside) < 2:
        return False
    first, second = (_ancestors(group, p) for p in inside[:2])
    if not first & second:
        return False
    names = first | second
    apart = [s for s in group.stages if s.name in first ^ second]
    if not always and not any(isinstance(s, ConvStage | PoolStage) for s in apart):
        return False
    return not any(
        isinstance(s, ConvStage) and s.tiling.passes > 1 for s in group.stages if s.name in names
    )


def _ancestors(group: StageGroup, stage: Stage) -> set[str]:
    names = {stage.name}
    for producer in map(group.producer, stage.inputs):
        if producer:
            names |= _ancestors(group, producer)
    return names


def _engines(stages: list[Stage], lowered: Lowered, readers: dict[str, list[str]]) -> int:
    """Stream engines the epoch would need if it closed behind these stages."""
    names = {stage.name for stage in stages}
    results = {stage.output.name for stage in stages}
    count = 0
    for stage in stages:
        count += _engines_in(stage, results)
        leaves = any(reader not in names for reader in readers.get(stage.output.name, []))
        count += leaves or stage.output.name in lowered.views
    return count


def _engines_in(stage: Stage, results: set[str]) -> int:
    from_memory = sum(value.name not in results for value in stage.inputs)
    if isinstance(stage, ConvStage):
        # One engine stores the sums of a pass, one reads them back for the next.
        partial_sums = 2 if stage.tiling.passes > 1 else 0
        # Each unit of the pipe reads its own features; all share one kernel engine.
        return from_memory * stage.tiling.pipe + 1 + partial_sums
    if isinstance(stage, ArithStage) and stage.table is not None:
        return from_memory + 1
    return from_memory
