"""What may be chosen where labels judge: ranges of single tensors, biases, one scale per layer,
activations of 16 bits and weights of 4 bits. As in `choices`, none of them has to be trusted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from npuscope.edits.four_bits import may_be_four_bits
from npuscope.edits.registry import open_document
from npuscope.quantizing.bench import ChoiceStep, QuantizingBench
from npuscope.quantizing.bias import bias_shifts
from npuscope.quantizing.choices import Part
from npuscope.quantizing.histogram import METHODS
from npuscope.quantizing.plan import RangePlan, tied
from npuscope.quantizing.trial import Trial
from npuscope.structs import replace

_TENSORS = 6  # whose ranges methods see most differently
_NEAR_OUTPUTS = 3  # layers in front of an output that may have 16 bits
_LAYERS = 24  # with the most weights: what others hold is not worth a trial

Offer = Callable[[QuantizingBench, Trial], Sequence[Part]]


def other_ranges(bench: QuantizingBench, best: Trial) -> list[Part]:
    """Of single tensors by the other methods, the widest apart first."""
    plan, layers = best.plan, bench.work.layers
    groups = tied(layers, plan)
    apart: list[tuple[float, Part]] = []
    for method in METHODS:
        ranges = bench.work.ranges(
            method, bench.samples.calibration, plan.equalised, bench.progress
        )
        for name, group in groups.items():
            if group[0] != name or name not in ranges:
                continue
            ratio = ranges[name].scale / plan.ranges[name].scale
            if not 0.9 < ratio < 1.1:
                changed = dict.fromkeys(group, ranges[name])
                part = partial(RangePlan.with_ranges, changed=changed)
                apart.append((max(ratio, 1 / ratio), part))
    apart.sort(key=lambda pair: -pair[0])
    return [part for _, part in apart[:_TENSORS]]


def corrected_biases(bench: QuantizingBench, best: Trial) -> list[Part]:
    plan = best.plan
    means = bench.work.means(bench.samples.calibration, plan.equalised)
    weights = bench.work.weights(best.data, plan)
    shifts = bias_shifts(bench.work.document(plan.equalised), means, weights)
    return [lambda plan: replace(plan, shifts=shifts)] if shifts else []


def one_scale(bench: QuantizingBench, best: Trial) -> list[Part]:
    return [lambda plan: replace(plan, per_tensor=True)]


def wide_ends(bench: QuantizingBench, best: Trial) -> list[Part]:
    """Activations of 16 bits from an output back, one tensor more each time: the machine computes
    such layers on the CPU, which costs little where they are small."""
    if not bench.work.has_wide:
        return []
    makers = {name: layer for layer in bench.work.layers for name in layer.outputs}
    parts: list[Part] = []
    for output in bench.float_outputs[0]:
        chain: list[str] = []
        layer = makers.get(output)
        while layer is not None and len(chain) < _NEAR_OUTPUTS:
            chain += [name for name in layer.outputs if name in best.plan.ranges]
            parts.append(partial(_widened, names=tuple(chain)))
            layer = makers.get(layer.inputs[0]) if layer.inputs else None
    return parts


def _widened(plan: RangePlan, names: tuple[str, ...]) -> RangePlan:
    return replace(plan, wide=tuple(dict.fromkeys((*plan.wide, *names))))


OFFERS: tuple[tuple[str, Offer], ...] = (
    ("ranges of single tensors by another method", other_ranges),
    ("biases corrected by what rounding of weights adds", corrected_biases),
    ("one scale for all weights of a layer", one_scale),
)
WIDE: tuple[str, Offer] = ("activations of 16 bits near the outputs", wide_ends)
_FOUR_BITS = "weights of 4 bits"


def four_bits(
    bench: QuantizingBench, best: Trial, max_flash: int | None
) -> tuple[Trial, list[ChoiceStep]]:
    """Layer by layer, the largest first: kept where it saves time, or as long as the weights are
    more than the flash may hold, while the answers stay within the limit."""
    document = open_document(bench.path, best.data)
    sizes = {}
    for op in document.nodes:
        layer = document.layer(op)
        if layer is not None and may_be_four_bits(layer):
            sizes[layer.weights.name.removesuffix("_quantized")] = layer.weights.values.size
    first, count = best, 0
    names = sorted(sizes, key=lambda name: -sizes[name])[:_LAYERS]
    for number, name in enumerate(names, 1):
        bench.progress(f"{_FOUR_BITS}: layer {number} of {len(names)}")
        plan = replace(best.plan, four_bits=(*best.plan.four_bits, name))
        title = f"{_FOUR_BITS} in {name}"
        over = max_flash is not None and best.profile.memory.weights_bytes > max_flash
        best, step = bench.attempted(title, best, plan, saves_flash=over)
        count += step.kept
    if not names:
        return best, []
    saved = first.profile.memory.weights_bytes - best.profile.memory.weights_bytes
    reason = f"{saved:,} bytes of flash less" if count else "no layer gains by it within the limit"
    return best, [ChoiceStep(_FOUR_BITS, count, len(names), reason, first, best)]
