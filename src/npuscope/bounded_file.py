"""The one way by which files are read: regular files only, no larger than such a file can be, with
limits on nesting and on the length of numbers."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import math
import os
import stat
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from npuscope.errors import FileError
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    import numpy as np


class FileKind(Struct, frozen=True):
    """What a file is read as: its name in messages, and the maximum size."""

    name: str
    most_bytes: int


# Each limit is far above the largest file of its kind that was seen.
MODEL = FileKind("a model", 1 << 30)
MACHINE = FileKind("a machine file", 4 << 20)
SWEEP = FileKind("a sweep file", 1 << 20)
APPLICATION = FileKind("an application file", 1 << 20)
LINKER = FileKind("a linker script or map", 64 << 20)
FIRMWARE_MAP = FileKind("a firmware map", 1 << 20)
VENDOR_JSON = FileKind("a JSON file of a compiler", 64 << 20)
RESULT = FileKind("a saved result", 256 << 20)
PROGRAM = FileKind("a program.json", 256 << 20)
STORE = FileKind("the store of a sweep", 256 << 20)
REPORT = FileKind("a report", 64 << 20)
SOURCE = FileKind("a C source", 256 << 20)
ASSEMBLY = FileKind("an assembly text", 64 << 20)
BLOBS = FileKind("a file of blobs", 256 << 20)
POOL_IMAGE = FileKind("an image of a pool", 256 << 20)
HEX = FileKind("an Intel HEX file", 256 << 20)
ELF = FileKind("an ELF file", 512 << 20)
LOADABLE = FileKind("a loadable image", 512 << 20)
ARRAY = FileKind("a .npy array", 512 << 20)
TRACE = FileKind("a trace", 256 << 20)
CORE_PROGRAM = FileKind("a many-core program", 4 << 30)
DESCRIPTOR = FileKind("a descriptor of a many-core program", 512 << 20)
CORE_BUFFER = FileKind("a stats buffer", 2 << 30)
OWN = FileKind("a file of npuscope's own", 256 << 20)

MOST_DEPTH = 64  # levels of nesting; vendor files have up to 12
MOST_BITS = 128  # digits of a whole number; real ones have at most 64
_CHUNK = 1 << 20
# What numpy raises on headers that are damaged, or claim more than there is.
_NO_ARRAY = (ValueError, TypeError, OverflowError, SyntaxError, EOFError, TokenError, MemoryError)
# What Git checks out for a file that it keeps elsewhere, where the extension is not installed.
_POINTER = b"version https://git-lfs.github.com/spec/"
# Opening a pipe must not wait for a writer, opening a terminal must not adopt it.
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_FLAGS |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


@contextlib.contextmanager
def opened(path: str | Path, *, hint: str = "") -> Iterator[io.BufferedReader]:
    """A regular file, to be read part by part; whoever reads keeps what is read bounded."""
    try:
        with os.fdopen(_regular(path, hint), "rb") as file:
            yield file
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise FileError(f"cannot be read: {reason}", where=str(path), hint=hint) from None


def _regular(path: str | Path, hint: str) -> int:
    """The number of an open file, whose kind was looked at behind the name."""
    try:
        handle = os.open(path, _FLAGS)
    except ValueError:  # a null character in the path
        raise FileError("this is not a path", where=str(path), hint=hint) from None
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise FileError("is not a regular file", where=str(path), hint=hint)


def read_bytes(path: str | Path, kind: FileKind, *, hint: str = "") -> bytes:
    """The whole content."""
    with opened(path, hint=hint) as file:
        size = os.fstat(file.fileno()).st_size
        check_size(path, size, kind, hint=hint)
        data = file.read(size)
        # Files of /proc say 0, and a file may grow while it is read.
        while more := file.read(_CHUNK):
            data += more
            check_size(path, len(data), kind, hint=hint)
    if data.startswith(_POINTER):
        raise FileError(
            "this is a Git LFS pointer, not the file itself",
            where=str(path),
            hint="fetch the file: git lfs pull",
        )
    return data


def check_size(path: str | Path, size_bytes: int, kind: FileKind, *, hint: str = "") -> None:
    """Also for callers that read part by part."""
    if size_bytes > kind.most_bytes:
        raise FileError(
            f"has {size_bytes:,} bytes, but {kind.name} has at most {kind.most_bytes:,}",
            where=str(path),
            hint=hint,
        )


def read_head(path: str | Path, count: int) -> bytes:
    """The first bytes, fewer where the file is shorter."""
    with opened(path) as file:
        return file.read(count)


def is_pointer(path: str | Path) -> bool:
    """A text of Git LFS in place of the file."""
    return read_head(path, len(_POINTER)) == _POINTER


def read_text(
    path: str | Path,
    kind: FileKind,
    *,
    encoding: str = "utf-8",
    errors: str = "strict",
    hint: str = "",
) -> str:
    data = read_bytes(path, kind, hint=hint)
    try:
        return io.TextIOWrapper(io.BytesIO(data), encoding=encoding, errors=errors).read()
    except UnicodeDecodeError as error:
        raise FileError(f"is not text: byte {error.start}", where=str(path), hint=hint) from None


def read_toml(path: str | Path, kind: FileKind) -> dict[str, Any]:
    data = read_bytes(path, kind)
    try:
        return parse_toml(data.decode("utf-8"))
    except ValueError as error:
        raise FileError(
            f"is not valid TOML: {safe_terminal(str(error))}", where=str(path)
        ) from None


def parse_toml(text: str) -> dict[str, Any]:
    """The table of a TOML text; a ValueError says in one line why there is none."""
    table: dict[str, Any] = _bounded(tomllib.loads, text)
    return table


def parse_json(text: str | bytes, **options: Any) -> Any:
    """The value of a JSON text; a ValueError says in one line why there is none."""
    try:
        return _bounded(json.loads, text, **options)
    except UnicodeDecodeError:
        # json guesses UTF-16 or UTF-32 from zeros, so what it says of a binary file misleads.
        what = "a TFLite model" if text[4:8] == b"TFL3" else "a binary file"
        raise ValueError(f"this is {what}") from None


def read_array(path: str | Path) -> np.ndarray:
    """One array of a .npy file, whose header must not claim more than the file holds."""
    data = read_bytes(path, ARRAY)
    if data[:4] == b"PK\x03\x04":
        raise FileError("holds several arrays, expected a single .npy", where=str(path))
    return array_of(data, str(path))


def read_npz(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a .npz file by name. What they are unpacked to is bounded as a .npy file is,
    all of them together, before any is unpacked."""
    import zipfile
    import zlib

    with opened(path) as file:
        check_size(path, os.fstat(file.fileno()).st_size, ARRAY)
        try:
            with zipfile.ZipFile(file) as archive:
                rows = [row for row in archive.infolist() if row.filename.endswith(".npy")]
                if sum(row.file_size for row in rows) > ARRAY.most_bytes:
                    raise FileError(
                        f"unpacks to {sum(row.file_size for row in rows):,} bytes, at most "
                        f"{ARRAY.most_bytes:,} are read",
                        where=str(path),
                    )
                return {
                    row.filename.removesuffix(".npy"): array_of(
                        archive.read(row), f"{path}, {safe_terminal(row.filename)}"
                    )
                    for row in rows
                }
        except (*_NO_ARRAY, zipfile.BadZipFile, zlib.error, LookupError, RuntimeError) as error:
            reason = safe_terminal(str(error)[:200])
            raise FileError(f"is not a .npz file: {reason}", where=str(path)) from None


