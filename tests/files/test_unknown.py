"""Ops that nothing here computes: the network is read, compiled and timed around them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import npuscope
from models import OnnxWriter, TfliteWriter, save
from npuscope.advice.changes import moved_work
from npuscope.cli.main import main
from npuscope.errors import ModelError, TargetError
from npuscope.files.load import load_model
from npuscope.graph.model import Graph
from npuscope.ops.run import run
from npuscope.ops.unknown import UNKNOWN, UnknownAttrs, unknown_names, word_of
from npuscope.structs import replace


def with_unknown(outputs: int = 1, kind: str = "CUSTOM:Detect") -> bytes:
    """A layer that is known, an op that is not, and a function of its first result."""
    w = TfliteWriter()
    x = w.tensor("x", (1, 8, 8, 4), scale=0.5)
    y = w.tensor("y", (1, 8, 8, 4), scale=0.5)
    w.op("LOGISTIC", [x], [y])
    made = [w.tensor(f"part{n}", (1, 16), scale=0.25) for n in range(outputs)]
    w.op(kind, [y], made)
    z = w.tensor("z", (1, 16), scale=1 / 256, zero_point=-128)
    w.op("LOGISTIC", [made[0]], [z])
    return w.finish([x], [z, *made[1:]])


def graph_of(folder: Path, data: bytes, name: str = "m.tflite") -> Graph:
    return load_model(save(folder, name, data))


def test_a_custom_op_keeps_its_place_and_shape(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, with_unknown())
    op = graph.ops[1]
    assert (op.kind, op.attrs) == (UNKNOWN, UnknownAttrs("Detect", (1, 16)))
    assert op.origin == ("CUSTOM Detect:#1",)
    assert graph.tensor(op.outputs[0]).quant == graph.tensor("part0").quant


def test_an_op_may_have_no_name(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, with_unknown(kind="CUSTOM:?"))
    op = replace(graph.ops[1], attrs=UnknownAttrs("", (1, 16)))
    graph.ops[1] = op
    assert word_of(op) == "nameless op"
    assert moved_work(graph, op.origin) == "a nameless op over 16 values"


def test_an_op_of_several_outputs_is_told_once(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, with_unknown(outputs=2, kind="CUSTOM:ai.Detect"))
    assert moved_work(graph, ["CUSTOM ai.Detect:#1"]) == "an ai.Detect over 16 values"


def test_no_time_is_told_of_a_network_that_is_mostly_unknown(tmp_path: Path, capsys: Any) -> None:
    w = TfliteWriter()
    names = [w.tensor(f"t{n}", (1, 16), scale=0.25) for n in range(5)]
    w.op("LOGISTIC", names[:1], names[1:2])
    for n in range(1, 4):
        w.op("CUSTOM:Detect", [names[n]], [names[n + 1]])
    model = str(save(tmp_path, "m.tflite", w.finish(names[:1], names[4:])))
    assert main(["estimate", model]) == 0
    text = capsys.readouterr().out
    first = "the time of this network is not known: 3 of its 4 ops have no known cost (Detect)"
    assert text.splitlines()[0] == first
    assert "MACs not known" in text and "range" not in text
    assert main(["estimate", model, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["total_ms"] is None and told["inferences_per_s"] is None


def test_weights_of_unknown_ops_count_as_much_as_ops(tmp_path: Path) -> None:
    w = OnnxWriter()
    x = w.qdq(w.input("x", (1, 4)), 0.1)
    for _ in range(4):
        x = w.qdq(w.node("Relu", x), 0.1)
    w.node("acme.Think", x, w.constant(np.ones((4, 4), np.float32)), output="y")
    model = save(tmp_path, "m.onnx", w.finish({"y": (1, 4)}))
    found = npuscope.estimate(model)
    assert found.model.unknown_params == 16 and found.is_mostly_unknown
    assert "time not known" in found.told()


def test_several_outputs_are_one_op_of_unknown_cost(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, with_unknown(3))
    assert [op.attrs_as(UnknownAttrs).part for op in graph.ops if op.kind == UNKNOWN] == [0, 1, 2]
    assert unknown_names(graph) == ("Detect",)


def test_a_dynamic_shape_is_told(tmp_path: Path) -> None:
    w = TfliteWriter()
    x, y = w.tensor("x", (1, 4), scale=0.5), w.tensor("y", (0, 4), scale=0.5)
    w.op("CUSTOM:Detect", [x], [y])
    with pytest.raises(ModelError, match="does not state the shape of output 0"):
        graph_of(tmp_path, w.finish([x], [y]))


@pytest.mark.parametrize(
    ("kind", "npu"),
    [("edgetpu-custom-op", "the Coral Edge TPU"), ("ethos-u", "an Arm Ethos-U")],
)
def test_models_for_another_npu_are_named(kind: str, npu: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"compiled for {npu}") as caught:
        graph_of(tmp_path, with_unknown(kind=f"CUSTOM:{kind}"))
    assert caught.value.hint.startswith("give the .tflite file that")


def test_other_subgraphs_are_bodies_of_control_flow(tmp_path: Path) -> None:
    w = TfliteWriter()
    x, y = w.tensor("x", (1, 4), scale=0.5), w.tensor("y", (1, 4), scale=0.5)
    w.op("WHILE", [x], [y])
    graph = graph_of(tmp_path, w.finish([x], [y], subgraphs=3))
    assert unknown_names(graph) == ("WHILE",)


def keeper(reads_again: bool = False) -> bytes:
    """y = state + x; the state becomes y, and may be read again behind that."""
    w = TfliteWriter()
    x = w.tensor("x", (1, 4), scale=0.5)
    handle = w.tensor("handle", (), "resource")
    old, y = (w.tensor(name, (1, 4), scale=0.5) for name in ("old", "y"))
    w.op("CALL_ONCE", [], [])
    w.op("VAR_HANDLE", [], [handle], sharedName=b"state")
    w.op("READ_VARIABLE", [handle], [old])
    w.op("ADD", [old, x], [y])
    w.op("ASSIGN_VARIABLE", [handle, y], [])
    if not reads_again:
        return w.finish([x], [y], subgraphs=2)
    again = w.tensor("again", (1, 4), scale=0.5)
    z = w.tensor("z", (1, 4), scale=1 / 256, zero_point=-128)
    w.op("READ_VARIABLE", [handle], [again])
    w.op("LOGISTIC", [again], [z])
    return w.finish([x], [z], subgraphs=2)


def test_a_variable_is_an_input_and_an_output(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, keeper())
    assert (graph.inputs, graph.outputs) == (("x", "old"), ("y",))
    assert graph.notes == ["1 variable of the network: each becomes an input and an output"]
    ones = np.full((1, 4), 2, np.int8)
    assert run(graph, {"x": ones, "old": ones})["y"].tolist() == [[4, 4, 4, 4]]


def test_a_variable_read_after_it_was_written_is_what_was_written(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, keeper(reads_again=True))
    assert graph.outputs == ("z", "y")
    assert graph.ops[1].inputs == ("y",)


def test_a_variable_without_a_handle_is_told(tmp_path: Path) -> None:
    w = TfliteWriter()
    x, y = w.tensor("x", (1, 4), scale=0.5), w.tensor("y", (1, 4), scale=0.5)
    w.op("READ_VARIABLE", [x], [y])
    with pytest.raises(ModelError, match="it does not name a variable"):
        graph_of(tmp_path, w.finish([x], [y]))


def onnx_graph(folder: Path, writer: OnnxWriter, shape: tuple[int, ...] | None) -> Graph:
    return graph_of(folder, writer.finish({"y": shape}), "m.onnx")


def test_an_onnx_op_has_the_shape_that_the_file_states(tmp_path: Path) -> None:
    w = OnnxWriter()
    w.node("acme.Frobnicate", w.input("x", (1, 4)), name="n", output="y")
    graph = onnx_graph(tmp_path, w, (1, 7))
    assert graph.ops[0].attrs == UnknownAttrs("acme.Frobnicate", (1, 7))
    assert graph.ops[0].inputs == ("x",)


def test_shapes_that_the_file_leaves_out_are_inferred(tmp_path: Path) -> None:
    w = OnnxWriter()
    parts = [w.constant(np.ones((1, 20, size), np.float32)) for size in (3, 5)]
    x = w.input("x", (4, 1, 3))
    hidden = w.node("LSTM", x, *parts, name="cell", hidden_size=5, clip=1.0)
    w.node("Relu", hidden, output="y")
    graph = onnx_graph(tmp_path, w, None)
    form = "peepholes, clipping and coupled gates are not supported"
    assert graph.ops[0].attrs == UnknownAttrs("LSTM", (4, 1, 1, 5), form=form, weights=160)


def test_a_shape_that_nobody_states_is_taken_and_told(tmp_path: Path) -> None:
    w = OnnxWriter()
    w.node("acme.Frobnicate", w.input("x", (1, 4)), name="n", output="hidden")
    w.node("Relu", "hidden", output="y")
    model = save(tmp_path, "m.onnx", w.finish({"y": None}))
    graph = load_model(model)
    assert graph.tensor("y").shape == (1, 4)
    assert graph.notes == [
        "acme.Frobnicate is an unknown op, and the file does not state the shape of 'hidden': the "
        "shape of its first input, (1, 4), is assumed; --shape hidden=... sets another"
    ]
    pinned = load_model(model, {"hidden": (2, 5)})
    assert (pinned.tensor("y").shape, pinned.notes) == ((2, 5), [])


def test_the_branch_of_a_known_condition_is_part_of_the_network(tmp_path: Path) -> None:
    def body(kind: str) -> Any:
        value = helper.make_tensor_value_info(f"of_{kind}", TensorProto.FLOAT, None)
        node = helper.make_node(kind, ["x"], [f"of_{kind}"])
        return helper.make_graph([node], kind, [], [value])

    w = OnnxWriter()
    x = w.input("x", (1, 4))
    size = w.node("Gather", w.node("Shape", x), w.constant(np.array(0)))
    known = w.node("Equal", size, w.constant(np.array(1)))
    w.node("If", known, name="n", output="y", then_branch=body("Neg"), else_branch=body("Relu"))
    graph = onnx_graph(tmp_path, w, None)
    assert [op.kind for op in graph.ops] == ["Neg"]
    assert graph.outputs == ("y",)


def test_bodies_of_control_flow_read_tensors_of_the_network(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("inner", TensorProto.FLOAT, (1, 4))
    body = helper.make_graph([helper.make_node("Relu", ["h"], ["inner"])], "body", [], [value])
    w = OnnxWriter()
    x = w.input("x", (1, 4))
    w.node("Neg", x, output="h")
    flag = w.input("flag", (), TensorProto.BOOL)
    w.node("Loop", "", flag, name="n", output="y", body=body)
    graph = onnx_graph(tmp_path, w, (1, 4))
    assert unknown_names(graph) == ("Loop",)
    assert set(graph.ops[-1].inputs) == {"flag", "h"}


def test_the_branch_with_more_weights_stands_for_an_open_condition(tmp_path: Path) -> None:
    def body(name: str, columns: int) -> Any:
        weights = numpy_helper.from_array(np.ones((4, columns), np.float32), f"{name}_w")
        nodes = [
            helper.make_node("MatMul", ["x", weights.name], [f"{name}_m"]),
            helper.make_node("ReduceMax", [f"{name}_m"], [name], axes=[1]),
        ]
        value = helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 1))
        return helper.make_graph(nodes, name, [], [value], [weights])

    w = OnnxWriter()
    w.input("x", (1, 4))
    flag = w.input("flag", (), TensorProto.BOOL)
    w.node("If", flag, name="n", output="y", then_branch=body("a", 2), else_branch=body("b", 9))
    graph = onnx_graph(tmp_path, w, (1, 1))
    assert [op.kind for op in graph.ops] == ["FullyConnected", "ReduceMax"]
    assert graph.parameters() == 36
    assert graph.notes == [
        "If:n: its condition is unknown before run time: its else_branch is read, the one with "
        "more weights"
    ]


# What the verbs make of it.


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(save(tmp_path, "m.tflite", with_unknown(2)))


def test_the_answer_is_a_lower_bound(model: str, capsys: Any) -> None:
    found = npuscope.estimate(model)
    assert found.unknown_ops == ("Detect",)
    assert found.interval_ms[1] is None
    assert main(["estimate", model]) == 0
    text = capsys.readouterr().out
    assert "at least" in text.splitlines()[0]
    assert "1 op of unknown cost (Detect) on the CPU" in text.splitlines()[0]
    assert main(["estimate", model, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["unknown_ops"] == ["Detect"]
    assert told["interval_ms"][1] is None


@pytest.mark.parametrize("verb", ["explain", "lint", "profile"])
def test_other_verbs_answer(verb: str, model: str, capsys: Any) -> None:
    assert main([verb, model]) == 0
    assert capsys.readouterr().out


def test_no_limit_on_an_unknown_time_can_pass(model: str, capsys: Any) -> None:
    assert main(["gate", model, "--max", "total_ms=1000"]) == 1
    assert "total_ms is at least" in capsys.readouterr().out
    assert main(["gate", model, "--max", "internal_ram_bytes=1MiB"]) == 0


def test_execution_is_refused_with_the_list(model: str) -> None:
    with pytest.raises(TargetError, match=r"does not know \(Detect\)"):
        npuscope.validate(model)


def test_a_saved_profile_keeps_the_bound(model: str, tmp_path: Path) -> None:
    npuscope.profile(model, save=tmp_path / "run.json")
    again = npuscope.load(tmp_path / "run.json")
    assert again.is_lower_bound  # type: ignore[union-attr]
    notes = npuscope.compare(tmp_path / "run.json", model).notes
    assert any("lower bound: Detect of unknown cost" in note for note in notes)


def test_an_unknown_op_of_constants_is_not_folded(tmp_path: Path) -> None:
    w = TfliteWriter()
    x = w.tensor("x", (1, 4), "float32")
    size = w.constant("size", np.array([4], np.int32))
    noise, y = (w.tensor(name, (1, 4), "float32") for name in ("noise", "y"))
    w.op("CUSTOM:Noise", [size], [noise])
    w.op("ADD", [x, noise], [y])
    model = save(tmp_path, "m.tflite", w.finish([x], [y]))
    assert npuscope.estimate(model).unknown_ops == ("Noise",)


def test_an_unknown_op_between_quantized_values_keeps_its_place(tmp_path: Path) -> None:
    w = OnnxWriter()
    x = w.qdq(w.input("x", (1, 4)), 0.1)
    y = w.qdq(w.node("acme.Frobnicate", x), 0.2)
    w.node("Relu", y, output="y")
    graph = load_model(save(tmp_path, "m.onnx", w.finish({"y": (1, 4)})))
    assert unknown_names(graph) == ("acme.Frobnicate",)


def test_types_that_only_unknown_ops_hand_on_have_a_stand_in(tmp_path: Path) -> None:
    w = TfliteWriter()
    x = w.tensor("x", (1, 8), "float32")
    spectrum = w.tensor("spectrum", (1, 5), "complex64")
    w.op("RFFT2D", [x], [spectrum])
    y = w.tensor("y", (1, 5), "float32")
    w.op("COMPLEX_ABS", [spectrum], [y])
    graph = graph_of(tmp_path, w.finish([x], [y]))
    assert unknown_names(graph) == ("RFFT2D", "COMPLEX_ABS")
    assert graph.tensor("spectrum").size_bytes == 5 * 8


def test_an_unknown_op_without_inputs_reads_the_networks_input(tmp_path: Path) -> None:
    w = TfliteWriter()
    x = w.tensor("x", (1, 4), "float32")
    noise = w.tensor("noise", (1, 4), "float32")
    w.op("CUSTOM:Noise", [], [noise])
    y = w.tensor("y", (1, 4), "float32")
    w.op("ADD", [x, noise], [y])
    model = save(tmp_path, "m.tflite", w.finish([x], [y]))
    assert load_model(model).ops[0].inputs == ("x",)
    assert npuscope.estimate(model).unknown_ops == ("Noise",)


# Forms that converters really write.


def test_scales_of_a_bias_may_name_the_axis_of_the_weights(tmp_path: Path) -> None:
    w = TfliteWriter()
    x = w.tensor("x", (1, 4, 4, 2), scale=0.5)
    scales = (0.1, 0.2)
    weights = w.constant("w", np.ones((1, 3, 3, 2), np.int8), scale=scales, axis=3)
    bias = w.constant("b", np.zeros(2, np.int32), scale=(0.05, 0.1), axis=0)
    w.tensors[bias].quantization.quantizedDimension = 3
    y = w.tensor("y", (1, 2, 2, 2), scale=0.5)
    w.op("DEPTHWISE_CONV_2D", [x, weights, bias], [y], padding=1)
    graph = graph_of(tmp_path, w.finish([x], [y]))
    quant = graph.tensor("b").quant
    assert quant is not None and quant.axis == 0


def test_a_computed_shape_of_a_transposed_convolution_is_the_stated_one(tmp_path: Path) -> None:
    w = TfliteWriter()
    x = w.tensor("x", (1, 4, 4, 2), scale=0.5)
    shape = w.tensor("shape", (4,), "int32")
    w.op("CUSTOM:ShapeOf", [x], [shape])
    weights = w.constant("w", np.ones((3, 2, 2, 2), np.int8), scale=(0.1, 0.2, 0.3))
    y = w.tensor("y", (1, 8, 8, 3), scale=0.5)
    w.op("TRANSPOSE_CONV", [shape, weights, x], [y], strideH=2, strideW=2)
    graph = graph_of(tmp_path, w.finish([x], [y]))
    assert graph.tensor("y").shape == (1, 8, 8, 3)


def test_quantizers_of_training_frameworks(tmp_path: Path) -> None:
    """Of a constant its rounded values; of an activation a clamp, if needed, and a pair."""
    w = OnnxWriter()
    bits = [w.constant(np.array(value, np.float32)) for value in (0.5, 0.0, 3.0)]
    weights = w.constant(np.array([[9.0, 0.6], [-9.0, 0.2]], np.float32))
    quantized = w.node("onnx.brevitas.Quant", weights, *bits, name="w", signed=1)
    hidden = w.node("onnx.brevitas.Quant", w.input("x", (1, 2)), *bits, name="a", signed=1)
    w.node("MatMul", hidden, quantized, output="y")
    graph = onnx_graph(tmp_path, w, None)
    found = run(graph, {"x": np.array([[0.6, -7.0]], np.float32)})["y"]
    assert found.tolist() == (np.array([[0.5, -2.0]]) @ [[1.5, 0.5], [-2.0, 0.0]]).tolist()


def test_a_quantizer_whose_bits_are_computed_keeps_the_shape(tmp_path: Path) -> None:
    w = OnnxWriter()
    parts = [w.constant(np.array(value, np.float32)) for value in (0.1, 0.0)]
    bits = w.input("bits", ())
    hidden = w.node("onnx.brevitas.Quant", w.input("x", (1, 4)), *parts, bits, name="n")
    w.node("Relu", hidden, output="y")
    graph = onnx_graph(tmp_path, w, None)
    assert graph.ops[0].attrs == UnknownAttrs("onnx.brevitas.Quant", (1, 4))
