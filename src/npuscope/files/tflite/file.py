"""A .tflite file as plain records. All reading of the flatbuffer happens here.

The schema package trusts every offset in the file, so each count is checked before it is used, and
any exception from a bad offset becomes one FileError that names the place. Constant data stays a
view into the file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from npuscope.errors import FileError, ModelError
from npuscope.files.tflite.sparse import Sparsity, read_sparsity
from npuscope.graph.limits import (
    MAX_NAME_BYTES,
    MAX_OP_INPUTS,
    MAX_OPS,
    MAX_RANK,
    MAX_TENSORS,
    Budget,
    check_count,
)
from npuscope.graph.model import Quant
from npuscope.ops.table import TFLITE
from npuscope.text import safe_terminal

# --- The schema package's tables with faster look-ups: same rules, fewer Python calls ---
#
# A model of a hundred tensors asks some thousand times where a field lies. The flatbuffers package
# answers each time by way of number classes and checks; here a struct reads the same three numbers.

_SIGNED = struct.Struct("<i").unpack_from
_SHORT = struct.Struct("<H").unpack_from
_WORD = struct.Struct("<I").unpack_from

Accessor = TypeVar("Accessor")


@lru_cache(maxsize=1)
def _quick_class() -> type:
    from flatbuffers.table import Table

    class QuickTable(Table):  # type: ignore[misc]
        """No fields of its own, so that a Table can become one."""

        __slots__ = ()

        def Offset(self, slot: int) -> int:
            vtable = self.Pos - _SIGNED(self.Bytes, self.Pos)[0]
            if vtable < 0:
                raise IndexError  # a negative position would be read from the end
            if slot >= _SHORT(self.Bytes, vtable)[0]:
                return 0
            return int(_SHORT(self.Bytes, vtable + slot)[0])

        def VectorLen(self, offset: int) -> int:
            place = offset + self.Pos
            return int(_WORD(self.Bytes, place + _WORD(self.Bytes, place)[0])[0])

    return QuickTable


def quick(accessor: Accessor) -> Accessor:
    """The accessor with a quick table inside; None stays None."""
    if accessor is not None:
        table: Any = accessor
        table._tab.__class__ = _quick_class()
    return accessor


# --- Fields of an operator's options that the reader uses: one row per operator ---

Option = int | float | str | tuple[int, ...]

_VECTORS = {"NewShape", "SqueezeDims"}


_BUILTIN_CODE_SLOT = 10


def operator_number(code: Any) -> int:
    """Old writers fill the deprecated field, some new ones only the other, most fill both. The
    schema package takes a small number in the new field for an absent one."""
    table = code._tab
    place = table.Offset(_BUILTIN_CODE_SLOT)
    new = _SIGNED(table.Bytes, place + table.Pos)[0] if place else 0
    return int(max(new, code.DeprecatedBuiltinCode()))


def read_options(operator: Any, kind: str) -> dict[str, Option]:
    """The fields of `kind`'s options as plain numbers; an absent table reads as its defaults."""
    import tflite

    if kind == "VAR_HANDLE":
        return {"SharedName": _shared_name(operator)}
    if kind not in TFLITE or not TFLITE[kind].options:
        return {}
    table_name, *fields = TFLITE[kind].options
    table = getattr(tflite, table_name)()
    content = operator.BuiltinOptions()
    wanted = getattr(tflite.BuiltinOptions, table_name)
    if content is None or operator.BuiltinOptionsType() != wanted:
        return {name: () if name in _VECTORS else 0 for name in fields}
    table.Init(content.Bytes, content.Pos)
    return {name: _read(table, name) for name in fields}


def _shared_name(operator: Any) -> str:
    """The name by which several operators mean one variable; its length is looked at first."""
    content = operator.BuiltinOptions()
    offset = content.Offset(_SHARED_NAME_SLOT) if content is not None else 0
    if not offset:
        return ""
    check_count(content.VectorLen(offset), MAX_NAME_BYTES, "bytes in a name")
    name: bytes = content.String(offset + content.Pos)
    return name.decode(errors="backslashreplace")


def _read(table: Any, name: str) -> Option:
    if name not in _VECTORS:
        value: int | float = getattr(table, name)()
        return value
    length = min(getattr(table, f"{name}Length")(), 64)
    return tuple(int(getattr(table, name)(index)) for index in range(length))


