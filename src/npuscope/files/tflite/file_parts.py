"""Parts of a .tflite file that know each other by reference, and the records that they become
once numbers are given: tensors, operators, subgraphs, signatures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
from msgspec import Struct, field

from npuscope.files.tflite.records import Record, same
from npuscope.files.tflite.schema import TENSOR_TYPES
from npuscope.files.tflite.tables import union_tables
from npuscope.graph.model import Quant

CUSTOM = "CUSTOM"
ABSENT = -1  # the number of an optional tensor that is left out
SIDES = ("Inputs", "Outputs")
_ARRAYS = {
    "FLOAT32": "float32",
    "FLOAT16": "float16",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
}
_HANDLES = ("RESOURCE", "VARIANT")  # types of tensors that stand for something outside of them


class FileTensor(Struct, eq=False):
    """A tensor. `data` of a constant has its shape; packed and sparse ones stay a row of bytes.

    `source` keeps the fields that nobody looks at. `buffer` is the record that holds `held`, the
    data as the file has them.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    quant: Quant | None = None
    data: np.ndarray | None = None
    source: Record = field(default_factory=lambda: Record("Tensor"))
    buffer: Record | None = None
    held: np.ndarray | None = None

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def is_variable(self) -> bool:
        """Whether it keeps its values for the next inference."""
        return bool(self.source.get("IsVariable"))

    @property
    def has_open_batch(self) -> bool:
        """Open in the signature, and 1 where the sizes stand."""
        signature, shape = self.source.get("ShapeSignature"), self.source.get("Shape")
        if signature is None or not len(signature):
            return False
        return bool(signature[0] == -1 and shape[0] == 1)

    @property
    def has_open_sizes(self) -> bool:
        """Others than the batch are open in the signature."""
        signature = self.source.get("ShapeSignature")
        return signature is not None and bool(np.any(np.asarray(signature)[1:] == -1))

    @property
    def meaning(self) -> tuple[str, tuple[int, ...], Quant | None]:
        """What whoever reads or writes it must know."""
        return self.type, self.shape, self.quant


class FileOp(Struct, eq=False):
    """An operator; an absent optional input is None. `word` is its kind as the schema spells it,
    `options` a record of the schema, `code` that of its kind in the file, None for a new one."""

    word: str
    inputs: list[FileTensor | None]
    outputs: list[FileTensor]
    options: Record | None = None
    version: int = 1
    origin: str = ""
    source: Record = field(default_factory=lambda: Record("Operator"))
    code: Record | None = None
    intermediates: list[FileTensor | None] = field(default_factory=list)

    def option(self, name: str, default: Any = 0) -> Any:
        return self.options.get(name, default) if self.options else default

    def input(self, place: int) -> FileTensor | None:
        return self.inputs[place] if place < len(self.inputs) else None

    @property
    def tensors(self) -> Iterator[FileTensor]:
        """All that it names."""
        tensors = (*self.inputs, *self.outputs, *self.intermediates)
        return (tensor for tensor in tensors if tensor is not None)

    @property
    def names_subgraphs(self) -> bool:
        """Control flow, and what runs once."""
        tables = (self.options, self.source.get("BuiltinOptions2"))
        return any("Subgraph" in name for table in tables if table for name in table.fields)

    @property
    def is_bound(self) -> bool:
        """Whether what it reads and writes is fixed elsewhere: in a subgraph, in a variable, or in
        code of others."""
        keeps = any(t.type in _HANDLES or t.is_variable for t in self.tensors)
        return self.names_subgraphs or self.word == CUSTOM or keeps


class Subgraph(Struct, eq=False):
    """Its tensors and operators in the order of the file."""

    source: Record
    tensors: list[FileTensor]
    ops: list[FileOp]
    inputs: list[FileTensor]
    outputs: list[FileTensor]

    @property
    def sides(self) -> dict[str, list[FileTensor]]:
        return {"Inputs": self.inputs, "Outputs": self.outputs}

    @property
    def named(self) -> Iterator[FileTensor]:
        """Tensors that something in it names."""
        yield from (*self.inputs, *self.outputs)
        for op in self.ops:
            yield from op.tensors


class Signature(Struct, frozen=True):
    """Names that applications use for tensors of a subgraph: entries with their tensors, by side;
    None where a writer left a number that leads nowhere. `border` is what the subgraph had on that
    side when the file was read."""

    source: Record
    graph: Subgraph
    entries: dict[str, list[tuple[Record, FileTensor | None]]]
    border: dict[str, list[FileTensor]]

    def tensors(self) -> Iterator[FileTensor]:
        """Those that it names for sure: on a side that was changed, names follow the border."""
        for side, entries in self.entries.items():
            if self.graph.sides[side] == self.border[side]:
                yield from (tensor for _, tensor in entries if tensor is not None)

    def record(self, numbers: Mapping[FileTensor, int]) -> Record:
        lists = {side: self._written(side, numbers) for side in self.entries}
        return changed(self.source, **lists)

    def _written(self, side: str, numbers: Mapping[FileTensor, int]) -> list[Record]:
        entries, now = self.entries[side], self.graph.sides[side]
        if now == self.border[side]:
            return [
                entry if tensor is None else changed(entry, TensorIndex=numbers[tensor])
                for entry, tensor in entries
            ]
        names_before = [(entry.get("Name", b""), t) for entry, t in entries if t is not None]
        names = _border_names(names_before, self.border[side], now)
        return [
            Record("TensorMap", {"Name": name, "TensorIndex": numbers[tensor]})
            for name, tensor in names.items()
        ]


