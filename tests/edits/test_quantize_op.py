"""Float ops between conversions become ops on integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from edits.border_case import edited, graph_of, misfit
from edits.number_case import (
    conv,
    furthest,
    input_pair,
    int8,
    largest_change,
    on_cpu,
    results,
)
from models import OnnxWriter, TfliteWriter
from models_tflite import SAME
from npuscope.edits import open_document
from npuscope.files.file_graph import KIND_ROWS

STEP, ZERO = 1 / 20, 10
SHAPE = (1, 6, 8, 8)


def island(*kinds: tuple[str, dict[str, Any]], quantized: bool = True) -> bytes:
    """Conv, then float ops in a row; behind them a Q and DQ, or the network's output."""
    writer = OnnxWriter()
    made = conv(writer, input_pair(writer, SHAPE), int8((6, 6, 1, 1)))
    x = writer.qdq(made, STEP, ZERO)
    for number, (kind, attrs) in enumerate(kinds):
        x = writer.node(kind, x, name=f"op{number}", **attrs)
    return writer.finish({writer.qdq(x, STEP, ZERO) if quantized else x: None})


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
@pytest.mark.parametrize(
    ("kind", "attrs"),
    [
        ("GlobalAveragePool", {}),
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("Relu", {}),
        ("Sigmoid", {}),
        ("Tanh", {}),
        ("HardSigmoid", {}),
        ("HardSwish", {}),
        ("LeakyRelu", {"alpha": 0.1}),
    ],
)
def test_an_op_at_the_end(kind: str, attrs: dict[str, Any], generation: str) -> None:
    before = island((kind, attrs), quantized=False)
    data = edited(before, "quantize-op", f"{kind}:op0")
    assert on_cpu(before, generation) > 0
    assert on_cpu(data, generation) == 0
    graph = graph_of(data)
    step = graph.tensor(graph.outputs[0]).quant
    assert step is not None
    # Steps of 1/256 and 1/128 end just below 1.
    assert furthest(before, data) <= (1.01 if KIND_ROWS[kind].fixed_range else 0.51) * step.scale


def test_moves_and_clamps_are_exact() -> None:
    for kind, attrs in (
        ("Relu", {}),
        ("MaxPool", {"kernel_shape": [2, 2]}),
        ("Transpose", {"perm": [0, 2, 3, 1]}),
        ("Flatten", {}),
    ):
        before = island((kind, attrs), quantized=False)
        data = edited(before, "quantize-op", f"{kind}:op0")
        assert furthest(before, data) == 0


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
def test_a_whole_island(generation: str) -> None:
    before = island(
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("HardSwish", {}),
        ("Flatten", {}),
        ("Sigmoid", {}),
    )
    ops = ("AveragePool:op0", "HardSwish:op1", "Flatten:op2", "Sigmoid:op3")
    data = edited(before, "quantize-op", *ops)
    assert on_cpu(before, generation) >= 4
    assert on_cpu(data, generation) == 0
    assert largest_change(before, data) <= 1
    assert furthest(before, data) <= STEP * 1.001


def test_one_op_of_an_island_takes_its_operand_along() -> None:
    before = island(("Softmax", {"axis": 1}), ("HardSwish", {}))
    data = edited(before, "quantize-op", "HardSwish:op1")
    assert (on_cpu(before), on_cpu(data)) == (4, 1)  # the Softmax alone, on integers
    assert largest_change(before, data) <= 1


def test_batch_normalization_at_the_end() -> None:
    writer = OnnxWriter()
    made = conv(writer, input_pair(writer, SHAPE), int8((6, 6, 1, 1)))
    x = writer.qdq(made, STEP, ZERO)
    numbers = np.random.default_rng(3).uniform(0.5, 2, (4, 6)).astype(np.float32)
    constants = [writer.constant(row) for row in numbers]
    y = writer.node("BatchNormalization", x, *constants, name="bn", output="y")
    before = writer.finish({y: None})
    data = edited(before, "quantize-op", "BatchNormalization:bn")
    assert on_cpu(before) == 4  # with the layout of the output
    assert on_cpu(data) == 0
    quant = graph_of(data).tensor(graph_of(data).outputs[0]).quant
    assert quant is not None
    assert furthest(before, data) <= 0.51 * quant.scale