# What the schema package and numpy raise when an offset in the file leads nowhere.
WILD_OFFSET = (
    struct.error,
    IndexError,
    ValueError,
    TypeError,
    OverflowError,
    AttributeError,
    MemoryError,
)
_TENSOR_NAME_SLOT = 10  # places in the vtables of the schema
_CUSTOM_CODE_SLOT = 6
_SHARED_NAME_SLOT = 6
_LARGEST_ZERO_POINT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SourceTensor:
    """`data` holds the raw bytes of a constant. `signature` has -1 where a size is dynamic."""

    index: int
    name: str
    type: str
    shape: tuple[int, ...]
    signature: tuple[int, ...]
    quant: Quant | None
    data: np.ndarray | None
    sparsity: Sparsity | None
    variable: bool


@dataclass(frozen=True, slots=True)
class SourceOp:
    """An absent optional input is -1."""

    index: int
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: dict[str, Option]

    @property
    def origin(self) -> str:
        return f"{self.kind}:#{self.index}"

    def number(self, field: str) -> int:
        """An integer option; 0 for operators that do not have it."""
        value = self.options.get(field, 0)
        return int(value) if isinstance(value, (int, float)) else 0

    def real(self, field: str) -> float:
        value = self.options[field]
        return float(value) if isinstance(value, (int, float)) else 0.0


