"""Recurrent layers: LSTM, GRU and RNN over a whole sequence, as ONNX defines them.

Inputs: x (steps, batch, inputs), weights of inputs and of the state for each direction, biases,
the state before the first step. The result holds the state after every step, (steps, directions,
batch, units), or what an LSTM's cells hold after the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod

from npuscope.errors import ModelError
from npuscope.graph.model import Attrs, Graph, Op
from npuscope.ops.row import Kernel, Onnx, Row, Shapes, input_shape, real_type

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


class Direction(StrEnum):
    FORWARD = "forward"
    REVERSE = "reverse"
    BOTH = "bidirectional"


@dataclass(frozen=True, slots=True)
class RecurrentAttrs(Attrs):
    """`reset_last`: a GRU resets the product with its state, not the state. `cells`: the result
    is what the cells hold at the end."""

    direction: Direction = Direction.FORWARD
    reset_last: bool = False
    cells: bool = False


def recurrent_shape(graph: Graph, op: Op) -> Shapes:
    attrs, gates = op.attrs_as(RecurrentAttrs), GATES[op.kind]
    shapes = [input_shape(graph, op, index) for index in range(len(op.inputs))]
    directions = 2 if attrs.direction is Direction.BOTH else 1
    if [len(shape) for shape in shapes[:4]] != [3, 3, 3, 2]:
        raise ModelError(f"inputs of shapes {shapes[:4]}: expected 3, 3, 3 and 2 axes")
    (steps, batch, inputs), units = shapes[0], shapes[2][2]
    wanted = [
        (directions, gates * units, inputs),
        (directions, gates * units, units),
        (directions, 2 * gates * units),
        *[(directions, batch, units)] * (len(shapes) - 4),
    ]
    if shapes[1:] != wanted:
        raise ModelError(f"weights and states {shapes[1:]}, expected {wanted}")
    if attrs.cells:
        return ((directions, batch, units),)
    return ((steps, directions, batch, units),)


def recurrent_macs(graph: Graph, op: Op) -> int:
    steps, batch, _ = input_shape(graph, op, 0)
    return steps * batch * sum(prod(input_shape(graph, op, index)) for index in (1, 2))


ROWS = tuple(
    Row(
        kind,
        RecurrentAttrs,
        inputs=(5, 6 if kind == "LSTM" else 5),
        shape=recurrent_shape,
        types=real_type,
        kernel=Kernel("whole", f"recurrent:{kind.lower()}"),
        macs=recurrent_macs,
        onnx={kind: Onnx("convert_recurrent:recurrent", parameters=(1, 2, 3, 4, 5, 6))},
    )
    for kind in GATES
)
