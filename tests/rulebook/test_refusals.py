"""Rules that keep an op off the NPU: each with a network that meets it and one that does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from compiler.nets import GENERATIONS, MACHINES, Net, compiled, per_tensor, sample
from npuscope.graph.model import Attrs, DType, Graph, Quant
from npuscope.machine.npu_ops import FUNCTIONS
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.layers import ConvAttrs
from npuscope.ops.moves import ConcatAttrs, SliceAttrs
from npuscope.ops.reduce import ReduceAttrs
from npuscope.ops.run import run
from npuscope.ops.table import OPS
from npuscope.program.model import Epoch, EpochKind, Program, evidence
from npuscope.program.units import Convacc
from npuscope.rulebook import refusals
from npuscope.rulebook.registry import Rule, rules
from npuscope.sim.run import execute
from npuscope.structs import replace

IMAGE = (1, 8, 8, 4)
MACHINE = MACHINES["4.0"]
BY_ID = {rule.id: rule for rule in rules().values() if rule.check}
RULES = list(BY_ID.values())


class Case(NamedTuple):
    """The last op of `refused` meets the rule with `evidence`, that of `allowed` does not."""

    rule: str
    evidence: str
    refused: Callable[[], Graph]
    allowed: Callable[[], Graph]


def conv(shape: tuple[int, ...] = IMAGE, **options: object) -> Graph:
    net = Net()
    net.conv(net.input(shape), **{"channels": 8, **options})  # type: ignore[arg-type]
    return net.graph()


def dense() -> Graph:
    net = Net()
    net.dense(net.input((1, 16)), 8)
    return net.graph()


def conv_with(tensor: str, **changes: object) -> Graph:
    graph = conv()
    graph.tensors[tensor] = replace(graph.tensor(tensor), **changes)  # type: ignore[arg-type]
    return graph


def conv_with_input(tensor: str) -> Graph:
    """Weights or bias that come from outside."""
    graph = conv_with(tensor, data=None)
    graph.inputs = (*graph.inputs, tensor)
    return graph


def weights_along(axis: int | None) -> Graph:
    graph = conv()
    count = 1 if axis is None else graph.tensor("weights").shape[axis]
    quant = Quant((0.001,) * count, (0,) * count, axis)
    graph.tensors["weights"] = replace(graph.tensor("weights"), quant=quant)
    return graph


def float_mean(quantized: bool) -> Graph:
    """Behind an int8 convolution, so that the network as a whole is no float network."""
    net = Net()
    x = net.conv(net.input(IMAGE), 8)
    if quantized:
        net.mean(x)
    else:
        attrs = ReduceAttrs((1, 2), False)
        net.op("Mean", (net.dequantize(x),), attrs, (1, 8), None, DType.FLOAT32)
    return net.graph()


def pool(
    kind: str,
    window: tuple[int, int],
    strides: tuple[int, int] = (1, 1),
    pad: int = 0,
    shape: tuple[int, ...] = (1, 20, 20, 4),
) -> Graph:
    net = Net()
    x = net.input(shape)
    make = net.max_pool if kind == "MaxPool" else net.average_pool
    make(x, window, strides, (pad,) * 4)
    return net.graph()


def mean(axes: tuple[int, ...], shape: tuple[int, ...] = IMAGE) -> Graph:
    net = Net()
    net.mean(net.input(shape), axes=axes)
    return net.graph()


def binary(kind: str, other: tuple[int, ...], constant: bool = False) -> Graph:
    net = Net()
    x = net.input(IMAGE)
    data = net.random.integers(-128, 128, other).astype(np.int8)
    y = net.constant(data, per_tensor(0.03, 1)) if constant else net.input(other)
    shape = np.broadcast_shapes(IMAGE, other)
    net.op(kind, (x, y), BinaryAttrs(), shape, per_tensor(0.05, 0))
    return net.graph()


def value_against_vector(shape: tuple[int, ...]) -> Graph:
    """A computed value times a constant vector, as a norm of one row has it."""
    net = Net()
    vector = net.constant(np.arange(8, dtype=np.int8), per_tensor(0.03, 1))
    net.op("Mul", (net.input(shape), vector), BinaryAttrs(), (1, 8), per_tensor(0.05, 0))
    return net.graph()


def outer() -> Graph:
    """Neither operand has the result's shape."""
    net = Net()
    names = net.input((1, 8, 1, 4)), net.input((1, 1, 8, 4))
    net.op("Mul", names, BinaryAttrs(), IMAGE, per_tensor(0.05, 0))
    return net.graph()


