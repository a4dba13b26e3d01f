"""What advice is given on: a program, a run of it, the machine, and the network if known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from npuscope.advice.bench import Bench
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.profiling.model import EpochProfile, Profile
from npuscope.program.model import Buffer, Epoch, EpochKind, Program
from npuscope.program.units import Convacc

LAYERS = ("Conv2D", "FullyConnected")
# Kernels whose time on the CPU is only bounded from below, unless the machine's file tells it.
UNCOSTED = (*LAYERS, "MatMul", "TransposeConv")


@dataclass(frozen=True, slots=True)
class Subject:
    """`graph` is None for programs read from vendor files; gains are then mostly unknown."""

    program: Program
    profile: Profile
    machine: Machine
    graph: Graph | None = None
    bench: Bench = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bench", Bench(self.machine))

    def epochs(self, *kinds: EpochKind) -> Iterator[tuple[Epoch, EpochProfile]]:
        """Epochs with their figures; a measured meta epoch stands for its first one."""
        by_number = {epoch.number: epoch for epoch in self.program.executed}
        for run in self.profile.epochs:
            epoch = by_number.get(run.first)
            if epoch is not None and (not kinds or epoch.kind in kinds):
                yield epoch, run

    def hardware(self, share: float = 0.0) -> Iterator[tuple[Epoch, EpochProfile]]:
        """Epochs of the NPU that take at least this share of the time."""
        for epoch, run in self.epochs(EpochKind.HW):
            if run.ms >= share * self.profile.total_ms:
                yield epoch, run

    def layers(self, share: float) -> Iterator[tuple[Epoch, EpochProfile, Op]]:
        """Slow epochs with the layer of the network that they run; a layer in several epochs
        is told with its first."""
        ops, told = self._layers_by_origin(), set()
        for epoch, run in self.hardware(share):
            found = [ops[name] for name in epoch.origin if name in ops]
            if found and convolutions(epoch) and found[0].name not in told:
                told.add(found[0].name)
                yield epoch, run, found[0]

    def _layers_by_origin(self) -> dict[str, Op]:
        if self.graph is None:
            return {}
        return {name: op for op in self.graph.ops if op.kind in LAYERS for name in op.origin}

    def share(self, ms: float) -> float:
        return ms / self.profile.total_ms if self.profile.total_ms else 0.0

    def external(self) -> list[Buffer]:
        """Activations outside the chip, the largest first."""
        pools = {m.name for m in self.machine.pools if m.cacheable and m.writable}
        found = [b for b in self.program.buffers if b.pool in pools and not b.is_param]
        found = [buffer for buffer in found if not buffer.view_of]
        return sorted(found, key=lambda buffer: -buffer.size_bytes)

    def is_of_layers(self, epoch: Epoch) -> bool:
        """Work of convolutions and dense layers alone, such as joining their pieces."""
        ops = self._layers_by_origin()
        return bool(epoch.origin) and all(name in ops for name in epoch.origin)


def convolutions(epoch: Epoch) -> list[Convacc]:
    return [unit for unit in epoch.units if isinstance(unit, Convacc)]


def accumulation_passes(epoch: Epoch) -> int:
    """How often sums go through memory; 1 where the units hold all input channels."""
    return max((unit.afilt_tot for unit in convolutions(epoch)), default=0) or 1
