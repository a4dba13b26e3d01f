"""An application on a simulated board: its frames, the runs that faults lead to, what they show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import numpy as np
from msgspec import Struct

from npuscope.diagnosis.fault import RIGHT, BoardFault, Drain, Feed
from npuscope.diagnosis.runs import FaultyRun, FaultyRuns, RunStart
from npuscope.diagnosis.sights import Array, Bytes, Sight, SightView
from npuscope.program.model import Program, images
from npuscope.sim.run import written
from npuscope.structs import replace

MARKER = 0x55
_SLOW_S, _COSTLY_S = 0.25, 0.06


class Frame(Struct, frozen=True):
    """The values of all inputs, by buffer, in logical order."""

    inputs: dict[str, Array]


class BoardScene:
    """Frames that an application shows one after the other to a program, and what can be seen.

    `previous` is the frame before the first one, where it is known; `other` another build whose
    weights or programme may be on the board.
    """

    def __init__(
        self,
        program: Program,
        frames: Sequence[Frame],
        previous: Frame | None = None,
        other: Program | None = None,
        asked: Iterable[str] = (),
    ) -> None:
        self.program = program
        self.frames = tuple(frames)
        self.previous = previous
        self.other = other
        self.asked = tuple(asked)
        self.buffers = program.buffer_map()
        self.runs = FaultyRuns(self.asked, self.watched)
        self._faults: dict[object, tuple[BoardFault, ...]] = {}
        self._wider: BoardScene | None = None

    @property
    def seconds_of_run(self) -> float:
        return self.runs.seconds / max(1, self.runs.executions)

    @property
    def has_frames_before(self) -> bool:
        """Is the input of an earlier run known?"""
        return self.previous is not None or len(self.frames) > 1

    @property
    def is_slow(self) -> bool:
        """Is a run too long for many more of them?"""
        return self.seconds_of_run > _SLOW_S

    @property
    def is_costly(self) -> bool:
        """Is a run too long for thousands of them?"""
        return self.seconds_of_run > _COSTLY_S

    @cached_property
    def images(self) -> dict[str, Bytes]:
        """Weights by pool, as they are to be on the board."""
        return {p: np.frombuffer(data, np.uint8) for p, data in images(self.program).items()}

    @cached_property
    def watched(self) -> tuple[str, ...]:
        """Inputs, outputs and some buffers between, for the pattern that shows who writes."""
        names = [n for epoch in self.program.executed for n in written(epoch)]
        inner = list(dict.fromkeys(n for n in names if not self.buffers[n].is_param))
        step = max(1, len(inner) // 8)
        border = (*self.program.inputs, *self.program.outputs)
        return tuple(dict.fromkeys((*border, *inner[::step])))

    def address(self, name: str) -> tuple[int, int]:
        buffer = self.buffers[name]
        start = self.program.pool(buffer.pool).address + buffer.offset
        return start, start + buffer.size_bytes

    def faults(
        self, key: object, make: Callable[[], Iterable[BoardFault]]
    ) -> tuple[BoardFault, ...]:
        """Made once: the results of their runs are kept by them."""
        if key not in self._faults:
            self._faults[key] = tuple(make())
        return self._faults[key]

    def wider(self, frames: Callable[[], Iterable[Frame]], asked: Sequence[str]) -> BoardScene:
        """With more frames, and more buffers to look at."""
        if self._wider is None:
            more = [*self.frames, *frames()]
            self._wider = BoardScene(self.program, more, self.previous, self.other, asked)
            self._wider.runs.most_bytes = self.runs.most_bytes
        return self._wider

    # --- What a fault lets one see ---

    def predict(self, sight: Sight, fault: BoardFault = RIGHT) -> Array | None:
        """Stored values; None where the fault says nothing about it, or the board would stop."""
        frame = sight.frame
        match sight.view:
            case SightView.WEIGHTS:
                return self._flashed(sight.name, fault)
            case SightView.INPUT:
                return self._held_by_ram(
                    sight.name, self._supplied(sight.name, frame, fault), fault
                )
            case SightView.INPUT_RAM:
                return self._held_by_ram(sight.name, self._fetched(sight.name, frame, fault), fault)
            case SightView.OUTPUT_RAM:
                return self._settled(frame, fault).get(sight.name)
            case SightView.OUTPUT:
                settled = self._settled(frame, fault)
                return self._drained(settled, frame, fault, fault.read).get(sight.name)
            case SightView.AGAIN:
                return self._again(sight.name, frame, fault)
            case SightView.BUFFER:
                ran = self._ran(frame, fault, last=self._last_writer(sight.name))
                return None if ran is None else ran.inner.get(sight.name)
            case SightView.MARKER:
                ran = self._ran(frame, fault, MARKER)
                if ran is None:
                    return None
                pairs = zip(self.watched, ran.kept_marker, strict=True)
                return np.array([self._keeps(n, still, fault) for n, still in pairs], np.uint8)
            case SightView.FLASH_WORD:
                return np.array([not fault.unmapped], np.uint8)

    def leaves(self, sight: Sight, fault: BoardFault) -> bool:
        """Would it be as on a right board?"""
        values, right = self.predict(sight, fault), self.predict(sight)
        return values is not None and right is not None and np.array_equal(values, right)

    def _flashed(self, pool: str, fault: BoardFault) -> Bytes | None:
        """Weights as the CPU reads them; old firmware comes with its own."""
        image = self.images.get(pool)
        if fault.program is not None and fault.program is self.other:
            theirs = images(fault.program).get(pool)
            image = None if theirs is None else np.frombuffer(theirs, np.uint8)
        return image if image is None or fault.image is None else fault.image(pool, image)

    def _held_by_ram(self, name: str, values: Array | None, fault: BoardFault) -> Array | None:
        """What can be read back of an input: nothing, where its RAM is off."""
        start, end = self.address(name)
        off = any(b.start < end and start < b.end and not b.open_to_cpu for b in fault.blocked)
        return np.zeros_like(values) if off and values is not None else values

    def feed(self, name: str, frame: int) -> Feed:
        """The input's values with those of the run before, as far as they are known."""
        before = self.frames[frame - 1] if frame else self.previous
        return Feed(
            self.buffers[name],
            self.frames[frame].inputs[name],
            None if before is None else before.inputs[name],
            self._left(name, before),
        )

    def _left(self, name: str, before: Frame | None) -> Array | None:
        """What the run before left in the memory of an input."""
        if before is None:
            return None
        inputs = {n: Feed(self.buffers[n], values).stored() for n, values in before.inputs.items()}
        ran = self.runs.run(RunStart(self.program, inputs, again=True))
        return None if ran is None else ran.left[name]

    def left_by(self, feed: Feed) -> Array | None:
        """What a run of the same frame leaves in the memory of its input."""
        name = feed.buffer.name
        for frame in self.frames:
            if np.array_equal(frame.inputs[name], feed.values):
                return self._left(name, frame)
        return None

    def _supplied(self, name: str, frame: int, fault: BoardFault) -> Array | None:
        feed = self.feed(name, frame)
        return feed.stored() if fault.supply is None else fault.supply(feed)

    def _fetched(self, name: str, frame: int, fault: BoardFault) -> Array | None:
        stored = self._supplied(name, frame, fault)
        if stored is None or fault.fetch is None:
            return stored
        feed = self.feed(name, frame)
        return fault.fetch(Feed(feed.buffer, feed.logical(stored), feed.before, feed.left))

    def inner(self, fault: BoardFault) -> dict[str, Bytes]:
        """The buffers asked for in a run of the first frame; none where it cannot go on."""
        ran = self._ran(0, fault)
        return {} if ran is None else ran.inner

    def _last_writer(self, name: str) -> int | None:
        """The epoch behind which a buffer is looked at."""
        numbers = [epoch.number for epoch in self.program.executed if name in written(epoch)]
        return numbers[-1] if numbers else None

    def _ran(
        self,
        frame: int,
        fault: BoardFault,
        fill: int = 0,
        last: int | None = None,
        again: bool = False,
    ) -> FaultyRun | None:
        inputs = {name: self._fetched(name, frame, fault) for name in self.program.inputs}
        complete = {name: values for name, values in inputs.items() if values is not None}
        if len(complete) < len(inputs):
            return None
        program = fault.program or self.program
        last = None if fault.program else last  # whose epochs have other numbers
        return self.runs.run(RunStart(program, complete, fill, last, again), fault)

    def _settled(self, frame: int, fault: BoardFault) -> dict[str, Array]:
        """Outputs in RAM when the run is over, as the CPU can read it."""
        ran = self._ran(frame, fault)
        if ran is None:
            return {}
        outputs = dict(ran.outputs)
        for name, values in outputs.items():
            start, end = self.address(name)
            for block in fault.blocked:
                if block.start < end and start < block.end:
                    outputs[name] = np.zeros_like(values)
        return self._drained(outputs, frame, fault, fault.settle)

    def _drained(
        self, outputs: dict[str, Array], frame: int, fault: BoardFault, change: object
    ) -> dict[str, Array]:
        if not callable(change):
            return outputs
        before = self._before(frame, fault)
        results = {
            name: change(Drain(self.buffers[name], values, before.get(name), outputs))
            for name, values in outputs.items()
        }
        return {name: values for name, values in results.items() if values is not None}

    def _before(self, frame: int, fault: BoardFault) -> dict[str, Array]:
        """Outputs of the run before, with the same fault on the NPU's side."""
        if not frame and self.previous is None:
            return {}
        inner = replace(fault, settle=None, read=None)
        if frame:
            return self._settled(frame - 1, inner)
        alone = BoardScene(self.program, [self.previous or self.frames[0]], None, self.other)
        alone.runs = self.runs
        return alone._settled(0, inner)

    def _again(self, name: str, frame: int, fault: BoardFault) -> Array | None:
        """A second run on what the first one left in the input buffers."""
        first = self._ran(frame, fault, again=True)
        program = fault.program or self.program
        ran = None if first is None else self.runs.run(RunStart(program, first.left), fault)
        if first is None or ran is None:
            return None
        values: Array | None = ran.outputs[name]
        for change in (fault.settle, fault.read):
            if change is not None and values is not None:
                before = first.outputs[name]
                values = change(Drain(self.buffers[name], values, before, ran.outputs))
        return values

    def _keeps(self, name: str, still: bool, fault: BoardFault) -> bool:
        """Does the CPU still find the pattern in a buffer that is `still` as it was in RAM?"""
        if name in self.program.inputs:
            return "inputs" in fault.untouched
        start, end = self.address(name)
        for block in fault.blocked:
            if block.start < end and start < block.end:
                return block.open_to_cpu
        if name in self.program.outputs and (fault.read or fault.settle):
            return "outputs" in fault.untouched
        return still
