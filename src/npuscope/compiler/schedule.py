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

from npuscope.compiler.groups import StageGroup, pads_alone
from npuscope.compiler.joining import can_read, has_room, joins, reconverges, root, share_bytes
from npuscope.compiler.stages import (
    CallStage,
    CopyStage,
    Lowered,
    Value,
)
from npuscope.machine.model import Machine


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
        # The single channels of a padded pool bind no sum that reads them later [external RAM of
        # st_yolodv2 tiny 288 at 3.0 and 4.0, exact; time of its rows and of st_resnet tiny].
        padded = any(pads_alone(stage, machine) for stage in group.stages)
        if machine.generation.shortcut_frames and not padded:
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
                if share_bytes(lowered, output, value)
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
            if group.stages and not joins(stage, group, *tables):
                waits = isinstance(stage, CallStage | CopyStage)
                if not waits and can_read(stage, group, self.lowered, self.machine):
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
        room = has_room(stage, group, self.lowered, self.readers, self.machine)
        return room and reconverges(stage, group, self.machine.generation.cuts_reconvergence)

    def _is_work(self, place: int) -> bool:
        """Of the NPU, that is."""
        return not isinstance(self.lowered.stages[place], CallStage)

    def _take(self, place: int, group: StageGroup) -> bool:
        """Add the stage if it fits, and what it makes ready."""
        stage = self.lowered.stages[place]
        if group.stages and not joins(stage, group, self.lowered, self.readers, self.machine):
            return False
        group.add(stage, self.machine)
        for follower in self.after[place]:
            self.missing[follower] -= 1
            if not self.missing[follower] and not self._take(follower, group):
                self.ready.append(follower)
        return True
