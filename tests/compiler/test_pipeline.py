"""Whole networks through the compiler: valid programs that compute what the reference does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from compiler.nets import (
    GENERATIONS,
    MACHINES,
    Net,
    compiled,
    dilated,
    operators,
    padded_channels,
    per_tensor,
    random_network,
    sample,
    small_groups,
    uint8_network,
)
from compiler.vendor import MOBILENET_30, TIME_SERIES_40, Build, rebuilt
from npuscope.compiler import numbers
from npuscope.compiler.pipeline import compile_graph
from npuscope.demo_network import demo_graph
from npuscope.errors import ModelError
from npuscope.graph.model import Activation, Attrs, DType, Graph, Numerics
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.moves import MirrorPadAttrs, SliceAttrs, TransposeAttrs
from npuscope.ops.recurrent import SvdfOutputAttrs
from npuscope.ops.reduce import PoolAttrs, ReduceAttrs
from npuscope.ops.run import run
from npuscope.profiling.validate import validate
from npuscope.program.code_files import code_files
from npuscope.program.model import EpochKind, Program, to_json
from npuscope.program.modes import ArithOp
from npuscope.program.units import Arith, Convacc, Streng
from npuscope.program.verify import verify
from npuscope.sim.run import execute
from npuscope.structs import replace

RELU, RELU6 = Activation.RELU, Activation.RELU6
HW, SW, EMPTY = EpochKind.HW, EpochKind.SW, EpochKind.EMPTY


def residual() -> Graph:
    net = Net(1)
    x = net.conv(net.input((1, 12, 12, 3)), 16, activation=RELU)
    narrow = net.conv(x, 16, (1, 1))
    wide = net.conv(narrow, 48, (1, 1), activation=RELU6)
    net.add(narrow, net.conv(net.conv(wide, 0, activation=RELU6), 16, (1, 1)))
    return net.graph()


def conv5x5() -> Graph:
    net = Net(2)
    net.conv(net.conv(net.input((1, 15, 13, 3)), 8, (5, 5)), 8, (5, 5), (2, 2), activation=RELU)
    return net.graph()


def keyword_spotting() -> Graph:
    """A 10x4 kernel of stride 2, separable blocks, pool, dense, softmax."""
    net = Net(3)
    x = net.conv(net.input((1, 49, 10, 1), (0.5, 83)), 64, (10, 4), (2, 2), activation=RELU)
    for _ in range(2):
        x = net.conv(net.conv(x, 0, activation=RELU), 64, (1, 1), activation=RELU)
    x = net.reshape(net.average_pool(x, (25, 5), (25, 5)), (1, 64))
    net.softmax(net.dense(x, 12, quant=(0.5, 3)))
    return net.graph()


def pools() -> Graph:
    net = Net(4)
    x = net.conv(net.max_pool(net.input((1, 13, 12, 8))), 16, activation=RELU)
    x = net.max_pool(net.average_pool(x, (3, 3), (1, 1)), (3, 3), (2, 2), (1, 1, 1, 1))
    net.mean(net.conv(x, 16, (1, 1)), (0.01, 9))
    return net.graph()


def many_channels() -> Graph:
    """More than 512: coefficients do not fit the unit and are streamed."""
    net = Net(5)
    net.conv(net.conv(net.input((1, 4, 4, 32)), 640, (1, 1), activation=RELU), 16, (1, 1))
    return net.graph()


def uint8_input() -> Graph:
    net = Net(6)
    x = net.quantize(net.input((1, 12, 12, 3), (1 / 128, 128), DType.UINT8), (1 / 128, 0))
    net.conv(net.conv(x, 16, activation=RELU), 8, (1, 1))
    return net.graph()


def unsigned_bytes() -> Graph:
    """As older quantizers made them: all tensors are uint8; the compiler's are int8."""
    net = Net(6)
    x = net.input((1, 12, 12, 3), (1 / 128, 128), DType.UINT8)
    for channels, zero in ((16, 0), (8, 131), (6, 100)):
        x = net.conv(x, channels, quant=(0.05, zero))
        net.built.tensors[x] = replace(net.built.tensor(x), dtype=DType.UINT8)
    return net.graph()


def float_island() -> Graph:
    net = Net(7)
    conv = net.conv(net.input((1, 8, 8, 16)), 32, (1, 1), activation=RELU)
    real = net.dequantize(conv)
    mean = net.op("Mean", (real,), ReduceAttrs((1, 2), True), (1, 1, 1, 32), None, DType.FLOAT32)
    scale = net.quant(conv).scale / 4
    net.dense(net.quantize(net.reshape(mean, (1, 32)), (scale, -128)), 10)
    return net.graph()


def dense_chain() -> Graph:
    net = Net(8)
    x = net.input((1, 96))
    for channels in (64, 40):
        x = net.dense(x, channels, RELU)
    net.dense(x, 7)
    return net.graph()


def channel_first() -> Graph:
    net = Net(9, Numerics.QDQ)
    x = net.conv(net.transpose(net.input((1, 3, 12, 12)), (0, 2, 3, 1)), 16)
    x = net.conv(net.conv(x, 0, activation=RELU), 24, (1, 1))
    net.transpose(x, (0, 3, 1, 2))
    return net.graph()


def channel_first_and_back() -> Graph:
    """The tensor in the middle has another reader."""
    net = Net(31)
    middle = net.transpose(net.conv(net.input((1, 12, 12, 8)), 16), (0, 3, 1, 2))
    back = net.conv(net.transpose(middle, (0, 2, 3, 1)), 8)
    return net.graph(back, middle)


