"""Ops of a .tflite file: their numbers, new ones, and moves of images and channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npuscope.edits.records import Layer, NotFitting, Pads, QuantSteps
from npuscope.edits.tflite.layers import SAME, VALID, TfliteLayers
from npuscope.files.tflite.file_parts import FileOp, FileTensor
from npuscope.files.tflite.records import Record, same
from npuscope.graph.model import Quant
from npuscope.ops.layers import ConvAttrs

_SYMMETRIC = 1  # mode of a MIRROR_PAD in which the edge pixel itself comes first
# By kind: what the file calls it, its table of options, and the version that takes int8.
_NEW: dict[str, tuple[str, str | None, int]] = {
    "Add": ("ADD", "AddOptions", 2),
    "Sub": ("SUB", "SubOptions", 2),
    "Mul": ("MUL", "MulOptions", 2),
    "Slice": ("SLICE", "SliceOptions", 2),
    "Reshape": ("RESHAPE", "ReshapeOptions", 1),
    "Concat": ("CONCATENATION", "ConcatenationOptions", 2),
    "ResizeNearest": ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions", 2),
    "PRelu": ("PRELU", None, 1),
    "ReduceMean": ("MEAN", "ReducerOptions", 2),
}


class TfliteOps(TfliteLayers):
    """Reading and writing of ops."""

    channels_first = False

    def title(self, op: FileOp) -> str:
        return op.origin or f"{op.kind}:'{op.outputs[0].name}'"

    def all_ops(self) -> list[FileOp]:
        return self.ops

    def inputs(self, op: FileOp) -> list[FileTensor | None]:
        return op.inputs

    def outputs(self, op: FileOp) -> list[FileTensor]:
        return op.outputs

    def shape(self, tensor: FileTensor) -> tuple[int, ...] | None:
        return tensor.shape

    def attribute(self, op: FileOp, name: str, default: Any = None) -> Any:
        return op.option("".join(word.capitalize() for word in name.split("_")), default)

    def same_attributes(self, one: FileOp, other: FileOp) -> bool:
        if one.kind != other.kind or not same(one.options, other.options):
            return False
        pairs = zip(one.outputs, other.outputs, strict=False)
        return all((a.shape, a.type, a.quant) == (b.shape, b.type, b.quant) for a, b in pairs)

    def order_of(self, op: FileOp) -> tuple[int, ...]:
        order = op.input(1)
        if order is None or order.data is None:
            raise NotFitting("the order of the axes is computed")
        return tuple(int(axis) for axis in order.data.reshape(-1))

    def axes_of(self, op: FileOp) -> list[int] | None:
        axes = op.input(1)
        return None if axes is None or axes.data is None else axes.data.reshape(-1).tolist()

    def has_one_scale(self, op: FileOp) -> bool:
        return True

    def has_fused(self, op: FileOp) -> bool:
        return bool(op.option("FusedActivationFunction"))

    def changes_steps(self, op: FileOp) -> bool:
        data = next((t for t in op.inputs if t is not None and t.data is None), op.inputs[0])
        return data is not None and data.quant != op.outputs[0].quant

    def has_open_sizes(self) -> bool:
        return False

    def check_version(self, kind: str) -> None:
        """An op brings its version along."""

    def check_constant_pad(self, op: FileOp) -> None:
        """Those that repeat values are of another kind."""

    # new ops

    def new(self, stem: str, shape: Sequence[int], steps: QuantSteps) -> FileTensor:
        return self.add_tensor(stem, steps.type.upper(), shape, steps.quant)

    def new_like(self, stem: str, shape: Sequence[int], like: FileTensor) -> FileTensor:
        return self.add_tensor(stem, like.type, shape, like.quant)

    def row_shape(self, count: int) -> tuple[int, ...]:
        return 1, 1, 1, count

    def _integers(self, stem: str, values: Sequence[Any] | np.ndarray) -> FileTensor:
        numbers = np.array(values, np.int32)
        return self.add_tensor(stem, "INT32", numbers.shape, None, numbers)

    def bounds(self, stem: str, tensor: FileTensor, axis: int, part: range) -> list[FileTensor]:
        begin, size = [0] * len(tensor.shape), [*tensor.shape]
        begin[axis], size[axis] = part.start, len(part)
        return [self._integers(f"{stem}_begin", begin), self._integers(f"{stem}_size", size)]

    def insert(
        self,
        kind: str,
        inputs: Sequence[FileTensor],
        output: FileTensor,
        fused: FileOp | None = None,
        **attributes: Any,
    ) -> FileOp:
        """Sizes are those of the output."""
        word, table, version = _NEW[kind]
        if table is None:
            return self.add_op(word, inputs, (output,), version=version)
        options = Record(table)
        if kind == "Reshape":
            inputs = [*inputs, self._integers(f"{output.name}_shape", output.shape)]
            options.fields["NewShape"] = np.array(output.shape, np.int32)
        elif kind == "ResizeNearest":
            inputs = [*inputs, self._integers(f"{output.name}_size", output.shape[1:3])]
        elif kind == "ReduceMean":
            inputs = [*inputs, self._integers(f"{output.name}_axes", (1, 2))]
            options.fields["KeepDims"] = attributes["keep"]
        elif kind == "Concat":
            options.fields["Axis"] = attributes["axis"]
        if fused is not None:
            options.fields["FusedActivationFunction"] = fused.option("FusedActivationFunction")
        return self.add_op(word, inputs, (output,), options, version)

    def set_plain_nearest(self, op: FileOp) -> None:
        op.options = Record("ResizeNearestNeighborOptions")

    def redirect(self, op: FileOp, inputs: Sequence[FileTensor], output: FileTensor) -> None:
        op.inputs, op.outputs = [*inputs], [output]

    def insert_conv(
        self,
        tensor: FileTensor,
        output: FileTensor,
        kernels: np.ndarray,
        steps: QuantSteps,
        scale: float = 1.0,
        **attributes: Any,
    ) -> None:
        self._add_conv(tensor, output, kernels, (1, 1), scale, attributes.get("group", 1))

    def _add_conv(
        self,
        tensor: FileTensor,
        output: FileTensor,
        kernels: np.ndarray,
        strides: Sequence[int],
        scale: float,
        groups: int,
    ) -> None:
        """No padding; the bias of zeros is what LiteRT's kernels want."""
        steps = (kernels.transpose(3, 1, 2, 0) if groups > 1 else kernels).astype(np.int8)
        zeros = np.zeros(kernels.shape[0], np.int32)
        step = float(np.float32(self.steps(tensor).quant.scale) * np.float32(scale))
        stem, one = output.name, Quant((scale,), (0,))
        weights = self.add_tensor(f"{stem}_kernels", "INT8", steps.shape, one, steps)
        sums = Quant((step,), (0,))
        bias = self.add_tensor(f"{stem}_bias", "INT32", zeros.shape, sums, zeros)
        fields = {"Padding": VALID, "StrideH": strides[0], "StrideW": strides[1]}
        fields |= {"DilationHFactor": 1, "DilationWFactor": 1}
        kind, options = "CONV_2D", Record("Conv2DOptions", fields)
        if groups > 1:
            deep = fields | {"DepthMultiplier": 1}
            kind, options = "DEPTHWISE_CONV_2D", Record("DepthwiseConv2DOptions", deep)
        self.add_op(kind, (tensor, weights, bias), (output,), options, version=3)

    def conv_instead(
        self, op: FileOp, kernels: np.ndarray, strides: Sequence[int], pads: Pads, groups: int
    ) -> None:
        source, result = op.inputs[0], op.outputs[0]
        assert source is not None
        self.remove(op)
        deep = result
        if any(pads):
            shape = (*source.shape[:3], result.shape[3])
            deep = self.add_tensor(f"{result.name}_deep", "INT8", shape, source.quant)
            top, left, bottom, right = pads
            sizes = [(0, 0), (top, bottom), (left, right), (0, 0)]
            held = self._integers(f"{result.name}_pads", sizes)
            self.add_op("PAD", (deep, held), (result,), Record("PadOptions"), version=2)
        self._add_conv(source, deep, kernels, strides, 1.0, groups)

    def drop_unread(self, op: FileOp) -> None:
        if not any(self.readers(t) or self.is_output(t) for t in op.outputs):
            self.remove(op)

    def replace(self, old: FileTensor, new: FileTensor) -> FileTensor:
        if self.is_output(old):
            if self.is_output(new) or self.producer(new) is None:
                raise NotFitting(f"the output '{old.name}' would be the same as '{new.name}'")
            old.name, new.name = new.name, old.name
        self.rewire(old, new)
        return new

    def set_input(self, op: FileOp, place: int, tensor: FileTensor | None) -> None:
        op.inputs = [*op.inputs[:place], tensor, *op.inputs[place + 1 :]]

    def set_shape(self, tensor: FileTensor, shape: Sequence[int]) -> None:
        tensor.shape = tuple(shape)

    # views of images: what is a row of channels can be joined

    def pixels(self, tensor: FileTensor) -> FileTensor:
        return tensor

    def from_pixels(self, tensor: FileTensor) -> FileTensor:
        return tensor

    def viewed(self, tensor: FileTensor, sizes: Sequence[int]) -> FileTensor:
        result = self.new_like(f"{tensor.name}_view", (tensor.shape[0], *sizes), tensor)
        self.insert("Reshape", (tensor,), result)
        return result

    def view_as(self, tensor: FileTensor, sizes: Sequence[int], result: FileTensor) -> None:
        self.insert("Reshape", (tensor,), result)

    def joined(self, parts: Sequence[FileTensor]) -> FileTensor:
        first = parts[0]
        shape = (*first.shape[:-1], sum(part.shape[-1] for part in parts))
        result = self.new_like(f"{first.name}_joined", shape, first)
        self.insert("Concat", parts, result, axis=len(shape) - 1)
        return result

    def edge(self, tensor: FileTensor, part: range) -> FileTensor:
        shape = (*tensor.shape[:3], len(part))
        result = self.new_like(f"{tensor.name}_edge", shape, tensor)
        self.insert("Slice", (tensor, *self.bounds(result.name, tensor, 3, part)), result)
        return result

    def edge_padded(self, tensor: FileTensor, ends: tuple[int, int]) -> FileTensor:
        held = self._integers(f"{tensor.name}_pads", [(0, 0), ends, ends, (0, 0)])
        images, height, width, channels = tensor.shape
        shape = (images, height + sum(ends), width + sum(ends), channels)
        result = self.new_like(f"{tensor.name}_edges", shape, tensor)
        options = Record("MirrorPadOptions", {"Mode": _SYMMETRIC})
        self.add_op("MIRROR_PAD", (tensor, held), (result,), options, version=2)
        return result

    # strides

    def strides(self, op: FileOp) -> tuple[int, ...]:
        return op.option("StrideH", 1), op.option("StrideW", 1)

    def set_strides(self, op: FileOp, strides: Sequence[int]) -> None:
        if op.options is None:
            raise NotFitting("it has no options")
        op.options = op.options.copy()
        op.options.fields.update(StrideH=strides[0], StrideW=strides[1])
        if self.is_pointwise(op):
            op.options.fields["Padding"] = VALID

    def is_pointwise(self, op: FileOp) -> bool:
        weights = op.input(1)
        return op.kind == "CONV_2D" and weights is not None and weights.shape[1:3] == (1, 1)

    def without_stride(self, op: FileOp, attrs: ConvAttrs, values: Sequence[FileTensor]) -> None:
        """SAME stays where it means the same padding, else a PAD stands in front."""
        source, weights = op.inputs[0], op.inputs[1]
        assert source is not None and weights is not None and op.options is not None
        steps = (op.option("DilationHFactor", 1), op.option("DilationWFactor", 1))
        reach = [(size - 1) * step for size, step in zip(weights.shape[1:3], steps, strict=True)]
        same = any(attrs.pads) and _keeps(source.shape[1:3], attrs, reach)
        if not same:
            source = op.inputs[0] = self.padded(source, attrs.pads)
        op.options.fields.update(Padding=SAME if same else VALID, StrideH=1, StrideW=1)
        height, width = source.shape[1:3]
        sizes = (height, width) if same else (height - reach[0], width - reach[1])
        for tensor in values:
            tensor.shape = (tensor.shape[0], *sizes, tensor.shape[3])

    # channels

    def join_parts(self, layer: Layer, parts: Sequence[FileTensor]) -> None:
        self.remove(layer.op)
        self.insert("Concat", parts, layer.op.outputs[0], axis=layer.channel_axis)

    def pads_beside(self, op: FileOp, axis: int) -> bool:
        amounts = op.input(1)
        return amounts is not None and amounts.data is not None and not amounts.data[-1].any()

    def splits_evenly(self, op: FileOp) -> bool:
        return op.kind == "SPLIT"

    def picks(self, op: FileOp, axis: int) -> tuple[FileTensor, tuple[range, ...]] | None:
        """Along the last axis."""
        source, rank = op.inputs[1 if op.kind == "SPLIT" else 0], len(op.outputs[0].shape)
        if source is None or not source.shape or len(source.shape) != rank:
            return None
        if op.kind == "SPLIT":
            ranges = _split_ranges(op, source.shape)
        elif op.outputs[0].shape[:-1] != source.shape[:-1]:
            return None
        else:
            ranges = _slice_range(op, source.shape)
        return (source, ranges) if ranges else None

    def set_picks(self, op: FileOp, axis: int, parts: Sequence[range]) -> None:
        """The equal parts of a SPLIT need nothing."""
        if op.kind == "SPLIT":
            return
        part = parts[0]
        for place, bound in ((1, part.start), (2, len(part) if op.kind == "SLICE" else part.stop)):
            old = op.inputs[place]
            assert old is not None and old.data is not None
            data = old.data.copy()
            data[-1] = bound
            op.inputs[place] = self.add_tensor(old.name, old.type, old.shape, None, data)
        if op.kind == "STRIDED_SLICE" and op.options is not None:
            # A mask would overrule the bounds.
            others = ~(1 << (len(op.outputs[0].shape) - 1))
            op.options = op.options.copy()
            for mask in ("BeginMask", "EndMask"):
                op.options.fields[mask] = op.option(mask) & others

    def set_channels(self, op: FileOp, axis: int, count: int) -> None:
        """Of a RESHAPE: its shape stands in the options, in a constant, or in both."""
        if op.kind != "RESHAPE":
            return
        shape = np.array([*op.outputs[0].shape[:-1], count], np.int32)
        op.options = Record("ReshapeOptions", {"NewShape": shape})
        if op.input(1) is not None:
            op.inputs = [op.inputs[0], self._integers(f"{op.outputs[0].name}_shape", shape)]

    def cut_behind(
        self, maker: FileOp, tensor: FileTensor, inside: Sequence[FileOp], axis: int, part: range
    ) -> None:
        padded = self.new_like(f"{tensor.name}_padded", tensor.shape, tensor)
        tensor.shape = (*tensor.shape[:-1], len(part))
        self.rewire(tensor, padded, inside)
        maker.outputs = [padded if made is tensor else made for made in maker.outputs]
        self.insert("Slice", (padded, *self.bounds(tensor.name, padded, axis, part)), tensor)

    def widened(self, tensor: FileTensor, axis: int, new: int, reader: FileOp) -> FileTensor:
        bounds = self.bounds(tensor.name, tensor, axis, range(new))
        counts = {"again": new, "wide": tensor.shape[-1] + new}
        again, wide = (
            self.new_like(f"{tensor.name}_{name}", (*tensor.shape[:-1], count), tensor)
            for name, count in counts.items()
        )
        self.insert("Slice", (tensor, *bounds), again)
        self.insert("Concat", (tensor, again), wide, axis=axis)
        return wide


