"""What stands before the epochs of network.c: the comments in front, relative pools, tables of
buffers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from pathlib import Path

import msgspec
import numpy as np

from npuscope.bounded_file import read_head
from npuscope.errors import FileError
from npuscope.graph.model import Quant
from npuscope.program.addresses import POOL_PREFIX, given_pools
from npuscope.program.model import Buffer, Pool
from npuscope.program.network_c.c_values import Struct, Sum, Value
from npuscope.program.network_c.layout import (
    AXIS_NOTE,
    CHPOS_PREFIX,
    DATA_TYPE_KINDS,
    ChannelPosition,
)
from npuscope.program.network_c.parse_source import Declaration, Function
from npuscope.structs import replace
from npuscope.text import safe_terminal

# The comments in front of network.c: who made it, with which options, on which pools.

_OPTION = re.compile(r"^\s*\*?\s*(-{1,2}[\w-]+)\s*=\s*\"?([^\"\n]*)\"?\s*$", re.M)
_AUTO_CHOICE = re.compile(r"^\s*\*?\s*alt-scheduler = true", re.M)  # what --Oauto-sched took
_FIELD = re.compile(r'GIT_DESCRIPTION\s+"([^"]*)"')
_POOL = re.compile(r"^index=(\d+)\s+file postfix=(\S*)\s+name=(\S+)\s+offset=(\S+)")
_NUMBERS = {
    "size": re.compile(r"\bsize=(\d+)"),
    "width": re.compile(r"\bbyte width=(\d+)"),
    "ratio": re.compile(r"\bfreq ratio=([\d.]+)"),
    "score": re.compile(r"\bscore=(-?\d+)"),
}
# Addresses have 32 bits, sizes too; what is longer is damaged and would not fit 64.
_ADDRESS = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
_PLAIN = re.compile(r"-?(?=[0-9.]{1,16}$)[0-9]+\.?[0-9]*")
_BEFORE_2_2 = re.compile(r"atonn-v1\.(?:0\.|1\.0-)|STAI-2\.[01]")
_FIRST_OF_2 = re.compile(r"atonn-v1\.0\.|STAI-2\.0")
_FIRST_OF_3 = re.compile(r"atonn-v1\.1\.3-[0-8]\b")
_NEW_DIALECT = re.compile(r"atonn-v1\.1\.([3-9]|\d\d)|STAI-[3-9]")


class SourceHeader(msgspec.Struct, frozen=True):
    """What the file says of itself."""

    tool: str
    options: tuple[tuple[str, str], ...]
    pools: tuple[Pool, ...]

    @property
    def generation(self) -> str:
        """Ours is stated; atonn 1.1.3 belongs to 3.0 (build 8) and 4.0 (262 and 275)."""
        stated = dict(self.options).get("--generation")
        if stated:
            return stated
        if _FIRST_OF_3.search(self.tool):
            return "3.0"
        if _NEW_DIALECT.search(self.tool):
            return "4.0"
        early = _BEFORE_2_2.search(self.tool)
        return ("2.0" if _FIRST_OF_2.search(self.tool) else "2.1") if early else "2.2"


_HEAD_BYTES = 1 << 16
_MARKS = (b"LL_ATON_VERSION", b"global pool")


def is_network_c(path: str | Path) -> bool:
    """By its content: it asks for a version of the runtime and names its pools within the first
    lines. A C file with the bytes of a pool only names the pool."""
    head = read_head(path, _HEAD_BYTES)
    return all(mark in head for mark in _MARKS)


# Each file of the runtime names itself in its first comment.
_RUNTIME = re.compile(
    r"[@\\]file\s{1,8}((?:(?:ll_aton|ll_sw|ecloader|stai_aton|mcu_cache|npu_cache)\w{0,60}|ec)\.[ch])\b"
)


def runtime_file(text: str) -> str:
    """The name of a source of the NPU's runtime; empty for other text."""
    name = _RUNTIME.search(text[:2000])
    return name[1] if name else ""


_POOL_COMMENT = re.compile(r"/\*\s*(index=\d+\s+file postfix=.*?)\s*\*/", re.S)


def pools_of(text: str) -> tuple[Pool, ...]:
    """The pools that comments of the source state."""
    pools = (_pool(comment) for comment in _POOL_COMMENT.findall(text))
    return tuple(pool for pool in pools if pool is not None)


