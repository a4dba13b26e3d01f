"""Graph passes: what each changes, what it leaves alone, and that results stay the same."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from compiler.nets import MACHINES, Net, compiled, per_tensor, sample, uint8_network
from npuscope.compiler.passes import PASSES, run_passes
from npuscope.compiler.passes.base import FoldConstants, Pass
from npuscope.compiler.passes.folds import AbsorbPad, FoldBatchNorm, RemoveMoves
from npuscope.compiler.passes.numbers import (
    QuantizeAcrossReshape,
    SignedBytes,
    SymmetricWeights,
    with_io_types,
)
from npuscope.compiler.passes.rewrite import DivideByConstant, FuseActivation
from npuscope.errors import ModelError, UsageError
from npuscope.graph.model import (
    DYNAMIC_RANGE,
    Activation,
    Attrs,
    DType,
    Graph,
    Numerics,
    Quant,
)
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.layers import ConvAttrs, DenseAttrs
from npuscope.ops.moves import PadAttrs
from npuscope.ops.norms import BatchNormAttrs
from npuscope.ops.reduce import PoolAttrs, ReduceAttrs
from npuscope.ops.run import run
from npuscope.ops.verify import verify
from npuscope.sim.run import execute
from npuscope.structs import replace

IMAGE = (1, 8, 8, 4)


def after(step: Pass, graph: Graph, generation: str = "4.0") -> tuple[Graph, bool]:
    """The graph behind one pass; the graph before is not touched."""
    result = graph.copy()
    changed = step.run(result, MACHINES[generation])
    verify(result)
    return result, changed


def kinds(graph: Graph) -> list[str]:
    return [op.kind for op in graph.ops]


def check_same(before: Graph, result: Graph, steps: float = 0) -> None:
    """Outputs of both graphs on seeded data differ by no more than `steps`."""
    assert (before.inputs, before.outputs) == (result.inputs, result.outputs)
    for seed in range(3):
        values = sample(before, seed)
        wanted, found = run(before, values), run(result, values)
        for name in before.outputs:
            assert found[name].dtype == wanted[name].dtype
            difference = found[name].astype(np.float64) - wanted[name]
            assert np.abs(difference).max() <= steps, name


def check_unchanged(step: Pass, graph: Graph, generation: str = "4.0") -> None:
    result, changed = after(step, graph, generation)
    assert not changed
    assert result.ops == graph.ops
    assert result.tensors == graph.tensors


# Constants


def constant_operand(net: Net) -> str:
    data = net.random.integers(-128, 128, IMAGE).astype(np.int8)
    return net.constant(data, per_tensor(0.03, 4))


def test_an_op_on_constants_is_computed() -> None:
    net = Net()
    x = net.input(IMAGE)
    net.add(x, net.quantize(constant_operand(net), (0.05, -7)))
    graph = net.graph()
    result, changed = after(FoldConstants(), graph)
    assert changed
    assert kinds(result) == ["Add"]
    assert result.tensor("quantize").is_constant
    check_same(graph, result)


def test_a_chain_of_ops_on_constants_is_computed() -> None:
    net = Net()
    x = net.input(IMAGE)
    net.add(x, net.quantize(net.quantize(constant_operand(net), (0.05, -7)), (0.04, 1)))
    graph = net.graph()
    result, _ = after(FoldConstants(), graph)
    check_same(graph, result)
    assert kinds(result) == ["Add"]


def test_an_op_on_one_constant_and_one_input_stays() -> None:
    net = Net()
    net.add(net.input(IMAGE), constant_operand(net))
    check_unchanged(FoldConstants(), net.graph())


# Batch normalisation


def batch_norm(net: Net, x: str, gamma: np.ndarray, quant: Quant | None, **attrs: object) -> str:
    channels = net.shape(x)[-1]
    random = net.random
    parts = (
        gamma,
        random.normal(0, 0.5, channels),
        random.normal(0, 0.5, channels),
        random.uniform(0.5, 2, channels),
    )
    names = tuple(net.constant(part.astype(np.float32), stem="norm") for part in parts)
    dtype = DType.INT8 if quant else DType.FLOAT32
    return net.op("BatchNorm", (x, *names), BatchNormAttrs(**attrs), net.shape(x), quant, dtype)


def quantized_conv_and_norm(gamma: np.ndarray, weights: np.ndarray | None = None) -> Graph:
    """As a QDQ file has it: int8 goes in, float32 lies between, int8 comes out."""
    net = Net(1, Numerics.QDQ)
    conv = net.conv(net.input(IMAGE), 4, weights=weights)
    scale = net.quant(conv).scale
    net.built.tensors[conv] = replace(net.built.tensor(conv), dtype=DType.FLOAT32, quant=None)
    batch_norm(net, conv, gamma, per_tensor(scale, 3))
    return net.graph()


def test_batch_norm_folds_into_a_quantized_convolution() -> None:
    """The gain goes into the scales, its sign into the weights: nothing is rounded again."""
    graph = quantized_conv_and_norm(np.array([1.3, -0.7, 0.9, -1.1]))
    result, changed = after(FoldBatchNorm(), graph)
    assert changed
    assert kinds(result) == ["Conv2D"]
    assert result.outputs == graph.outputs
    weights = result.tensor(result.ops[0].inputs[1])
    assert weights.dtype is DType.INT8
    # Exact but for the float32 rounding of scales, which moves ties.
    values = sample(graph)
    wanted, found = run(graph, values), run(result, values)
    difference = found[graph.outputs[0]].astype(int) - wanted[graph.outputs[0]]
    assert np.abs(difference).max() <= 1
    assert (difference == 0).mean() > 0.99


def test_integers_in_front_of_a_batch_norm_saturate() -> None:
    net = Net(1, Numerics.QDQ)
    conv = net.conv(net.input(IMAGE), 4, quant=(0.001, 3))
    batch_norm(net, conv, np.ones(4), per_tensor(0.002, 3))
    graph = net.graph()
    result, changed = after(FoldBatchNorm(), graph)
    assert not changed and kinds(result) == ["Conv2D", "BatchNorm"]


def test_a_kernel_of_two_layers_is_folded_for_one_alone() -> None:
    net = Net(1, Numerics.QDQ)
    x = net.input(IMAGE)
    first = net.conv(x, 4)
    second = net.built.ops[-1]
    scale = net.quant(first).scale
    alone = net.op("Conv2D", second.inputs, second.attrs, net.shape(first), net.quant(first))
    net.built.tensors[first] = replace(net.built.tensor(first), dtype=DType.FLOAT32, quant=None)
    norm = batch_norm(net, first, np.array([1.3, -0.7, 0.9, -1.1]), per_tensor(scale, 3))
    graph = net.graph(alone, norm)
    result, changed = after(FoldBatchNorm(), graph)
    assert changed and kinds(result) == ["Conv2D", "Conv2D"]
    values = sample(graph)
    wanted, found = run(graph, values), run(result, values)
    assert np.array_equal(found[alone], wanted[alone])
    assert np.abs(found[norm].astype(int) - wanted[norm]).max() <= 1


_DEAD = "numbers.py divides by the scale of a channel (or layer) whose weights are all dead"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "generation",
    ["2.2", "4.0", pytest.param("open")],
)
def test_a_pruned_channel_compiles_without_a_warning(generation: str) -> None:
    """A gain of 0 leaves a scale of 0, which the Graph allows."""
    graph = quantized_conv_and_norm(np.array([1.3, 0.0, 0.9, -1.1]))
    values = sample(graph)
    found = execute(compiled(graph, generation), values).outputs[graph.outputs[0]]
    assert np.abs(found.astype(int) - run(graph, values)[graph.outputs[0]]).max() <= 1


@pytest.mark.parametrize("generation", ["2.2", "4.0", "open"])
def test_a_pruned_layer_compiles(generation: str) -> None:
    graph = quantized_conv_and_norm(np.zeros(4))
    values = sample(graph)
    found = execute(compiled(graph, generation), values).outputs[graph.outputs[0]]
    assert np.abs(found.astype(int) - run(graph, values)[graph.outputs[0]]).max() <= 1


def test_weights_keep_their_zero_point_under_a_batch_norm() -> None:
    graph = with_zero_point(quantized_conv_and_norm(np.array([1.3, 0.7, 0.9, 1.1])))
    result, changed = after(FoldBatchNorm(), graph)
    assert changed
    check_same(graph, result, 1)
    check_unchanged(
        FoldBatchNorm(), with_zero_point(quantized_conv_and_norm(np.array([1, -1, 1, 1])))
    )


def with_zero_point(graph: Graph) -> Graph:
    weights = graph.tensor("weights")
    assert weights.quant is not None
    zeros = (9,) * len(weights.quant.scales)
    graph.tensors["weights"] = replace(weights, quant=replace(weights.quant, zero_points=zeros))
    return graph


def test_batch_norm_folds_into_a_float_layer() -> None:
    net = Net(2)
    x = net.input((1, 16), quant=None)
    weights = net.constant(net.random.normal(0, 1, (6, 16)).astype(np.float32))
    dense = net.op("FullyConnected", (x, weights), DenseAttrs(), (1, 6), None, DType.FLOAT32)
    batch_norm(net, dense, net.random.normal(1, 0.3, 6), None)
    graph = net.graph()
    result, changed = after(FoldBatchNorm(), graph)
    assert changed
    assert kinds(result) == ["FullyConnected"]
    check_same(graph, result, 1e-4)


def test_batch_norm_stays_where_the_convolution_has_other_readers() -> None:
    net = Net(3, Numerics.QDQ)
    conv = net.conv(net.input(IMAGE), 4)
    norm = batch_norm(net, conv, np.ones(4), per_tensor(0.1, 0))
    check_unchanged(FoldBatchNorm(), net.graph(conv, norm))


def test_batch_norm_behind_another_op_stays() -> None:
    net = Net(3, Numerics.QDQ)
    batch_norm(net, net.max_pool(net.conv(net.input(IMAGE), 4)), np.ones(4), per_tensor(0.1, 0))
    check_unchanged(FoldBatchNorm(), net.graph())


def test_batch_norm_behind_a_fused_clamp_stays() -> None:
    net = Net(4, Numerics.QDQ)
    conv = net.conv(net.input(IMAGE), 4, activation=Activation.RELU)
    batch_norm(net, conv, np.array([1.0, -1.0, 0.5, 2.0]), per_tensor(net.quant(conv).scale * 2, 0))
    check_unchanged(FoldBatchNorm(), net.graph())


def test_the_clamp_of_a_batch_norm_moves_to_the_convolution() -> None:
    net = Net(5, Numerics.QDQ)
    conv = net.conv(net.input(IMAGE), 4)
    quant = per_tensor(net.quant(conv).scale * 2, 0)
    batch_norm(net, conv, np.ones(4), quant, activation=Activation.RELU)
    graph = net.graph()
    result, _ = after(FoldBatchNorm(), graph)
    check_same(graph, result, 2)


def test_batch_norm_with_a_negative_gain_and_the_lowest_weight() -> None:
    weights = np.full((4, 3, 3, 4), -128, np.int8)
    graph = quantized_conv_and_norm(np.full(4, -1.0), weights)
    result, _ = after(FoldBatchNorm(), graph)
    check_same(graph, result, 2)


# Activations


def layer(net: Net, kind: str) -> str:
    x = net.input(IMAGE)
    if kind == "Conv2D":
        return net.conv(x, 6)
    if kind == "FullyConnected":
        return net.dense(x, 6)
    return net.add(x, net.input(IMAGE), kind)


@pytest.mark.parametrize("numerics", list(Numerics))
@pytest.mark.parametrize("kind", ["Conv2D", "FullyConnected", "Add", "Sub", "Mul"])
@pytest.mark.parametrize(
    ("low", "high", "activation"),
    [
        (0.0, inf, Activation.RELU),
        (0.0, 6.0, Activation.RELU6),
        (-1.0, 1.0, Activation.RELU_N1_TO_1),
    ],
)
def test_a_clamp_of_the_same_scale_is_fused(
    kind: str, low: float, high: float, activation: Activation, numerics: Numerics
) -> None:
    net = Net(6, numerics)
    net.clip(layer(net, kind), low, high)
    graph = net.graph()
    result, changed = after(FuseActivation(), graph)
    assert changed
    assert kinds(result) == [kind]
    assert result.ops[0].attrs.activation is activation  # type: ignore[attr-defined]
    assert result.ops[0].origin == graph.ops[0].origin + graph.ops[1].origin
    check_same(graph, result)


def test_a_clamp_to_another_scale_is_not_fused() -> None:
    net = Net(7)
    conv = net.conv(net.input(IMAGE), 6)
    net.clip(conv, 0.0, inf, (net.quant(conv).scale / 2, -128))
    check_unchanged(FuseActivation(), net.graph())


def test_a_clamp_at_other_limits_is_not_fused() -> None:
    net = Net(7)
    net.clip(net.conv(net.input(IMAGE), 6), 0.0, 5.0)
    check_unchanged(FuseActivation(), net.graph())


def test_a_clamp_is_not_fused_into_an_op_with_its_own() -> None:
    net = Net(7)
    net.clip(net.conv(net.input(IMAGE), 6, activation=Activation.RELU), 0.0, 6.0)
    check_unchanged(FuseActivation(), net.graph())


@pytest.mark.parametrize("as_output", [True, False])
def test_a_clamp_is_not_fused_where_the_plain_values_are_needed(as_output: bool) -> None:
    net = Net(7)
    conv = net.conv(net.input(IMAGE), 6)
    clip = net.clip(conv, 0.0, inf)
    graph = net.graph(conv, clip) if as_output else net.graph(net.add(conv, clip))
    check_unchanged(FuseActivation(), graph)


# Quotients


def quotient(divisor: float, integer: bool = False, more: bool = False) -> Graph:
    """x / divisor: integer, or in float between a Dequantize and a Quantize."""
    net = Net(7, Numerics.QDQ)
    x = net.input(IMAGE, (0.02, -109))
    shape, out = net.shape(x), per_tensor(0.02 / 6, -109)
    constant = net.constant(np.array(divisor, np.float32))
    if integer:
        byte = net.constant(np.array(100, np.int8), per_tensor(divisor / 100))
        return net.graph(net.op("Div", (x, byte), BinaryAttrs(), shape, out))
    real = net.op("Dequantize", (x,), Attrs(), shape, None, DType.FLOAT32)
    divided = net.op("Div", (real, constant), BinaryAttrs(), shape, None, DType.FLOAT32)
    result = net.op("Quantize", (divided,), Attrs(), shape, out)
    return net.graph(result, *((real,) if more else ()))


@pytest.mark.parametrize("divisor", [6.0, -3.0])
def test_a_quotient_between_conversions_becomes_a_product(divisor: float) -> None:
    graph = quotient(divisor)
    result, changed = after(DivideByConstant(), graph)
    assert changed
    assert kinds(result) == ["Mul"]
    assert result.ops[0].origin == tuple(name for op in graph.ops for name in op.origin)
    check_same(graph, result, steps=1)


def test_an_integer_quotient_becomes_a_product() -> None:
    result, changed = after(DivideByConstant(), quotient(6.0, integer=True))
    assert changed
    assert kinds(result) == ["Mul"]


def test_a_dequantize_that_others_read_stays() -> None:
    result, _ = after(DivideByConstant(), quotient(6.0, more=True))
    assert sorted(kinds(result)) == ["Dequantize", "Mul"]


def test_nothing_is_divided_by_zero() -> None:
    check_unchanged(DivideByConstant(), quotient(0.0))


def test_a_quotient_of_two_tensors_stays() -> None:
    net = Net()
    x, y = net.input(IMAGE), net.input(IMAGE)
    net.op("Div", (x, y), BinaryAttrs(), net.shape(x), net.quant(x))
    check_unchanged(DivideByConstant(), net.graph())


# Padding


@pytest.mark.parametrize("numerics", list(Numerics))
@pytest.mark.parametrize("own", [(0, 0, 0, 0), (1, 0, 0, 1)])
def test_zero_padding_becomes_the_convolutions(
    numerics: Numerics, own: tuple[int, int, int, int]
) -> None:
    net = Net(8, numerics)
    x = net.pad(net.input(IMAGE, (0.02, 5)), ((0, 1), (2, 1)))
    net.conv(x, 6, pads=own, strides=(2, 2))
    graph = net.graph()
    result, changed = after(AbsorbPad(), graph)
    assert changed
    assert kinds(result) == ["Conv2D"]
    wanted = tuple(a + b for a, b in zip(own, (0, 2, 1, 1), strict=True))
    assert result.ops[0].attrs_as(ConvAttrs).pads == wanted
    check_same(graph, result)


def test_padding_with_another_value_stays() -> None:
    net = Net(8)
    net.conv(net.pad(net.input(IMAGE), ((1, 1), (1, 1)), value=0.5), 6, pads=(0, 0, 0, 0))
    check_unchanged(AbsorbPad(), net.graph())


def test_padding_in_front_of_a_pool_stays() -> None:
    """A pool's own padding never wins, a padded zero may."""
    net = Net(8)
    net.max_pool(net.pad(net.input(IMAGE), ((1, 1), (1, 1))))
    check_unchanged(AbsorbPad(), net.graph())


