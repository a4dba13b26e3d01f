"""What may be chosen beside the ranges that were seen, from what the rules know of the machine.

A part changes a plan at one place. `bench` tries all parts of a choice together, then one by one,
and keeps what helps: none of them has to be trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce

from npuscope.ops.table import ONNX_ROWS, onnx_names
from npuscope.ops.traits import Trait
from npuscope.quantizing.plan import ActivationRange, FloatLayer, RangePlan, tied

Part = Callable[[RangePlan], RangePlan]

# Ranges so many times apart in one int8 tensor leave the smaller one less than 4 of its 8 bits.
MOST_UNLIKE = 16.0
_NEAR, _SMALL_LOSS = 0.3, 0.05  # bits that a zero point of 0 costs


def fixed_range(kind: str) -> ActivationRange | None:
    """The range that does not depend on data, up to its last step."""
    quant = ONNX_ROWS[kind].fixed_quant if kind in ONNX_ROWS else None
    if quant is None:
        return None
    low, high = ((limit - quant.zero_point) * quant.scale for limit in (-128, 127))
    return ActivationRange(low, high)


def fixed_tails(plan: RangePlan, layers: Sequence[FloatLayer]) -> list[Part]:
    """Softmax, Sigmoid and Tanh in the ranges that they can have at all."""
    ranges = {
        name: fixed
        for layer in layers
        if (fixed := fixed_range(layer.kind)) is not None
        for name in layer.outputs
    }
    changed = {n: fixed for n, fixed in ranges.items() if plan.ranges.get(n, fixed) != fixed}
    return [partial(RangePlan.with_ranges, changed=changed)] if changed else []


def shared_scales(plan: RangePlan, layers: Sequence[FloatLayer], kind: str) -> list[Part]:
    """The operands of a Concat and its result in one range: the join then moves bytes. Those of
    an Add: neither is rescaled (LINT-ADD-SCALES). Not where the range of one would swallow
    another."""
    parts: list[Part] = []
    for layer in layers:
        names = (*layer.inputs, *layer.outputs) if kind == "Concat" else layer.inputs
        if layer.kind != kind or not plan.ranges.keys() >= set(names):
            continue
        scales = [plan.ranges[name].scale for name in names]
        differ = len({plan.ranges[name] for name in names}) > 1
        if differ and max(scales) < MOST_UNLIKE * min(scales):
            parts.append(partial(_shared, layers=layers, tie=tuple(dict.fromkeys(names))))
    return parts


def _shared(plan: RangePlan, layers: Sequence[FloatLayer], tie: tuple[str, ...]) -> RangePlan:
    joint = tied(layers, plan.with_ranges({}, (tie,)))[tie[0]]
    whole = reduce(ActivationRange.joined, (plan.ranges[name] for name in joint))
    return plan.with_ranges(dict.fromkeys(joint, whole), (tie,))


def fast_zero_points(
    plan: RangePlan, layers: Sequence[FloatLayer], gains_ms: Mapping[str, float]
) -> list[Part]:
    """Inputs of layers with zero point 0, so that the units need not subtract one (ADV-MODE-16X8).

    First those that the rules expect a gain of, most for what they lose; then all others, in two
    parts: nearly symmetric ones, and the rest."""
    read = [
        (layer, layer.inputs[0])
        for layer in layers
        if layer.kind in onnx_names(Trait.PRODUCT) and layer.inputs
    ]
    slow = {n: plan.ranges[n] for _, n in read if n in plan.ranges and not plan.ranges[n].is_fast}
    gains: dict[str, float] = {}
    for layer, name in read:
        if name in slow and layer.name in gains_ms:
            gains[name] = gains.get(name, 0.0) + gains_ms[layer.name]
    order = sorted(gains, key=lambda n: gains[n] / (slow[n].lost_bits + _SMALL_LOSS), reverse=True)
    others = [name for name in slow if name not in gains]
    near = [name for name in others if slow[name].lost_bits <= _NEAR]
    rest = [name for name in others if slow[name].lost_bits > _NEAR]
    groups = [*([name] for name in order), *(group for group in (near, rest) if group)]
    return [partial(_centred, layers=layers, names=group) for group in groups]


def _centred(plan: RangePlan, layers: Sequence[FloatLayer], names: Sequence[str]) -> RangePlan:
    groups = tied(layers, plan)
    changed = {m: plan.ranges[name].centred() for name in names for m in groups[name]}
    return plan.with_ranges(changed)
