"""Files and folders that are written completely or not at all, and never replace a user's file.

Everything is written into a work folder first, then renamed; `work_folder` tells how that outlasts
a kill at any moment.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct

from npuscope.bounded_file import OWN, parse_json, read_bytes
from npuscope.errors import FileError, OutputError, UsageError
from npuscope.text import safe_terminal
from npuscope.work_folder import NEW, FileMove, Work, commit, held, is_work, refuse, tidy
from npuscope.written import digest_of, is_ours, record

# A folder with this file in it was written by us; it lists what we wrote.
MARKER = ".npuscope"
_MARKER_SCHEMA = "npuscope/folder/1"
# Names of streams that are already open: replacing the file would detach it from its writer.
_OPEN_ALREADY = re.compile(r"/(?:dev|proc/self)/(?:(stdout)|(stderr)|fd/(\d+))")
_UNKNOWN = "already exists, and npuscope did not write it"
_MOST_LINKS = 40
_SHOWN = 5


@contextlib.contextmanager
def fresh(path: str | Path) -> Iterator[BinaryIO]:
    """A file to fill; it takes its name when all went well, together with others of its set.

    A link stays, and what it leads to is replaced. A device or a pipe is written as it is.
    """
    path = Path(path)
    with as_file_error(path):
        stream = _stream(path)
        if stream is not None:
            with stream:
                yield stream
            return
        with _joined() as files, files.add(_followed(path)) as file:
            yield file


def write_whole(path: str | Path, data: bytes) -> None:
    with fresh(path) as file:
        file.write(data)


def write_files(folder: Path, files: Mapping[str, bytes]) -> tuple[Path, ...]:
    """All of them or none; what else is in the folder stays."""
    with as_file_error(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with _joined():
        for name, data in files.items():
            write_whole(folder / name, data)
    return tuple(folder / name for name in files)


def refuse_same(source: str | Path, target: str | Path) -> None:
    """What is read is never replaced, not even when asked to."""
    if os.path.exists(source) and os.path.exists(target) and os.path.samefile(source, target):
        raise UsageError("this is the input file", where=f"-o {target}")


@contextlib.contextmanager
def as_file_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror}", where=str(path)) from None


# --- Sets of files ---


@contextlib.contextmanager
def together() -> Iterator[_Set]:
    """Files that are written inside appear together: at the end, or earlier with `appear`."""
    files = _Set()
    token = _CURRENT.set(files)
    try:
        yield files
        files.commit()
    finally:
        _CURRENT.reset(token)
        files.drop()


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """What is written inside is not part of the enclosing set."""
    token = _CURRENT.set(None)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def appear() -> None:
    """What was written so far takes its names, before anyone is told of it."""
    files = _CURRENT.get()
    if files is not None:
        files.commit()


@contextlib.contextmanager
def _joined() -> Iterator[_Set]:
    files = _CURRENT.get()
    if files is not None:
        yield files
        return
    with together() as own:
        yield own


class _Set:
    """Files that are written and have no name yet, by the folder that they will be in."""

    def __init__(self) -> None:
        self._works: dict[Path, Work] = {}

    @contextlib.contextmanager
    def add(self, target: Path) -> Iterator[BinaryIO]:
        refuse(target)
        work = self._works.get(target.parent)
        if work is None:
            work = self._works[target.parent] = Work(target.parent)
        if any(move.name == target.name for move in work.moves):
            raise UsageError("two results would be written to this file", where=str(target))
        name = work.next_name()
        with open(work.path / name, "wb") as file:
            yield file
        work.moves.append(FileMove(name, target.name))

    def commit(self) -> None:
        works = [work for work in self._works.values() if work.moves]
        if works:
            _commit(works)
        self.drop()

    def drop(self) -> None:
        for work in reversed(self._works.values()):
            work.close()
        self._works.clear()


def _commit(works: Sequence[Work]) -> None:
    """In the order of their names, as every run locks them, so that none waits for the other."""
    with contextlib.ExitStack() as all_held, _by_name(works[0].home):
        for home in sorted(work.home for work in works):
            all_held.enter_context(held(home))
        steps = [
            (work.home / move.name, work.path / move.made) for work in works for move in work.moves
        ]
        for target, file in steps:
            if not _REPLACING.get() and target.exists() and not is_ours(target, file):
                raise OutputError(
                    _UNKNOWN,
                    where=str(target),
                    hint="name another file, or replace this one with --force",
                )
        # Before the rename: a file of ours that nobody remembers would be in the way for ever.
        for target, file in steps:
            record(target, file)
        commit(works)


@contextlib.contextmanager
def _by_name(place: Path) -> Iterator[None]:
    """An error of several files names the one."""
    try:
        yield
    except OSError as error:
        with as_file_error(Path(error.filename2 or error.filename or place)):
            raise


_CURRENT: ContextVar[_Set | None] = ContextVar("files", default=None)
_REPLACING: ContextVar[bool] = ContextVar("replacing", default=False)


@contextlib.contextmanager
def replacing(force: bool = True) -> Iterator[None]:
    """Results replace what others wrote, too."""
    token = _REPLACING.set(force)
    try:
        yield
    finally:
        _REPLACING.reset(token)


# --- Folders ---


@contextlib.contextmanager
def work_folder(home: Path) -> Iterator[Path]:
    """A folder for what lies in between; gone at the end, after a kill when the next is made."""
    with as_file_error(home):
        work = Work(home)
    try:
        with apart():
            yield work.path / NEW
    finally:
        work.close()


class NewFolder(Struct):
    """A folder of ours: fill `path`; afterwards `files` were written and `kept` told of."""

    path: Path
    files: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


@contextlib.contextmanager
def new_folder(path: str | Path) -> Iterator[NewFolder]:
    """A folder to fill; it takes its name, or its files theirs, only when all went well.

    Of an existing folder only what we wrote, and nobody changed since, is replaced.
    """
    with as_file_error(Path(path)):
        target = _followed(Path(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        tidy(target.parent)
        tidy(target)
        _refuse_foreign(target)
        work = Work(target if target.exists() else target.parent)
    try:
        folder = NewFolder(work.path / NEW)
        with apart():
            yield folder
        with _by_name(target):
            _publish(work, target, folder)
    finally:
        work.close()


def _publish(work: Work, target: Path, folder: NewFolder) -> None:
    new = {name: _record(folder.path / name) for name in _files_in(folder.path)}
    folder.files = tuple(new)
    about = "npuscope wrote these files, and replaces them as long as nobody changed them"
    marker = {"schema": _MARKER_SCHEMA, "about": about, "files": new}
    (folder.path / MARKER).write_text(json.dumps(marker, indent=1) + "\n", encoding="utf-8")
    if work.home != target:
        with held(work.home):
            if not target.exists():
                folder.path.rename(target)
                return
        _refuse_foreign(target)  # another run, or the user, created it first
        work.move_to(target)
    with held(target):
        entries = _read_marker(target)
        folder.kept = _checked(target, entries, new)
        work.moves = [FileMove(f"{NEW}/{name}", name) for name in new]
        stale = [name for name in entries if name not in new]
        work.moves += [FileMove("", name) for name in stale if _is_as(target, name, entries)]
        work.moves.append(FileMove(f"{NEW}/{MARKER}", MARKER))
        commit([work])


def _checked(target: Path, entries: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """Refuses to replace what is not ours, or no longer; tells what stays."""
    there = _files_in(target)
    changed = {name for name in there if name in entries and not _is_as(target, name, entries)}
    foreign = [name for name in there if name not in entries]
    for name in () if _REPLACING.get() else (*sorted(changed), *foreign):
        if name in new and not _is_as(target, name, new):
            raise OutputError(
                "was changed since npuscope wrote it" if name in entries else _UNKNOWN,
                where=str(target / name),
                hint="name a new folder with -o, or replace it with --force",
            )
    return (
        *_kept([name for name in foreign if name not in new], "which npuscope did not write"),
        *_kept(sorted(changed - new.keys()), "changed since npuscope wrote it"),
    )


def _kept(names: Sequence[str], why: str) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return [f"kept {', '.join(map(safe_terminal, names[:_SHOWN]))}{more}, {why}"]


def _files_in(folder: Path) -> list[str]:
    """Everything but folders, the marker and work folders, by name."""
    names: list[str] = []
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not is_work(name))
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        names += [os.path.relpath(os.path.join(place, name), folder) for name in (*files, *links)]
    return sorted(name for name in names if name != MARKER)


def _record(path: Path) -> dict[str, Any]:
    return {"size_bytes": path.stat().st_size, "sha256": digest_of(path)}


def _is_as(folder: Path, name: str, manifest: Mapping[str, Any]) -> bool:
    """Whether a file is as a manifest tells."""
    path, record = folder / name, manifest.get(name)
    with contextlib.suppress(OSError, FileError):
        return stat.S_ISREG(path.lstat().st_mode) and _record(path) == record
    return False


def _read_marker(folder: Path) -> dict[str, Any]:
    """What we wrote. Markers of earlier versions list nothing, so that nothing is known as ours."""
    try:
        marker = parse_json(read_bytes(folder / MARKER, OWN))
    except (FileError, ValueError):
        return {}
    if not isinstance(marker, dict) or marker.get("schema") != _MARKER_SCHEMA:
        return {}
    files = marker.get("files")
    return files if isinstance(files, dict) else {}


def _refuse_foreign(target: Path) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise OutputError("is a file, expected a folder", where=str(target))
    names = [name for name in os.listdir(target) if not is_work(name)]
    if names and MARKER not in names and not _REPLACING.get():
        raise OutputError(
            "this folder holds files that npuscope did not write",
            where=str(target),
            hint="name a new folder with -o, empty this one, or write into it with --force",
        )


# Names


def _followed(path: Path) -> Path:
    """Where a name leads: links are kept, what they lead to is replaced."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return target


def _stream(path: Path) -> BinaryIO | None:
    """A device, a pipe or what is open already; it has no old content to keep."""
    number = _open_number(path)
    if number is not None:
        sys.stdout.flush()
        return open(os.dup(number), "wb")
    mode = path.stat().st_mode if path.exists() else stat.S_IFREG
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    return path.open("wb")


def _open_number(path: Path) -> int | None:
    """The number behind /dev/stdout and its like, also through links."""
    name = os.path.abspath(path)
    for _ in range(_MOST_LINKS):
        match = _OPEN_ALREADY.fullmatch(name)
        if match:
            return 1 if match[1] else 2 if match[2] else int(match[3])
        if not os.path.islink(name):
            return None
        name = os.path.join(os.path.dirname(name), os.readlink(name))
    return None