def test_padding_with_two_readers_stays() -> None:
    net = Net(8)
    pad = net.pad(net.input(IMAGE), ((1, 1), (1, 1)))
    convs = [net.conv(pad, 6, pads=(0, 0, 0, 0)) for _ in range(2)]
    check_unchanged(AbsorbPad(), net.graph(*convs))


def test_padding_of_channels_stays() -> None:
    net = Net(8)
    x = net.input(IMAGE)
    attrs = PadAttrs(((0, 0), (1, 1), (1, 1), (0, 2)))
    padded = net.op("Pad", (x,), attrs, (1, 10, 10, 6), net.quant(x))
    net.conv(padded, 6, pads=(0, 0, 0, 0))
    check_unchanged(AbsorbPad(), net.graph())


def test_padding_that_changes_the_scale_stays() -> None:
    net = Net(8, Numerics.QDQ)
    x = net.input(IMAGE)
    attrs = PadAttrs(((0, 0), (1, 1), (1, 1), (0, 0)))
    padded = net.op("Pad", (x,), attrs, (1, 10, 10, 4), per_tensor(0.03, 1))
    net.conv(padded, 6, pads=(0, 0, 0, 0))
    check_unchanged(AbsorbPad(), net.graph())


# Ops that move nothing


@pytest.mark.parametrize("kind", ["Identity", "Reshape"])
def test_an_idle_op_goes(kind: str) -> None:
    net = Net(9)
    x = net.input(IMAGE)
    net.conv(net.op(kind, (x,), Attrs(), IMAGE, net.quant(x)), 6)
    graph = net.graph()
    result, changed = after(RemoveMoves(), graph)
    assert changed
    assert kinds(result) == ["Conv2D"]
    check_same(graph, result)


