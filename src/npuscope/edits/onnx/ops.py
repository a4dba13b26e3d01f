"""Ops of an .onnx file: their kinds and numbers, new ones, and moves of images and channels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from npuscope.edits.onnx.layers import OnnxLayers
from npuscope.edits.onnx.quantizers import attributes_of
from npuscope.edits.records import NotFitting, Pads, QuantSteps
from npuscope.files.onnx.constants import text
from npuscope.files.onnx.file_graph import DEQUANTIZE, QUANTIZE, Node
from npuscope.ops.layers import ConvAttrs
from npuscope.text import safe_terminal

_KINDS = {QUANTIZE: "Quantize", DEQUANTIZE: "Dequantize"}
_WORDS = {kind: word for word, kind in _KINDS.items()}
# Kinds that TFLite has instead of an attribute.
_FOREIGN = ("DepthwiseConv", "ResizeNearest", "ResizeLinear", "StridedSlice", "Relu6", "ReluN1To1")
_OPSETS = {"Reshape": 5, "Slice": 10, "Pad": 11, "Resize": 11}  # of the forms that are written
_AXES_AS_INPUT = 18  # opset from which ReduceMean has them there
_SIZES_AS_INPUT = 13  # and Split


class OnnxOps(OnnxLayers):
    """Reading and writing of ops."""

    channels_first = True

    def kind(self, op: Node) -> str:
        return _KINDS.get(op.op_type, str(op.op_type))

    def word(self, op: Node) -> str:
        return str(op.op_type)

    def spelled(self, kinds: Iterable[str]) -> list[str]:
        return [_WORDS.get(kind, kind) for kind in kinds if kind not in _FOREIGN]

    def title(self, op: Node) -> str:
        made = text(op.name) or f"'{text(op.output[0])}'"
        return safe_terminal(f"{text(op.op_type)}:{made}")

    def all_ops(self) -> list[Node]:
        return self.nodes

    def inputs(self, op: Node) -> list[str | None]:
        return [str(name) if name else None for name in op.input]

    def outputs(self, op: Node) -> list[str]:
        return [str(name) for name in op.output]

    def name(self, tensor: str | None) -> str:
        return tensor or ""

    def held(self, tensor: str) -> np.ndarray | None:
        return self.array(tensor)

    def check_version(self, kind: str) -> None:
        if self.opset < _OPSETS[kind]:
            raise NotFitting(f"the file's opset {self.opset} is older than {_OPSETS[kind]}")

    def same_attributes(self, one: Node, other: Node) -> bool:
        kinds = (one.op_type, one.domain) == (other.op_type, other.domain)
        return kinds and _written(one) == _written(other)

    def same_constant(self, one: str, other: str) -> bool:
        first, second = self.array(one), self.array(other)
        assert first is not None and second is not None
        return first.dtype == second.dtype and np.array_equal(first, second)

    def order_of(self, op: Node) -> tuple[int, ...]:
        stated = self.attribute(op, "perm")
        if stated is not None:
            return tuple(stated)
        shape = self.shape(op.input[0])
        if shape is None:
            raise NotFitting("the shape that the Transpose turns is not known")
        return tuple(reversed(range(len(shape))))

    def axes_of(self, op: Node) -> list[int] | None:
        axes = self.attribute(op, "axes")
        if axes is None and len(op.input) > 1:
            values = self.array(op.input[1])
            axes = None if values is None else values.tolist()
        return axes if axes is None else [int(axis) for axis in axes]

    def has_one_scale(self, op: Node) -> bool:
        scale = self.array(op.input[1])
        return scale is not None and scale.size == 1

    def has_fused(self, op: Node) -> bool:
        return False

    def changes_steps(self, op: Node) -> bool:
        return False

    def has_open_sizes(self) -> bool:
        entries = [entry.type.tensor_type.shape.dim for entry in self.graph.input]
        return any(not dim.HasField("dim_value") for dims in entries for dim in dims)

    def check_constant_pad(self, op: Node) -> None:
        if self.attribute(op, "mode", b"constant") != b"constant":
            raise NotFitting("the Pad repeats values of the tensor")

    # new ops

    def new(self, stem: str, shape: Sequence[int], steps: QuantSteps) -> str:
        return self.fresh(stem)

    def new_like(self, stem: str, shape: Sequence[int], like: str) -> str:
        return self.fresh(stem)

    def row_shape(self, count: int) -> tuple[int, ...]:
        return 1, count

    def _integers(self, stem: str, values: Iterable[int]) -> str:
        return self.add_constant(stem, np.array([*values], np.int64))

    def bounds(self, stem: str, tensor: str, axis: int, part: range) -> list[str]:
        values = {"starts": part.start, "ends": part.stop, "axes": axis}
        return [self._integers(f"{stem}_{name}", [value]) for name, value in values.items()]

    def insert(
        self, kind: str, inputs: Sequence[str], output: str, fused: Node = None, **attributes: Any
    ) -> Node:
        if kind == "Reshape":
            inputs = [*inputs, self._integers(f"{output}_shape", attributes.pop("sizes"))]
        elif kind == "ResizeNearest":
            kind, inputs, attributes = self._nearest(inputs[0], output, attributes["factors"])
        elif kind == "ReduceMean":
            return self._add_mean(inputs[0], output, int(attributes["keep"]))
        if fused is None or not fused.op_type.startswith("QLinear"):
            return self.add_node(kind, inputs, output, "", "", **attributes)
        total = self.fresh(f"{output}_sum")
        self.add_node(kind, inputs, total, "", "", **attributes)
        return self.add_node(QUANTIZE, (total, *fused.input[6:8]), output)

    def _add_mean(self, source: str, mean: str, keep: int) -> Node:
        axes = [2, 3]
        if self.opset < _AXES_AS_INPUT:
            return self.add_node("ReduceMean", (source,), mean, axes=axes, keepdims=keep)
        places = self._integers(f"{mean}_axes", axes)
        return self.add_node("ReduceMean", (source, places), mean, keepdims=keep)

    def _nearest(
        self, source: str, output: str, factors: Sequence[int]
    ) -> tuple[str, list[str], dict[str, Any]]:
        scales = np.array((1, 1, *factors), np.float32)
        inputs = [source, "", self.add_constant(f"{output}_factors", scales)]
        coordinates = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return "Resize", inputs, {"mode": "nearest", **coordinates}

    def set_plain_nearest(self, op: Node) -> None:
        self.set_attribute(op, "coordinate_transformation_mode", "asymmetric")
        self.set_attribute(op, "nearest_mode", "floor")

    def again(self, op: Node, inputs: Sequence[str], output: str) -> Node:
        """The same op once more."""
        attributes = attributes_of(self, op)
        return self.add_node(op.op_type, inputs, output, domain=op.domain, **attributes)

    def redirect(self, op: Node, inputs: Sequence[str], output: str) -> None:
        self.again(op, inputs, output)
        self.remove(op)

    def insert_conv(
        self,
        tensor: str,
        output: str,
        kernels: np.ndarray,
        steps: QuantSteps,
        scale: float = 1.0,
        **attributes: Any,
    ) -> None:
        weights = kernels.transpose(0, 3, 1, 2)
        held = self.int8_constant(f"{output}_kernels", weights, scale)
        shape = {"kernel_shape": [*weights.shape[2:]]}
        self.add_node("Conv", (tensor, held), output, "", "", **shape, **attributes)

    def conv_instead(
        self, op: Node, kernels: np.ndarray, strides: Sequence[int], pads: Pads, groups: int
    ) -> None:
        source, result = op.input[0], op.output[0]
        steps, integers = self.moved_steps(source), self.is_integer(source)
        self.remove(op)
        data = source if integers else self.stepped(source, steps)
        made = self.fresh(f"{result}_float") if integers else result
        if integers:
            constants = self.add_steps(result, steps)
            data = self.fresh(f"{source}_dequantized")
            self.add_node(DEQUANTIZE, (source, *constants), data)
            self.add_node(QUANTIZE, (made, *constants), result)
        weights = kernels.transpose(0, 3, 1, 2)
        self.add_node(
            "Conv",
            (data, self.int8_constant(f"{result}_kernels", weights)),
            made,
            kernel_shape=[*weights.shape[2:]],
            strides=[*strides],
            pads=[*pads],
            group=groups,
        )
        if not integers:
            self.bind(result, steps)

    def drop_unread(self, op: Node) -> None:
        """Nodes that nobody needs go when the file is written."""

    def replace(self, old: str, new: str) -> str:
        is_output = self.is_output(old)
        if is_output and (self.is_output(new) or self.producer(new) is None):
            raise NotFitting(f"the output '{old}' would be the same as '{new}'")
        self.rewire(old, new)
        return old if is_output else new

    def set_shape(self, tensor: str, shape: Sequence[int]) -> None:
        """Shapes are inferred."""

    # channel-last views of images: what is a row of channels can be joined

    def _made(self, source: str, kind: str, *numbers: Sequence[int], **attributes: Any) -> str:
        """The result of an op with whole numbers as its other inputs."""
        result = self.fresh(f"{source}_{kind.lower()}")
        constants = [self._integers(f"{result}_numbers", values) for values in numbers]
        self.add_node(kind, (source, *constants), result, "", "", **attributes)
        return result

    def pixels(self, tensor: str) -> str:
        return self._made(tensor, "Transpose", perm=[0, 2, 3, 1])

    def from_pixels(self, tensor: str) -> str:
        return self._made(tensor, "Transpose", perm=[0, 3, 1, 2])

    def viewed(self, tensor: str, sizes: Sequence[int]) -> str:
        return self._made(tensor, "Reshape", [-1, *sizes])

    def view_as(self, tensor: str, sizes: Sequence[int], result: str) -> None:
        self.add_node("Transpose", (self.viewed(tensor, sizes),), result, perm=[0, 3, 1, 2])

    def joined(self, parts: Sequence[str]) -> str:
        result = self.fresh(f"{parts[0]}_joined")
        self.add_node("Concat", parts, result, axis=3)
        return result

    def edge(self, tensor: str, part: range) -> str:
        return self._made(tensor, "Slice", [part.start], [part.stop], [3])

    def edge_padded(self, tensor: str, ends: tuple[int, int]) -> str:
        pads = [0, 0, ends[0], ends[0], 0, 0, ends[1], ends[1]]
        return self._made(tensor, "Pad", pads, mode="edge")

    # strides

    def strides(self, op: Node) -> tuple[int, ...]:
        return tuple(self.attribute(op, "strides", ()))

    def set_strides(self, op: Node, strides: Sequence[int]) -> None:
        self.set_attribute(op, "strides", [*strides])

    def without_stride(self, op: Node, attrs: ConvAttrs, values: Sequence[str]) -> None:
        count = len(self.strides(op))
        if self.attribute(op, "auto_pad", b"NOTSET") != b"NOTSET":
            # Stated, for "same" means other padding without the stride.
            pads = attrs.pads
            self.set_attribute(op, "auto_pad", "NOTSET")
            self.set_attribute(op, "pads", [*pads] if count == 2 else [pads[1], pads[3]])
        self.set_strides(op, [1] * count)

    def is_pointwise(self, op: Node) -> bool:
        if op.op_type not in ("Conv", "QLinearConv"):
            return False
        weights = self.shape(op.input[3 if op.op_type == "QLinearConv" else 1])
        pads = self.attribute(op, "pads", [0])
        return weights is not None and set(weights[2:]) == {1} and not any(pads)

    # channels

    def pads_beside(self, op: Node, axis: int) -> bool:
        return False

    def splits_evenly(self, op: Node) -> bool:
        return False

    def picks(self, op: Node, axis: int) -> tuple[str, tuple[range, ...]] | None:
        ranges = self._slice(op, axis) if op.op_type == "Slice" else self._split(op, axis)
        return None if ranges is None else (str(op.input[0]), ranges)

    def _slice(self, op: Node, axis: int) -> tuple[range, ...] | None:
        values = [self.array(name) if name else None for name in op.input[1:]]
        shape = self.shape(op.input[0]) or ()
        if len(values) < 3 or any(value is None for value in values[:3]) or len(shape) <= axis:
            return None
        starts, ends, axes = (np.asarray(value).reshape(-1).tolist() for value in values[:3])
        steps = values[3].reshape(-1).tolist() if len(values) > 3 and values[3] is not None else [1]
        if [place % len(shape) for place in axes] != [axis] or steps != [1]:
            return None
        return (range(*slice(starts[0], ends[0]).indices(shape[axis])),)

    def _split(self, op: Node, axis: int) -> tuple[range, ...] | None:
        shapes = [self.shape(name) for name in (op.input[0], *op.output)]
        if any(shape is None for shape in shapes):
            return None
        if int(self.attribute(op, "axis", 0)) % len(shapes[0] or (1,)) != axis:
            return None
        sizes = [(shape or ())[axis] for shape in shapes[1:]]
        ends = np.cumsum(sizes).tolist()
        return tuple(range(end - size, end) for end, size in zip(ends, sizes, strict=True))

    def set_picks(self, op: Node, axis: int, parts: Sequence[range]) -> None:
        if op.op_type == "Split":
            sizes = [len(part) for part in parts]
            if self.opset < _SIZES_AS_INPUT:
                self.set_attribute(op, "split", sizes)
                return
            self.drop_attribute(op, "num_outputs")
            self.set_input(op, 1, self._integers(f"{op.output[0]}_sizes", sizes))
            return
        for place, bound in ((1, parts[0].start), (2, parts[0].stop)):
            self.set_input(op, place, self._integers(op.input[place], [bound]))
        for place in range(3, len(op.input)):  # bounds, axes and steps have one type
            values = self.array(op.input[place]) if op.input[place] else None
            if values is not None and values.dtype != np.int64:
                self.set_input(op, place, self._integers(op.input[place], values.reshape(-1)))

    def set_channels(self, op: Node, axis: int, count: int) -> None:
        """Of a Reshape or Resize that states sizes; 0 and -1 stand for what fits."""
        place = {"Resize": 3, "Reshape": 1}.get(op.op_type, len(op.input))
        values = self.array(op.input[place]) if place < len(op.input) else None
        if values is not None:
            changed = values.copy()
            changed[axis] = count if changed[axis] > 0 else changed[axis]
            self.set_input(op, place, self.add_constant(op.input[place], changed))

    def cut_behind(
        self, maker: Node, tensor: str, inside: Sequence[Node], axis: int, part: range
    ) -> None:
        padded = self.fresh(f"{tensor}_padded")
        maker.output[[*maker.output].index(tensor)] = padded
        self.rewire(tensor, padded, inside)
        constants = self.bounds(tensor, padded, axis, part)
        if maker.op_type != DEQUANTIZE:
            self.add_node("Slice", [padded, *constants], tensor)
            return
        sliced = self.fresh(f"{tensor}_sliced")
        self.add_node("Slice", [padded, *constants], sliced)
        self.in_steps_of(maker, sliced, tensor, f"{tensor}_whole")

    def widened(self, tensor: str, axis: int, new: int, reader: Node) -> str:
        """Floats are quantized as the maker's data are."""
        maker = self.dequantizer(tensor)
        if maker is None and not reader.op_type.startswith("Q"):
            raise NotFitting(f"'{safe_terminal(tensor)}' is not quantized")
        maker = None if reader.op_type.startswith("Q") else maker
        constants = self.bounds(tensor, tensor, axis, range(new))
        again, wide = self.fresh(f"{tensor}_again"), self.fresh(f"{tensor}_wide")
        self.add_node("Slice", [tensor, *constants], again)
        again = self._as_made(maker, again)
        self.add_node("Concat", [tensor, again], wide, axis=axis)
        return self._as_made(maker, wide)

    def _as_made(self, maker: Node | None, tensor: str) -> str:
        if maker is None:
            return tensor
        real = self.fresh(f"{tensor}_real")
        self.in_steps_of(maker, tensor, real, f"{tensor}_whole")
        return real


def _written(node: Node) -> list[bytes]:
    return sorted(item.SerializeToString(deterministic=True) for item in node.attribute)
