"""Which stages share an epoch: units that are free, streams that fit; public builds as a whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from compiler.nets import (
    GENERATIONS,
    MACHINES,
    Net,
    compiled,
    operators,
    per_tensor,
    random_network,
    sample,
    scheduled,
)
from compiler.vendor import MOBILENET_21, MOBILENET_30, TIME_SERIES_40, Build, rebuilt
from edits.channel_nets import two_cell_denoiser
from npuscope.building import read_graph
from npuscope.compiler.joining import root
from npuscope.compiler.lower.graph import lower_graph
from npuscope.compiler.passes import run_passes
from npuscope.compiler.pipeline import CompileOptions, compile_graph
from npuscope.compiler.schedule import schedule
from npuscope.compiler.stages import ArithStage, ConvStage, CopyStage, PoolStage
from npuscope.geometry.tiling import ConvShape, choose_tiling, depthwise_tiling
from npuscope.graph.model import Activation, Graph
from npuscope.machine.load import load_machine
from npuscope.machine.model import Machine
from npuscope.ops.functions import LeakyReluAttrs
from npuscope.ops.run import run
from npuscope.program.model import EpochKind, Program
from npuscope.program.modes import Simd
from npuscope.program.units import Convacc, PoolUnit
from npuscope.sim.run import execute

LIMITS = {"CONVACC": 4, "ARITH": 4, "ACTIV": 2, "POOL": 2, "STRENG": 10}
RELU, NONE = Activation.RELU, Activation.NONE
ZERO, ODD, LOWEST = (0.05, 0), (0.05, 6), (0.05, -128)


def epochs(graph: Graph, generation: str, optimization: int = 3) -> list[tuple[str, ...]]:
    """Operators of the epochs that do something."""
    _, groups = scheduled(graph, MACHINES[generation], optimization)
    return [tuple(stage.operator for stage in group.stages) for group in groups]


# Units and engines


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("seed", range(8))
def test_no_epoch_takes_more_than_there_is(seed: int, generation: str) -> None:
    program = compiled(random_network(seed), generation, optimization=3 * (seed % 2))
    for epoch in program.epochs:
        for group in epoch.groups or ():
            used = Counter(unit.unit for unit in group.units)
            assert all(count <= LIMITS[unit] for unit, count in used.items()), epoch.name


@pytest.mark.parametrize("seed", range(8))
def test_every_stage_runs_once_and_after_what_it_reads(seed: int) -> None:
    lowered, groups = scheduled(random_network(seed), MACHINES["2.2"])
    order = [stage for group in groups for stage in group.stages]
    assert sorted(stage.name for stage in order) == sorted(s.name for s in lowered.stages)
    made = {root(lowered, value).name for value in lowered.inputs}
    for stage in order:
        assert {root(lowered, value).name for value in stage.inputs} <= made, stage.name
        made.add(root(lowered, stage.output).name)


def test_what_does_not_fit_waits_behind_what_was_ready_before() -> None:
    """Five sums with a function each: four sums an epoch and two functions. The functions that are
    left wait behind the fifth sum (seen in a 2.2 build with 25 of them)."""
    net = Net()
    x = net.input((1, 6, 6, 8))
    number = net.constant(np.full((1,), 5, np.int8), per_tensor(0.05, 0))
    ends = [net.sigmoid(net.add(x, number)) for _ in range(5)]
    assert epochs(net.graph(*ends), "2.2") == [
        ("Add", "Sigmoid", "Add", "Sigmoid", "Add", "Add"),
        ("Add", "Sigmoid", "Sigmoid"),
        ("Sigmoid",),
    ]


def test_calls_run_as_soon_as_they_can() -> None:
    """The convolution became ready first, the softmax does not wait for it (seen in BlazeFace)."""
    net = Net()
    x = net.conv(net.input((1, 6, 6, 8)), 8, quant=ZERO)
    ends = net.conv(x, 32, quant=ZERO), net.softmax(net.reshape(x, (1, 36, 8)))
    assert [names[0] for names in epochs(net.graph(*ends), "4.0")] == ["Conv", "Softmax", "Conv"]


def test_a_pipe_takes_its_units_or_none() -> None:
    """Three units in series each: the second pipe does not fit behind the first."""
    net = Net()
    x = net.input((1, 40, 40, 24))
    ends = [net.conv(x, channels, quant=ZERO) for channels in (8, 8)]
    _, groups = scheduled(net.graph(*ends), MACHINES["4.0"])
    pipes = [[s.tiling.pipe for s in group.stages if isinstance(s, ConvStage)] for group in groups]
    assert pipes == [[3], [3]]


def test_branches_fill_free_units() -> None:
    """Rule l: unconnected chains share an epoch."""
    net = Net()
    x = net.input((1, 12, 12, 8))
    ends = [net.conv(x, 8, quant=ZERO) for _ in range(3)]
    assert epochs(net.graph(*ends), "4.0") == [("Conv", "Add") * 3]
    # Two ARITH stages each: the third convolution's are left for the next epoch.
    assert epochs(net.graph(*ends), "2.2") == [
        ("Conv", "Mul", "Add", "Conv", "Mul", "Add", "Conv"),
        ("Mul", "Add"),
    ]


def test_ten_engines_are_the_limit() -> None:
    """Rule b: features, kernels and result take three each, so the fourth chain has to wait."""
    net = Net()
    x = net.input((1, 12, 12, 8))
    ends = [net.conv(x, 8, quant=ZERO) for _ in range(4)]
    assert epochs(net.graph(*ends), "4.0") == [("Conv", "Add") * 3, ("Conv", "Add")]


# Convolution behind convolution


def conv_then(
    first: dict[str, object], second: dict[str, object], inputs: int = 8, size: int = 16
) -> Graph:
    net = Net()
    x = net.conv(net.input((1, size, size, inputs)), **first)  # type: ignore[arg-type]
    net.conv(x, **second)  # type: ignore[arg-type]
    return net.graph()


DEPTHWISE = {"channels": 0, "quant": ZERO}
STRIDED = {**DEPTHWISE, "strides": (2, 2)}


def dense(channels: int, quant: tuple[float, int] = ZERO, **more: object) -> dict[str, object]:
    return {"channels": channels, "quant": quant, **more}


def point(channels: int, quant: tuple[float, int] = ZERO) -> dict[str, object]:
    return dense(channels, quant, window=(1, 1))


JOINS = [
    # nK 8 -> inflated depthwise B 8; the Mul that closes the epoch is no part of the question
    ("2.2", dense(16), DEPTHWISE, True),
    ("2.2", dense(16, LOWEST, activation=RELU), DEPTHWISE, True),
    # a 1x1 of 16 kernels makes frames of 16, the depthwise wants 8
    ("2.2", point(16), DEPTHWISE, False),
    # later generations read single channels, but follow a convolution with a window
    ("4.0", dense(16), DEPTHWISE, True),
    ("4.0", dense(16, activation=RELU), DEPTHWISE, True),
    ("4.0", dense(16), STRIDED, False),
    ("4.0", point(16), DEPTHWISE, False),
    ("open", dense(16), DEPTHWISE, False),
    # 1x1 with one output tile takes all channels of its producer's frame
    ("2.2", dense(8), point(8), True),
    ("4.0", dense(8), point(8), True),
    ("4.0", point(16), point(16), True),
    ("4.0", point(24), point(24), True),
    # two output tiles would need the features twice
    ("4.0", point(24), point(48), False),
    # 48 channels come as two frames of 24 and want two units
    ("4.0", point(48, ODD), point(24), False),
    # 16 channels from a 3x3 come as two frames of 8
    ("4.0", dense(16), point(16), False),
]


@pytest.mark.parametrize(("generation", "first", "second", "joins"), JOINS)
def test_a_convolution_joins_its_producer_only_if_its_depth_is_the_frame(
    generation: str, first: dict[str, object], second: dict[str, object], joins: bool
) -> None:
    groups = epochs(conv_then(first, second), generation)
    assert groups[0].count("Conv") == (2 if joins else 1)


def test_a_depthwise_joins_from_level_one() -> None:
    """The public 3.0 build without a level keeps them apart."""
    graph = conv_then(dense(16), DEPTHWISE)
    counts = [
        [group.count("Conv") for group in operators(compiled(graph, "4.0", optimization=level))]
        for level in (0, 1)
    ]
    assert counts == [[0, 1, 1], [0, 2]]


def test_a_depthwise_does_not_join_behind_passes_through_memory() -> None:
    net = Net()
    net.conv(net.conv(net.input((1, 16, 16, 128)), 16), 0)
    assert len(epochs(net.graph(), "4.0")) == 2


def test_a_depthwise_does_not_join_behind_a_kernel_that_is_cut() -> None:
    """Four builds of BlazeFace: the depthwise layer behind its 5x5 stem has an epoch of its own."""
    graph = conv_then(dense(16, window=(5, 5), strides=(2, 2)), DEPTHWISE)
    assert [group.count("Conv") for group in epochs(graph, "4.0")] == [2, 1]


@pytest.mark.parametrize(("generation", "joins"), [("2.2", True), ("4.0", False), ("open", True)])
def test_a_padded_pool_behind_a_convolution(generation: str, joins: bool) -> None:
    net = Net()
    x = net.conv(net.input((1, 16, 16, 3)), 8)
    net.max_pool(x, (3, 3), (2, 2), (1, 1, 1, 1))
    assert len(epochs(net.graph(), generation)) == (1 if joins else 2)


def test_sixteen_bit_depthwise_joins_four_kernels() -> None:
    """nK 4 -> 16x8 depthwise B 4: both zero points are neither 0 nor -128."""
    net = Net()
    x = net.conv(net.input((1, 16, 16, 8), ODD), 16, quant=ODD)
    net.conv(x, 0, quant=ZERO)
    assert epochs(net.graph(), "2.2")[0].count("Conv") == 2


def test_a_mul_may_end_an_epoch_and_its_add_open_the_next() -> None:
    """2.x: Mul, Add, Sub, Mul are four ARITH units; a 16-bit buffer carries the rest over."""
    net = Net()
    x = net.conv(net.input((1, 16, 16, 3)), 8, activation=RELU)
    net.conv(x, 0, activation=RELU)
    graph = net.graph()
    program = compiled(graph, "2.2")
    assert operators(program)[1:] == [("Conv", "Mul", "Add", "Sub", "Conv", "Mul"), ("Add",)]
    wide = [b for b in program.buffers if b.nbits == 16 and not b.is_param]
    assert [(b.shape, b.first, b.last) for b in wide] == [((1, 16, 16, 8), 2, 3)]
    assert "Mul" not in {name for epoch in epochs(graph, "4.0") for name in epoch}


# Element-wise operators


def test_a_residual_addition_joins_the_convolution() -> None:
    """Rule e: the other operand comes from memory."""
    net = Net()
    x = net.input((1, 8, 8, 16))
    net.add(x, net.conv(x, 16, quant=ODD))
    assert epochs(net.graph(), "4.0") == [("Conv", "Add", "Add")]
    assert epochs(net.graph(), "2.2") == [("Conv", "Mul", "Add", "Add")]


def test_operands_with_a_common_ancestor_are_cut() -> None:
    """Rule f: x and f(x) both from inside the epoch."""
    net = Net()
    x = net.conv(net.input((1, 8, 8, 8)), 8, quant=ZERO)
    net.add(x, net.conv(x, 8, (1, 1)))
    assert epochs(net.graph(), "4.0") == [("Conv", "Add", "Conv", "Add"), ("Add",)]


def test_a_convolution_with_passes_lifts_the_cut() -> None:
    """Rule f: its partial sums hold the data back. 128 -> 8 on 7x7 at O3 is n 1, P 16."""
    net = Net()
    x = net.conv(net.input((1, 7, 7, 128)), 8, quant=ZERO)
    net.add(x, net.conv(x, 8, (1, 1)))
    graph = net.graph()
    lowered, groups = scheduled(graph, MACHINES["4.0"])
    first = lowered.stages[0]
    assert isinstance(first, ConvStage)
    assert (first.tiling.pipe, first.tiling.passes) == (1, 16)
    assert len(groups) == 1
    values = sample(graph)
    found = execute(compiled(graph, "4.0"), values).outputs["add"]
    wanted = run(graph, values)["add"]
    assert np.abs(found.astype(int) - wanted).max() <= 2


def test_operands_without_a_common_ancestor_are_not_cut() -> None:
    net = Net()
    x = net.input((1, 8, 8, 8))
    net.add(net.conv(x, 8, quant=ODD), net.conv(x, 8, quant=ODD))
    assert epochs(net.graph(), "4.0") == [("Conv", "Add", "Conv", "Add", "Add")]


def test_operands_of_other_frames_do_not_meet() -> None:
    """One branch comes in frames of 8, the other in frames of 24."""
    net = Net()
    x = net.input((1, 8, 8, 8))
    net.add(net.conv(x, 24, quant=ODD), net.conv(x, 24, (1, 1), quant=ODD))
    assert epochs(net.graph(), "4.0") == [("Conv", "Add", "Conv", "Add"), ("Add",)]


# Pools


@pytest.mark.parametrize(
    ("generation", "window", "joined"),
    [
        ("4.0", (3, 3), True),  # frames of 8
        ("4.0", (1, 1), False),  # frames of 16
        ("2.2", (3, 3), True),
        ("2.2", (1, 1), True),  # the convolution makes room: nK 8 in front of a pool
    ],
)
def test_a_pool_joins_frames_of_eight(
    generation: str, window: tuple[int, int], joined: bool
) -> None:
    net = Net()
    net.max_pool(net.conv(net.input((1, 8, 8, 8)), 16, window, quant=ODD))
    groups = epochs(net.graph(), generation)
    assert len(groups) == (1 if joined else 2)
    assert groups[-1][-1] == "MaxPool"


@pytest.mark.parametrize("channels", [16, 64])
def test_a_pool_from_memory_works_in_frames_of_eight(channels: int) -> None:
    net = Net()
    net.max_pool(net.input((1, 8, 8, channels)))
    _, groups = scheduled(net.graph(), MACHINES["4.0"])
    assert groups[0].frames["maxpool"] <= 8


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("leaky", [False, True])
def test_a_convolution_makes_as_many_channels_as_the_pool_behind_it_has_lines_for(
    leaky: bool, generation: str
) -> None:
    """Lines of all channels of a frame lie in the unit: 648 columns leave room for three, and 2 is
    the largest divisor of 64 channels below."""
    net = Net()
    x = net.conv(net.input((1, 1, 648, 64)), 64, (1, 3))
    if leaky:
        x = net.op("LeakyRelu", (x,), LeakyReluAttrs(0.1), net.shape(x), net.quant(x))
    net.max_pool(x, (1, 2), (1, 2))
    graph = net.graph()
    assert {"Conv", "MaxPool"} <= set(epochs(graph, generation)[-1])
    program = compiled(graph, generation)
    units = [
        unit for epoch in program.epochs for group in epoch.groups or () for unit in group.units
    ]
    (pool,) = (unit for unit in units if isinstance(unit, PoolUnit))
    assert (pool.inputX, pool.batchSize) == (648, 2)
    found, wanted = execute(program, sample(graph)).outputs, run(graph, sample(graph))
    assert max(np.abs(found[n].astype(int) - wanted[n]).max() for n in graph.outputs) <= 1


def test_a_padded_pool_of_long_lines_leaves_the_convolution_as_it_is() -> None:
    """It has an epoch of its own anyhow."""
    net = Net()
    net.max_pool(net.conv(net.input((1, 8, 648, 8)), 8), (3, 3), (2, 2), (0, 0, 1, 1))
    first, *_ = scheduled(net.graph(), MACHINES["4.0"])[1]
    assert {"Conv", "MaxPool"} - {stage.operator for stage in first.stages} == {"MaxPool"}
    assert max(first.frames.values()) == 8


def test_a_sum_with_what_a_padded_pool_made_joins_its_convolution() -> None:
    """The pool's frames of one channel do not bind it."""
    net = Net()
    x = net.max_pool(net.input((1, 16, 16, 16)), (3, 3), (2, 2), (0, 0, 1, 1))
    net.add(net.conv(x, 16), x)
    assert {"Conv", "Add"} <= set(epochs(net.graph(), "4.0")[-1])
    assert [group.count("MaxPool") for group in epochs(net.graph(), "4.0")] == [1, 0]


