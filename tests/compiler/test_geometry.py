"""Layers of odd geometry compute what the reference does, in every generation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler.nets import GENERATIONS, Net, compiled, operators, per_tensor, sample
from compiler.random_layers import random_layer, random_pool
from npuscope.errors import ModelError
from npuscope.graph.model import Activation, Attrs, DType, Graph, Numerics
from npuscope.ops.functions import EluAttrs
from npuscope.ops.images import Coordinates, NearestRounding, ResizeAttrs, ResizeMode
from npuscope.ops.moves import PadAttrs, SliceAttrs
from npuscope.ops.reduce import ArgAttrs
from npuscope.ops.run import run
from npuscope.program.model import EpochKind
from npuscope.sim.run import execute
from npuscope.structs import replace

# Ties are rounded by the units in their own way, twice where kernels are cut.
_ROUNDING = 2


def check(graph: Graph, generation: str, seed: int = 0, optimization: int = 3) -> None:
    """The compiled program gives the reference's outputs but for rounding; sums that saturate are
    the vendor's habit, not ours."""
    values = sample(graph, seed)
    done = execute(compiled(graph, generation, optimization), values)
    if generation != "open" and max(done.saturated_share.values(), default=0):
        return
    wanted = run(graph, values)
    for name in graph.outputs:
        difference = np.abs(done.outputs[name].astype(np.int64) - wanted[name])
        assert difference.max() <= _ROUNDING, name


@pytest.mark.parametrize("seed", range(60))
def test_random_convolutions(seed: int) -> None:
    graph = random_layer(seed)
    for generation in GENERATIONS:
        check(graph, generation, seed, 3 * (seed % 2))


@pytest.mark.parametrize("seed", range(30))
def test_random_pools(seed: int) -> None:
    graph = random_pool(seed)
    for generation in GENERATIONS:
        check(graph, generation, seed, 3 * (seed % 2))


def conv(
    shape: tuple[int, ...],
    channels: int,
    window: tuple[int, int],
    pads: tuple[int, int, int, int] | None = None,
    strides: tuple[int, int] = (1, 1),
    dilations: tuple[int, int] = (1, 1),
) -> Callable[[], Graph]:
    def build() -> Graph:
        net = Net(7)
        net.conv(net.input(shape, (0.02, 3)), channels, window, strides, pads, dilations=dilations)
        return net.graph()

    return build


# Kernels of which some taps, or all but one, or all, never meet the image.
LARGE: dict[str, Callable[[], Graph]] = {
    "rate 12 on 10x10": conv((1, 10, 10, 8), 16, (3, 3), dilations=(12, 12)),
    "rate 18 on 14x14": conv((1, 14, 14, 8), 16, (3, 3), dilations=(18, 18)),
    "five taps, 16 apart": conv((1, 1, 40, 16), 16, (1, 5), (0, 64, 0, 0), dilations=(1, 16)),
    "7x7 on 1x1": conv((1, 1, 1, 16), 8, (7, 7)),
    "9x13 on 2x3": conv((1, 2, 3, 4), 8, (9, 13)),
    "5x1 keeps the first row": conv((1, 2, 11, 4), 8, (5, 1), (2, 0, 1, 0), (1, 3)),
    "1x9 keeps the first column": conv((1, 11, 2, 4), 8, (1, 9), (0, 4, 0, 3), (3, 1)),
    "depthwise 7x7, 2 apart, on 5x5": conv((1, 5, 5, 4), 0, (7, 7), dilations=(2, 2)),
    "no tap at all": conv((1, 1, 1, 6), 5, (2, 2), (3, 3, 3, 3), dilations=(5, 5)),
    "no tap, strided": conv((1, 9, 1, 6), 5, (1, 2), (0, 3, 0, 3), (2, 1), dilations=(1, 5)),
}


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("name", LARGE)
def test_kernels_larger_than_the_image(name: str, generation: str) -> None:
    check(LARGE[name](), generation)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_part_of_the_outputs_of_which_no_tap_meets_the_image(generation: str) -> None:
    net = Net(7)
    x = net.input((1, 1, 1, 16), (0.02, 0))
    weights = net.weights((34, 5, 4, 16))
    weights[32:] = 0
    net.conv(x, 34, (5, 4), (1, 1), (2, 3, 2, 3), weights=weights, dilations=(1, 2))
    check(net.graph(), generation)


def test_pieces_in_the_padding_are_left_out() -> None:
    """Of six pieces the one with the middle tap; of 91 those that meet the image, holes or not."""
    for name, pieces in (("7x7 on 1x1", 1), ("rate 18 on 14x14", 45)):
        epochs = operators(compiled(LARGE[name]()))
        assert sum(epoch.count("Conv") for epoch in epochs) == pieces


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_dilated_layer_of_one_dimension(generation: str) -> None:
    """Its features carry a tensor of three axes; library calls move images."""
    net = Net(3)
    x = net.reshape(net.input((1, 6, 16)), (1, 1, 6, 16))
    net.reshape(net.conv(x, 0, (1, 1), dilations=(1, 2)), (1, 6, 16))
    check(net.graph(), generation)


