"""A float network as if it were int8: weights quantized, activations with stand-in scales."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npuscope
from models import OnnxWriter, TfliteWriter, save
from npuscope.cli.main import main
from npuscope.compiler.passes.as_int8 import NOTE, as_int8, quantized
from npuscope.errors import ModelError, UsageError
from npuscope.files.load import load_model
from npuscope.graph.model import DType, Tensor


def float_model(folder: Path, half: bool = False) -> Path:
    """A convolution with a ReLU, in 32-bit floats or with weights of 16 bits."""
    w = TfliteWriter()
    x = w.tensor("x", (1, 8, 8, 4), "float32")
    kernels = np.random.default_rng(1).normal(size=(8, 3, 3, 4)).astype(np.float32)
    bias = w.constant("bias", np.ones(8, np.float32))
    if half:
        narrow = w.constant("narrow", kernels.astype(np.float16))
        weights = w.tensor("weights", kernels.shape, "float32")
        w.op("DEQUANTIZE", [narrow], [weights])
    else:
        weights = w.constant("weights", kernels)
    y = w.tensor("y", (1, 8, 8, 8), "float32")
    w.op("CONV_2D", [x, weights, bias], [y], fusedActivationFunction=1)
    return save(folder, "net.tflite", w.finish([x], [y]))


def test_without_it_a_float_network_is_refused_with_the_option(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="the network is float32") as caught:
        npuscope.estimate(float_model(tmp_path))
    assert "--as-int8" in caught.value.hint


@pytest.mark.parametrize("half", [False, True])
def test_figures_are_those_of_an_int8_network(half: bool, tmp_path: Path) -> None:
    found = npuscope.estimate(float_model(tmp_path, half), as_int8=True)
    assert found.counts["HW"] == len(found.epochs)
    assert NOTE in found.notes
    assert found.memory.weights_bytes < 8 * 3 * 3 * 4 * 2


@pytest.mark.parametrize(("size", "is_noted"), [(32, False), (1024, True)])
def test_where_ram_is_short_the_scales_decide(size: int, is_noted: bool, tmp_path: Path) -> None:
    w = OnnxWriter()
    kernels = w.constant(np.ones((8, 3, 1, 1), np.float32))
    w.node("Conv", w.input("x", (1, 3, size, size)), kernels, output="y")
    path = save(tmp_path, "net.onnx", w.finish({"y": (1, 8, size, size)}))
    notes = npuscope.estimate(path, as_int8=True).notes
    assert any("the quantized network may take" in note for note in notes) is is_noted


def test_depthwise_weights_of_16_bits_are_widened(tmp_path: Path) -> None:
    w = TfliteWriter()
    x, y = (w.tensor(name, (1, 8, 8, 4), "float32") for name in "xy")
    narrow = w.constant("narrow", np.ones((1, 3, 3, 4), np.float16))
    weights = w.tensor("weights", (1, 3, 3, 4), "float32")
    w.op("DEQUANTIZE", [narrow], [weights])
    w.op("DEPTHWISE_CONV_2D", [x, weights, w.constant("b", np.zeros(4, np.float32))], [y])
    model = save(tmp_path, "net.tflite", w.finish([x], [y]))
    assert npuscope.estimate(model, as_int8=True).counts["HW"] > 0


def test_types_and_zero_points(tmp_path: Path) -> None:
    graph = as_int8(load_model(float_model(tmp_path)))
    x, y = graph.tensor("x"), graph.tensor("y")
    assert (x.dtype, y.dtype) == (DType.INT8, DType.INT8)
    assert y.quant is not None and y.quant.zero_points == (-128,)
    weights, bias = (graph.tensor(name) for name in graph.ops[0].inputs[1:])
    assert weights.quant is not None and weights.quant.axis == 0
    assert bias.dtype is DType.INT32 and bias.quant is not None
    assert x.quant is not None
    assert bias.quant.scales == pytest.approx([x.quant.scale * s for s in weights.quant.scales])


def test_a_quantized_network_stays_as_it_is(tmp_path: Path) -> None:
    w = TfliteWriter()
    x, y = w.tensor("x", (1, 4), scale=0.5), w.tensor("y", (1, 4), scale=0.5)
    w.op("LOGISTIC", [x], [y])
    graph = load_model(save(tmp_path, "q.tflite", w.finish([x], [y])))
    assert as_int8(graph) is graph


def test_other_ops_stay_float_between_conversions(tmp_path: Path) -> None:
    w = OnnxWriter()
    kernels = w.constant(np.ones((4, 3, 1, 1), np.float32))
    hidden = w.node("Conv", w.input("x", (1, 3, 8, 8)), kernels)
    w.node("LogSoftmax", hidden, output="y", axis=1)
    graph = as_int8(load_model(save(tmp_path, "net.onnx", w.finish({"y": (1, 4, 8, 8)}))))
    kinds = [op.kind for op in graph.ops]
    where = kinds.index("LogSoftmax")
    assert kinds[where - 1] == "Dequantize" and kinds[where + 1] == "Quantize"


def test_an_output_that_is_a_constant_stays(tmp_path: Path) -> None:
    w = OnnxWriter()
    kernels = w.constant(np.ones((4, 3, 1, 1), np.float32))
    w.node("Conv", w.input("x", (1, 3, 8, 8)), kernels, output="y")
    w.node("Identity", w.constant(np.ones((2, 5), np.float32)), output="known")
    path = save(tmp_path, "net.onnx", w.finish({"y": (1, 4, 8, 8), "known": (2, 5)}))
    graph = as_int8(load_model(path))
    assert graph.outputs == ("y", "known") and graph.tensor("known").is_constant
    assert main(["estimate", str(path), "--as-int8", "-q"]) == 0


def test_quantized_constants_keep_their_values_to_half_a_step() -> None:
    data = np.random.default_rng(3).normal(size=(5, 7)).astype(np.float32)
    made = quantized(Tensor("w", data.shape, DType.FLOAT32, data=data), 0)
    assert made.quant is not None and made.data is not None
    steps = np.array(made.quant.scales)[:, None]
    assert (np.abs(made.data * steps - data) <= steps / 2 + 1e-6).all()
    zero = quantized(Tensor("z", (2,), DType.FLOAT32, data=np.zeros(2, np.float32)), None)
    assert zero.data is not None and not zero.data.any()


@pytest.mark.parametrize("verb", ["validate", "fix", "compile"])
def test_verbs_that_need_real_scales_refuse_it(verb: str, tmp_path: Path, capsys: Any) -> None:
    out = ["-o", str(tmp_path / "out.tflite")] if verb != "validate" else []
    assert main([verb, str(float_model(tmp_path)), "--as-int8", *out]) == UsageError.exit_code
    assert "own scales" in capsys.readouterr().err


def test_it_answers_what_quantize_will_give(tmp_path: Path) -> None:
    """Normalizations, an alias, a hard swish and a GELU that are written out: folded by the same
    code on both ways."""
    pytest.importorskip("onnxruntime")
    w = OnnxWriter(13)
    generator = np.random.default_rng(5)

    def layer(x: str, channels: int, out: int) -> str:
        kernel = generator.normal(0, 0.2, (out, channels, 3, 3)).astype(np.float32)
        x = w.node("Conv", x, w.constant(kernel), pads=[1] * 4)
        numbers = generator.uniform(0.5, 2, (4, out)).astype(np.float32)
        return w.node("BatchNormalization", x, *map(w.constant, numbers))

    x = w.node("Identity", w.node("Relu", layer(w.input("x", (1, 3, 32, 32)), 3, 16)))
    x = layer(x, 16, 16)
    x = w.node("Mul", x, w.node("HardSigmoid", x, alpha=1 / 6, beta=0.5))
    x = layer(x, 16, 16)
    curve = w.node("Erf", w.node("Mul", x, w.constant(np.float32(0.5**0.5))))
    curve = w.node("Add", curve, w.constant(np.float32(1)))
    x = w.node("Mul", w.node("Mul", x, curve), w.constant(np.float32(0.5)))
    w.node("Relu", layer(x, 16, 32), output="y")
    model = save(tmp_path, "net.onnx", w.finish({"y": (1, 32, 32, 32)}))
    before = npuscope.estimate(model, as_int8=True)
    made = npuscope.quantize(model, data="random", samples=4, calibration="minmax")
    assert before.total_ms == pytest.approx(made.after.total_ms, rel=0.1)
    assert before.counts["SW"] == made.after.counts["SW"] == 0