@pytest.mark.parametrize(("generation", "channels"), [("3.0", 1), ("4.0", 1), ("open", 8)])
def test_a_padded_pool_takes_single_channels(generation: str, channels: int) -> None:
    """As registers of a public build of 3.0: a convolution of one channel pads what it reads."""
    net = Net()
    net.max_pool(net.input((1, 8, 8, 16)), (3, 3), (2, 2), (0, 0, 1, 1))
    (group,) = scheduled(net.graph(), MACHINES[generation])[1]
    assert group.frames["maxpool"] == channels


# Epochs of one stage


@pytest.mark.parametrize("generation", GENERATIONS)
def test_software_stands_alone(generation: str) -> None:
    net = Net()
    x = net.softmax(net.dense(net.input((1, 16)), 8))
    net.dense(x, 4)
    groups = epochs(net.graph(), generation)
    assert ("Softmax",) in groups
    assert len(groups) == 3


@pytest.mark.parametrize("generation", GENERATIONS)
def test_copies_stand_alone(generation: str) -> None:
    net = Net()
    x = net.transpose(net.input((1, 3, 12, 12)), (0, 2, 3, 1))
    net.transpose(net.conv(x, 8), (0, 3, 1, 2))
    groups = epochs(net.graph(), generation)
    assert groups[0] == groups[-1] == ("Identity",)
    assert len(groups) == 3


