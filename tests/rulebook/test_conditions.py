"""A fix is offered where it is true: each condition on an op where it holds and where it does
not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler.nets import Net, per_tensor
from npuscope.graph.model import Attrs, DType, Graph
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.images import ResizeAttrs, ResizeMode
from npuscope.ops.moves import GatherAttrs, PadAttrs, SliceAttrs
from npuscope.ops.norms import LayerNormAttrs, SoftmaxAttrs
from npuscope.ops.reduce import PoolAttrs, ReduceAttrs
from npuscope.rulebook.conditions import fitting
from npuscope.rulebook.registry import rules
from rulebook.lint_case import IMAGE, found_by, image_net

STEP = per_tensor(0.05, 0)


def names(graph: Graph, kind: str) -> tuple[str, ...]:
    return tuple(name for op in graph.ops if op.kind == kind for name in op.origin)


def fits(fix: str, graph: Graph, kind: str) -> bool:
    rules()  # declares them all
    return fitting(fix, graph, names(graph, kind)) is not None


def reduced(kind: str, axes: tuple[int, ...] = (1, 2)) -> Graph:
    net, x = image_net()
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(IMAGE))
    net.op(kind, (x,), ReduceAttrs(axes, True), shape, STEP)
    return net.graph()


@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2"])
def test_a_mean_times_a_count_is_nothing_but_a_sum(kind: str) -> None:
    assert not fits("mean-times-n", reduced(kind), kind)
    assert fits("mean-times-n", reduced("ReduceSum"), "ReduceSum")
    assert not fits("mean-times-n", reduced("ReduceSum", (3,)), "ReduceSum")


def means(*axes: tuple[int, ...]) -> Graph:
    net, x = image_net()
    for one in axes:
        shape = tuple(1 if a in one else size for a, size in enumerate(net.shape(x)))
        x = net.op("Mean", (x,), ReduceAttrs(one, True), shape, STEP)
    return net.graph()


@pytest.mark.parametrize(
    ("graph", "true"),
    [(means((1,), (2,)), True), (means((3,)), False), (means((2,)), False)],
)
def test_two_means_are_one(graph: Graph, true: bool) -> None:
    assert fits("mean-both-axes", graph, "Mean") is true


def with_softmax(rows: int, inside: bool, also_read: bool = False) -> Graph:
    """A Softmax at the end, or with a layer behind it, as detectors decode boxes."""
    net = Net()
    x = net.conv(net.input((1, rows, 1, 4)), 16, (1, 1))
    y = net.op("Softmax", (x,), SoftmaxAttrs(3), net.shape(x), per_tensor(1 / 256, -128))
    if inside:
        return net.graph(net.conv(y, 1, (1, 1)))
    if also_read:
        return net.graph(net.dequantize(y), net.sigmoid(y))
    return net.graph(net.dequantize(net.reshape(y, (1, rows, 16))))


def test_only_a_last_softmax_can_go() -> None:
    assert not fits("drop-softmax", with_softmax(8, inside=True), "Softmax")
    assert not fits("drop-softmax", with_softmax(8, inside=False, also_read=True), "Softmax")
    one, many = (with_softmax(rows, inside=False) for rows in (1, 8))
    ops = names(one, "Softmax")
    order = "the order of the scores stays the same"
    assert fitting("drop-softmax", one, ops) == {"order": order}
    assert fitting("drop-softmax", many, ops) == {"order": f"{order} within each of the 8 rows"}


def test_lint_does_not_tell_to_drop_an_inner_softmax() -> None:
    (inner,) = found_by("LINT-SOFTMAX", with_softmax(8, inside=True))
    assert [fix.id for fix in inner.fixes] == ["option-expand-softmax"]
    (last,) = found_by("LINT-SOFTMAX", with_softmax(1, inside=False))
    assert last.fixes[0].title.endswith("the order of the scores stays the same")


def resized(mode: ResizeMode, sizes: tuple[int, int]) -> Graph:
    net, x = image_net()
    ratios = (sizes[0] / IMAGE[1], sizes[1] / IMAGE[2])
    net.op("Resize", (x,), ResizeAttrs(sizes, ratios, mode), (1, *sizes, 4), net.quant(x))
    return net.graph()


@pytest.mark.parametrize(
    ("mode", "sizes", "smooth", "repeat"),
    [
        (ResizeMode.LINEAR, (16, 16), True, False),
        (ResizeMode.LINEAR, (12, 12), False, False),
        (ResizeMode.LINEAR, (4, 4), False, False),
        (ResizeMode.NEAREST, (16, 16), False, True),
        (ResizeMode.NEAREST, (12, 12), False, False),
    ],
)
def test_resizes(mode: ResizeMode, sizes: tuple[int, int], smooth: bool, repeat: bool) -> None:
    graph = resized(mode, sizes)
    assert fits("nearest-resize", graph, "Resize") is smooth
    assert fits("repeat-by-joining", graph, "Resize") is repeat


def pooled(kind: str, counted: bool) -> Graph:
    net, x = image_net()
    attrs = PoolAttrs((3, 3), (1, 1), (1, 1, 1, 1), count_pads=counted)
    net.op(kind, (x,), attrs, IMAGE, net.quant(x))
    return net.graph()


def test_only_padding_that_counts_can_be_explicit() -> None:
    assert fits("explicit-pad", pooled("AveragePool", True), "AveragePool")
    assert not fits("explicit-pad", pooled("AveragePool", False), "AveragePool")
    assert not fits("explicit-pad", pooled("MaxPool", False), "MaxPool")


def joined(last: bool) -> Graph:
    net = Net()
    x = net.concat((net.input(IMAGE), net.input(IMAGE)), axis=1)
    return net.graph(x if last else net.conv(x, 8))


def test_parts_become_outputs_only_at_the_end() -> None:
    assert fits("separate-outputs", joined(last=True), "Concat")
    assert not fits("separate-outputs", joined(last=False), "Concat")


def gathered(indices: list[int], place: str) -> Graph:
    net = Net()
    x = net.input((1, 8, 8, 4))
    x = net.conv(x, 4) if place != "in" else x
    picks = net.constant(np.array(indices, np.int32))
    y = net.op("Gather", (x, picks), GatherAttrs(1), (1, len(indices), 8, 4), net.quant(x))
    return net.graph(y if place == "out" else net.conv(y, 4))


@pytest.mark.parametrize(
    ("indices", "place", "host", "neighbours"),
    [
        ([3, 1], "in", True, False),
        ([3, 1], "out", True, False),
        ([3, 1], "inside", False, False),
        ([2, 3, 4], "inside", False, True),
    ],
)
def test_gathers(indices: list[int], place: str, host: bool, neighbours: bool) -> None:
    graph = gathered(indices, place)
    assert fits("host-layout", graph, "Gather") is host
    assert fits("constant-slice", graph, "Gather") is neighbours


def divided(divisor: np.ndarray | None) -> Graph:
    net, x = image_net()
    by = net.input(IMAGE) if divisor is None else net.constant(divisor, per_tensor(0.1, 0))
    net.op("Div", (x, by), BinaryAttrs(), IMAGE, STEP)
    return net.graph()


def test_only_a_constant_has_a_reciprocal() -> None:
    assert fits("multiply-instead", divided(np.full((1,), 5, np.int8)), "Div")
    assert not fits("multiply-instead", divided(np.array([1, 2, 3, 4], np.int8)), "Div")
    assert not fits("multiply-instead", divided(np.zeros((1,), np.int8)), "Div")
    assert not fits("multiply-instead", divided(None), "Div")


def padded(pads: tuple[tuple[int, int], ...], value: float = 0.0) -> Graph:
    net, x = image_net()
    shape = tuple(size + sum(pair) for size, pair in zip(IMAGE, pads, strict=True))
    net.op("Pad", (x,), PadAttrs(pads, value), shape, net.quant(x))
    return net.graph()


def test_channels_are_copied_only_where_zeros_are_added() -> None:
    still, more = (0, 0), (0, 4)
    assert fits("pad-conv", padded((still, still, still, more)), "Pad")
    assert not fits("pad-conv", padded((still, still, still, more), 1.0), "Pad")
    assert fits("conv-shortcut", padded((still, still, still, more), 1.0), "Pad")
    assert not fits("conv-shortcut", padded((still, more, still, still)), "Pad")


def sliced(axis: int) -> Graph:
    net, x = image_net()
    sizes = tuple(n // 2 if a == axis else n for a, n in enumerate(IMAGE))
    steps = tuple(2 if a == axis else 1 for a in range(4))
    net.op("Slice", (x,), SliceAttrs((0,) * 4, sizes, steps), sizes, net.quant(x))
    return net.graph()


def test_a_stride_skips_pixels() -> None:
    assert fits("stride-instead", sliced(1), "Slice")
    assert fits("stride-instead", sliced(2), "Slice")


@pytest.mark.parametrize(
    ("permutation", "true"),
    [((0, 3, 1, 2), True), ((0, 2, 3, 1), True), ((0, 2, 1, 3), False), ((0, 3, 2, 1), False)],
)
def test_heads_are_permuted_for_their_own_sake(permutation: tuple[int, ...], true: bool) -> None:
    net, x = image_net()
    net.transpose(x, permutation)
    assert fits("keep-layout", net.graph(), "Transpose") is true


def normalised(last: bool) -> Graph:
    net, x = image_net()
    y = net.op("LayerNorm", (x,), LayerNormAttrs(3), IMAGE, STEP)
    return net.graph(y if last else net.conv(y, 4))


def test_a_last_norm_is_no_batch_norm() -> None:
    assert fits("batch-norm", normalised(last=False), "LayerNorm")
    assert not fits("batch-norm", normalised(last=True), "LayerNorm")
    assert fits("cut-tail", normalised(last=True), "LayerNorm")
    assert not fits("cut-tail", normalised(last=False), "LayerNorm")


def float_op(kind: str, dtype: DType, quantized: bool) -> Graph:
    net = Net()
    x = net.conv(net.input(IMAGE), 4) if quantized else net.input(IMAGE, None)
    if dtype is DType.FLOAT32 and quantized:
        x = net.dequantize(x)
    net.op(kind, (x,), Attrs(), IMAGE, None, dtype)
    return net.graph()


def test_what_can_be_quantized_beside_integers() -> None:
    assert fits("quantize-op", float_op("Sigmoid", DType.FLOAT32, True), "Sigmoid")
    assert not fits("quantize-op", float_op("Log", DType.FLOAT32, True), "Log")


def gate(one: float, gated: bool) -> Graph:
    net = Net()
    z, n, h = (net.input(IMAGE) for _ in range(3))
    left = net.constant(np.full((1,), one, np.float32))
    rest = net.op("Sub", (left, z), BinaryAttrs(), IMAGE, STEP)
    product = net.add(rest, n, "Mul" if gated else "Add")
    return net.graph(net.add(product, net.add(z, h, "Mul")))


def test_a_gate_begins_with_one() -> None:
    assert fits("gate-form", gate(1.0, True), "Sub")
    assert not fits("gate-form", gate(2.0, True), "Sub")
    assert not fits("gate-form", gate(1.0, False), "Sub")


def negated(by_layer: bool) -> Graph:
    net, x = image_net()
    x = net.conv(x, 4) if by_layer else net.sigmoid(x)
    net.op("Neg", (x,), Attrs(), IMAGE, STEP)
    return net.graph()


def test_a_sign_is_folded_into_a_layer() -> None:
    assert fits("fold-sign", negated(True), "Neg")
    assert not fits("fold-sign", negated(False), "Neg")


def strided(behind: Callable[[Net, str], str]) -> Graph:
    net, x = image_net()
    return net.graph(behind(net, net.conv(x, 0, (3, 3), (2, 2))))


def test_a_stride_moves_into_a_pointwise_layer() -> None:
    assert fits(
        "move-stride", strided(lambda net, x: net.conv(net.sigmoid(x), 8, (1, 1))), "Conv2D"
    )
    assert not fits("move-stride", strided(lambda net, x: net.sigmoid(x)), "Conv2D")
    by_rows = strided(lambda net, x: net.conv(x, 8, (3, 3)))
    assert fitting("move-stride", by_rows, by_rows.ops[0].origin) is None


def test_relu_needs_a_layer_in_front() -> None:
    net, x = image_net()
    graph = net.graph(net.conv(net.conv(x, 4), 8))
    first, second = graph.ops
    assert fitting("relu", graph, first.origin) is None
    assert fitting("relu", graph, second.origin) == {}


def test_software_ops_are_told_a_form_that_computes_the_same() -> None:
    (sums,) = found_by("LINT-SOFTWARE-OP", reduced("ReduceSum"))
    assert sums.fixes[0].title == "use a form that maps: a mean times the number of pixels"
    (least,) = found_by("LINT-SOFTWARE-OP", reduced("ReduceMin"))
    assert "mapped-form" not in {fix.id for fix in least.fixes}
