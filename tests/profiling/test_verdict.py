"""What a comparison proves: the limits on outputs and layers, and how much has to be compared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import npuscope
from compiler.nets import MACHINES, Net, compiled
from models import conv_net, mobilenet_like, save, to_tflite
from npuscope.advice.fix.numeric import seeded_inputs
from npuscope.cli.main import main
from npuscope.demo_network import demo_graph
from npuscope.errors import ModelError
from npuscope.graph.model import Attrs, DType, Graph, Op, Tensor
from npuscope.ops.moves import GatherAttrs
from npuscope.ops.run import run, trace
from npuscope.profiling.agreement import (
    Agreement,
    AgreementTally,
    Array,
    LayerAgreement,
    OwnBridge,
    Values,
    random_sample,
)
from npuscope.profiling.rounding import coefficient_lsb, deciding, rounded
from npuscope.profiling.validate import Reference, Validation, _Collected, validate
from npuscope.profiling.verdict import Coverage, Verdict, judge
from npuscope.program.model import Program
from npuscope.program.units import Arith
from npuscope.sim.memory import Memory
from npuscope.structs import replace
from profiling.test_foreign import anonymous

MACHINE = MACHINES["4.0"]
EXACT = Agreement("y", 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0)
GOOD = LayerAgreement("epoch 1", (), (), 0.9, 1.0, 1.0)


def output(rms: float, rounding: float, largest: float) -> Agreement:
    return replace(EXACT, rms_lsb=rms, rounding_rms_lsb=rounding, max_lsb=largest)


@pytest.mark.parametrize(
    ("outputs", "layer", "compared", "verdict"),
    [
        ([EXACT], GOOD, 10, Verdict.PASSED),
        ([output(0.4, 0.0, 1.0)], GOOD, 10, Verdict.PASSED),
        ([output(0.4, 0.0, 2.0)], GOOD, 10, Verdict.DIFFERS),
        ([output(9.0, 5.0, 40.0)], GOOD, 10, Verdict.DIFFERS),
        ([output(11.0, 5.0, 40.0)], GOOD, 10, Verdict.WRONG),
        ([EXACT, output(1.1, 0.5, 9.0)], GOOD, 10, Verdict.WRONG),
        ([EXACT], replace(GOOD, near_share=0.89), 10, Verdict.WRONG),
        ([EXACT], replace(GOOD, channel_near_share=0.4), 10, Verdict.WRONG),
        ([EXACT], replace(GOOD, bias=-0.2), 10, Verdict.WRONG),
        ([EXACT], GOOD, 4, Verdict.UNJUDGED),
        ([output(11.0, 5.0, 40.0)], GOOD, 4, Verdict.WRONG),
        ([], GOOD, 10, Verdict.UNJUDGED),
    ],
)
def test_outputs_come_first_then_layers_then_how_many(
    outputs: list[Agreement], layer: LayerAgreement, compared: int, verdict: Verdict
) -> None:
    assert judge(outputs, [layer], Coverage(compared, 10)) is verdict


def test_a_thin_comparison_is_not_judged() -> None:
    found = validate(compiled(demo_graph()), demo_graph(), MACHINE)
    thin = replace(found, verdict=Verdict.UNJUDGED, layers_compared=1, layers=found.layers[:1])
    assert thin.sentence == (
        f"not judged: outputs within {max(o.max_lsb for o in found.outputs):g} LSB, but only 1 of "
        f"{found.layers_total} layers could be compared"
    )


def test_a_network_for_the_cpu_alone_is_judged_by_its_outputs() -> None:
    net = Net()
    x = net.input((1, 4, 4, 8))
    real = net.dequantize(x)
    graph = net.graph(net.op("Softsign", (real,), Attrs(), net.shape(x), None, DType.FLOAT32))
    found = validate(compiled(graph), graph, MACHINE)
    assert found.sentence == "passed: outputs within 0 LSB; no layer runs on the NPU"


def damaged(program: Program, share: float) -> Program:
    """A share of the weight bytes is drawn anew."""
    random = np.random.default_rng(0)
    constants = {}
    for name, data in program.constants.items():
        raw = np.array(data).reshape(-1).view(np.uint8)
        places = random.random(raw.size) < share
        raw[places] = random.integers(0, 256, int(places.sum()))
        constants[name] = raw
    return replace(program, constants=constants)


@pytest.mark.parametrize("share", [0.25, 0.02])
@pytest.mark.parametrize("named", [True, False])
def test_damaged_weights_are_wrong(share: float, named: bool) -> None:
    graph = demo_graph()
    program = compiled(graph) if named else anonymous(compiled(graph))
    found = validate(damaged(program, share), graph, MACHINE)
    assert found.verdict is Verdict.WRONG and found.broken
    # Layers that disagree are compared all the same.
    right = validate(program, graph, MACHINE)
    assert found.layers_compared >= right.layers_compared - 1


@pytest.mark.parametrize("named", [True, False])
def test_another_network_of_the_same_shapes_and_scales_is_wrong(named: bool) -> None:
    program = compiled(demo_graph(seed=7))
    other = demo_graph(seed=8)
    found = validate(program if named else anonymous(program), other, MACHINE)
    assert found.verdict is Verdict.WRONG
    assert len(found.broken) > found.layers_compared / 2


def deep(layers: int) -> Graph:
    net = Net(5)
    x = net.input((1, 12, 12, 8))
    for _ in range(layers):
        x = net.conv(x, 8)
    return net.graph()


def test_what_rounding_adds_up_to_is_no_fault() -> None:
    graph = deep(24)
    found = validate(compiled(graph), graph, MACHINE)
    (scores,) = found.outputs
    assert found.verdict.holds and not found.broken
    assert scores.rms_lsb < scores.rounding_rms_lsb * 2
    assert (
        scores.rounding_rms_lsb
        > validate(compiled(deep(1)), deep(1), MACHINE).outputs[0].rounding_rms_lsb
    )


def test_a_coefficient_of_few_steps_makes_its_channel_coarse() -> None:
    net = Net(2)
    graph = net.graph(net.conv(net.input((1, 6, 6, 4)), 8))
    program = compiled(graph)
    (epoch,) = program.executed
    vectors = [u.A_vector.buffer for u in epoch.units if isinstance(u, Arith) and u.A_vector]
    fine = np.array(program.constants[vectors[0]]).reshape(-1).view(np.uint8)
    coarse = fine.copy()
    coarse.view(np.int16)[3] = 2
    before, after = (
        coefficient_lsb(epoch, Memory(replace(program, constants=constants)), 8)
        for constants in (program.constants, program.constants | {vectors[0]: coarse})
    )
    assert before.max() < 0.1
    assert after[3] == 255 / 4 and np.array_equal(np.delete(before, 3), np.delete(after, 3))


def test_values_that_are_no_numbers_are_far_off() -> None:
    tally = AgreementTally(0.5)
    tally.add(np.array([1.0, np.nan, np.inf]), np.ones(3))
    assert (tally.equal, tally.largest) == (1, 1e6)


def test_a_row_of_values_may_have_a_limit_for_each() -> None:
    tally = AgreementTally(1.0, np.array([1.0, 4.0, 1.0]))
    tally.add(np.array([0.0, 3.0, 3.0]), np.zeros(3))
    assert tally.near.tolist() == [1, 1, 0]


@pytest.mark.parametrize(("often", "biased"), [([98], False), (range(0, 100, 2), True)])
def test_a_tie_at_the_end_of_a_range_is_no_bias(often: Sequence[int], biased: bool) -> None:
    """Half of the values are 98, and all of these are a step off; or a step off is everywhere."""
    expected = np.concatenate([np.arange(100), np.full(120, 98)]).astype(np.int8)
    found = expected - np.isin(expected, often)
    tally = AgreementTally(1.0)
    tally.add(found, expected)
    assert tally.signed / tally.elements < -0.5
    assert (abs(tally.bias) > 0.45) is biased


def test_float_outputs_count_in_parts_of_their_range() -> None:
    """A difference of a tenth of the range is not within 1 LSB because values are below 1."""
    net = Net(3)
    x = net.conv(net.input((1, 6, 6, 4)), 6)
    real = net.dequantize(x)
    graph = net.graph(net.op("Sigmoid", (real,), Attrs(), net.shape(x), None, DType.FLOAT32))
    found = validate(damaged(compiled(graph), 0.25), graph, MACHINE)
    assert found.verdict is Verdict.WRONG and found.far


def test_outputs_of_unlike_channel_counts_are_held_against_an_outside_runtime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = Net(4)
    x = net.conv(net.input((1, 6, 6, 4)), 8)
    graph = net.graph(net.conv(x, 3, (1, 1)), net.conv(x, 5, (1, 1)))

    def outside(_: Path, network: Graph, samples: list[Values]) -> tuple[str, list[list[Array]]]:
        rows = [list(run(network, one).values()) for one in samples]
        rows[0][1] = np.where(np.arange(5) == 2, rows[0][1] ^ 1, rows[0][1])
        return "another", rows

    monkeypatch.setattr("npuscope.profiling.validate.outside_outputs", outside)
    found = validate(compiled(graph), graph, MACHINE)
    assert found.reference == Reference("another", 6 * 6 * (3 + 5), 6 * 6, 1.0)


# --- The verb ---


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))


def test_the_json_says_what_was_compared(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(model), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] in ("passed", "differs") and found["passed"]
    assert found["layers_compared"] == len(found["layers"]) <= found["layers_total"]


@pytest.mark.parametrize(
    ("verdict", "code"),
    [("passed", 0), ("differs", 0), ("wrong", 1), ("unjudged", 1)],
)
def test_exit_codes(
    model: Path,
    verdict: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    judged = Verdict(verdict)
    found = replace(npuscope.validate(model), verdict=judged, passed=judged.holds)
    monkeypatch.setattr("npuscope.verbs.validate.validate", lambda *args, **options: found)
    assert main(["validate", str(model)]) == code
    shown = capsys.readouterr().out.splitlines()[0]
    assert shown.startswith("not judged: " if verdict == "unjudged" else f"{verdict}: ")


def test_another_model_file_is_refused_by_its_digest(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    npuscope.compile(model, tmp_path / "build")
    other = save(tmp_path, "other.tflite", to_tflite(conv_net()))
    for source in ("build", "build/network.c"):
        code = main(["validate", str(tmp_path / source), "--model", str(other)])
        message = capsys.readouterr().err
        assert code == 3
        assert "the build was made from 'net.tflite' (md5 " in message
        assert "not from 'other.tflite' (md5 " in message


def test_bisect_follows_the_same_rule(model: Path) -> None:
    found: Validation = npuscope.validate(model)
    assert npuscope.bisect(model).passed is found.passed


def test_indices_that_are_no_integers_are_refused() -> None:
    table = Tensor("table", (4, 3), DType.FLOAT32)
    places = Tensor("places", (2,), DType.FLOAT32)
    result = Tensor("y", (2, 3), DType.FLOAT32)
    op = Op("Gather", "gather", ("table", "places"), ("y",), GatherAttrs(0))
    graph = Graph("net", [table, places, result], [op], ["table", "places"], ["y"])
    values = {"table": np.ones((4, 3), np.float32), "places": np.zeros(2, np.float32)}
    with pytest.raises(ModelError):
        run(graph, values)


def chosen() -> Graph:
    """A result or a constant far from it, whichever a comparison says."""
    net = Net(5)
    x = net.conv(net.conv(net.input((1, 8, 8, 16)), 16), 4)
    limit = net.constant(np.array([10], np.int8), net.quant(x))
    other = net.constant(np.full((1, 1, 1, 1), 127, np.int8), net.quant(x))
    less = net.op("Less", (x, limit), Attrs(), net.shape(x), None, DType.BOOL)
    return net.graph(net.op("Where", (less, x, other), Attrs(), net.shape(x), net.quant(x)))


def test_a_choice_that_a_step_decides_is_rounding() -> None:
    graph = chosen()
    found = validate(compiled(graph), graph, MACHINE)
    (output,) = found.outputs
    # Rounding at random meets none of the places where the choice is a matter of one step.
    assert max(np.abs(rounded_apart(graph, draw)).max() for draw in range(2)) < 100
    assert output.max_lsb > 100 and output.rms_lsb > 5
    assert found.verdict is Verdict.DIFFERS and not found.broken


def rounded_apart(graph: Graph, draw: int) -> Array:
    (name,) = graph.outputs
    sample = random_sample(graph, np.random.default_rng(0))
    return rounded(graph, sample, draw)[name].astype(int) - run(graph, sample)[name]


def test_a_choice_that_no_step_explains_is_not() -> None:
    graph = chosen()
    sample = random_sample(graph, np.random.default_rng(0))
    expected = trace(graph, sample)
    (less,) = (op.outputs[0] for op in graph.ops if op.kind == "Less")
    compared = expected[graph.producers()[less].inputs[0]].astype(int)
    # On each side of the limit of 10 one value is a step from it.
    chosen_otherwise = deciding(graph, sample, expected, {less: ~expected[less]})
    assert chosen_otherwise is not None
    moved = chosen_otherwise[graph.outputs[0]] != expected[graph.outputs[0]]
    assert np.array_equal(moved, (compared == 9) | (compared == 10)) and moved.any()
    assert deciding(graph, sample, expected, {less: expected[less]}) is None


def test_a_jump_of_a_real_number_is_decided_by_the_step_before_it() -> None:
    """The sign of a dequantized value: zero lies between two steps of the integer."""
    net = Net(3)
    x = net.input((1, 8, 8, 4))
    real = net.op("Dequantize", (x,), Attrs(), net.shape(x), None, DType.FLOAT32)
    sign = net.op("Sign", (real,), Attrs(), net.shape(x), None, DType.FLOAT32)
    graph = net.graph(net.op("Quantize", (sign,), Attrs(), net.shape(x), net.quant(x)))
    sample = random_sample(graph, np.random.default_rng(0))
    expected = trace(graph, sample)
    one_up = np.sign(expected[real] + np.float32(net.quant(x).scale)).astype(np.float32)
    chosen_otherwise = deciding(graph, sample, expected, {sign: one_up})
    assert chosen_otherwise is not None
    moved = chosen_otherwise[graph.outputs[0]] != expected[graph.outputs[0]]
    assert np.array_equal(moved, one_up != expected[sign]) and moved.any()
    # Three steps up are no rounding: only what one step reaches is taken over.
    far = np.sign(expected[real] + np.float32(3 * net.quant(x).scale)).astype(np.float32)
    other = deciding(graph, sample, expected, {sign: far})
    assert other is not None
    taken = other[graph.outputs[0]] != expected[graph.outputs[0]]
    assert taken.sum() < (far != expected[sign]).sum()


def test_a_step_before_a_mean_of_a_finer_scale_is_several_of_its_steps() -> None:
    net = Net(3)
    x = net.average_pool(net.conv(net.input((1, 8, 8, 8)), 8))
    fine = net.quant(x).scale / 4
    graph = net.graph(net.mean(x, (fine, 0)))
    program = compiled(graph)
    (epoch,) = (e for e in program.executed if len(e.origin) == 3)
    collected = _Collected(program, graph, OwnBridge(program, graph))
    collected.inside = {x: 1.0}
    assert collected._steps_inside(epoch, graph.outputs[0]) == pytest.approx(4)
    assert collected._steps_inside(epoch, x) == 1


@pytest.mark.parametrize(("values", "bias"), [(1, 0.0), (15, 0.0), (16, 1 / 3)])
def test_equal_values_are_rounded_once_however_many_they_are(values: int, bias: float) -> None:
    tally = AgreementTally(1.0, 3.0)
    expected = np.resize(np.arange(values, dtype=np.int8), (16, 16))
    tally.add(expected + 1, expected)
    assert tally.bias == pytest.approx(bias)


def test_a_network_that_no_computer_could_run_is_refused() -> None:
    tensors = [Tensor(name, (1, 224, 1024, 4096), DType.INT8) for name in "xy"]
    graph = Graph("huge", tensors, [Op("y", "Relu", ("x",), ("y",), Attrs())], ["x"], ["y"])
    for run_on in (
        lambda: random_sample(graph, np.random.default_rng(0)),
        lambda: seeded_inputs(graph, 0),
    ):
        with pytest.raises(ModelError, match="has 939,524,096 values: too many to run"):
            run_on()