def test_odd_depthwise_reads_a_channel_first_copy_at_22() -> None:
    """18 copies of the public 2.x builds stand in front of nK = B = 1 kernels; none later."""
    net = Net()
    net.conv(net.input((1, 8, 8, 28)), 0)
    graph = net.graph()
    assert epochs(graph, "2.2") == [("Identity",), ("Conv", "Mul", "Add")]
    lowered, _ = scheduled(graph, MACHINES["2.2"])
    copy, conv = lowered.stages[:2]
    assert isinstance(copy, CopyStage) and copy.output.batch == 1
    assert conv.inputs == (copy.output,)
    assert epochs(graph, "4.0") == [("Conv", "Add")]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_views_are_read_from_memory(generation: str) -> None:
    """The bytes of a reshaped tensor exist only where they are stored."""
    net = Net()
    x = net.conv(net.input((1, 4, 4, 8)), 1, (1, 1), quant=ZERO)
    net.dense(net.reshape(x, (1, 16)), 8)
    groups = epochs(net.graph(), generation)
    assert [group.count("Conv") for group in groups] == [1, 1]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_stages_carry_what_they_came_from(generation: str) -> None:
    lowered, _ = scheduled(random_network(3), MACHINES[generation])
    hardware = (ConvStage, ArithStage, PoolStage, CopyStage)
    assert all(isinstance(stage, hardware) for stage in lowered.stages)
    assert all(stage.origin for stage in lowered.stages)


