"""What documents and edits hand to each other: steps of tensors, constants, layers, and the
exception that says why an edit cannot be made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from npuscope.files.file_graph import FileNode, FileTensorId
from npuscope.graph.model import Quant
from npuscope.structs import replace

Value = FileTensorId
Op = FileNode
Interval = tuple[float, float]
Pads = tuple[int, int, int, int]  # top, left, bottom, right

LOWEST, HIGHEST = -128, 127
NEW = -1  # in an index of channels: one that was not there before
DEPTHWISE = "DepthwiseConv"  # an op of its own in TFLite, a Conv of many groups in ONNX
CONVS = ("Conv", "QLinearConv", DEPTHWISE)
LAYERS = ("Conv", "Gemm", "MatMul", "QLinearConv", "QLinearMatMul", "QGemm")


class NotFitting(Exception):
    """An edit cannot be made here; the sentence says why."""


class ImageShape(NamedTuple):
    images: int
    height: int
    width: int
    channels: int


class QuantSteps(Struct, frozen=True):
    """How a tensor of integers stands for real values."""

    quant: Quant
    type: str = "int8"

    @property
    def limits(self) -> tuple[int, int]:
        return int(np.iinfo(self.type).min), int(np.iinfo(self.type).max)

    @property
    def covered(self) -> Interval:
        """The real values between the first and the last step."""
        low, high = (limit - self.quant.zero_point for limit in self.limits)
        return low * self.quant.scale, high * self.quant.scale

    @property
    def unsigned_offset(self) -> int:
        """How far zero points lie from those of int8."""
        return -LOWEST if self.type == "uint8" else 0


class Tied(Struct, frozen=True):
    """Tensors of integers that share their steps, and the layers that read them."""

    tensors: tuple[Value, ...]
    steps: QuantSteps
    layers: tuple[Op, ...]


class Constant(Struct, frozen=True):
    """Values as the file holds them: plain numbers, or integers with one scale or one per channel
    of `axis`. `held` is the tensor that holds exactly this, if one does."""

    name: str
    values: np.ndarray
    scale: np.ndarray | None = None
    zero_point: np.ndarray | None = None
    axis: int = 0
    held: Value = None

    def changed(self, **fields: Any) -> Constant:
        return replace(self, held=None, **fields)

    @property
    def zeros(self) -> np.ndarray | int:
        """What stands for zero, in the shape of the values or a single number."""
        if self.zero_point is None or not self.zero_point.size:
            return 0
        if self.zero_point.size == 1:
            return int(self.zero_point.reshape(()))
        return self._along(self.zero_point)

    @property
    def real(self) -> np.ndarray:
        values = self.values.astype(np.float64) - self.zeros
        if self.scale is None:
            return values
        scale = np.asarray(self.scale, np.float64)
        return np.asarray(values * (self._along(scale) if scale.size > 1 else scale.reshape(())))

    def _along(self, numbers: np.ndarray) -> np.ndarray:
        shape = [1] * self.values.ndim
        shape[self.axis] = -1
        return numbers.reshape(shape)

    def picked(self, index: Sequence[int], axis: int) -> Constant:
        """Channels along an axis; scales go with them, new channels are zeros."""
        axis %= self.values.ndim
        if self.scale is None or self.scale.size == 1 or axis != self.axis:
            return self.changed(values=picked(self.values, index, axis, self.zeros))
        points = None if self.zero_point is None else repeated(self.zero_point, index)
        scaled = self.changed(scale=repeated(self.scale, index), zero_point=points)
        zeros = replace(scaled, values=repeated(self.values, index, axis)).zeros
        return replace(scaled, values=picked(self.values, index, axis, zeros))

    def turned(self, axes: Sequence[int]) -> Constant:
        """Its axes in another order."""
        values = self.values.transpose(axes)
        return self.changed(values=values, axis=[*axes].index(self.axis))


def picked(
    values: np.ndarray, index: Sequence[int], axis: int, new: np.ndarray | int = 0
) -> np.ndarray:
    """The channels of `index` along `axis`; a new one holds `new`, which may differ by channel
    of another axis."""
    places = np.asarray(index)
    channels = np.take(values, np.maximum(places, 0), axis)
    shape = [1] * values.ndim
    shape[axis] = len(places)
    return np.asarray(np.where((places == NEW).reshape(shape), new, channels), values.dtype)


def repeated(values: np.ndarray, index: Sequence[int], axis: int = 0) -> np.ndarray:
    """As `picked`, with new channels like the first one: for scales, which cannot be zero."""
    return np.asarray(np.take(values, np.maximum(np.asarray(index), 0), axis))


class FileLayer(Struct, frozen=True):
    """An op with constant weights. Axes are those of the weights as the file has them; `in_axis`
    is None where each kernel sees one channel only, so that it has no such axis."""

    op: Op
    weights: Constant
    bias: Constant | None
    inputs: int
    groups: int
    is_depthwise: bool
    out_axis: int
    in_axis: int | None
    image_axes: tuple[int, ...]  # rows and columns of kernels
    channel_axis: int  # of the result

    @property
    def outputs(self) -> int:
        return int(self.weights.values.shape[self.out_axis])

    @property
    def is_dense(self) -> bool:
        return self.groups == 1 and self.in_axis is not None and not self.is_depthwise

    def with_outputs(self, index: Sequence[int]) -> FileLayer:
        bias = self.bias
        if bias is not None and bias.values.shape[-1:] == (self.outputs,):
            bias = bias.picked(index, -1)
        layer = replace(self, weights=self.weights.picked(index, self.out_axis), bias=bias)
        return replace(layer, groups=len(index), inputs=len(index)) if self.is_depthwise else layer

    def with_inputs(self, index: Sequence[int]) -> FileLayer:
        assert self.in_axis is not None
        return replace(
            self, weights=self.weights.picked(index, self.in_axis), inputs=len(index) * self.groups
        )


class LayerPart(Struct, frozen=True):
    """Some of what a layer sums: the data that it reads, its weights for them, and the padding
    where that is another one."""

    data: Value
    weights: Constant
    pads: Pads | None = None
