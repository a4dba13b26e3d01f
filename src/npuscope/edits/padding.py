"""More channels: how the ops of a file treat channels along one axis, and the edits that give a
region of them new channels of zeros, or a layer some of its channels a second time."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npuscope.edits.document import Document, FileConstants
from npuscope.edits.places import axes_of, axis_of_channels
from npuscope.edits.records import (
    DEPTHWISE,
    LAYERS,
    NEW,
    Constant,
    FileLayer,
    NotFitting,
    Op,
    Value,
)
from npuscope.edits.regions import (
    FRONT,
    ChannelOp,
    ChannelRegion,
    ChannelRole,
    Unjoined,
    find_region,
    layout,
)
from npuscope.edits.steps import PAIR, dequantizer, in_steps_of
from npuscope.files.file_graph import KIND_ROWS, kinds_having
from npuscope.ops.table import OPS
from npuscope.ops.traits import Trait
from npuscope.text import safe_terminal

# Ops that work on each channel apart, and their constants by channel.

_APART = kinds_having(Trait.KEEPS_CHANNELS) - kinds_having(Trait.SINGULAR)
POINTWISE = {"Identity"} | _APART & kinds_having(Trait.ELEMENTWISE) - {*PAIR}
_VIEWS = tuple(OPS["Reshape"].onnx)
_GLOBAL = ("GlobalAveragePool", "GlobalMaxPool")  # reductions that always keep the channels
_INTEGER_POOLS = ("QLinearAveragePool", "QLinearGlobalAveragePool")
_INTEGER = ("QLinearAdd", "QLinearMul")  # constants of theirs have scales beside them
# Data inputs; what is not named here are scales, bounds and the like.
_DATA: dict[str, Sequence[int]] = {
    **{kind: range(KIND_ROWS[kind].least) for kind in _APART},
    **dict.fromkeys((*_VIEWS, *_INTEGER_POOLS, "QLinearSigmoid", "QLinearLeakyRelu"), (0,)),
    **dict.fromkeys(_INTEGER, (0, 3)),
}


def is_channelwise(graph: FileConstants, op: Op, axis: int) -> bool:
    """Channels along `axis` do not meet in this op, and its other inputs can follow them."""
    kind, inputs = graph.kind(op), graph.inputs(op)
    if kind not in _DATA:
        return False
    if kind in PAIR:
        scale = graph.values(inputs[1]) if graph.steps_are_nodes else np.ones(1)
        return scale is not None and scale.size == 1
    if kind == "Resize":
        return len(inputs) < 4 or graph.constant(inputs[3]) is not None
    if kind in ("Pad", "MirrorPad"):
        amounts = graph.values(inputs[1])
        return not graph.channels_first and amounts is not None and not amounts[-1].any()
    if kind in kinds_having(Trait.REDUCES) and kind not in _GLOBAL:
        # A reduction over other axes leaves the channels where they are.
        shape, axes = graph.shape(graph.inputs(op)[0]), axes_of(graph, op)
        if not axes or shape is None:
            return False
        reduced = [axis % len(shape) for axis in axes]
        return min(reduced) > axis if graph.channels_first else len(shape) - 1 not in reduced
    if kind in _VIEWS:
        return _keeps_place(graph, op)
    if kind in _INTEGER_POOLS:
        return not graph.attribute(op, "channels_last", 0)
    return all(_follows(graph, op, place) for place in _DATA[kind])


def _keeps_place(graph: FileConstants, op: Op) -> bool:
    """Other axes change, but not how many elements stand before and behind the channels."""
    inputs = graph.inputs(op)
    before, after = graph.shape(inputs[0]), graph.shape(graph.outputs(op)[0])
    if not before or not after:
        return False
    old, new = (axis_of_channels(graph, len(shape)) for shape in (before, after))
    if min(len(before) - old, len(after) - new) < 1:
        return False
    if graph.kind(op) == "Reshape" and any(graph.constant(v) is None for v in inputs[1:2]):
        return False
    same = before[old] == after[new] and prod(before[:old]) == prod(after[:new])
    return same and prod(before) == prod(after)


def _follows(graph: FileConstants, op: Op, place: int) -> bool:
    """A constant operand must be one that can be cut or padded by channel."""
    if graph.constant(graph.inputs(op)[place]) is None:
        return True
    return graph.kind(op) not in _INTEGER and graph.shape(graph.outputs(op)[0]) is not None


def computed_data(graph: FileConstants, op: Op) -> list[Value]:
    """Data inputs that are computed; each has the channels of the result."""
    inputs = graph.inputs(op)
    values = [inputs[place] for place in _DATA[graph.kind(op)]]
    return [value for value in values if graph.constant(value) is None]


def follow(
    graph: FileConstants, op: Op, axis: int, rank: int, count: int, index: Sequence[int]
) -> list[Value]:
    """Inputs of an op for other channels: constants that differ by channel are picked.

    `axis` and `rank` are those of its result.
    """
    inputs, kind = [*graph.inputs(op)], graph.kind(op)
    for place in _DATA[kind] if kind in POINTWISE else ():
        constant = graph.constant(inputs[place])
        along = None if constant is None else _axis_in(constant, axis - rank, count)
        if constant is not None and along is not None:
            inputs[place] = graph.store(constant.picked(index, along))
    return inputs


def _axis_in(constant: Constant, from_end: int, count: int) -> int | None:
    """The constant's axis of channels; None where it is the same for all of them."""
    rank = constant.values.ndim
    if rank + from_end < 0 or constant.values.shape[from_end] != count or count == 1:
        return None
    return rank + from_end


