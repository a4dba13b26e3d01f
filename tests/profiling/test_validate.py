"""NPU arithmetic against the reference: agreement, samples, wrong inputs, a broken layer."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import numpy as np
import pytest

import npuscope
from models import conv_net, mobilenet_like, save, to_tflite
from npuscope.cli.main import main
from npuscope.compiler.pipeline import compile_graph
from npuscope.demo_network import demo_graph
from npuscope.errors import UsageError
from npuscope.files.load import load_model
from npuscope.graph.model import Attrs, DType, Graph, Op, Quant, Tensor
from npuscope.machine.load import load_machine
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.reduce import ArgAttrs
from npuscope.profiling import validate as validating
from npuscope.profiling.agreement import AgreementTally
from npuscope.profiling.validate import validate
from npuscope.profiling.verdict import Verdict, agrees
from npuscope.sim.arithmetic import units as arith
from npuscope.sim.arithmetic.streams import floor_shift
from npuscope.structs import replace

MACHINE = load_machine()
DEMO = demo_graph()
PROGRAM = compile_graph(DEMO, MACHINE)
IMAGE = DEMO.tensor("image").shape


def images(count, dtype=np.int8):
    return np.random.default_rng(3).integers(-128, 128, (count, *IMAGE[1:])).astype(dtype)


@pytest.fixture(scope="module")
def demo():
    return validate(PROGRAM, DEMO, MACHINE, seeds=2)


def test_the_demo_agrees(demo):
    assert demo.verdict is Verdict.PASSED and demo.passed and demo.seeds == 2
    (scores,) = demo.outputs
    assert scores.name == "scores"
    assert scores.within_1_lsb_share == 1.0 and scores.max_lsb <= 1
    assert scores.cosine > 0.999
    assert demo.layers_exact_share > 0.95


def test_every_npu_epoch_is_compared(demo):
    compared = [layer.epoch for layer in demo.layers]
    assert compared == [epoch.name for epoch in PROGRAM.executed if epoch.call is None]
    assert demo.layers_compared == demo.layers_total == len(compared)
    assert demo.not_compared == ()
    for layer in demo.layers:
        assert layer.exact_share <= layer.within_1_lsb_share
        assert layer.origin and layer.ops


def test_the_worst_layer_is_named(demo):
    worst = min(demo.layers, key=lambda layer: layer.exact_share)
    assert demo.worst_op == worst.origin[0]


def test_the_same_seeds_give_the_same_answer(demo):
    assert validate(PROGRAM, DEMO, MACHINE, seeds=2) == demo


@pytest.mark.parametrize("generation", ["2.2", "3.0", "open"])
def test_every_generation_agrees(generation):
    machine = load_machine(generation=generation)
    found = validate(compile_graph(DEMO, machine), DEMO, machine)
    assert found.passed
    assert all(map(agrees, found.layers))


def test_a_wrong_unit_does_not_pass(monkeypatch):
    """Results of all arithmetic units are two steps short."""
    monkeypatch.setattr(arith, "round_shift", lambda value, shift: floor_shift(value, shift) - 2)
    found = validate(PROGRAM, DEMO, MACHINE)
    assert found.verdict is Verdict.WRONG and not found.passed
    assert found.layers_exact_share < 0.5
    assert found.broken
    agreeing = len(found.layers) - len(found.broken)
    assert found.sentence.startswith("wrong: output 'scores' is ")
    assert found.sentence.endswith(
        f"; {len(found.layers)} of {len(found.layers)} layers compared, {agreeing} agree"
    )


# Samples that the user gives.


def test_given_samples_are_taken_one_by_one():
    found = validate(PROGRAM, DEMO, MACHINE, inputs=[images(3)])
    assert found.seeds == 3 and found.passed


def test_one_sample_needs_no_leading_axis():
    stacked = validate(PROGRAM, DEMO, MACHINE, inputs=[images(1)])
    assert validate(PROGRAM, DEMO, MACHINE, inputs=[images(1)[0]]) == stacked


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([images(1)] * 2, "the network has 1 inputs, 2 arrays were given"),
        (
            [images(1, np.uint8)],
            "expected int8 of shape (1, 96, 96, 3), found uint8 of (1, 96, 96, 3)",
        ),
        (
            [images(2)[:, :95]],
            "expected int8 of shape (1, 96, 96, 3), found int8 of (2, 95, 96, 3)",
        ),
        (
            [images(1).astype(np.float32)],
            "expected int8 of shape (1, 96, 96, 3), found float32 of (1, 96, 96, 3)",
        ),
    ],
)
def test_wrong_inputs_are_the_users_mistake(arrays, message):
    with pytest.raises(UsageError) as caught:
        validate(PROGRAM, DEMO, MACHINE, inputs=arrays)
    assert caught.value.message == message
    assert caught.value.where == "--inputs"


def test_an_empty_array_is_the_users_mistake():
    with pytest.raises(UsageError):
        validate(PROGRAM, DEMO, MACHINE, inputs=[images(0)])


def sum_of_two() -> Graph:
    quant = Quant((0.05,), (0,))
    tensors = [Tensor(name, (1, 2, 2, 8), DType.INT8, quant) for name in "aby"]
    add = Op("Add", "add", ("a", "b"), ("y",), BinaryAttrs(), ("ADD:0",))
    return Graph("sum", tensors, [add], ("a", "b"), ("y",))


def test_two_inputs():
    graph = sum_of_two()
    arrays = [np.full((4, 2, 2, 8), value, np.int8) for value in (3, -20)]
    found = validate(compile_graph(graph, MACHINE), graph, MACHINE, inputs=arrays)
    assert found.seeds == 4 and found.outputs[0].mean == -17


def test_32_bits_are_made_by_the_cpu():
    """Stream engines have no elements of 32 bits."""
    x = Tensor("x", (1, 7), DType.INT16, Quant((0.0005,), (0,)))
    y = Tensor("y", (1, 7), DType.INT32, Quant((1.5e-7,), (0,)))
    graph = Graph("wide", [x, y], [Op("Quantize", "wide", ("x",), ("y",), Attrs())], ["x"], ["y"])
    program = compile_graph(graph, MACHINE)
    assert [epoch.call.kernel for epoch in program.epochs] == ["Quantize"]
    assert validate(program, graph, MACHINE, seeds=1).passed


def test_places_have_no_scale():
    """The CPU computes in float; its result is stored as the integer that it is."""
    x = Tensor("x", (1, 5, 7), DType.INT8, Quant((0.1,), (3,)))
    y = Tensor("y", (1, 5), DType.INT64)
    op = Op("ArgMax", "place", ("x",), ("y",), ArgAttrs(2))
    graph = Graph("place", [x, y], [op], ["x"], ["y"])
    program = compile_graph(graph, MACHINE)
    assert [epoch.call.kernel for epoch in program.epochs] == ["Dequantize", "ArgMax", "Cast"]
    assert validate(program, graph, MACHINE, seeds=1).passed


def test_as_many_samples_of_one_input_as_of_the_other():
    graph = sum_of_two()
    arrays = [np.zeros((count, 2, 2, 8), np.int8) for count in (2, 3)]
    with pytest.raises(UsageError):
        validate(compile_graph(graph, MACHINE), graph, MACHINE, inputs=arrays)


# An outside runtime.


def test_an_outside_runtime_checks_the_reference(tmp_path):
    pytest.importorskip("ai_edge_litert")
    path = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    graph = load_model(path)
    found = validate(compile_graph(graph, MACHINE), graph, MACHINE, seeds=3, model=path)
    reference = found.reference
    assert (reference.name, reference.mismatches, reference.max_lsb) == ("litert", 0, 0.0)
    assert reference.elements == 3 * graph.tensor(graph.outputs[0]).elements


def test_an_outside_runtime_that_dies_costs_only_its_comparison(tmp_path, caplog):
    pytest.importorskip("ai_edge_litert")
    graph = load_model(save(tmp_path, "net.tflite", to_tflite(conv_net())))
    broken = save(tmp_path, "broken.tflite", b"not a model")
    found = validate(compile_graph(graph, MACHINE), graph, MACHINE, model=broken)
    assert found.reference.name is None and found.passed
    assert "litert failed on this model" in caplog.text


def test_without_a_file_there_is_no_outside_runtime(tmp_path):
    graph = load_model(save(tmp_path, "net.tflite", to_tflite(conv_net())))
    found = validate(compile_graph(graph, MACHINE), graph, MACHINE)
    assert found.reference.name is None and found.passed


# How agreement is counted.


def test_agreement_counts_steps():
    tally = AgreementTally(0.5)
    tally.add(np.array([0.0, 0.5, 1.0, 3.0]), np.array([0.0, 0.0, 0.0, 0.0]))
    found = tally.agreement("y")
    assert (found.exact_share, found.within_1_lsb_share) == (0.25, 0.5)
    assert (found.max_lsb, found.mean_lsb) == (6.0, 2.25)
    assert found.mean == 1.125 and found.std == pytest.approx(np.std([0, 0.5, 1, 3]))
    assert found.cosine == 1.0  # nothing to compare with


def test_agreement_adds_up_over_samples():
    rng = np.random.default_rng(0)
    pairs = rng.integers(-128, 128, (3, 2, 50))
    apart, together = AgreementTally(1.0), AgreementTally(1.0)
    for found, expected in pairs:
        apart.add(found, expected)
    together.add(pairs[:, 0], pairs[:, 1])
    one, other = apart.agreement("y"), together.agreement("y")
    assert (one.exact_share, one.max_lsb) == (other.exact_share, other.max_lsb)
    assert one.cosine == pytest.approx(other.cosine)


def test_agreement_of_a_scalar():
    tally = AgreementTally(1.0)
    tally.add(np.array(3.0), np.array(5.0))
    found = tally.agreement("y")
    assert (found.max_lsb, found.exact_share) == (2.0, 0.0)


def test_an_interruption_leaves_the_samples_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    two = npuscope.validate(model, seeds=2)
    add, calls = validating._Collected._check_layers, []

    def pressed(self: object, *args: object) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt  # in the middle of the third
        add(self, *args)

    monkeypatch.setattr(validating._Collected, "_check_layers", pressed)
    # What other kinds of inputs give is left out after an interruption.
    assert replace(npuscope.validate(model, seeds=5), kinds=two.kinds) == two
    calls.clear()
    assert main(["validate", str(model), "--seeds", "5"]) == 130
    assert "interrupted: 2 of 5 samples were compared" in capsys.readouterr().err
    calls[:] = [1, 1]  # in the first: there is nothing to tell
    with pytest.raises(KeyboardInterrupt):
        npuscope.validate(model, seeds=5)


def test_progress_tells_the_sample_and_the_worst_so_far(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    with caplog.at_level(logging.INFO, "npuscope.progress"):
        npuscope.validate(model, seeds=2)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == "sample 1 of 2"
    assert re.fullmatch(r"sample 2 of 2, worst so far \d+ LSB", lines[1])
