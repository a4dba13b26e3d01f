"""Channel counts and zero points: layers that map, but in slow modes or small parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from npuscope.geometry.tiling import FREE_ZERO_POINTS
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.machine.npu_ops import FUNCTIONS, LAYERS
from npuscope.ops.table import having, total_macs
from npuscope.ops.traits import Trait
from npuscope.program.modes import Simd
from npuscope.rulebook import fixes
from npuscope.rulebook.conditions import holds_for, maker_of
from npuscope.rulebook.counts import better_count, dense_layer, output_parts, padding, split_fix
from npuscope.rulebook.finding import Confidence, Hit, Severity, Value
from npuscope.rulebook.queries import (
    convolutions,
    hit,
    is_dense,
    layers,
    source,
    zero_point,
)
from npuscope.rulebook.registry import lint
from npuscope.structs import replace

_SLOW = 2.0  # relative to parts of full size; below this, retraining with another count rarely pays
_SMALL_SHARE = 0.01  # share of the network's MACs; smaller layers do not matter
_NARROW_INPUTS = 4  # images and masks: RGB, RGBA
_WIDE_MAP = 32 * 32  # positions; on smaller maps the start of the epoch dominates (our choice)
# Relative to 8x8 mode; a smaller loss disappears in the rest of the epoch (our choice).
_SLOWER = 1.3
# Between an input and its first layer these leave the zero point as the application gave it.
_SAME_BYTES = having(Trait.MOVES) | {"Quantize"}


@lint(
    "LINT-CHANNELS",
    "Channel counts with only small divisors",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="Channels are cut into equal parts. A count such as 257, 58 or 34 has no divisor near "
    "the size of the units, so the layer runs in many small parts, up to 10x slower.",
    fixes=(fixes.CHANGE_OUTPUTS, fixes.CHANGE_INPUTS, fixes.SPLIT_OUTPUTS, fixes.PAD_CHANNELS),
    twins=("NA-CONV-PRIME", "ADV-CHANNELS"),
)
def counts_have_no_good_divisors(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A channel count has only small divisors (prime, 17, 29 x 2^n): the layer runs in small
    parts."""
    total = total_macs(graph)
    for op, weights in layers(graph):
        if not is_dense(graph, op):
            continue
        layer = dense_layer(graph, op, machine)
        macs = weights.elements * prod(graph.output_tensor(op).shape[:-1])
        factor = layer.slowdown(machine)
        if factor >= _SLOW and macs >= _SMALL_SHARE * total:
            text = f"{layer.shape.inputs} -> {layer.shape.outputs} channels"
            evidence: dict[str, Value] = {"slowdown": round(factor, 1)}
            fixes = channel_fixes(graph, op, machine)
            yield Hit(source(op), text, f"less than {_SLOW:g}x slower", evidence, fixes)


def channel_fixes(graph: Graph, op: Op, machine: Machine) -> Mapping[str, Mapping[str, Value]]:
    """Better counts on the side that hurts, a split of the outputs, and zeros beside them."""
    layer = dense_layer(graph, op, machine)
    now = layer.cycles(machine)
    fixes: dict[str, Mapping[str, Value]] = {}
    for side, fix in (("outputs", "change-outputs"), ("inputs", "change-inputs")):
        count = better_count(layer, machine, side)
        if layer.with_count(side, count).cycles(machine) < 0.8 * now:
            fixes[fix] = {"channels": count}
    padded = padding(graph, op, machine)
    # Parts of a bad count are never equal; where the CPU joins such parts, zeros are better.
    if "change-outputs" in fixes and (machine.generation.concat_in_place or padded is None):
        fixes["split-outputs"] = split_fix(output_parts(layer, machine))
    if padded is not None:
        fixes["pad-channels"] = padded
    return fixes


