"""Ops we cannot read: the text names the op, the node and the nearest form that we can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import OnnxWriter, save
from npuscope.errors import ModelError, TargetError
from npuscope.files.load import load_model, nearest_form
from npuscope.ops.run import run
from npuscope.ops.unknown import unknown_names

CUT = "end the model before it and do the rest on the host"
UNROLL = (
    "unroll it into Gemm, Sigmoid, Tanh, Mul, Add: one step per call, with the state as an input"
)


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("LSTM", UNROLL),
        ("GRU", UNROLL),
        ("UNIDIRECTIONAL_SEQUENCE_LSTM", UNROLL),
        ("TopK", CUT),
        ("TOPK_V2", CUT),
        ("NonMaxSuppression", CUT),
        ("NON_MAX_SUPPRESSION_V5", CUT),
        ("CUSTOM TFLite_Detection_PostProcess", CUT),
        ("acme.Frobnicate", CUT),
        ("GatherND", "use Gather along one axis, or " + CUT),
        ("SPACE_TO_BATCH_ND", "write it as a convolution with dilations"),
        ("If", "export one static graph without control flow; run loops on the host"),
        ("com.microsoft.SkipLayerNormalization", "write it as Add and LayerNormalization"),
        ("Celu", "use Relu, LeakyRelu or Elu"),
    ],
)
def test_nearest_form(kind: str, hint: str) -> None:
    assert nearest_form(kind) == hint


def onnx_text(folder: Path, writer: OnnxWriter) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(save(folder, "m.onnx", writer.finish({"y": None})))
    return str(caught.value).removeprefix(f"{folder}/m.onnx: ")


# node, its attributes, shape of x, part of the text
UNUSABLE: list[tuple[str, dict[str, Any], tuple[int, ...], str]] = [
    ("Resize", {"mode": "cubic"}, (1, 3, 4, 4), "Resize:n: mode 'cubic' is not supported"),
    ("Conv", {}, (1, 3, 4, 4, 4), "Conv:n: 3 spatial axes are not supported, expected 1 or 2"),
    ("Pad", {"mode": "spiral"}, (1, 3), "padding mode 'spiral' is not supported"),
    ("DepthToSpace", {"blocksize": 2}, (1, 3, 4, 4), "3 channels cannot be spread over blocks"),
    ("Slice", {}, (1, 3), "Slice:n: [7:9:1] of axis 1 is empty"),
    ("Gather", {"axis": 1}, (1, 3), "indices [7] are outside an axis of 3 elements"),
    ("Expand", {}, (1, 3), "shapes (1, 3) and (7,) do not broadcast"),
]
INPUTS = {
    "Slice": ([7], [9], [1]),
    "Gather": ([7],),
    "Pad": ([0, 0, 1, 1],),
    "Expand": ([7],),
}


@pytest.mark.parametrize(("kind", "attrs", "shape", "text"), UNUSABLE)
def test_forms_of_known_ops(
    kind: str, attrs: dict[str, Any], shape: tuple[int, ...], text: str, tmp_path: Path
) -> None:
    w = OnnxWriter(13)
    more = [w.constant(np.array(values)) for values in INPUTS.get(kind, ())]
    w.node(kind, w.input("x", shape), *more, name="n", output="y", **attrs)
    assert text in onnx_text(tmp_path, w)


def test_forms_that_nothing_computes_are_work_of_unknown_cost(tmp_path: Path) -> None:
    w = OnnxWriter(13)
    w.node("LpNormalization", w.input("x", (1, 3)), name="n", output="y", p=1)
    graph = load_model(save(tmp_path, "m.onnx", w.finish({"y": None})))
    assert unknown_names(graph) == ("LpNormalization",)
    assert graph.tensor("y").shape == (1, 3)
    assert graph.notes == ["LpNormalization:n: only p = 2 is supported: work of unknown cost"]


def test_functions_of_real_numbers_on_whole_ones(tmp_path: Path) -> None:
    w = OnnxWriter()
    w.node("Exp", w.input("x", (1, 3), 7), name="n", output="y")
    assert "it needs real numbers, but its int64 input has no scale" in onnx_text(tmp_path, w)


def test_a_known_op_in_a_form_that_nothing_computes(tmp_path: Path) -> None:
    """It is not an op that npuscope does not know."""
    w = OnnxWriter(17)
    x = w.qdq(w.input("x", (1, 3, 6, 6)), 0.02, 3)
    sizes = w.constant(np.array([1, 1, 2, 2], np.float32))
    y = w.quantize(w.node("Resize", x, "", sizes, mode="cubic"), 0.02, 3)
    w.dequantize(y, 0.02, 3, output="y")
    graph = load_model(save(tmp_path, "m.onnx", w.finish({"y": None})))
    with pytest.raises(TargetError) as caught:
        run(graph, {"x": np.zeros((1, 6, 6, 3), np.float32)})
    words = "in a form that npuscope does not compute (Resize: mode 'cubic' is not supported)"
    assert words in caught.value.message


def test_a_function_that_calls_itself_in_a_file_of_an_old_opset(tmp_path: Path) -> None:
    """Its name is that of a standard op; bringing the opset up to date expands functions first."""
    from onnx import TensorProto, helper

    own = [helper.make_opsetid("", 6)]
    node = helper.make_node("Relu", ["a"], ["b"])
    function = helper.make_function("", "Relu", ["a"], ["b"], [node], own)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, 4)) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=own, functions=[function])
    with pytest.raises(ModelError, match=r"functions cannot be expanded|opset 6"):
        load_model(save(tmp_path, "m.onnx", model.SerializeToString()))


@pytest.mark.parametrize("kind", ["ASSIGN_VARIABLE", "READ_VARIABLE"])
def test_a_variable_without_operands(tmp_path: Path, kind: str) -> None:
    from models import TfliteWriter

    w = TfliteWriter()
    x, y = (w.tensor(name, (1, 4), "float32") for name in "xy")
    w.op(kind, [], [])
    w.op("RELU", [x], [y])
    with pytest.raises(ModelError, match="does not name a variable"):
        load_model(save(tmp_path, "m.tflite", w.finish([x], [y])))
