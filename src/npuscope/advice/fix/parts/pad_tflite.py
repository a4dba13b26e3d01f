"""Channels of a TFLite file: how its ops treat them, and the edits that give them more."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.parts.pad_region import FRONT, Pads, Region, Role, Step, layout
from npuscope.advice.fix.parts.weights_tflite import (
    DEPTHWISE,
    LAYERS,
    picked_tensor,
    tflite_layer,
)
from npuscope.graph.edit.tflite_document import EditOp, EditTensor, TfliteDocument
from npuscope.graph.edit.tflite_records import Record
from npuscope.text import safe_terminal

_ONE_INPUT = (
    "RELU",
    "RELU6",
    "RELU_N1_TO_1",
    "LEAKY_RELU",
    "ELU",
    "LOGISTIC",
    "TANH",
    "HARD_SWISH",
    "QUANTIZE",
    "DEQUANTIZE",
    "MAX_POOL_2D",
    "AVERAGE_POOL_2D",
    "RESIZE_NEAREST_NEIGHBOR",
    "RESIZE_BILINEAR",
)
_TWO_INPUTS = ("ADD", "SUB", "MUL", "MAXIMUM", "MINIMUM", "PRELU")
_SLICES = ("SLICE", "STRIDED_SLICE", "SPLIT")


class TfliteChannels:
    """Channels are the last axis of every tensor."""

    def __init__(self, document: TfliteDocument) -> None:
        self.document = document
        self._makers = {tensor: op for op in document.ops for tensor in op.outputs}
        self._readers: dict[EditTensor, list[EditOp]] = {}
        for op in document.ops:
            for tensor in dict.fromkeys(t for t in op.inputs if t is not None):
                self._readers.setdefault(tensor, []).append(op)
        self._known: dict[EditOp, Step[EditTensor]] = {}

    def channels(self, tensor: EditTensor) -> int:
        return tensor.shape[-1] if tensor.shape else 0

    def maker(self, tensor: EditTensor) -> Step[EditTensor] | None:
        op = self._makers.get(tensor)
        return None if op is None else self._step(op)

    def readers(self, tensor: EditTensor) -> list[Step[EditTensor]]:
        return [self._for(self._step(op), tensor) for op in self._readers.get(tensor, ())]

    def is_output(self, tensor: EditTensor) -> bool:
        return self.document.is_output(tensor)

    def title(self, tensor: EditTensor) -> str:
        return f"'{safe_terminal(tensor.name)}'"

    def _for(self, step: Step[EditTensor], tensor: EditTensor) -> Step[EditTensor]:
        """An op that reads the tensor as something else than data is foreign to it."""
        if tensor in step.inputs:
            return step
        return Step(step.name, Role.OTHER, (tensor,), step.outputs, step.node)

    def _step(self, op: EditOp) -> Step[EditTensor]:
        if op not in self._known:
            role, inputs, ranges = self._found(op)
            name = op.origin or f"{op.kind}:{self.title(op.outputs[0])}"
            even = op.kind == "SPLIT"
            self._known[op] = Step(name, role, inputs, tuple(op.outputs), op, ranges, even)
        return self._known[op]

    def _found(self, op: EditOp) -> tuple[Role, tuple[EditTensor, ...], tuple[range, ...]]:
        data = tuple(tensor for tensor in op.inputs if tensor is not None)
        if op.kind in (*LAYERS, DEPTHWISE):
            return self._layer_role(op), data[:1], ()
        if op.kind in _SLICES:
            ranges = _ranges(op)
            source = data[1:2] if op.kind == "SPLIT" else data[:1]
            return (Role.SLICE if ranges else Role.OTHER), source, ranges
        rank = len(op.outputs[0].shape)
        if op.kind == "CONCATENATION":
            last = op.option("Axis") % rank == rank - 1
            return (Role.JOIN if last else Role.OTHER), data, ()
        full = self._full(op, data)
        return (Role.APART if full else Role.OTHER), full or data, ()

    def _layer_role(self, op: EditOp) -> Role:
        layer = tflite_layer(op)
        data, result = op.inputs[0], op.outputs[0]
        if layer is None or data is None or data.shape[-1] != layer.inputs:
            return Role.OTHER
        if layer.is_depthwise:
            return Role.APART if layer.outputs == layer.inputs else Role.OTHER
        return Role.LAYER if layer.groups == 1 and result.shape[-1] == layer.outputs else Role.OTHER

    def _full(self, op: EditOp, data: tuple[EditTensor, ...]) -> tuple[EditTensor, ...]:
        """Data with all channels; empty where channels meet, or an operand has other ones."""
        count, rank = self.channels(op.outputs[0]), len(op.outputs[0].shape)
        if count < 2 or not data:
            return ()
        if op.kind in _ONE_INPUT:
            return data[:1]
        if op.kind == "RESHAPE":
            same = data[0].shape[-1:] == (count,) and all(t.data is not None for t in data[1:])
            return data[:1] if same else ()
        if op.kind == "MEAN":
            axes = data[1].data if len(data) > 1 else None
            inner = len(data[0].shape) - 1
            return () if axes is None or inner in axes % (inner + 1) else data[:1]
        if op.kind in ("PAD", "PADV2"):
            amounts = data[1].data if len(data) > 1 else None
            return () if amounts is None or amounts[-1].any() else data[:1]
        if op.kind not in _TWO_INPUTS:
            return ()
        made = [tensor for tensor in data if tensor.data is None]
        full = [t for t in made if self.channels(t) == count and len(t.shape) == rank]
        one = [t for t in made if self.channels(t) == 1]
        return tuple(full) if len(full) + len(one) == len(made) else ()

    # editing

    def pad(self, region: Region[EditTensor]) -> None:
        for step in region.steps:
            self._pad_step(step, region)
        cut = {tensor: tensor.shape for tensor in region.cut}
        counts = {tensor: self.channels(tensor) for tensor in region.pads}
        for tensor, pads in region.pads.items():
            tensor.shape = (*tensor.shape[:-1], counts[tensor] + sum(pads.values()))
        for tensor, outside in region.cut.items():
            first = region.pads[tensor].get(FRONT, 0)
            self._cut(tensor, cut[tensor], first, [step.node for step in outside])

    def _pad_step(self, step: Step[EditTensor], region: Region[EditTensor]) -> None:
        op, pads = step.node, region.pads
        if op.kind in (*LAYERS, DEPTHWISE):
            self._pad_layer(op, pads.get(step.inputs[0]), pads.get(step.outputs[0]))
        elif step.role is Role.APART:
            count = self.channels(step.outputs[0])
            index = layout(count, pads[step.outputs[0]])
            if op.kind == "RESHAPE":
                self._reshape(op, len(index))
            elif op.kind in _TWO_INPUTS:
                op.inputs = [self._constant(tensor, count, index) for tensor in op.inputs]
        elif step.role is Role.SLICE:
            self._move_bounds(op, region.bounds[id(op)][0])

    def _reshape(self, op: EditOp, count: int) -> None:
        """The shape stands in the options, in a constant, or in both."""
        shape = np.array([*op.outputs[0].shape[:-1], count], np.int32)
        op.options = Record("ReshapeOptions", {"NewShape": shape})
        if op.input(1) is not None:
            name = f"{op.outputs[0].name}_shape"
            held = self.document.add_tensor(name, "INT32", (len(shape),), None, shape)
            op.inputs = [op.inputs[0], held]

    def _constant(
        self, tensor: EditTensor | None, count: int, index: list[int]
    ) -> EditTensor | None:
        """An operand that differs by channel."""
        if tensor is None or tensor.data is None or self.channels(tensor) != count:
            return tensor
        return picked_tensor(self.document, tensor, index, -1)

    def _pad_layer(self, op: EditOp, source: Pads | None, result: Pads | None) -> None:
        layer = tflite_layer(op)
        assert layer is not None
        inputs, outputs = layer.inputs, layer.outputs
        if source and not layer.is_depthwise:
            layer = layer.with_inputs(self.document, layout(inputs, source))
        if result:
            layer = layer.with_outputs(self.document, layout(outputs, result))
        layer.replace_in()

    def _move_bounds(self, op: EditOp, part: range) -> None:
        """The equal parts of a SPLIT need nothing."""
        if op.kind == "SPLIT":
            return
        for place, bound in ((1, part.start), (2, len(part) if op.kind == "SLICE" else part.stop)):
            old = op.inputs[place]
            assert old is not None and old.data is not None
            data = old.data.copy()
            data[-1] = bound
            op.inputs[place] = self.document.add_tensor(old.name, old.type, old.shape, None, data)
        if op.kind == "STRIDED_SLICE" and op.options is not None:
            # A mask would overrule the bounds.
            others = ~(1 << (len(op.outputs[0].shape) - 1))
            op.options = op.options.copy()
            for mask in ("BeginMask", "EndMask"):
                op.options.fields[mask] = op.option(mask) & others

    def _cut(
        self, tensor: EditTensor, shape: tuple[int, ...], first: int, outside: list[EditOp]
    ) -> None:
        """Readers outside of the region get a tensor with the old channels."""
        document = self.document
        padded = document.add_tensor(f"{tensor.name}_padded", tensor.type, tensor.shape)
        padded.quant = tensor.quant
        tensor.shape = shape
        inside = [op for op in document.readers(tensor) if op not in outside]
        document.rewire(tensor, padded, inside)
        maker = self._makers[tensor]
        maker.outputs = [padded if made is tensor else made for made in maker.outputs]
        bounds = ([*[0] * (len(shape) - 1), first], [*shape])
        begin, size = (
            document.add_tensor(
                f"{tensor.name}_{name}", "INT32", (len(shape),), None, np.array(values, np.int32)
            )
            for name, values in zip(("begin", "size"), bounds, strict=True)
        )
        document.add_op("SLICE", [padded, begin, size], [tensor], Record("SliceOptions"), 2)


def _ranges(op: EditOp) -> tuple[range, ...]:
    """Channels that a slice takes; empty where it takes them otherwise than as a plain range."""
    source, rank = op.inputs[1 if op.kind == "SPLIT" else 0], len(op.outputs[0].shape)
    if source is None or not source.shape or len(source.shape) != rank:
        return ()
    if op.kind == "SPLIT":
        return _split_ranges(op, source.shape)
    constants = [tensor.data if tensor is not None else None for tensor in op.inputs[1:]]
    if any(values is None for values in constants):
        return ()
    first, second = (int(values[-1]) for values in constants[:2] if values is not None)
    if op.outputs[0].shape[:-1] != source.shape[:-1]:
        return ()
    count = source.shape[-1]
    if op.kind == "SLICE":
        return (range(first, count if second < 0 else first + second),)
    return _strided_range(op, rank, count, (first, second), constants[2])


def _strided_range(
    op: EditOp, rank: int, count: int, bounds: tuple[int, int], steps: np.ndarray | None
) -> tuple[range, ...]:
    flags = ("EllipsisMask", "NewAxisMask", "ShrinkAxisMask")
    if steps is None or int(steps[-1]) != 1 or any(op.option(flag) for flag in flags):
        return ()
    last = 1 << (rank - 1)
    first = None if op.option("BeginMask") & last else bounds[0]
    end = None if op.option("EndMask") & last else bounds[1]
    return (range(*slice(first, end).indices(count)),)


def _split_ranges(op: EditOp, shape: tuple[int, ...]) -> tuple[range, ...]:
    axis = op.inputs[0].data if op.inputs[0] is not None else None
    if axis is None or int(axis.reshape(-1)[0]) % len(shape) != len(shape) - 1:
        return ()
    size = shape[-1] // len(op.outputs)
    return tuple(range(n * size, (n + 1) * size) for n in range(len(op.outputs)))