_SLICES = ("Slice", "StridedSlice", "Split")


class Channels:
    """Channels along one axis of ONNX tensors, or the last one of TFLite's. Shapes are those
    before the edit."""

    def __init__(self, document: Document, axis: int) -> None:
        self.document = document
        self.axis = axis
        self.shapes: dict[Value, tuple[int, ...]] = {}
        self._makers: dict[Value, Op] = {}
        self._readers: dict[Value, list[Op]] = {}
        self._steps: dict[int, ChannelOp[Value]] = {}
        self._layers: dict[int, FileLayer] = {}
        for op in document.nodes:
            self._makers |= dict.fromkeys(document.outputs(op), op)
            inputs = dict.fromkeys(v for v in document.inputs(op) if v is not None)
            for value in (*inputs, *document.outputs(op)):
                self.shapes[value] = document.shape(value) or ()
            for value in inputs:
                self._readers.setdefault(value, []).append(op)

    def _axis(self, rank: int) -> int:
        return self.axis if self.document.channels_first else rank - 1

    def channels(self, tensor: Value) -> int:
        shape = self.shapes.get(tensor, ())
        axis = self._axis(len(shape))
        return shape[axis] if 0 <= axis < len(shape) else 0

    def maker(self, tensor: Value) -> ChannelOp[Value] | None:
        op = self._makers.get(tensor)
        return None if op is None else self._step(op)

    def readers(self, tensor: Value) -> list[ChannelOp[Value]]:
        """One that reads the tensor as something else than data is foreign to it."""
        steps = [self._step(op) for op in self._readers.get(tensor, ())]
        return [
            step
            if tensor in step.inputs
            else ChannelOp(step.name, ChannelRole.OTHER, (tensor,), step.outputs, step.node)
            for step in steps
        ]

    def is_output(self, tensor: Value) -> bool:
        return tensor in self.document.network_outputs

    def title(self, tensor: Value) -> str:
        return f"'{safe_terminal(self.document.name(tensor))}'"

    def _step(self, op: Op) -> ChannelOp[Value]:
        if id(op) not in self._steps:
            self._steps[id(op)] = self._channel_op(op)
        return self._steps[id(op)]

    def _channel_op(self, op: Op) -> ChannelOp[Value]:
        document, kind = self.document, self.document.kind(op)
        name, outputs = document.title(op), tuple(document.outputs(op))
        inputs = tuple(value for value in document.inputs(op) if value is not None)
        rank = len(self.shapes[outputs[0]])
        axis = self._axis(rank)
        if kind in (*LAYERS, DEPTHWISE):
            return ChannelOp(name, self._layer_role(op), inputs[:1], outputs, op)
        if kind == "Concat" and document.attribute(op, "axis", 0) % max(rank, 1) == axis:
            return ChannelOp(name, ChannelRole.JOIN, inputs, outputs, op)
        if kind in _SLICES:
            picks = document.picks(op, axis)
            if picks is not None:
                even = kind == "Split" and not document.channels_first  # a SPLIT has no sizes
                return ChannelOp(name, ChannelRole.SLICE, (picks[0],), outputs, op, picks[1], even)
        elif is_channelwise(document, op, axis):
            full = self._full(op, rank)
            if full:
                return ChannelOp(name, ChannelRole.APART, full, outputs[:1], op)
        return ChannelOp(name, ChannelRole.OTHER, inputs, outputs, op)

    def _layer_role(self, op: Op) -> ChannelRole:
        layer = self.document.layer(op)
        data, result = self.document.inputs(op)[0], self.document.outputs(op)[0]
        if layer is None or layer.channel_axis != self._axis(len(self.shapes[result])):
            return ChannelRole.OTHER
        if self.channels(data) not in (0, layer.inputs):
            return ChannelRole.OTHER
        self._layers[id(op)] = layer
        if layer.is_depthwise:
            return ChannelRole.APART
        return ChannelRole.LAYER if layer.is_dense else ChannelRole.OTHER

    def _full(self, op: Op, rank: int) -> tuple[Value, ...]:
        """Data with all channels; empty where an operand has other ones, or is broadcast."""
        values, count = (
            computed_data(self.document, op),
            self.channels(self.document.outputs(op)[0]),
        )
        full = [value for value in values if self.channels(value) == count]
        last = not self.document.channels_first
        one = [v for v in values if self.channels(v) == 1 and (last or len(self.shapes[v]) == rank)]
        return tuple(full) if len(full) + len(one) == len(values) and count > 1 else ()

    # editing

    def pad(self, region: ChannelRegion[Value]) -> None:
        for step in region.steps:
            self._pad_step(step, region)
        for tensor, pads in region.pads.items():
            shape = self.shapes[tensor]
            axis, count = self._axis(len(shape)), self.channels(tensor) + sum(pads.values())
            self.document.state(tensor, shape=(*shape[:axis], count, *shape[axis + 1 :]))
        for tensor, outside in region.cut.items():
            self._cut(tensor, region.pads[tensor].get(FRONT, 0), [step.node for step in outside])

    def _pad_step(self, step: ChannelOp[Value], region: ChannelRegion[Value]) -> None:
        document, op, pads = self.document, step.node, region.pads
        if id(op) in self._layers:
            layer = self._layers[id(op)]
            source, result_pads = pads.get(step.inputs[0]), pads.get(step.outputs[0])
            inputs, outputs = layer.inputs, layer.outputs
            if source and not layer.is_depthwise:
                layer = layer.with_inputs(layout(inputs, source))
            if result_pads:
                layer = layer.with_outputs(layout(outputs, result_pads))
            document.set_layer(layer)
        elif step.role is ChannelRole.APART:
            result = step.outputs[0]
            count, rank = self.channels(result), len(self.shapes[result])
            index, axis = layout(count, pads[result]), self._axis(rank)
            for place, value in enumerate(follow(document, op, axis, rank, count, index)):
                document.set_input(op, place, value)
            document.set_channels(op, axis, len(index))
        elif step.role is ChannelRole.SLICE:
            axis = self._axis(len(self.shapes[step.inputs[0]]))
            document.set_picks(op, axis, region.bounds[id(op)])

    def _cut(self, tensor: Value, first: int, outside: list[Op]) -> None:
        """The padded tensor gets another name; the old one stands for its old channels, which
        readers outside of the region want."""
        document, maker, old = self.document, self._makers[tensor], self.shapes[tensor]
        name, shape = document.name(tensor), document.shape(tensor) or ()
        inside = [op for op in document.readers(tensor) if not any(op is o for o in outside)]
        padded = document.new_tensor(f"{name}_padded", shape, tensor)
        document.state(tensor, shape=old)
        document.set_output(maker, tensor, padded)
        document.rewire(tensor, padded, inside)
        part = range(first, first + self.channels(tensor))
        bounds = document.bounds(name, padded, self._axis(len(old)), part)
        if not document.steps_are_nodes or document.kind(maker) != "Dequantize":
            document.insert("Slice", (padded, *bounds), tensor)
            return
        sliced = document.new_tensor(f"{name}_sliced", (), tensor)
        document.insert("Slice", (padded, *bounds), sliced)
        in_steps_of(document, maker, sliced, tensor, f"{name}_whole")


