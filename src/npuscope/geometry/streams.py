"""What the streams of a dense layer take: words of each, cycles of the longest.

Features come once per tile of kernels, kernels once, sums once per pass; one word moves per cycle,
and a frame whose sums go through memory takes one more turn. How the layer is cut is the tiling's.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from msgspec import Struct

from npuscope.geometry.tiling import (
    ConvShape,
    Tiling,
    base_tiling,
    longest_stream,
    modes,
    tile_limit,
)
from npuscope.machine.model import Machine
from npuscope.program.modes import Simd
from npuscope.structs import replace


class DenseLayer(Struct, frozen=True):
    """A layer that sums over all its input channels."""

    shape: ConvShape
    simd: Simd

    def count(self, side: str) -> int:
        return self.shape.inputs if side == "inputs" else self.shape.outputs

    def with_count(self, side: str, count: int) -> DenseLayer:
        if side == "inputs":
            return replace(self, shape=replace(self.shape, inputs=count))
        return replace(self, shape=replace(self.shape, outputs=count))

    def cycles(self, machine: Machine) -> float:
        """Of the longest stream, with all units that help."""
        return _cycles(base_tiling(self.shape, self.simd, machine), self.shape, machine)

    def slowdown(self, machine: Machine) -> float:
        """Ratio to the cycles that parts of full size would take."""
        whole = (_cycles(tiling, self.shape, machine) for tiling in self._whole_parts(machine))
        return self.cycles(machine) / min(whole)

    def kernels(self, machine: Machine) -> int:
        """Parallel ones, at most."""
        return max(tiling.kernels for tiling in self._whole_parts(machine))

    def _whole_parts(self, machine: Machine) -> Iterator[Tiling]:
        """By mode, as if channels of any count filled the tiles."""
        inputs, outputs = self.shape.inputs, self.shape.outputs
        for mode in modes(self.shape, self.simd, machine):
            limit = tile_limit(self.shape, mode, self.simd, machine)
            pipe = min(machine.longest_pipe, ceil(inputs / limit.depth))
            passes, tiles = ceil(inputs / (limit.depth * pipe)), ceil(outputs / limit.kernels)
            yield Tiling(mode, limit.kernels, limit.depth, pipe, passes, tiles)


def _cycles(tiling: Tiling, shape: ConvShape, machine: Machine) -> float:
    turns = tiling.frames if tiling.passes > 1 else 0
    words = longest_stream(tiling, shape, tiling.tiles)
    return words + machine.timing.accumulation_turn_cycles * turns
