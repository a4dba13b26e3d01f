"""Recurrent layers: LSTM, GRU and RNN over a whole sequence, as ONNX defines them; TFLite's two.

ONNX. Inputs: x (steps, batch, inputs), weights of inputs and of the state for each direction,
biases, the state before the first step. The result holds the state after every step, (steps,
directions, batch, units), and behind it, where it is asked for, what an LSTM's cells hold at the
end, as one more step: two results of one layer cost one layer.

SequenceLSTM is TFLite's: x (batch, steps, inputs), then for the gates input, forget, cell, output
four weights of inputs, four of the state, four biases, each with a scale of its own. The state
before the first step is zero.

SVDF filters its input and keeps what the filters gave in the last steps, (batch, filters * steps).
SvdfState shifts that memory by a step: memory, x, weights (filters, inputs). SvdfOutput weighs it:
memory, weights (filters, steps), bias (units); `rank` filters make a unit.
"""

from __future__ import annotations

from enum import StrEnum
from math import prod

from npuscope.errors import ModelError
from npuscope.graph.model import Activation, Attrs, Graph, Op
from npuscope.ops.row import Kernel, Onnx, Row, Shapes, Tflite, input_shape, real_type
from npuscope.ops.traits import Trait

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


class Direction(StrEnum):
    FORWARD = "forward"
    REVERSE = "reverse"
    BOTH = "bidirectional"


class RecurrentAttrs(Attrs, frozen=True):
    """`reset_last`: a GRU resets the product with its state, not the state. `cells`: behind the
    states the result has what the cells hold at the end."""

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
    expected = [
        (directions, gates * units, inputs),
        (directions, gates * units, units),
        (directions, 2 * gates * units),
        *[(directions, batch, units)] * (len(shapes) - 4),
    ]
    if shapes[1:] != expected:
        raise ModelError(f"weights and states {shapes[1:]}, expected {expected}")
    return ((steps + attrs.cells, directions, batch, units),)


def recurrent_macs(graph: Graph, op: Op) -> int:
    steps, batch, _ = input_shape(graph, op, 0)
    return steps * batch * sum(prod(input_shape(graph, op, index)) for index in (1, 2))


class SequenceLstmAttrs(Attrs, frozen=True):
    """`cell_clip`: how far cells may go, 0 for any value. `cell_bits`: integers keep the cells
    with so many bits before the point."""

    time_major: bool = False
    cell_clip: float = 0.0
    cell_bits: int = 0


_LSTM_GATES = 4


def sequence_lstm_shape(graph: Graph, op: Op) -> Shapes:
    shapes = [input_shape(graph, op, index) for index in range(len(op.inputs))]
    if len(shapes[0]) != 3 or len(shapes[1]) != 2:
        raise ModelError(f"inputs of shapes {shapes[:2]}: expected 3 and 2 axes")
    inputs, units = shapes[0][2], shapes[1][0]
    expected = [
        *[(units, inputs)] * _LSTM_GATES,
        *[(units, units)] * _LSTM_GATES,
        *[(units,)] * _LSTM_GATES,
    ]
    if shapes[1:] != expected:
        raise ModelError(f"weights and biases {shapes[1:]}, expected {expected}")
    return ((*shapes[0][:2], units),)


def sequence_lstm_macs(graph: Graph, op: Op) -> int:
    weights = sum(prod(input_shape(graph, op, 1 + gate)) for gate in range(2 * _LSTM_GATES))
    return prod(input_shape(graph, op, 0)[:2]) * weights


class SvdfOutputAttrs(Attrs, frozen=True):
    rank: int = 1
    activation: Activation = Activation.NONE


def svdf_state_shape(graph: Graph, op: Op) -> Shapes:
    memory, x, weights = (input_shape(graph, op, index) for index in range(3))
    fits = len(memory) == len(x) == len(weights) == 2 and x[1] == weights[1]
    if not fits or memory[0] != x[0] or not memory[1] or memory[1] % weights[0]:
        raise ModelError(f"input {x}, filters {weights} and memory {memory} do not fit together")
    return (memory,)


def svdf_output_shape(graph: Graph, op: Op) -> Shapes:
    memory, weights = (input_shape(graph, op, index) for index in range(2))
    rank = op.attrs_as(SvdfOutputAttrs).rank
    if len(memory) != 2 or len(weights) != 2 or memory[1] != prod(weights):
        raise ModelError(f"weights {weights} do not fit memory {memory}")
    if rank < 1 or weights[0] % rank:
        raise ModelError(f"{weights[0]} filters are not a multiple of rank {rank}")
    units = weights[0] // rank
    if len(op.inputs) > 2 and input_shape(graph, op, 2) != (units,):
        raise ModelError(f"bias {input_shape(graph, op, 2)}, expected ({units},)")
    return ((memory[0], units),)


def svdf_macs(graph: Graph, op: Op) -> int:
    """The weights are the last input of two axes; each works once a batch."""
    index = 2 if op.kind == "SvdfState" else 1
    return input_shape(graph, op, 0)[0] * prod(input_shape(graph, op, index))


_ONNX = tuple(
    Row(
        kind,
        RecurrentAttrs,
        inputs=(5, 6 if kind == "LSTM" else 5),
        shape=recurrent_shape,
        types=real_type,
        kernel=Kernel("whole", f"recurrent:{kind.lower()}"),
        macs=recurrent_macs,
        traits={Trait.RECURRENT},
        onnx={kind: Onnx("convert_recurrent:recurrent", parameters=(1, 2, 3, 4, 5, 6))},
    )
    for kind in GATES
)
_TFLITE = (
    Row(
        "SequenceLSTM",
        SequenceLstmAttrs,
        inputs=(1 + 3 * _LSTM_GATES, 1 + 3 * _LSTM_GATES),
        shape=sequence_lstm_shape,
        types=real_type,
        kernel=Kernel("plain", "lstm_tflite:sequence_lstm", "lstm_tflite:litert_sequence_lstm"),
        macs=sequence_lstm_macs,
        traits={Trait.RECURRENT},
        tflite={
            "UNIDIRECTIONAL_SEQUENCE_LSTM": Tflite(
                "convert_recurrent:sequence_lstm",
                options=(
                    "UnidirectionalSequenceLSTMOptions",
                    "FusedActivationFunction",
                    "CellClip",
                    "TimeMajor",
                    "DiagonalRecurrentTensors",
                ),
            )
        },
    ),
    Row(
        "SvdfState",
        Attrs,
        inputs=(3, 3),
        shape=svdf_state_shape,
        types=real_type,
        kernel=Kernel("plain", "svdf:state", "svdf:litert_state"),
        macs=svdf_macs,
        traits={Trait.RECURRENT},
    ),
    Row(
        "SvdfOutput",
        SvdfOutputAttrs,
        inputs=(2, 3),
        shape=svdf_output_shape,
        types=real_type,
        kernel=Kernel("plain", "svdf:output", "svdf:litert_output"),
        macs=svdf_macs,
        traits={Trait.RECURRENT},
        tflite={
            "SVDF": Tflite(
                "convert_recurrent:svdf", options=("SVDFOptions", "Rank", "FusedActivationFunction")
            )
        },
    ),
)
ROWS = (*_ONNX, *_TFLITE)
