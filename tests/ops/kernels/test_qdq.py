"""QDQ numerics against onnxruntime without graph optimizations, one op a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from npuscope.files.load import load_model
from npuscope.graph.model import Numerics
from npuscope.ops.run import run
from npuscope.profiling.runtimes import onnxruntime_session

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


class Model:
    """int8 inputs -> DequantizeLinear -> one op -> QuantizeLinear -> int8 output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []

    def constant(self, name: str, data: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(data, name))
        return name

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def dequantized(self, name: str, scale: Any, zero: Any, axis: int | None = None) -> str:
        pair = [
            self.constant(f"{name}_scale", np.asarray(scale, np.float32)),
            self.constant(f"{name}_zero", np.asarray(zero)),
        ]
        attributes = {} if axis is None else {"axis": axis}
        return self.node("DequantizeLinear", [name, *pair], f"{name}_real", **attributes)

    def input(self, name: str, shape: tuple[int, ...], scale: float, zero: int) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.INT8, shape))
        return self.dequantized(name, scale, np.int8(zero))

    def weights(self, data: np.ndarray, scales: np.ndarray) -> str:
        name = self.constant("w", data)
        return self.dequantized(name, scales, np.zeros(len(scales), np.int8), axis=0)

    def bias(self, data: np.ndarray, scales: np.ndarray) -> str:
        name = self.constant("b", data)
        return self.dequantized(name, scales, np.zeros(len(scales), np.int32), axis=0)

    def finish(self, real: str, scale: float, zero: int) -> bytes:
        pair = [
            self.constant("y_scale", np.float32(scale)),
            self.constant("y_zero", np.int8(zero)),
        ]
        self.node("QuantizeLinear", [real, *pair], "y")
        output = helper.make_tensor_value_info("y", TensorProto.INT8, None)
        graph = helper.make_graph(self.nodes, "one", self.inputs, [output], self.constants)
        opset = [helper.make_opsetid("", 17)]
        model = onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=opset, ir_version=8)
        )
        return bytes(model.SerializeToString())


def compare(folder: Path, model: bytes, seed: int = 0) -> tuple[int, int]:
    """(differing elements, elements) on seeded inputs; no difference may pass one step."""
    path = folder / "one.onnx"
    path.write_bytes(model)
    session = onnxruntime_session(model)
    rng = np.random.default_rng(seed)
    values = {
        i.name: rng.integers(-128, 127, i.shape, np.int8, endpoint=True)
        for i in session.get_inputs()
    }
    wanted = session.run(None, values)[0]
    graph = load_model(path)
    assert graph.numerics is Numerics.QDQ
    result = run(
        graph, {name: _laid_out(values[name], graph.tensors[name].shape) for name in values}
    )
    found = _laid_out(result[graph.outputs[0]], wanted.shape)
    difference = np.abs(found.astype(int) - wanted.astype(int))
    assert difference.max() <= 1
    assert len(np.unique(wanted)) > 10
    return int(np.count_nonzero(difference)), wanted.size