def concat(axis: int) -> Graph:
    net = Net()
    net.concat((net.input(IMAGE), net.input(IMAGE)), axis=axis)
    return net.graph()


def concat_of_unequal_parts() -> Graph:
    net = Net()
    net.concat((net.input((1, 8, 8, 6)), net.input((1, 8, 8, 2))))
    return net.graph()


def one_value() -> Graph:
    net = Net()
    net.dense(net.input((1, 1)), 5)
    return net.graph()


def concat_of_floats() -> Graph:
    net = Net()
    parts = net.input(IMAGE, None), net.input(IMAGE, None)
    net.op("Concat", parts, ConcatAttrs(3), (1, 8, 8, 8), None, DType.FLOAT32)
    return net.graph()


def concat_with_constant() -> Graph:
    net = Net()
    x = net.input(IMAGE)
    net.concat((x, net.constant(np.zeros(IMAGE, np.int8), net.quant(x))))
    return net.graph()


FLOAT_WEIGHTS = {
    "data": np.zeros((8, 3, 3, 4), np.float32),
    "dtype": DType.FLOAT32,
    "quant": None,
}
CASES = [
    Case(
        "NA-CONV-GROUPS",
        "2 groups of 18 -> 8 channels",
        lambda: conv((1, 8, 8, 18), groups=2),
        lambda: conv(channels=0),
    ),
    Case("NA-CONV-GROUPS", "4 groups of 4 -> 8 channels", lambda: conv(groups=4), conv),
    Case(
        "NA-CONV-LINES",
        "width 2049, limit 2048",
        lambda: conv((1, 4, 2049, 1)),
        lambda: conv((1, 4, 2048, 1)),
    ),
    Case(
        "NA-CONV-LINES",
        "width 2049, limit 2048",
        lambda: conv((1, 4, 2049, 1), window=(2, 1)),
        lambda: conv((1, 4, 2049, 1), window=(1, 3)),
    ),
    Case(
        "NA-FLOAT",
        "'dequantize' is float32",
        lambda: float_mean(False),
        lambda: float_mean(True),
    ),
    Case(
        "NA-WEIGHTS",
        "weights are computed at run time",
        lambda: conv_with_input("weights"),
        conv,
    ),
    Case("NA-WEIGHTS", "weights are float32", lambda: conv_with("weights", **FLOAT_WEIGHTS), dense),
    Case(
        "NA-WEIGHTS",
        "weight scales run along axis 3, limit output channels",
        lambda: weights_along(3),
        lambda: weights_along(None),
    ),
    Case("NA-BIAS", "bias is computed at run time", lambda: conv_with_input("bias"), conv),
    Case(
        "NA-BROADCAST",
        "(1, 8, 8, 4) against (1, 8, 1, 4)",
        lambda: binary("Add", (1, 8, 1, 4)),
        lambda: binary("Add", IMAGE),
    ),
    Case(
        "NA-BROADCAST",
        "(1, 1) against a constant of the full shape",
        lambda: value_against_vector((1, 1)),
        lambda: value_against_vector((1, 8)),
    ),
    Case("NA-BROADCAST", "(1, 8, 1, 4) against (1, 1, 8, 4)", outer, lambda: binary("Mul", IMAGE)),
    Case(
        "NA-BROADCAST-VECTOR",
        "'input1' has shape (1, 1, 1, 4)",
        lambda: binary("Sub", (1, 1, 1, 4)),
        lambda: binary("Add", (1, 1, 1, 4), constant=True),
    ),
    Case(
        "NA-BROADCAST-VECTOR",
        "'input1' has shape (1, 1, 1, 4)",
        lambda: binary("Sub", (1, 1, 1, 4)),
        lambda: binary("Mul", (1, 1, 1, 4)),
    ),
    Case("NA-CONCAT-FORMAT", "'input0' is float32", concat_of_floats, lambda: concat(3)),
    Case("NA-CONCAT-FORMAT", "'constant' is constant", concat_with_constant, lambda: concat(3)),
    Case(
        "NA-CONCAT-AXIS",
        "axis 1 of 4 dimensions, limit axis 3",
        lambda: concat(1),
        lambda: concat(3),
    ),
    Case(
        "NA-POOL-WINDOW",
        "window (4, 2), limit 3",
        lambda: pool("MaxPool", (4, 2)),
        lambda: pool("MaxPool", (3, 2)),
    ),
    Case(
        "NA-POOL-WINDOW",
        "window (5, 5), limit 3",
        lambda: pool("AveragePool", (5, 5)),
        lambda: pool("AveragePool", (20, 20)),
    ),
    Case(
        "NA-POOL-LINES",
        "width 2049, limit 2048",
        lambda: pool("MaxPool", (1, 2), shape=(1, 1, 2049, 4)),
        lambda: pool("MaxPool", (1, 2), shape=(1, 1, 2048, 4)),
    ),
    Case(
        "NA-POOL-LINES",
        "width 2049, limit 2048",
        lambda: mean((1, 2), (1, 1, 2049, 4)),
        lambda: mean((1, 2), (1, 1, 2048, 4)),
    ),
    Case(
        "NA-POOL-STRIDE",
        "stride (16, 16), limit 15",
        lambda: pool("MaxPool", (2, 2), (16, 16)),
        lambda: pool("MaxPool", (2, 2), (15, 15)),
    ),
    Case(
        "NA-POOL-STRIDE",
        "stride (1, 16), limit 15",
        lambda: pool("AveragePool", (2, 2), (1, 16)),
        lambda: pool("AveragePool", (20, 20), (20, 20)),
    ),
    Case(
        "NA-POOL-PAD",
        "padded average",
        lambda: pool("AveragePool", (3, 3), pad=1),
        lambda: pool("AveragePool", (3, 3)),
    ),
    Case(
        "NA-POOL-PAD",
        "padding (8, 8, 8, 8), limit 7",
        lambda: pool("MaxPool", (3, 3), pad=8),
        lambda: pool("MaxPool", (3, 3), pad=1),
    ),
    Case("NA-MEAN-AXES", "axes (1,) of 4 dimensions", lambda: mean((1,)), lambda: mean((1, 2))),
    Case("NA-MEAN-AXES", "axes (3,) of 4 dimensions", lambda: mean((3,)), lambda: mean((1, 2))),
    Case(
        "NA-MEAN-AXES",
        "axes (1,) of 3 dimensions",
        lambda: mean((1,), (1, 8, 4)),
        lambda: mean((1, 2)),
    ),
]
NAMES = [f"{case.rule}-{number}" for number, case in enumerate(CASES)]


