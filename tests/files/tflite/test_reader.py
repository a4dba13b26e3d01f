"""The TFLite reader: every operator family, explicit pads, turned weights, refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models import TfliteWriter, mobilenet_like, pack_int4, save, to_tflite
from models_tflite import RELU6, SAME, VALID
from npuscope.errors import FileError, ModelError, UsageError
from npuscope.files.load import load_model
from npuscope.files.tflite.convert_values import same_pads
from npuscope.graph import DType, Graph, Quant
from npuscope.graph.model import Activation, Numerics
from npuscope.ops.functions import ClipAttrs
from npuscope.ops.layers import ConvAttrs, DenseAttrs, MatMulAttrs
from npuscope.ops.moves import ConcatAttrs, PadAttrs, TransposeAttrs
from npuscope.ops.norms import SoftmaxAttrs
from npuscope.ops.reduce import PoolAttrs, ReduceAttrs
from npuscope.ops.table import total_macs
from npuscope.ops.unknown import unknown_names

MUST_LOAD = (
    "vww_96_int8",
    "kws_ref_model",
    "ad01_int8",
    "pretrainedResnet_quant",
    "mobilenet_v1_0.25_96_tfs_int8",
    "mobilenet_v2_0.35_128_fft_int8",
    "mobilenet_v2_1.0_224_fft_int8",
    "baseline_conv2d_16f_3x3_int8",
    "baseline_conv2d_pool_int8",
    "baseline_depthwise_3x3_int8",
)


def load(tmp_path: Path, data: bytes, **shapes: tuple[int, ...]) -> Graph:
    return load_model(save(tmp_path, "model.tflite", data), shapes)


def one_op(kind: str, x: tuple[int, ...], y: tuple[int, ...], *constants: np.ndarray, **options):
    """A model with one operator between int8 tensors of the same scale."""
    writer = TfliteWriter()
    inputs = [writer.tensor("x", x, scale=0.5)]
    inputs += [writer.constant(f"c{i}", data) for i, data in enumerate(constants)]
    output = writer.tensor("y", y, scale=0.5)
    writer.op(kind, inputs, [output], **options)
    return writer.finish([inputs[0]], [output])


def test_mobilenet_like(tmp_path: Path) -> None:
    graph = load(tmp_path, to_tflite(mobilenet_like()))
    assert [op.kind for op in graph.ops] == [
        *["Conv2D"] * 4,
        "Add",
        *["Conv2D"] * 3,
        "Mean",
        "FullyConnected",
        "Softmax",
    ]
    assert graph.numerics is Numerics.LITERT
    assert graph.ops[0].origin == ("CONV_2D:#0",)
    assert graph.ops[0].name == "layer0"
    assert graph.tensor("input").quant == Quant((1 / 64,), (-3,))
    assert graph.inputs == ("input",) and graph.outputs == ("output",)
    # 6x6x8 outputs of 3x3x3 windows, and so on
    assert total_macs(graph) == sum(
        (
            6 * 6 * 8 * 27,
            6 * 6 * 16 * 8,
            6 * 6 * 16 * 9,
            6 * 6 * 8 * 16,
            6 * 6 * 16 * 8,
            3 * 3 * 16 * 9,
            3 * 3 * 24 * 16,
            24 * 5,
        )
    )


def test_same_padding_is_explicit_and_odd_pads_go_to_the_end(tmp_path: Path) -> None:
    graph = load(tmp_path, to_tflite(mobilenet_like()))
    attrs = graph.ops[0].attrs
    assert attrs == ConvAttrs((2, 2), (0, 0, 1, 1), activation=Activation.RELU6)


@pytest.mark.parametrize(
    ("size", "window", "stride", "pads"),
    [(5, 3, 1, (1, 1)), (6, 3, 2, (0, 1)), (5, 1, 2, (0, 0)), (7, 5, 3, (2, 2)), (4, 2, 1, (0, 1))],
)
def test_same_pads(size: int, window: int, stride: int, pads: tuple[int, int]) -> None:
    assert same_pads(size, window, stride) == pads


def test_depthwise_weights_are_turned_with_their_scales(tmp_path: Path) -> None:
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 4, 4, 2), scale=0.5)
    data = np.arange(36, dtype=np.int8).reshape(1, 3, 3, 4)
    w = writer.constant("w", data, scale=(0.1, 0.2, 0.3, 0.4), axis=3)
    y = writer.tensor("y", (1, 2, 2, 4), scale=0.5)
    writer.op(
        "DEPTHWISE_CONV_2D",
        [x, w, -1],
        [y],
        padding=VALID,
        depthMultiplier=2,
        fusedActivationFunction=RELU6,
    )
    graph = load(tmp_path, writer.finish([x], [y]))
    (op,) = graph.ops
    weights = graph.tensor(op.inputs[1])
    assert op.inputs == ("x", "w")
    assert op.attrs == ConvAttrs(groups=2, activation=Activation.RELU6)
    assert weights.quant is not None and weights.quant.axis == 0
    assert weights.shape == (4, 3, 3, 1)
    assert np.array_equal(weights.data, data.transpose(3, 1, 2, 0))


def test_fully_connected_flattens_by_a_reshape(tmp_path: Path) -> None:
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 2, 2, 3), scale=0.5)
    w = writer.constant("w", np.ones((5, 12), np.int8), scale=0.1)
    y = writer.tensor("y", (1, 5), scale=0.5)
    writer.op("FULLY_CONNECTED", [x, w], [y])
    graph = load(tmp_path, writer.finish([x], [y]))
    assert [op.kind for op in graph.ops] == ["Reshape", "FullyConnected"]
    assert graph.tensor(graph.ops[0].outputs[0]).shape == (1, 12)
    assert graph.ops[0].origin == graph.ops[1].origin == ("FULLY_CONNECTED:#0",)


def test_fully_connected_may_keep_its_axes(tmp_path: Path) -> None:
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 7, 3), scale=0.5)
    w = writer.constant("w", np.ones((5, 3), np.int8), scale=0.1)
    y = writer.tensor("y", (1, 7, 5), scale=0.5)
    writer.op("FULLY_CONNECTED", [x, w], [y], keepNumDims=True)
    (op,) = load(tmp_path, writer.finish([x], [y])).ops
    assert op.attrs == DenseAttrs()


INF = float("inf")
PADS = np.array([[0, 0], [1, 2], [0, 1], [0, 0]], np.int32)
ONE_OP = [
    (
        one_op("MAX_POOL_2D", (1, 5, 5, 2), (1, 3, 3, 2), filterHeight=2, filterWidth=2,
               strideH=2, strideW=2, padding=SAME),
        "MaxPool",
        PoolAttrs((2, 2), (2, 2), (0, 0, 1, 1)),
    ),
    (
        one_op("AVERAGE_POOL_2D", (1, 4, 4, 2), (1, 2, 1, 2), filterHeight=3, filterWidth=4,
               padding=VALID),
        "AveragePool",
        PoolAttrs((3, 4), (1, 1)),
    ),
    (
        one_op("MEAN", (1, 4, 4, 2), (1, 1, 1, 2), np.array([-2, 1], np.int32), keepDims=True),
        "Mean",
        ReduceAttrs((1, 2), True),
    ),
    (one_op("SOFTMAX", (1, 9), (1, 9), beta=0.5), "Softmax", SoftmaxAttrs(1, 0.5)),
    (
        one_op("PAD", (1, 4, 4, 2), (1, 7, 5, 2), PADS),
        "Pad",
        PadAttrs(((0, 0), (1, 2), (0, 1), (0, 0))),
    ),
    (
        one_op("TRANSPOSE", (1, 2, 3), (3, 1, 2), np.array([2, 0, -2], np.int32)),
        "Transpose",
        TransposeAttrs((2, 0, 1)),
    ),
    (one_op("RELU", (1, 9), (1, 9)), "Clip", ClipAttrs(0.0, INF)),
    (one_op("RELU6", (1, 9), (1, 9)), "Clip", ClipAttrs(0.0, 6.0)),
    (one_op("CONCATENATION", (1, 9), (1, 9), axis=-1), "Concat", ConcatAttrs(1)),
]  # fmt: skip


@pytest.mark.parametrize(("data", "kind", "attrs"), ONE_OP, ids=[row[1] for row in ONE_OP])
def test_one_op(tmp_path: Path, data: bytes, kind: str, attrs: object) -> None:
    (op,) = load(tmp_path, data).ops
    assert (op.kind, op.attrs) == (kind, attrs)


@pytest.mark.parametrize("kind", ["LOGISTIC", "QUANTIZE", "RESHAPE", "SQUEEZE", "EXPAND_DIMS"])
def test_ops_without_attributes(tmp_path: Path, kind: str) -> None:
    (op,) = load(tmp_path, one_op(kind, (1, 9), (1, 9))).ops
    wanted = {"LOGISTIC": "Sigmoid", "QUANTIZE": "Quantize"}.get(kind, "Reshape")
    assert op.kind == wanted


def test_batch_matmul(tmp_path: Path) -> None:
    writer = TfliteWriter()
    a, b = writer.tensor("a", (1, 4, 3), scale=0.5), writer.tensor("b", (1, 5, 3), scale=0.5)
    y = writer.tensor("y", (1, 4, 5), scale=0.5)
    writer.op("BATCH_MATMUL", [a, b], [y], adjY=True)
    (op,) = load(tmp_path, writer.finish([a, b], [y])).ops
    assert op.attrs == MatMulAttrs(transpose_b=True)


def test_shape_arithmetic_falls_away(tmp_path: Path) -> None:
    """SHAPE -> RESHAPE: with static shapes only the RESHAPE is left."""
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 2, 2, 3), scale=0.5)
    shape = writer.tensor("shape", (2,), "int32")
    y = writer.tensor("y", (1, 12), scale=0.5)
    writer.op("SHAPE", [x], [shape])
    writer.op("RESHAPE", [x, shape], [y])
    assert [op.kind for op in load(tmp_path, writer.finish([x], [y])).ops] == ["Reshape"]


def test_int4_weights_keep_their_type(tmp_path: Path) -> None:
    writer = TfliteWriter()
    values = np.array([[-8, 7, 3], [-1, 0, 5], [1, 2, -3]], np.int8)
    x = writer.tensor("x", (1, 3), scale=0.5)
    w = writer.tensor("w", (3, 3), "int4", scale=0.1, data=values)
    y = writer.tensor("y", (1, 3), scale=0.5)
    writer.op("FULLY_CONNECTED", [x, w], [y])
    weights = load(tmp_path, writer.finish([x], [y])).tensor("w")
    assert weights.dtype is DType.INT4 and weights.size_bytes == 5
    assert np.array_equal(weights.data, values)
    assert pack_int4(values).size == 5


def test_equal_and_empty_tensor_names_become_unique(tmp_path: Path) -> None:
    writer = TfliteWriter()
    x, y, z = (writer.tensor(name, (1, 4), scale=0.5) for name in ("", "", "tensor"))
    writer.op("LOGISTIC", [x], [y])
    writer.op("LOGISTIC", [y], [z])
    graph = load(tmp_path, writer.finish([x], [z]))
    assert list(graph.tensors) == ["tensor", "tensor_1", "tensor_2"]
    assert len({op.name for op in graph.ops}) == 2


def two_axes_open() -> bytes:
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 1, 1, 3), scale=0.5, signature=(-1, -1, -1, 3))
    w = writer.constant("w", np.ones((2, 3, 3, 3), np.int8), scale=0.1)
    y = writer.tensor("y", (1, 1, 1, 2), scale=0.5)
    writer.op("CONV_2D", [x, w], [y], padding=SAME, strideH=2, strideW=2)
    return writer.finish([x], [y])


def open_inside() -> bytes:
    """Frames that an operator of somebody's own cuts: the file states ones for open sizes."""
    w = TfliteWriter()
    x = w.tensor("x", (1, 48, 16), scale=0.5)
    y = w.tensor("y", (1, 1, 16), scale=0.5, signature=(-1, -1, 16))
    z = w.tensor("z", (1, 1, 8), scale=0.5, signature=(-1, -1, 8))
    w.op("CUSTOM:Frames", [x], [y])
    kernel = w.constant("w", np.ones((8, 16), np.int8), scale=0.1)
    w.op("FULLY_CONNECTED", [y, kernel], [z], keepNumDims=True)
    return w.finish([x], [z])