def _laid_out(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Channels moved if the reader keeps the tensor channel-last at the boundary."""
    if values.shape == tuple(shape):
        return values
    for order in ((0, 2, 3, 1), (0, 3, 1, 2)):
        moved = values.transpose(order)
        if moved.shape == tuple(shape):
            return np.ascontiguousarray(moved)
    raise AssertionError(f"{values.shape} against {shape}")


CONVS = [
    {"depth": 5, "outputs": 11, "kernel": (3, 3), "strides": (2, 2), "pads": (1, 0, 1, 2)},
    {"depth": 13, "outputs": 7, "kernel": (1, 1), "strides": (1, 1), "pads": (0, 0, 0, 0)},
    {"depth": 6, "outputs": 6, "kernel": (3, 3), "strides": (1, 1), "pads": (1, 1, 1, 1), "g": 6},
    {"depth": 8, "outputs": 6, "kernel": (3, 2), "strides": (1, 1), "pads": (0, 0, 0, 0), "g": 2},
    {"depth": 150, "outputs": 5, "kernel": (3, 3), "strides": (1, 1), "pads": (1, 1, 1, 1)},
]


@pytest.mark.parametrize("case", CONVS, ids=lambda case: f"{case['depth']}to{case['outputs']}")
@pytest.mark.parametrize("relu", [False, True])
def test_conv(case: dict, relu: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    groups = case.get("g", 1)
    form = (case["outputs"], case["depth"] // groups, *case["kernel"])
    scales = (0.01 + 0.01 * rng.random(case["outputs"])).astype(np.float32)
    model = Model()
    inputs = [
        model.input("x", (1, case["depth"], 19, 17), 0.021, -4),
        model.weights(rng.integers(-127, 128, form).astype(np.int8), scales),
        model.bias(
            rng.integers(-9000, 9000, case["outputs"]).astype(np.int32),
            scales * np.float32(0.021),
        ),
    ]
    real = model.node("Conv", inputs, "c", strides=case["strides"], pads=case["pads"], group=groups)
    if relu:
        real = model.node("Relu", [real], "r")
    scale = 0.021 * 0.015 * 70 * float(np.sqrt(np.prod(form[1:])))
    differing, elements = compare(tmp_path, model.finish(real, scale, 3))
    assert differing <= elements * 0.001


def test_conv_ties_are_exact(tmp_path: Path) -> None:
    """With powers of two onnxruntime's float32 sums are exact, so ties must go to even."""
    rng = np.random.default_rng(3)
    scales = np.full(6, 0.25, np.float32)
    model = Model()
    inputs = [
        model.input("x", (1, 4, 19, 17), 0.5, 3),
        model.weights(rng.integers(-3, 4, (6, 4, 1, 1)).astype(np.int8), scales),
    ]
    assert compare(tmp_path, model.finish(model.node("Conv", inputs, "c"), 2.0, 5))[0] == 0


def test_gemm(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    scales = (0.01 + 0.01 * rng.random(31)).astype(np.float32)
    model = Model()
    inputs = [
        model.input("x", (9, 1100), 0.03, 7),
        model.weights(rng.integers(-127, 128, (31, 1100)).astype(np.int8), scales),
    ]
    real = model.node("Gemm", inputs, "g", transB=1)
    differing, elements = compare(tmp_path, model.finish(real, 0.9, -3))
    assert differing <= elements * 0.01


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
def test_binary_ops_are_exact(kind: str, tmp_path: Path) -> None:
    model = Model()
    a, b = model.input("a", (1, 3, 90, 91), 0.03, 5), model.input("b", (1, 3, 90, 91), 0.047, -9)
    scale = 0.04 if kind != "Mul" else 0.12
    assert compare(tmp_path, model.finish(model.node(kind, [a, b], "r"), scale, 4))[0] == 0


@pytest.mark.parametrize("kind", ["Relu", "Sigmoid", "Clip", "Requantize"])
def test_unary_ops_are_exact(kind: str, tmp_path: Path) -> None:
    model = Model()
    x = model.input("x", (1, 4, 30, 31), 0.05, 5)
    if kind == "Clip":
        limits = [
            model.constant("low", np.float32(-1.1)),
            model.constant("high", np.float32(3.3)),
        ]
        x = model.node("Clip", [x, *limits], "r")
    elif kind != "Requantize":
        x = model.node(kind, [x], "r")
    scale, zero = (1 / 256, -128) if kind == "Sigmoid" else (0.031, -17)
    assert compare(tmp_path, model.finish(x, scale, zero))[0] == 0


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "GlobalAveragePool", "Softmax"])
def test_reductions(kind: str, tmp_path: Path) -> None:
    model = Model()
    shape = (40, 37) if kind == "Softmax" else (1, 40, 12, 11)
    x = model.input("x", shape, 0.05, 5)
    pool = {"kernel_shape": (3, 2), "strides": (2, 2), "pads": (1, 0, 1, 0)}
    attributes = pool if kind in ("MaxPool", "AveragePool") else {}
    scale = {"Softmax": 0.003, "GlobalAveragePool": 0.00473}.get(kind, 0.05)
    zero = -128 if kind == "Softmax" else 5
    differing, elements = compare(
        tmp_path, model.finish(model.node(kind, [x], "r", **attributes), scale, zero)
    )
    assert differing <= elements * 0.001


def test_concat_of_unequal_scales_is_exact(tmp_path: Path) -> None:
    model = Model()
    parts = [model.input("a", (1, 3, 9, 8), 0.03, 5), model.input("b", (1, 5, 9, 8), 0.07, -6)]
    real = model.node("Concat", parts, "r", axis=1)
    assert compare(tmp_path, model.finish(real, 0.05, 1))[0] == 0