def _keeps(sizes: Sequence[int], attrs: ConvAttrs, reach: list[int]) -> bool:
    """Do the places that the stride keeps lie inside under SAME, as many as before?"""
    if attrs.pads[:2] != (reach[0] // 2, reach[1] // 2):
        return False
    rows = zip(sizes, attrs.strides, attrs.pads[:2], attrs.pads[2:], reach, strict=True)
    return all(
        (size + before + after - over - 1) // stride + 1 == -(-size // stride)
        for size, stride, before, after, over in rows
    )


def _slice_range(op: FileOp, shape: tuple[int, ...]) -> tuple[range, ...]:
    """Empty where a slice takes channels otherwise than as a plain range."""
    constants = [tensor.data if tensor is not None else None for tensor in op.inputs[1:]]
    if any(values is None for values in constants):
        return ()
    first, second = (int(values[-1]) for values in constants[:2] if values is not None)
    count, last = shape[-1], 1 << (len(shape) - 1)
    if op.kind == "SLICE":
        return (range(first, count if second < 0 else first + second),)
    masks, steps = ("EllipsisMask", "NewAxisMask", "ShrinkAxisMask"), constants[2]
    if steps is None or int(steps[-1]) != 1 or any(map(op.option, masks)):
        return ()
    start = None if op.option("BeginMask") & last else first
    end = None if op.option("EndMask") & last else second
    return (range(*slice(start, end).indices(count)),)


def _split_ranges(op: FileOp, shape: tuple[int, ...]) -> tuple[range, ...]:
    axis = op.inputs[0].data if op.inputs[0] is not None else None
    if axis is None or int(axis.reshape(-1)[0]) % len(shape) != len(shape) - 1:
        return ()
    size = shape[-1] // len(op.outputs)
    return tuple(range(n * size, (n + 1) * size) for n in range(len(op.outputs)))