def test_idle_ops_in_a_row_go_together() -> None:
    net = Net(9)
    net.conv(net.reshape(net.identity(net.input(IMAGE)), IMAGE), 6)
    graph = net.graph()
    result, _ = after(RemoveMoves(), graph)
    check_same(graph, result)
    assert kinds(result) == ["Conv2D"]


def test_of_two_reshapes_the_last_counts() -> None:
    net = Net(9)
    net.dense(net.reshape(net.reshape(net.input(IMAGE), (1, 16, 16)), (1, 256)), 6)
    graph = net.graph()
    result, changed = after(RemoveMoves(), graph)
    assert changed
    assert kinds(result) == ["Reshape", "FullyConnected"]
    check_same(graph, result)


def test_transposes_that_cancel_go() -> None:
    net = Net(9)
    x = net.transpose(net.input(IMAGE), (0, 3, 1, 2))
    net.conv(net.transpose(x, (0, 2, 3, 1)), 6)
    graph = net.graph()
    result, changed = after(RemoveMoves(), graph)
    assert changed
    assert kinds(result) == ["Conv2D"]
    check_same(graph, result)


def test_transposes_that_do_not_cancel_stay() -> None:
    net = Net(9)
    x = net.transpose(net.input((1, 4, 4, 4)), (0, 3, 1, 2))
    net.conv(net.transpose(x, (0, 3, 1, 2)), 6)
    check_unchanged(RemoveMoves(), net.graph())


