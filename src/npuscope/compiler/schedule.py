"""Grouping stages into epochs: one greedy pass, as the vendor's compiler does it.

Stages whose operands are there stand in line, calls of the CPU in front. An epoch takes the first
of them and what follows from it, then the next in line, as long as units and engines are left and
everything that a stage takes from inside the epoch can stream into it. What does not fit stays in
line; what became ready meanwhile goes to its end. So branches share epochs: public builds of 2.1,
2.2 and 3.0 show it (DeepLab, a network of 25 parallel sums, OSNet; calls first: BlazeFace). There
is no look-ahead: the Mul of a convolution may end an epoch and its Add open the next, with a
16-bit buffer between.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct, field

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
from npuscope.geometry.divisors import largest_divisor
from npuscope.geometry.tiling import ConvMode, pool_limit
from npuscope.machine.model import Machine
from npuscope.program.modes import Simd


class StageGroup(Struct):
    """The stages of one epoch, and the channels per frame after each of them."""

    stages: list[Stage] = field(default_factory=list)
    frames: dict[str, int] = field(default_factory=dict)  # value name -> channels per frame
    # The same for 16-bit values in memory: a chain that is cut in the middle goes on in the frames
    # in which they were made. One table for all epochs, which grows with them.
    stored: dict[str, int] = field(default_factory=dict)
    in_memory: dict[str, int] = field(default_factory=dict)  # for all values in memory
    makers: dict[str, Stage] = field(default_factory=dict)  # value name -> the stage it leaves
    units: dict[str, int] = field(default_factory=dict)  # that the stages take, by type

    def producer(self, value: Value) -> Stage | None:
        return self.makers.get(value.name)

    def written_frames(self, stage: Stage) -> list[int]:
        """Of the operands in memory, where all are maps of one shape."""
        if any(value.shape != stage.output.shape for value in stage.inputs):
            return []
        return [
            self.in_memory[value.name] for value in stage.inputs if value.name in self.in_memory
        ]

    def known_frames(self, values: Iterable[Value]) -> list[int]:
        """The frames of those values that have some: of this epoch, else of those before it."""
        frames = (self.frames.get(v.name, self.stored.get(v.name)) for v in values)
        return [frame for frame in frames if frame is not None]

    def add(self, stage: Stage, machine: Machine) -> None:
        self.stages.append(stage)
        self.makers.setdefault(stage.output.name, stage)
        for unit, count in unit_needs(stage).items():
            self.units[unit] = self.units.get(unit, 0) + count
        frame = output_frame(self, stage, machine)
        self.frames[stage.output.name] = frame


def output_frame(group: StageGroup, stage: Stage, machine: Machine) -> int:
    """Channels of one frame that leaves the stage."""
    if isinstance(stage, ConvStage):
        return stage.tiling.kernels
    frames = group.known_frames(stage.inputs)
    if frames:
        return max(frames)
    met = group.written_frames(stage)
    if isinstance(stage, ActivStage) and stage.from_memory and met:
        return min(met)  # its reader meets what else was made of the same value [code]
    if isinstance(stage, ArithStage) and len(stage.inputs) > 1:
        tensor, other = stage.inputs
        if machine.generation.vector_in_frames and other.shape != tensor.shape:
            met = [group.in_memory.get(tensor.name, tensor.channels)]
    if isinstance(stage, ArithStage) and len(stage.inputs) > 1 and met:
        return largest_divisor(stage.output.channels, min(met))
    channels = max((value.part for value in stage.inputs), default=0) or stage.output.channels
    if isinstance(stage, PoolStage):
        return largest_divisor(channels, _pooled_channels(stage, machine))
    return channels


def _pooled_channels(stage: PoolStage, machine: Machine) -> int:
    """Of a pool that reads memory: where it has an epoch of its own because it is padded, a
    convolution of one channel pads what it reads [code: OSNet, 3.0]."""
    alone = any(stage.pads) and not machine.generation.joins_padded_pools
    return 1 if alone else pool_limit(stage.inputs[0].shape[1], machine)


def schedule(
    lowered: Lowered, machine: Machine, alternative: bool = False, readers_wait: bool = False
) -> list[StageGroup]:
    """Stages cut into epochs; `alternative`: as the vendor's --Oalt-sched does it, where of the
    readers of a value only one goes on in its epoch if `readers_wait`."""
    groups: list[StageGroup] = []
    stored: dict[str, int] = {}
    in_memory: dict[str, int] = {}
    line = ReadyLine(lowered, machine, alternative, readers_wait)
    while line.ready:
        group = StageGroup(stored=stored, in_memory=in_memory, units=dict(line.units_of_cut))
        line.fill(group)
        wide = {s.output.name for s in group.stages if s.output.nbits == 16 or s.goes_on}
        stored.update({name: frame for name, frame in group.frames.items() if name in wide})
        if machine.generation.shortcut_frames:
            in_memory.update(group.frames)
        groups.append(group)
    return groups


class ReadyLine:
    """Stages that are ready, in the order in which they became so.

    Tried on eight builds: calls first brings BlazeFace from 51 to 77 % equal epochs (4.0; 63 to 76
    at 2.2); the longest way to the end first is no better there and worse on five others.
    """

    def __init__(
        self,
        lowered: Lowered,
        machine: Machine,
        alternative: bool = False,
        readers_wait: bool = False,
    ) -> None:
        self.lowered, self.machine, self.alternative = lowered, machine, alternative
        self.readers_wait = readers_wait
        # Value name -> names of the stages that read it (through views too); outputs read last.
        readers: dict[str, list[str]] = {}
        for stage in lowered.stages:
            for value in stage.inputs:
                readers.setdefault(root(lowered, value).name, []).append(stage.name)
        for value in lowered.outputs:
            readers.setdefault(root(lowered, value).name, []).append("")
        self.readers = readers
        # By stage: those that read what it writes.
        after: list[list[int]] = [[] for _ in lowered.stages]
        writers: dict[str, list[tuple[int, Value]]] = {}
        makers: dict[str, list[int]] = {}  # by the name of what they make
        for place, stage in enumerate(lowered.stages):
            sources = dict.fromkeys(
                writer
                for value in stage.inputs
                for writer, output in writers.get(root(lowered, value).name, [])
                if _share_bytes(lowered, output, value)
            )
            waits = stage.waits if isinstance(stage, CopyStage) else ()
            sources |= dict.fromkeys(maker for name in waits for maker in makers.get(name, ()))
            for writer in sources:
                after[writer].append(place)
            makers.setdefault(stage.output.name, []).append(place)
            made_in = root(lowered, stage.output).name
            writers.setdefault(made_in, []).append((place, stage.output))
        self.after = after
        self.units_of_cut: dict[str, int] = {}  # that an epoch has used behind which a cut follows
        self.missing = Counter(place for followers in self.after for place in followers)
        self.ready = [n for n in range(len(lowered.stages)) if not self.missing[n]]

    def fill(self, group: StageGroup) -> None:
        """Move what fits into an empty epoch."""
        if self.alternative:
            self._fill_by_level(group)
            return
        waiting, self.ready = sorted(self.ready, key=self._is_work), []
        remaining = [place for place in waiting if not self._take(place, group)]
        self.ready = remaining + self.ready
        self.units_of_cut = {}
        cut = [place for place in self.ready if self._is_cut(place, group)]
        if cut and self.machine.generation.cut_keeps_units:
            self.ready = cut + [place for place in self.ready if place not in cut]
            self.units_of_cut = dict(group.units)

    def _fill_by_level(self, group: StageGroup) -> None:
        """The same by the alternative scheduler: all that is ready in turn, then what follows from
        it. The first stage for which units are missing closes the epoch; one that cannot read from
        inside it waits, as calls and copies do. Of a value's readers in a TFLite network only the
        first goes on, the others begin the next epoch [code: MoveNet, where it was found,
        CenterFace, YOLOX, hand landmarks; 2.1 and 2.2. In YOLOX a branch is followed before its
        turn comes, not elsewhere; a published question shows an ONNX network without waiting]."""
        self.ready.sort(key=self._is_work)
        waiting: list[int] = []
        others: list[int] = []
        while self.ready:
            place = self.ready[0]
            stage = self.lowered.stages[place]
            tables = self.lowered, self.readers, self.machine
            if group.stages and not _joins(stage, group, *tables):
                waits = isinstance(stage, CallStage | CopyStage)
                if not waits and _can_read(stage, group, self.lowered, self.machine):
                    break
                waiting.append(self.ready.pop(0))
                continue
            self.ready.pop(0)
            group.add(stage, self.machine)
            for follower in self.after[place]:
                self.missing[follower] -= 1
            followers = [n for n in self.after[place] if not self.missing[n]]
            now = 1 if self.readers_wait else len(followers)
            self.ready += followers[:now]
            others += followers[now:]
        self.ready = others + waiting + self.ready

    def _is_cut(self, place: int, group: StageGroup) -> bool:
        """It would be in the epoch if two of its operands had no common ancestor there."""
        stage = self.lowered.stages[place]
        room = _has_room(stage, group, self.lowered, self.readers, self.machine)
        return room and _reconverges(stage, group, self.machine.generation.cuts_reconvergence)

    def _is_work(self, place: int) -> bool:
        """Of the NPU, that is."""
        return not isinstance(self.lowered.stages[place], CallStage)

    def _take(self, place: int, group: StageGroup) -> bool:
        """Add the stage if it fits, and what it makes ready."""
        stage = self.lowered.stages[place]
        if group.stages and not _joins(stage, group, self.lowered, self.readers, self.machine):
            return False
        group.add(stage, self.machine)
        for follower in self.after[place]:
            self.missing[follower] -= 1
            if not self.missing[follower] and not self._take(follower, group):
                self.ready.append(follower)
        return True


def root(lowered: Lowered, value: Value) -> Value:
    """The value whose bytes a view shows."""
    while value.name in lowered.views:
        value = lowered.views[value.name]
    return value


def _joins(
    stage: Stage,
    group: StageGroup,
    lowered: Lowered,
    readers: dict[str, list[str]],
    machine: Machine,
) -> bool:
    if isinstance(stage, CallStage) or isinstance(group.stages[0], CallStage):
        return False
    readable = _can_read(stage, group, lowered, machine)
    return readable and _has_room(stage, group, lowered, readers, machine)


def _can_read(stage: Stage, group: StageGroup, lowered: Lowered, machine: Machine) -> bool:
    """What it takes from inside the epoch can stream into it."""
    return (
        not _reads_view_of(stage, group, lowered)
        and _copies_apart(stage, group)
        and all(_streams(stage, value, group, machine) for value in stage.inputs)
        and not _reconverges(stage, group, machine.generation.cuts_reconvergence)
    )


def _has_room(
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


def _copies_apart(stage: Stage, group: StageGroup) -> bool:
    """A copy goes from memory to memory: what it reads and what reads it are other epochs."""
    makers = [maker for maker in map(group.producer, stage.inputs) if maker]
    copies = isinstance(stage, CopyStage) or any(isinstance(m, CopyStage) for m in makers)
    return not (makers and copies)


def _reads_view_of(stage: Stage, group: StageGroup, lowered: Lowered) -> bool:
    """True if it reads a view of bytes that this epoch writes: they exist in memory only."""
    others = [value for value in stage.inputs if value.name not in group.makers]
    return any(_share_bytes(lowered, s.output, value) for s in group.stages for value in others)


def _share_bytes(lowered: Lowered, one: Value, other: Value) -> bool:
    """Two values lie in the same buffer, and not in different parts or channels of it."""
    if root(lowered, one).name != root(lowered, other).name:
        return False
    if one.skip + one.elements <= other.skip or other.skip + other.elements <= one.skip:
        return False
    apart = one.first + one.channels <= other.first or other.first + other.channels <= one.first
    return not (one.pitch and one.pitch == other.pitch and apart)


def _pieces_fit(stage: Stage, group: StageGroup) -> bool:
    """Pieces of a dilated kernel stand alone, many of another one go in pairs.

    Parts that are cut by passes follow each other: so STFT-TCNN takes what was published with 2.2,
    3.0 and 4.0; side by side it would take half of it.
    """
    orders = [s.order for s in (*group.stages, stage) if isinstance(s, ConvStage)]
    if PieceOrder.CHAIN in orders or orders.count(PieceOrder.SERIES) > 1:
        return False
    return orders.count(PieceOrder.PAIRS) <= _PAIR


_PAIR = 2


def unit_needs(stage: Stage) -> dict[str, int]:
    """Processing units a stage takes."""
    if isinstance(stage, ConvStage):
        return {"CONVACC": stage.tiling.pipe}
    if isinstance(stage, ArithStage):
        return {"ARITH": 1}
    if isinstance(stage, PoolStage):
        return {"POOL": 1}
    if isinstance(stage, ActivStage):
        return {"ACTIV": 1}
    return {}


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
        whole = stage.seen == value.shape[:2]
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


def _reconverges(stage: Stage, group: StageGroup, always: bool) -> bool:
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
