"""TFLite -> Graph.

The file's tensors keep their shapes, because TFLite is channel-last already. Only depthwise weights
are turned and implicit flattening is made an op.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuscope.errors import FileError, ModelError
from npuscope.graph.attrs import Attrs
from npuscope.graph.builder import Builder
from npuscope.graph.int4 import unpack_int4
from npuscope.graph.limits import Budget
from npuscope.graph.model import DType, Graph, Numerics, Quant, Tensor
from npuscope.graph.pinning import Pins, static_shape
from npuscope.graph.shapes import Shape
from npuscope.graph.tflite_file import Source, SourceOp, SourceTensor, parse
from npuscope.graph.tflite_ops import CONVERTERS, SHAPE_INPUTS
from npuscope.text import safe_terminal

_TYPES = {
    "FLOAT32": DType.FLOAT32,
    "INT32": DType.INT32,
    "UINT8": DType.UINT8,
    "INT64": DType.INT64,
    "BOOL": DType.BOOL,
    "INT16": DType.INT16,
    "INT8": DType.INT8,
    "UINT16": DType.UINT16,
    "INT4": DType.INT4,
}


def read_tflite(data: bytes, name: str, pins: Pins) -> Graph:
    """The graph in a .tflite file."""
    return TfliteReader(parse(data), name, pins, Budget(len(data))).run()


class TfliteReader:
    """State of one reading. The operator table calls back into it."""

    def __init__(self, source: Source, name: str, pins: Pins, budget: Budget) -> None:
        self.source = source
        self.builder = Builder(name, Numerics.LITERT)
        self.pins = pins
        self.budget = budget
        self.names: dict[int, str] = {}  # source tensor -> graph tensor
        self.turned: dict[int, str] = {}  # depthwise weights -> turned constant

    def run(self) -> Graph:
        ops = live_ops(self.source)
        _refuse_unknown(ops)
        graph = self.builder.graph
        self.pins.check_names([self.source.tensors[index].name for index in self.source.inputs])
        graph.inputs = tuple(self._input(index) for index in self.source.inputs)
        for op in ops:
            CONVERTERS[op.kind](self, op)
        graph.outputs = tuple(self._output(index) for index in self.source.outputs)
        graph.drop_unused()  # axes, pads and shapes have become attributes
        return graph

    def _input(self, index: int) -> str:
        tensor = self.source.tensors[index]
        signature = tensor.signature or tensor.shape
        dims = tuple(None if dim < 0 else dim for dim in signature)
        shape = static_shape(tensor.name, dims, self.pins, self.builder.graph.notes)
        self._add(tensor, shape)
        return self.names[index]

    def _output(self, index: int) -> str:
        if index < 0:
            raise ModelError("a graph output has no tensor")
        return self.names[index] if index in self.names else self._constant(index).name

    # what the operator table asks for

    def tensor(self, op: SourceOp, position: int) -> Tensor:
        """The graph tensor of a required input."""
        index = op.inputs[position] if position < len(op.inputs) else -1
        if index < 0:
            raise ModelError(f"input {position} is missing", where=op.origin)
        if index in self.names:
            return self.builder.graph.tensors[self.names[index]]
        return self._constant(index)

    def optional(self, op: SourceOp, position: int) -> str:
        """Name of an optional input, the empty string when it is absent."""
        if position >= len(op.inputs) or op.inputs[position] < 0:
            return ""
        return self.tensor(op, position).name

    def depthwise_weights(self, op: SourceOp, position: int) -> Tensor:
        """(1, kh, kw, O) turned into (O, kh, kw, 1), scales along the first axis."""
        index = op.inputs[position] if position < len(op.inputs) else -1
        source = self.source.tensors[index]
        if index < 0 or source.data is None or len(source.shape) != 4 or source.shape[0] != 1:
            raise ModelError(
                f"depthwise weights must be a constant (1, kh, kw, O), found {source.shape}",
                where=op.origin,
            )
        if index not in self.turned:
            self.turned[index] = self._turned(source).name
        return self.builder.graph.tensors[self.turned[index]]

    def _turned(self, source: SourceTensor) -> Tensor:
        quant = source.quant
        if quant is not None and quant.axis is not None:
            if quant.axis != 3:
                raise ModelError(
                    f"depthwise weights have scales along axis {quant.axis}, expected 3",
                    where=_label(source),
                )
            quant = replace(quant, axis=0)
        dtype = _dtype(source)
        data = np.ascontiguousarray(self._values(source, dtype).transpose(3, 1, 2, 0))
        return self.builder.constant(source.name, data, dtype, None if dtype.is_float else quant)

    def integers(self, op: SourceOp, position: int) -> np.ndarray:
        """The values of an input that must be a constant of whole numbers."""
        tensor = self.tensor(op, position)
        if tensor.data is None or tensor.dtype not in (DType.INT32, DType.INT64):
            raise ModelError(f"input {position} must be an integer constant", where=op.origin)
        return tensor.data

    def real_scalar(self, op: SourceOp, position: int) -> float:
        """The real value of a one-element constant."""
        tensor = self.tensor(op, position)
        if tensor.data is None or tensor.elements != 1:
            raise ModelError(f"input {position} must be a constant number", where=op.origin)
        value = float(tensor.data.reshape(-1)[0])
        quant = tensor.quant
        return value if quant is None else (value - quant.zero_point) * quant.scale

    def axis(self, op: SourceOp, axis: int, tensor: Tensor) -> int:
        rank = len(tensor.shape)
        if not -rank <= axis < rank:
            raise ModelError(f"axis {axis} is outside of shape {tensor.shape}", where=op.origin)
        return axis % rank

    def reshaped(self, op: SourceOp, x: Tensor, shape: Shape) -> Tensor:
        """`x` behind a Reshape that the file implies."""
        flat = self.builder.add(Tensor(f"{x.name}_flat", shape, x.dtype, x.quant))
        self.builder.emit("Reshape", (x.name,), Attrs(), flat, (op.origin,))
        return flat

    def reshape_target(self, op: SourceOp, x: Tensor) -> Shape:
        return _pinned_reshape(self, op, x) if self.pins.used else self._output_source(op).shape

    def emit(
        self,
        op: SourceOp,
        kind: str,
        inputs: tuple[str, ...],
        attrs: Attrs,
        shape: Shape | None = None,
    ) -> None:
        """Append the op; shapes come from the file unless an input was pinned to another one."""
        inputs = inputs[:-1] if not inputs[-1] else inputs
        source = self._output_source(op)
        if shape is None:
            inferred = self.pins.used
            shape = self.builder.infer(kind, inputs, attrs, op.origin) if inferred else source.shape
        tensor = self._add(source, shape)
        self.builder.emit(kind, inputs, attrs, tensor, (op.origin,))

    def _output_source(self, op: SourceOp) -> SourceTensor:
        if len(op.outputs) != 1 or op.outputs[0] < 0:
            raise ModelError(f"{len(op.outputs)} outputs, expected one", where=op.origin)
        return self.source.tensors[op.outputs[0]]

    # tensors

    def _add(self, source: SourceTensor, shape: Shape) -> Tensor:
        if source.index in self.names:
            raise ModelError("the tensor is made twice", where=_label(source))
        dtype = _dtype(source)
        quant = None if dtype.is_float else source.quant
        tensor = self.builder.add(Tensor(source.name, shape, dtype, quant))
        self.names[source.index] = tensor.name
        return tensor

    def _constant(self, index: int) -> Tensor:
        source = self.source.tensors[index]
        if source.data is None:
            raise ModelError("the tensor is read but nothing makes it", where=_label(source))
        dtype = _dtype(source)
        data = self._values(source, dtype)
        quant: Quant | None = None if dtype.is_float else source.quant
        tensor = self.builder.constant(source.name, data, dtype, quant)
        self.names[index] = tensor.name
        return tensor

    def _values(self, source: SourceTensor, dtype: DType) -> np.ndarray:
        raw = source.data
        wanted = Tensor("", source.shape, dtype).size_bytes
        if raw is None or raw.nbytes != wanted or min(source.shape, default=1) < 1:
            found = 0 if raw is None else raw.nbytes
            raise FileError(
                f"constant of shape {source.shape} needs {wanted} bytes, found {found}",
                where=_label(source),
            )
        self.budget.take(raw.nbytes)
        if dtype is DType.INT4:
            return unpack_int4(raw, _elements(source)).reshape(source.shape)
        return raw.view(dtype.numpy).reshape(source.shape)


def _label(source: SourceTensor) -> str:
    return f"tensor #{source.index} '{safe_terminal(source.name)}'"


def _elements(source: SourceTensor) -> int:
    return Tensor("", source.shape, DType.INT8).elements


def _dtype(source: SourceTensor) -> DType:
    if source.sparse:
        raise ModelError("sparse tensors are not supported", where=_label(source))
    if source.type not in _TYPES:
        raise ModelError(f"{source.type} tensors are not supported", where=_label(source))
    return _TYPES[source.type]


def live_ops(source: Source) -> list[SourceOp]:
    """The operators that the outputs need, in file order; shape arithmetic falls away."""
    needed = set(source.outputs)
    live: list[SourceOp] = []
    for op in reversed(source.ops):
        if needed.intersection(op.outputs):
            live.append(op)
            needed.update(op.inputs[: SHAPE_INPUTS.get(op.kind, len(op.inputs))])
    return live[::-1]


def _refuse_unknown(ops: list[SourceOp]) -> None:
    unknown = [op for op in ops if op.kind not in CONVERTERS]
    if not unknown:
        return
    kinds = sorted({op.kind for op in unknown})
    raise ModelError(
        f"operator {unknown[0].kind} (#{unknown[0].index}) is not supported; "
        f"{len(unknown)} such operators in all: {', '.join(kinds)}",
        where=unknown[0].origin,
    )


def _pinned_reshape(reader: TfliteReader, op: SourceOp, x: Tensor) -> Shape:
    """The shape a RESHAPE asks for, with its -1 resolved for the pinned input."""
    asked = op.options.get("NewShape", ())
    target = list(asked) if isinstance(asked, tuple) else []
    if op.kind == "RESHAPE" and len(op.inputs) > 1:
        target = reader.integers(op, 1).ravel().tolist()
    rest = int(np.prod([dim for dim in target if dim >= 0], dtype=object))
    if op.kind != "RESHAPE" or target.count(-1) > 1 or rest < 1 or x.elements % rest:
        raise ModelError(f"{op.kind} cannot follow the pinned input shape", where=op.origin)
    return tuple(x.elements // rest if dim == -1 else dim for dim in target)