def squeeze_excite() -> Graph:
    """A sigmoid gate that multiplies its own source, one value per channel."""
    net = Net(10)
    x = net.conv(net.input((1, 8, 8, 8), (0.02, 3)), 16)
    gate = net.sigmoid(net.conv(net.reshape(net.mean(x), (1, 1, 1, 16)), 16, (1, 1)))
    net.op("Mul", (x, gate), BinaryAttrs(), (1, 8, 8, 16), per_tensor(net.quant(x).scale * 0.7, 1))
    return net.graph()


def branches() -> Graph:
    """Two kernels side by side, joined along the channels."""
    net = Net(12)
    x = net.input((1, 9, 9, 8))
    quant = (0.04, 2)
    parts = (net.conv(x, 16, quant=quant), net.conv(x, 24, (1, 1), quant=quant))
    net.conv(net.concat(parts), 8, (1, 1))
    return net.graph()


QUANT = (0.04, 2)


def halves(net: Net, x: str) -> list[str]:
    """Both halves of the channels."""
    shape = net.shape(x)
    size = (*shape[:3], shape[3] // 2)
    starts = ((0, 0, 0, 0), (0, 0, 0, size[3]))
    slices = [SliceAttrs(start, size, (1, 1, 1, 1)) for start in starts]
    return [net.op("Slice", (x,), attrs, size, net.quant(x)) for attrs in slices]


def cut_and_joined() -> Graph:
    """Halves of a map, one of them worked on, joined with what was made of it."""
    net = Net(17)
    left, right = halves(net, net.conv(net.input((1, 9, 9, 3)), 16, quant=QUANT))
    inner = net.conv(net.conv(right, 8, quant=QUANT), 8, quant=QUANT)
    total = net.op("Add", (right, inner), BinaryAttrs(), net.shape(right), net.quant(right))
    net.conv(net.concat((left, right, inner, total)), 24, (1, 1))
    return net.graph()


def joined_twice() -> Graph:
    """A join of joins, a part that is an output, one of another scale, one that is reshaped."""
    net = Net(18)
    x = net.input((1, 6, 6, 8))
    first, second, other = (net.conv(x, 8, quant=QUANT) for _ in range(3))
    inner = net.concat((first, second))
    scaled = net.conv(x, 8, quant=(0.05, -3))
    last = net.conv(net.concat((inner, other, first, scaled)), 8, (1, 1))
    flat = net.reshape(second, (1, 36, 8))
    return net.graph(last, other, net.softmax(flat))


def large_kernels() -> Graph:
    """Dilated, and wider than the unit: both are cut into pieces."""
    net = Net(13)
    x = net.conv(net.input((1, 14, 15, 3)), 8, dilations=(2, 2), activation=RELU)
    net.conv(net.conv(x, 8, (7, 7), (2, 2)), 8, (1, 9))
    return net.graph()


def swish() -> Graph:
    """x * sigmoid(x) behind a convolution; another sigmoid has two readers."""
    net = Net(33)
    x = net.conv(net.input((1, 8, 9, 3)), 8)
    x = net.conv(net.add(x, net.sigmoid(x), "Mul"), 8)
    factor = net.sigmoid(x)
    return net.graph(net.conv(net.add(x, factor, "Mul"), 4), factor)


def odd_shapes() -> Graph:
    """Primes, stride 2 on odd maps, kernels of one row and one column, channels % 8 != 0."""
    net = Net(11)
    x = net.conv(net.input((1, 11, 17, 5), (0.02, -7)), 7, (2, 3), (2, 1), activation=RELU)
    x = net.conv(net.conv(x, 28, (1, 3)), 0, strides=(2, 2))
    net.conv(net.conv(x, 13, (3, 1)), 31, (1, 1), zero=0)
    return net.graph()


def mirrored() -> Graph:
    """A convolution behind a border of mirrored pixels."""
    net = Net(14)
    x = net.conv(net.input((1, 6, 6, 4), (0.02, 3)), 4)
    attrs = MirrorPadAttrs(((0, 0), (1, 2), (1, 1), (0, 0)))
    net.conv(net.op("MirrorPad", (x,), attrs, (1, 9, 8, 4), net.quant(x)), 8, pads=(0, 0, 0, 0))
    return net.graph()


def depthwise_groups() -> Graph:
    """Depthwise kernels on maps that take groups of four, three and two, strided and not."""
    net = Net(15)
    x = net.conv(net.input((1, 34, 34, 8), (0.02, -128)), 0, strides=(2, 2), zero=-128)
    x = net.conv(net.conv(x, 12, (1, 1), zero=-128), 0, zero=-128)
    x = net.conv(net.conv(x, 9, (1, 1), zero=-128), 0, zero=5)
    net.conv(x, 0, strides=(2, 2))
    return net.graph()


NETWORKS: dict[str, Callable[[], Graph]] = {
    "demo": demo_graph,
    "residual": residual,
    "conv5x5": conv5x5,
    "keyword_spotting": keyword_spotting,
    "pools": pools,
    "many_channels": many_channels,
    "uint8_input": uint8_input,
    "unsigned_bytes": unsigned_bytes,
    "float_island": float_island,
    "dense_chain": dense_chain,
    "channel_first": channel_first,
    "channel_first_and_back": channel_first_and_back,
    "odd_shapes": odd_shapes,
    "squeeze_excite": squeeze_excite,
    "branches": branches,
    "large_kernels": large_kernels,
    "dilated": dilated,
    "swish": swish,
    "padded_channels": padded_channels,
    "mirrored": mirrored,
    "depthwise_groups": depthwise_groups,
    "small_groups": small_groups,
    "cut_and_joined": cut_and_joined,
    "joined_twice": joined_twice,
}


def differences(program: Program, graph: Graph, values: dict[str, np.ndarray]) -> np.ndarray:
    """Steps between simulator and reference, over all outputs."""
    found, wanted = execute(program, values).outputs, run(graph, values)
    assert [found[name].dtype for name in graph.outputs] == [
        wanted[name].dtype for name in graph.outputs
    ]
    parts = [found[name].astype(np.float64) - wanted[name] for name in graph.outputs]
    return np.abs(np.concatenate([part.ravel() for part in parts]))


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_computes_what_the_reference_does(name: str, generation: str) -> None:
    """Every layer on its own from the reference's inputs, and the network end to end."""
    graph, machine = NETWORKS[name](), MACHINES[generation]
    program = compiled(graph, generation)
    verify(program, machine.units)
    found = validate(program, graph, machine, seeds=1 if name == "demo" else 3)
    assert found.passed
    assert found.layers
    assert all(layer.within_1_lsb_share >= 0.98 for layer in found.layers)
    # The unit rounds ties of a mean by the raw byte, LiteRT by its distance from the zero point.
    assert found.layers_exact_share >= (0.9 if name == "pools" else 0.95)
    # The demo is deep: its output drifts as the silicon's does.
    limit = 0.9 if name == "demo" else 0.98
    assert all(output.within_1_lsb_share >= limit for output in found.outputs)
    assert any(output.std > 0 for output in found.outputs)  # a constant would agree too


@pytest.mark.parametrize("generation", GENERATIONS)
def test_offsets_whose_first_one_ends_in_ones(
    generation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scalar of -1 beside a vector of offsets asks for their negatives."""
    right = numbers.offset32

    def ends_in_ones(*given: Any, **more: Any) -> tuple[np.ndarray, int]:
        c, shift = right(*given, **more)
        return np.concatenate([c[:1] | 0xFFFF, c[1:]]), shift

    monkeypatch.setattr(numbers, "offset32", ends_in_ones)
    net = Net(3)
    net.conv(net.input((1, 6, 5, 4)), 8, zero=20)
    graph = net.graph()
    program = compiled(graph, generation)
    vectors = [u for e in program.executed for u in e.units if getattr(u, "C_vector", None)]
    assert vectors and not any(unit.C_scalar for unit in vectors)
    assert differences(program, graph, sample(graph)).max() <= 1


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("zero", [0, 7])
def test_a_product_of_a_few_steps_far_from_zero(zero: int, generation: str) -> None:
    """Its factor is so small that the zero point of the output, scaled like it, needs 34 bits."""
    net = Net(4)
    x, y = (net.input((1, 7, 2, 3), quant=(0.001, point)) for point in (-1, zero))
    net.add(x, y, "Mul", quant=(0.003, 122))
    graph = net.graph()
    assert differences(compiled(graph, generation), graph, sample(graph)).max() <= 1


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("seed", range(12))
def test_random_networks(seed: int, generation: str) -> None:
    graph, machine = random_network(100 + seed), MACHINES[generation]
    program = compiled(graph, generation, optimization=3 * (seed % 2))
    verify(program, machine.units)
    assert validate(program, graph, machine).passed


@pytest.mark.parametrize("generation", GENERATIONS)
def test_compiling_twice_gives_the_same(generation: str) -> None:
    first, second = (compiled(demo_graph(), generation) for _ in range(2))
    assert to_json(first) == to_json(second)
    assert first.constants.keys() == second.constants.keys()
    assert all(np.array_equal(first.constants[k], second.constants[k]) for k in first.constants)


def test_compiling_leaves_the_graph_alone() -> None:
    graph = keyword_spotting()
    ops, tensors = list(graph.ops), dict(graph.tensors)
    compiled(graph, "open")
    assert (graph.ops, graph.tensors) == (ops, tensors)


# Epochs


def test_a_channel_last_image_leaves_the_first_epoch_empty() -> None:
    for generation in GENERATIONS:
        program = compiled(residual(), generation)
        assert program.epochs[0].kind is EMPTY
        assert program.epochs[0].operators == ("Transpose",)
        assert [epoch.number for epoch in program.executed] == list(
            range(2, len(program.epochs) + 1)
        )


def test_a_channel_first_image_is_copied_in_the_first_epoch() -> None:
    for generation in GENERATIONS:
        program = compiled(channel_first(), generation)
        assert program.epochs[0].number == 1
        assert operators(program)[0] == operators(program)[-1] == ("Identity",)
        assert program.count(EMPTY) == 0


def test_features_without_an_image_start_at_one() -> None:
    program = compiled(dense_chain(), "4.0")
    assert [epoch.number for epoch in program.epochs] == [1, 2, 3]
    assert program.count(EMPTY) == 0


@pytest.mark.parametrize(
    ("name", "generation", "hardware", "software"),
    [
        ("demo", "4.0", 21, 1),
        ("float_island", "2.2", 2, 3),
        ("float_island", "4.0", 2, 3),
        ("float_island", "open", 3, 0),
        ("many_channels", "4.0", 2, 0),
        ("uint8_input", "4.0", 3, 0),
        ("uint8_input", "open", 2, 0),
    ],
)
def test_counts(name: str, generation: str, hardware: int, software: int) -> None:
    program = compiled(NETWORKS[name](), generation)
    assert (program.count(HW), program.count(SW)) == (hardware, software)


@pytest.mark.parametrize("generation", ["2.2", "3.0", "4.0"])
def test_a_uint8_input_costs_a_stage(generation: str) -> None:
    assert operators(compiled(uint8_input(), generation))[1][0] == "Add"


def test_a_uint8_input_is_free_in_the_open_dialect() -> None:
    program = compiled(uint8_input(), "open")
    assert operators(program)[1][0] == "Conv"
    first = next(unit for unit in program.epochs[1].units if isinstance(unit, Convacc))
    assert (first.fsub, first.simd) == (128, 2)


def test_neighbouring_hardware_epochs_share_a_blob() -> None:
    program = compiled(float_island(), "4.0")
    assert [epoch.blob for epoch in program.epochs] == [None, 1, None, None, None, 2]


def test_epochs_say_what_they_came_from() -> None:
    for epoch in compiled(demo_graph(), "2.2").executed:
        assert epoch.origin, epoch.name


def test_a_batch_is_refused() -> None:
    net = Net()
    x = net.conv(net.input((2, 8, 8, 3)), 8)
    net.built.tensors[x] = replace(net.built.tensor(x), shape=(2, 8, 8, 8))
    graph = net.graph()
    with pytest.raises(ModelError, match="Conv2D has batch 2; the NPU runs one image at a time"):
        compiled(graph)


# Unit configurations


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("seed", range(6))
def test_the_mode_follows_the_zero_point(seed: int, generation: str) -> None:
    """Rules 1 and 2: simd 2 exactly when fsub != 0; deep and DSS2 in 8x8 mode only."""
    program = compiled(random_network(200 + seed), generation)
    units = [u for epoch in program.epochs for u in epoch.units if isinstance(u, Convacc)]
    assert units
    for unit in units:
        assert (unit.simd == 2) == (unit.fsub != 0)
        assert unit.simd in (1, 2)
        assert unit.simd == 1 or not (unit.deepmode or unit.dss2mode)
        assert unit.kernelHeight <= 3


@pytest.mark.parametrize(
    ("zero", "simd", "fsub", "shifted"),
    [(0, 1, 0, False), (-128, 1, 0, True), (6, 2, 6, False), (127, 2, 127, False)],
)
def test_a_zero_point_of_the_features(zero: int, simd: int, fsub: int, shifted: bool) -> None:
    """-128 is removed by a Sub: the byte becomes unsigned with zero point 0."""
    net = Net()
    net.conv(net.input((1, 8, 8, 8), (0.02, zero)), 8)
    program = compiled(net.graph())
    unit = next(u for epoch in program.epochs for u in epoch.units if isinstance(u, Convacc))
    assert (unit.simd, unit.fsub, unit.f_unsigned) == (simd, fsub, int(shifted))
    assert ("Sub" in operators(program)[1]) == shifted
    assert (differences(program, net.graph(), sample(net.graph())) <= 1).mean() >= 0.98


@pytest.mark.parametrize(
    ("window", "strides", "rows"),
    [
        ((5, 5), (1, 1), [2, 3]),
        ((5, 5), (2, 2), [2, 3]),
        ((6, 6), (2, 2), [3, 3]),
        ((10, 4), (2, 2), [1, 3, 3, 3]),
        ((4, 3), (1, 1), [1, 3]),
    ],
)
def test_high_kernels_are_cut_into_rows(
    window: tuple[int, int], strides: tuple[int, int], rows: list[int]
) -> None:
    """Pieces of three rows, the width kept, the last one first, joined by ARITH additions."""
    net = Net()
    net.conv(net.input((1, 20, 12, 2)), 8, window, strides)
    graph = net.graph()
    program = compiled(graph, "4.0")
    units = [u for epoch in program.epochs for u in epoch.units if isinstance(u, Convacc)]
    assert [unit.kernelHeight for unit in units] == rows
    assert {unit.kernelWidth for unit in units} == {window[1]}
    names = Counter(name for epoch in program.epochs for name in epoch.operators)
    assert names["Add"] == len(rows)  # the joins and the bias
    assert (differences(program, graph, sample(graph)) <= 1).mean() >= 0.98


@pytest.mark.parametrize("generation", GENERATIONS)
def test_more_than_512_channels_are_streamed(generation: str) -> None:
    program = compiled(many_channels(), generation)
    first = program.epochs[1]
    constants = {name for name in program.constants if name.endswith(".table")}
    assert len(constants) == 2  # scales and biases
    ariths = [unit for unit in first.units if isinstance(unit, Arith)]
    assert ArithOp.MUL in {unit.operation for unit in ariths}
    for epoch in program.epochs:
        for unit in epoch.units:
            if isinstance(unit, Arith) and unit.A_vector is not None:
                assert program.buffer_map()[unit.A_vector.buffer].size_bytes <= 2 * 512


# Memory


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("name", ["demo", "keyword_spotting", "float_island", "many_channels"])
def test_lifetimes_cover_all_uses(name: str, generation: str) -> None:
    """From the epoch that writes to the last that reads; inputs from 0, outputs to the end."""
    program = compiled(NETWORKS[name](), generation)
    buffers = program.buffer_map()
    uses: dict[str, list[int]] = {}
    for epoch in program.epochs:
        names = [u.addr_base.buffer for u in epoch.units if isinstance(u, Streng)]
        if epoch.call:
            names += [n for n in (*epoch.call.inputs, *epoch.call.outputs) if n]
        for used in names:
            root = buffers[used].view_of or used
            uses.setdefault(root, []).append(epoch.number)
    for used, epochs in uses.items():
        assert buffers[used].first <= min(epochs) and max(epochs) <= buffers[used].last
        if not buffers[used].is_param and not used.endswith(".partial"):
            ends = (0 if used in program.inputs else min(epochs), max(epochs))
            out = {buffers[n].view_of or n for n in program.outputs}
            last = len(program.epochs) if used in out else ends[1]
            assert (buffers[used].first, buffers[used].last) == (ends[0], last)


def test_partial_sums_hold_one_tile() -> None:
    """16-bit sums of one tile, not of the tensor: 2 x nK x H x W, alive into the next epoch."""
    net = Net()
    net.conv(net.input((1, 7, 7, 128)), 16, zero=0)
    program = compiled(net.graph(), "4.0")
    partial = [b for b in program.buffers if b.name.endswith(".partial")]
    assert [(b.size_bytes, b.first, b.last) for b in partial] == [(2 * 8 * 7 * 7, 2, 3)]


def test_depthwise_weights_grow_eightfold_at_22() -> None:
    net = Net()
    net.conv(net.input((1, 8, 8, 32)), 0)
    sizes = {}
    for generation in ("2.2", "4.0"):
        program = compiled(net.graph(), generation)
        sizes[generation] = program.constants["conv2d.weights"].nbytes
    assert sizes == {"2.2": 72 * 32, "4.0": 9 * 32}


def test_mobilenet_keeps_its_published_memory() -> None:
    """Rebuilt from public builds: 240 KiB for MobileNetV2, 46.9 KiB for the time series."""
    for name, generation, kib in ((MOBILENET_30, "3.0", 240), (TIME_SERIES_40, "4.0", 46.875)):
        program = compiled(rebuilt(Build(name)), generation, optimization=0)
        internal = [p for p in program.pools if p.name[:6] in ("cpuRAM", "npuRAM")]
        assert sum(p.used_bytes for p in internal if not p.virtual) == kib * 1024
        verify(program, MACHINES[generation].units)


# What is known to be wrong


def uint8_output() -> Graph:
    net = Net(20)
    conv = net.conv(net.input((1, 8, 8, 3)), 8)
    quant = net.quant(conv)
    net.quantize(conv, (quant.scale, quant.zero_point + 128), DType.UINT8)
    return net.graph()


@pytest.mark.parametrize("generation", GENERATIONS)
def test_uint8_outputs(generation: str) -> None:
    graph = uint8_output()
    assert differences(compiled(graph, generation), graph, sample(graph)).max() <= 1


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_uint8_network(generation: str) -> None:
    graph = uint8_network()
    assert (differences(compiled(graph, generation), graph, sample(graph)) <= 1).mean() >= 0.98


def behind_a_uint8_input(kind: str) -> Graph:
    net = Net(21)
    x = net.quantize(net.input((1, 8, 8, 8), (1 / 128, 128), DType.UINT8), (1 / 128, 0))
    makers = {
        "AveragePool": net.average_pool,
        "Mean": net.mean,
        "MaxPool": net.max_pool,
        "Softmax": net.softmax,
        "Clip": lambda name: net.clip(name, 0.0, 0.7),
        "Conv2D": lambda name: net.conv(name, 8),
        "Add": lambda name: net.add(name, net.conv(name, 8)),
    }
    makers[kind](x)
    return net.graph()


@pytest.mark.parametrize("generation", ["3.0", "4.0", "open"])
@pytest.mark.parametrize(
    "kind",
    [
        "Conv2D",
        "Add",
        "Clip",
        pytest.param("AveragePool"),
        pytest.param("Mean"),
        pytest.param("MaxPool"),
        pytest.param("Softmax"),
    ],
)
def test_a_uint8_input_that_is_read_as_it_is(kind: str, generation: str) -> None:
    graph = behind_a_uint8_input(kind)
    program = compiled(graph, generation)
    assert (differences(program, graph, sample(graph)) <= 1).mean() >= 0.98


@pytest.mark.parametrize(
    "kind", ["Conv2D", "Add", "Clip", "AveragePool", "Mean", "MaxPool", "Softmax"]
)
def test_a_uint8_input_that_is_converted_first(kind: str) -> None:
    graph = behind_a_uint8_input(kind)
    assert (differences(compiled(graph, "2.2"), graph, sample(graph)) <= 1).mean() >= 0.98


def between_two_scales(kind: str, attrs: Attrs, shape: tuple[int, ...]) -> Graph:
    net = Net(22, Numerics.QDQ)
    conv = net.conv(net.input((1, 8, 8, 8)), 8)
    net.op(kind, (conv,), attrs, shape, per_tensor(net.quant(conv).scale * 1.7, 11))
    return net.graph()


@pytest.mark.parametrize(
    ("kind", "attrs", "shape"),
    [
        ("Reshape", Attrs(), (1, 512)),
        ("Transpose", TransposeAttrs((0, 3, 1, 2)), (1, 8, 8, 8)),
        ("MaxPool", PoolAttrs((2, 2), (2, 2)), (1, 4, 4, 8)),
    ],
)
@pytest.mark.parametrize("generation", ["2.2", "open"])
def test_moves_between_two_scales(
    kind: str, attrs: Attrs, shape: tuple[int, ...], generation: str
) -> None:
    graph = between_two_scales(kind, attrs, shape)
    assert differences(compiled(graph, generation), graph, sample(graph)).max() <= 1


def opposed(window: tuple[int, int], inputs: int, along: int) -> Graph:
    """Half of the weights +127, half -127: partial sums are large, the whole is small."""
    net = Net(23)
    weights = np.full((8, *window, inputs), 127, np.int8)
    half = np.arange(weights.shape[along]) >= -(-weights.shape[along] // 2)
    weights[tuple(half if axis == along else slice(None) for axis in range(4))] = -127
    size = weights[0].size * 127 * 127 / 20
    quant = (0.02 * 0.001 * size / 100, 0)
    net.conv(net.input((1, 9, 9, inputs)), 8, window, weights=weights, quant=quant)
    return net.graph()


@pytest.mark.parametrize(
    ("window", "inputs", "along"),
    [((3, 3), 64, 3), pytest.param((5, 5), 8, 1)],
    ids=["passes", "pieces"],
)
def test_open_never_saturates_a_partial_sum_that_matters(
    window: tuple[int, int], inputs: int, along: int
) -> None:
    graph = opposed(window, inputs, along)
    values = {"input0": np.full((1, 9, 9, inputs), 127, np.int8)}
    values["input0"][0, :, :, ::5] = 90
    assert differences(compiled(graph, "open"), graph, values).max() <= 1


@pytest.mark.parametrize("window", [(5, 5), (7, 7)])
def test_high_depthwise_kernels_at_22(window: tuple[int, int]) -> None:
    net = Net(24)
    net.conv(net.input((1, 12, 12, 16)), window=window)
    graph = net.graph()
    assert (differences(compiled(graph, "2.2"), graph, sample(graph)) <= 1).mean() >= 0.98


@pytest.mark.parametrize("generation", ["3.0", "4.0", "open"])
@pytest.mark.parametrize("window", [(5, 5), (7, 7)])
def test_high_depthwise_kernels_later(window: tuple[int, int], generation: str) -> None:
    net = Net(24)
    net.conv(net.input((1, 12, 12, 16)), window=window)
    graph = net.graph()
    assert (differences(compiled(graph, generation), graph, sample(graph)) <= 1).mean() >= 0.98


def with_constant(kind: str, shape: tuple[int, ...], constant_first: bool) -> Graph:
    net = Net(25)
    x = net.input((1, 6, 6, 4), (0.02, 3))
    data = net.random.integers(-128, 128, shape).astype(np.int8)
    names = (x, net.constant(data, per_tensor(0.03, 4)))
    inputs = names[::-1] if constant_first else names
    net.op(kind, inputs, BinaryAttrs(), (1, 6, 6, 4), per_tensor(0.06, -2))
    return net.graph()


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
@pytest.mark.parametrize("shape", [(1,), (4,), (1, 1, 1, 4), (1, 6, 6, 4), (6, 6, 4)])
@pytest.mark.parametrize("constant_first", [True, False])
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
def test_constant_operands(
    kind: str, constant_first: bool, shape: tuple[int, ...], generation: str
) -> None:
    graph = with_constant(kind, shape, constant_first)
    program = compiled(graph, generation)
    assert program.count(SW) == 0
    assert differences(program, graph, sample(graph)).max() <= 1


@pytest.mark.parametrize("generation", ["2.2", "4.0", "open"])
@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
def test_a_constant_for_each_of_many_channels_is_streamed(kind: str, generation: str) -> None:
    """The unit holds 512 coefficients; boxes of a detector have a stride for each of 8,400."""
    net = Net(25)
    x = net.input((1, 1, 4, 513), (0.02, 3))
    data = net.random.integers(-128, 128, 513).astype(np.int8)
    names = (x, net.constant(data, per_tensor(0.03, 4)))
    net.op(kind, names, BinaryAttrs(), net.shape(x), per_tensor(0.06, -2))
    graph = net.graph()
    program = compiled(graph, generation)
    assert program.count(SW) == 0
    assert differences(program, graph, sample(graph)).max() <= 1
    assert code_files(program, MACHINES[generation], "net")[0] == ()  # blobs were written


def test_a_constant_map_is_read_from_flash() -> None:
    """Once where it is added; a product with two zero points reads it twice."""
    readers = {"Add": 1, "Mul": 2}
    for kind, count in readers.items():
        program = compiled(with_constant(kind, (1, 6, 6, 4), False), "4.0")
        home = program.buffer_map()["constant"]
        assert (home.pool, home.size_bytes, home.is_param) == ("octoFlash", 144, True)
        units = [unit for epoch in program.executed for unit in epoch.units]
        streams = [u for u in units if isinstance(u, Streng) and u.addr_base.buffer == "constant"]
        assert len(streams) == count


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64"])
def test_an_output_that_is_a_constant_is_copied(dtype: str) -> None:
    """Where outputs lie is memory that the application reads, not the flash."""
    net = Net(25)
    net.conv(net.input((1, 6, 6, 4)), 8)
    anchors = net.constant(np.arange(-30, 12).reshape(1, 21, 2).astype(dtype))
    graph = net.graph()
    graph.outputs = (*graph.outputs, anchors)
    program = compiled(graph, "2.2")
    verify(program, MACHINES["2.2"].units)
    home = program.buffer_map()[program.outputs[1]]
    assert home.pool == "npuRAM5" and home.size_bytes == graph.tensor(anchors).size_bytes
    assert program.buffer_map()[f"{anchors}.constant"].pool == "octoFlash"
    assert differences(program, graph, sample(graph)).max() <= 1


def test_a_float_constant_map_stays_on_the_cpu() -> None:
    net = Net(25)
    x = net.dequantize(net.input((1, 6, 6, 4), (0.02, 3)))
    data = net.random.normal(size=(1, 6, 6, 4)).astype(np.float32)
    total = net.op("Sub", (net.constant(data), x), BinaryAttrs(), (1, 6, 6, 4), None, DType.FLOAT32)
    net.quantize(total, (0.06, -2))
    assert compiled(net.graph(), "4.0").count(SW) == 3


@pytest.mark.parametrize(
    ("generation", "level", "size", "zero", "copies"),
    [
        ("2.2", 3, (4, 6), -128, 1),  # frames of 192 bytes
        ("2.2", 3, (6, 6), -128, 0),
        ("2.2", 0, (4, 6), -128, 0),
        ("2.2", 3, (12, 12), 7, 1),  # 16x8 mode
        ("2.2", 0, (12, 12), 7, 0),
        ("4.0", 3, (4, 6), -128, 0),
    ],
)
def test_copies_in_front_of_depthwise_layers(
    generation: str, level: int, size: tuple[int, int], zero: int, copies: int
) -> None:
    """As builds of YAMNet, MobileNet, SSD and a face mesh show them: in the layer's own frames."""
    net = Net(34)
    x = net.conv(net.input((1, *size, 16)), 32, (1, 1), zero=zero)
    net.conv(x, 0)
    graph = net.graph()
    program = compiled(graph, generation, optimization=level)
    verify(program, MACHINES[generation].units)
    made = [b for b in program.buffers if b.name.endswith(".cp")]
    assert len(made) == copies
    assert all(b.batch == (8 if zero == -128 else 4) for b in made)
    assert differences(program, graph, sample(graph)).max() <= 1


def test_integers_of_an_svdf_wrap_on_the_cpu_too() -> None:
    """LiteRT's sums have 32 bits, which products of 16 bits exceed; floats would not."""
    net = Net(33)
    memory = net.input((1, 64), (0.004, 0), DType.INT16)
    weights = net.constant(np.full((2, 32), 30000, np.int16), per_tensor(0.002))
    net.op("SvdfOutput", (memory, weights), SvdfOutputAttrs(), (1, 2), per_tensor(60.0, -3))
    graph = net.graph()
    values = {memory: np.arange(64, dtype=np.int16).reshape(1, 64) * 500}
    assert differences(compiled(graph), graph, values).max() == 0


@pytest.mark.parametrize("zeros", [(0, 0), (5, 0), (0, 7), (5, -9), (-128, -128), (127, -128)])
def test_products_with_zero_points(zeros: tuple[int, int]) -> None:
    net = Net(26)
    names = tuple(net.input((1, 6, 6, 4), (0.02, zero)) for zero in zeros)
    net.op("Mul", names, BinaryAttrs(), (1, 6, 6, 4), per_tensor(0.05, 1))
    graph = net.graph()
    assert differences(compiled(graph), graph, sample(graph)).max() <= 1


def concat_of_two_scales() -> Graph:
    net = Net(27, Numerics.QDQ)
    x = net.input((1, 8, 8, 16), (0.03, 3))
    net.concat((net.conv(x, 8), net.conv(x, 5)), (0.2, 9))
    return net.graph()


@pytest.mark.parametrize(
    "generation",
    ["2.2", pytest.param("3.0"), pytest.param("4.0"), "open"],
)
def test_a_concat_that_rescales(generation: str) -> None:
    graph = concat_of_two_scales()
    program = compiled(graph, generation)
    verify(program, MACHINES[generation].units)
    assert differences(program, graph, sample(graph)).max() <= 1


@pytest.mark.parametrize(("generation", "kind"), [("2.2", SW), ("4.0", EpochKind.HYBRID)])
def test_a_mirrored_border_is_moved_as_bytes(generation: str, kind: EpochKind) -> None:
    program = compiled(mirrored(), generation)
    calls = [epoch for epoch in program.epochs if epoch.call]
    assert [(epoch.call.kernel, epoch.kind) for epoch in calls if epoch.call] == [
        ("MirrorPad", kind)
    ]
    assert not any(buffer.is_float for buffer in program.buffers)


def test_small_groups_take_a_frame_each() -> None:
    """One group a frame; 8 outputs of a group in 16x8 mode are two tiles of the same channels."""
    program = compiled(small_groups(), "4.0")
    assert program.count(SW) == 0
    units = [u for epoch in program.epochs for u in epoch.units if isinstance(u, Convacc)]
    shapes = [(u.nKernels, u.batchDepth, int(u.simd)) for u in units]
    assert shapes[1:] == [(8, 8, 1), (2, 4, 1), (4, 3, 2), (2, 4, 1), (2, 4, 1)]
    assert compiled(small_groups(), "2.2").count(SW) > 0


@pytest.mark.parametrize(
    ("generation", "moves"),
    [("2.2", [("Slice", "Slice"), ("Concat",)]), ("3.0", []), ("4.0", [])],
)
def test_channels_that_are_cut_out_or_joined_cost_no_epoch(
    generation: str, moves: list[tuple[str, ...]]
) -> None:
    """From 3.0 on they name a part of a buffer; before, they are copied: cut ones side by side,
    joined ones as a whole."""
    program = compiled(cut_and_joined(), generation)
    found = [names for names in operators(program) if {*names} & {"Slice", "Concat"}]
    assert found == moves


@pytest.mark.parametrize(
    ("generation", "numerics", "fused"),
    [("3.0", Numerics.LITERT, 1), ("3.0", Numerics.QDQ, 0), ("4.0", Numerics.QDQ, 1)],
)
def test_a_product_with_its_own_sigmoid_is_one_function(
    generation: str, numerics: Numerics, fused: int
) -> None:
    """Before 4.0 not in networks from ONNX (EfficientNetV2-B1, a YOLO)."""
    graph = swish()
    graph.numerics = numerics
    epochs = compiled(graph, generation).epochs
    names = Counter(name for epoch in epochs for name in epoch.operators)
    assert (names["Swish"], names["Sigmoid"]) == (fused, 2 - fused)


@pytest.mark.parametrize(("generation", "entries"), [("2.2", {8}), ("3.0", {4}), ("4.0", {24})])
def test_a_product_reads_its_vector_in_the_frames_of_its_tensor(
    generation: str, entries: set[int]
) -> None:
    net = Net(34)
    x = net.conv(net.input((1, 24, 24, 24)), 0)  # depthwise, in groups
    factor = net.sigmoid(net.conv(net.reshape(net.mean(x), (1, 1, 1, 24)), 24, (1, 1)))
    result = per_tensor(net.quant(x).scale * 0.7, 1)
    net.op("Mul", (x, factor), BinaryAttrs(), (1, 24, 24, 24), result)
    program = compiled(net.graph(), generation)
    units = [unit for epoch in program.epochs for unit in epoch.units]
    vectors = [e for e in units if isinstance(e, Streng) and factor in e.addr_base.buffer]
    assert {e.frame_elements for e in vectors if not e.dir} == entries


@pytest.mark.parametrize(("generation", "moves"), [("2.2", 2), ("4.0", 2), ("open", 1)])
def test_channels_are_padded_as_rows(generation: str, moves: int) -> None:
    """Two transposes by the library around a pad on the NPU (BlazeFace, builds of 2.2 and 4.0)."""
    program = compiled(padded_channels(), generation)
    calls = [epoch for epoch in program.executed if epoch.call]
    names = ["Transpose"] * 2 if moves == 2 else ["Concat"]
    assert [epoch.operators[0] for epoch in calls] == names
    assert {refused.rule for epoch in calls for refused in epoch.trail} == {"NA-PAD-CHANNEL"}


def test_equal_parts_are_joined_in_one_copy() -> None:
    """In 2.x they are made side by side; one pair of engines brings their channels together, two
    bytes at a time."""
    net = Net(21)
    x = net.input((1, 6, 6, 8))
    parts = tuple(net.conv(x, 4, (1, 1), quant=QUANT) for _ in range(3))
    program = compiled(net.graph(net.concat(parts)), "2.2")
    joins = [epoch for epoch in program.executed if "Concat" in epoch.operators]
    assert [epoch.operators for epoch in joins] == [("Concat",)]
    reader, writer = (unit for unit in joins[0].units if isinstance(unit, Streng))
    assert (reader.nbits_in, reader.frame_tot_cnt, reader.batch_depth) == (16, 3, 2)
    assert (writer.nbits_out, writer.frame_tot_cnt, writer.batch_offset) == (16, 3, 12)


def test_a_join_keeps_one_buffer_for_its_parts() -> None:
    whole = 9 * 9 * (16 + 8 + 8)
    program = compiled(cut_and_joined(), "4.0")
    sizes = [b.size_bytes for b in program.buffers if not b.is_param and not b.view_of]
    assert sizes.count(whole) == 1
    assert 9 * 9 * 16 not in sizes  # the map that is cut lies in the join


def test_a_zero_point_behind_a_join_leaves_in_an_epoch_of_its_own() -> None:
    """Frames hold one part there, which is not the depth of the convolution behind."""
    net = Net(19)
    x = net.input((1, 9, 9, 8))
    parts = tuple(net.conv(x, 16, (1, 1), quant=(0.04, -128)) for _ in range(2))
    net.conv(net.concat(parts), 16, (1, 1))
    assert ("Sub",) in operators(compiled(net.graph(), "4.0"))


@pytest.mark.parametrize(("stride", "batches"), [(2, {2, 4}), (1, {16})])
def test_sums_of_pieces_lie_frame_by_frame(stride: int, batches: set[int]) -> None:
    """As the registers of a public stem of 7x7 at stride 2; a kernel cut both ways is not known."""
    net = Net()
    x = net.input((1, 32, 32, 3), (0.02, -1))
    net.conv(x, 16, (7, 7), (stride, stride))
    program = compile_graph(net.graph(), MACHINES["4.0"])
    engines = [u for e in program.epochs for g in e.groups or () for u in g.units]
    sums = [u for u in engines if isinstance(u, Streng) and ".sums.piece" in u.addr_base.buffer]
    assert {u.dir for u in sums} == {0, 1}
    assert {program.buffer_map()[u.addr_base.buffer].batch for u in sums} == batches
    assert all(u.adjacent for u in sums) is (stride == 2)
