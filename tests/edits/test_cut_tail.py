"""The network ends where the NPU's work ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from advice.runs import build
from compiler.nets import MACHINES
from edits.border_case import edited, graph_of, misfit, outside
from models import OnnxWriter, mobilenet_like, to_onnx, to_tflite
from npuscope.advice.fix.frontier import frontier
from npuscope.edits.tflite.document import TfliteDocument
from npuscope.files.load import load_model
from npuscope.ops.run import run
from npuscope.profiling.run import estimate
from npuscope.program.model import EpochKind, Program

NET = mobilenet_like()
DENSE = len(NET.layers) - 2
TFLITE, ONNX = to_tflite(NET), to_onnx(NET)


def compiled(data: bytes, generation: str) -> Program:
    return build(graph_of(data), MACHINES[generation]).program


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
@pytest.mark.parametrize("data", [TFLITE, ONNX], ids=["tflite", "onnx"])
def test_the_softmax_is_gone(data: bytes, generation: str) -> None:
    program = compiled(edited(data, "cut-tail"), generation)
    assert program.count(EpochKind.SW) < compiled(data, generation).count(EpochKind.SW)
    assert not any("Softmax" in epoch.operators for epoch in program.epochs)


def test_the_cut_tflite_file_gives_the_scores_as_they_were() -> None:
    cut = edited(TFLITE, "cut-tail", tensors=[f"layer{DENSE}"])
    with_both = graph_of(TFLITE)
    inputs = {"input": np.random.default_rng(0).integers(-128, 127, NET.input_shape, np.int8)}
    expected = run(with_both, inputs, [f"layer{DENSE}"])[f"layer{DENSE}"]
    assert np.array_equal(run(graph_of(cut), inputs)[f"layer{DENSE}"], expected)
    (name,) = outside(cut)
    assert name == f"layer{DENSE}"


def test_the_cut_onnx_file_gives_integers_that_the_rest_turns_into_the_old_output() -> None:
    cut = edited(ONNX, "cut-tail")
    (output,) = onnx.load_from_string(cut).graph.output
    tensor = output.type.tensor_type
    assert tensor.elem_type == onnx.TensorProto.INT8
    assert [dim.dim_value for dim in tensor.shape.dim] == [1, 5]
    (scores,) = outside(cut).values()
    layer = NET.layers[DENSE]
    real = (scores.astype(np.float32) - layer.zero_point) * np.float32(layer.scale)
    share = np.exp(real) / np.exp(real).sum()
    assert np.allclose(share, outside(ONNX)["output"], atol=1 / 256)


def test_channel_first_outputs_keep_the_shape_of_the_file() -> None:
    data = conv_and_softmax()
    cut = edited(data, "cut-tail")
    (output,) = onnx.load_from_string(cut).graph.output
    assert [dim.dim_value for dim in output.type.tensor_type.shape.dim] == [1, 4, 8, 8]
    (scores,) = outside(cut).values()
    real = scores.astype(np.float32) * np.float32(0.05)
    share = np.exp(real) / np.exp(real).sum(axis=1, keepdims=True)
    assert np.allclose(share, outside(data)["output"], atol=1 / 256)


def test_shapes_and_ops_are_those_of_the_file() -> None:
    made = build(graph_of(conv_and_softmax()))
    end = frontier(made.graph, estimate(made.program, made.machine, made.graph))
    (tensor,) = end.tensors
    assert tensor.shape == (1, 4, 8, 8)
    assert [op.partition(":")[0] for op in end.removed] == ["Softmax"]


def test_an_open_batch_stays_open() -> None:
    cut = edited(conv_and_softmax("batch"), "cut-tail")
    (output,) = onnx.load_from_string(cut).graph.output
    assert output.type.tensor_type.shape.dim[0].dim_param == "batch"
    (scores,) = outside(cut, batch=2).values()
    assert scores.shape == (2, 4, 8, 8)


def test_types_behind_ops_that_onnx_does_not_know() -> None:
    """The Graph tells them."""
    writer = OnnxWriter()
    x = writer.quantize(writer.input("x", (1, 4, 8, 8)), 1 / 64)
    scale, zero = writer.constant(1 / 64), writer.constant(np.array(0, np.int8))
    total = writer.node("com.microsoft.QLinearAdd", x, scale, zero, x, scale, zero, scale, zero)
    y = writer.node("Softmax", writer.dequantize(total, 1 / 64), axis=1)
    y = writer.dequantize(writer.quantize(y, 1 / 256, -128), 1 / 256, -128, output="y")
    cut = edited(writer.finish({"y": (1, 4, 8, 8)}), "cut-tail")
    (output,) = onnx.load_from_string(cut).graph.output
    assert output.name == total
    assert output.type.tensor_type.elem_type == onnx.TensorProto.INT8
    assert [dim.dim_value for dim in output.type.tensor_type.shape.dim] == [1, 4, 8, 8]
    assert list(outside(cut)) == [total]


def test_ops_behind_the_cut_leave_the_file() -> None:
    kinds = [op.word for op in TfliteDocument.parse(edited(TFLITE, "cut-tail")).nodes]
    assert "SOFTMAX" not in kinds
    assert len(kinds) == len(NET.layers) - 1


def conv_and_softmax(batch: int | str = 1) -> bytes:
    writer = OnnxWriter()
    x = writer.qdq(writer.input("input", (batch, 3, 8, 8)), 1 / 64)
    weights = np.random.default_rng(0).integers(-99, 99, (4, 3, 3, 3)).astype(np.int8)
    y = writer.node("Conv", x, writer.dequantized_constant(weights, 0.01), pads=[1] * 4)
    y = writer.node("Softmax", writer.qdq(y, 0.05), axis=1)
    y = writer.dequantize(writer.quantize(y, 1 / 256, -128), 1 / 256, -128, output="output")
    return writer.finish({"output": (batch, 4, 8, 8)})


@pytest.mark.parametrize("data", [TFLITE, ONNX], ids=["tflite", "onnx"])
def test_where_nothing_can_be_cut(data: bytes) -> None:
    cut = edited(data, "cut-tail")
    assert misfit(cut, "cut-tail") == "the network already ends on the NPU: nothing to cut"


def test_a_cut_at_the_output_itself() -> None:
    assert misfit(TFLITE, "cut-tail", tensors=["output"]) == "the network already ends there"


@pytest.mark.parametrize("data", [TFLITE, ONNX], ids=["tflite", "onnx"])
def test_a_tensor_that_no_op_makes(data: bytes) -> None:
    sentence = "no op of the file computes the tensor 'nobody'"
    assert misfit(data, "cut-tail", tensors=["nobody"]) == sentence


@pytest.mark.parametrize(
    ("name", "outputs", "fewer"),
    [
        ("yolov8n_256_quant_pc_uf_od_coco-person.tflite", 2, 6),
        ("mobilenet_v1_0.25_96_tfs_int8.tflite", 1, 2),
    ],
)
def test_real_networks(name: str, outputs: int, fewer: int, shared_models: Path) -> None:
    """All layers stay, the CPU's epochs behind them go."""
    path = shared_models / name
    made = build(load_model(path))
    end = frontier(made.graph, estimate(made.program, made.machine, made.graph))
    cut = edited(path.read_bytes(), "cut-tail", tensors=[tensor.name for tensor in end.tensors])
    after = compiled(cut, "4.0")
    assert len(after.outputs) == outputs

    def away(program: Program) -> int:
        return program.count(EpochKind.SW) + program.count(EpochKind.HYBRID)

    assert away(made.program) - away(after) == fewer
    assert len(outside(cut)) == outputs