def test_moves_at_the_networks_output_stay() -> None:
    """The output keeps its own name."""
    net = Net(9)
    x = net.transpose(net.conv(net.input(IMAGE), 6), (0, 3, 1, 2))
    net.transpose(x, (0, 2, 3, 1))
    check_unchanged(RemoveMoves(), net.graph())
    net = Net(9)
    net.identity(net.conv(net.input(IMAGE), 6))
    check_unchanged(RemoveMoves(), net.graph())


def test_a_reshape_with_another_reader_stays() -> None:
    net = Net(9)
    rows = net.reshape(net.input(IMAGE), (1, 16, 16))
    flat = net.reshape(rows, (1, 256))
    graph = net.graph(net.dense(rows, 4), net.dense(flat, 6))
    check_unchanged(RemoveMoves(), graph)


@pytest.mark.parametrize("kind", ["Identity", "Reshape"])
def test_a_move_between_two_scales_stays(kind: str) -> None:
    net = Net(9, Numerics.QDQ)
    x = net.input(IMAGE)
    net.conv(net.op(kind, (x,), Attrs(), IMAGE, per_tensor(0.05, 9)), 6)
    graph = net.graph()
    result, _ = after(RemoveMoves(), graph)
    check_same(graph, result)


# A float island behind a Reshape