# Public builds


def shown(program: Program) -> list[tuple[tuple[str, ...], int]]:
    """Operators of every epoch and its convolution units."""
    return [
        (epoch.operators, sum(isinstance(unit, Convacc) for unit in epoch.units))
        for epoch in program.epochs
    ]


def found_there(build: Build) -> list[tuple[tuple[str, ...], int]]:
    """The same of a public build. A Reshape takes no unit and no entry of ours."""
    return [
        (tuple(name for name in epoch.operators if name != "Reshape"), epoch.convs)
        for epoch in build.epochs
    ]


def test_the_time_series_network_of_40() -> None:
    """19 of 19 epochs: operators, pipes, and the empty epoch 1 of a channel-last input."""
    build = Build(TIME_SERIES_40)
    program = compiled(rebuilt(build), "4.0", optimization=0)
    assert shown(program) == found_there(build)
    assert program.epochs[0].kind is EpochKind.EMPTY


POOL_AT_THE_END = 53  # epochs of MobileNetV2 before its global pool


def test_mobilenet_of_30_up_to_its_pool() -> None:
    build = Build(MOBILENET_30)
    program = compiled(rebuilt(build), "3.0", optimization=0)
    assert shown(program)[:POOL_AT_THE_END] == found_there(build)[:POOL_AT_THE_END]
    assert shown(program)[-1] == (("Softmax",), 0)


