"""Tensors of a TFLite file as tensors of the Graph: each made once, constants on first use."""

from __future__ import annotations

import numpy as np

from npuscope.errors import FileError, ModelError, NotComputed
from npuscope.files.builder import Builder, unpack_int4
from npuscope.files.tflite.file import SourceOp, SourceTensor, TfliteModel
from npuscope.files.tflite.sparse import dense
from npuscope.graph.limits import Budget
from npuscope.graph.model import DType, Quant, Tensor
from npuscope.ops.row import Shape
from npuscope.structs import replace
from npuscope.text import safe_terminal

TYPES = {
    "FLOAT32": DType.FLOAT32,
    "FLOAT16": DType.FLOAT32,  # constants only: a file keeps its weights so to be smaller
    "INT32": DType.INT32,
    "UINT8": DType.UINT8,
    "INT64": DType.INT64,
    "BOOL": DType.BOOL,
    "INT16": DType.INT16,
    "INT8": DType.INT8,
    "UINT16": DType.UINT16,
    "INT4": DType.INT4,
}
# Types that only ops of unknown cost hand on, with one of as many bytes (a handle has a word).
STAND_INS = {
    "UINT32": DType.INT32,
    "UINT64": DType.INT64,
    "FLOAT64": DType.INT64,
    "COMPLEX64": DType.INT64,
    "VARIANT": DType.INT64,
    "RESOURCE": DType.INT64,
    "STRING": DType.INT64,
}


class TfliteTensors:
    """Which tensor of the file is which tensor of the graph."""

    def __init__(self, source: TfliteModel, builder: Builder, budget: Budget) -> None:
        self.source = source
        self.builder = builder
        self.budget = budget
        self.names: dict[int, str] = {}  # source tensor -> graph tensor
        self.widened: set[int] = set()  # constants that an operator made of stored ones
        self.turned: dict[int, str] = {}  # depthwise weights -> transposed constant

    def get(self, index: int) -> Tensor:
        """The tensor; a constant is made when it is first read."""
        if index in self.names:
            return self.builder.graph.tensors[self.names[index]]
        source = self.source.tensors[index]
        if source.data is None:
            raise ModelError(
                "the tensor is read, but no operator computes it", where=_label(source)
            )
        return self._constant(source, self._values(source, element_type(source)))

    def add(self, source: SourceTensor, shape: Shape, stand_in: DType | None = None) -> Tensor:
        """A tensor that the graph or an op makes; `stand_in` where its own type is not known."""
        self._check_new(source)
        dtype = stand_in or element_type(source)
        tensor = self.builder.add(Tensor(source.name, shape, dtype, _quant(source, dtype)))
        self.names[source.index] = tensor.name
        return tensor

    def add_constant(self, source: SourceTensor, data: np.ndarray) -> Tensor:
        """A tensor whose values are known although an operator computes it."""
        self._check_new(source)
        self.budget.take(data.nbytes)
        return self._constant(source, data)

    def _check_new(self, source: SourceTensor) -> None:
        if source.index in self.names:
            raise ModelError("two operators compute the tensor", where=_label(source))

    def _constant(self, source: SourceTensor, data: np.ndarray) -> Tensor:
        dtype = element_type(source)
        data = data.astype(dtype.numpy, copy=False)
        tensor = self.builder.constant(source.name, data, dtype, _quant(source, dtype))
        self.names[source.index] = tensor.name
        return tensor

    def depthwise_weights(self, op: SourceOp, position: int) -> Tensor:
        """(1, kh, kw, O) transposed to (O, kh, kw, 1), scales along the first axis."""
        index = op.inputs[position] if position < len(op.inputs) else -1
        source = self.source.tensors[index]
        constant = index >= 0 and self._data(source) is not None
        if not constant or len(source.shape) != 4 or source.shape[0] != 1:
            raise NotComputed(
                f"depthwise weights must be a constant (1, kh, kw, O), found {source.shape}",
                where=op.origin,
            )
        if index not in self.turned:
            self.turned[index] = self._turned(source).name
        return self.builder.graph.tensors[self.turned[index]]

    def _data(self, source: SourceTensor) -> np.ndarray | None:
        """The bytes of a constant in the file, or the values of one that an op widened."""
        if source.data is not None or source.index not in self.names:
            return source.data
        return self.builder.graph.tensors[self.names[source.index]].data

    def _turned(self, source: SourceTensor) -> Tensor:
        quant = source.quant
        if quant is not None and quant.axis is not None:
            if quant.axis != 3:
                raise ModelError(
                    f"depthwise weights have scales along axis {quant.axis}, expected 3",
                    where=_label(source),
                )
            quant = replace(quant, axis=0)
        dtype = element_type(source)
        values = self._data(source) if source.data is None else self._values(source, dtype)
        assert values is not None  # a constant
        data = np.ascontiguousarray(values.transpose(3, 1, 2, 0))
        return self.builder.constant(source.name, data, dtype, None if dtype.is_float else quant)

    def _values(self, source: SourceTensor, dtype: DType) -> np.ndarray:
        raw = source.data
        if source.sparsity is not None and raw is not None:
            if min(source.shape, default=1) < 1 or dtype is DType.INT4:
                raise NotComputed("this sparse tensor is not supported", where=_label(source))
            item = np.dtype(np.float16) if source.type == "FLOAT16" else dtype.numpy
            self.budget.take(Tensor("", source.shape, dtype).size_bytes)
            values = raw[: raw.nbytes // item.itemsize * item.itemsize].view(item)
            try:
                return dense(source.sparsity, values, source.shape).astype(dtype.numpy)
            except FileError as error:
                error.where = _label(source)
                raise
        half = source.type == "FLOAT16"
        expected_bytes = Tensor("", source.shape, dtype).size_bytes // (2 if half else 1)
        if raw is None or raw.nbytes != expected_bytes or min(source.shape, default=1) < 1:
            size_bytes = 0 if raw is None else raw.nbytes
            raise FileError(
                f"constant of shape {source.shape} needs {expected_bytes} bytes, "
                f"found {size_bytes}",
                where=_label(source),
            )
        self.budget.take(raw.nbytes)
        if half:
            return raw.view(np.float16).reshape(source.shape).astype(np.float32)
        if dtype is DType.INT4:
            elements = Tensor("", source.shape, DType.INT8).elements
            return unpack_int4(raw, elements).reshape(source.shape)
        return raw.view(dtype.numpy).reshape(source.shape)


def _quant(source: SourceTensor, dtype: DType) -> Quant | None:
    """Converters leave scales on integer tensors that are not quantized; these are dropped."""
    return None if dtype in (DType.FLOAT32, DType.BOOL) else source.quant


def _label(source: SourceTensor) -> str:
    return f"tensor #{source.index} '{safe_terminal(source.name)}'"


def element_type(source: SourceTensor) -> DType:
    if source.type not in TYPES:
        raise NotComputed(
            f"{source.type} tensors are not supported",
            where=_label(source),
            hint="convert the model with float32, int8, uint8 or int16 tensors",
        )
    return TYPES[source.type]
