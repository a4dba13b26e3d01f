"""TFLite operators that compute on values one by one or along axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npuscope.errors import ModelError
from npuscope.graph.attrs import (
    ArgAttrs,
    Attrs,
    BinaryAttrs,
    GeluAttrs,
    L2NormAttrs,
    LeakyReluAttrs,
    ReduceAttrs,
    SoftmaxAttrs,
)
from npuscope.graph.model import DType
from npuscope.graph.tflite_file import SourceOp
from npuscope.graph.tflite_ops import Convert, activation

if TYPE_CHECKING:
    from npuscope.graph.tflite_reader import TfliteReader

_L2_EPSILON = 1e-6  # fixed in LiteRT


def operands(kind: str, count: int, attrs: Attrs | None = None) -> Convert:
    """Any op that takes its inputs as they are."""

    def convert(reader: TfliteReader, op: SourceOp) -> None:
        names = tuple(reader.tensor(op, index).name for index in range(count))
        reader.emit(op, kind, names, attrs or Attrs())

    return convert


def binary(kind: str) -> Convert:
    def convert(reader: TfliteReader, op: SourceOp) -> None:
        inputs = reader.tensor(op, 0).name, reader.tensor(op, 1).name
        reader.emit(op, kind, inputs, BinaryAttrs(activation(op)))

    return convert


def unary(kind: str, attrs: Attrs | None = None) -> Convert:
    return operands(kind, 1, attrs)


def leaky_relu(reader: TfliteReader, op: SourceOp) -> None:
    unary("LeakyRelu", LeakyReluAttrs(op.real("Alpha")))(reader, op)


def gelu(reader: TfliteReader, op: SourceOp) -> None:
    unary("Gelu", GeluAttrs(bool(op.number("Approximate"))))(reader, op)


def reduction(kind: str) -> Convert:
    def convert(reader: TfliteReader, op: SourceOp) -> None:
        x = reader.tensor(op, 0)
        axes = {reader.axis(op, axis, x) for axis in reader.integers(op, 1).ravel().tolist()}
        attrs = ReduceAttrs(tuple(sorted(axes)), bool(op.number("KeepDims")))
        reader.emit(op, kind, (x.name,), attrs)

    return convert


def place(kind: str) -> Convert:
    """ARG_MAX and ARG_MIN."""

    def convert(reader: TfliteReader, op: SourceOp) -> None:
        x, given = reader.tensor(op, 0), reader.integers(op, 1)
        if given.size != 1:
            raise ModelError(f"{given.size} axes, expected one", where=op.origin)
        axis = reader.axis(op, int(given.ravel()[0]), x)
        reader.emit(op, kind, (x.name,), ArgAttrs(axis))

    return convert


def softmax(reader: TfliteReader, op: SourceOp) -> None:
    x = reader.tensor(op, 0)
    attrs = SoftmaxAttrs(len(x.shape) - 1, op.real("Beta"))
    reader.emit(op, "Softmax", (x.name,), attrs)


def log_softmax(reader: TfliteReader, op: SourceOp) -> None:
    x = reader.tensor(op, 0)
    reader.emit(op, "LogSoftmax", (x.name,), SoftmaxAttrs(len(x.shape) - 1))


def l2_normalization(reader: TfliteReader, op: SourceOp) -> None:
    x = reader.tensor(op, 0)
    if op.number("FusedActivationFunction"):
        raise ModelError("an activation fused into it is not supported", where=op.origin)
    attrs = L2NormAttrs(len(x.shape) - 1, _L2_EPSILON)
    reader.emit(op, "L2Normalization", (x.name,), attrs)


def select(reader: TfliteReader, op: SourceOp) -> None:
    """SELECT also takes a condition with one value per row, without the other axes."""
    condition, x = reader.tensor(op, 0), reader.tensor(op, 1)
    if condition.dtype is not DType.BOOL:
        raise ModelError(f"the condition is {condition.dtype.value}", where=op.origin)
    if op.kind == "SELECT" and len(condition.shape) == 1 and len(x.shape) > 1:
        rows = (*condition.shape, *[1] * (len(x.shape) - 1))
        condition = reader.reshaped(op, condition, rows)
    reader.emit(op, "Where", (condition.name, x.name, reader.tensor(op, 2).name), Attrs())
