"""A .tflite file as plain records. All reading of the flatbuffer happens here.

Each count is checked before it is used, and any exception from a bad offset becomes one FileError
that names the place. Constant data stays a view into the file.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npuscope.errors import FileError, ModelError
from npuscope.files.tflite.flat_table import WILD_OFFSET, WORD, Table
from npuscope.files.tflite.schema import OPERATORS, TENSOR_TYPES, OptionField, options_of
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

_BYTE, _INT, _FLOAT, _LONG = "b", "i", "f", "q"

# --- Fields of an operator's options that the reader uses: one row per operator ---

Option = int | float | str | tuple[int, ...]

_MOST_SIZES = 64  # of a shape among the options


def operator_name(number: int) -> str:
    return OPERATORS[number] if 0 <= number < len(OPERATORS) else f"BUILTIN_{number}"


def read_options(operator: Table, kind: str) -> dict[str, Option]:
    """The fields of `kind`'s options as plain numbers; an absent table reads as zeros."""
    if kind == "VAR_HANDLE":
        return {"SharedName": _shared_name(operator)}
    if kind not in TFLITE or not TFLITE[kind].options:
        return {}
    table_name, *names = TFLITE[kind].options
    option_type, fields = options_of(table_name)
    content = operator.table(_OPTIONS_SLOT)
    if content is None or operator.number(_OPTIONS_TYPE_SLOT, "B") != option_type:
        return {name: () if fields[name].is_vector else 0 for name in names}
    return {name: _read(content, fields[name]) for name in names}


def _shared_name(operator: Table) -> str:
    """The name by which several operators mean one variable; its length is looked at first."""
    content = operator.table(_OPTIONS_SLOT)
    if content is None:
        return ""
    length, start = content.vector(_SHARED_NAME_SLOT)
    check_count(length, MAX_NAME_BYTES, "bytes in a name")
    return content.data[start : start + length].decode(errors="backslashreplace")


def _read(table: Table, field: OptionField) -> Option:
    if not field.is_vector:
        value: int | float = table.number(field.slot, field.format, field.default)
        return value
    length, start = table.vector(field.slot)
    return table.numbers((min(length, _MOST_SIZES), start), field.format)


# Places in the vtables of the schema: model, subgraph, operator code, tensor, quantization, buffer,
# operator.
_CODES_SLOT, _SUBGRAPHS_SLOT, _BUFFERS_SLOT = 6, 8, 12
_TENSORS_SLOT, _INPUTS_SLOT, _OUTPUTS_SLOT, _OPERATORS_SLOT = 4, 6, 8, 10
_OLD_CODE_SLOT, _CUSTOM_CODE_SLOT, _CODE_SLOT = 4, 6, 10
_SHAPE_SLOT, _TYPE_SLOT, _BUFFER_SLOT, _NAME_SLOT, _QUANT_SLOT = 4, 6, 8, 10, 12
_VARIABLE_SLOT, _SPARSITY_SLOT, _SIGNATURE_SLOT = 14, 16, 18
_SCALES_SLOT, _POINTS_SLOT, _DETAILS_SLOT, _AXIS_SLOT = 8, 10, 12, 16
_DATA_SLOT, _OFFSET_SLOT, _SIZE_SLOT = 4, 6, 8
_CODE_INDEX_SLOT, _READS_SLOT, _MAKES_SLOT, _OPTIONS_TYPE_SLOT, _OPTIONS_SLOT = 4, 6, 8, 10, 12
_SHARED_NAME_SLOT = 6
_LARGEST_ZERO_POINT = 2**31 - 1


class SourceTensor(Struct, frozen=True):
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


class SourceOp(Struct, frozen=True):
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


