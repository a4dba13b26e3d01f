"""The store of a sweep: one JSON line per run, written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from json import JSONDecodeError
from pathlib import Path
from typing import Annotated, Any

from npuscope.advice.sweep.runs import ROW_SCHEMA
from npuscope.bounded_file import STORE, parse_json, read_bytes
from npuscope.errors import FileError, UsageError
from npuscope.file_lock import try_lock
from npuscope.machine.marks import Mhz, Room
from npuscope.plain_data import Range
from npuscope.records import decode
from npuscope.text import safe_terminal
from npuscope.whole_file import as_file_error

# --- Columns of a row: type and range; None where a family of machines has no such thing ---

_Ms = Annotated[float, Range(0, 1e15)]
_Level = Annotated[int, Range(0, 3)]
_Whole = Annotated[int, Range(0, 1 << 62)]
_Text = str | None
_HEAD: dict[str, Any] = {
    "key": str,
    "model": str,
    "model_sha256": str,
    "model_md5": str,
    "shapes": dict[str, tuple[_Whole, ...]],
    "machine": str,
    "generation": str,
    "epoch_controller": bool | None,
    "pools": str,
    "clocks": str,
    "set": str,
    "mcu_mhz": Mhz | None,
    "npu_mhz": Mhz | None,
    "optimization": _Level | None,
    "input_data_type": _Text,
    "output_data_type": _Text,
    "status": str,
    "seconds": Annotated[float, Range(0, 1e9)],
    "version": str,
}
# What a run has that was done, and what one has that was not.
_ENDINGS: dict[str, dict[str, Any]] = {
    "ok": {
        "total_ms": _Ms,
        "low_ms": _Ms,
        "high_ms": _Ms | None,
        "internal_ram_bytes": Room,
        "external_ram_bytes": Room,
        "weights_bytes": Room,
    },
    "failed": {"error": dict[str, str]},
}
_OPTIONAL: dict[str, Any] = {"notes": tuple[str, ...], "unknown_ops": tuple[str, ...]}
_ERROR = ("kind", "message", "where", "hint")


def check_row(row: dict[str, Any]) -> None:
    """Raise a FileError that names the column which is missing or not what it should be."""
    ending = _ENDINGS.get(str(row.get("status")))
    if ending is None:
        raise FileError(f"expected one of {', '.join(_ENDINGS)}", where="status")
    columns = _HEAD | ending
    for name, kind in columns.items():
        if name not in row:
            raise FileError("this column is missing", where=name)
        decode(row[name], kind, name)
    for name, value in row.items():
        if name in _OPTIONAL:
            decode(value, _OPTIONAL[name], name)
        elif name not in columns and not _is_cell(value):
            raise FileError("expected a single value", where=safe_terminal(name))
    missing = [part for part in _ERROR if "error" in ending and part not in row["error"]]
    if missing:
        raise FileError("this column is missing", where=f"error.{missing[0]}")


def _is_cell(value: object) -> bool:
    """Figures that later versions add are numbers or text, too."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return -(1 << 63) <= value < 1 << 63
    return value is None or isinstance(value, str | bool)


Row = dict[str, Any]
# How every store begins; a file that begins differently is not a store.
_OPENING = f'{{"schema":"{ROW_SCHEMA}",'.encode()


_SYNC_S = 0.2  # what a power cut may take