def test_open_sizes_behind_an_unknown_operator_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"leaves the shape of 'y' open \(\?,\?,16\)") as error:
        load(tmp_path, open_inside())
    assert error.value.hint == "give it: --shape y=SIZES, as a run of the model shows it"
    graph = load_model(save(tmp_path, "net.tflite", open_inside()), {"y": (1, 48, 16)})
    assert graph.tensor("z").shape == (1, 48, 8)


def test_open_batch_becomes_one_with_a_note(tmp_path: Path) -> None:
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 9), scale=0.5, signature=(-1, 9))
    y = writer.tensor("y", (1, 9), scale=0.5)
    writer.op("SOFTMAX", [x], [y])
    graph = load(tmp_path, writer.finish([x], [y]))
    assert graph.notes == ["input 'x': the dynamic batch size was set to 1"]


def test_other_open_sizes_are_taken_and_told(tmp_path: Path) -> None:
    graph = load(tmp_path, two_axes_open())
    assert graph.tensor("y").shape == (1, 112, 112, 2)
    assert graph.notes == [
        "input 'x': dynamic sizes (?, ?, ?, 3) were taken as --shape x=1,224,224,3"
    ]


def test_pinned_sizes_reach_pads_and_outputs(tmp_path: Path) -> None:
    graph = load(tmp_path, two_axes_open(), x=(1, 8, 7, 3))
    assert graph.tensor("y").shape == (1, 4, 4, 2)
    assert graph.ops[0].attrs == ConvAttrs((2, 2), (0, 1, 1, 1))