def island(kind: str, attrs: Attrs, shape: tuple[int, ...], rescale: float = 1.0) -> Graph:
    """conv -> DQ -> float op -> Reshape -> Q -> dense."""
    net = Net(10)
    conv = net.conv(net.input(IMAGE), 8)
    quant = net.quant(conv)
    inner = net.op(kind, (net.dequantize(conv),), attrs, shape, None, DType.FLOAT32)
    flat = net.reshape(inner, (1, int(np.prod(shape))))
    net.dense(net.quantize(flat, (quant.scale * rescale, quant.zero_point)), 5)
    return net.graph()


MEAN = island("Mean", ReduceAttrs((1, 2), True), (1, 1, 1, 8), 0.25)


def test_a_float_mean_becomes_integer_at_open() -> None:
    result, changed = after(QuantizeAcrossReshape(), MEAN, "open")
    assert changed
    assert kinds(result) == ["Conv2D", "Mean", "Reshape", "FullyConnected"]
    assert result.tensor("mean").dtype is DType.INT8
    assert result.tensor("mean").quant == MEAN.tensor("quantize").quant
    check_same(MEAN, result, 1)


@pytest.mark.parametrize("generation", ["2.2", "3.0", "4.0"])
def test_the_vendors_generations_keep_the_float_mean(generation: str) -> None:
    check_unchanged(QuantizeAcrossReshape(), MEAN, generation)