def test_mobilenet_of_30_as_a_whole() -> None:
    build = Build(MOBILENET_30)
    assert shown(compiled(rebuilt(build), "3.0", optimization=0)) == found_there(build)


def test_mobilenet_of_2x() -> None:
    """Same grouping as the 2.1 build, which differs from 2.2 in its rule for deep 1x1 only.

    Two of three layers on maps of 4x4 are fed from a copy; the third shares the epoch of the layer
    before. The pool's Add is ours, see above.
    """
    there = found_there(Build(MOBILENET_21))
    here = shown(compiled(rebuilt(Build(MOBILENET_30)), "2.2", optimization=3))
    for grouping in (there, here):
        copies = [n for n, (names, _) in enumerate(grouping) if names == ("Identity",)]
        assert copies == [0, 43, 47]
    assert len(here) == len(there) == 56
    pooled = ("Conv", "Mul", "Add", "AveragePool")
    assert (here[53][0][:4], there[53][0][:4]) == (pooled, pooled)
    for number, ((names, units), (other_names, other_units)) in enumerate(
        zip(here, there, strict=True)
    ):
        assert names == other_names or number == 53
        if units != other_units:  # 64, 80, 96 -> 16 and 96 -> 32: deep n 1 there, plain n 4 here
            assert (units, other_units) == (4, 1)
            assert names[:3] == ("Conv", "Mul", "Add") and "Sub" not in names