@pytest.mark.parametrize(
    ("name", "shape", "text"),
    [
        ("x", (1, 8, 8, 4), "shape 1,8,8,4 does not fit input 'x': (?, ?, ?, 3)"),
        ("x", (1, 8, 3), "shape 1,8,3 does not fit input 'x': (?, ?, ?, 3)"),
        ("z", (1, 8, 8, 3), "the model has no input 'z'"),
    ],
)
def test_wrong_pins(tmp_path: Path, name: str, shape: tuple[int, ...], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(tmp_path, two_axes_open(), **{name: shape})
    assert caught.value.message == text


def refusal(tmp_path: Path, data: bytes) -> str:
    with pytest.raises(ModelError) as caught:
        load(tmp_path, data)
    return str(caught.value).replace(f"{tmp_path}/model.tflite: ", "")


def test_string_tensors(tmp_path: Path) -> None:
    writer = TfliteWriter()
    x, y = writer.tensor("x\x1b[31m", (1, 4), "string"), writer.tensor("y", (1, 4))
    writer.op("LOGISTIC", [x], [y])
    graph = load(tmp_path, writer.finish([x], [y]))
    assert unknown_names(graph) == ("LOGISTIC",)
    assert graph.notes == [
        "tensor #0 'x\\x1b[31m': STRING tensors are not supported: work of unknown cost"
    ]


def test_constant_of_the_wrong_size(tmp_path: Path) -> None:
    writer = TfliteWriter()
    x, y = writer.tensor("x", (1, 4), scale=0.5), writer.tensor("y", (1, 4), scale=0.5)
    c = writer.tensor("c", (1, 4), "int32", data=np.zeros(3, np.int32))
    writer.op("ADD", [x, c], [y])
    with pytest.raises(FileError, match=r"shape \(1, 4\) needs 16 bytes, found 12"):
        load(tmp_path, writer.finish([x], [y]))


@pytest.mark.parametrize("name", MUST_LOAD)
def test_shared_models_load(shared_models: Path, name: str) -> None:
    graph = load_model(shared_models / f"{name}.tflite")
    assert graph.ops and total_macs(graph) > 0 and graph.parameters() > 0
