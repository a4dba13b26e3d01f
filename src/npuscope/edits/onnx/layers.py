"""Constants and layers of an .onnx file: where nodes have weights and bias, and how axes lie."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.edits.onnx.steps import OnnxSteps
from npuscope.edits.padding import POINTWISE, computed_data, follow, is_channelwise
from npuscope.edits.records import Constant, FileLayer, LayerPart, Op, QuantSteps
from npuscope.edits.steps import add_steps, dequantizer, in_steps_of, quantizers
from npuscope.structs import replace


class _Places(Struct, frozen=True):
    """Where a node has its weights and bias; `integer` ones have scale and zero point beside."""

    weights: int
    bias: int | None
    integer: bool = False


_LAYERS = {
    "Conv": _Places(1, 2),
    "Gemm": _Places(1, 2),
    "MatMul": _Places(1, None),
    "QLinearConv": _Places(3, 8, integer=True),
    "QLinearMatMul": _Places(3, None, integer=True),
    "QGemm": _Places(3, 6, integer=True),
}
_CONVS = ("Conv", "QLinearConv")


class OnnxLayers(OnnxSteps):
    """Reading and writing of constants and layers."""

    def constant(self, tensor: str) -> Constant | None:
        """Plain values, or integers behind a DequantizeLinear."""
        values = self.values(tensor)
        if values is not None:
            return Constant(tensor, values)
        maker = dequantizer(self, tensor)
        if maker is None:
            return None
        inputs = self.inputs(maker)
        values, scale = self.values(inputs[0]), self.values(inputs[1])
        zero = self.values(inputs[2]) if len(inputs) > 2 and inputs[2] else None
        if values is None or scale is None:
            return None
        axis = int(self.attribute(maker, "axis", 1)) % max(values.ndim, 1)
        return Constant(inputs[0], values, scale, zero, axis)

    def store(self, constant: Constant) -> str:
        """The values, with a DequantizeLinear where they have scales."""
        name = self.add_constant(constant.name, constant.values)
        if constant.scale is None:
            return name
        inputs = [name, self.add_constant(f"{name}_scale", constant.scale)]
        if constant.zero_point is not None:
            inputs.append(self.add_constant(f"{name}_zero_point", constant.zero_point))
        attributes: dict[str, Any] = {"axis": constant.axis} if constant.scale.size > 1 else {}
        result = self.fresh(f"{name}_dequantized")
        self.add_op("Dequantize", inputs, result, **attributes)
        return result

    def layer(self, op: Op) -> FileLayer | None:
        places = _LAYERS.get(self.kind(op))
        if places is None:
            return None
        weights = self._weights(op, places)
        inputs, place = self.inputs(op), places.bias
        bias = inputs[place] if place is not None and place < len(inputs) else None
        if weights is None or weights.values.ndim < 2:
            return None
        if bias and self.constant(bias) is None:
            return None
        return self._with_axes(op, weights, self.constant(bias) if bias else None)

    def _with_axes(self, op: Op, weights: Constant, bias: Constant | None) -> FileLayer | None:
        shape, kind = weights.values.shape, self.kind(op)
        if kind in _CONVS:
            groups, inputs = int(self.attribute(op, "group", 1)), shape[1]
            apart = groups > 1 and groups == inputs * groups == shape[0]
            axes = tuple(range(2, len(shape)))
            return FileLayer(op, weights, bias, inputs * groups, groups, apart, 0, 1, axes, 1)
        turned = kind in ("Gemm", "QGemm") and bool(self.attribute(op, "transB", 0))
        out_axis, in_axis = (0, 1) if turned else (1, 0)
        channel_axis = 1
        if kind in ("MatMul", "QLinearMatMul"):
            data = self.shape(self.inputs(op)[0])
            if len(shape) != 2 or data is None:
                return None
            channel_axis = len(data) - 1
        elif self.attribute(op, "transA", 0):
            return None
        inputs = int(shape[in_axis])
        return FileLayer(op, weights, bias, inputs, 1, False, out_axis, in_axis, (), channel_axis)

    def _weights(self, op: Op, places: _Places) -> Constant | None:
        inputs, kind = self.inputs(op), self.kind(op)
        if not places.integer:
            return self.constant(inputs[places.weights])
        values, scale, zero = (self.values(inputs[places.weights + n]) for n in range(3))
        if values is None or scale is None or zero is None:
            return None
        axis = {"QLinearConv": 0, "QGemm": 1}.get(kind, values.ndim - 1)
        if kind == "QGemm" and self.attribute(op, "transB", 0):
            axis = 0
        return Constant(inputs[places.weights], values, scale, zero, axis)

    def bias_place(self, op: Op) -> int | None:
        return _LAYERS[self.kind(op)].bias

    def set_layer(self, layer: FileLayer) -> None:
        for place, name in enumerate(self._inputs_of(layer)):
            self.set_input(layer.op, place, name)
        if self.kind(layer.op) in _CONVS and layer.groups != self.attribute(layer.op, "group", 1):
            self.set_attribute(layer.op, "group", layer.groups)

    def _inputs_of(self, layer: FileLayer) -> list[Any]:
        """The node's inputs with the constants of this layer, which are added to the file."""
        places = _LAYERS[self.kind(layer.op)]
        inputs = self.inputs(layer.op)
        weights = layer.weights
        if not places.integer:
            inputs[places.weights] = self.store(weights)
        else:  # scale and zero point stand beside them
            assert weights.scale is not None and weights.zero_point is not None
            name = self.add_constant(weights.name, weights.values)
            scale = self.add_constant(f"{name}_scale", weights.scale)
            zero = self.add_constant(f"{name}_zero_point", weights.zero_point)
            inputs[places.weights : places.weights + 3] = [name, scale, zero]
        if layer.bias is not None and places.bias is not None:
            plain = replace(layer.bias, scale=None) if places.integer else layer.bias
            inputs[places.bias] = self.store(plain)
        return inputs

    # layers in parts

    def summand(self, layer: FileLayer, part: LayerPart, steps: QuantSteps, number: int) -> str:
        """Gives the dequantized result."""
        op, inputs, weights = layer.op, self.inputs(layer.op), part.weights
        stem = f"{self.outputs(op)[0]}_half{number + 1}"
        constants = add_steps(self, stem, steps)
        window: dict[str, Any] = {}
        if part.pads is not None:
            kernel = [*weights.values.shape[2:]]
            window = {"auto_pad": None, "kernel_shape": kernel, "pads": [*part.pads]}
        integers = self.fresh(f"{stem}_quantized")
        if _LAYERS[self.kind(op)].integer:
            bias = inputs[8:9] if number == 0 else []
            kernels = self.add_constant(weights.name, weights.values)
            inputs = [part.data, *inputs[1:3], kernels, *inputs[4:6], *constants, *bias]
            self.again(op, inputs, integers, **window)
        else:
            kernels, bias = self.store(weights), inputs[2:3] if number == 0 else []
            sums = self.fresh(f"{stem}_float")
            self.again(op, (part.data, kernels, *bias), sums, **window)
            self.add_op("Quantize", (sums, *constants), integers)
        result = self.fresh(stem)
        self.add_op("Dequantize", (integers, *constants), result)
        return result

    def split_layer(self, layer: FileLayer, parts: Sequence[Sequence[int]]) -> None:
        """A part must be quantized before it is joined, for compilers look for the Quantize at
        the layer: what stands between is made for each part."""
        tail = self._tail(layer)
        joined = [self._layer_part(layer, tail, channels) for channels in parts]
        last = self.outputs(tail[-2] if len(tail) > 1 else layer.op)[0]  # what the Quantize reads
        whole = self.fresh(f"{last}_joined")
        self.add_op("Concat", joined, whole, axis=layer.channel_axis)
        maker = self.producer(last)
        self.rewire(last, whole)
        self.remove(maker)

    def _layer_part(self, layer: FileLayer, tail: list[Op], channels: Sequence[int]) -> str:
        rank = len(self.shape(self.outputs(layer.op)[0]) or ()) or layer.channel_axis + 1
        tensor = self._part(layer.op, self._inputs_of(layer.with_outputs(channels)))
        for before, op in pairwise([layer.op, *tail]):
            rows = follow(self, op, layer.channel_axis, rank, layer.outputs, channels)
            source = self.outputs(before)[0]
            tensor = self._part(op, [tensor if name == source else name for name in rows])
        if not tail:
            return tensor
        result = self.fresh(f"{tensor}_real")
        self.add_op("Dequantize", [tensor, *self.inputs(tail[-1])[1:]], result)
        return result

    def _part(self, op: Op, inputs: list[Any]) -> str:
        result = self.fresh(f"{self.outputs(op)[0]}_part")
        self.again(op, inputs, result)
        return result

    def _tail(self, layer: FileLayer) -> list[Op]:
        """Nodes behind a layer of floats up to its Quantize; none where there is more."""
        chain: list[Op] = []
        tensor = self.outputs(layer.op)[0]
        floats = not _LAYERS[self.kind(layer.op)].integer
        while floats and tensor not in self.network_outputs:
            readers = self.readers(tensor)
            if len(readers) != 1 or self.kind(readers[0]) not in (*POINTWISE, "Quantize"):
                return []
            op = readers[0]
            plain = is_channelwise(self, op, layer.channel_axis)
            if not plain or computed_data(self, op) != [tensor]:
                return []
            chain.append(op)
            if self.kind(op) == "Quantize":
                return chain
            tensor = self.outputs(op)[0]
        return []

    def shuffle_instead(
        self, op: Op, around: tuple[Op, Op], kernel: np.ndarray, scale: float
    ) -> Op:
        source, result = self.inputs(around[0])[0], self.outputs(around[1])[0]
        weights, step = kernel[:, :, np.newaxis, np.newaxis], np.array(scale, np.float32)
        constant = self.store(Constant(f"{result}_shuffle", weights, step, np.array(0, np.int8)))
        self.remove(around[1])
        self.remove(op)
        layer = self.add_op("Conv", [source, constant], result, name=self.own_name(op) or "shuffle")
        alone = len(self.readers(result)) == 1 and len(quantizers(self, result)) == 1
        if alone and result not in self.network_outputs:
            return layer
        plain = self.fresh(f"{result}_shuffled")
        self.set_output(layer, result, plain)
        maker = dequantizer(self, source)
        assert maker is not None  # the edit looked
        in_steps_of(self, maker, plain, result, f"{result}_whole")
        return layer