@lint(
    "LINT-WIDE-OUTPUT",
    "More output channels than the unit has coefficients",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="The arithmetic unit holds 512 coefficients. With more channels they are streamed from "
    "memory again for every pixel.",
    fixes=(fixes.NARROW_OUTPUTS,),
    twins=("ADV-VECTORS",),
)
def outputs_exceed_the_vector(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """More output channels than the arithmetic unit holds coefficients for: they are streamed
    again for every pixel."""
    limit = machine.arith.max_vector
    for op, _ in layers(graph):
        shape = graph.output_tensor(op).shape
        pixels = graph.output_tensor(op).elements // shape[-1]
        if shape[-1] > limit and pixels > 1:
            extra = machine.timing.vector_cycles * pixels * shape[-1]
            yield hit(op, shape[-1], limit, cycles=round(extra))


@lint(
    "LINT-NARROW-POINTWISE",
    "1x1 convolution on few channels",
    severity=Severity.INFO,
    confidence=Confidence.REPORTED,
    cause="Each word carries one channel of one pixel; with few channels the unit mostly waits. A "
    "3x3 kernel on the same map is faster.",
    fixes=(fixes.USE_3X3,),
)
def pointwise_on_few_channels(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A 1x1 convolution on a wide map of few channels: one multiplication per word."""
    for op, _, weights in convolutions(graph):
        features = graph.first_input(op)
        pixels = features.elements // features.shape[-1]
        if weights[1:3] == (1, 1) and weights[3] <= _NARROW_INPUTS and pixels >= _WIDE_MAP:
            yield hit(op, weights[3], _NARROW_INPUTS + 1)


@lint(
    "LINT-ZERO-POINT",
    "The first layer runs in 16x8 mode",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="A zero point of 0 or -128 costs nothing; any other is subtracted inside the unit, "
    "which then has half the kernels and no Deep1x1 mode.",
    fixes=(fixes.ZERO_POINT,),
    twins=("ADV-MODE-16X8",),
)
def first_layer_subtracts(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """The network's input has a zero point other than 0 and -128: its first layer runs in the
    slower 16x8 mode."""
    near = _near_inputs(graph)
    for op, _ in layers(graph):
        zero = zero_point(graph.first_input(op))
        if op.inputs[0] not in near or zero in (*FREE_ZERO_POINTS, None):
            continue
        if not is_dense(graph, op):
            continue
        layer = dense_layer(graph, op, machine)
        fast = replace(layer, simd=Simd.S8X8)
        factor = layer.cycles(machine) / fast.cycles(machine)
        if factor >= _SLOWER:
            yield replace(
                hit(op, f"zero point {zero}", "0 or -128", slowdown=round(factor, 1)),
                fixes={"zero-point": {"zero_point": "0 or -128"}},
            )


def _near_inputs(graph: Graph) -> set[str]:
    """Inputs, and what plain moves and changes of type make of them."""
    near = set(graph.inputs)
    for op in graph.ops:
        if op.kind in _SAME_BYTES and op.inputs[0] in near:
            near.update(op.outputs)
    return near


# --- When fixes are true ---

_PLACE_BY_PLACE = having(Trait.FUNCTION) | {"Identity"}


@holds_for("move-stride", "Conv2D")
def a_pointwise_layer_follows(graph: Graph, op: Op) -> bool:
    """Skipping places before or after a 1x1 kernel is the same."""
    readers, waiting = graph.consumers(), list(op.outputs)
    while waiting:
        name = waiting.pop()
        if name in graph.outputs:
            return False
        for reader in readers[name]:
            if reader.kind in _PLACE_BY_PLACE:
                waiting += reader.outputs
            elif reader.kind != "Conv2D" or graph.tensor(reader.inputs[1]).shape[1:3] != (1, 1):
                return False
    return True


@holds_for("relu", *LAYERS)
def a_layer_is_in_front(graph: Graph, op: Op) -> bool:
    """The zero point of the network's input comes from its data."""
    maker = maker_of(graph, op.inputs[0])
    while maker is not None and maker.kind in FUNCTIONS:
        maker = maker_of(graph, maker.inputs[0])
    return maker is not None and maker.kind in LAYERS