def epochs_of(
    outputs: int, window: tuple[int, int], stride: int, zero: int
) -> list[tuple[int, ...]]:
    """Rows of the pieces that share an epoch, and -1 for every addition of sums."""
    net = Net()
    x = net.input((1, 32, 32, 3), (0.02, zero))
    net.conv(x, outputs, window, (stride, stride))
    found = []
    for group in scheduled(net.graph(), MACHINES["4.0"])[1]:
        convs = [s.window[0] for s in group.stages if isinstance(s, ConvStage)]
        joins = [-1 for s in group.stages if ".join" in s.name]
        found.append((*convs, *joins))
    return found


def test_a_strided_7x7_stem_takes_three_epochs() -> None:
    """As registers of a public build: 3x7 on three units beside 1x7, 3x7 plus the sums of the
    first; those of the row lie in other frames."""
    assert epochs_of(16, (7, 7), 2, -1) == [(1, 3), (3, -1), (-1,)]


def test_three_pieces_on_one_unit_each_share_an_epoch() -> None:
    assert epochs_of(8, (7, 6), 1, 0) == [(1, 3, 3, -1, -1)]


def test_six_pieces_go_in_pairs() -> None:
    """Five 16-bit sums are alive at most, which is the external RAM of a published network."""
    pieces = [sum(rows > 0 for rows in epoch) for epoch in epochs_of(16, (7, 7), 1, -1)]
    assert pieces == [2, 2, 2, 0, 0]


def test_six_depthwise_pieces_are_added_up_as_they_are_made() -> None:
    """One 16-bit sum is stored; the RAM of a published network has room for three at most."""
    epochs = epochs_of(0, (7, 7), 1, -1)
    assert [sum(rows > 0 for rows in epoch) for epoch in epochs] == [4, 2]
    assert sum(epochs, ()).count(-1) == 5


# The other scheduler, and the version before 2.2: MoveNet as built with --Oalt-sched at 2.1


