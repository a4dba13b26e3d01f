"""Channel counts: what cannot be cut into good parts, and what is too wide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.rules.finding import Hit, Value
from npuscope.rules.lint import lint
from npuscope.rules.queries import convolutions, hit, is_dense, layers, source
from npuscope.rules.shared_channels import padding
from npuscope.rules.streams import (
    best_split,
    better_count,
    layer_shape,
    parallel_kernels,
    slowdown,
    stream_cycles,
    with_count,
)

_SLOW = 2.0
_SMALL_SHARE = 0.01  # of the network's MACs: layers below it do not matter
_NARROW_INPUTS = 4
_WIDE_MAP = 32 * 32


@lint("LINT-CHANNELS")
def counts_have_no_good_divisors(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A channel count has only small divisors (prime, 17, 29 x 2^n): the layer runs in small
    parts."""
    total = graph.macs()
    for op, _ in layers(graph):
        if not is_dense(graph, op):
            continue
        shape = layer_shape(graph, op)
        macs = shape.inputs * shape.outputs * shape.out_positions * shape.window[0]
        factor = slowdown(shape, machine)
        if factor >= _SLOW and macs * shape.window[1] >= _SMALL_SHARE * total:
            yield _bad_counts(graph, op, factor, machine)


def _bad_counts(graph: Graph, op: Op, factor: float, machine: Machine) -> Hit:
    shape = layer_shape(graph, op)
    text = f"{shape.inputs} -> {shape.outputs} channels"
    evidence: dict[str, Value] = {"slowdown": round(factor, 1)}
    fixes = channel_fixes(graph, op, machine)
    return Hit(source(op), text, f"slowdown {_SLOW:g}", evidence, fixes)


def channel_fixes(graph: Graph, op: Op, machine: Machine) -> Mapping[str, Mapping[str, Value]]:
    """Better counts on the side that hurts, a split of the outputs, and zeros beside them."""
    shape = layer_shape(graph, op)
    now = stream_cycles(shape, machine)
    found: dict[str, Mapping[str, Value]] = {}
    for side, fix in (("outputs", "change-outputs"), ("inputs", "change-inputs")):
        count = better_count(shape, machine, side)
        if stream_cycles(with_count(shape, side, count), machine) < 0.8 * now:
            found[fix] = {"channels": count}
    if "change-outputs" in found:
        parts = best_split(shape.outputs, parallel_kernels(shape, machine))
        found["split-outputs"] = {"parts": "+".join(map(str, parts))}
    padded = padding(graph, op, machine)
    if padded is not None:
        found["pad-channels"] = padded
    return found


@lint("LINT-WIDE-OUTPUT")
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


@lint("LINT-NARROW-POINTWISE")
def pointwise_on_few_channels(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A 1x1 convolution on a wide map of few channels: one multiplication a word."""
    for op, _, weights in convolutions(graph):
        features = graph.first_input(op)
        pixels = features.elements // features.shape[-1]
        if weights[1:3] == (1, 1) and weights[3] <= _NARROW_INPUTS and pixels >= _WIDE_MAP:
            yield hit(op, weights[3], _NARROW_INPUTS + 1)