def test_an_average_pool_becomes_integer_too() -> None:
    graph = island("AveragePool", PoolAttrs((2, 2), (2, 2)), (1, 4, 4, 8))
    result, changed = after(QuantizeAcrossReshape(), graph, "open")
    assert changed
    check_same(graph, result, 2)


def test_a_max_pool_of_one_scale_becomes_integer() -> None:
    graph = island("MaxPool", PoolAttrs((2, 2), (2, 2)), (1, 4, 4, 8))
    result, changed = after(QuantizeAcrossReshape(), graph, "open")
    assert changed
    check_same(graph, result)


def test_a_max_pool_between_two_scales_stays_float() -> None:
    graph = island("MaxPool", PoolAttrs((2, 2), (2, 2)), (1, 4, 4, 8), rescale=1.7)
    result, _ = after(QuantizeAcrossReshape(), graph, "open")
    check_same(graph, result, 1)


def test_an_island_with_another_reader_stays() -> None:
    graph = MEAN.copy()
    graph.outputs = ("mean", *graph.outputs)
    check_unchanged(QuantizeAcrossReshape(), graph, "open")


def test_an_island_of_another_op_stays() -> None:
    check_unchanged(QuantizeAcrossReshape(), island("Sigmoid", Attrs(), (1, 8, 8, 8)), "open")


# uint8 networks


def test_inner_bytes_become_signed() -> None:
    graph = uint8_network()
    result, changed = after(SignedBytes(), graph)
    assert changed
    assert kinds(result) == ["Quantize", "Conv2D", "Conv2D", "Quantize"]
    for name in (*graph.inputs, *graph.outputs):
        assert result.tensor(name) == graph.tensor(name)
    inner = [t for t in result.tensors.values() if t.name not in (*graph.inputs, *graph.outputs)]
    assert all(tensor.dtype is not DType.UINT8 for tensor in inner)
    assert result.tensor("conv2d").quant == per_tensor(graph.tensor("conv2d").quant.scale, -8)
    check_same(graph, result)


def test_weights_become_signed_too() -> None:
    graph = uint8_network()
    signed = graph.tensor("weights")
    quant = Quant(signed.quant.scales, (128,) * len(signed.quant.scales), 0)
    data = (signed.data.astype(np.int16) + 128).astype(np.uint8)
    graph.tensors["weights"] = replace(signed, dtype=DType.UINT8, quant=quant, data=data)
    result, _ = after(SignedBytes(), graph)
    assert np.array_equal(result.tensor("weights").data, signed.data)
    assert result.tensor("weights").quant == signed.quant
    check_same(graph, result)


def test_an_int8_network_has_no_bytes_to_sign() -> None:
    net = Net(11)
    net.conv(net.input(IMAGE), 6)
    check_unchanged(SignedBytes(), net.graph())


def test_a_uint8_input_with_its_own_quantize_stays() -> None:
    """As TFLite writes it: QUANTIZE to int8 follows directly."""
    net = Net(11)
    net.conv(net.quantize(net.input(IMAGE, (0.02, 128), DType.UINT8), (0.02, 0)), 6)
    check_unchanged(SignedBytes(), net.graph())


# Weights with a zero point


def asymmetric(zero: int, largest: int, numerics: Numerics = Numerics.QDQ) -> Graph:
    """Per-channel weights of up to `largest`, stored `zero` higher."""
    net = Net(15, numerics)
    weights = net.random.integers(-largest, largest + 1, (6, 3, 3, 4)).astype(np.int8)
    net.conv(net.input(IMAGE), weights=weights, channels=6)
    graph = net.graph()
    tensor = graph.tensor("weights")
    assert tensor.quant is not None and tensor.data is not None
    graph.tensors["weights"] = replace(
        tensor,
        quant=replace(tensor.quant, zero_points=(zero,) * 6),
        data=np.clip(tensor.data.astype(int) + zero, -128, 127).astype(np.int8),
    )
    return graph


