"""Channels of an ONNX file: how its nodes treat them, and the edits that give them more."""

from __future__ import annotations

import numpy as np

from npuscope.advice.fix.parts.channelwise_onnx import data_inputs, follow, is_channelwise
from npuscope.advice.fix.parts.pad_region import FRONT, Pads, Region, Role, Step, layout
from npuscope.advice.fix.parts.weights_onnx import LAYERS, OnnxLayer, onnx_layer, title
from npuscope.graph.edit.onnx_document import DEQUANTIZE, QUANTIZE, Node, OnnxDocument
from npuscope.text import safe_terminal


class OnnxChannels:
    """Channels along one axis. Shapes are found before the first edit: finding renews nodes."""

    def __init__(self, document: OnnxDocument, axis: int) -> None:
        self.document = document
        self.axis = axis
        self.shapes = {
            name: document.shape(name) or ()
            for node in document.nodes
            for name in (*node.input, *node.output)
        }
        self._makers = {name: node for node in document.nodes for name in node.output}
        self._readers: dict[str, list[Node]] = {}
        for node in document.nodes:
            for name in dict.fromkeys(node.input):
                self._readers.setdefault(name, []).append(node)
        self._known: dict[int, Step[str]] = {}
        self._layers: dict[int, OnnxLayer] = {}

    def channels(self, tensor: str) -> int:
        shape = self.shapes.get(tensor, ())
        return shape[self.axis] if len(shape) > self.axis else 0

    def maker(self, tensor: str) -> Step[str] | None:
        node = self._makers.get(tensor)
        return None if node is None else self._step(node)

    def readers(self, tensor: str) -> list[Step[str]]:
        return [self._for(self._step(node), tensor) for node in self._readers.get(tensor, ())]

    def is_output(self, tensor: str) -> bool:
        return self.document.is_output(tensor)

    def title(self, tensor: str) -> str:
        return f"'{safe_terminal(tensor)}'"

    def _for(self, step: Step[str], tensor: str) -> Step[str]:
        """A node that reads the tensor as something else than data is foreign to it."""
        if tensor in step.inputs:
            return step
        return Step(step.name, Role.OTHER, (tensor,), step.outputs, step.node)

    def _step(self, node: Node) -> Step[str]:
        if id(node) not in self._known:
            self._known[id(node)] = self._found(node)
        return self._known[id(node)]

    def _found(self, node: Node) -> Step[str]:
        name, outputs = title(node), tuple(node.output)
        if node.op_type in LAYERS:
            return self._layer(node, name)
        if node.op_type == "Concat" and self._is_axis(node, len(self.shapes[outputs[0]])):
            return Step(name, Role.JOIN, tuple(node.input), outputs, node)
        if node.op_type in ("Slice", "Split"):
            ranges = self._slice(node) if node.op_type == "Slice" else self._split(node)
            if ranges is not None:
                return Step(name, Role.SLICE, (node.input[0],), outputs, node, ranges)
        elif is_channelwise(self.document, node, self.axis):
            inputs = self._full(node)
            if inputs:
                return Step(name, Role.APART, inputs, outputs[:1], node)
        return Step(name, Role.OTHER, tuple(node.input), outputs, node)

    def _full(self, node: Node) -> tuple[str, ...]:
        """Data with all channels; empty where an operand has other ones, or is broadcast."""
        count, rank = self.channels(node.output[0]), len(self.shapes[node.output[0]])
        names = data_inputs(self.document, node)
        full = [name for name in names if self.channels(name) == count]
        one = [
            name for name in names if self.channels(name) == 1 and len(self.shapes[name]) == rank
        ]
        return tuple(full) if len(full) + len(one) == len(names) and count > 1 else ()

    def _layer(self, node: Node, name: str) -> Step[str]:
        layer = onnx_layer(self.document, node)
        data, result = (node.input[0],), tuple(node.output)
        if layer is None or layer.channel_axis != self.axis:
            return Step(name, Role.OTHER, data, result, node)
        self._layers[id(node)] = layer
        if layer.is_depthwise:
            return Step(name, Role.APART, data, result, node)
        role = Role.LAYER if layer.groups == 1 else Role.OTHER
        return Step(name, role, data, result, node)

    def _is_axis(self, node: Node, rank: int) -> bool:
        return int(self.document.attribute(node, "axis", 0)) % max(rank, 1) == self.axis

    def _slice(self, node: Node) -> tuple[range, ...] | None:
        """A plain range of channels, all of the rest."""
        values = [self.document.constant(name) if name else None for name in node.input[1:]]
        if len(values) < 3 or any(value is None for value in values[:3]):
            return None
        starts, ends, axes = (np.asarray(value).reshape(-1).tolist() for value in values[:3])
        steps = values[3].reshape(-1).tolist() if len(values) > 3 and values[3] is not None else [1]
        rank = len(self.shapes[node.input[0]])
        if [axis % max(rank, 1) for axis in axes] != [self.axis] or steps != [1]:
            return None
        return (range(*slice(starts[0], ends[0]).indices(self.channels(node.input[0]))),)

    def _split(self, node: Node) -> tuple[range, ...] | None:
        if not self._is_axis(node, len(self.shapes[node.input[0]])):
            return None
        sizes = [self.channels(name) for name in node.output]
        ends = np.cumsum(sizes).tolist()
        return tuple(range(end - size, end) for end, size in zip(ends, sizes, strict=True))

    # editing

    def pad(self, region: Region[str]) -> None:
        for step in region.steps:
            self._pad_step(step, region)
        for tensor, outside in region.cut.items():
            self._cut(tensor, region.pads[tensor], [step.node for step in outside])

    def _pad_step(self, step: Step[str], region: Region[str]) -> None:
        pads, node = region.pads, step.node
        if step.role is Role.LAYER or node.op_type in LAYERS:
            self._pad_layer(step, region)
        elif step.role is Role.APART:
            result = step.outputs[0]
            count, rank = self.channels(result), len(self.shapes[result])
            index = layout(count, pads[result])
            inputs = follow(self.document, node, self.axis, rank, count, index)
            self._set_inputs(node, inputs)
        elif step.role is Role.SLICE:
            self._move_bounds(node, region.bounds[id(node)])

    def _pad_layer(self, step: Step[str], region: Region[str]) -> None:
        layer = self._layers[id(step.node)]
        source, result = step.inputs[0], step.outputs[0]
        depthwise = layer.is_depthwise
        if source in region.pads and not depthwise:
            layer = layer.with_inputs(layout(layer.inputs, region.pads[source]))
        if result in region.pads:
            index = layout(layer.outputs, region.pads[result])
            layer = layer.with_outputs(index)
            if depthwise:
                self.document.set_attribute(step.node, "group", len(index))
        layer.replace_in(self.document)

    def _set_inputs(self, node: Node, inputs: list[str]) -> None:
        for place, name in enumerate(inputs):
            self.document.set_input(node, place, name)

    def _move_bounds(self, node: Node, parts: tuple[range, ...]) -> None:
        document = self.document
        if node.op_type == "Split":
            sizes = np.array([len(part) for part in parts], np.int64)
            if document.opset < 13:
                document.set_attribute(node, "split", sizes.tolist())
                return
            self._drop_attribute(node, "num_outputs")
            document.set_input(node, 1, document.add_constant(f"{node.output[0]}_sizes", sizes))
            return
        for place, bound in ((1, parts[0].start), (2, parts[0].stop)):
            name = document.add_constant(node.input[place], np.array([bound], np.int64))
            document.set_input(node, place, name)
        self._same_integers(node)

    def _same_integers(self, node: Node) -> None:
        """Bounds, axes and steps of a Slice have one type."""
        for place in range(3, len(node.input)):
            values = self.document.constant(node.input[place]) if node.input[place] else None
            if values is not None and values.dtype != np.int64:
                name = self.document.add_constant(node.input[place], values.astype(np.int64))
                self.document.set_input(node, place, name)

    def _drop_attribute(self, node: Node, name: str) -> None:
        kept = [item for item in node.attribute if item.name != name]
        del node.attribute[:]
        node.attribute.extend(kept)

    def _cut(self, tensor: str, pads: Pads, outside: list[Node]) -> None:
        """The padded tensor gets another name; the old name stands for its old channels."""
        document, maker = self.document, self._makers[tensor]
        padded = document.fresh(f"{tensor}_padded")
        maker.output[[*maker.output].index(tensor)] = padded
        inside = [n for n in document.readers(tensor) if not any(n is other for other in outside)]
        document.rewire(tensor, padded, inside)
        first = pads.get(FRONT, 0)
        bounds = (first, first + self.channels(tensor), self.axis)
        names = ("starts", "ends", "axes")
        constants = [
            document.add_constant(f"{tensor}_{name}", np.array([bound], np.int64))
            for name, bound in zip(names, bounds, strict=True)
        ]
        if maker.op_type != DEQUANTIZE:
            document.add_node("Slice", [padded, *constants], tensor)
            return
        sliced, whole = document.fresh(f"{tensor}_sliced"), document.fresh(f"{tensor}_whole")
        document.add_node("Slice", [padded, *constants], sliced)
        document.add_node(QUANTIZE, [sliced, *maker.input[1:]], whole)
        document.add_node(DEQUANTIZE, [whole, *maker.input[1:]], tensor)
