"""How convolutions are cut: the cases that fixed the rules, and the rules written once more.

Expected values come from public compiler output, not from the code under test. Generation 2.2
stands for atonn 1.1.1, 4.0 for 1.1.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
import pytest

from compiler.nets import MACHINES, Net, scheduled
from compiler.vendor import MOBILENET_30, TIME_SERIES_40, Build
from npuscope.compiler.stages import ConvStage
from npuscope.geometry.divisors import largest_divisor
from npuscope.geometry.tiling import (
    ConvMode,
    ConvShape,
    Tiling,
    choose_tiling,
    depthwise_tiling,
    pool_limit,
)
from npuscope.program.modes import Simd

BYTES, WORDS = Simd.S8X8, Simd.S16X8
PLAIN, DEEP = ConvMode.PLAIN1X1, ConvMode.DEEP1X1
O3, O1, O0 = 3, 1, 0
Pair = tuple[int, int]


class Case(NamedTuple):
    """One convolution that was found in a build, and what is known of its tiling."""

    net: str
    inputs: int
    outputs: int
    window: Pair
    size: Pair
    simd: Simd
    optimization: int
    found: dict[str, object]
    generation: str = "2.2"
    stride: int = 1

    def tiling(self) -> Tiling:
        out = tuple(-(-n // self.stride) for n in self.size)
        shape = ConvShape(
            self.inputs,
            self.outputs,
            self.window,
            self.size,
            (out[0], out[1]),
            (self.stride, self.stride),
        )
        return choose_tiling(shape, self.simd, MACHINES[self.generation], self.optimization)


def found(tiling: Tiling, wanted: dict[str, object]) -> dict[str, object]:
    return {key: getattr(tiling, key) for key in wanted}


def want(**known: object) -> dict[str, object]:
    return known


# Layers of public builds that fix the rules: each rules out another way to choose tiles. Where the
# build gives no map the size is that of the layer in the network named.
ROW = want(kernels=8, depth=16, pipe=1)
WIDE, WIDE_ROW = want(kernels=2, depth=1, pipe=3), want(kernels=4, depth=3, pipe=1)
CASES = [
    Case("alex22", 48, 328, (1, 1), (4, 4), WORDS, O3, want(kernels=8, depth=24, pipe=1, passes=2)),
    Case("alex30", 48, 328, (1, 1), (4, 4), WORDS, O0, want(pipe=2, passes=1), "3.0"),
    Case("edgeimp", 128, 256, (3, 3), (14, 14), WORDS, O3, want(pipe=1, passes=16), stride=2),
    Case("edgeimp", 128, 128, (3, 3), (7, 7), WORDS, O3, want(pipe=1, passes=16)),
    Case("edgeimp", 64, 64, (3, 3), (14, 14), WORDS, O3, want(pipe=4, passes=2)),
    Case("ocr", 384, 384, (1, 1), (5, 5), WORDS, O3, want(pipe=2, passes=8)),
    Case("ocr", 96, 24, (3, 3), (10, 10), BYTES, O3, want(pipe=2, passes=6)),
    Case("ocr", 96, 24, (3, 3), (5, 5), WORDS, O3, want(pipe=1)),
    Case("ocr", 96, 24, (3, 3), (20, 20), BYTES, O3, want(pipe=4)),
    Case("ssd", 128, 20, (1, 1), (6, 6), WORDS, O3, want(pipe=4)),
    Case("ssd", 128, 20, (1, 1), (3, 3), WORDS, O3, want(pipe=1)),
    Case("ssd", 128, 20, (1, 1), (2, 2), WORDS, O3, want(pipe=1)),
    Case("yamnet", 256, 512, (1, 1), (6, 4), BYTES, O3, want(mode=DEEP, pipe=2)),
    Case("yamnet", 512, 512, (1, 1), (6, 4), BYTES, O3, want(mode=DEEP, pipe=2)),
    Case("alex22", 328, 8, (1, 1), (4, 4), BYTES, O3, want(mode=DEEP, pipe=2, depth=82)),
    Case("alex30", 328, 8, (1, 1), (4, 4), BYTES, O0, want(mode=DEEP, pipe=4), "3.0"),
    Case("pele", 576, 160, (1, 1), (4, 4), BYTES, O0, want(mode=DEEP, pipe=3, depth=96, passes=2)),
    Case("alex22", 64, 16, (1, 1), (16, 16), BYTES, O3, want(mode=PLAIN, pipe=4)),
    Case("alex22", 80, 16, (1, 1), (32, 32), BYTES, O3, want(mode=PLAIN, pipe=4)),
    Case("alex22", 96, 16, (1, 1), (16, 16), BYTES, O3, want(mode=PLAIN, pipe=4)),
    Case("blaze", 96, 96, (1, 1), (8, 8), BYTES, O0, want(mode=DEEP, pipe=1)),
    Case("blaze", 96, 6, (1, 1), (8, 8), BYTES, O0, want(mode=PLAIN, pipe=4)),
    Case("yamnet", 32, 64, (1, 1), (48, 32), BYTES, O3, want(mode=DEEP, pipe=1)),
    Case("krj", 32, 32, (1, 1), (10, 25), BYTES, O0, want(mode=PLAIN, pipe=2), "4.0"),
    # The same ties on the other side: the later compiler wants deep to be cheaper, below -O3.
    Case("tie", 32, 64, (1, 1), (48, 32), BYTES, O0, want(mode=PLAIN, pipe=2), "4.0"),
    Case("yolox", 32, 32, (1, 1), (60, 60), BYTES, O3, want(mode=DEEP, pipe=1), "4.0"),
    Case("reid", 32, 16, (1, 1), (128, 64), BYTES, O3, want(mode=DEEP, pipe=1), "3.0"),
    # Units in series of a Tiny-YOLOv2.
    Case("tyolo", 128, 256, (3, 3), (14, 14), WORDS, O3, want(pipe=4, passes=4), "4.0"),
    Case("tyolo", 256, 512, (3, 3), (7, 7), WORDS, O3, want(pipe=1, passes=32), "4.0"),
    # A YOLOv8n of the vendor's tables.
    Case("yolov8", 128, 256, (3, 3), (16, 16), WORDS, O1, want(pipe=1), "4.0", stride=2),
    Case("squeeze", 64, 256, (3, 3), (7, 7), BYTES, O1, want(pipe=4), "4.0"),
    Case("tie", 32, 32, (1, 1), (10, 25), BYTES, O0, want(mode=DEEP, pipe=1)),
    Case("packetqc", 256, 256, (1, 3), (1, 32), BYTES, O3, ROW, "4.0"),
    Case("packetqc", 256, 256, (1, 3), (1, 32), WORDS, O3, ROW, "4.0"),
    # The pieces of a 7x7 stem of stride 2.
    Case("osnet", 3, 16, (3, 7), (256, 128), WORDS, O0, WIDE, "3.0", stride=2),
    Case("osnet", 3, 16, (1, 7), (256, 128), WORDS, O0, WIDE_ROW, "3.0", stride=2),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.net}-{c.inputs}-{c.outputs}-{c.size[0]}")
def test_a_convolution_that_fixed_the_rules(case: Case) -> None:
    assert found(case.tiling(), case.found) == case.found


def test_the_conv_in_front_of_a_fused_pool_takes_eight_kernels() -> None:
    """Rule 3b: O = 16 gives nK 8 where the pool joins, else 16."""
    shape = ConvShape(8, 16, (1, 1), (4, 4), (4, 4))
    fused = choose_tiling(shape, WORDS, MACHINES["2.2"], O3, max_kernels=8)
    assert (fused.kernels, fused.tiles) == (8, 2)
    assert choose_tiling(shape, WORDS, MACHINES["3.0"], O0).kernels == 16


# Section 2: (generation, channels, window, stride, mode) -> kernels and depth of one group.
DEPTHWISE = [
    ("2.2", 64, (3, 3), 1, BYTES, 8),
    ("2.2", 64, (3, 3), 2, BYTES, 8),
    ("2.2", 64, (3, 3), 1, WORDS, 4),
    ("2.2", 64, (3, 3), 2, WORDS, 4),
    ("2.2", 28, (3, 3), 1, BYTES, 1),
    ("2.2", 36, (3, 3), 2, BYTES, 1),
    ("2.2", 42, (3, 3), 1, BYTES, 1),
    ("4.0", 64, (3, 3), 1, BYTES, 1),
    ("4.0", 64, (3, 3), 2, BYTES, 2),
]


@pytest.mark.parametrize(("generation", "channels", "window", "stride", "simd", "group"), DEPTHWISE)
def test_depthwise_groups(
    generation: str, channels: int, window: Pair, stride: int, simd: Simd, group: int
) -> None:
    tiling = depthwise_tiling(channels, window, (stride, stride), simd, MACHINES[generation])
    assert (tiling.kernels, tiling.depth) == (group, group)
    assert (tiling.pipe, tiling.passes, tiling.tiles) == (1, 1, channels // group)
    paired = generation == "4.0" and stride == 2
    assert tiling.mode is (ConvMode.DSS2 if paired else ConvMode.DEPTHWISE)


# Registers of six public builds of 3.0 and 4.0: (channels, map, stride, mode) -> group.
BALANCED = [
    (256, (3, 3), 1, BYTES, 1),
    (96, (8, 8), 1, BYTES, 1),
    (384, (16, 8), 1, BYTES, 1),
    (64, (12, 12), 1, BYTES, 1),
    (128, (15, 15), 1, BYTES, 2),
    (64, (16, 16), 1, BYTES, 2),
    (72, (16, 16), 1, BYTES, 3),
    (192, (32, 16), 1, BYTES, 4),
    (32, (24, 24), 1, BYTES, 4),
    (16, (120, 120), 1, BYTES, 4),
    (128, (6, 6), 2, BYTES, 2),
    (192, (32, 16), 2, BYTES, 2),
    (32, (24, 24), 2, BYTES, 2),
    (42, (32, 32), 2, BYTES, 2),
    (128, (30, 30), 2, BYTES, 4),
    (28, (64, 64), 2, BYTES, 4),
    (1152, (8, 8), 1, WORDS, 1),
    (32, (16, 8), 1, WORDS, 2),
    (384, (15, 15), 1, WORDS, 4),
    (672, (15, 15), 2, WORDS, 4),
]


@pytest.mark.parametrize(("channels", "size", "stride", "simd", "group"), BALANCED)
def test_depthwise_groups_grow_with_the_map(
    channels: int, size: Pair, stride: int, simd: Simd, group: int
) -> None:
    for generation in ("3.0", "4.0"):
        machine = MACHINES[generation]
        tiling = depthwise_tiling(channels, (3, 3), (stride, stride), simd, machine, size)
        assert (tiling.kernels, tiling.depth, tiling.tiles) == (group, group, channels // group)
        paired = stride == 2 and simd is BYTES
        assert tiling.mode is (ConvMode.DSS2 if paired else ConvMode.DEPTHWISE)


def test_only_3x3_kernels_take_groups() -> None:
    tiling = depthwise_tiling(64, (5, 5), (1, 1), BYTES, MACHINES["4.0"], (56, 56))
    assert tiling.depth == 1


def test_pieces_of_a_high_depthwise_kernel_are_not_inflated() -> None:
    """Section 2: 5x5 depthwise in two pieces has nK = B = 1 a piece (8 layers, 2.2)."""
    net = Net()
    net.conv(net.input((1, 8, 8, 16)), window=(5, 5))
    stages = scheduled(net.graph(), MACHINES["2.2"])[0].stages
    pieces = [stage for stage in stages if isinstance(stage, ConvStage)]
    assert [piece.window for piece in pieces] == [(2, 5), (3, 5)]
    assert [(piece.tiling.kernels, piece.tiling.depth) for piece in pieces] == [(1, 1)] * 2


def test_pairs_need_an_even_number_of_channels() -> None:
    tiling = depthwise_tiling(7, (3, 3), (2, 2), BYTES, MACHINES["4.0"])
    assert (tiling.mode, tiling.depth, tiling.tiles) == (ConvMode.DEPTHWISE, 1, 7)


# The rules 3 to 7 once more, as plainly as the table states them.


@dataclass(frozen=True)
class Choice:
    deep: bool
    kernels: int
    depth: int
    pipe: int
    passes: int
    tiles: int


def ld(number: int, limit: int) -> int:
    return max(d for d in range(1, limit + 1) if number % d == 0)


class Rules:
    """One convolution under the rules; sizes are H x W in and out."""

    def __init__(self, shape: ConvShape, simd: Simd, deep_on_tie: bool) -> None:
        self.shape, self.simd, self.deep_on_tie = shape, simd, deep_on_tie

    def limits(self, deep: bool) -> Pair:
        """Rules 3 and 4: most kernels, most channels."""
        height, width = self.shape.window
        if (height, width) == (1, 1):
            return 24, 128 if deep else 24
        if height == 1:
            return (8 if width <= 6 else 4), 576 // (8 * width)
        if width > 6:
            return (4 if self.simd is BYTES else 2), 1
        return (8 if self.simd is BYTES else 4), 8

    def at(self, pipe: int, deep: bool) -> Choice:
        kernels, depth = self.limits(deep)
        kernels = ld(self.shape.outputs, kernels)
        depth = ld(self.shape.inputs // pipe, depth)
        passes = self.shape.inputs // (pipe * depth)
        return Choice(deep, kernels, depth, pipe, passes, self.shape.outputs // kernels)

    def base(self, deep: bool) -> Choice:
        """Rule 5: fewest passes, then fewest units."""
        best = None
        for pipe in (1, 2, 3, 4):
            if self.shape.inputs % pipe == 0:
                choice = self.at(pipe, deep)
                if best is None or choice.passes < best.passes:
                    best = choice
        assert best is not None
        return best

    def cost(self, choice: Choice, repeats: int) -> float:
        """Rule 6: the longest of features, partial sums and kernels."""
        pack = 3 if choice.deep else 1
        features = self.shape.inputs * prod(self.shape.in_size) / choice.pipe * repeats / pack
        kernels = self.shape.outputs * self.shape.inputs * prod(self.shape.window) / pack
        sums = self.shape.outputs * choice.passes * prod(self.shape.out_size)
        return max(features, kernels, sums)

    def reduced(self, base: Choice) -> Choice:
        """Rule 6: the fewest units that cost no more."""

        def cost(choice: Choice) -> float:
            return self.cost(choice, choice.tiles if choice.deep else 1)

        fewer = [self.at(n, base.deep) for n in range(1, base.pipe) if self.shape.inputs % n == 0]
        return next((choice for choice in fewer if cost(choice) <= cost(base)), base)

    def goes_deep(self, optimization: int) -> bool:
        """Rule 7, the later compilers; at -O3 fewer units win a tie."""
        if self.shape.window != (1, 1) or self.simd is WORDS or self.shape.inputs <= 24:
            return False
        deep, plain = self.base(True), self.base(False)
        if deep.passes < plain.passes:
            return True
        costs = self.cost(deep, deep.tiles), self.cost(plain, plain.tiles)
        ties = self.deep_on_tie or (optimization == O3 and deep.pipe < plain.pipe)
        return costs[0] <= costs[1] if ties else costs[0] < costs[1]

    def choice(self, optimization: int) -> Choice:
        base = self.base(self.goes_deep(optimization))
        fewer = optimization == O3 or (optimization >= O1 and self.simd is WORDS)
        return self.reduced(base) if fewer else base


def random_shape(random: np.random.Generator) -> ConvShape:
    inputs, outputs = (int(n) for n in random.integers(1, 700, 2))
    if random.random() < 0.5:  # round numbers have many divisors, others few
        inputs, outputs = 8 * (1 + inputs // 8), 8 * (1 + outputs // 8)
    windows = [(1, 1), (1, 1), (3, 3), (2, 2), (3, 1), (1, 3), (1, 5), (2, 6)]
    height, width = (int(n) for n in random.integers(1, 40, 2))
    stride = int(random.integers(1, 3))
    out = -(-height // stride), -(-width // stride)
    window = windows[random.integers(len(windows))]
    return ConvShape(inputs, outputs, window, (height, width), out, (stride, stride))


@pytest.mark.parametrize("simd", [BYTES, WORDS])
@pytest.mark.parametrize("optimization", [O0, O1, O3])
@pytest.mark.parametrize("generation", ["2.2", "4.0"])
def test_random_convolutions_follow_the_rules(
    generation: str, optimization: int, simd: Simd
) -> None:
    random = np.random.default_rng(optimization)
    for _ in range(300):
        shape = random_shape(random)
        tiling = choose_tiling(shape, simd, MACHINES[generation], optimization)
        wanted = Rules(shape, simd, deep_on_tie=generation == "2.2").choice(optimization)
        made = Choice(
            tiling.deep, tiling.kernels, tiling.depth, tiling.pipe, tiling.passes, tiling.tiles
        )
        assert made == wanted, shape


@pytest.mark.parametrize("generation", ["2.2", "3.0", "4.0", "open"])
def test_tiles_cover_the_convolution_within_the_limits(generation: str) -> None:
    """nK x tiles is all outputs, B x pipe x passes all inputs; the buffers hold one tile."""
    random = np.random.default_rng(5)
    most = {PLAIN: (24, 24, 576), DEEP: (24, 128, 3072), ConvMode.DENSE: (8, 8, 64)}
    for _ in range(400):
        shape, simd = random_shape(random), (BYTES, WORDS)[random.integers(2)]
        tiling = choose_tiling(shape, simd, MACHINES[generation], int(random.integers(4)))
        assert tiling.kernels * tiling.tiles == shape.outputs
        assert tiling.pipe * tiling.depth * tiling.passes == shape.inputs
        assert 1 <= tiling.pipe <= 4
        if tiling.mode is ConvMode.ROW:
            kernels, depth, weights = 8, 576 // (8 * shape.window[1]), 576 // shape.window[1]
        else:
            kernels, depth, weights = most[tiling.mode]
        assert tiling.kernels <= kernels
        assert tiling.depth <= depth
        assert tiling.kernels * tiling.depth <= weights
        assert simd is BYTES or not tiling.deep


@pytest.mark.parametrize("channels", [8, 16])
def test_a_line_of_the_tile_fits_the_line_buffer(channels: int) -> None:
    """A line has width x batch depth bytes, 2048 at most: at width 512 the depth is 4."""
    shape = ConvShape(channels, 16, (3, 3), (240, 320), (240, 320))
    tiling = choose_tiling(shape, BYTES, MACHINES["4.0"], O3)
    assert shape.in_size[1] * tiling.depth <= 2048


PRIMES = [2, 3, 7, 13, 23, 29, 31, 101, 257, 331]


@pytest.mark.parametrize("prime", PRIMES)
def test_prime_channels_are_cut_whole_or_into_single_ones(prime: int) -> None:
    machine = MACHINES["4.0"]
    dense = choose_tiling(ConvShape(prime, prime, (3, 3), (9, 9), (9, 9)), BYTES, machine, O0)
    assert dense.kernels == dense.depth == (prime if prime <= 8 else 1)
    point = choose_tiling(ConvShape(prime, prime, (1, 1), (9, 9), (9, 9)), WORDS, machine, O0)
    assert point.kernels == (prime if prime <= 24 else 1)
    assert point.passes * point.depth * point.pipe == prime


@pytest.mark.parametrize(
    ("number", "limit", "divisor"),
    # Pairs seen in public builds, then the edges.
    [
        *[(152, 24, 19), (136, 24, 17), (80, 24, 20), (256, 24, 16), (48, 24, 24)],
        *[(257, 24, 1), (24, 24, 24), (25, 24, 5), (1, 8, 1), (7, 8, 7)],
    ],
)
def test_largest_divisor(number: int, limit: int, divisor: int) -> None:
    assert largest_divisor(number, limit) == divisor


@pytest.mark.parametrize(
    ("name", "generation"), [(MOBILENET_30, "3.0"), (TIME_SERIES_40, "4.0")], ids=["3.0", "4.0"]
)
def test_pipes_of_public_builds(name: str, generation: str) -> None:
    """Both were built without O3; every convolution has the number of units found there."""
    build = Build(name)
    compared = 0
    for epoch in build.epochs:
        if not epoch.convs:
            continue
        source, result = (build.buffers[i] for i in (epoch.activations[0], epoch.output))
        outputs, inputs, *window = epoch.weights[0]
        if inputs != source["shape"][1]:
            continue  # depthwise
        simd = BYTES if build.quant(source["id"])[1] == 0 else WORDS
        sizes = (tuple(b["shape"][2:]) for b in (source, result))
        shape = ConvShape(inputs, outputs, (window[0], window[1]), *sizes)
        assert choose_tiling(shape, simd, MACHINES[generation], O0).pipe == epoch.convs, shape
        compared += 1
    assert compared == {"3.0": 36, "4.0": 12}[generation]


@pytest.mark.parametrize(
    ("width", "mode", "group"),
    [
        (300, ConvMode.DSS2, 4),
        (600, ConvMode.DSS2, 2),
        (641, ConvMode.DSS2, 2),
        (1024, ConvMode.DSS2, 2),
        (1025, ConvMode.DEPTHWISE, 1),
    ],
)
def test_long_lines_cut_whole_words_of_two_channels(width: int, mode: ConvMode, group: int) -> None:
    tiling = depthwise_tiling(48, (3, 3), (2, 2), BYTES, MACHINES["4.0"], (361, width))
    assert (tiling.mode, tiling.kernels, tiling.depth) == (mode, group, group)


@pytest.mark.parametrize(
    ("window", "width", "depth"),
    [((1, 1), 4095, 16), ((1, 1), 8400, 4), ((1, 3), 16384, 2), ((1, 1), 65535, 1)],
)
def test_a_line_of_a_one_row_kernel_fits_the_width_register(
    window: tuple[int, int], width: int, depth: int
) -> None:
    """Its 16 bits count the values of a line: columns times channels of the tile."""
    shape = ConvShape(16, 1, window, (4, width), (4, width))
    assert choose_tiling(shape, WORDS, MACHINES["4.0"], O0).depth == depth


@pytest.mark.parametrize(("width", "channels"), [(256, 8), (257, 7), (648, 3), (2048, 1)])
def test_lines_of_a_pool_fit_its_buffer(width: int, channels: int) -> None:
    assert pool_limit(width, MACHINES["4.0"]) == channels
