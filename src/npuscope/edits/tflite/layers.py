"""Constants, steps and layers of a .tflite file, where quantization hangs on the tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from npuscope.edits.records import (
    DEPTHWISE,
    LAYERS,
    LOWEST,
    Constant,
    Layer,
    NotFitting,
    Pads,
    QuantSteps,
)
from npuscope.files.tflite.file_graph import TfliteFileGraph
from npuscope.files.tflite.file_parts import FileOp, FileTensor
from npuscope.files.tflite.records import Record
from npuscope.graph.model import Quant
from npuscope.graph.symmetric import symmetric_weights
from npuscope.lean_dataclass import replace

SAME, VALID = 0, 1
KINDS = {
    "CONV_2D": "Conv",
    "FULLY_CONNECTED": "Gemm",
    "DEPTHWISE_CONV_2D": DEPTHWISE,
    "QUANTIZE": "Quantize",
    "DEQUANTIZE": "Dequantize",
    "ADD": "Add",
    "SUB": "Sub",
    "MUL": "Mul",
    "DIV": "Div",
    "POW": "Pow",
    "MINIMUM": "Min",
    "MAXIMUM": "Max",
    "NEG": "Neg",
    "ABS": "Abs",
    "CAST": "Cast",
    "RELU": "Relu",
    "RELU6": "Relu6",
    "RELU_N1_TO_1": "ReluN1To1",
    "LEAKY_RELU": "LeakyRelu",
    "PRELU": "PRelu",
    "ELU": "Elu",
    "LOGISTIC": "Sigmoid",
    "TANH": "Tanh",
    "HARD_SWISH": "HardSwish",
    "GELU": "Gelu",
    "EXP": "Exp",
    "LOG": "Log",
    "SQRT": "Sqrt",
    "RSQRT": "Rsqrt",
    "SQUARE": "Square",
    "FLOOR": "Floor",
    "CEIL": "Ceil",
    "ROUND": "Round",
    "SOFTMAX": "Softmax",
    "MAX_POOL_2D": "MaxPool",
    "AVERAGE_POOL_2D": "AveragePool",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearest",
    "RESIZE_BILINEAR": "ResizeLinear",
    "MEAN": "ReduceMean",
    "SUM": "ReduceSum",
    "PAD": "Pad",
    "PADV2": "Pad",
    "RESHAPE": "Reshape",
    "SQUEEZE": "Squeeze",
    "EXPAND_DIMS": "Unsqueeze",
    "TRANSPOSE": "Transpose",
    "SLICE": "Slice",
    "STRIDED_SLICE": "StridedSlice",
    "SPLIT": "Split",
    "CONCATENATION": "Concat",
    "GATHER": "Gather",
}
_WEIGHTS = ("CONV_2D", "FULLY_CONNECTED", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
_OUTPUT_AXES = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3}  # others have one scale for all weights
_BIAS = {"TRANSPOSE_CONV": 3}  # others: 2
_INT8_VERSIONS = {  # others: 2
    "CONV_2D": 3,
    "DEPTHWISE_CONV_2D": 3,
    "FULLY_CONNECTED": 4,
    "RESHAPE": 1,
    "EXPAND_DIMS": 1,
    "SQUEEZE": 1,
    "PRELU": 1,  # kernels of bytes have the first
}
_DENSE_OPTIONS = (
    *("Padding", "StrideW", "StrideH", "FusedActivationFunction", "DilationWFactor"),
    "DilationHFactor",
)
# Both sides have the same steps.
_TIED = (
    *("PAD", "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "MAX_POOL_2D", "AVERAGE_POOL_2D"),
    *("STRIDED_SLICE", "RESIZE_NEAREST_NEIGHBOR"),
)
# Kernels that bring any steps to any others.
_FREE = (
    *("CONV_2D", "FULLY_CONNECTED", "DEPTHWISE_CONV_2D", "ADD", "SUB", "MUL", "MEAN", "PRELU"),
    *("LEAKY_RELU", "HARD_SWISH", "RELU", "RELU6", "QUANTIZE", "DEQUANTIZE"),
)
_FREE_READERS = (*_FREE, "LOGISTIC", "TANH", "SOFTMAX")


class TfliteLayers(TfliteFileGraph):
    """Reading and writing of constants, steps and layers."""

    def kind(self, op: FileOp) -> str:
        return KINDS.get(op.kind, op.kind)

    def word(self, op: FileOp) -> str:
        return op.kind

    def spelled(self, kinds: Iterable[str]) -> list[str]:
        return [word for kind in kinds for word, known in KINDS.items() if known == kind]

    def name(self, tensor: FileTensor | None) -> str:
        return "" if tensor is None else tensor.name

    # steps

    def steps(self, tensor: FileTensor) -> QuantSteps:
        if tensor.type != "INT8" or tensor.quant is None or tensor.quant.per_channel:
            raise NotFitting(f"'{tensor.name}' is not int8 with one scale")
        return QuantSteps(tensor.quant)

    def moved_steps(self, tensor: FileTensor) -> QuantSteps:
        return self.steps(tensor)

    def result_steps(self, tensor: FileTensor) -> QuantSteps:
        return self.steps(tensor)

    def steps_behind(self, tensor: FileTensor) -> QuantSteps | None:
        made = (op.outputs[0] for op in self.readers(tensor) if op.kind == "QUANTIZE")
        found = next((made for made in made if made.type == "INT8"), None)
        return None if found is None or found.quant is None else QuantSteps(found.quant)

    def stepped(self, tensor: FileTensor, steps: QuantSteps) -> FileTensor:
        return tensor

    def bind(self, tensor: FileTensor, steps: QuantSteps) -> None:
        """It has its steps."""

    def users(self, tensor: FileTensor) -> list[FileOp]:
        return self.readers(tensor)

    def plain(self, tensor: FileTensor) -> FileTensor:
        return tensor

    def step_nodes(self, tensor: FileTensor) -> list[FileOp]:
        return []

    def tied(self, tensor: FileTensor) -> list[FileTensor]:
        if tensor.quant is None or tensor.type != "INT8":
            raise NotFitting("its input is not int8")
        group, waiting = [tensor], [tensor]
        while waiting:
            at = waiting.pop()
            ops = [op for op in self.ops if at in (op.inputs[:1] + op.outputs[:1])]
            for op in (op for op in ops if op.kind in _TIED):
                ends = [t for t in (op.inputs[0], op.outputs[0]) if t is not None]
                new = [t for t in ends if t not in group]
                group += new
                waiting += new
        for other in group:
            self._check_tied(other, tensor.quant)
        return group

    def _check_tied(self, tensor: FileTensor, quant: Quant) -> None:
        if self.is_output(tensor):
            raise NotFitting(f"'{tensor.name}' is an output of the network")
        if tensor.quant != quant:
            raise NotFitting(f"'{tensor.name}' is quantized differently")
        maker = self.producer(tensor)
        if maker is not None and maker.kind not in (*_FREE, *_TIED):
            raise NotFitting(
                f"'{tensor.name}' comes from {maker.kind}, whose quantization is fixed"
            )
        for op in self.readers(tensor):
            if op.kind not in (*_FREE_READERS, *_TIED):
                raise NotFitting(f"'{tensor.name}' is also used by {op.kind}")

    def tied_steps(self, group: Sequence[FileTensor]) -> QuantSteps:
        return self.steps(group[0])

    def tied_layers(self, group: Sequence[FileTensor]) -> list[FileOp]:
        readers = [op for op in self.ops if any(tensor in op.inputs for tensor in group)]
        return [op for op in readers if self.kind(op) in (*LAYERS, DEPTHWISE)]

    def set_steps(self, group: Sequence[FileTensor], steps: QuantSteps) -> None:
        for tensor in group:
            tensor.quant = steps.quant

    def unsigned(self) -> list[FileTensor]:
        found = [t for t in self.tensors if t.type == "UINT8" and t.quant is not None]
        border = [t for t in found if t in self.graph_inputs or t in self.graph_outputs]
        if len(border) == len(found):
            raise NotFitting("no tensor inside the network is uint8")
        for op in (op for op in self.ops if any(t in found for t in op.inputs)):
            # Only the kernel on uint8 rescales what it joins.
            rescales = any(t is None or t.quant != op.outputs[0].quant for t in op.inputs)
            if op.kind == "CUSTOM" or (op.kind == "CONCATENATION" and rescales):
                raise NotFitting(f"a {op.kind} has no int8 form here")
            if op.kind in _WEIGHTS and op.inputs[1] in found:
                self._check_own(op)
        return found

    def _check_own(self, op: FileOp) -> None:
        """What a layer alone multiplies and adds can get other steps."""
        weights, bias = op.inputs[1], op.input(_BIAS.get(op.kind, 2))
        if weights is None or weights.data is None or weights.data.shape != weights.shape:
            raise NotFitting("its weights are not constant integers")
        for tensor in (weights, bias):
            if tensor is not None and len(self.readers(tensor)) > 1:
                raise NotFitting(f"'{tensor.name}' is shared by several layers")

    def make_signed(self, group: Sequence[FileTensor]) -> None:
        """Inputs and outputs keep their type: a QUANTIZE stands beside them."""
        layers = [op for op in self.ops if op.kind in _WEIGHTS and op.inputs[1] in group]
        for op in layers:
            self._center(op)
        inside = [self._detached(t) for t in group if t.type == "UINT8"]
        for tensor in inside:
            assert tensor.quant is not None
            points = tuple(zero + LOWEST for zero in tensor.quant.zero_points)
            tensor.type, tensor.quant = "INT8", replace(tensor.quant, zero_points=points)
            if tensor.data is not None:
                tensor.data = (tensor.data.astype(np.int16) + LOWEST).astype(np.int8)
        for op in self.ops:
            if any(t in inside for t in (*op.inputs, *op.outputs)):
                op.version = max(op.version, _INT8_VERSIONS.get(op.kind, 2))

    def _center(self, op: FileOp) -> None:
        """Kernels on int8 want weights about zero. The step of a bias is the product of the
        input's and the weights'."""
        weights, bias = op.inputs[1], op.input(_BIAS.get(op.kind, 2))
        assert weights is not None and weights.data is not None and weights.quant is not None
        old = weights.quant
        data, quant = symmetric_weights(weights.data, old, _OUTPUT_AXES.get(op.kind))
        weights.type, weights.data, weights.quant = "INT8", data, quant
        if bias is None or bias.data is None or bias.quant is None or quant.scales == old.scales:
            return
        ratio = np.array(old.scales) / np.array(quant.scales)
        step = bias.quant.scale / old.scale
        scales = tuple(float(np.float32(step * scale)) for scale in quant.scales)
        bias.data = np.rint(bias.data * ratio).astype(np.int32)
        bias.quant = Quant(scales, (0,) * len(scales), None if quant.axis is None else 0)

    def _detached(self, tensor: FileTensor) -> FileTensor:
        """What stands for a tensor inside the network."""
        given, made = tensor in self.graph_inputs, tensor in self.graph_outputs
        if not given and not made:
            return tensor
        inner = self.add_tensor(f"{tensor.name}_int8", "UINT8", tensor.shape, tensor.quant)
        maker = self.producer(tensor)
        for op in self.readers(tensor):
            op.inputs = [inner if t is tensor else t for t in op.inputs]
        if maker is not None:
            maker.outputs = [inner if t is tensor else t for t in maker.outputs]
        ends = (tensor, inner) if given else (inner, tensor)
        self.add_op("QUANTIZE", ends[:1], ends[1:], version=2)
        return inner

    # constants

    def held(self, tensor: FileTensor) -> np.ndarray | None:
        return tensor.data

    def same_constant(self, one: FileTensor, other: FileTensor) -> bool:
        same = (one.shape, one.type, one.quant) == (other.shape, other.type, other.quant)
        return same and np.array_equal(np.asarray(one.data), np.asarray(other.data))

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
            held: FileTensor = constant.held
            return held
        quant, values = None, constant.values
        if constant.scale is not None and constant.zero_point is not None:
            scales = tuple(float(scale) for scale in constant.scale.reshape(-1))
            points = tuple(int(zero) for zero in constant.zero_point.reshape(-1))
            # One channel alone has no axis: its scale is that of the tensor.
            quant = Quant(scales, points, constant.axis if len(scales) > 1 else None)
        kind = str(values.dtype).upper()
        return self.add_tensor(constant.name, kind, values.shape, quant, values)

    def int8_constant(self, stem: str, steps: np.ndarray, scale: float = 1.0) -> FileTensor:
        values = steps.astype(np.int8).reshape(steps.shape or (1,))
        return self.add_tensor(stem, "INT8", values.shape, Quant((scale,), (0,)), values)

    # layers

    def layer(self, op: FileOp) -> Layer | None:
        weights, bias, data = op.input(1), op.input(2), op.input(0)
        if self.kind(op) not in (*LAYERS, DEPTHWISE) or weights is None or data is None:
            return None
        if weights.data is None or weights.data.shape != weights.shape:
            return None  # computed, or packed
        held = self.constant(weights)
        added = None if bias is None else self.constant(bias)
        if held is None or (bias is not None and added is None):
            return None
        channel_axis = len(op.outputs[0].shape) - 1
        if op.kind == "DEPTHWISE_CONV_2D":
            count = data.shape[-1]
            apart = weights.shape[-1] == count
            return Layer(op, held, added, count, count, apart, 3, None, (1, 2), channel_axis)
        inputs = weights.shape[-1] if op.kind == "FULLY_CONNECTED" else data.shape[-1]
        groups = inputs // weights.shape[-1]
        in_axis = len(weights.shape) - 1
        return Layer(op, held, added, inputs, groups, False, 0, in_axis, (1, 2), channel_axis)

    def layer_bias(self, op: FileOp) -> Constant | None:
        bias = op.input(2)
        return None if bias is None or bias.quant is None else self.constant(bias)

    def set_bias(self, op: FileOp, bias: Constant) -> None:
        op.inputs[2] = self.store(bias)

    def set_layer(self, layer: Layer) -> None:
        op = layer.op
        op.inputs = self._inputs_of(layer)[: max(len(op.inputs), 2)]
        if layer.is_dense and op.kind == "DEPTHWISE_CONV_2D":
            options = op.options.fields if op.options else {}
            kept = {name: options[name] for name in _DENSE_OPTIONS if name in options}
            op.kind, op.options = "CONV_2D", Record("Conv2DOptions", kept)
            op.version = max(o.version for o in self.ops if o is op or o.kind == op.kind)

    def _inputs_of(self, layer: Layer) -> list[FileTensor | None]:
        weights = self.store(layer.weights)
        bias = None if layer.bias is None else self.store(layer.bias)
        return [layer.op.inputs[0], weights, bias]

    def layer_part(self, layer: Layer, channels: Sequence[int]) -> FileTensor:
        op, whole = layer.op, layer.op.outputs[0]
        inputs = self._inputs_of(layer.with_outputs(channels))
        shape = (*whole.shape[:-1], len(channels))
        result = self.add_tensor(f"{whole.name}_part", whole.type, shape, whole.quant)
        options = op.options.copy() if op.options else None
        self.add_op(op.kind, inputs, [result], options, op.version)
        return result

    def columns_of(
        self, layer: Layer, weights: Constant, pads: Pads, steps: QuantSteps, number: int
    ) -> FileTensor:
        """A pad and a convolution without one: SAME would centre the narrower kernel anew."""
        op, result = layer.op, layer.op.outputs[0]
        if op.options is None:
            raise NotFitting("it has no options")
        kernel = self.store(weights)
        stem = f"{result.name}_half{number + 1}"
        made = self.add_tensor(stem, "INT8", result.shape, steps.quant)
        bias = op.input(2)
        if bias is not None and bias.data is not None and number:
            # Zeros in its place: the kernels of LiteRT want one.
            zeros = np.zeros_like(bias.data)
            bias = self.add_tensor(f"{bias.name}_none", bias.type, bias.shape, bias.quant, zeros)
        options = op.options.copy()
        options.fields.update(Padding=VALID, FusedActivationFunction=0)
        source = self.padded(op.inputs[0], pads)
        self.add_op(op.kind, [source, kernel, bias], [made], options, op.version)
        return made

    def padded(self, tensor: FileTensor | None, pads: Pads) -> FileTensor:
        """An image with rows and columns of zeros around it; itself where there are none."""
        assert tensor is not None
        top, left, bottom, right = pads
        if not any(pads):
            return tensor
        sizes = np.array([(0, 0), (top, bottom), (left, right), (0, 0)], np.int32)
        shape = tuple(n + int(s.sum()) for n, s in zip(tensor.shape, sizes, strict=True))
        held = self.add_tensor(f"{tensor.name}_pads", "INT32", sizes.shape, None, sizes)
        made = self.add_tensor(f"{tensor.name}_padded", tensor.type, shape, tensor.quant)
        self.add_op("PAD", (tensor, held), (made,), Record("PadOptions"), version=2)
        return made
