"""Dumps of a board in the forms in which people have them: raw, .npy, C arrays, hex, CSV."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from msgspec import Struct

from npuscope.bounded_file import ARRAY, REPORT, read_array, read_bytes, read_text
from npuscope.diagnosis.sights import Array
from npuscope.errors import FileError
from npuscope.graph.model import Quant
from npuscope.program.calls import element_type
from npuscope.program.model import Buffer
from npuscope.program.network_c.writer_buffers import memory_shape
from npuscope.sim.memory import stored_shape, to_stored
from npuscope.text import safe_terminal

_LOST_SHARE = 0.05  # of a dump that may be missing
_RAW = (".raw", ".bin", ".dat", "")
_ADDRESS = re.compile(r"^\s*(?:0x)?[0-9a-fA-F]{4,16}\s*(?:<[^>]*>)?:\s*|^[0-9a-fA-F]{8}\s{2}")
_BODY = re.compile(r"\{([^{}]*)\}", re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_NUMBER = re.compile(
    r"-?0[xX][0-9a-fA-F]+|\?\?|[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|-?inf"
)
_PAIRS = re.compile(r"(?:[0-9a-fA-F]{2}|\?\?)+")
_NPZ_HINT = "take the arrays out of it: numpy.load(FILE)['c_outputs_1'] saved as .npy"


class Dump(Struct, frozen=True):
    """Values as a file holds them; `raw`: bytes without a type. `mask` is false in gaps."""

    where: str
    values: Array
    raw: bool = False
    mask: Array | None = None


def read_dump(path: str | Path) -> Dump:
    file = Path(path)
    ending = file.suffix.lower()
    if ending == ".npz":
        raise FileError("holds several arrays", where=str(path), hint=_NPZ_HINT)
    if ending == ".npy":
        array = read_array(file)
        if array.dtype.kind not in "iufb":
            raise FileError(f"holds {array.dtype}, expected numbers", where=str(path))
        return _nonempty(Dump(str(path), array))
    if ending in _RAW:
        return _nonempty(
            Dump(str(path), np.frombuffer(read_bytes(file, ARRAY), np.uint8), raw=True)
        )
    text = read_text(file, REPORT, errors="replace")
    return _nonempty(_csv(text, str(path)) if ending == ".csv" else parse_text(text, str(path)))


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
    try:
        values = [
            [float(word) for word in row.replace(";", ",").split(",") if word] for row in rows
        ]
    except ValueError as error:
        raise FileError(f"is not a table of numbers: {error}", where=where) from None
    if len({len(row) for row in values}) > 1:
        raise FileError("has rows of different lengths", where=where)
    array = np.array(values, np.float64)
    return Dump(where, _whole(array))


def _whole(array: Array) -> Array:
    """Whole numbers as such: they are stored values, others are decoded ones."""
    small = array.size and np.isfinite(array).all() and np.abs(array).max() < 2**31
    return array.astype(np.int64) if small and (array == np.rint(array)).all() else array


def parse_text(text: str, where: str) -> Dump:
    """A C array, a list of numbers, or a hex dump with or without addresses; ?? is a gap."""
    plain = _COMMENT.sub(" ", text)
    body = max((match[1] for match in _BODY.finditer(plain)), key=len, default="")
    if not body:
        lines = [_bare(line) for line in plain.splitlines()]
        if any("," in line or "0x" in line.lower() or "-" in line or "." in line for line in lines):
            body = "\n".join(lines)
        else:
            return _hex_pairs(lines, where)
    words = _NUMBER.findall(body)
    mask = np.array([word != "??" for word in words], bool)
    try:
        values = [
            0.0 if word == "??" else float(int(word, 16) if "x" in word.lower() else word)
            for word in words
        ]
    except ValueError as error:
        raise FileError(f"a number cannot be read: {error}", where=where) from None
    array = _whole(np.array(values, np.float64))
    return Dump(where, array, mask=None if mask.all() else mask)


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


def samples_in(dump: Dump, buffer: Buffer, *, whole: bool = False) -> DumpSamples:
    """`whole`: all bytes of the buffer, as memory holds it. A FileError says what was expected."""
    dtype = np.dtype(np.uint8) if whole else element_type(buffer)
    count = buffer.size_bytes if whole else int(np.prod(stored_shape(buffer)))
    values, mask, decoded = dump.values, dump.mask, False
    if dump.raw or (whole and values.dtype.itemsize * values.size == count):
        values, mask = _typed(dump, dtype, count)
    elif values.dtype.kind == "f" and dtype.kind != "f":
        decoded = True
    elif values.dtype != dtype:
        values = _wrapped(dump, dtype)
    total = values.size
    if total % count == 0:
        rows = [
            _in_memory_order(row, dump.values, buffer, whole) for row in values.reshape(-1, count)
        ]
        masks = [None] * len(rows) if mask is None else list(mask.reshape(-1, count))
        return DumpSamples(tuple(rows), tuple(masks), decoded)
    lost = count - total
    if 0 < lost <= max(1, _LOST_SHARE * count) and count >= 1 / _LOST_SHARE and mask is None:
        return DumpSamples((values.reshape(-1),), (None,), decoded, shorter=True)
    unit = "bytes" if dump.raw else "values"
    raise FileError(
        f"has {dump.values.size:,} {unit}, but '{safe_terminal(buffer.name)}' has {count:,} values "
        f"of {dtype.name} ({count * dtype.itemsize:,} bytes)",
        where=dump.where,
        hint="dump the whole buffer, from its first byte: `npuscope checklist` and network.c give "
        "its address; several samples follow each other",
    )


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
