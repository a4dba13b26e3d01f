"""Dumps of a board in the forms in which people have them: raw, .npy, C arrays, hex, CSV."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from msgspec import Struct

from npuscope.bounded_file import ARRAY, REPORT, read_array, read_bytes
from npuscope.diagnosis.sights import Array
from npuscope.errors import FileError
from npuscope.graph.model import Quant
from npuscope.program.calls import element_type
from npuscope.program.model import Buffer
from npuscope.program.network_c.writer_buffers import memory_shape
from npuscope.program.weight_files import is_hex, read_hex
from npuscope.shown import counted
from npuscope.sim.memory import stored_shape, to_stored
from npuscope.text import safe_terminal

_LOST_SHARE = 0.05  # of a dump that may be missing
_RAW = (".raw", ".bin", ".dat", "")
_ADDRESS = re.compile(r"^\s*(?:0x)?[0-9a-fA-F]{4,16}\s*(?:<[^>]*>)?:\s*|^[0-9a-fA-F]{8}\s{2}")
_BODY = re.compile(r"\{([^{}]*)\}", re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_REAL = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|-?inf"
_NUMBER = re.compile(rf"-?0[xX][0-9a-fA-F]+|\?\?|{_REAL}")
_REPEATS = re.compile(rf"({_REAL})(?:\s+'[^']*')?\s*<repeats (\d{{1,9}}) times>")
_MOST_REPEATS = 1 << 24
_PRINTED = re.compile(r"array\((\[.*\])", re.DOTALL)  # by numpy, with its type behind
_HEAD_BYTES = 1024
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_CELL = re.compile(rf"({_REAL})\s*[a-zA-Z%°µ]{{0,6}}")  # of a table, with its unit
_INDEX = ("index", "idx", "i", "n", "no", "#", "id", "sample", "address", "offset")
_HEX = re.compile(r"0[xX][0-9a-fA-F]+")
_PAIRS = re.compile(r"(?:[0-9a-fA-F]{2}|\?\?)+")
_NPZ_HINT = "take the arrays out of it: numpy.load(FILE)['c_outputs_1'] saved as .npy"


class Dump(Struct, frozen=True):
    """Values as a file holds them; `raw`: bytes without a type. `mask` is false in gaps, and
    `resolution` is how far a rounded number may be from what it was."""

    where: str
    values: Array
    raw: bool = False
    mask: Array | None = None
    resolution: float = 0.0


def read_dump(path: str | Path) -> Dump:
    file = Path(path)
    ending = file.suffix.lower()
    if ending == ".npz":
        raise FileError("holds several arrays", where=str(path), hint=_NPZ_HINT)
    if ending == ".npy":
        array = read_array(file)
        if array.dtype.kind not in "iufb":
            raise FileError(f"holds {array.dtype}, expected numbers", where=str(path))
        rounded = array.dtype == np.float16 and np.isfinite(array).any()
        most = float(np.abs(array[np.isfinite(array)]).max()) if rounded else 0.0
        return _nonempty(Dump(str(path), array, resolution=most * 2.0**-11))
    if ending in _RAW:
        return _nonempty(
            Dump(str(path), np.frombuffer(read_bytes(file, ARRAY), np.uint8), raw=True)
        )
    data = read_bytes(file, REPORT)
    if is_hex(data[:_HEAD_BYTES]):
        return _hex_file(file)
    text = data.decode("utf-16" if data[:2] in _UTF16 else "utf-8", errors="replace")
    return _nonempty(_csv(text, str(path)) if ending == ".csv" else parse_text(text, str(path)))


def _hex_file(file: Path) -> Dump:
    """Intel HEX of one piece of memory."""
    segments = read_hex(file)
    if len(segments) != 1:
        raise FileError(f"holds {counted(len(segments), 'piece')} of memory", where=str(file))
    return Dump(str(file), np.frombuffer(segments[0].data, np.uint8), raw=True)


def _nonempty(dump: Dump) -> Dump:
    if not dump.values.size:
        raise FileError(
            "holds no values", where=dump.where, hint="give the bytes of the buffer, all of them"
        )
    return dump


def _csv(text: str, where: str) -> Dump:
    """A table of the vendor's validate run: a row per sample, comments in front."""
    rows = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not rows and "w/o data" in text:
        raise FileError(
            "the tool left out the data, because a sample has too many values",
            where=where,
            hint="give the .npy file of the same name beside it",
        )
    cells = [_cells(row, ";" if ";" in text else "\t" if "\t" in text else ",") for row in rows]
    head: list[str] = []
    if len(cells) > 1 and not any(_CELL.fullmatch(cell) for cell in cells[0]):
        head = cells.pop(0)
    if len({len(row) for row in cells}) > 1:
        raise FileError("has rows of different lengths", where=where)
    for row in cells:
        for cell in row:
            if not _CELL.fullmatch(cell):
                raise FileError(
                    f"'{safe_terminal(cell[:40])}' is no number",
                    where=where,
                    hint="give a row of numbers per sample, or a column of them",
                )
    matches = [[_CELL.fullmatch(cell) for cell in row] for row in cells]
    words = [[match[1] for match in row if match] for row in matches]
    array = _values(np.array([[float(word) for word in row] for row in words], np.float64), head)
    return Dump(where, _whole(array), resolution=_resolution(word for row in words for word in row))