def met(graph: Graph) -> dict[str, str]:
    """Rules that refuse the last op, and their reasons."""
    return {r.rule: r.reason for r in refusals(graph, graph.ops[-1], MACHINE)}


def epoch_of(program: Program, graph: Graph) -> Epoch:
    """The epoch that works on the last op: its own kernel, not the conversions around it."""
    op = graph.ops[-1]
    epochs = [epoch for epoch in program.executed if op.origin[0] in epoch.origin]
    own = [epoch for epoch in epochs if epoch.call and epoch.call.kernel == op.kind]
    return (own or epochs)[0]


# The registry


# Rules with tests of their own below, in test_refusals_moves.py or test_refusals_software.py.
SOFTWARE = {
    "NA-SOFTMAX",
    "NA-QUANTIZE-FLOAT",
    "NA-DEQUANTIZE-FLOAT",
    "NA-PRELU-SLOPE",
    "NA-MAX-LEAKY",
    "NA-MATMUL-DYNAMIC",
    "NA-REDUCE-KIND",
    "NA-DIV",
    "NA-GATHER",
    "NA-DEPTH-SPACE",
    "NA-TRANSPOSED-CONV",
}
MOVES = {
    "NA-SLICE-FORMAT",
    "NA-SLICE-STEP",
    "NA-SLICE-AXIS",
    "NA-TRANSPOSE",
    "NA-PAD-CHANNEL",
    "NA-PAD-VALUE",
    "NA-RESIZE-MODE",
    "NA-RESIZE-HYBRID",
}
# files/test_unknown.py has networks with ops that are not known here.
APART = {"NA-CONV-PRIME", "NA-CONV-COLUMNS", "NA-CONV-DILATED", "NA-CONCAT-PARTS"}
APART |= {"NA-CONV-ONE-INPUT"}
APART |= {"NA-CONV-STRIDE", "NA-OP-UNKNOWN", *MOVES, *SOFTWARE}


