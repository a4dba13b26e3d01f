"""Networks of any source as .tflite files: LiteRT computes what onnxruntime computes on the
source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import models_onnx_cases
import models_onnx_moves  # noqa: F401  more of CASES
from models import conv_net, dense_net, mobilenet_like, save, to_onnx, to_tflite
from models_onnx import OnnxWriter
from models_onnx_ops import CASES, op_model
from npuscope.errors import ModelError
from npuscope.files.load import load_model
from npuscope.files.tflite.reader import read_tflite
from npuscope.files.tflite.write_graph import write_tflite
from npuscope.graph.model import DType, Graph, Tensor, first_difference
from npuscope.profiling.runtimes import LitertKernels, litert_interpreter, onnxruntime_session

pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert", reason="ai_edge_litert is not installed")

# Ops that have no form in an int8 TFLite file.
_REFUSED = {
    *("Erf", "Softplus", "Reciprocal", "Mish", "Elu", "Softsign", "Selu", "Selu without numbers"),
    *("Celu", "ThresholdedRelu", "Shrink", "LpNormalization", "ReduceL2HW", "ReduceL2C"),
    *("remainder_with_the_sign_of_x", "lstm", "layer_norm", "layer_norm_over_two_axes"),
    *("instance_norm", "group_norm_per_group", "group_norm_per_channel", "reverse_sequence"),
    *("reverse_sequence_by_batch", "pad_with_a_value", "pad_around", "pad_and_cut"),
    *("transposed grouped", "transposed dilated", "transposed depthwise", "resize_by_a_fraction"),
    *("resize_of_one_axis",),
}


def _largest_difference(path: Path) -> float:
    """In steps of the outputs, over the whole range of the inputs."""
    graph = load_model(path)
    written = write_tflite(graph).data
    session = onnxruntime_session(str(path))
    try:
        interpreter = litert_interpreter(written)
    except ValueError:  # no reference kernel of CEIL and ROUND
        interpreter = litert_interpreter(written, LitertKernels.DEFAULT)
    rng, feeds = np.random.default_rng(3), {}
    details = interpreter.get_input_details()
    for name, entry, detail in zip(graph.inputs, session.get_inputs(), details, strict=True):
        feeds[entry.name], stored = _input(graph.tensors[name], entry.type, rng)
        interpreter.set_tensor(detail["index"], stored)
    interpreter.invoke()
    worst = 0.0
    outputs = zip(graph.outputs, session.run(None, feeds), strict=True)
    for (name, wanted), detail in zip(outputs, interpreter.get_output_details(), strict=True):
        values = interpreter.get_tensor(detail["index"])
        assert values.shape == wanted.shape
        steps = _steps(graph.tensors[name], np.asarray(wanted))
        worst = max(worst, float(np.abs(values - steps).max(initial=0)))
    return worst


def _input(tensor: Tensor, type: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """For onnxruntime and for LiteRT."""
    if tensor.quant is None:
        values = rng.normal(size=tensor.shape)
        values = values if tensor.dtype.is_float else values > 0
        return values.astype(tensor.dtype.numpy), values.astype(tensor.dtype.numpy)
    low, high = tensor.dtype.limits
    values = rng.integers(low, high + 1, tensor.shape)
    real = (values - tensor.quant.zero_point) * np.float32(tensor.quant.scale)
    half = 128 if tensor.dtype is DType.UINT8 else 0
    given = real.astype(np.float32) if type == "tensor(float)" else values
    return given.astype(np.float32 if type == "tensor(float)" else tensor.dtype.numpy), (
        values - half
    ).astype(np.int8 if half else tensor.dtype.numpy)


def _steps(tensor: Tensor, values: np.ndarray) -> np.ndarray:
    half = 128 if tensor.dtype is DType.UINT8 and tensor.quant else 0
    if tensor.quant is None or values.dtype != np.float32:
        return values.astype(np.float64) - half
    steps = np.rint(values / np.float32(tensor.quant.scale)) + tensor.quant.zero_point
    return np.clip(steps, *tensor.dtype.limits) - half


_RUN = {name for name, case in CASES.items() if case.opset >= 10}  # by onnxruntime in QDQ form


@pytest.mark.parametrize("name", sorted(_RUN - _REFUSED))
def test_an_op_is_within_one_step(tmp_path: Path, name: str) -> None:
    # two requantisations in a row, where the op has its operands scaled first
    most = 2 if name in ("gather_some", "tile", "constants_that_broadcast") else 1
    assert _largest_difference(save(tmp_path, "op.onnx", op_model(CASES[name], True))) <= most


@pytest.mark.parametrize("name", sorted(models_onnx_cases.CASES.keys() - {"pools"}))
def test_a_network_is_within_two_steps(tmp_path: Path, name: str) -> None:
    data = models_onnx_cases.CASES[name]()
    assert _largest_difference(save(tmp_path, "net.onnx", data)) <= 2


@pytest.mark.parametrize("name", sorted(_REFUSED & CASES.keys()))
def test_what_cannot_be_written_is_named(tmp_path: Path, name: str) -> None:
    path = save(tmp_path, "op.onnx", op_model(CASES[name], True))
    with pytest.raises(ModelError, match="cannot be written as int8 TFLite: "):
        write_tflite(load_model(path))


def _read_back(graph: Graph) -> Graph:
    from npuscope.files.sizes import Pins

    return read_tflite(write_tflite(graph).data, graph.name, Pins())


@pytest.mark.parametrize(
    "net", [mobilenet_like(), conv_net(stride=2), conv_net(depthwise=True, out=0), dense_net()]
)
def test_a_tflite_network_comes_back_as_it_was(tmp_path: Path, net) -> None:
    graph = load_model(save(tmp_path, "net.tflite", to_tflite(net)))
    assert first_difference(graph, _read_back(graph)) == ""


def test_operators_know_where_they_come_from(tmp_path: Path) -> None:
    path = save(tmp_path, "net.onnx", to_onnx(mobilenet_like()))
    graph = load_model(path)
    origins = write_tflite(graph).origins
    names = {origin for op in graph.ops for origin in op.origin}
    assert all(set(origin) <= names for origin in origins)
    assert any(origin[0].startswith("Conv:") for origin in origins if origin)


def _layer(weights: np.ndarray, weight_zero: int, bias: np.ndarray, scales) -> bytes:
    """A 1x1 convolution; onnxruntime computes it on floats."""
    w = OnnxWriter()
    x = w.qdq(w.input("x", (1, 3, 4, 5)), 0.021, 2)
    stored = w.constant(weights)
    kernel = w.dequantize(stored, scales, weight_zero, str(weights.dtype))
    y = w.node("Conv", x, kernel, w.constant(bias.astype(np.float32)))
    w.dequantize(w.quantize(y, 0.05, 3), 0.05, 3, output="y")
    return w.finish({"y": (1, len(weights), 4, 5)})


def test_weights_with_a_zero_point(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    weights = rng.integers(0, 256, (6, 3, 1, 1)).astype(np.uint8)
    data = _layer(weights, 117, rng.normal(size=6), 0.008)
    assert _largest_difference(save(tmp_path, "net.onnx", data)) <= 1


def test_a_bias_that_exceeds_32_bits_in_the_scale_of_its_channel(tmp_path: Path) -> None:
    """As quantizers leave it where all weights of a channel are next to nothing."""
    weights = np.random.default_rng(5).integers(-127, 128, (4, 3, 1, 1)).astype(np.int8)
    scales = np.array([0.01, 1e-12, 0.02, 1e-11], np.float32)
    data = _layer(weights, 0, np.array([0.5, 3.0, -1.0, -4.0]), scales)
    assert _largest_difference(save(tmp_path, "net.onnx", data)) <= 1


def _gated(scale: float) -> bytes:
    w = OnnxWriter()
    x = w.qdq(w.input("x", (1, 3, 8, 8)), 0.06, 4)
    gate = w.qdq(w.node("Sigmoid", x), scale, -128)
    w.dequantize(w.quantize(w.node("Mul", x, gate), 0.05, -100), 0.05, -100, output="y")
    return w.finish({"y": (1, 3, 8, 8)})


@pytest.mark.parametrize(
    ("scale", "kinds"),
    [
        (1 / 255, {"Sigmoid", "Mul"}),
        (1 / 400, {"Sigmoid", "Quantize", "Mul"}),  # what exceeds 0.6375 is cut
    ],
)
def test_readers_take_the_scale_of_a_kernel_that_insists_on_it(
    tmp_path: Path, scale: float, kinds: set[str]
) -> None:
    path = save(tmp_path, "net.onnx", _gated(scale))
    assert {op.kind for op in _read_back(load_model(path)).ops} - {"Transpose"} == kinds
    assert _largest_difference(path) <= 2


def test_a_layer_differs_at_ties_of_the_first_rounding_alone(tmp_path: Path) -> None:
    """LiteRT rounds the product with a multiplier of 31 bits, then once more when it shifts."""
    rng = np.random.default_rng(8)
    weights = rng.integers(-127, 128, (64, 32)).astype(np.int8)
    scales = rng.uniform(0.001, 0.02, 64).astype(np.float32)
    w = OnnxWriter()
    x = w.qdq(w.input("x", (1, 32, 40, 40)), 0.021, 2)
    kernel = w.dequantize(w.constant(weights.reshape(64, 32, 1, 1)), scales, 0, "int8")
    w.dequantize(w.quantize(w.node("Conv", x, kernel), 0.35, 3), 0.35, 3, output="y")
    path = save(tmp_path, "net.onnx", w.finish({"y": (1, 64, 40, 40)}))
    interpreter = litert_interpreter(write_tflite(load_model(path)).data)
    (given,), (made,) = interpreter.get_input_details(), interpreter.get_output_details()
    values = rng.integers(-128, 128, given["shape"]).astype(np.int8)
    interpreter.set_tensor(given["index"], values)
    interpreter.invoke()
    channels = list(values.shape).index(32)
    sums = np.moveaxis(values.astype(np.float64) - 2, channels, -1) @ weights.T.astype(np.float64)
    factors = np.float32(0.021) * scales.astype(np.float64) / np.float32(0.35)
    exact = sums * factors + 3
    inside = np.abs(exact) < 127
    result = np.moveaxis(interpreter.get_tensor(made["index"]), channels, -1)
    far = np.abs(result - exact) - 0.5  # beyond the nearest
    assert far[inside].max() > 0
    assert (far / 2.0 ** np.frexp(factors)[1])[inside].max() < 0.501
