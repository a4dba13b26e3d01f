"""LSTM, GRU and RNN: the layer over the sequence, and its last state cut out of the result."""

from __future__ import annotations

import numpy as np

from npuscope.errors import NotComputed
from npuscope.files.onnx.constants import Const
from npuscope.files.onnx.layout import LayoutValue, plain
from npuscope.files.onnx.task import NodeTask
from npuscope.ops.moves import ConcatAttrs, SliceAttrs
from npuscope.ops.recurrent import GATES, Direction, RecurrentAttrs

_STANDARD = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
_BIAS, _LENGTHS, _STATE, _CELLS, _PEEPHOLES = 3, 4, 5, 6, 7


def recurrent(task: NodeTask) -> None:
    node = task.node
    _check_form(task)
    x = task.in_source_order(0)
    batch = task.shape(x)[1]
    weights = [task.real_parameter(index) for index in (1, 2)]
    directions, rows, _ = weights[1].shape
    units = rows // GATES[node.kind]
    shapes = {_BIAS: (directions, 2 * rows), _STATE: (directions, batch, units)}
    names = [_operand(task, index, shape) for index, shape in shapes.items()]
    if node.kind == "LSTM":
        names.append(_operand(task, _CELLS, shapes[_STATE]))
    inputs = (x.tensor, *(tensor.name for tensor in weights), *names)
    direction = Direction(node.text("direction", "forward"))
    steps = task.shape(x)[0]
    outputs = (*node.outputs, "", "")
    states, last, cells = (name if name in task.reader.read else "" for name in outputs[:3])
    attrs = RecurrentAttrs(direction, bool(node.integer("linear_before_reset", 0)), bool(cells))
    name = f"{cells}_and_states" if cells else states
    result = task.make(node.kind, inputs, attrs, plain(4), x.via, name=name)
    if states:
        every = _rows(task, result, states, 0, steps) if cells else result
        task.finish(every)
    if last:
        task.finish_as(last, _last(task, result, steps, last))
    if cells:
        row = _rows(task, result, f"{cells}_kept", steps, 1)
        shape = task.shape(row)[1:]
        task.finish_as(cells, task.arranger.reshape(row, shape, node.origin, cells))


def _rows(task: NodeTask, result: LayoutValue, name: str, first: int, count: int) -> LayoutValue:
    cut = SliceAttrs((first, 0, 0, 0), (count, *task.shape(result)[1:]), (1, 1, 1, 1))
    return task.make("Slice", (result.tensor,), cut, plain(4), name=name)


def _check_form(task: NodeTask) -> None:
    node = task.node
    functions = node.attributes.get("activations")
    if node.input(_PEEPHOLES) or "clip" in node.attributes or node.integer("input_forget", 0):
        raise NotComputed("peepholes, clipping and coupled gates are not supported")
    if node.integer("layout", 0) or (functions not in (None, ()) and not _is_standard(task)):
        raise NotComputed("batches first and other activations are not supported")
    lengths = task.constant(_LENGTHS)
    steps = task.shape(task.value(0))[0]
    if node.input(_LENGTHS) and (lengths is None or (lengths.data != steps).any()):
        raise NotComputed("sequences of different lengths are not supported")


def _is_standard(task: NodeTask) -> bool:
    names = task.node.attributes.get("activations")
    standard = _STANDARD[task.node.kind]
    return names in (standard, standard * 2)


def _operand(task: NodeTask, index: int, shape: tuple[int, ...]) -> str:
    """An optional input; zeros where it is absent."""
    if not task.node.input(index):
        zeros = Const(np.zeros(shape, np.float32), "float32")
        return task.store(zeros, (f"{task.node.output}_zeros_{index}", shape)).name
    if task.constant(index) is not None:
        return task.real_parameter(index).name
    return task.in_source_order(index).tensor


def _last(task: NodeTask, states: LayoutValue, steps: int, name: str) -> LayoutValue:
    """The state after the last step: at the end, or at the beginning for what walks back."""
    _, directions, batch, units = task.shape(states)
    parts = []
    for direction in range(directions):
        back = task.node.text("direction", "forward") == Direction.REVERSE or direction == 1
        start = (0 if back else steps - 1, direction, 0, 0)
        cut = SliceAttrs(start, (1, 1, batch, units), (1, 1, 1, 1))
        parts.append(
            task.make("Slice", (states.tensor,), cut, plain(4), name=f"{name}_{direction}")
        )
    whole = parts[0]
    if directions > 1:
        inputs = tuple(part.tensor for part in parts)
        whole = task.make("Concat", inputs, ConcatAttrs(1), plain(4), name=f"{name}_both")
    return task.arranger.reshape(whole, (directions, batch, units), task.node.origin, name)
