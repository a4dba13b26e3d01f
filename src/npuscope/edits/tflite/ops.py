"""Ops of a .tflite file: how new ones are spelled, and which channels slices take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npuscope.edits.records import NotFitting
from npuscope.edits.tflite.layers import TfliteLayers
from npuscope.files.tflite.file_parts import FileOp, FileTensor
from npuscope.files.tflite.spelling import KINDS, VALID
from npuscope.graph.model import Quant


class TfliteOps(TfliteLayers):
    """Reading and writing of ops."""

    def words(self, kind: str) -> list[str]:
        return [word for word, other in KINDS.items() if other == kind]

    def _integers(self, stem: str, values: Sequence[Any] | np.ndarray) -> FileTensor:
        return self.add_constant(stem, np.array(values, np.int32))

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
        options: dict[str, Any] = {}
        if kind == "Reshape":
            inputs = [*inputs, self._integers(f"{output.name}_shape", output.shape)]
            options["new_shape"] = np.array(output.shape, np.int32)
        elif kind == "ResizeNearest":
            inputs = [*inputs, self._integers(f"{output.name}_size", output.shape[1:3])]
        elif kind == "ReduceMean":
            inputs = [*inputs, self._integers(f"{output.name}_axes", (1, 2))]
            options["keep_dims"] = attributes["keep"]
        elif kind == "Concat":
            options["axis"] = attributes["axis"]
        if fused is not None:
            name = "fused_activation_function"
            options[name] = self.attribute(fused, name, 0)
        return self.add_op(kind, inputs, output, **options)

    def insert_conv(
        self,
        tensor: FileTensor,
        output: FileTensor,
        kernels: np.ndarray,
        scale: float = 1.0,
        stem: str = "",
        **attributes: Any,
    ) -> FileOp:
        """The bias of zeros is what LiteRT's kernels want. Padding comes behind: zeros stay zeros
        under these kernels."""
        strides, groups = attributes.get("strides", (1, 1)), attributes.get("group", 1)
        pads = attributes.get("pads", (0, 0, 0, 0))
        stem, source_scale = stem or output.name, self.steps(tensor).quant.scale
        result = output
        if any(pads):
            shape = (*tensor.shape[:3], output.shape[3])
            result = self.add_tensor(f"{stem}_deep", "INT8", shape, tensor.quant)
            top, left, bottom, right = pads
            amounts = [(0, 0), (top, bottom), (left, right), (0, 0)]
            self.add_op("Pad", (result, self._integers(f"{stem}_pads", amounts)), output)
            stem = result.name
        steps = (kernels.transpose(3, 1, 2, 0) if groups > 1 else kernels).astype(np.int8)
        zeros = np.zeros(kernels.shape[0], np.int32)
        step = float(np.float32(source_scale) * np.float32(scale))
        weights = self.add_constant(f"{stem}_kernels", steps, Quant((scale,), (0,)))
        bias = self.add_constant(f"{stem}_bias", zeros, Quant((step,), (0,)))
        options = {"padding": VALID, "stride_h": strides[0], "stride_w": strides[1]}
        options |= {"dilation_h_factor": 1, "dilation_w_factor": 1}
        options |= {"depth_multiplier": 1} if groups > 1 else {}
        kind = "DepthwiseConv" if groups > 1 else "Conv"
        return self.add_op(kind, (tensor, weights, bias), result, **options)

    def replace(self, old: FileTensor, new: FileTensor) -> FileTensor:
        if old in self.network_outputs:
            if new in self.network_outputs or self.producer(new) is None:
                raise NotFitting(f"the output '{old.name}' would be the same as '{new.name}'")
            old.name, new.name = new.name, old.name
        self.rewire(old, new)
        return new

    # channels

    def picks(self, op: FileOp, axis: int) -> tuple[FileTensor, tuple[range, ...]] | None:
        """Along the last axis."""
        source, rank = op.inputs[1 if op.word == "SPLIT" else 0], len(op.outputs[0].shape)
        if source is None or not source.shape or len(source.shape) != rank:
            return None
        if op.word == "SPLIT":
            ranges = _split_ranges(op, source.shape)
        elif op.outputs[0].shape[:-1] != source.shape[:-1]:
            return None
        else:
            ranges = _slice_range(op, source.shape)
        return (source, ranges) if ranges else None

    def set_picks(self, op: FileOp, axis: int, parts: Sequence[range]) -> None:
        """The equal parts of a SPLIT need nothing."""
        if op.word == "SPLIT":
            return
        part = parts[0]
        for place, bound in ((1, part.start), (2, len(part) if op.word == "SLICE" else part.stop)):
            old = op.inputs[place]
            assert old is not None and old.data is not None
            data = old.data.copy()
            data[-1] = bound
            op.inputs[place] = self.add_tensor(old.name, old.type, old.shape, None, data)
        if op.word == "STRIDED_SLICE" and op.options is not None:
            # A mask would overrule the bounds.
            others = ~(1 << (len(op.outputs[0].shape) - 1))
            for mask in ("begin_mask", "end_mask"):
                self.set_attribute(op, mask, self.attribute(op, mask, 0) & others)

    def set_channels(self, op: FileOp, axis: int, count: int) -> None:
        """Of a RESHAPE: its shape stands in the options, in a constant, or in both."""
        if op.word != "RESHAPE":
            return
        shape = np.array([*op.outputs[0].shape[:-1], count], np.int32)
        self.set_attribute(op, "new_shape", shape)
        if op.input(1) is not None:
            op.inputs = [op.inputs[0], self._integers(f"{op.outputs[0].name}_shape", shape)]


def _slice_range(op: FileOp, shape: tuple[int, ...]) -> tuple[range, ...]:
    """Empty where a slice takes channels otherwise than as a plain range."""
    constants = [tensor.data if tensor is not None else None for tensor in op.inputs[1:]]
    if any(values is None for values in constants):
        return ()
    first, second = (int(values[-1]) for values in constants[:2] if values is not None)
    count, last = shape[-1], 1 << (len(shape) - 1)
    if op.word == "SLICE":
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