def test_weights_with_a_zero_point_become_symmetric() -> None:
    graph = asymmetric(10, 100)
    result, changed = after(SymmetricWeights(), graph)
    assert changed
    quant = result.tensor("weights").quant
    assert quant is not None and set(quant.zero_points) == {0}
    assert result.notes == graph.notes
    check_same(graph, result)


@pytest.mark.parametrize("numerics", Numerics)
def test_weights_that_do_not_fit_are_rounded_and_the_user_is_told(numerics: Numerics) -> None:
    """Their bias keeps its value: integers count in steps of the weights' scale."""
    graph = asymmetric(-60, 60, numerics)  # -120 .. 0 as stored; add a value that is far off
    graph.tensor("weights").data[:, 0, 0, 0] = 127  # type: ignore[index]
    result, changed = after(SymmetricWeights(), graph)
    assert changed
    assert ["rounded to symmetric weights" in note for note in result.notes] == [True]
    check_same(graph, result, 2)


def test_symmetric_weights_stay() -> None:
    check_unchanged(SymmetricWeights(), asymmetric(0, 127))


# Types at the network's border


def plain_network() -> Graph:
    net = Net(12)
    net.conv(net.input(IMAGE, (0.02, 3)), 6)
    return net.graph()


def test_uint8_at_the_border() -> None:
    graph = plain_network()
    result = with_io_types(graph, "uint8", "uint8")
    verify(result)
    assert kinds(result) == ["Quantize", "Conv2D", "Quantize"]
    assert result.tensor(result.inputs[0]).quant == per_tensor(0.02, 131)
    values = sample(graph)["input0"]
    wanted = run(graph, {"input0": values})[graph.outputs[0]]
    bytes_in = (values.astype(np.int16) + 128).astype(np.uint8)
    found = run(result, {result.inputs[0]: bytes_in})[result.outputs[0]]
    assert found.dtype == np.uint8
    assert np.array_equal(found.astype(np.int16) - 128, wanted)


def test_float_at_the_border() -> None:
    graph = plain_network()
    result = with_io_types(graph, "float32", "float32")
    verify(result)
    assert kinds(result) == ["Quantize", "Conv2D", "Dequantize"]
    values = sample(graph)["input0"]
    wanted = run(graph, {"input0": values})[graph.outputs[0]]
    real = (values.astype(np.float32) - 3) * np.float32(0.02)
    found = run(result, {result.inputs[0]: real})[result.outputs[0]]
    quant = graph.tensor(graph.outputs[0]).quant
    assert quant is not None
    assert np.array_equal(found, (wanted.astype(np.float32) - quant.zero_point) * quant.scale)


def test_a_float_border_can_be_made_integer() -> None:
    net = Net(12)
    x = net.quantize(net.input(IMAGE, quant=None), (0.02, 3))
    net.dequantize(net.conv(x, 6))
    graph = net.graph()
    result = with_io_types(graph, "int8", "int8")
    verify(result)
    assert [result.tensor(n).dtype for n in (*result.inputs, *result.outputs)] == [DType.INT8] * 2
    values = sample(plain_network())["input0"]
    real = (values.astype(np.float32) - 3) * np.float32(0.02)
    wanted = run(graph, {"input0": real}, keep=["conv2d"])["conv2d"]
    assert kinds(result) == ["Conv2D"]  # no float lies between
    assert np.array_equal(run(result, {result.inputs[0]: values})[result.outputs[0]], wanted)


def test_bytes_without_a_sign_beside_a_quantize() -> None:
    """As in public builds: one conversion of integers, no float."""
    net = Net(12)
    x = net.quantize(net.input(IMAGE, quant=None), (0.02, 3))
    net.dequantize(net.conv(x, 6))
    graph = net.graph()
    result = with_io_types(graph, "uint8", None)
    verify(result)
    assert kinds(result) == ["Quantize", "Conv2D", "Dequantize"]
    values = sample(plain_network())["input0"]
    real = (values.astype(np.float32) - 3) * np.float32(0.02)
    wanted = run(graph, {"input0": real})[graph.outputs[0]]
    bytes_in = (values.astype(np.int16) + 128).astype(np.uint8)
    assert np.array_equal(run(result, {result.inputs[0]: bytes_in})[result.outputs[0]], wanted)