def _resolution(words: Iterable[str]) -> float:
    """Half of the last digit, of numbers that were printed with a fixed number of them."""
    digits = max(
        (len(word.partition(".")[2]) for word in words if "e" not in word.lower()), default=0
    )
    return 0.5 * 10.0**-digits if digits else 0.0


def _cells(row: str, separator: str) -> list[str]:
    """Where blanks or semicolons part them, a comma is that of a decimal number."""
    cells = [cell.strip().strip('"') for cell in row.split(separator)]
    if separator != ",":
        cells = [cell.replace(",", ".") for cell in cells]
    return [cell for cell in cells if cell]


def _values(array: Array, head: list[str]) -> Array:
    """Of two columns the first may be a count of the rows."""
    if array.ndim < 2 or array.shape[1] != 2 or array.shape[0] < 3:
        return array
    is_count = (np.diff(array[:, 0]) == 1).all() and array[0, 0] in (0, 1)
    named = len(head) == 2 and head[0].lower() in _INDEX
    return array[:, 1] if is_count or named else array


def _whole(array: Array) -> Array:
    """Whole numbers as such: they are stored values, others are decoded ones."""
    small = array.size and np.isfinite(array).all() and np.abs(array).max() < 2**31
    return array.astype(np.int64) if small and (array == np.rint(array)).all() else array


def parse_text(text: str, where: str) -> Dump:
    """A C array, a list of numbers, or a hex dump with or without addresses; ?? is a gap."""
    plain = _COMMENT.sub(" ", text)
    if sum(int(match[2]) for match in _REPEATS.finditer(plain)) > _MOST_REPEATS:
        raise FileError("repeats a value too often", where=where)
    plain = _REPEATS.sub(_repeated, plain)
    if (printed := _PRINTED.search(plain)) is not None:
        if "..." in printed[1]:
            raise FileError("has values left out", where=where, hint="save the array: numpy.save")
        plain = printed[1]
    body = max((match[1] for match in _BODY.finditer(plain)), key=len, default="")
    if not body:
        lines = [_bare(line) for line in plain.splitlines()]
        if any("," in line or "0x" in line.lower() or "-" in line or "." in line for line in lines):
            body = "\n".join(lines)
        else:
            return _hex_pairs(lines, where)
    words = _NUMBER.findall(body)
    digits = {len(word) - 2 if _HEX.fullmatch(word) else 0 for word in words}
    if digits in ({4}, {8}):  # as a debugger shows memory: words of two or four bytes
        stored = np.array([int(word, 16) for word in words], f"<u{digits.pop() // 2}")
        return Dump(where, stored.view(np.uint8), raw=True)
    mask = np.array([word != "??" for word in words], bool)
    try:
        values = [
            0.0 if word == "??" else float(int(word, 16) if "x" in word.lower() else word)
            for word in words
        ]
    except ValueError as error:
        raise FileError(f"a number cannot be read: {error}", where=where) from None
    array = _whole(np.array(values, np.float64))
    return Dump(where, array, False, None if mask.all() else mask, _resolution(words))


def _repeated(match: re.Match[str]) -> str:
    """`7 <repeats 3 times>`, as gdb prints it."""
    return ", ".join([match[1]] * int(match[2]))


def _bare(line: str) -> str:
    """Without the address, and without the text that xxd and hexdump show behind the bytes."""
    rest = _ADDRESS.sub("", line).partition("|")[0]
    is_xxd = ":" in line and "0x" not in rest.lower()
    return rest.partition("  ")[0] if is_xxd else rest


def _hex_pairs(lines: list[str], where: str) -> Dump:
    """`48 65 6c` or `4865 6c6c`; behind two blanks xxd shows the same bytes as text."""
    pairs: list[str] = []
    for line in lines:
        for word in re.split(r"\s{2,}(?=\S*[^0-9a-fA-F?\s])", line, maxsplit=1)[0].split():
            if not _PAIRS.fullmatch(word):
                raise FileError(
                    f"'{safe_terminal(word[:40])}' is no number and no hexadecimal byte",
                    where=where,
                    hint="give a C array, numbers with commas, or bytes as two hexadecimal digits",
                )
            pairs += [word[n : n + 2] for n in range(0, len(word), 2)]
    mask = np.array([pair != "??" for pair in pairs], bool)
    values = np.array([0 if pair == "??" else int(pair, 16) for pair in pairs], np.uint8)
    return Dump(where, values, raw=True, mask=None if mask.all() else mask)


# --- As values of a buffer ---


class DumpSamples(Struct, frozen=True):
    """Stored values of a buffer, one row per sample. `decoded`: real numbers of an integer buffer;
    `shorter`: a few are missing, nobody knows where."""

    rows: tuple[Array, ...]
    masks: tuple[Array | None, ...]
    decoded: bool = False
    shorter: bool = False
    resolution: float = 0.0  # of rounded numbers