# Batches


def batch_of_two(build: Callable[[Net, str], str]) -> Graph:
    net = Net(4)
    build(net, net.input((2, 7, 8, 4)))
    return net.graph()


def doubled(net: Net, x: str) -> str:
    attrs = ResizeAttrs(
        (14, 16),
        (2.0, 2.0),
        ResizeMode.NEAREST,
        Coordinates.ASYMMETRIC,
        NearestRounding.FLOOR,
    )
    return net.op("Resize", (x,), attrs, (2, 14, 16, 4), net.quant(x))


@pytest.mark.parametrize(
    ("kind", "build"),
    [
        ("MaxPool", lambda net, x: net.max_pool(x)),
        ("AveragePool", lambda net, x: net.average_pool(x)),
        ("Mean", lambda net, x: net.mean(x)),
        ("Pad", lambda net, x: net.pad(x, ((1, 1), (2, 0)))),
        ("Resize", doubled),
    ],
)
def test_a_batch_is_refused(kind: str, build: Callable[[Net, str], str]) -> None:
    graph = batch_of_two(build)
    for generation in GENERATIONS:
        with pytest.raises(ModelError, match=f"{kind} has batch 2; the NPU runs one image at a"):
            compiled(graph, generation)


# Bytes above 127


@pytest.mark.parametrize("generation", GENERATIONS)
def test_channels_of_several_maps_are_padded_by_software(generation: str) -> None:
    net = Net(3)
    x = net.input((5, 1, 2, 9), (0.014, 52))
    pads = ((0, 0), (0, 0), (0, 0), (0, 2))
    net.op("Pad", (x,), PadAttrs(pads, -0.9), (5, 1, 2, 11), per_tensor(0.014, 52))
    check(net.graph(), generation)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_unsigned_bytes_that_a_function_and_a_layer_read(generation: str) -> None:
    """`open` leaves the input unsigned for the layer; the function needs signed bytes."""
    net = Net(5, Numerics.QDQ)
    x = net.quantize(net.input((1, 6, 5, 4), (0.02, 94), DType.UINT8), (0.02, -34))
    x = net.transpose(x, (0, 2, 3, 1))
    layer = net.conv(x, 8, (1, 1))
    curve = net.op("Elu", (x,), EluAttrs(0.01), net.shape(x), per_tensor(0.03, 0))
    real = net.dequantize(x)
    check(net.graph(layer, curve, real), generation)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_unsigned_bytes_between_two_conversions(generation: str) -> None:
    """They must not stream into a unit that would take them for signed ones."""
    net = Net(6)
    x = net.quantize(net.input((1, 4, 17, 5), (1 / 128, 0)), (0.009, 128), DType.UINT8)
    net.quantize(x, (0.006, 0))
    check(net.graph(), generation)


# Functions


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("scale", [0.02, 0.3, 1.4, 5.2])
def test_steep_functions(scale: float, generation: str) -> None:
    net = Net(8, Numerics.QDQ)
    x = net.input((1, 8, 8, 8), (scale, 22))
    gate = net.sigmoid(x)
    curve = net.op("Elu", (x,), EluAttrs(0.01), net.shape(x), per_tensor(0.1, -128))
    check(net.graph(gate, curve), generation)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("scale", [4e-7, 1e-3, 4.0])
def test_scales_that_lie_far_apart(scale: float, generation: str) -> None:
    """One step of the input may be more than the whole range of the output."""
    net = Net(13, Numerics.QDQ)
    x = net.input((1, 4, 4, 8), (0.0625, 127))
    y = net.input((1, 4, 4, 8), (0.0625, 127))
    total = net.add(x, y, quant=(scale, -128))
    check(net.graph(net.clip(x, 0.0, 6.0, (scale, -128)), total), generation)


# Activations of pools, scalars, and sums wider than a link


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("activation", [Activation.RELU, Activation.RELU_N1_TO_1])
def test_pools_have_activations(kind: str, activation: Activation, generation: str) -> None:
    net = Net(9)
    x = net.input((1, 6, 7, 8), (0.0625, 30))
    pool = net.max_pool(x) if kind == "MaxPool" else net.average_pool(x)
    op = net.built.ops[-1]
    attrs = replace(op.attrs, activation=activation)  # type: ignore[type-var]
    net.built.ops[-1] = op.replace(attrs=attrs)
    net.op("Neg", (pool,), Attrs(), net.shape(pool), net.quant(pool))
    check(net.graph(), generation)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_kernel_that_makes_a_scalar(generation: str) -> None:
    net = Net(10)
    x = net.input((7,), (0.02, 3))
    net.op("ArgMax", (x,), ArgAttrs(0, False), (), None, DType.INT32)
    check(net.graph(), generation)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_very_many_inputs(generation: str) -> None:
    """Positive weights: the sums leave the 24 bits between units in series."""
    net = Net(11)
    x = net.input((1, 32768), (0.02, -128))
    weights = net.random.integers(0, 128, (4, 32768)).astype(np.int8)
    net.weights = lambda shape: weights  # type: ignore[method-assign]
    scale = 0.02 * 0.001 * 64 * 128 * 32768 / 60
    net.dense(x, 4, quant=(scale, -128))
    check(net.graph(), generation)


