"""Buffer tables of network.c as Buffers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from npuscope.errors import FileError
from npuscope.graph.model import Quant
from npuscope.program.model import Buffer, Pool
from npuscope.program.network_c.layout import CHPOS_PREFIX, DATA_TYPE_KINDS
from npuscope.program.network_c.parse_source import Declaration, Function
from npuscope.program.network_c.parse_values import Struct, Sum, Value

TABLE_TYPE = "LL_Buffer_InfoTypeDef"
# A life that lasts until something is known about its end.
FOR_EVER = 1 << 15


@dataclass(frozen=True, slots=True)
class Pools:
    """Physical addresses to pools. A base that is set at run time becomes a pool of its own."""

    pools: tuple[Pool, ...]

    def locate(self, address: int, size_bytes: int = 1) -> Pool:
        """The pool that holds some bytes: a real one, else a virtual one over several."""
        end = address + max(1, size_bytes)
        for pool in sorted(self.pools, key=lambda pool: pool.virtual):
            if pool.address <= address and end <= pool.address + pool.size_bytes:
                return pool
        raise FileError(f"bytes {address:#x} to {end:#x} lie in no pool of the file")


def address_of(value: Value) -> int:
    """The number in an address field; `{(unsigned char *)(0x...)}` is a list of one."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, Sum):
        raise FileError(
            f"the base '{value.symbols[0]}' is set at run time",
            hint="generate the network with absolute pools and inputs and outputs of its own",
        )
    if isinstance(value, int):
        return value
    if value == "NULL":
        return 0
    raise FileError(f"expected an address, found {str(value)[:60]}")


def tables_of(function: Function) -> list[tuple[str, list[Struct]]]:
    """(name, rows) of every buffer table that a function declares."""
    return [
        (statement.name, _rows(statement.value))
        for statement in function.statements
        if isinstance(statement, Declaration)
        and statement.type.endswith(TABLE_TYPE)
        and isinstance(statement.value, list)
    ]


def _rows(values: list[Value]) -> list[Struct]:
    """A row without a name ends a table."""
    rows = [row for row in values if isinstance(row, Struct)]
    return [row for row in rows if row.fields.get("name", "NULL") != "NULL"]


def read_buffer(row: Struct, function: Function, pools: Pools) -> Buffer:
    """One row; its shape, scale and offset arrays are declared before it."""
    arrays = function.declared()
    start = address_of(row.fields.get("addr_base", 0)) + _int(row, "offset_start")
    end = address_of(row.fields.get("addr_base", 0)) + _int(row, "offset_end")
    pool = pools.locate(start, end - start)
    kind, _ = DATA_TYPE_KINDS.get(str(row.fields.get("type", "")), ("signed", 8))
    shape = _shape(row, arrays)
    quant = _quant(row, arrays, shape)
    # Tables call some signed outputs unsigned; a negative zero point settles it.
    negative = quant is not None and min(quant.zero_points) < 0
    return Buffer(
        str(row.fields["name"]),
        max(0, end - start),
        shape,
        _int(row, "nbits") or 8,
        _batch(row, arrays, shape),
        pool=pool.name,
        offset=start - pool.address,
        first=_int(row, "epoch"),
        last=FOR_EVER,
        is_param=bool(_int(row, "is_param")),
        is_float=kind == "float",
        signed=negative or (kind != "unsigned" and not _int(row, "Qunsigned")),
        quant=quant,
    )


def _int(row: Struct, name: str) -> int:
    value = row.fields.get(name, 0)
    return value if isinstance(value, int) else 0


def _numbers(row: Struct, name: str, arrays: dict[str, Declaration]) -> list[float]:
    named = row.fields.get(name)
    found = arrays.get(named) if isinstance(named, str) else None
    value = found.value if found else named
    return [n for n in value if isinstance(n, int | float)] if isinstance(value, list) else []


def _shape(row: Struct, arrays: dict[str, Declaration]) -> tuple[int, ...]:
    """Stored as (N, H, W, C) already, at any rank."""
    shape = tuple(int(n) for n in _numbers(row, "shape", arrays))
    return shape or (_int(row, "offset_end") - _int(row, "offset_start"),)


def _batch(row: Struct, arrays: dict[str, Declaration], shape: tuple[int, ...]) -> int:
    """Channels stored together: all, one, or blocks."""
    position = str(row.fields.get("chpos", "")).removeprefix(CHPOS_PREFIX)
    if position == "First":
        return 1
    stored = _numbers(row, "mem_shape", arrays)
    if position == "Mixed" and stored:
        return int(stored[-1])
    return shape[-1]


def _quant(row: Struct, arrays: dict[str, Declaration], shape: tuple[int, ...]) -> Quant | None:
    scales = _numbers(row, "scale", arrays)
    zeros = _numbers(row, "offset", arrays)
    if not scales or len(scales) != len(zeros) or prod(shape) == 0:
        return None
    axis = 0 if len(scales) > 1 else None
    return Quant(tuple(map(float, scales)), tuple(int(zero) for zero in zeros), axis)
