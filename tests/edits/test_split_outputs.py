"""A layer in parts: nothing changes but where it runs."""

from __future__ import annotations

import numpy as np
import pytest

from edits.border_case import edited, graph_of, misfit
from edits.channel_case import FORMATS, SCALE, LiteNet, Net, QdqNet, constants
from edits.channel_nets import check_exact
from edits.moves_case import kinds, off_npu
from models import dense_net, to_onnx
from models_onnx import OnnxWriter
from npuscope.edits import open_document

PARTS = "144+113"


def layer(net: Net, kind: str, inputs: int, outputs: int = 257) -> bytes:
    if kind == "dense":
        return net.finish(net.dense(net.input((1, inputs)), outputs))
    size, kernel = (1, 1) if kind == "pointwise" else (5, 3)
    return net.finish(net.conv(net.input((1, size, size, inputs)), outputs, kernel))


def place(data: bytes) -> tuple[str, ...]:
    """The one layer of a network."""
    (op,) = [op for op in graph_of(data).ops if op.kind in ("Conv2D", "FullyConnected")]
    return op.origin


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("kind", "inputs"), [("pointwise", 257), ("dense", 1024), ("image", 6)])
def test_parts_give_the_same_results(form: type[Net], kind: str, inputs: int) -> None:
    data = layer(form(), kind, inputs)
    after = edited(data, "split-outputs", *place(data), parts=PARTS)
    check_exact(data, after)
    layers = [k for k in kinds(after) if k in ("Conv2D", "FullyConnected", "Concat")]
    assert layers == [layers[0], layers[0], "Concat"]
    assert (off_npu(data, "2.2") == []) is (inputs != 257)
    assert (off_npu(after, "4.0") == []) is (inputs != 257)
    # Compilers of 2.x leave unequal parts to a library call, and a prime count has no others.
    assert [kind for kind in off_npu(after, "2.2") if kind == "Concat"] == ["Concat"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("parts", "called"), [("128+128", []), ("144+112", ["Concat"])])
def test_equal_parts_are_joined_without_the_cpu(
    form: type[Net], parts: str, called: list[str]
) -> None:
    data = layer(form(), "image", 6, 256)
    after = edited(data, "split-outputs", *place(data), parts=parts)
    check_exact(data, after)
    assert off_npu(after, "2.2") == called
    assert off_npu(after, "4.0") == []


@pytest.mark.parametrize("parts", ["1+256", "100+100+57"])
def test_any_parts_will_do(parts: str) -> None:
    for form in FORMATS:
        data = layer(form(), "pointwise", 8)
        check_exact(data, edited(data, "split-outputs", *place(data), parts=parts))


def test_an_activation_and_its_slopes_go_with_the_parts() -> None:
    net = QdqNet()
    x = net.conv(net.input((1, 4, 4, 3)), 6)
    made = constants(net.random, (10, 1, 1, 6))
    held = net.stored(made.weights.transpose(0, 3, 1, 2), made)
    y = net.writer.node("Conv", x.id, *held, name="with slopes")
    slopes = net.writer.constant(np.linspace(0.1, 0.5, 10).reshape(10, 1, 1))
    y = net.writer.node("PRelu", y, slopes)
    data = net.writer.finish({net.writer.qdq(y, SCALE, -3): None})
    after = edited(data, "split-outputs", "Conv:with slopes", parts="4+6")
    check_exact(data, after)
    document = open_document("net.onnx", after)
    assert [n.op_type for n in document.nodes].count("PRelu") == 2


def test_a_product_and_its_bias_are_split() -> None:
    writer = OnnxWriter()
    x = writer.qdq(writer.input("x", (1, 12)), SCALE)
    weights = np.random.default_rng(1).integers(-127, 127, (12, 9), np.int8)
    y = writer.node("MatMul", x, writer.dequantized_constant(weights, 0.004), name="product")
    y = writer.node("Add", y, writer.constant(np.linspace(-1, 1, 9)))
    data = writer.finish({writer.qdq(y, SCALE): None})
    after = edited(data, "split-outputs", "MatMul:product", parts="5+4")
    check_exact(data, after)


