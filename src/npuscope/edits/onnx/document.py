"""An .onnx file as a document: float ops made integer, layers in parts, chains of moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from npuscope.edits.document import Document
from npuscope.edits.numbers import symmetric_steps
from npuscope.edits.onnx.border import OnnxBorder
from npuscope.edits.onnx.quantizers import PAIR
from npuscope.edits.padding import POINTWISE, computed_data, follow, is_channelwise
from npuscope.edits.records import HIGHEST, Constant, Layer, NotFitting, QuantSteps
from npuscope.files.onnx.file_graph import DEQUANTIZE, QUANTIZE, Node

_PER_CHANNEL = 13  # opset in which DequantizeLinear learned scales per channel
_RAISED_FROM = 11  # older files differ in Clip, Pad, Resize and more
# Attributes that became inputs, by op: (attribute, place).
_MOVED = {
    "Squeeze": ("axes", 1),
    "Unsqueeze": ("axes", 1),
    "ReduceSum": ("axes", 1),
    "Split": ("split", 1),
}
_REDEFINED = ("Softmax", "LogSoftmax", "Hardmax", "Dropout")
Around = tuple[Node, Node]


class OnnxDocument(OnnxBorder, Document):
    """All primitives of a document."""

    depthwise = ("Conv", "QLinearConv")
    mixes_signs = True
    binds_clamps = True

    # layers in parts

    def layer_part(self, layer: Layer, channels: Sequence[int]) -> str:
        """A part must be quantized before it is joined, for compilers look for the Quantize at
        the layer: what stands between is made for each part."""
        tail = self._tail(layer)
        rank = len(self.shape(layer.op.output[0]) or ()) or layer.channel_axis + 1
        tensor = self._part(layer.op, self.layer_inputs(layer.with_outputs(channels)))
        for before, node in pairwise([layer.op, *tail]):
            rows = follow(self, node, layer.channel_axis, rank, layer.outputs, channels)
            inputs = [tensor if name == before.output[0] else name or "" for name in rows]
            tensor = self._part(node, inputs)
        if not tail:
            return tensor
        result = self.fresh(f"{tensor}_real")
        self.add_node(DEQUANTIZE, [tensor, *tail[-1].input[1:]], result)
        return result

    def _part(self, node: Node, inputs: list[str]) -> str:
        result = self.fresh(f"{node.output[0]}_part")
        self.again(node, inputs, result)
        return result

    def join_parts(self, layer: Layer, parts: Sequence[str]) -> None:
        tail = self._tail(layer)
        last = tail[-2] if len(tail) > 1 else layer.op  # what the Quantize reads
        joined = self.fresh(f"{last.output[0]}_joined")
        self.add_node("Concat", parts, joined, axis=layer.channel_axis)
        self.rewire(last.output[0], joined)
        self.remove(last)

    def _tail(self, layer: Layer) -> list[Node]:
        """Nodes behind a layer of floats up to its QuantizeLinear; none where there is more."""
        chain: list[Node] = []
        tensor = layer.op.output[0]
        while not layer.op.op_type.startswith("Q") and not self.is_output(tensor):
            readers = self.readers(tensor)
            if len(readers) != 1 or self.kind(readers[0]) not in (*POINTWISE, "Quantize"):
                return []
            node = readers[0]
            plain = is_channelwise(self, node, layer.channel_axis)
            if not plain or computed_data(self, node) != [tensor]:
                return []
            chain.append(node)
            if node.op_type == QUANTIZE:
                return chain
            tensor = node.output[0]
        return []

    # chains of moves

    def bypass(self, first: Node, last: Node, source: str, chain: Sequence[Node]) -> None:
        """What stands between two moves works on what the first one reads; the moves go."""
        result = last.output[0]
        if not chain:
            self.replace(result, source)
            return
        self.rewire(first.output[0], source, [chain[0]])
        self.rewire(result, chain[-1].output[0])
        for node in (chain[0], chain[-1], *self.readers(chain[-1].output[0])):
            self._join(node)

    def _join(self, node: Node) -> None:
        """A QuantizeLinear right behind a DequantizeLinear of the same steps does nothing."""
        maker = self.producer(node.input[0])
        if node.op_type != QUANTIZE or maker is None or maker.op_type != DEQUANTIZE:
            return
        if self._alike(maker, node) and not self.is_output(node.output[0]):
            self.rewire(node.output[0], maker.input[0])

    def _alike(self, one: Node, other: Node) -> bool:
        first, second = self.quant(one), self.quant(other)
        if first.zero_point.dtype != second.zero_point.dtype:
            return False
        alike = np.array_equal(first.scale, second.scale)
        return alike and np.array_equal(first.zero_point, second.zero_point)

    def reshapes_around(self, op: Node) -> Around | None:
        """With nothing but quantization between, and no other reader."""
        above = self._walk(op, up=True)
        below = self._walk(op, up=False)
        return (above[-1], below[-1]) if above and below else None

    def _walk(self, op: Node, up: bool) -> list[Node]:
        """What is passed on the way to a Reshape, which comes last; empty where there is none."""
        passed: list[Node] = []
        tensor = op.input[0] if up else op.output[0]
        while not self.is_output(tensor) and len(self.readers(tensor)) == 1:
            node = self.producer(tensor) if up else self.readers(tensor)[0]
            if node is None:
                return []
            passed.append(node)
            if node.op_type == "Reshape":
                return passed
            if node.op_type not in PAIR:
                return []
            tensor = node.input[0] if up else node.output[0]
        return []

    def shuffled_steps(self, op: Node, around: Around) -> QuantSteps:
        maker = self.dequantizer(around[0].input[0])
        if maker is None:
            raise NotFitting(f"the data of {self.title(op)} are not quantized")
        between = (*self._walk(op, up=True)[:-1], *self._walk(op, up=False)[:-1])
        if not all(self._alike(maker, other) for other in between):
            raise NotFitting(f"the data of {self.title(op)} are requantized on the way")
        return self.node_steps(maker)

    def shuffle_instead(self, op: Node, around: Around, kernel: np.ndarray, scale: float) -> Node:
        source, result = around[0].input[0], around[1].output[0]
        weights, step = kernel[:, :, np.newaxis, np.newaxis], np.array(scale, np.float32)
        held = self.store(Constant(f"{result}_shuffle", weights, step, np.array(0, np.int8)))
        self.remove(around[1])
        self.remove(op)
        layer = self.add_node("Conv", [source, held], result, name=op.name or "shuffle")
        readers = self.readers(result)
        if len(readers) == 1 and readers[0].op_type == QUANTIZE and not self.is_output(result):
            return layer
        plain = self.fresh(f"{result}_shuffled")
        layer.output[0] = plain
        maker = self.dequantizer(source)
        assert maker is not None  # shuffled_steps looked
        self.in_steps_of(maker, plain, result, f"{result}_whole")
        return layer

    # float ops made integer

    def result_steps(self, tensor: str) -> QuantSteps:
        found = self.steps_behind(tensor)
        if found is None:
            raise NotFitting(f"'{tensor}' is not quantized")
        return found

    def float_ops(self, ops: Sequence[Node]) -> list[Node]:
        return [node for node in self.nodes if any(node is op for op in ops)]

    def can_be_integer(self, op: Node, kinds: Sequence[str]) -> bool:
        return self.kind(op) in kinds

    def check_slopes(self, op: Node) -> None:
        slopes = op.input[1]
        if self.dequantizer(slopes) is not None:
            raise NotFitting(f"the slopes '{slopes}' are already quantized")
        if self.array(slopes) is None:
            raise NotFitting(f"the slopes '{slopes}' are computed")

    def kernel_fixes_steps(self, op: Node) -> bool:
        return False

    def float_steps(self, tensor: str) -> QuantSteps | None:
        return None if self.dequantizer(tensor) is None else self.steps(tensor)

    def is_stepped(self, tensor: str) -> bool:
        readers = self.readers(tensor)
        integers = bool(readers) and all(node.op_type == QUANTIZE for node in readers)
        return integers and not self.is_output(tensor)

    def quantize_results(self, ops: Sequence[Node], results: Mapping[str, QuantSteps]) -> None:
        for tensor, steps in results.items():
            self.insert_pair(tensor, steps)

    def quantize_constant(self, op: Node, place: int) -> None:
        values = self.array(op.input[place])
        assert values is not None
        if op.op_type == "PRelu":
            self._quantize_slopes(op, values)
            return
        steps, scale = symmetric_steps(values)
        self._set_steps(op, place, steps, np.array(scale))

    def _quantize_slopes(self, op: Node, slopes: np.ndarray) -> None:
        """A scale per channel keeps each as it is; a single one rounds most of them."""
        axes = [axis for axis, size in enumerate(slopes.shape) if size > 1]
        if len(axes) > 1 or (axes and not self._can_raise()):
            steps, scale = symmetric_steps(slopes)
            self._set_steps(op, 1, steps, np.array(scale))
            return
        scales = np.abs(slopes.astype(np.float64)) / HIGHEST
        scales = np.where(scales > 0, scales, 1.0)
        steps = np.rint(slopes / scales).astype(np.int8)
        if not axes:
            self._set_steps(op, 1, steps, scales.reshape(()))
            return
        self._raise_opset()
        self._set_steps(op, 1, steps, scales.reshape(-1), axis=axes[0])

    def _set_steps(
        self, op: Node, place: int, steps: np.ndarray, scales: np.ndarray, **along: Any
    ) -> None:
        """A constant operand becomes these int8 steps about zero behind a DequantizeLinear."""
        stem = str(op.input[place])
        integers = self.add_constant(f"{stem}_quantized", steps)
        scale = self.add_constant(f"{stem}_scale", scales.astype(np.float32))
        zero = self.add_constant(f"{stem}_zero_point", np.zeros(scales.shape, np.int8))
        output = self.fresh(f"{stem}_dequantized")
        self.add_node(DEQUANTIZE, (integers, scale, zero), output, **along)
        self.set_input(op, place, output)

    def _can_raise(self) -> bool:
        """Nothing in the file would mean something else in opset 13."""
        if self.opset >= _PER_CHANNEL:
            return True
        kinds = {node.op_type for node in self.nodes}
        nested = any(item.HasField("g") for node in self.nodes for item in node.attribute)
        return self.opset >= _RAISED_FROM and not nested and not kinds.intersection(_REDEFINED)

    def _raise_opset(self) -> None:
        """The same network in opset 13; nothing happens to a newer one."""
        if self.opset >= _PER_CHANNEL:
            return
        for node in self.nodes:
            if node.op_type in _MOVED and not node.domain:
                name, place = _MOVED[node.op_type]
                values = self.attribute(node, name)
                self.drop_attribute(node, name)
                if values is not None:
                    stem, numbers = f"{node.output[0]}_{name}", np.array(values, np.int64)
                    self.set_input(node, place, self.add_constant(stem, numbers))
        for entry in self.proto.opset_import:
            if entry.domain in ("", "ai.onnx"):
                entry.version = _PER_CHANNEL