def test_every_rule_has_its_networks() -> None:
    assert {case.rule for case in CASES} | APART == set(BY_ID)


@pytest.mark.parametrize(
    ("inputs", "positions", "generation", "refused"),
    [
        (257, 1, "2.2", True),
        (257, 1, "3.0", True),
        (257, 1, "4.0", True),
        (257, 1, "open", False),  # which cuts it in two
        (257, 40, "2.2", True),  # as in STFT-TCNN
        (257, 40, "4.0", True),
        (113, 1, "4.0", False),
        (113, 1, "2.2", False),  # as many passes as channels, but few enough
        (256, 1, "2.2", False),
        (289, 1, "2.2", False),  # 17 * 17
        (251, 1, "2.2", False),
        (514, 1, "2.2", True),  # two units in series with 257 each
    ],
)
def test_prime_input_counts(inputs: int, positions: int, generation: str, refused: bool) -> None:
    net = Net()
    net.conv(net.input((1, 1, positions, inputs)), 16, (1, 1))
    graph = net.graph()
    found = refusals(graph, graph.ops[-1], MACHINES[generation])
    assert [r.rule for r in found] == (["NA-CONV-PRIME"] if refused else [])
    kind = EpochKind.SW if refused else EpochKind.HW
    assert compiled(graph, generation).executed[-1].kind is kind


@pytest.mark.parametrize(
    ("window", "channels", "generation", "kernels"),
    [
        ((7, 7), 0, "2.2", 9),  # three pieces: dequantize, convolve, cast
        ((3, 7), 0, "2.2", 3),
        ((7, 6), 0, "2.2", 0),
        ((7, 7), 0, "4.0", 0),
        ((7, 7), 8, "2.2", 0),  # dense kernels are cut, all pieces on the NPU
    ],
)
def test_wide_depthwise_kernels(
    window: tuple[int, int], channels: int, generation: str, kernels: int
) -> None:
    net = Net()
    net.conv(net.input((1, 9, 9, 8)), channels, window)
    graph = net.graph()
    found = refusals(graph, graph.ops[-1], MACHINES[generation])
    assert [r.rule for r in found] == (["NA-CONV-COLUMNS"] if kernels else [])
    program = compiled(graph, generation)
    assert program.count(EpochKind.SW) == kernels
    assert program.count(EpochKind.HW) > 0
    values = sample(graph, 5)
    apart = execute(program, values).outputs[graph.outputs[0]].astype(int)
    assert np.abs(apart - run(graph, values)[graph.outputs[0]]).max() <= 2


