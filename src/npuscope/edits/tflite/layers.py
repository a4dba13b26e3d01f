"""Constants and layers of a .tflite file: where operators have weights and bias, and how axes
lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.edits.records import DEPTHWISE, LAYERS, Constant, FileLayer, LayerPart, QuantSteps
from npuscope.edits.tflite.steps import INT8, TfliteSteps
from npuscope.edits.views import padded
from npuscope.files.tflite.file_parts import FileOp, FileTensor
from npuscope.files.tflite.records import Record
from npuscope.files.tflite.spelling import VALID
from npuscope.graph.model import Quant

_DENSE_OPTIONS = (
    *("Padding", "StrideW", "StrideH", "FusedActivationFunction", "DilationWFactor"),
    "DilationHFactor",
)


class TfliteLayers(TfliteSteps):
    """Reading and writing of constants and layers."""

    def constant(self, tensor: FileTensor) -> Constant | None:
        if tensor.data is None:
            return None
        quant = tensor.quant
        if quant is None:
            return Constant(tensor.name, tensor.data, held=tensor)
        scale, zero = np.array(quant.scales), np.array(quant.zero_points)
        return Constant(tensor.name, tensor.data, scale, zero, quant.axis or 0, tensor)

    def store(self, constant: Constant) -> FileTensor:
        if constant.held is not None:
            tensor: FileTensor = constant.held
            return tensor
        quant, values = None, constant.values
        if constant.scale is not None and constant.zero_point is not None:
            scales = tuple(float(scale) for scale in constant.scale.reshape(-1))
            points = tuple(int(zero) for zero in constant.zero_point.reshape(-1))
            # One channel alone has no axis: its scale is that of the tensor.
            quant = Quant(scales, points, constant.axis if len(scales) > 1 else None)
        return self.add_constant(constant.name, values.reshape(values.shape or (1,)), quant)

    def four_bits(self, constant: Constant) -> Constant:
        """Two steps in a byte, the first in its lower half."""
        steps = constant.values.reshape(-1).astype(np.uint8) & 15
        pairs = np.append(steps, 0) if steps.size % 2 else steps
        packed = pairs[0::2] | pairs[1::2] << 4
        assert constant.scale is not None
        scales = tuple(float(scale) for scale in constant.scale.reshape(-1))
        quant = Quant(scales, (0,) * len(scales), constant.axis if len(scales) > 1 else None)
        shape = constant.values.shape
        tensor = self.add_tensor(constant.name, "INT4", shape, quant, packed.astype(np.uint8))
        return Constant(tensor.name, packed, constant.scale, None, constant.axis, tensor)

    def layer(self, op: FileOp) -> FileLayer | None:
        weights, bias, data = op.input(1), op.input(2), op.input(0)
        if self.kind(op) not in (*LAYERS, DEPTHWISE) or weights is None or data is None:
            return None
        if weights.data is None or weights.data.shape != weights.shape:
            return None  # computed, or packed
        kernels = self.constant(weights)
        offsets = None if bias is None else self.constant(bias)
        if kernels is None or (bias is not None and offsets is None):
            return None
        channel_axis = len(op.outputs[0].shape) - 1
        if op.word == "DEPTHWISE_CONV_2D":
            count = data.shape[-1]
            apart = weights.shape[-1] == count
            return FileLayer(
                op, kernels, offsets, count, count, apart, 3, None, (1, 2), channel_axis
            )
        inputs = weights.shape[-1] if op.word == "FULLY_CONNECTED" else data.shape[-1]
        groups = inputs // weights.shape[-1]
        in_axis = len(weights.shape) - 1
        return FileLayer(
            op, kernels, offsets, inputs, groups, False, 0, in_axis, (1, 2), channel_axis
        )

    def bias_place(self, op: FileOp) -> int:
        return 2

    def set_layer(self, layer: FileLayer) -> None:
        op = layer.op
        op.inputs = self._inputs_of(layer)[: max(len(op.inputs), 2)]
        if layer.is_dense and op.word == "DEPTHWISE_CONV_2D":
            options = op.options.fields if op.options else {}
            dense = {name: options[name] for name in _DENSE_OPTIONS if name in options}
            op.word, op.options = "CONV_2D", Record("Conv2DOptions", dense)
            op.version = max(o.version for o in self.nodes if o is op or o.word == op.word)

    def _inputs_of(self, layer: FileLayer) -> list[FileTensor | None]:
        weights = self.store(layer.weights)
        bias = None if layer.bias is None else self.store(layer.bias)
        return [layer.op.inputs[0], weights, bias]

    # layers in parts

    def split_layer(self, layer: FileLayer, parts: Sequence[Sequence[int]]) -> None:
        op, whole = layer.op, layer.op.outputs[0]
        joined = []
        for channels in parts:
            inputs = self._inputs_of(layer.with_outputs(channels))
            shape = (*whole.shape[:-1], len(channels))
            joined.append(self.new_tensor(f"{whole.name}_part", shape, whole))
            self.again(op, inputs, joined[-1])
        self.remove(op)
        self.add_op("Concat", joined, whole, axis=layer.channel_axis)

    def summand(
        self, layer: FileLayer, part: LayerPart, steps: QuantSteps, number: int
    ) -> FileTensor:
        op, result = layer.op, layer.op.outputs[0]
        kernel = self.store(part.weights)
        half = self.new_tensor(f"{result.name}_half{number + 1}", result.shape, steps)
        bias = op.input(2)
        if bias is not None and bias.data is not None and number:
            # Zeros in its place: the kernels of LiteRT want one.
            zeros = np.zeros_like(bias.data)
            bias = self.add_tensor(f"{bias.name}_none", bias.type, bias.shape, bias.quant, zeros)
        source, options = part.data, {"fused_activation_function": 0}
        if part.pads is not None:
            # A pad and a convolution without one: SAME would centre a narrower kernel anew.
            source, options["padding"] = padded(self, source, part.pads), VALID
        self.again(op, [source, kernel, bias], half, **options)
        return half

    def shuffle_instead(
        self, op: FileOp, around: tuple[FileOp, FileOp], kernel: np.ndarray, scale: float
    ) -> FileOp:
        source, result = around[0].inputs[0], around[1].outputs[0]
        assert source is not None
        count, points = len(kernel), (0,) * len(kernel)
        sums = (float(np.float32(self.steps(source).quant.scale * scale)),) * count
        stem, weights = f"{result.name}_shuffle", kernel.reshape(count, 1, 1, count)
        quant, bias = Quant((scale,) * count, points, 0), np.zeros(count, np.int32)
        constants = [
            self.add_tensor(stem, INT8, weights.shape, quant, weights),
            self.add_constant(f"{stem}_bias", bias, Quant(sums, points, 0)),
        ]
        for old in (around[0], op, around[1]):
            self.remove(old)
        options = {"padding": VALID, "stride_w": 1, "stride_h": 1}
        return self.add_op("Conv", [source, *constants], result, **options)