def sliced_channels(
    document: Document, tensor: Value, axis: int, parts: Sequence[range], reader: Op
) -> list[Value]:
    """Some channels each, quantized as the maker's data are."""
    maker = _float_maker(document, tensor, reader)
    return [_channels(document, tensor, axis, part, maker) for part in parts]


def _float_maker(document: Document, tensor: Value, reader: Op) -> Op | None:
    """What dequantizes a tensor of floats; None where the reader takes integers."""
    if not document.steps_are_nodes or document.kind(reader).startswith("Q"):
        return None
    maker = dequantizer(document, tensor)
    if maker is None:
        raise NotFitting(f"'{safe_terminal(document.name(tensor))}' is not quantized")
    return maker


def _channels(document: Document, tensor: Value, axis: int, part: range, maker: Op | None) -> Value:
    name, shape = document.name(tensor), document.shape(tensor) or ()
    bounds = document.bounds(name, tensor, axis, part)
    sizes = (*shape[:axis], len(part), *shape[axis + 1 :])
    some = document.new_tensor(f"{name}_from{part.start}", sizes, tensor)
    document.insert("Slice", (tensor, *bounds), some)
    return _as_made(document, maker, some)


def _as_made(document: Document, maker: Op | None, tensor: Value) -> Value:
    if maker is None:
        return tensor
    real = document.new_tensor(f"{document.name(tensor)}_real", (), tensor)
    in_steps_of(document, maker, tensor, real, f"{document.name(tensor)}_whole")
    return real