@pytest.mark.parametrize("kind", ["Add", "Mul", "Sub"])
def test_two_operands(kind: str) -> None:
    writer = OnnxWriter()
    x = input_pair(writer, SHAPE)
    a = writer.qdq(conv(writer, x, int8((6, 6, 1, 1))), STEP, ZERO)
    b = writer.qdq(conv(writer, x, int8((6, 6, 1, 1), 2)), STEP, -ZERO)
    total = writer.node(kind, a, b, name="both")
    before = writer.finish({writer.node("Relu", total, name="clamp"): None})
    data = edited(before, "quantize-op", f"{kind}:both", "Relu:clamp")
    assert on_cpu(data) == 0
    graph = graph_of(data)
    quant = graph.tensor(graph.outputs[0]).quant
    assert quant is not None
    assert not [op for op in graph.ops if op.kind in ("Relu", "Clip")]  # it is part of the op
    assert furthest(before, data) <= 0.51 * quant.scale


def test_a_constant_operand() -> None:
    writer = OnnxWriter()
    x = writer.qdq(conv(writer, input_pair(writer, SHAPE), int8((6, 6, 1, 1))), STEP, ZERO)
    factors = writer.constant(np.linspace(0.25, 1, 6, dtype=np.float32).reshape(6, 1, 1))
    before = writer.finish({writer.qdq(writer.node("Mul", x, factors, name="m"), STEP): None})
    data = edited(before, "quantize-op", "Mul:m")
    assert on_cpu(data) == 0
    assert largest_change(before, data) <= 1
    assert furthest(before, data) <= STEP * 1.001


def test_a_quantizer_that_is_there_serves_all_readers() -> None:
    writer = OnnxWriter()
    x = writer.qdq(conv(writer, input_pair(writer, SHAPE), int8((6, 6, 1, 1))), STEP, ZERO)
    mean = writer.node("GlobalAveragePool", x, name="mean")
    first = writer.qdq(mean, STEP / 2, ZERO)
    second = writer.node("Sigmoid", mean, name="gate")
    before = writer.finish({first: None, second: None})
    data = edited(before, "quantize-op", "GlobalAveragePool:mean", "Sigmoid:gate")
    assert on_cpu(data) == 0
    assert np.array_equal(results(before)[0], results(data)[0])
    assert np.abs(results(before)[1] - results(data)[1]).max() <= STEP / 2 / 8 + 1 / 256


def test_a_join_of_floats() -> None:
    writer = OnnxWriter()
    x = input_pair(writer, SHAPE)
    parts = [
        writer.qdq(conv(writer, x, int8((6, 6, 1, 1), seed)), scale, ZERO)
        for seed, scale in ((1, STEP), (2, STEP / 2))
    ]
    joined = writer.node("Concat", *parts, axis=1, name="join")
    before = writer.finish({writer.node("HardSwish", joined, name="act"): None})
    data = edited(before, "quantize-op", "Concat:join", "HardSwish:act")
    assert on_cpu(data) == 0
    assert furthest(before, data) <= 2 * STEP


def test_slopes_and_surroundings_of_a_prelu() -> None:
    writer = OnnxWriter()
    x = writer.qdq(conv(writer, input_pair(writer, SHAPE), int8((6, 6, 1, 1))), STEP, ZERO)
    slopes = writer.constant(np.linspace(-0.5, 1, 6, dtype=np.float32).reshape(6, 1, 1))
    before = writer.finish({writer.qdq(writer.node("PRelu", x, slopes, name="p"), STEP): None})
    data = edited(before, "quantize-op", "PRelu:p")
    assert on_cpu(data) == 0
    assert largest_change(before, data) == 0


def test_what_does_not_fit() -> None:
    before = island(("Softmax", {"axis": 1}))
    sentence = "the NPU has no integer form of Softmax"
    assert misfit(before, "quantize-op", "Softmax:op0") == sentence
    assert misfit(before, "quantize-op") == "the NPU has no integer form of this op"
    writer = OnnxWriter()
    relu = writer.node("Relu", writer.input("x", SHAPE), name="r")
    net = writer.finish({writer.qdq(relu, STEP): None})
    sentence = "'x' is a float input of the network: its range is unknown"
    assert misfit(net, "quantize-op", "Relu:r") == sentence
    done = island(("HardSwish", {}))
    sentence = "the op is already quantized on all sides"
    assert misfit(done, "quantize-op", "HardSwish:op0") == sentence


def test_numbers_that_are_none() -> None:
    writer = OnnxWriter()
    x = writer.qdq(conv(writer, input_pair(writer, SHAPE), int8((6, 6, 1, 1))), STEP, ZERO)
    factor = writer.constant(np.array(np.nan, np.float32), "factor")
    net = writer.finish({writer.qdq(writer.node("Mul", x, factor, name="m"), STEP): None})
    assert misfit(net, "quantize-op", "Mul:m") == "'factor' does not hold plain numbers"