def array_of(data: bytes, where: str) -> np.ndarray:
    """The array that the bytes of a .npy file hold."""
    import numpy as np

    try:
        with warnings.catch_warnings():
            # Of headers that Python 2 wrote, or that look so because they are damaged.
            warnings.simplefilter("ignore", UserWarning)
            stream = io.BytesIO(data)
            version = np.lib.format.read_magic(stream)
            plain = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }.get(version)
            if plain is not None:  # before memory is taken for what the header claims
                shape, _, dtype = plain(stream)
                if math.prod(shape) * dtype.itemsize > len(data):
                    raise ValueError(f"its header claims {shape} elements, which it does not hold")
            stream.seek(0)
            array = np.lib.format.read_array(stream, allow_pickle=False)
    except _NO_ARRAY as error:
        reason = safe_terminal(str(error).partition("\n")[0][:200])
        raise FileError(f"is not a .npy array: {reason}", where=where) from None
    return np.asarray(array)


def _bounded(parse: Any, text: str | bytes, **options: Any) -> Any:
    try:
        value = parse(text, **options)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise
    except ValueError:  # of int(), which reads no more than some thousand digits
        raise ValueError("a number has too many digits") from None
    fault = excess(value)
    if fault:
        raise ValueError(fault)
    return value


def excess(value: Any) -> str:
    """Which limit a value exceeds; "" if none."""
    level, depth = [value], 0
    while level:
        below: list[Any] = []
        for entry in level:
            kind = type(entry)
            if kind is dict:
                below.extend(entry.values())
            elif kind is list:
                below.extend(entry)
            elif kind is int and entry.bit_length() > MOST_BITS:
                return "a number has too many digits"
            elif kind is float and not math.isfinite(entry):
                return f"a number is not finite ({entry})"
        level, depth = below, depth + 1
        if depth > MOST_DEPTH + 1:
            return "nested too deeply"
    return ""
