"""An .onnx file as a document, and how its float ops become ops on integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from npuscope.edits.numbers import symmetric_steps
from npuscope.edits.onnx.border import OnnxBorder
from npuscope.edits.records import HIGHEST, Constant, NotFitting, Op, QuantSteps

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
_NEW_TYPES = 21  # opset in which DequantizeLinear takes INT4 and INT16
_NEW_TYPES_IR = 10
# What opsets 14 to 21 gave another meaning, or other attributes.
_REDEFINED_LATER = ("BatchNormalization", "GridSample", "GroupNormalization", "Split", "Upsample")


class OnnxDocument(OnnxBorder):
    """The file graph with all answers of its dialect."""

    depthwise: tuple[str, ...] = ("Conv", "QLinearConv")
    mixes_signs = True

    def quantize_results(self, ops: Sequence[Op], results: Mapping[str, QuantSteps]) -> None:
        for tensor, steps in results.items():
            self.insert_pair(tensor, steps)

    def quantize_constant(self, op: Op, place: int) -> None:
        values = self.values(self.inputs(op)[place])
        assert values is not None
        if self.kind(op) == "PRelu":
            self._quantize_slopes(op, values)
            return
        steps, scale = symmetric_steps(values)
        self._set_constant(op, place, steps, np.array(scale))

    def _quantize_slopes(self, op: Op, slopes: np.ndarray) -> None:
        """A scale per channel keeps each as it is; a single one rounds most of them."""
        axes = [axis for axis, size in enumerate(slopes.shape) if size > 1]
        if len(axes) > 1 or (axes and not self._can_raise()):
            steps, scale = symmetric_steps(slopes)
            self._set_constant(op, 1, steps, np.array(scale))
            return
        scales = np.abs(slopes.astype(np.float64)) / HIGHEST
        scales = np.where(scales > 0, scales, 1.0)
        steps = np.rint(slopes / scales).astype(np.int8)
        if not axes:
            self._set_constant(op, 1, steps, scales.reshape(()))
            return
        self._raise_opset()
        self._set_constant(op, 1, steps, scales.reshape(-1), axis=axes[0])

    def _set_constant(
        self, op: Op, place: int, steps: np.ndarray, scales: np.ndarray, **along: Any
    ) -> None:
        """A constant operand becomes these int8 steps about zero behind a Dequantize."""
        stem = self.inputs(op)[place]
        integers = self.add_constant(f"{stem}_quantized", steps)
        scale = self.add_constant(f"{stem}_scale", scales.astype(np.float32))
        zero = self.add_constant(f"{stem}_zero_point", np.zeros(scales.shape, np.int8))
        output = self.fresh(f"{stem}_dequantized")
        self.add_op("Dequantize", (integers, scale, zero), output, **along)
        self.set_input(op, place, output)

    def four_bits(self, constant: Constant) -> Constant:
        """INT4 values and zero points, in the opset that has them."""
        from ml_dtypes import int4

        self.use_new_types()
        assert constant.scale is not None
        zeros = np.zeros(constant.scale.shape, int4)
        return constant.changed(values=constant.values.astype(int4), zero_point=zeros)

    def use_new_types(self) -> None:
        """The opset whose steps may have 4 and 16 bits; NotFitting where something in the file
        would mean something else there."""
        if self.opset < _NEW_TYPES:
            if not self._can_raise() or self.has_bodies or self.has_functions:
                raise NotFitting(f"this needs opset {_NEW_TYPES}, the file has {self.opset}")
            for op in self.nodes:
                axes = self.kind(op).startswith("Reduce") and self.attribute(op, "axes")
                if axes or self.full_kind(op) in _REDEFINED_LATER:
                    raise NotFitting(
                        f"this needs opset {_NEW_TYPES}, which writes {self.kind(op)} in another "
                        "way"
                    )
            self._raise_opset()
            self.opset = _NEW_TYPES
        self.ir_version = max(self.ir_version, _NEW_TYPES_IR)

    def _can_raise(self) -> bool:
        """Nothing in the file would mean something else in opset 13."""
        if self.opset >= _PER_CHANNEL:
            return True
        kinds = {self.kind(op) for op in self.nodes}
        redefined = self.has_bodies or kinds.intersection(_REDEFINED)
        return self.opset >= _RAISED_FROM and not redefined

    def _raise_opset(self) -> None:
        """The same network in opset 13; nothing happens to a newer one."""
        if self.opset >= _PER_CHANNEL:
            return
        for op in self.nodes:
            if self.full_kind(op) in _MOVED:
                name, place = _MOVED[self.kind(op)]
                values = self.attribute(op, name)
                self.set_attribute(op, name, None)
                if values is not None:
                    stem, numbers = f"{self.outputs(op)[0]}_{name}", np.array(values, np.int64)
                    self.set_input(op, place, self.add_constant(stem, numbers))
        self.opset = _PER_CHANNEL
