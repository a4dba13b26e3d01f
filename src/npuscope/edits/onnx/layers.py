"""Constants and layers of an .onnx file: where nodes have weights and bias, and how axes lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from npuscope.edits.onnx.quantizers import OnnxQuantizers, attributes_of
from npuscope.edits.records import Constant, Layer, Pads, QuantSteps
from npuscope.files.onnx.file_graph import DEQUANTIZE, QUANTIZE, Node
from npuscope.lean_dataclass import dataclass, replace


@dataclass(frozen=True, slots=True)
class _Places:
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


class OnnxLayers(OnnxQuantizers):
    """Reading and writing of constants and layers."""

    def constant(self, tensor: str) -> Constant | None:
        """Plain values, or integers behind a DequantizeLinear."""
        values = self.array(tensor)
        if values is not None:
            return Constant(tensor, values)
        maker = self.dequantizer(tensor)
        if maker is None:
            return None
        values, scale = self.array(maker.input[0]), self.array(maker.input[1])
        zero = self.array(maker.input[2]) if len(maker.input) > 2 and maker.input[2] else None
        if values is None or scale is None:
            return None
        axis = int(self.attribute(maker, "axis", 1)) % max(values.ndim, 1)
        return Constant(maker.input[0], values, scale, zero, axis)

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
        self.add_node(DEQUANTIZE, inputs, result, **attributes)
        return result

    def layer(self, op: Node) -> Layer | None:
        places = _LAYERS.get(op.op_type)
        if places is None:
            return None
        weights = self._weights(op, places)
        bias = self._bias_name(op)
        if weights is None or weights.values.ndim < 2:
            return None
        if bias and self.constant(bias) is None:
            return None
        return self._with_axes(op, weights, self.constant(bias) if bias else None)

    def _with_axes(self, op: Node, weights: Constant, bias: Constant | None) -> Layer | None:
        shape, kind = weights.values.shape, op.op_type
        if kind in _CONVS:
            groups, inputs = int(self.attribute(op, "group", 1)), shape[1]
            apart = groups > 1 and groups == inputs * groups == shape[0]
            axes = tuple(range(2, len(shape)))
            return Layer(op, weights, bias, inputs * groups, groups, apart, 0, 1, axes, 1)
        turned = kind in ("Gemm", "QGemm") and bool(self.attribute(op, "transB", 0))
        out_axis, in_axis = (0, 1) if turned else (1, 0)
        channel_axis = 1
        if kind in ("MatMul", "QLinearMatMul"):
            data = self.shape(op.input[0])
            if len(shape) != 2 or data is None:
                return None
            channel_axis = len(data) - 1
        elif self.attribute(op, "transA", 0):
            return None
        inputs = int(shape[in_axis])
        return Layer(op, weights, bias, inputs, 1, False, out_axis, in_axis, (), channel_axis)

    def _weights(self, op: Node, places: _Places) -> Constant | None:
        if not places.integer:
            return self.constant(op.input[places.weights])
        values, scale, zero = (self.array(op.input[places.weights + n]) for n in range(3))
        if values is None or scale is None or zero is None:
            return None
        axis = {"QLinearConv": 0, "QGemm": 1}.get(op.op_type, values.ndim - 1)
        if op.op_type == "QGemm" and self.attribute(op, "transB", 0):
            axis = 0
        return Constant(op.input[places.weights], values, scale, zero, axis)

    def _bias_name(self, op: Node) -> str:
        place = _LAYERS[op.op_type].bias
        return str(op.input[place]) if place is not None and len(op.input) > place else ""

    def layer_bias(self, op: Node) -> Constant | None:
        name = self._bias_name(op)
        return self.constant(name) if name else None

    def set_bias(self, op: Node, bias: Constant) -> None:
        place = _LAYERS[op.op_type].bias
        assert place is not None
        self.set_input(op, place, self.store(bias))

    def set_layer(self, layer: Layer) -> None:
        for place, name in enumerate(self.layer_inputs(layer)):
            self.set_input(layer.op, place, name)
        if layer.op.op_type in _CONVS and layer.groups != self.attribute(layer.op, "group", 1):
            self.set_attribute(layer.op, "group", layer.groups)

    def layer_inputs(self, layer: Layer) -> list[str]:
        """The node's inputs with the constants of this layer, which are added to the file."""
        places = _LAYERS[layer.op.op_type]
        inputs = [*layer.op.input]
        if places.integer:
            inputs[places.weights : places.weights + 3] = self._beside(layer.weights)
        else:
            inputs[places.weights] = self.store(layer.weights)
        if layer.bias is not None and places.bias is not None:
            plain = replace(layer.bias, scale=None) if places.integer else layer.bias
            inputs[places.bias] = self.store(plain)
        return inputs

    def _beside(self, constant: Constant) -> list[str]:
        assert constant.scale is not None and constant.zero_point is not None
        name = self.add_constant(constant.name, constant.values)
        scale = self.add_constant(f"{name}_scale", constant.scale)
        return [name, scale, self.add_constant(f"{name}_zero_point", constant.zero_point)]

    def columns_of(
        self, layer: Layer, weights: Constant, pads: Pads, steps: QuantSteps, number: int
    ) -> str:
        """A convolution with some of the columns; gives its dequantized result."""
        node = layer.op
        stem = f"{node.output[0]}_half{number + 1}"
        constants = self.add_steps(stem, steps)
        attributes = attributes_of(self, node)
        attributes.pop("auto_pad", None)
        attributes |= {"kernel_shape": [*weights.values.shape[2:]], "pads": [*pads]}
        integers = self.fresh(f"{stem}_quantized")
        if _LAYERS[node.op_type].integer:
            inputs = [*node.input[:6], *constants, *(node.input[8:9] if number == 0 else [])]
            inputs[3] = self.add_constant(weights.name, weights.values)
            self.add_node("QLinearConv", inputs, integers, **attributes)
        else:
            kernels, bias = self.store(weights), node.input[2:3] if number == 0 else []
            made = self.fresh(f"{stem}_float")
            self.add_node("Conv", (node.input[0], kernels, *bias), made, **attributes)
            self.add_node(QUANTIZE, (made, *constants), integers)
        result = self.fresh(stem)
        self.add_node(DEQUANTIZE, (integers, *constants), result)
        return result

    def int8_constant(self, stem: str, steps: np.ndarray, scale: float = 1.0) -> str:
        """An int8 constant about zero behind a DequantizeLinear."""
        values = steps.astype(np.int8)
        return self.store(Constant(stem, values, np.array(scale, np.float32), np.array(0, np.int8)))