def samples_in(dump: Dump, buffer: Buffer, *, whole: bool = False) -> DumpSamples:
    """`whole`: all bytes of the buffer, as memory holds it. A FileError says what was expected."""
    dtype = np.dtype(np.uint8) if whole else element_type(buffer)
    count = buffer.size_bytes if whole else int(np.prod(stored_shape(buffer)))
    values, mask, decoded = dump.values, dump.mask, False
    if dump.raw or (whole and values.dtype.itemsize * values.size == count):
        values, mask = _typed(dump, dtype, count)
    elif values.dtype.kind == "f" and dtype.kind != "f" and not _are_stored(values, buffer):
        decoded = True
    elif values.dtype != dtype:
        values = _wrapped(dump, dtype)
    total = values.size
    if total % count == 0:
        rows = [
            _in_memory_order(row, dump.values, buffer, whole) for row in values.reshape(-1, count)
        ]
        masks = [None] * len(rows) if mask is None else list(mask.reshape(-1, count))
        return DumpSamples(tuple(rows), tuple(masks), decoded, False, dump.resolution)
    lost = count - total
    if 0 < lost <= max(1, _LOST_SHARE * count) and count >= 1 / _LOST_SHARE and mask is None:
        return DumpSamples((values.reshape(-1),), (None,), decoded, True, dump.resolution)
    unit = "bytes" if dump.raw else "values"
    raise FileError(
        f"has {dump.values.size:,} {unit}, but '{safe_terminal(buffer.name)}' has {count:,} values "
        f"of {dtype.name} ({count * dtype.itemsize:,} bytes)",
        where=dump.where,
        hint="dump the whole buffer, from its first byte: `npuscope checklist` and network.c give "
        "its address; several samples follow each other",
    )


def _are_stored(values: Array, buffer: Buffer) -> bool:
    """Whole numbers that no decoded value can be, kept as floats."""
    if buffer.quant is None or not np.isfinite(values).all() or (values != np.rint(values)).any():
        return False
    limits = np.iinfo(element_type(buffer).name)
    zero, scale = buffer.quant.zero_point, buffer.quant.scale
    low, high = (limits.min - zero) * scale, (limits.max - zero) * scale
    return bool(((values < low - scale) | (values > high + scale)).any())


def _typed(dump: Dump, dtype: np.dtype[np.generic], count: int) -> tuple[Array, Array | None]:
    """Bytes as elements; text of one byte each is taken as it is."""
    raw = np.ascontiguousarray(dump.values.reshape(-1)).view(np.uint8)
    usable = raw.size // dtype.itemsize * dtype.itemsize
    if usable != raw.size and raw.size > count * dtype.itemsize * (1 - _LOST_SHARE):
        raw = raw[:usable]
    mask = dump.mask
    if mask is not None and dtype.itemsize > 1 and mask.size == raw.size:
        mask = np.asarray(mask.reshape(-1, dtype.itemsize).all(axis=1))
    if raw.size % dtype.itemsize:
        return raw, None
    return raw.copy().view(dtype), mask


def _wrapped(dump: Dump, dtype: np.dtype[np.generic]) -> Array:
    """Numbers that were printed with another sign: 200 and -56 are one byte."""
    values = dump.values.reshape(-1)
    if dtype.kind == "f":
        return values.astype(dtype)
    bits = 8 * dtype.itemsize
    low, high = -(1 << bits - 1), (1 << bits) - 1
    if values.size and (values.min() < low or values.max() > high):
        raise FileError(
            f"holds {values.min()} to {values.max()}, which does not fit {dtype.name}",
            where=dump.where,
            hint="give stored values, or decoded ones with a decimal point",
        )
    unsigned = values.astype(np.int64) & high
    return unsigned.astype(f"<u{dtype.itemsize}").view(dtype)


def _in_memory_order(row: Array, array: Array, buffer: Buffer, whole: bool) -> Array:
    """An array with the axes of the network is put in the order of memory."""
    shape = tuple(size for size in array.shape if size != 1)
    logical = tuple(size for size in buffer.shape if size != 1)
    stored = tuple(size for size in memory_shape(buffer) if size != 1)
    if whole or array.ndim < 3 or shape[-len(stored) :] == stored or len(logical) < 2:
        return row
    if shape[-len(logical) :] == logical:
        return to_stored(buffer, row)
    planes = (logical[-1], *logical[:-1])
    if shape[-len(planes) :] == planes:
        turned = np.moveaxis(row.reshape(planes), 0, -1)
        return to_stored(buffer, np.ascontiguousarray(turned))
    return row


def quantized(samples: DumpSamples, buffer: Buffer) -> DumpSamples:
    """Real numbers of an input as stored values."""
    if not samples.decoded:
        return samples
    quant = buffer.quant or Quant((1.0,), (0,))
    limits = np.iinfo(element_type(buffer).name)
    rows = tuple(
        np.rint(row / quant.scale + quant.zero_point)
        .clip(limits.min, limits.max)
        .astype(element_type(buffer))
        for row in samples.rows
    )
    return DumpSamples(rows, samples.masks)