class TfliteModel(Struct, frozen=True):
    tensors: tuple[SourceTensor, ...]
    ops: tuple[SourceOp, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    states: int = 0  # how many of the inputs are variables that the network keeps


def custom_operators(data: bytes) -> list[bytes]:
    """Names of operators that the schema does not have; raises WILD_OFFSET for a damaged file."""
    model = Table(data, WORD(data, 0)[0])
    codes = model.vector(_CODES_SLOT)
    if codes[0] * 4 > len(data):
        raise IndexError
    names = (model.item(codes, index).vector(_CUSTOM_CODE_SLOT) for index in range(codes[0]))
    return [data[start : start + length] for length, start in names if start]


def parse(data: bytes) -> TfliteModel:
    """Read the whole file; raises FileError or ModelError only."""
    return _Parser(data).run()


class _Parser:
    """`place` names what is being read, for the error text."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = "the model table"
        self.budget = Budget(len(data))

    def run(self) -> TfliteModel:
        try:
            return self._source()
        except WILD_OFFSET:
            raise FileError(
                f"the file is truncated or damaged: {self.place} points outside the file",
                hint="copy or export the model again and compare the file sizes",
            ) from None

    def _source(self) -> TfliteModel:
        model = Table(self.data, WORD(self.data, 0)[0])
        # The first is the network; the others are bodies of control flow, and what runs once.
        subgraphs = model.vector(_SUBGRAPHS_SLOT)
        if not self._count(subgraphs, MAX_OPS, "subgraphs"):
            raise ModelError("the model has no subgraph")
        graph = model.item(subgraphs, 0)
        self.place = "the subgraph"
        tensors, operators = graph.vector(_TENSORS_SLOT), graph.vector(_OPERATORS_SLOT)
        tensor_count = self._count(tensors, MAX_TENSORS, "tensors")
        op_count = self._count(operators, MAX_OPS, "operators")
        kinds = []
        codes = model.vector(_CODES_SLOT)
        for index in range(self._count(codes, MAX_OPS, "op codes")):
            self.place = f"operator code #{index}"
            code = model.item(codes, index)
            # Old writers fill the deprecated field, some new ones only the other, most fill both.
            number = max(code.number(_CODE_SLOT, _INT), code.number(_OLD_CODE_SLOT, _BYTE))
            kind = operator_name(int(number))
            kinds.append(
                f"CUSTOM {self._string(code, _CUSTOM_CODE_SLOT)}" if kind == "CUSTOM" else kind
            )
        self.model, self.buffers = model, model.vector(_BUFFERS_SLOT)
        tensor_rows = tuple(self._tensor(graph.item(tensors, n), n) for n in range(tensor_count))
        ops = tuple(
            self._op(graph.item(operators, n), n, kinds, tensor_count) for n in range(op_count)
        )
        self.place = "the list of graph inputs and outputs"
        inputs = self._indices(graph, _INPUTS_SLOT, tensor_count)
        outputs = self._indices(graph, _OUTPUTS_SLOT, tensor_count)
        return TfliteModel(tensor_rows, ops, inputs, outputs)

    def _count(self, vector: tuple[int, int], limit: int, what: str) -> int:
        count = vector[0]
        # every element of a table vector takes a 4 byte offset in the file
        if count * 4 > len(self.data):
            raise FileError(f"the file claims {count} {what} but has only {len(self.data)} bytes")
        return check_count(count, limit, what)

    def _tensor(self, tensor: Table, index: int) -> SourceTensor:
        self.place = f"tensor #{index} at byte {tensor.pos}"
        shape = self._dims(tensor, _SHAPE_SLOT)
        name = self._string(tensor, _NAME_SLOT)
        return SourceTensor(
            index,
            name,
            type_name(tensor.number(_TYPE_SLOT, _BYTE)),
            shape,
            self._dims(tensor, _SIGNATURE_SLOT),
            self._quant(tensor.table(_QUANT_SLOT), shape, name),
            self._data(tensor.number(_BUFFER_SLOT, "I")),
            self._sparsity(tensor, len(shape)),
            bool(tensor.number(_VARIABLE_SLOT, "?")),
        )

    def _sparsity(self, tensor: Table, rank: int) -> Sparsity | None:
        """Rare: read by the schema package's own accessor."""
        content = tensor.table(_SPARSITY_SLOT)
        if content is None:
            return None
        import tflite

        accessor = tflite.SparsityParameters()
        accessor.Init(self.data, content.pos)
        return read_sparsity(accessor, rank)

    def _dims(self, tensor: Table, slot: int) -> tuple[int, ...]:
        vector = tensor.vector(slot)
        if not vector[0]:
            return ()
        check_count(vector[0], MAX_RANK, "axes of a tensor")
        return tensor.numbers(vector, _INT)

    def _string(self, table: Table, slot: int) -> str:
        """A string field; its length is checked before it is copied."""
        length, start = table.vector(slot)
        if not start:
            return ""
        self.budget.take(check_count(length, MAX_NAME_BYTES, "bytes in a name"))
        return self.data[start : start + length].decode(errors="backslashreplace")

    def _quant(self, quant: Table | None, shape: tuple[int, ...], name: str) -> Quant | None:
        scales = quant.vector(_SCALES_SLOT) if quant else (0, 0)
        count = scales[0]
        if quant is None or not count:
            return None
        if quant.number(_DETAILS_SLOT, "B"):
            raise ModelError(
                "blockwise or custom quantization is not supported", where=safe_terminal(name)
            )
        axis = quant.number(_AXIS_SLOT, _INT)
        if len(shape) == 1:  # biases of old converters have the axis of their layer's weights
            axis = 0
        if count > 1 and not (0 <= axis < len(shape) and shape[axis] == count):
            raise FileError(
                f"{count} scales do not fit axis {axis} of {shape}", where=safe_terminal(name)
            )
        zeros = quant.vector(_POINTS_SLOT)
        if zeros[0] not in (0, 1, count):
            raise FileError(f"{count} scales and {zeros[0]} zero points", where=safe_terminal(name))
        self.budget.take(count * 64)  # a scale and a zero point as Python numbers
        return Quant(
            quant.numbers(scales, _FLOAT),
            self._zero_points(quant, zeros, name) * (1 if zeros[0] == count else count),
            axis if count > 1 else None,
        )

    def _zero_points(self, quant: Table, vector: tuple[int, int], name: str) -> tuple[int, ...]:
        count, start = vector
        if self.data[start : start + 8 * count] == bytes(8 * count):
            return (0,) * (count or 1)  # as weights have them: quicker than number by number
        points = quant.numbers(vector, _LONG)
        if max(points) > _LARGEST_ZERO_POINT or min(points) < -_LARGEST_ZERO_POINT:
            raise FileError("a zero point fits no integer type", where=safe_terminal(name))
        return points

    def _data(self, index: int) -> np.ndarray | None:
        if index >= self.buffers[0]:
            raise self._dangling(f"buffer #{index}", self.buffers[0], "buffers")
        buffer = self.model.item(self.buffers, index)
        offset = buffer.number(_OFFSET_SLOT, "Q")
        if offset > 1:  # models over 2 GB keep the data after the flatbuffer
            view = memoryview(self.data)[offset:][: buffer.number(_SIZE_SLOT, "Q")]
            return np.frombuffer(view, np.uint8)
        count, start = buffer.vector(_DATA_SLOT)
        return np.frombuffer(self.data, np.uint8, count, start) if count else None

    def _op(self, operator: Table, index: int, kinds: list[str], tensors: int) -> SourceOp:
        self.place = f"operator #{index} at byte {operator.pos}"
        code = operator.number(_CODE_INDEX_SLOT, "I")
        if code >= len(kinds):
            raise self._dangling(f"operator code #{code}", len(kinds), "operator codes")
        kind = kinds[code]
        self.place = f"operator #{index} ({safe_terminal(kind)}) at byte {operator.pos}"
        return SourceOp(
            index,
            kind,
            self._indices(operator, _READS_SLOT, tensors),
            self._indices(operator, _MAKES_SLOT, tensors),
            read_options(operator, kind),
        )

    def _indices(self, table: Table, slot: int, tensors: int) -> tuple[int, ...]:
        vector = table.vector(slot)
        count = vector[0]
        if not count:
            return ()
        check_count(count, MAX_OP_INPUTS, "tensors of one operator")
        self.budget.take(count * 8)
        indices = table.numbers(vector, _INT)
        if min(indices) < -1 or max(indices) >= tensors:
            wrong = next(index for index in indices if not -1 <= index < tensors)
            raise self._dangling(f"tensor #{wrong}", tensors, "tensors")
        return indices

    def _dangling(self, name: str, count: int, things: str) -> FileError:
        return FileError(
            f"{self.place} names {name}, but the file has {count} {things}",
            hint="the program that wrote or edited the file left a wrong index; export it again",
        )


def type_name(number: int) -> str:
    return TENSOR_TYPES[number] if 0 <= number < len(TENSOR_TYPES) else f"type {number}"