@pytest.mark.parametrize(
    ("channels", "dilations", "strides", "moves"),
    [
        (0, (3, 3), (1, 1), 2),  # pixels into channels, and back
        (0, (4, 2), (1, 1), 2),  # 9 rows are no whole blocks of 4
        (0, (20, 20), (1, 1), 0),  # no block is larger than the map
        (0, (3, 3), (2, 2), 0),
        (8, (3, 3), (1, 1), 0),  # dense kernels are cut into pieces
    ],
)
def test_dilated_kernels(
    channels: int, dilations: tuple[int, int], strides: tuple[int, int], moves: int
) -> None:
    net = Net()
    pads = (dilations[0], dilations[1], dilations[0], dilations[1])
    net.conv(net.input((1, 9, 9, 8)), channels, (3, 3), strides, pads, dilations=dilations)
    graph = net.graph()
    found = refusals(graph, graph.ops[-1], MACHINES["4.0"])
    assert [r.rule for r in found] == (["NA-CONV-DILATED"] if moves else [])
    program = compiled(graph, "4.0")
    assert program.count(EpochKind.HYBRID) == moves
    calls = [epoch for epoch in program.epochs if epoch.call]
    assert all(epoch.trail[0].rule == "NA-CONV-DILATED" for epoch in calls)


@pytest.mark.parametrize("generation", ["2.2", "3.0", "4.0"])
def test_parts_with_different_channels(generation: str) -> None:
    """Compilers of 2.x join equal parts in one copy, others by a library call."""
    for graph, unequal in ((concat_of_unequal_parts(), True), (concat(3), False)):
        refused = unequal and generation == "2.2"
        found = refusals(graph, graph.ops[-1], MACHINES[generation])
        assert [r.rule for r in found] == (["NA-CONCAT-PARTS"] if refused else [])
        kinds = {epoch.kind for epoch in compiled(graph, generation).executed}
        assert kinds == {EpochKind.SW if refused else EpochKind.HW}


@pytest.mark.parametrize("generation", ["2.2", "3.0", "4.0", "open"])
def test_a_layer_that_reads_one_value(generation: str) -> None:
    for graph, one in ((one_value(), True), (dense(), False)):
        refused = one and generation != "open"
        found = refusals(graph, graph.ops[-1], MACHINES[generation])
        assert [r.rule for r in found] == (["NA-CONV-ONE-INPUT"] if refused else [])
        kinds = {epoch.kind for epoch in compiled(graph, generation).executed}
        assert kinds == {EpochKind.SW if refused else EpochKind.HW}


def test_ids_are_unique_and_well_formed() -> None:
    ids = [rule.id for rule in RULES]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"NA(-[A-Z0-9]+)+", name) for name in ids)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_has_a_sentence_and_known_ops(rule: Rule) -> None:
    """The sentence is what the user reads: one line, from a capital to a full stop."""
    assert re.fullmatch(r"[A-Z].*\.", rule.sentence)
    assert "  " not in rule.sentence
    # The ACTIV unit knows more functions than the graph has ops for.
    assert rule.ops and set(rule.ops) <= {*OPS, *FUNCTIONS}


def test_a_refusal_holds_values() -> None:
    """Words are made of them where they are printed."""
    strided = conv((1, 32, 32, 4), strides=(9, 9))
    (refused,) = refusals(strided, strided.ops[-1], MACHINE)
    assert (refused.found.value("stride"), refused.limit) == ((9, 9), MACHINE.convacc.max_stride)
    assert refused.reason == f"{refused.sentence} (stride (9, 9), limit {refused.limit})"


def test_a_tensor_may_have_any_name() -> None:
    """A name is a value: what looks like the name of another value stays as it is."""
    found = evidence("'$tensor' is $type", tensor="$type {0.real} $$", type="float32")
    assert str(found) == "'$type {0.real} $$' is float32"


