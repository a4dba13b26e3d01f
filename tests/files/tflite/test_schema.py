"""The reader's own copy of the schema against the schema package."""

from __future__ import annotations

import inspect
import re

import pytest
import tflite
import tflite.utils

from npuscope.files.tflite.schema import OPERATORS, TENSOR_TYPES, options_of
from npuscope.ops.table import TFLITE

FORMATS = {"Int8": "b", "Int32": "i", "Bool": "?", "Float32": "f", "Uint32": "I", "Int64": "q"}
TABLES = [
    name for name, value in vars(tflite.BuiltinOptions).items() if value and isinstance(value, int)
]


def test_names_by_number() -> None:
    assert dict(enumerate(OPERATORS)) == tflite.utils.BUILTIN_OPCODE2NAME
    types = {v: n for n, v in vars(tflite.TensorType).items() if isinstance(v, int)}
    assert dict(enumerate(TENSOR_TYPES)) == types


@pytest.mark.parametrize("table", TABLES)
def test_options(table: str) -> None:
    number, fields = options_of(table)
    assert number == getattr(tflite.BuiltinOptions, table)
    for name, field in fields.items():
        source = inspect.getsource(getattr(getattr(tflite, table), name))
        assert f"Offset({field.slot})" in source
        (flags,) = re.findall(r"Get\(flatbuffers\.number_types\.(\w+)Flags,", source)
        assert FORMATS[flags] == field.format
        assert field.is_vector == ("Vector(o)" in source)
        assert source.rstrip().endswith(f"return {field.default}") or field.format == "f"


def test_every_field_that_the_reader_asks_for_is_known() -> None:
    for row in TFLITE.values():
        if row.options:
            table, *names = row.options
            assert set(names) <= set(options_of(table)[1])