def tflite_island(kind: str, shape: tuple[int, ...], quantized: bool, **options: Any) -> bytes:
    writer = TfliteWriter()
    x = writer.tensor("x", (1, 8, 8, 6), scale=STEP, zero_point=ZERO)
    real = writer.tensor("real", (1, 8, 8, 6), "float32")
    made = writer.tensor("made", shape, "float32")
    writer.op("DEQUANTIZE", [x], [real])
    axes = [writer.constant("axes", np.array([1, 2], np.int32))] if kind == "MEAN" else []
    other = [real] if kind in ("ADD", "MUL") else axes
    writer.op(kind, [real, *other], [made], **options)
    if not quantized:
        return writer.finish([x], [made])
    y = writer.tensor("y", shape, scale=STEP, zero_point=-ZERO)
    writer.op("QUANTIZE", [made], [y])
    return writer.finish([x], [y])


POOL = {"filterHeight": 2, "filterWidth": 2, "strideH": 2, "strideW": 2, "padding": SAME}
MAP = (1, 8, 8, 6)


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
@pytest.mark.parametrize("quantized", [True, False])
@pytest.mark.parametrize(
    ("kind", "shape", "options"),
    [
        ("AVERAGE_POOL_2D", (1, 4, 4, 6), POOL),
        ("MAX_POOL_2D", (1, 4, 4, 6), POOL),
        ("MEAN", (1, 6), {}),
        ("RELU", MAP, {}),
        ("RELU6", MAP, {}),
        ("LOGISTIC", MAP, {}),
        ("TANH", MAP, {}),
        ("HARD_SWISH", MAP, {}),
        ("ADD", MAP, {}),
        ("MUL", MAP, {}),
    ],
)
def test_tflite(
    kind: str, shape: tuple[int, ...], options: dict[str, Any], quantized: bool, generation: str
) -> None:
    before = tflite_island(kind, shape, quantized, **options)
    data = edited(before, "quantize-op", f"{kind}:#1")
    assert on_cpu(before, generation) >= 2
    assert on_cpu(data, generation) == (0 if quantized else 1)  # the float output stays
    graph = graph_of(data)
    scales = [t.quant.scale for t in graph.tensors.values() if t.quant and not t.is_constant]
    assert furthest(before, data) <= 1.1 * max(scales)


@pytest.mark.parametrize(
    ("kind", "shape", "numbers"),
    [
        ("RESHAPE", (1, 64, 6), [[1, 64, 6]]),
        ("TRANSPOSE", (1, 6, 8, 8), [[0, 3, 1, 2]]),
        ("PAD", (1, 9, 8, 6), [[[0, 0], [0, 1], [0, 0], [0, 0]]]),
        ("SLICE", (1, 8, 8, 3), [[0, 0, 0, 1], [1, 8, 8, 3]]),
        ("STRIDED_SLICE", (1, 8, 8, 3), [[0, 0, 0, 1], [1, 8, 8, 4], [1, 1, 1, 1]]),
    ],
)
def test_tflite_moves_are_exact(kind: str, shape: tuple[int, ...], numbers: list[Any]) -> None:
    writer = TfliteWriter()
    x = writer.tensor("x", MAP, scale=STEP, zero_point=ZERO)
    real = writer.tensor("real", MAP, "float32")
    made = writer.tensor("made", shape, "float32")
    places = [writer.constant(f"n{n}", np.array(v, np.int32)) for n, v in enumerate(numbers)]
    writer.op("DEQUANTIZE", [x], [real])
    writer.op(kind, [real, *places], [made])
    y = writer.tensor("y", shape, scale=STEP, zero_point=ZERO)
    writer.op("QUANTIZE", [made], [y])
    before = writer.finish([x], [y])
    data = edited(before, "quantize-op", f"{kind}:#1")
    assert [op.word for op in open_document("net", data).nodes] == [kind]
    assert graph_of(data).outputs == ("y",)
    assert furthest(before, data) == 0


def test_tflite_misfits() -> None:
    before = tflite_island("SOFTMAX", MAP, True)
    sentence = "the NPU has no integer form of SOFTMAX"
    assert misfit(before, "quantize-op", "SOFTMAX:#1") == sentence
    writer = TfliteWriter()
    x, y = (writer.tensor(name, (1, 8), "float32") for name in "xy")
    writer.op("RELU", [x], [y])
    net = writer.finish([x], [y])
    sentence = "'x' is a float input of the network: its range is unknown"
    assert misfit(net, "quantize-op", "RELU:#0") == sentence
    writer = TfliteWriter()
    x, y, z = (writer.tensor(name, (1, 8), "float32") for name in "xyz")
    writer.op("SOFTMAX", [x], [y])
    writer.op("RELU", [y], [z])
    net = writer.finish([x], [z])
    assert misfit(net, "quantize-op", "RELU:#1") == "'y' comes from a float SOFTMAX"