def test_a_float_output_that_others_read_stays() -> None:
    net = Net(12)
    y = net.dequantize(net.conv(net.input(IMAGE, (0.02, 3)), 6))
    net.quantize(y, (0.5, 0))
    graph = net.graph()
    graph.outputs = (y, *graph.outputs)
    result = with_io_types(graph, None, "int8")
    verify(result)
    assert kinds(result) == ["Conv2D", "Dequantize", "Quantize"]


def test_the_type_that_is_there_needs_no_conversion() -> None:
    graph = plain_network()
    assert with_io_types(graph, None, None) is graph
    assert kinds(with_io_types(graph, "int8", "int8")) == ["Conv2D"]
    assert kinds(graph) == ["Conv2D"]


def test_unknown_border_type() -> None:
    with pytest.raises(UsageError, match="unknown data type 'int16'") as caught:
        with_io_types(plain_network(), "int16", None)
    assert caught.value.where == "--input-data-type"
    with pytest.raises(UsageError) as caught:
        with_io_types(plain_network(), None, "half")
    assert caught.value.where == "--output-data-type"


def test_a_float_border_without_a_known_scale() -> None:
    net = Net(12)
    x = net.input(IMAGE, quant=None)
    net.op("Sigmoid", (x,), Attrs(), IMAGE, None, DType.FLOAT32)
    with pytest.raises(ModelError) as caught:
        with_io_types(net.graph(), "int8", None)
    assert str(caught.value) == (
        "tensor 'input0': 'input0' is float and has no known quantization\n"
        "  hint: keep its data type"
    )


# Networks without quantization


def float_layers(quantized: bool) -> Graph:
    net = Net(13)
    x = net.input(IMAGE, quant=None)
    weights = net.constant(net.random.normal(0, 1, (4, 1, 1, 4)).astype(np.float32))
    x = net.op("Conv2D", (x, weights), ConvAttrs(), IMAGE, None, DType.FLOAT32)
    if quantized:
        net.conv(net.quantize(x, (0.05, 0)), 4)
    return net.graph()


def test_a_float_network_is_refused() -> None:
    with pytest.raises(ModelError, match="none of its layers is quantized") as caught:
        run_passes(float_layers(False), MACHINES["4.0"])
    assert "quantize it to int8 first" in caught.value.hint


def test_weights_that_are_quantized_alone_are_told_of() -> None:
    """Quantizers refuse such a file too: its reader is sent to the float model."""
    graph = float_layers(False)
    name = graph.ops[0].inputs[1]
    weights = replace(graph.tensor(name), quant=Quant((0.01,), (0,)))
    graph.tensors[name] = weights
    with pytest.raises(ModelError) as caught:
        run_passes(graph, MACHINES["4.0"])
    assert caught.value.hint.startswith("its weights are quantized, its activations are not")
    assert "npuscope quantize" not in caught.value.hint


def test_a_dynamically_quantized_network_is_told_why_it_counts_as_float() -> None:
    graph = float_layers(False)
    graph.notes.append(DYNAMIC_RANGE)
    with pytest.raises(ModelError) as caught:
        run_passes(graph, MACHINES["4.0"])
    assert caught.value.hint.startswith("activations are quantized while it runs (dynamic range): ")


def test_one_quantized_layer_is_enough() -> None:
    assert len(run_passes(float_layers(True), MACHINES["4.0"]).ops) == 3


def test_a_network_without_layers_is_not_refused() -> None:
    net = Net(13)
    net.op("Add", (net.input(IMAGE, None),) * 2, BinaryAttrs(), IMAGE, None, DType.FLOAT32)
    assert kinds(run_passes(net.graph(), MACHINES["4.0"])) == ["Add"]


# All passes


def test_all_passes_keep_the_result() -> None:
    net = Net(14)
    x = net.pad(net.identity(net.input(IMAGE, (0.02, 5))), ((1, 1), (1, 1)))
    x = net.clip(net.conv(x, 8, pads=(0, 0, 0, 0), quant=(0.03, -128)), 0.0, 6.0)
    net.dense(net.reshape(net.reshape(x, (1, 64, 8)), (1, 512)), 5)
    graph = net.graph()
    before = list(graph.ops)
    result = run_passes(graph, MACHINES["open"])
    verify(result)
    assert kinds(result) == ["Conv2D", "Reshape", "FullyConnected"]
    assert graph.ops == before
    check_same(graph, result)


def test_passes_have_names_of_their_own() -> None:
    names = [step.name for step in PASSES]
    assert len(set(names)) == len(names)
    assert all(name and name == name.lower() for name in names)