def pad_tensor(document: Document, tensor: Value, axis: int, new: int) -> None:
    """So many channels of zeros more, in all that shares them: behind the old ones; in front of
    them where a slice has room only there; up to the joins where what is behind them cannot do
    with more."""
    view = Channels(document, axis)
    behind, front = {view.channels(tensor) - 1: new}, {FRONT: new}
    misfits = []
    for look, pads in ((view, behind), (view, front), (Unjoined(view), behind)):
        try:
            region = find_region(look, tensor, pads)
        except NotFitting as misfit:
            misfits.append(misfit)
        else:
            view.pad(region)
            return
    raise misfits[0]


def _reads_along(layer: FileLayer, shape: Sequence[int], axis: int) -> bool:
    """A matrix takes the last axis, whatever the channels of a convolution beside it are."""
    of_axis = layer.weights.values.ndim > 2 or axis == len(shape) - 1
    return of_axis and layer.inputs == shape[axis]


def repeat_channels(document: Document, tensor: Value, axis: int, new: int) -> None:
    """All dense layers that read the tensor read a wider one: its first and its last channels,
    which overlap in the middle.

    The layers have weights of zeros for what comes twice. Copies of what is there cost less than
    a constant, which the CPU would have to join, and older compilers join equal parts alone.
    """
    shape, name = document.shape(tensor), document.name(tensor)
    readers = [document.layer(op) for op in document.readers(tensor)]
    layers = [one for one in readers if one and one.is_dense]
    layers = [one for one in layers if document.inputs(one.op)[0] == tensor]
    if shape is not None:
        layers = [one for one in layers if _reads_along(one, shape, axis)]
    if not layers or shape is None or new > shape[axis] or (shape[axis] + new) % 2:
        raise NotFitting(f"no layer could read copies of channels of '{safe_terminal(name)}'")
    count, half = shape[axis], (shape[axis] + new) // 2
    maker = _float_maker(document, tensor, layers[0].op)
    parts = range(half), range(count - half, count)
    halves = [_channels(document, tensor, axis, part, maker) for part in parts]
    sizes = (*shape[:axis], count + new, *shape[axis + 1 :])
    wide = document.new_tensor(f"{name}_wide", sizes, tensor)
    document.insert("Concat", halves, wide, axis=axis)
    wide = _as_made(document, maker, wide)
    for layer in layers:
        document.set_layer(layer.with_inputs([*range(half), *[NEW] * new, *range(half, count)]))
        document.set_input(layer.op, 0, wide)