def read_header(comments: list[str]) -> SourceHeader:
    tool = next((match[1] for text in comments if (match := _FIELD.search(text))), "")
    head = next((text for text in comments if "Command Line options" in text), "")
    options = tuple((name, value) for name, value in _OPTION.findall(head))
    if _AUTO_CHOICE.search(head):
        options += (("--Oalt-sched", "true"),)
    pools = [pool for text in comments if (pool := _pool(text)) is not None]
    # A virtual pool is made of the real ones in its range.
    return SourceHeader(
        tool, options, tuple(replace(pool, subpools=_inside(pool, pools)) for pool in pools)
    )


def _pool(text: str) -> Pool | None:
    match = _POOL.match(text)
    if match is None:
        return None
    _, file_name, name, offset = match.groups()
    numbers = {key: _number(pattern, text, name) for key, pattern in _NUMBERS.items()}
    return Pool(
        name,
        _address(offset, name),
        int(numbers["size"]),
        max(1, int(numbers["width"])),
        numbers["ratio"] or 1.0,
        writable="READ_ONLY" not in text,
        cacheable="cacheable=ON" in text,
        score=int(numbers["score"]),
        subpools=("?",) if " vpool " in text else (),
        file_name=file_name,
        relative="absolute_mode" not in text,
    )


def _address(offset: str, pool: str) -> int:
    """In hexadecimal; a relative pool may have words there."""
    if not offset.lower().startswith("0x"):
        return 0
    if not _ADDRESS.fullmatch(offset):
        raise _no_number(offset, pool)
    return int(offset, 16)


def _number(pattern: re.Pattern[str], text: str, pool: str) -> float:
    match = pattern.search(text)
    if match is None:
        return 0.0
    if not _PLAIN.fullmatch(match[1]):
        raise _no_number(match[1], pool)
    return float(match[1])


def _no_number(text: str, pool: str) -> FileError:
    return FileError(
        f"the comment of pool '{safe_terminal(pool)}' has '{safe_terminal(text)}' for a number",
        hint="expected at most 16 digits",
    )


def _inside(pool: Pool, pools: list[Pool]) -> tuple[str, ...]:
    if not pool.subpools:
        return ()
    end = pool.address + pool.size_bytes
    real = (p for p in pools if not p.subpools and p.size_bytes)
    return tuple(
        p.name for p in sorted(real, key=lambda p: p.address) if pool.address <= p.address < end
    )


# Pools without an address of their own: relative ones, and buffers that the application gives.

_RELATIVE = re.compile(r"^extern unsigned char (\w+)\[\];", re.M)
_GIVEN = re.compile(
    r"/\*\s*User (?:Input|Output) allocated buffer \(mempool \d+\) size (\d{1,16})\s*\*/\s*"
    rf"static unsigned char \*({POOL_PREFIX}(_user_io_\w+?_\d+)_\w+) = NULL;"
)


def symbols_of(text: str, pools: tuple[Pool, ...]) -> dict[str, Pool]:
    """Symbol -> pool. Declarations of relative pools stand in the order of the pools."""
    names = _RELATIVE.findall(text)
    relative = [pool for pool in pools if pool.relative]
    if len(names) != len(relative):
        raise FileError(
            f"pools without a fixed address: {len(relative)}, "
            f"symbols declared for them: {len(names)}",
            hint="the file is truncated or edited, or holds the bytes of a pool and no network",
        )
    return dict(zip(names, relative, strict=True)) | _given(text)


def _given(text: str) -> dict[str, Pool]:
    """Buffers of the application: their place is known to it alone, so they get any."""
    rows = _GIVEN.findall(text)
    pools = given_pools([(name, int(size)) for size, _, name in rows])
    return {symbol: pool for (_, symbol, _), pool in zip(rows, pools, strict=True)}


def bases_of(symbols: Mapping[str, Pool]) -> dict[str, int]:
    """Addresses of these pools by symbol, and by the shorter name that relocations have."""
    short = {pool.file_name: pool.address for pool in symbols.values() if pool.file_name}
    return short | {symbol: pool.address for symbol, pool in symbols.items()}


# Buffer tables of network.c as Buffers.

TABLE_TYPE = "LL_Buffer_InfoTypeDef"
# A life that lasts until something is known about its end.
FOR_EVER = 1 << 15


