"""The stages of one epoch: the units they take, the frames in which values pass."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from msgspec import Struct, field

from npuscope.compiler.stages import (
    ActivStage,
    ArithStage,
    ConvStage,
    PoolStage,
    Stage,
    Value,
)
from npuscope.geometry.divisors import largest_divisor
from npuscope.geometry.tiling import pool_limit
from npuscope.machine.model import Machine


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
    # All frames of a map of one position are the same bytes in the same order [board: epochs of a
    # spiking network of 2.2, 18 of 18 steps].
    met = group.written_frames(stage) if prod(stage.output.shape[:2]) > 1 else []
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
    convolution of one channel pads what it reads [code: OSNet, 3.0; st_yolodv2 milli, 4.0]."""
    return 1 if pads_alone(stage, machine) else pool_limit(stage.inputs[0].shape[1], machine)


def pads_alone(stage: Stage, machine: Machine) -> bool:
    """A padded pool of a generation that gives it an epoch of its own."""
    padded = isinstance(stage, PoolStage) and any(stage.pads)
    return padded and not machine.generation.joins_padded_pools


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
