"""Ops of an .onnx file: how new ones are spelled, and which channels slices take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from npuscope.edits.onnx.layers import OnnxLayers
from npuscope.edits.records import NotFitting, Op
from npuscope.edits.steps import int8_constant
from npuscope.files.onnx.file_graph import WORDS

# Kinds that TFLite has instead of an attribute.
_FOREIGN = (
    *("DepthwiseConv", "ResizeNearest", "ResizeLinear", "StridedSlice", "Relu6", "ReluN1To1"),
)
_AXES_AS_INPUT = 18  # opset from which ReduceMean has them there
_SIZES_AS_INPUT = 13  # and Split


class OnnxOps(OnnxLayers):
    """Reading and writing of ops."""

    def words(self, kind: str) -> list[str]:
        return [] if kind in _FOREIGN else [WORDS.get(kind, kind)]

    def _integers(self, stem: str, values: Iterable[int]) -> str:
        return self.add_constant(stem, np.array([*values], np.int64))

    def bounds(self, stem: str, tensor: str, axis: int, part: range) -> list[str]:
        values = {"starts": part.start, "ends": part.stop, "axes": axis}
        return [self._integers(f"{stem}_{name}", [value]) for name, value in values.items()]

    def insert(
        self, kind: str, inputs: Sequence[str], output: str, fused: Op = None, **attributes: Any
    ) -> Op:
        if kind == "Reshape":
            inputs = [*inputs, self._integers(f"{output}_shape", attributes.pop("sizes"))]
        elif kind == "ResizeNearest":
            scales = np.array((1, 1, *attributes["factors"]), np.float32)
            inputs = [*inputs, "", self.add_constant(f"{output}_factors", scales)]
            coordinates = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
            kind, attributes = "Resize", {"mode": "nearest", **coordinates}
        elif kind == "ReduceMean" and self.opset < _AXES_AS_INPUT:
            attributes = {"axes": [2, 3], "keepdims": int(attributes["keep"])}
        elif kind == "ReduceMean":
            inputs = [*inputs, self._integers(f"{output}_axes", [2, 3])]
            attributes = {"keepdims": int(attributes["keep"])}
        if fused is None or not self.kind(fused).startswith("QLinear"):
            return self.add_op(kind, inputs, output, **attributes)
        total = self.fresh(f"{output}_sum")
        self.add_op(kind, inputs, total, **attributes)
        return self.add_op("Quantize", (total, *self.inputs(fused)[6:8]), output)

    def insert_conv(
        self,
        tensor: str,
        output: str,
        kernels: np.ndarray,
        scale: float = 1.0,
        stem: str = "",
        **attributes: Any,
    ) -> Op:
        weights = kernels.transpose(0, 3, 1, 2)
        constant = int8_constant(self, f"{stem or output}_kernels", weights, scale)
        window = [*weights.shape[2:]]
        return self.add_op("Conv", (tensor, constant), output, kernel_shape=window, **attributes)

    def replace(self, old: str, new: str) -> str:
        is_output = old in self.network_outputs
        if is_output and (new in self.network_outputs or self.producer(new) is None):
            raise NotFitting(f"the output '{old}' would be the same as '{new}'")
        self.rewire(old, new)
        return old if is_output else new

    # channels

    def picks(self, op: Op, axis: int) -> tuple[str, tuple[range, ...]] | None:
        ranges = self._slice(op, axis) if self.kind(op) == "Slice" else self._split(op, axis)
        return None if ranges is None else (self.inputs(op)[0], ranges)

    def _slice(self, op: Op, axis: int) -> tuple[range, ...] | None:
        data, *rest = self.inputs(op)
        values = [self.values(name) if name else None for name in rest]
        shape = self.shape(data) or ()
        if len(values) < 3 or any(value is None for value in values[:3]) or len(shape) <= axis:
            return None
        starts, ends, axes = (np.asarray(value).reshape(-1).tolist() for value in values[:3])
        steps = values[3].reshape(-1).tolist() if len(values) > 3 and values[3] is not None else [1]
        if [place % len(shape) for place in axes] != [axis] or steps != [1]:
            return None
        return (range(*slice(starts[0], ends[0]).indices(shape[axis])),)

    def _split(self, op: Op, axis: int) -> tuple[range, ...] | None:
        shapes = [self.shape(name) for name in (self.inputs(op)[0], *self.outputs(op))]
        if any(shape is None for shape in shapes):
            return None
        if int(self.attribute(op, "axis", 0)) % len(shapes[0] or (1,)) != axis:
            return None
        sizes = [(shape or ())[axis] for shape in shapes[1:]]
        ends = np.cumsum(sizes).tolist()
        return tuple(range(end - size, end) for end, size in zip(ends, sizes, strict=True))

    def set_picks(self, op: Op, axis: int, parts: Sequence[range]) -> None:
        if self.kind(op) == "Split":
            sizes = [len(part) for part in parts]
            if self.opset < _SIZES_AS_INPUT:
                self.set_attribute(op, "split", sizes)
                return
            self.set_attribute(op, "num_outputs", None)
            self.set_input(op, 1, self._integers(f"{self.outputs(op)[0]}_sizes", sizes))
            return
        inputs = self.inputs(op)
        for place, bound in ((1, parts[0].start), (2, parts[0].stop)):
            self.set_input(op, place, self._integers(inputs[place], [bound]))
        for place, name in enumerate(inputs[3:], 3):  # bounds, axes and steps have one type
            values = self.values(name) if name else None
            if values is not None and values.dtype != np.int64:
                self.set_input(op, place, self._integers(name, values.reshape(-1)))

    def set_channels(self, op: Op, axis: int, count: int) -> None:
        """Of a Reshape or Resize that states sizes; 0 and -1 stand for what fits."""
        inputs = self.inputs(op)
        place = {"Resize": 3, "Reshape": 1}.get(self.kind(op), len(inputs))
        values = self.values(inputs[place]) if place < len(inputs) else None
        if values is not None:
            changed = values.copy()
            changed[axis] = count if changed[axis] > 0 else changed[axis]
            self.set_input(op, place, self.add_constant(inputs[place], changed))
