"""Memory of activations: banks that are off or closed, and buffers that others write to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npuscope.diagnosis.causes.lines import head_end, line_count
from npuscope.diagnosis.causes.registry import FaultPlace, cause
from npuscope.diagnosis.fault import Blocked, BoardFault, Drain, Drained, Step
from npuscope.diagnosis.scene import BoardScene
from npuscope.diagnosis.sights import Array
from npuscope.program.model import Epoch
from npuscope.program.units import Ref
from npuscope.sim.memory import Memory
from npuscope.sim.run import written

_MOST_VICTIMS = 40
_RARE_VICTIMS = 4  # every fourth of them is tried before the others
_EXTERNAL = 0x90000000
_BANK = 0x70000  # of the NPU's RAM: AXISRAM3 to 6
_BANKS_START = 0x34200000


def _ranges(scene: BoardScene) -> Iterator[tuple[str, int, int]]:
    """Pools with activations, and the banks that a large one spans."""
    program = scene.program
    used = [b for b in program.buffers if not b.is_param and not b.view_of]
    ranges: dict[tuple[int, int], str] = {}
    for pool in program.pools:
        if pool.virtual or not any(b.pool == pool.name for b in used):
            continue
        ranges.setdefault((pool.address, pool.address + pool.size_bytes), pool.name)
    spans = [(scene.address(b.name)) for b in used]
    for number in range(4):
        start = _BANKS_START + number * _BANK
        end = start + _BANK
        inside = any(low <= start and end <= high for low, high in ranges)
        if inside and any(low < end and start < high for low, high in spans):
            ranges.setdefault((start, end), f"AXISRAM{number + 3}")
    for (start, end), name in ranges.items():
        yield name, start, end
    if len(ranges) > 1:
        yield "all RAM", min(s for s, _ in ranges), max(e for _, e in ranges)


@cause(
    "bank-off",
    FaultPlace.MEMORY,
    "enable the clock of each RAM bank and clear its shutdown bit before the first run",
    often=4,
)
def bank_off(scene: BoardScene) -> Iterator[BoardFault]:
    """A RAM bank is off: it reads as zero and loses what is written."""
    for name, start, end in _ranges(scene):
        if start < _EXTERNAL:
            yield BoardFault(f"{name} is off", blocked=(Blocked(start, end, open_to_cpu=False),))


@cause(
    "bank-closed-to-npu",
    FaultPlace.MEMORY,
    "give the NPU's master the attributes of the region, or open the region (RIF, RISAF)",
    often=5,
)
def bank_closed(scene: BoardScene) -> Iterator[BoardFault]:
    """The NPU may not use a RAM region: it reads zeros there, and its writes are dropped."""
    for name, start, end in _ranges(scene):
        yield BoardFault(
            f"{name} is closed to the NPU", blocked=(Blocked(start, end, open_to_cpu=True),)
        )


@cause(
    "psram-unmapped",
    FaultPlace.MEMORY,
    "map the external RAM before the first run, or build without it",
    often=2,
)
def psram(scene: BoardScene) -> Iterator[BoardFault]:
    """External RAM that the build uses is not mapped."""
    for name, start, end in _ranges(scene):
        if start >= _EXTERNAL:
            yield BoardFault(
                f"{name} reads as zero", blocked=(Blocked(start, end, open_to_cpu=False),)
            )


def _overwritten(name: str, epoch: Epoch, value: int) -> Step:
    number = epoch.number

    def step(running: Epoch, memory: Memory) -> None:
        if running.number == number:
            buffer = memory.buffer(name)
            memory.span(memory.address(Ref(name)), buffer.size_bytes)[:] = value

    return step


@cause(
    "buffer-overlap",
    FaultPlace.MEMORY,
    "keep heap, stacks, frame buffers and other networks out of the network's pools",
    often=3,
)
def overlap(scene: BoardScene) -> Iterator[BoardFault]:
    """A buffer inside the network is overwritten while it waits to be read."""
    inner = [
        (name, epoch)
        for epoch in scene.program.executed
        for name in written(epoch)
        if name not in scene.program.outputs and not scene.buffers[name].is_param
    ]
    victims = inner[:: max(1, len(inner) // _MOST_VICTIMS)]
    for number, (name, epoch) in enumerate(victims):
        for value in (0, 0xFF):
            words = f"'{name}' overwritten with 0x{value:02X} behind {epoch.name}"
            is_rare = bool(number % _RARE_VICTIMS)
            step = _overwritten(name, epoch, value)
            yield BoardFault(words, step=step, deadens=True, rare=is_rare)


def _line(scene: BoardScene, number: int, value: int) -> Drained:
    def settle(drain: Drain) -> Array | None:
        raw = drain.values.view(np.uint8).copy()
        base = scene.address(drain.buffer.name)[0]
        start, end = (head_end(base, raw.size, count) for count in (number, number + 1))
        raw[max(0, start) : end] = value
        return raw.view(drain.values.dtype)

    return settle


@cause(
    "output-overwritten",
    FaultPlace.MEMORY,
    "invalidate the output's lines before the run, and give it lines that no variable shares",
    often=2,
)
def evicted(scene: BoardScene) -> Iterator[BoardFault]:
    """Lines of the CPU's cache were written back over the result."""
    spans = [scene.address(name) for name in scene.program.outputs]
    lines = max(line_count(start, end - start) for start, end in spans)
    for number in range(min(lines, 256)):
        for value in (0, 0xFF):
            words = f"line {number} of the output is 0x{value:02X} in RAM"
            yield BoardFault(words, settle=_line(scene, number, value))