def test_an_integer_layer_is_split() -> None:
    writer = OnnxWriter()
    x = writer.quantize(writer.input("x", (1, 6, 4, 4)), SCALE, 3)
    random = np.random.default_rng(2)
    made = constants(random, (10, 1, 1, 6))
    zero = writer.constant(np.array(3, np.int8))
    steps = writer.constant(np.float32(SCALE))
    inputs = [x, steps, zero, writer.constant(made.weights.transpose(0, 3, 1, 2))]
    inputs += [writer.constant(made.scales), writer.constant(np.zeros(10, np.int8))]
    y = writer.node("QLinearConv", *inputs, steps, zero, writer.constant(made.bias), name="q")
    data = writer.finish({writer.dequantize(y, SCALE, 3): None})
    after = edited(data, "split-outputs", "QLinearConv:q", parts="4+6")
    check_exact(data, after)
    assert kinds(after).count("Conv2D") == 2


def test_a_result_that_is_read_twice_is_joined_at_once() -> None:
    net = QdqNet()
    made = constants(net.random, (9, 6))
    x = net.dense(net.input((1, 6)), 6)
    held = net.stored(made.weights, made)
    y = net.writer.node("Gemm", x.id, *held, name="twice", transB=1)
    outputs = [net.writer.qdq(y, SCALE, -3), net.writer.qdq(net.writer.node("Relu", y), SCALE)]
    data = net.writer.finish(dict.fromkeys(outputs))
    after = edited(data, "split-outputs", "Gemm:twice", parts="4+5")
    check_exact(data, after)


def test_a_sum_behind_the_layer_stays_whole() -> None:
    """Its other operand is computed: the parts are joined in front of it."""
    net = QdqNet()
    x = net.dense(net.input((1, 6)), 9)
    made = constants(net.random, (9, 9))
    y = net.writer.node("Gemm", x.id, *net.stored(made.weights, made), name="sum", transB=1)
    data = net.writer.finish({net.writer.qdq(net.writer.node("Add", y, x.id), SCALE, -3): None})
    after = edited(data, "split-outputs", "Gemm:sum", parts="4+5")
    check_exact(data, after)


@pytest.mark.parametrize("form", FORMATS)
def test_what_cannot_be_split_is_told(form: type[Net]) -> None:
    data = layer(form(), "image", 6)
    (origin,) = place(data)
    told = f"parts '100+100' do not add up to the 257 outputs of {origin}"
    assert misfit(data, "split-outputs", origin, parts="100+100") == told
    net = form()
    x = net.input((1, 4, 4, 6))
    grouped = net.finish(net.conv(x, 6, 3, groups=3))
    (origin,) = place(grouped)
    assert misfit(grouped, "split-outputs", origin, parts="3+3") == f"{origin} has 3 groups"


def test_an_op_that_is_no_layer_is_told() -> None:
    assert misfit(layer(LiteNet(), "dense", 4), "split-outputs", "ADD:#3", parts="1+2") == (
        "none of its ops is a CONV_2D or FULLY_CONNECTED of this file"
    )
    assert misfit(to_onnx(dense_net()), "split-outputs", "Add:x", parts="1+2") == (
        "none of its ops is a Conv or Gemm or MatMul or QLinearConv or QLinearMatMul or QGemm "
        "of this file"
    )


def test_computed_weights_are_told() -> None:
    writer = OnnxWriter()
    x, w = (writer.qdq(writer.input(name, (4, 4)), SCALE) for name in "xw")
    data = writer.finish({writer.qdq(writer.node("MatMul", x, w, name="m"), SCALE): None})
    told = "the weights or the bias of MatMul:m are computed"
    assert misfit(data, "split-outputs", "MatMul:m", parts="2+2") == told