def ints(values: Any) -> list[int]:
    return [] if values is None else [int(value) for value in values]


def int_array(numbers: Iterable[int]) -> np.ndarray:
    return np.array([*numbers], np.int32)


def name_of(record: Record) -> str:
    return str(record.get("Name", b"").decode(errors="surrogateescape"))


def content(buffer: Record) -> np.ndarray | None:
    """None where it holds nothing."""
    raw = buffer.get("Data") if buffer.outside is None else buffer.outside
    return raw if raw is not None and raw.size else None


def typed(raw: np.ndarray, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """Packed types, sparse constants and texts stay a row of bytes."""
    if kind not in _ARRAYS or raw.size != prod(shape) * np.dtype(_ARRAYS[kind]).itemsize:
        return raw
    return raw.view(_ARRAYS[kind]).reshape(shape)


def is_held(data: np.ndarray | None, stored: np.ndarray | None) -> bool:
    if data is stored or data is None or stored is None:
        return data is stored
    return data.dtype == stored.dtype and data.tobytes() == stored.tobytes()


def quant_of(record: Record | None) -> Quant | None:
    if record is None or record.get("Scale") is None or not len(record.get("Scale")):
        return None
    scales = tuple(float(scale) for scale in record.get("Scale"))
    points = ints(record.get("ZeroPoint")) or [0]
    points = points * len(scales) if len(points) == 1 else points
    axis = int(record.get("QuantizedDimension", 0)) if len(scales) > 1 else None
    return Quant(scales, tuple(points), axis)


def changed(record: Record, **values: Any) -> Record:
    """The record itself where it says the same; an absent list is the same as an empty one."""
    new = {name: v for name, v in values.items() if not same(record.get(name), v)}
    for name in [n for n, v in new.items() if n not in record.fields and not np.size(v)]:
        del new[name]
    return Record(record.table, {**record.fields, **new}, record.outside) if new else record


def graph_record(graph: Subgraph, numbers: Mapping[int, int]) -> Record:
    places = {tensor: number for number, tensor in enumerate(graph.tensors)}
    sides = {side: int_array(places[t] for t in row) for side, row in graph.sides.items()}
    tensors = [_tensor_record(tensor, numbers[id(tensor.buffer)]) for tensor in graph.tensors]
    operators = [_op_record(op, places, numbers[id(op.code)]) for op in graph.ops]
    return changed(graph.source, Tensors=tensors, Operators=operators, **sides)


def _tensor_record(tensor: FileTensor, buffer: int) -> Record:
    source = tensor.source
    changes: dict[str, Any] = {
        "Buffer": buffer,
        "Type": (
            TENSOR_TYPES.index(tensor.type)
            if tensor.type in TENSOR_TYPES
            else int(tensor.type.removeprefix("type "))
        ),
    }
    if tuple(ints(source.get("Shape"))) != tensor.shape:
        changes["Shape"] = int_array(tensor.shape)
    if tensor.name != name_of(source):
        changes["Name"] = tensor.name.encode(errors="surrogateescape")
    record = changed(source, **changes)
    if "Shape" in changes:
        record.fields.pop("ShapeSignature", None)
    if not _means_same(tensor.quant, quant_of(source.get("Quantization"))):
        others = {name: value for name, value in record.fields.items() if name != "Quantization"}
        scales = {} if tensor.quant is None else {"Quantization": _written_quant(tensor.quant)}
        record = Record(record.table, {**others, **scales})
    return record


def _means_same(one: Quant | None, other: Quant | None) -> bool:
    """Also of scales that are not numbers, which differ from themselves."""
    if one is None or other is None:
        return one is other
    return one == other or same(_written_quant(one), _written_quant(other))


def _written_quant(quant: Quant) -> Record:
    return Record(
        "QuantizationParameters",
        {
            "Scale": np.array(quant.scales, np.float32),
            "ZeroPoint": np.array(quant.zero_points, np.int64),
            "QuantizedDimension": quant.axis or 0,
        },
    )


def _op_record(op: FileOp, places: Mapping[FileTensor, int], code: int) -> Record:
    inputs, outputs, between = (
        int_array(ABSENT if tensor is None else places[tensor] for tensor in row)
        for row in (op.inputs, [*op.outputs], op.intermediates)
    )
    lists = {"Inputs": inputs, "Outputs": outputs, "Intermediates": between}
    record = changed(op.source, OpcodeIndex=code, **lists)
    if same(op.options, op.source.get("BuiltinOptions")):
        return record
    options: dict[str, Any] = {}
    if op.options is not None:
        numbers = {table: number for number, table in union_tables("BuiltinOptions").items()}
        options = {"BuiltinOptionsType": numbers[op.options.table], "BuiltinOptions": op.options}
    old = ("BuiltinOptionsType", "BuiltinOptions")
    others = {name: value for name, value in record.fields.items() if name not in old}
    return Record(record.table, others | options, record.outside)


def _border_names(
    entries: list[tuple[bytes, FileTensor]], before: list[FileTensor], now: list[FileTensor]
) -> dict[bytes, FileTensor]:
    """A tensor keeps its name, one that took another's place takes the name, new ones bring it."""
    names = {name: tensor for name, tensor in entries if tensor in now}
    if not entries:
        return names
    for name, tensor in entries:
        place = before.index(tensor) if tensor in before else len(now)
        if tensor not in now and place < len(now) and now[place] not in names.values():
            names[name] = now[place]
    for tensor in now:
        if tensor not in names.values():
            names.setdefault(tensor.name.encode(errors="surrogateescape"), tensor)
    return names