def test_software_calls_are_the_same_once() -> None:
    """An operand that is given twice is converted once."""
    net = Net(12, Numerics.QDQ)
    x = net.input((1, 4, 4, 4))
    net.add(x, x, "Max")
    graph = net.graph()
    program = compiled(graph)
    assert program.count(EpochKind.SW) == 3
    check(graph, "4.0")


@pytest.mark.parametrize("generation", GENERATIONS)
def test_software_reads_a_part_that_was_made_inside_a_concatenation(generation: str) -> None:
    """Of three axes: its pixels are gathered, and have the shape of the tensor again."""
    net = Net(13)
    x, y = net.input((2, 3, 7)), net.input((2, 3, 7))
    both = net.add(x, y)
    net.concat((both, y, x), quant=(net.quant(both).scale, net.quant(both).zero_point), axis=2)
    whole = net.built.ops[-1].outputs[0]
    soft = net.softmax(both)
    check(net.graph(whole, soft), generation)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_channels_that_software_reads_and_the_network_gives_out(generation: str) -> None:
    net = Net(14)
    x = net.input((1, 5, 3, 16))
    attrs = SliceAttrs((0, 0, 0, 8), (1, 5, 3, 4), (1, 1, 1, 1))
    part = net.op("Slice", (x,), attrs, (1, 5, 3, 4), net.quant(x))
    real = net.dequantize(part)
    check(net.graph(part, real, net.reshape(part, (1, 15, 4))), generation)


@pytest.mark.parametrize("with_others", [False, True])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_software_reads_channels_that_a_concatenation_took_in(
    generation: str, with_others: bool
) -> None:
    """Their gathered copy became a part of the Concat, and is no longer gathered."""
    net = Net(14)
    x, y = net.input((1, 3, 16)), net.input((1, 1, 3, 4))
    attrs = SliceAttrs((0, 0, 8), (1, 3, 4), (1, 1, 1))
    part = net.op("Slice", (x,), attrs, (1, 3, 4), net.quant(x))
    packed = net.reshape(part, (1, 1, 3, 4))
    others = (y,) if with_others else ()
    quant = (net.quant(x).scale, net.quant(x).zero_point)
    whole = net.concat((packed, *others), quant=quant, axis=3)
    check(net.graph(net.clip(whole, 0, 6), net.softmax(part)), generation)


@pytest.mark.parametrize(("count", "channels"), [(1, 6), (6, 6), (600, 600)])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_factor_that_is_a_part_of_other_channels(
    generation: str, count: int, channels: int
) -> None:
    """It is read where it begins inside of them, again and again."""
    net = Net(15)
    x, y = net.input((1, 2, 2, channels)), net.input((1, 1, 1, count + 8), (0.03, 5))
    attrs = SliceAttrs((0, 0, 0, 3), (1, 1, 1, count), (1, 1, 1, 1))
    part = net.op("Slice", (y,), attrs, (1, 1, 1, count), net.quant(y))
    check(net.graph(net.add(x, part, "Mul")), generation)


@pytest.mark.parametrize("scale", [1e-38, 1e20, 1e38])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_more_channels_than_coefficients_at_any_scale(scale: float, generation: str) -> None:
    net = Net(15)
    net.dense(net.input((1, 16), (1e-38, 3)), 1000, quant=(scale, 0))
    check(net.graph(), generation)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_large_bias_beside_more_channels_than_coefficients(generation: str) -> None:
    """It takes the negative sums of its channel back into the output's range."""
    net = Net(15)
    net.dense(net.input((1, 40), (0.02, -128)), 1000, quant=(0.02, -128))
    bias, weights = net.built.tensor("bias"), net.built.tensor("weights")
    assert bias.data is not None and bias.quant is not None and weights.data is not None
    weights.data[7] = -127
    bias.data[7] = round(18 / bias.quant.scales[7])
    check(net.graph(), generation)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_slopes_along_another_axis_of_the_same_length(generation: str) -> None:
    net = Net(16, Numerics.QDQ)
    x = net.input((2, 5, 2, 5), (0.01, -7))
    slopes = np.array([-71, 55, -19, 36, 90], np.int8).reshape(5, 1, 1)
    slope = net.constant(slopes, per_tensor(0.003, -1))
    net.op("PRelu", (x, slope), Attrs(), (2, 5, 2, 5), per_tensor(0.0107))
    check(net.graph(), generation)