def fork(machine: Machine) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Epochs of a map that two convolutions read, one layer after the other, by both schedulers."""
    net = Net()
    x = net.input((1, 24, 24, 64), ODD)  # a smaller map would be copied into blocks first
    wide = net.conv(x, 384, (1, 1), quant=LOWEST)
    deep = net.conv(wide, window=(3, 3), quant=ODD)
    graph = net.graph(deep, net.conv(x, 64, (1, 1), quant=ODD))
    lowered = lower_graph(run_passes(graph, machine), machine, 3)
    both = (schedule(lowered, machine), schedule(lowered, machine, alternative=True))
    usual, other = ([tuple(s.operator for s in g.stages) for g in groups] for groups in both)
    return usual, other


def test_the_alternative_scheduler_goes_by_level() -> None:
    """Epochs 34 to 36 of that build: units that are missing for the second layer close the epoch of
    the first, whose sums wait; its last stage is left alone."""
    usual, other = fork(load_machine(generation="2.1"))
    scaled = ("Conv", "Mul", "Add")
    assert usual[0] == (*scaled, "Sub")
    assert other[:3] == [("Conv",), ("Conv", "Mul", "Mul", "Add", "Add"), ("Sub",)]
    assert sorted(sum(usual, ())) == sorted(sum(other, ()))


def test_the_alternative_scheduler_starts_with_the_last_reader() -> None:
    """Epochs 6 and 7 of YOLOX: the zero point of one reader goes in the epoch of the map, that of
    the other one in the next; the reader that the file has last begins."""
    net = Net()
    x = net.input((1, 24, 24, 16), LOWEST)
    wide = net.conv(x, 32, (1, 1), quant=LOWEST)
    first = net.conv(wide, 16, (1, 1), quant=LOWEST)
    graph = net.graph(first, net.conv(wide, 24, (1, 1), quant=LOWEST))
    program = compile_graph(
        graph, load_machine(generation="2.1"), CompileOptions(3, alternative_schedule=True)
    )
    shared, both = program.executed[1:3]
    assert shared.operators == ("Conv", "Mul", "Add", "Sub")
    assert both.operators[:3] == ("Sub", "Conv", "Conv")
    assert both.origin == ("Conv2D:conv2d", "Conv2D:conv2d_2", "Conv2D:conv2d_1")


def test_the_alternative_scheduler_on_an_onnx_network(tmp_path: Path) -> None:
    """A published question states which epochs the CPU has: there no reader waits."""
    file = tmp_path / "denoiser.onnx"
    file.write_bytes(two_cell_denoiser())
    options = CompileOptions(3, alternative_schedule=True)
    program = compile_graph(read_graph(file, {}), load_machine(generation="2.1"), options)
    calls = [epoch.number for epoch in program.executed if epoch.kind is not EpochKind.HW]
    assert calls == [2, 3, 21]


@pytest.mark.parametrize("seed", range(8))
def test_both_schedulers_compute_the_same(seed: int) -> None:
    graph, machine = random_network(seed), load_machine(generation="2.1")
    values = sample(graph)
    one, other = (
        execute(compile_graph(graph, machine, CompileOptions(3, False, alternative)), values)
        for alternative in (False, True)
    )
    for name, wanted in one.outputs.items():
        np.testing.assert_array_equal(other.outputs[name], wanted)


def test_depthwise_words_of_2_1() -> None:
    """Four kernels of eight channels in 16x8 mode, which are not copied together before: epochs 61,
    65 and 69 of that build. 8x8 mode is as later."""
    machine = load_machine(generation="2.1")
    words = depthwise_tiling(64, (3, 3), (1, 1), Simd.S16X8, machine, (12, 12))
    assert (words.kernels, words.depth, words.tiles) == (4, 8, 16)
    single = depthwise_tiling(64, (3, 3), (1, 1), Simd.S8X8, machine, (12, 12))
    assert (single.kernels, single.depth, single.tiles) == (8, 8, 8)
    net = Net()
    x = net.input((1, 12, 12, 64), ODD)
    net.conv(x, quant=ODD)
    graph = net.graph()
    program = compile_graph(graph, machine, CompileOptions(3))
    assert operators(program)[-1] == ("Conv", "Mul", "Add")
    assert not any("Identity" in names for names in operators(program))
    values = sample(graph)
    found, wanted = execute(program, values).outputs, run(graph, values)
    for name in graph.outputs:
        assert np.abs(found[name].astype(int) - wanted[name]).max() <= 1


@pytest.mark.parametrize(
    "inputs, outputs, side, deep",
    [
        (96, 13, 48, False),  # MoveNet
        (96, 24, 48, True),
        (64, 24, 56, True),  # hand landmarks
        (64, 64, 48, False),  # a palm detector
        (64, 64, 60, False),  # YOLOX
        (64, 12, 60, False),
        (64, 12, 30, True),
        (64, 3, 30, False),
        (64, 3, 15, True),
        (32, 32, 64, True),  # an SSD
        (24, 16, 112, False),
    ],
)
def test_deep_layers_of_2_1(inputs: int, outputs: int, side: int, deep: bool) -> None:
    """At -O3 the longer of features and weights decides; weights count as they come from flash."""
    shape = ConvShape(inputs, outputs, (1, 1), (side, side), (side, side))
    assert choose_tiling(shape, Simd.S8X8, load_machine(generation="2.1"), 3).deep is deep


def test_deep_layers_of_2_1_below_o3() -> None:
    """From 48 channels on, whatever it costs: CenterFace."""
    earlier, later = (load_machine(generation=name) for name in ("2.1", "2.2"))
    shape = ConvShape(64, 16, (1, 1), (8, 8), (8, 8))
    assert choose_tiling(shape, Simd.S8X8, earlier, 0).deep
    assert not choose_tiling(shape, Simd.S8X8, later, 0).deep
    narrow = ConvShape(32, 16, (1, 1), (64, 64), (64, 64))
    assert not choose_tiling(narrow, Simd.S8X8, earlier, 0).deep
