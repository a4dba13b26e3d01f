"""A float network as if it were quantized to int8: for figures before anybody has quantized it.

Weights are quantized per channel as quantizers do it. Nobody knows the ranges of activations, so
these get placeholder scales: one for all, with the zero point of a ReLU where one ends the op. Time
and memory depend on shapes and types; only zero points and shared scales move a few epochs, so the
figures are those of a quantized network to within these. Results mean nothing, and nothing runs.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import astuple

from npuscope.errors import ModelError
from npuscope.graph.model import Activation, Attrs, DType, Graph, Numerics, Op, Quant, Tensor
from npuscope.ops.functions import ClipAttrs
from npuscope.ops.table import OPS
from npuscope.ops.traits import Trait
from npuscope.ops.verify import verify
from npuscope.structs import replace

_SCALE = 1 / 16
_RECTIFIED = Quant((_SCALE,), (-128,))
_PLAIN = Quant((_SCALE,), (0,))
_LARGEST = 127
ASSUMED = "placeholder scales"
NOTE = "float network, timed as if it were int8: placeholder scales, estimates only"


def as_int8(graph: Graph) -> Graph:
    """The network with int8 activations; one that is quantized already stays as it is."""
    layers = [op for op in graph.ops if OPS[op.kind].has(Trait.PRODUCT)]
    if not any(graph.first_input(op).dtype is DType.FLOAT32 for op in layers):
        return graph
    result = Graph(graph.name, (), (), graph.inputs, graph.outputs, Numerics.LITERT)
    result.notes = [*graph.notes, NOTE]
    result.assumed = (ASSUMED, *graph.assumed)
    work = _Work(graph, result)
    for name in graph.inputs:
        work.keep(name, _PLAIN)
    for op in graph.ops:
        work.convert(op)
    for name in graph.outputs:  # a result that does not depend on the inputs
        if name not in result.tensors:
            result.add(graph.tensors[name])
    result.drop_unused()
    verify(result, ModelError)
    return result


class _Work:
    """The new graph in the making."""

    def __init__(self, graph: Graph, result: Graph) -> None:
        self.graph = graph
        self.result = result
        self.positive: set[str] = set()  # tensors of which no value is below zero

    def keep(self, name: str, quant: Quant) -> None:
        """A tensor that is computed: int8 if it was float."""
        tensor = self.graph.tensors[name]
        if tensor.dtype is DType.FLOAT32:
            tensor = replace(tensor, dtype=DType.INT8, quant=quant)
        self.result.add(tensor)

    def convert(self, op: Op) -> None:
        tensors = [self.graph.tensors[name] for name in (*op.inputs, *op.outputs) if name]
        whole = not any(tensor.dtype is DType.FLOAT32 for tensor in tensors)  # as they are
        if whole or OPS[op.kind].has(Trait.INTEGER_FORM):
            inputs = tuple(self._operand(op, index) for index in range(len(op.inputs)))
            for name in op.outputs:
                self.keep(name, self._quant_of(op, inputs))
            kind = "Quantize" if op.kind == "Dequantize" else op.kind  # its result is int8 now
            self.result.ops.append(op.replace(kind=kind, inputs=inputs))
        else:
            # What it reads is dequantized, what it makes is quantized again.
            inputs = tuple(self._real(op, name) for name in op.inputs)
            outputs = []
            for name in op.outputs:
                tensor = self.graph.tensors[name]
                if tensor.dtype is not DType.FLOAT32:
                    outputs.append(self.result.add(tensor).name)
                    continue
                real = self.result.add(replace(tensor, name=self.result.fresh_name(f"{name}.real")))
                outputs.append(real.name)
            self.result.ops.append(op.replace(inputs=inputs, outputs=tuple(outputs)))
            for real_name, name in zip(outputs, op.outputs, strict=True):
                if real_name != name:
                    self.keep(name, self._quant_of(op))
                    self._emit("Quantize", real_name, name, op.origin)

    def _quant_of(self, op: Op, inputs: tuple[str, ...] = ()) -> Quant:
        """Moved values keep their numbers; what is never below zero has the zero point of a
        ReLU."""
        if self._is_positive(op):
            self.positive.update(op.outputs)
        if OPS[op.kind].has(Trait.MOVES) and inputs:
            return self.result.tensors[inputs[0]].quant or _PLAIN
        plain = _RECTIFIED if self.positive.issuperset(op.outputs) else _PLAIN
        return OPS[op.kind].fixed_quant or plain

    def _is_positive(self, op: Op) -> bool:
        row = OPS[op.kind]
        values = astuple(op.attrs)
        rectifiers = (Activation.RELU, Activation.RELU6)
        lowest = op.attrs_as(ClipAttrs).low if op.kind == "Clip" else None
        is_rectified = any(value in rectifiers for value in values) or lowest == 0
        if is_rectified or row.sign == "positive":
            return True
        tensors = [self.graph.tensors[name] for name in op.inputs if name]
        if tensors and tensors[0].dtype is DType.BOOL:
            return row.kind == "Cast"
        moves = row.has(Trait.MOVES)
        keeps_sign = row.sign == "kept" or moves
        return keeps_sign and all(
            tensor.name in self.positive if tensor.data is None else np.all(tensor.data >= 0)
            for tensor in tensors[: row.data_inputs if moves else None]
        )

    def _operand(self, op: Op, index: int) -> str:
        name = op.inputs[index]
        tensor = self.graph.tensors.get(name)
        if tensor is None or tensor.data is None:
            return name
        is_layer = OPS[op.kind].has(Trait.LAYER)
        if is_layer and index == 2:
            return self._constant(self._bias(op, tensor))
        if tensor.dtype is not DType.FLOAT32:
            return self._constant(tensor)
        axis = 0 if is_layer and index == 1 else None
        return self._constant(quantized(tensor, axis))

    def _bias(self, op: Op, tensor: Tensor) -> Tensor:
        """Sums of products: their scale is that of input times weights, channel by channel."""
        source = self.result.tensors[op.inputs[0]].quant or _PLAIN
        weights = self.result.tensors[self._operand(op, 1)].quant or _PLAIN
        scales = tuple(np.float32(source.scale * scale).item() for scale in weights.scales)
        data = tensor.data
        assert data is not None
        values = np.clip(np.rint(data / np.array(scales)), -(2**31), 2**31 - 1).astype(np.int32)
        quant = Quant(scales, (0,) * len(scales), 0 if len(scales) > 1 else None)
        return replace(tensor, dtype=DType.INT32, quant=quant, data=values)

    def _constant(self, tensor: Tensor) -> str:
        """Under its own name; another form of the same constant gets another name."""
        constant = self.result.tensors.get(tensor.name)
        if constant is None:
            self.result.add(tensor)
        elif (constant.dtype, constant.quant) != (tensor.dtype, tensor.quant):
            name = f"{tensor.name}.{tensor.dtype.value}"
            if name not in self.result.tensors:
                self.result.add(replace(tensor, name=name))
            return name
        return tensor.name

    def _real(self, op: Op, name: str) -> str:
        tensor = self.graph.tensors.get(name)
        if tensor is None or tensor.dtype is not DType.FLOAT32:
            return name if tensor is None or tensor.data is None else self._constant(tensor)
        if tensor.data is not None:
            return self._constant(tensor)
        real = f"{name}.float"
        if real not in self.result.tensors:
            self.result.add(replace(tensor, name=real))
            self._emit("Dequantize", name, real, op.origin)
        return real

    def _emit(self, kind: str, source: str, output: str, origin: tuple[str, ...]) -> None:
        self.result.ops.append(Op(kind, f"{output}.{kind}", (source,), (output,), Attrs(), origin))


def quantized(tensor: Tensor, axis: int | None) -> Tensor:
    """A float constant as int8: symmetric, one scale for the tensor or for each channel."""
    data = tensor.data
    assert data is not None
    others = tuple(n for n in range(data.ndim) if n != axis)
    finite = np.nan_to_num(data)
    largest = np.abs(finite).max(axis=others or None, keepdims=True, initial=0.0)
    steps = np.where(largest > 0, largest / _LARGEST, 1.0).astype(np.float32)
    values = np.clip(np.rint(finite / steps), -_LARGEST, _LARGEST).astype(np.int8)
    scales = tuple(float(step) for step in np.ravel(steps))
    quant = Quant(scales, (0,) * len(scales), axis if len(scales) > 1 else None)
    return replace(tensor, dtype=DType.INT8, quant=quant, data=values)
