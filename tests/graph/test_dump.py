"""The text form of a Graph, word for word."""

from __future__ import annotations

import numpy as np

from npuscope.graph import DType, Graph, Op, Quant, Tensor
from npuscope.graph.dump import text
from npuscope.graph.model import Activation
from npuscope.ops.layers import ConvAttrs
from npuscope.ops.reduce import ReduceAttrs

HOSTILE, HOSTILE_SHOWN = "x\x1b[31m\n", r"x\x1b[31m\n"
EXPECTED = f"""\
graph 'small' (litert)
  note batch set to 1
  input '{HOSTILE_SHOWN}' int8[1x4x4x2] q(0.5, -3)
  output 'y' int8[1x3] q(0.25, 0)
  constant 'w' int8[3x3x3x2] q(3 scales 0.1..0.3, 0, axis 0)
  'h' int8[1x2x2x3] q(0.25, 0) = Conv2D('{HOSTILE_SHOWN}', 'w', -) \
{{strides=(2,2), pads=(0,0,1,1), activation=relu6}} from CONV_2D:#0
  'y' int8[1x3] q(0.25, 0) = Mean('h') {{axes=(1,2), keep_dims=False}} from MEAN:#1, PAD:#2
"""


def test_golden_text() -> None:
    q = Quant((0.25,), (0,))
    weights = np.ones((3, 3, 3, 2), np.int8)
    attrs = ConvAttrs((2, 2), (0, 0, 1, 1), activation=Activation.RELU6)
    graph = Graph(
        "small",
        [
            Tensor(HOSTILE, (1, 4, 4, 2), DType.INT8, Quant((0.5,), (-3,))),
            Tensor("w", (3, 3, 3, 2), DType.INT8, Quant((0.1, 0.2, 0.3), (0, 0, 0), 0), weights),
            Tensor("h", (1, 2, 2, 3), DType.INT8, q),
            Tensor("y", (1, 3), DType.INT8, q),
        ],
        [
            Op("Conv2D", "c", (HOSTILE, "w", ""), ("h",), attrs, ("CONV_2D:#0",)),
            Op("Mean", "m", ("h",), ("y",), ReduceAttrs((1, 2), False), ("MEAN:#1", "PAD:#2")),
        ],
        [HOSTILE],
        ["y"],
        notes=["batch set to 1"],
    )
    assert text(graph) == EXPECTED