class Journal:
    """A store that is open for writing. Only one process at a time has it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        whole, rows = _whole_lines(path) if path.exists() else (0, [])
        self.rows = _latest(rows)
        # Created for all to read, as any result.
        as_bytes = getattr(os, "O_BINARY", 0)  # Windows would write two bytes for a line's end
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | as_bytes, 0o666)
        os.ftruncate(self._file, whole)  # what a torn last line has left
        os.lseek(self._file, 0, os.SEEK_END)
        self._synced = -_SYNC_S

    def append(self, row: Row) -> None:
        """The system has it when this returns, so that it outlives us; runs that follow each other
        fast share the wait for the disk."""
        line = json.dumps({"schema": ROW_SCHEMA, **row}, separators=(",", ":")).encode() + b"\n"
        with as_file_error(self.path):
            rest = memoryview(line)
            # A signal or a full disk may end a write early.
            while rest:
                rest = rest[os.write(self._file, rest) :]
            if time.monotonic() - self._synced > _SYNC_S:
                os.fsync(self._file)
                self._synced = time.monotonic()
        self.rows[row["key"]] = row

    def close(self) -> None:
        with contextlib.suppress(OSError):  # rows are written; how safely is all that is left
            os.fsync(self._file)
        os.close(self._file)


@contextmanager
def opened(path: Path) -> Iterator[Journal]:
    """The store with its lock file beside it; a link is followed, so that all names share one."""
    path = path.resolve() if path.is_symlink() else path
    with _locked(path.with_name(f"{path.name}.lock")):
        try:
            journal = Journal(path)
        except OSError as error:
            raise FileError(f"cannot be opened: {error.strerror}", where=str(path)) from None
        try:
            yield journal
        finally:
            journal.close()


def read_rows(path: Path) -> list[Row]:
    """The last row of every run, in the order in which runs were first done."""
    _, rows = _whole_lines(path)
    return list(_latest(rows).values())


def _latest(rows: list[Row]) -> dict[str, Row]:
    """A run that was tried again counts as it ended last."""
    return {row["key"]: row for row in rows}


def _whole_lines(path: Path) -> tuple[int, list[Row]]:
    """Bytes of whole lines, and their rows. The last line may be torn, no other."""
    data = read_bytes(path, STORE)
    if data[: len(_OPENING)] != _OPENING[: len(data)]:
        raise FileError(
            "this is not the store of a sweep",
            where=str(path),
            hint="a store is the .jsonl file that `npuscope sweep` writes",
        )
    rows: list[Row] = []
    whole = 0
    lines = data.split(b"\n")[:-1]
    for number, line in enumerate(lines, 1):
        try:
            row = _parsed(line)
            if row is not None:
                check_row(row)
        except FileError as error:
            where = f"{path}: line {number}" + (f": {error.where}" if error.where else "")
            raise FileError(error.message, where=where) from None
        if row is None and number == len(lines):
            break
        if row is None:
            raise FileError(f"line {number} is not a run", where=str(path))
        rows.append(row)
        whole += len(line) + 1
    return whole, rows


def _parsed(line: bytes) -> Row | None:
    """None for a line that was cut off, or is something else."""
    try:
        row = parse_json(line)
    except JSONDecodeError:
        return None
    except ValueError as error:
        raise FileError(str(error)) from None
    return row if isinstance(row, dict) and row.get("schema") == ROW_SCHEMA else None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Held by this process until it ends, however it ends: the system frees the lock."""
    try:
        file = _lock_file(path)
    except OSError as error:
        raise FileError(f"cannot be locked: {error.strerror}", where=str(path)) from None
    try:
        yield
    finally:
        # While the lock is still held: afterwards another sweep may have the file already.
        removed = _removed(path)
        os.close(file)
        # Windows removes no open file, so none of another sweep either.
        if not removed:
            _removed(path)


def _removed(path: Path) -> bool:
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        return False
    return True


def _lock_file(path: Path) -> int:
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        is_ours = try_lock(file)
        if is_ours is None:
            os.close(file)
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        if not is_ours:
            holder = os.read(file, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(file)
            raise UsageError(
                f"another sweep is writing this store (process {holder})",
                where=str(path).removesuffix(".lock"),
                hint="wait for it, or name another store with -o",
            ) from None
        if _is_there(path, file):
            os.ftruncate(file, 0)
            os.write(file, f"{os.getpid()}\n".encode())
            return file
        os.close(file)  # its holder removed it while we came


def _is_there(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False
