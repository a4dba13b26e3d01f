"""All tables of the TFLite schema, with the place and form of every field.

The schema package has no description of itself, but its builders say where each field goes and its
accessors what they find there, so both are asked once. What the package leaves out is written down
below: fields that the schema has dropped (old files hold them), and those newer than the package.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from msgspec import Struct

_FORMS = {
    "Bool": "?",
    "Int8": "b",
    "Uint8": "B",
    "Int16": "h",
    "Uint16": "H",
    "Int32": "i",
    "Uint32": "I",
    "Int64": "q",
    "Uint64": "Q",
    "Float32": "f",
    "Float64": "d",
}
# The name of the builder's method for numbers of a form.
METHODS = {form: f"Prepend{name}Slot" for name, form in _FORMS.items()}
STRING, TABLE, UNION = "string", "table", "union"
# Unions by the field that holds them: the enumeration of their tables.
_UNIONS = {
    "BuiltinOptions": "BuiltinOptions",
    "BuiltinOptions2": "BuiltinOptions2",
    "Details": "QuantizationDetails",
    "ArraySegments": "SparseIndexVector",
    "ArrayIndices": "SparseIndexVector",
}
# Table, then field:slot:form; a star is a vector of that. Forms are those of `struct`, `string`, or
# a table. Dropped fields have a name of ours.
_MORE = """
ResizeBilinearOptions OldHeight:0:i OldWidth:1:i
SignatureDef OldTag:3:string
FullyConnectedOptions QuantSpec:5:*B
Tensor ExternalBuffer:10:I
Model ExternalBufferGroups:8:*ExternalBufferGroup ExternalBuffers:9:*ExternalBuffer
ExternalBufferGroup Name:0:string
ExternalBuffer Id:0:I Group:1:I Offset:2:Q Length:3:Q Packing:4:string
BlockwiseQuantization Scales:0:i ZeroPoints:1:i BlockSize:2:i BlockShape:3:*i
MultiAxisQuantization Scales:0:i ZeroPoints:1:i BlockSize:2:i QuantizedDimensions:3:*i
StablehloCaseOptions BranchSubgraphIndices:0:*i
"""
_MORE_UNIONS = {
    "QuantizationDetails": {2: "BlockwiseQuantization", 3: "MultiAxisQuantization"},
    "BuiltinOptions2": {23: "StablehloCaseOptions"},
}


class TableField(Struct, frozen=True):
    """`form` is that of `struct` for numbers, or STRING, TABLE, UNION. `table` names the table, or
    for a union the enumeration of its tables."""

    name: str
    slot: int
    form: str
    is_vector: bool = False
    default: Any = None
    table: str = ""


@cache
def fields(table: str) -> tuple[TableField, ...]:
    """In the order of the schema."""
    listed = {field.slot: field for field in (*_of_package(table), *_more().get(table, ()))}
    return tuple(listed[slot] for slot in sorted(listed))


@cache
def defaults(table: str) -> Mapping[str, Any]:
    """The numbers that a file may leave out."""
    return {f.name: f.default for f in fields(table) if f.default is not None}


@cache
def union_tables(enumeration: str) -> Mapping[int, str]:
    kinds = vars(getattr(import_module(f"tflite.{enumeration}"), enumeration))
    tables = {number: name for name, number in kinds.items() if isinstance(number, int) and number}
    return tables | _MORE_UNIONS.get(enumeration, {})


@cache
def _more() -> dict[str, tuple[TableField, ...]]:
    rows = [line.split() for line in _MORE.strip().splitlines()]
    return {table: tuple(map(_listed, texts)) for table, *texts in rows}


def _listed(text: str) -> TableField:
    name, slot, form = text.split(":")
    is_vector, form = form.startswith("*"), form.removeprefix("*")
    if form in METHODS:
        return TableField(name, int(slot), form, is_vector, None if is_vector else 0)
    table = "" if form == STRING else form
    return TableField(name, int(slot), TABLE if table else STRING, is_vector, table=table)


def _of_package(table: str) -> list[TableField]:
    if table in _more() and not _is_in_package(table):
        return []
    module = import_module(f"tflite.{table}")
    adds = {name.removeprefix(f"{table}Add"): add for name, add in vars(module).items()}
    names = [name for name in adds if f"{table}Add{name}" in vars(module)]
    return [_field(module, table, name, adds[name]) for name in names]


def _is_in_package(table: str) -> bool:
    try:
        import_module(f"tflite.{table}")
    except ImportError:
        return False
    return True


def _field(module: Any, table: str, name: str, add: Any) -> TableField:
    calls: list[tuple[str, int, Any]] = []

    class Recorder:
        def __getattr__(self, method: str) -> Any:
            return lambda slot, value, default: calls.append((method, slot, default))

    add(Recorder(), 0)
    method, slot, default = calls[0]
    kind = re.fullmatch(r"Prepend(\w+)Slot", method)
    assert kind is not None
    if kind[1] in _FORMS:
        form = _FORMS[kind[1]]
        return TableField(name, slot, form, default=bool(default) if form == "?" else default)
    accessor = getattr(module, table)()
    accessor.Init(*_probe(slot))
    is_vector = hasattr(module, f"{table}Start{name}Vector")
    if hasattr(accessor, f"{name}AsNumpy"):
        stored = getattr(accessor, f"{name}AsNumpy")().dtype
        return TableField(name, slot, next(f for f in METHODS if np.dtype(f) == stored), True)
    value = getattr(accessor, name)(*([0] if is_vector else []))
    if isinstance(value, bytes):
        return TableField(name, slot, STRING, is_vector)
    if name in _UNIONS:
        return TableField(name, slot, UNION, table=_UNIONS[name])
    return TableField(name, slot, TABLE, is_vector, table=type(value).__name__)


def _probe(slot: int) -> tuple[bytes, int]:
    """A table with this one field, whose content can be taken for a table, a string and a vector of
    one element; and where the table is."""
    slots = [0] * slot + [4]
    vtable = struct.pack(f"<{2 + len(slots)}H", 4 + 2 * len(slots), 8, *slots)
    content = struct.pack("<iIII", len(vtable), 4, 1, 4) + bytes(16)
    return vtable + content, len(vtable)
