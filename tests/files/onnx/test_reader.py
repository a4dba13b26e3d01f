"""The ONNX reader: equality with TFLite, which ops are integer, where Transposes appear."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models import (
    OnnxWriter,
    dense_net,
    mobilenet_like,
    save,
    to_onnx,
    to_tflite,
)
from models_onnx import checked
from npuscope.compiler.passes.border_layout import with_channel_last
from npuscope.files.load import load_model
from npuscope.graph import DType, Graph, Quant
from npuscope.graph.model import Activation, Numerics, first_difference
from npuscope.ops.functions import ClipAttrs
from npuscope.ops.layers import ConvAttrs, DenseAttrs
from npuscope.ops.moves import TransposeAttrs
from npuscope.ops.table import total_macs


def load(tmp_path: Path, data: bytes) -> Graph:
    return load_model(save(tmp_path, "model.onnx", checked(data)))


def kinds(graph: Graph) -> list[str]:
    """Op kinds with the element type of what they make."""
    return [f"{op.kind} {graph.output_tensor(op).dtype.value}" for op in graph.ops]


def weights(writer: OnnxWriter, *shape: int) -> str:
    values = np.arange(np.prod(shape)) % 251 - 125
    return writer.dequantized_constant(values.reshape(shape).astype(np.int8), 0.01)


def conv(writer: OnnxWriter, x: str, out: int, channels: int, kernel: int = 1) -> str:
    return writer.node("Conv", x, weights(writer, out, channels, kernel, kernel))


def image(writer: OnnxWriter) -> str:
    return writer.qdq(writer.input("x", (1, 3, 5, 7)), 0.02)


def quantized_output(writer: OnnxWriter, y: str, shape: tuple[int, ...]) -> bytes:
    writer.dequantize(writer.quantize(y, 0.05), 0.05, output="y")
    return writer.finish({"y": shape})


@pytest.mark.parametrize("opset", [11, 13, 17, 18, 21])
def test_same_network_as_tflite(tmp_path: Path, opset: int) -> None:
    net = mobilenet_like(seed=opset)
    tflite = load_model(save(tmp_path, "model.tflite", to_tflite(net)))
    onnx = load_model(save(tmp_path, "model.onnx", to_onnx(net, opset)))
    assert kinds(onnx)[0] == "Transpose int8" and onnx.tensor("input").shape == (1, 3, 12, 12)
    assert first_difference(tflite, with_channel_last(onnx, inputs=True, outputs=True)) == ""
    assert onnx.numerics is Numerics.QDQ
    assert onnx.ops[1].origin == ("Conv:#4", "Clip:#5")


def test_channel_last_exports_need_no_transpose(tmp_path: Path) -> None:
    net = mobilenet_like()
    tflite = load_model(save(tmp_path, "model.tflite", to_tflite(net)))
    onnx = load(tmp_path, to_onnx(net, channel_last_input=True))
    assert tflite == onnx
    assert onnx.ops[0].origin[0].startswith("Transpose:")


def test_dense_network_is_equal_without_any_change(tmp_path: Path) -> None:
    net = dense_net()
    assert load_model(save(tmp_path, "m.tflite", to_tflite(net))) == load(tmp_path, to_onnx(net))


# binding


def test_mean_and_reshape_between_dq_and_q_are_a_float_island(tmp_path: Path) -> None:
    writer = OnnxWriter()
    x = writer.qdq(conv(writer, image(writer), 4, 3), 0.05)
    mean = writer.node("ReduceMean", x, axes=[2, 3], keepdims=1)
    flat = writer.node("Reshape", mean, writer.constant([1, 4]))
    graph = load(tmp_path, quantized_output(writer, flat, (1, 4)))
    assert kinds(graph)[2:] == [
        "Dequantize float32",
        "Mean float32",
        "Reshape float32",
        "Quantize int8",
    ]


def test_an_op_without_a_quantizer_behind_it_is_float(tmp_path: Path) -> None:
    writer = OnnxWriter()
    writer.node("Relu", conv(writer, image(writer), 4, 3), output="y")
    graph = load(tmp_path, writer.finish({"y": (1, 4, 5, 7)}))
    assert kinds(graph) == [
        "Transpose int8",
        "Dequantize float32",
        "Conv2D float32",
        "Clip float32",
        "Transpose float32",
    ]
    folded = graph.tensor(graph.ops[2].inputs[1])
    assert folded.dtype is DType.FLOAT32 and folded.quant is None
    assert folded.data is not None and folded.data.ravel()[0] == np.float32(-125) * np.float32(0.01)


def test_a_second_float_reader_makes_an_island(tmp_path: Path) -> None:
    writer = OnnxWriter()
    y = conv(writer, image(writer), 4, 3)
    writer.node("Sigmoid", y, output="z")
    writer.dequantize(writer.quantize(y, 0.05), 0.05, output="y")
    graph = load(tmp_path, writer.finish({"y": (1, 4, 5, 7), "z": (1, 4, 5, 7)}))
    assert "Conv2D float32" in kinds(graph) and "Quantize int8" in kinds(graph)


@pytest.mark.parametrize(
    ("low", "high", "fused"),
    [(0.0, 6.0, Activation.RELU6), (-1.0, 1.0, Activation.RELU_N1_TO_1), (0.0, 4.0, None)],
)
def test_a_clip_before_q_is_fused_if_it_is_an_activation(
    tmp_path: Path, low: float, high: float, fused: Activation | None
) -> None:
    writer = OnnxWriter()
    y = conv(writer, image(writer), 4, 3)
    y = writer.node("Clip", y, writer.constant(low), writer.constant(high))
    graph = load(tmp_path, quantized_output(writer, y, (1, 4, 5, 7)))
    if fused:
        assert graph.ops[1].attrs == ConvAttrs(activation=fused)
    else:
        assert kinds(graph)[1:3] == ["Conv2D int8", "Clip int8"]
        assert graph.ops[2].attrs == ClipAttrs(low, high)
        assert [op.origin[0].split(":")[0] for op in graph.ops[1:3]] == ["Conv", "Clip"]
        assert graph.output_tensor(graph.ops[1]).quant == graph.output_tensor(graph.ops[2]).quant


def test_a_clip_between_dq_and_q_is_an_integer_op(tmp_path: Path) -> None:
    writer = OnnxWriter()
    graph = load(
        tmp_path, quantized_output(writer, writer.node("Relu", image(writer)), (1, 3, 5, 7))
    )
    assert kinds(graph) == ["Clip int8"]


def test_movers_between_dq_and_q_stay_integer(tmp_path: Path) -> None:
    writer = OnnxWriter()
    x = writer.qdq(conv(writer, image(writer), 4, 3), 0.05)
    moved = writer.node("Transpose", x, perm=[0, 2, 3, 1])
    moved = writer.node("Reshape", moved, writer.constant([1, -1]))
    graph = load(tmp_path, quantized_output(writer, moved, (1, 140)))
    assert kinds(graph) == ["Transpose int8", "Conv2D int8", "Reshape int8"]
    assert graph.ops[-1].origin[0].startswith("Transpose:")


def test_movers_to_another_scale_are_followed_by_a_requantization(tmp_path: Path) -> None:
    writer = OnnxWriter()
    x = writer.qdq(conv(writer, image(writer), 4, 3), 0.03)
    graph = load(tmp_path, quantized_output(writer, writer.node("Flatten", x), (1, 140)))
    assert kinds(graph)[-1] == "Quantize int8"
    assert graph.tensor("y").quant == Quant((float(np.float32(0.05)),), (0,))


def test_concat_of_unequal_scales_requantizes_its_parts(tmp_path: Path) -> None:
    writer = OnnxWriter()
    x = image(writer)
    parts = [writer.qdq(conv(writer, x, 2, 3), scale) for scale in (0.05, 0.03)]
    y = writer.node("Concat", *parts, axis=1)
    graph = load(tmp_path, quantized_output(writer, y, (1, 4, 5, 7)))
    concat = next(op for op in graph.ops if op.kind == "Concat")
    assert kinds(graph).count("Quantize int8") == 1
    assert len({graph.tensor(name).quant for name in (*concat.inputs, *concat.outputs)}) == 1


def test_boundary_q_and_dq_become_the_types_of_inputs_and_outputs(tmp_path: Path) -> None:
    writer = OnnxWriter()
    x = writer.qdq(writer.input("x", (1, 8)), 0.02, 3, "uint8")
    y = writer.node("Gemm", x, weights(writer, 5, 8), transB=1)
    writer.dequantize(writer.quantize(y, 0.5, 7, "uint8"), 0.5, 7, "uint8", output="y")
    graph = load(tmp_path, writer.finish({"y": (1, 5)}))
    assert graph.ops[0].attrs == DenseAttrs() and len(graph.ops) == 1
    assert graph.tensor("x").dtype is DType.UINT8
    assert graph.tensor("y").quant == Quant((0.5,), (7,))


def test_bias_is_int32_only_when_its_scale_is_the_product(tmp_path: Path) -> None:
    for scale, dtype in ((0.02 * 0.01, DType.INT32), (0.001, DType.FLOAT32)):
        writer = OnnxWriter()
        x = writer.qdq(writer.input("x", (1, 8)), 0.02)
        bias = writer.dequantized_constant(np.arange(5, dtype=np.int32), scale)
        y = writer.node("Gemm", x, weights(writer, 5, 8), bias, transB=1)
        graph = load(tmp_path, quantized_output(writer, y, (1, 5)))
        assert graph.tensor(graph.ops[0].inputs[2]).dtype is dtype


# layout


def test_flatten_of_a_feature_map_turns_it_first(tmp_path: Path) -> None:
    writer = OnnxWriter()
    x = writer.qdq(conv(writer, image(writer), 4, 3), 0.05)
    graph = load(tmp_path, quantized_output(writer, writer.node("Flatten", x), (1, 140)))
    assert kinds(graph)[2:] == ["Transpose int8", "Reshape int8"]
    assert graph.ops[2].attrs == TransposeAttrs((0, 3, 1, 2))


def test_flatten_of_one_pixel_turns_nothing(tmp_path: Path) -> None:
    writer = OnnxWriter()
    x = writer.qdq(conv(writer, image(writer), 4, 3), 0.05)
    x = writer.qdq(writer.node("GlobalAveragePool", x), 0.05)
    graph = load(tmp_path, quantized_output(writer, writer.node("Flatten", x), (1, 4)))
    assert kinds(graph)[2:] == ["Mean int8", "Reshape int8"]


def test_channel_shuffle_stays_channel_last(tmp_path: Path) -> None:
    writer = OnnxWriter()
    x = writer.qdq(conv(writer, image(writer), 6, 3), 0.05)
    for kind, argument in (
        ("Reshape", [1, 2, 3, 5, 7]),
        ("Transpose", [0, 2, 1, 3, 4]),
        ("Reshape", [1, 6, 5, 7]),
    ):
        if kind == "Reshape":
            x = writer.node(kind, x, writer.constant(argument))
        else:
            x = writer.node(kind, x, perm=argument)
        x = writer.qdq(x, 0.05)
    graph = load(tmp_path, quantized_output(writer, conv(writer, x, 2, 6), (1, 2, 5, 7)))
    shapes = [graph.output_tensor(op).shape for op in graph.ops[2:5]]
    assert shapes == [(1, 5, 7, 2, 3), (1, 5, 7, 3, 2), (1, 5, 7, 6)]


def test_conv_of_one_spatial_axis_has_height_one(tmp_path: Path) -> None:
    writer = OnnxWriter()
    x = writer.qdq(writer.input("x", (1, 5, 20)), 0.02)
    y = writer.node("Conv", x, weights(writer, 8, 5, 3), pads=[2, 1], dilations=[2])
    y = writer.qdq(y, 0.05)
    y = writer.node("Conv", y, weights(writer, 8, 1, 3), group=8, strides=[2])
    graph = load(tmp_path, quantized_output(writer, y, (1, 8, 9)))
    assert graph.ops[2].attrs == ConvAttrs((1, 1), (0, 2, 0, 1), (1, 2))
    assert graph.ops[3].attrs == ConvAttrs((1, 2), groups=8)
    assert [graph.output_tensor(op).shape for op in graph.ops] == [
        (1, 20, 5),
        (1, 1, 20, 5),
        (1, 1, 19, 8),
        (1, 1, 9, 8),
        (1, 9, 8),
        (1, 8, 9),
    ]
    assert graph.tensor(graph.ops[2].outputs[0]).source_shape == (1, 8, 19)


def test_shared_mobilenet(shared_models: Path) -> None:
    path = shared_models / "mobilenetv2_a100_pt_224_rand_qdq_int8.onnx"
    graph = load_model(path)
    assert total_macs(graph) == 300_774_272
    assert {op.kind for op in graph.ops if graph.output_tensor(op).dtype.is_float} == set()