class Pools(msgspec.Struct, frozen=True):
    """Physical addresses to pools. A base that is set at run time becomes a pool of its own."""

    pools: tuple[Pool, ...]

    def locate(self, address: int, size_bytes: int = 1) -> Pool:
        """The pool that holds some bytes: a real one, else a virtual one over several."""
        end = address + max(1, size_bytes)
        for pool in sorted(self.pools, key=lambda pool: pool.virtual):
            if pool.address <= address and end <= pool.address + pool.size_bytes:
                return pool
        raise FileError(f"bytes {address:#x} to {end:#x} are not in any pool of the file")


def address_of(value: Value) -> int:
    """The number in an address field; `{(unsigned char *)(0x...)}` is a list of one."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, Sum) and value.symbols:
        raise FileError(
            f"the base '{safe_terminal(value.symbols[0])}' is not declared in the file",
            hint="the file is truncated, or its base comes from another file that npuscope "
            "cannot see",
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
    arrays = function.declared
    start = address_of(row.fields.get("addr_base", 0)) + _int(row, "offset_start")
    end = address_of(row.fields.get("addr_base", 0)) + _int(row, "offset_end")
    pool = pools.locate(start, end - start)
    kind, _ = DATA_TYPE_KINDS.get(str(row.fields.get("type", "")), ("signed", 8))
    shape = _shape(row, arrays)
    scales = _numbers(row, "scale", arrays)
    zeros = _numbers(row, "offset", arrays)
    if not scales or len(scales) != len(zeros) or prod(shape) == 0:
        quant = None
    else:
        # As the C compiler sees them: scales are of type float.
        rounded = tuple(float(scale) for scale in np.asarray(scales, np.float32))
        quant = Quant(
            rounded, tuple(int(zero) for zero in zeros), _axis(row, len(scales), len(shape))
        )
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
    array = row.fields.get(name)
    declaration = arrays.get(array) if isinstance(array, str) else None
    value = declaration.value if declaration else array
    return [n for n in value if isinstance(n, int | float)] if isinstance(value, list) else []


def _shape(row: Struct, arrays: dict[str, Declaration]) -> tuple[int, ...]:
    """Stored as (N, H, W, C) already, at any rank; ones that fill it up to four axes stand behind
    the first, and the shape in memory has none of them."""
    shape = tuple(int(n) for n in _numbers(row, "shape", arrays))
    if not shape:
        return (_int(row, "offset_end") - _int(row, "offset_start"),)
    stored = row.fields.get("mem_ndims", len(shape))
    if not isinstance(stored, int):
        return shape
    rank = stored - 1 if _position(row) == ChannelPosition.Mixed.name else stored
    first, surplus = int(rank > 1), len(shape) - rank
    filled = surplus > 0 and set(shape[first : first + surplus]) == {1}
    return shape[:first] + shape[first + surplus :] if filled else shape


def reported_shapes(function: Function) -> dict[str, tuple[int, ...]]:
    """What a board reports of inputs or outputs with fewer than four axes, whose channels were
    filled up with a one: (1, 512, 16) is listed as (1, 512, 16, 1). By name."""
    arrays = function.declared
    shapes = {}
    for row in (row for _, rows in tables_of(function) for row in rows):
        listed = tuple(int(n) for n in _numbers(row, "shape", arrays))
        in_memory = tuple(int(n) for n in _numbers(row, "mem_shape", arrays))
        filled = len(in_memory) < len(listed) and listed[-1] == 1
        if filled and prod(in_memory) == prod(listed):
            shapes[str(row.fields["name"])] = in_memory
    return shapes


def _position(row: Struct) -> str:
    return str(row.fields.get("chpos", "")).removeprefix(CHPOS_PREFIX)


def _batch(row: Struct, arrays: dict[str, Declaration], shape: tuple[int, ...]) -> int:
    """Channels stored together: all, one, or blocks.

    Buffers of one shape share one `mem_shape`, that of the first of them: their blocks may differ.
    """
    position = _position(row)
    stored = _numbers(row, "mem_shape", arrays)
    if position == ChannelPosition.First.name:
        return 1
    channels = shape[-1] if shape else 1
    if position == ChannelPosition.Mixed.name and stored:
        stated = _int(row, "batch")
        return stated if stated > 0 and channels % stated == 0 else int(stored[-1])
    return channels


def _axis(row: Struct, channels: int, rank: int) -> int | None:
    """Our own files name it; in others every tensor with several scales has them on the first."""
    note = row.notes.get("per_channel", "").removeprefix(AXIS_NOTE)
    if note.isdecimal() and int(note) < rank:
        return int(note)
    return 0 if channels > 1 else None