# Each rule


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_network_that_meets_the_rule(case: Case) -> None:
    found = met(case.refused())
    assert found[case.rule] == f"{BY_ID[case.rule].sentence} ({case.evidence})"


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_a_network_that_does_not(case: Case) -> None:
    assert met(case.allowed()) == {}


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_reason_stays_in_the_program(case: Case, generation: str) -> None:
    """The op runs as a software epoch and the epoch says why."""
    graph = case.refused()
    epoch = epoch_of(compiled(graph, generation), graph)
    assert epoch.kind in (EpochKind.SW, EpochKind.HYBRID)
    assert epoch.call is not None and epoch.call.kernel == graph.ops[-1].kind
    trail = {refused.rule: refused for refused in epoch.trail}
    assert trail[case.rule].way == "NPU"
    assert trail[case.rule].reason.endswith(f"({case.evidence})")


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_what_no_rule_refuses_runs_on_the_npu(case: Case, generation: str) -> None:
    graph = case.allowed()
    epoch = epoch_of(compiled(graph, generation), graph)
    assert epoch.kind is EpochKind.HW
    assert epoch.trail == ()


def test_all_reasons_are_kept() -> None:
    """Two rules refuse one op: both are told."""
    net = Net()
    weights = net.constant(np.ones((8, 3, 3, 9), np.float32))
    x = net.input((1, 8, 8, 18))
    net.op("Conv2D", (x, weights), ConvAttrs(groups=2), (1, 6, 6, 8), per_tensor(0.1, 0))
    graph = net.graph()
    assert set(met(graph)) == {"NA-CONV-GROUPS", "NA-WEIGHTS"}
    trail = epoch_of(compiled(graph), graph).trail
    assert {refused.rule for refused in trail} == {"NA-CONV-GROUPS", "NA-WEIGHTS"}


def test_what_quantizing_would_not_mend_is_told_first() -> None:
    net = Net()
    weights = net.constant(np.ones((8, 3, 3, 9), np.float32))
    x = net.input((1, 8, 8, 18), None)
    net.op("Conv2D", (x, weights), ConvAttrs(groups=2), (1, 6, 6, 8), None, DType.FLOAT32)
    assert [*met(net.graph())] == ["NA-CONV-GROUPS", "NA-FLOAT", "NA-WEIGHTS"]


def test_a_step_is_told_before_the_axis() -> None:
    net = Net()
    x = net.input(IMAGE)
    attrs = SliceAttrs((0, 0, 0, 0), (1, 4, 8, 4), (1, 2, 1, 1))
    net.op("Slice", (x,), attrs, (1, 4, 8, 4), net.quant(x))
    assert [*met(net.graph())] == ["NA-SLICE-STEP", "NA-SLICE-AXIS"]


def test_weights_with_a_zero_point_are_refused_as_they_are() -> None:
    """A pass makes them symmetric first, so no program shows it."""
    graph = conv()
    quant = Quant(graph.tensor("weights").quant.scales, (3,) * 8, 0)
    graph.tensors["weights"] = replace(graph.tensor("weights"), quant=quant)
    assert met(graph)["NA-WEIGHTS"].endswith("(weights have a zero point other than 0)")


def test_an_op_without_a_unit_says_so() -> None:
    net = Net()
    x = net.input((1, 10), (0.02, 3))
    net.op("Floor", (x,), Attrs(), (1, 10), per_tensor(0.02, 3))
    graph = net.graph()
    trail = epoch_of(compiled(graph), graph).trail
    assert [(refused.rule, refused.reason) for refused in trail] == [
        ("NA-OP-SOFTWARE", "Floor has no NPU lowering: it runs on the CPU")
    ]


def test_limits_come_from_the_machine() -> None:
    """A machine with a smaller line buffer and pool refuses more."""
    small = replace(
        MACHINE,
        convacc=replace(MACHINE.convacc, line_buffer_elements=7),
        pool=replace(MACHINE.pool, max_window=1),
    )
    for graph, rule in ((conv(), "NA-CONV-LINES"), (pool("MaxPool", (2, 2)), "NA-POOL-WINDOW")):
        assert met(graph) == {}
        assert [r.rule for r in refusals(graph, graph.ops[-1], small)] == [rule]


def test_strides_fit_the_register() -> None:
    program = compiled(conv((1, 32, 32, 4), strides=(8, 8)))
    units = [u for epoch in program.epochs for u in epoch.units if isinstance(u, Convacc)]
    assert all(max(unit.vstride, unit.hstride) < 8 for unit in units)
