"""app_config.h: sizes, types, quantization, and a guess that calls itself one."""

from __future__ import annotations

import re

import pytest

from compiler.nets import Net, compiled
from npuscope.demo_network import demo_graph
from npuscope.graph.model import DType, Graph, Quant, Tensor
from npuscope.program.code_files import app_config_text, guess_heads
from npuscope.program.model import Buffer, Program
from program.network_c.nets import HOSTILE, compile_c, renamed
from program.test_app_outputs import turned


def defines(text):
    return dict(re.findall(r"^#define (\w+) (.*)$", text, re.MULTILINE))


def test_demo():
    graph = demo_graph()
    found = defines(app_config_text(compiled(graph), graph, "demo"))
    assert (found["NN_HEIGHT"], found["NN_WIDTH"], found["NN_CHANNELS"]) == ("(96)", "(96)", "(3)")
    assert found["NN_IN_0_TYPE"] == "int8_t"
    assert found["NN_IN_0_LAYOUT"] == '"channel_last"'
    assert found["NN_IN_0_SCALE"] == "(0.00784313772f)"
    assert found["NN_IN_0_ZERO_POINT"] == "(0)"
    assert found["NN_OUT_0_SHAPE"] == "{1, 10}"
    assert found["NN_OUT_0_SCALE"] == "(0.00390625f)"
    assert found["NN_OUT_0_GUESS"] == '"classification"'
    assert found["NN_OUT_0_CLASSES"] == "(10)"


def test_a_channel_first_image():
    graph = turned()
    quant = Quant((0.5,), (0,))
    ends = [
        Buffer("planes", 9216, (1, 3, 64, 48), 8, 48, quant=quant),
        Buffer("map", 64512, (1, 21, 64, 48), 8, 48, quant=quant),
    ]
    ends_of = {"inputs": ("planes",), "outputs": ("map",)}
    program = Program("net", "stm32n6", "4.0", False, (), tuple(ends), (), **ends_of)
    found = defines(app_config_text(program, graph))
    assert (found["NN_HEIGHT"], found["NN_WIDTH"], found["NN_CHANNELS"]) == ("(64)", "(48)", "(3)")
    assert (found["NN_IN_0_SHAPE"], found["NN_IN_0_LAYOUT"]) == (
        "{1, 64, 48, 3}",
        '"channel_first"',
    )
    assert (found["NN_OUT_0_SHAPE"], found["NN_OUT_0_LAYOUT"]) == (
        "{1, 64, 48, 21}",
        '"channel_first"',
    )
    assert found["NN_OUT_0_GUESS"] == '"segmentation"'
    assert found["AI_SSEG_DEEPLABV3_PP_NB_CLASSES"] == "(21)"


def test_it_says_that_it_guesses():
    graph = demo_graph()
    assert "This is a guess" in app_config_text(compiled(graph), graph)


def test_valid_c_with_hostile_names(tmp_path):
    net = Net(1)
    net.conv(net.input((1, 8, 8, 3)), 8)
    graph = renamed(net.graph(), HOSTILE)
    text = app_config_text(compiled(graph), graph, HOSTILE)
    use = "#include <stdint.h>\nconst NN_IN_0_TYPE zero = NN_IN_0_ZERO_POINT;\n"
    assert text.isascii()
    assert compile_c(tmp_path, text + use, "4.0") == ""


@pytest.mark.parametrize(
    ("outputs", "kinds"),
    [
        ([(1, 48, 48, 13)], ["heatmaps"]),
        ([(1, 192, 192, 2)], ["segmentation"]),
        ([(1, 896, 16)], ["boxes_with_scores"]),
        ([(1, 4, 2100)], ["boxes"]),
        ([(1, 12, 12, 24), (1, 6, 6, 24)], ["boxes_on_a_grid"] * 2),
        ([(1, 512)], ["classification_or_embedding"]),
        ([(1, 1)], ["single_value"]),
        ([(1, 3, 5)], ["table"]),
    ],
)
def test_guesses(outputs, kinds):
    quant = Quant((0.1,), (0,))
    shapes = {"x": (1, 192, 192, 3), **{f"y{i}": shape for i, shape in enumerate(outputs)}}
    tensors = [Tensor(name, shape, DType.INT8, quant) for name, shape in shapes.items()]
    names = tuple(f"y{i}" for i in range(len(outputs)))
    graph = Graph("net", tensors, [], ("x",), names)
    assert [head.kind for head in guess_heads(graph)] == kinds
