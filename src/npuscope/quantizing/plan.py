"""What quantizers are told: the range of every activation. Both formats are made from this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from npuscope.ops.table import onnx_names
from npuscope.ops.traits import Trait
from npuscope.structs import replace

_STEPS = 255
_LOWEST, _HIGHEST = -128, 127
_SMALLEST_SCALE = 1e-8  # a tensor that was 0 in all samples still needs a scale


class ActivationRange(Struct, frozen=True):
    """Real values that the int8 steps of a tensor cover; zero is always among them."""

    low: float
    high: float

    def joined(self, other: ActivationRange) -> ActivationRange:
        return ActivationRange(min(self.low, other.low), max(self.high, other.high))

    @property
    def scale(self) -> float:
        width = max(self.high, 0.0) - min(self.low, 0.0)
        return max(float(np.float32(width / _STEPS)), _SMALLEST_SCALE)

    @property
    def zero_point(self) -> int:
        steps = round(_LOWEST - min(self.low, 0.0) / self.scale)
        return int(np.clip(steps, _LOWEST, _HIGHEST))

    @property
    def is_fast(self) -> bool:
        """The units subtract no zero point."""
        return self.zero_point in (0, _LOWEST)

    @property
    def lost_bits(self) -> float:
        """What a zero point of 0 costs: 0 for a symmetric range, 1 for one that starts at zero."""
        width = max(self.high, 0.0) - min(self.low, 0.0)
        largest = max(-self.low, self.high, 0.0)
        return float(np.log2(2 * largest / width)) if width > 0 else 0.0

    def centred(self) -> ActivationRange:
        """With zero point 0."""
        step = max(-self.low / -_LOWEST, self.high / _HIGHEST, _SMALLEST_SCALE)
        return ActivationRange(_LOWEST * step, _HIGHEST * step)


class FloatLayer(Struct, frozen=True):
    """One op of the float file as both formats have it; kinds are those of ONNX."""

    name: str
    kind: str
    inputs: tuple[str, ...]  # computed ones, without constants
    outputs: tuple[str, ...]
    weights: str = ""


class RangePlan(Struct, frozen=True):
    """`equalised`: the float network has weights moved between its layers. `narrow`: ops that the
    tool underneath leaves in float by default stay so. `shifts` are added to the bias of layers, by
    the name of what they make."""

    method: str
    ranges: Mapping[str, ActivationRange]
    equalised: bool = False
    narrow: bool = False
    ties: tuple[tuple[str, ...], ...] = ()  # tensors that share their steps by choice
    shifts: Mapping[str, np.ndarray] = field(default_factory=dict)
    per_tensor: bool = False  # one scale for all weights of a layer
    wide: tuple[str, ...] = ()  # tensors of 16 bits
    four_bits: tuple[str, ...] = ()  # weights of layers, by name

    def with_ranges(
        self, changed: Mapping[str, ActivationRange], ties: tuple[tuple[str, ...], ...] = ()
    ) -> RangePlan:
        ranges = {**self.ranges, **changed}
        return replace(self, ranges=ranges, ties=(*self.ties, *ties))


# Ops whose results have the steps of their operand: quantizers tie them anyway.
MOVES = onnx_names(Trait.MOVES) - {"Concat"} | {"AveragePool", "Resize"}


def tied(layers: Sequence[FloatLayer], plan: RangePlan) -> dict[str, tuple[str, ...]]:
    """For every tensor all that have its steps: by moves, or by a choice."""
    first: dict[str, str] = {}
    links = [
        (layer.inputs[0], *layer.outputs)
        for layer in layers
        if layer.kind in MOVES and layer.inputs
    ]
    for link in (*links, *plan.ties):
        roots = {_root(first, name) for name in link}
        first.update(dict.fromkeys(roots, _root(first, link[0])))
    members: dict[str, list[str]] = {}
    for name in plan.ranges:
        members.setdefault(_root(first, name), []).append(name)
    return {name: tuple(members[_root(first, name)]) for name in plan.ranges}


def _root(first: Mapping[str, str], name: str) -> str:
    while first.get(name, name) != name:
        name = first[name]
    return name