@dataclass(frozen=True, slots=True)
class TfliteModel:
    tensors: tuple[SourceTensor, ...]
    ops: tuple[SourceOp, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    states: int = 0  # how many of the inputs are variables that the network keeps


def parse(data: bytes) -> TfliteModel:
    """Read the whole file; raises FileError or ModelError only."""
    return _Parser(data).run()


class _Parser:
    """`place` names what is being read, for the error text."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = "the model table"
        self.budget = Budget(len(data))
        self.types = _type_names()

    def run(self) -> TfliteModel:
        try:
            return self._source()
        except WILD_OFFSET:
            raise FileError(
                f"the file is truncated or damaged: {self.place} points outside the file",
                hint="copy or export the model again and compare the file sizes",
            ) from None

    def _source(self) -> TfliteModel:
        import tflite

        self.model = quick(tflite.Model.GetRootAs(self.data, 0))
        # The first is the network; the others are bodies of control flow, and what runs once.
        if not self._count(self.model.SubgraphsLength(), MAX_OPS, "subgraphs"):
            raise ModelError("the model has no subgraph")
        graph = quick(self.model.Subgraphs(0))
        self.place = "the subgraph"
        tensor_count = self._count(graph.TensorsLength(), MAX_TENSORS, "tensors")
        op_count = self._count(graph.OperatorsLength(), MAX_OPS, "operators")
        kinds = self._kinds()
        tensors = tuple(self._tensor(graph, index) for index in range(tensor_count))
        ops = tuple(self._op(graph, index, kinds, tensor_count) for index in range(op_count))
        self.place = "the list of graph inputs and outputs"
        inputs = self._indices(graph.InputsLength(), graph.InputsAsNumpy(), tensor_count)
        outputs = self._indices(graph.OutputsLength(), graph.OutputsAsNumpy(), tensor_count)
        return TfliteModel(tensors, ops, inputs, outputs)

    def _count(self, count: int, limit: int, what: str) -> int:
        # every element of a table vector takes a 4 byte offset in the file
        if count * 4 > len(self.data):
            raise FileError(f"the file claims {count} {what} but has only {len(self.data)} bytes")
        return check_count(count, limit, what)

    def _kinds(self) -> list[str]:
        import tflite.utils

        names = tflite.utils.BUILTIN_OPCODE2NAME
        kinds = []
        for index in range(self._count(self.model.OperatorCodesLength(), MAX_OPS, "op codes")):
            self.place = f"operator code #{index}"
            code = quick(self.model.OperatorCodes(index))
            number = operator_number(code)
            kind = names.get(number, f"BUILTIN_{number}")
            kinds.append(self._custom(code) if kind == "CUSTOM" else kind)
        return kinds

    def _custom(self, code: Any) -> str:
        return f"CUSTOM {self._string(code._tab, _CUSTOM_CODE_SLOT)}"

    def _tensor(self, graph: Any, index: int) -> SourceTensor:
        tensor = quick(graph.Tensors(index))
        self.place = f"tensor #{index} at byte {tensor._tab.Pos}"
        shape = self._dims(tensor.ShapeLength(), tensor.ShapeAsNumpy)
        name = self._string(tensor._tab, _TENSOR_NAME_SLOT)
        return SourceTensor(
            index,
            name,
            self.types.get(tensor.Type(), f"type {tensor.Type()}"),
            shape,
            self._dims(tensor.ShapeSignatureLength(), tensor.ShapeSignatureAsNumpy),
            self._quant(quick(tensor.Quantization()), shape, name),
            self._data(tensor.Buffer()),
            read_sparsity(tensor.Sparsity(), len(shape)),
            bool(tensor.IsVariable()),
        )

    def _dims(self, rank: int, read: Any) -> tuple[int, ...]:
        check_count(rank, MAX_RANK, "axes of a tensor")
        return tuple(read().tolist()) if rank else ()

    def _string(self, table: Any, slot: int) -> str:
        """A string field; its length is checked before the schema package copies it."""
        offset = table.Offset(slot)
        if not offset:
            return ""
        length = check_count(table.VectorLen(offset), MAX_NAME_BYTES, "bytes in a name")
        self.budget.take(length)
        text: bytes = table.String(offset + table.Pos)
        return text.decode(errors="backslashreplace")

    def _quant(self, quant: Any, shape: tuple[int, ...], name: str) -> Quant | None:
        if quant is None or not quant.ScaleLength():
            return None
        if quant.DetailsType():
            raise ModelError(
                "blockwise or custom quantization is not supported", where=safe_terminal(name)
            )
        count = quant.ScaleLength()
        axis = quant.QuantizedDimension()
        if len(shape) == 1:  # biases of old converters have the axis of their layer's weights
            axis = 0
        if count > 1 and not (0 <= axis < len(shape) and shape[axis] == count):
            raise FileError(
                f"{count} scales do not fit axis {axis} of {shape}", where=safe_terminal(name)
            )
        zeros = quant.ZeroPointLength()
        if zeros not in (0, 1, count):
            raise FileError(f"{count} scales and {zeros} zero points", where=safe_terminal(name))
        self.budget.take(count * 64)  # a scale and a zero point as Python numbers
        points = quant.ZeroPointAsNumpy().tolist() if zeros else [0]
        if any(abs(point) > _LARGEST_ZERO_POINT for point in points):
            raise FileError(
                "a zero point is outside of every integer type", where=safe_terminal(name)
            )
        points = points * count if len(points) == 1 else points
        scales = tuple(quant.ScaleAsNumpy().tolist())
        return Quant(scales, tuple(points), axis if count > 1 else None)

    def _data(self, index: int) -> np.ndarray | None:
        if index >= self.model.BuffersLength():
            raise IndexError
        buffer = quick(self.model.Buffers(index))
        if buffer.Offset() > 1:  # models over 2 GB keep the data after the flatbuffer
            view = memoryview(self.data)[buffer.Offset() :][: buffer.Size()]
            return np.frombuffer(view, np.uint8)
        return buffer.DataAsNumpy() if buffer.DataLength() else None

    def _op(self, graph: Any, index: int, kinds: list[str], tensors: int) -> SourceOp:
        operator = quick(graph.Operators(index))
        self.place = f"operator #{index} at byte {operator._tab.Pos}"
        kind = kinds[operator.OpcodeIndex()]
        return SourceOp(
            index,
            kind,
            self._indices(operator.InputsLength(), operator.InputsAsNumpy(), tensors),
            self._indices(operator.OutputsLength(), operator.OutputsAsNumpy(), tensors),
            read_options(operator, kind),
        )

    def _indices(self, count: int, read: Any, tensors: int) -> tuple[int, ...]:
        if not count:
            return ()
        check_count(count, MAX_OP_INPUTS, "tensors of one operator")
        self.budget.take(count * 8)
        indices = tuple(read.tolist())
        if min(indices) < -1 or max(indices) >= tensors:
            raise IndexError
        return indices


def _type_names() -> dict[int, str]:
    from tflite import TensorType

    return {value: name for name, value in vars(TensorType).items() if isinstance(value, int)}
