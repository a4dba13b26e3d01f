"""Work folders: where files lie that have no name yet, and how they get their names.

A work folder, `.npuscope-XXXXXXXX`, lies beside what it is for, and its lock is held as long as its
process lives. Files that belong together are committed by a journal in it, then renamed one by one:
a run that is killed before leaves the old files; after it, the next run that writes to the same
folder finishes the renames. Work folders without a journal, and without a process, are removed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from npuscope.bounded_file import OWN, parse_json, read_bytes
from npuscope.errors import FileError
from npuscope.file_lock import try_lock

NEW = "new"
_PREFIX = ".npuscope-"
_NAME = re.compile(r"\.npuscope-[a-z0-9_]{8}")
_LOCK, _JOURNAL, _OLD = "npuscope.lock", "journal.json", "old"
# A commit takes milliseconds; a process that holds a folder longer has stopped.
_WAIT_S = 10.0

# The state of a file, to detect changes by others: inode, size, time.
Stamp = list[int] | None


def is_work(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


class FileMove(Struct):
    """One step of a commit: a made file gets its name, or (nothing made) an old file goes."""

    made: str  # in the work folder
    name: str  # in the folder around it
    before: Stamp = None


class Work:
    """A hidden folder in `home` for what has no name yet, locked while this process lives."""

    def __init__(self, home: Path) -> None:
        tidy(home)
        self.home = home
        self.moves: list[FileMove] = []
        self._count = 0
        while True:
            import tempfile

            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=home))
            lock = _claim(self.path)
            if lock is not None:
                break
        self._lock = lock
        (self.path / NEW).mkdir()

    def move_to(self, home: Path) -> None:
        try:
            self.path = self.path.rename(home / self.path.name)
        except PermissionError:  # Windows moves no folder with an open file
            os.close(self._lock)
            self.path = self.path.rename(home / self.path.name)
            self._lock = os.open(self.path / _LOCK, os.O_RDWR)
            try_lock(self._lock)
        self.home = home

    def adopt(self) -> None:
        """A file that is replaced leaves its rights to the new one."""
        for move in self.moves:
            if move.made:
                target = self.home / move.name
                refuse(target)
                with contextlib.suppress(FileNotFoundError):
                    os.chmod(self.path / move.made, stat.S_IMODE(target.stat().st_mode))

    def next_name(self) -> str:
        """For a made file, in this folder."""
        self._count += 1
        return f"{NEW}/{self._count}"

    def close(self) -> None:
        _remove(self.path)
        os.close(self._lock)
        _remove(self.path)  # again: Windows removes no open file, so not the lock


def tidy(home: Path) -> None:
    """Finish or remove what killed runs have left in a folder."""
    try:
        names = [name for name in os.listdir(home) if is_work(name)]
    except OSError:
        return  # whoever writes there is told
    for name in names:
        with contextlib.suppress(OSError):  # another process is doing it
            _settle(home / name)


def _settle(work: Path) -> None:
    lock = _lock_of_dead(work)
    if lock is None:
        return
    try:
        with held(work.parent):
            others = _finish(work)
        for other in others:
            with contextlib.suppress(OSError):
                _settle(other)
        done = not any(map(os.path.lexists, others))  # they look for our journal
        if done:
            _remove(work)
    finally:
        os.close(lock)
    if done:
        _remove(work)


def _lock_of_dead(work: Path) -> int | None:
    """The lock of a work folder that is ours and whose process is gone."""
    status = work.lstat()
    if not (is_work(work.name) and stat.S_ISDIR(status.st_mode) and _is_private(status)):
        return None
    try:
        lock = os.open(work / _LOCK, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        work.rmdir()  # its process ended before it could lock; does nothing to a folder with files
        return None
    if try_lock(lock) is not True:
        os.close(lock)
        return None
    return lock


def _is_private(status: os.stat_result) -> bool:
    """Work folders are ours alone: another one came another way. Windows has no such bits."""
    if not hasattr(os, "getuid"):
        return True
    shared = status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    return status.st_uid == os.getuid() and not shared


def _claim(work: Path) -> int | None:
    """The lock of a new work folder; None if a tidying run took it for a dead one."""
    try:
        lock = os.open(work / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileNotFoundError:
        return None
    with contextlib.suppress(FileNotFoundError):
        is_taken = try_lock(lock) is False
        if not is_taken and os.path.samestat(os.stat(work / _LOCK), os.fstat(lock)):
            return lock
    os.close(lock)
    return None


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Commits to a folder happen one after the other, whoever makes them."""
    try:
        file = os.open(folder, os.O_RDONLY)
    except OSError:  # it may be written but not listed; Windows opens no folders
        yield
        return
    try:
        end = time.monotonic() + _WAIT_S
        while try_lock(file) is False:
            if time.monotonic() > end:
                raise FileError(
                    "another npuscope is writing to this folder",
                    where=str(folder),
                    hint="wait for it, or name another place",
                )
            time.sleep(0.01)
        yield
    finally:
        os.close(file)


def _remove(work: Path) -> None:
    """The lock goes last: a folder without it would not be known as ours."""
    with contextlib.suppress(OSError):
        for path in work.iterdir():
            if path.name == _LOCK:
                continue
            if path.is_dir() and not path.is_symlink():
                import shutil

                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        if [path.name for path in work.iterdir()] == [_LOCK]:
            (work / _LOCK).unlink()
            work.rmdir()


# --- Commits ---


def commit(works: Sequence[Work]) -> None:
    """All moves of all work folders, which are locked, as are the folders around them."""
    for work in works:
        work.adopt()
        for move in work.moves:
            move.before = _stamp(work.home / move.name)
    first, *rest = works
    if rest or len(first.moves) > 1:
        for work in rest:
            _write_journal(work, after=str(first.path / _JOURNAL))
        _write_journal(first, others=[str(work.path) for work in rest])
    undo: list[tuple[Path, Path | None]] = []
    try:
        for work in works:
            _apply(work.path, work.moves, undo)
    except OSError:
        (first.path / _JOURNAL).unlink(missing_ok=True)
        for target, old in reversed(undo):
            with contextlib.suppress(OSError):
                if old is None:
                    target.unlink(missing_ok=True)
                else:
                    old.replace(target)
        raise


def _write_journal(work: Work, after: str = "", others: Sequence[str] = ()) -> None:
    moves = [[move.made, move.name, move.before] for move in work.moves]
    data = json.dumps({"moves": moves, "after": after, "others": others})
    part = work.path / f"{_JOURNAL}.part"
    part.write_text(data, encoding="utf-8")
    part.replace(work.path / _JOURNAL)


def _finish(work: Path) -> list[Path]:
    """Make the moves of a journal that was committed; gives work folders of the same set."""
    try:
        journal = parse_json(read_bytes(work / _JOURNAL, OWN))
        moves = [FileMove(str(made), str(name), before) for made, name, before in journal["moves"]]
        after, others = journal["after"], [Path(other) for other in journal["others"]]
    except (FileError, ValueError, TypeError, KeyError):
        return []  # none, or not one of ours
    if after and not os.path.isfile(after):
        return []  # its set was never committed
    _apply(work, moves)
    return others


def _apply(
    work: Path, moves: Sequence[FileMove], undo: list[tuple[Path, Path | None]] | None = None
) -> None:
    """Moves that are still to be made; a name that someone changed meanwhile stays theirs."""
    for number, move in enumerate(moves):
        target = _inside(work.parent, move.name)
        if _stamp(target) != move.before:
            continue
        if undo is not None:
            undo.append((target, _second_name(target, work / _OLD / str(number))))
        if not move.made:
            target.unlink(missing_ok=True)
            folder = target.parent
            with contextlib.suppress(OSError):
                while folder != work.parent:
                    folder.rmdir()
                    folder = folder.parent
            continue
        file = _inside(work, move.made)
        if file.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)


def _second_name(path: Path, old: Path) -> Path | None:
    """A second name, to undo a commit."""
    if not path.exists():
        return None
    old.parent.mkdir(exist_ok=True)
    try:
        os.link(path, old)
    except OSError:  # a file system without links
        import shutil

        shutil.copy2(path, old)
    return old


def _inside(folder: Path, name: str) -> Path:
    """A journal moves nothing out of its own folder, whoever wrote it."""
    path = folder / name
    parents = [folder / part for part in Path(name).parents]
    if os.path.isabs(name) or ".." in Path(name).parts or not Path(name).parts:
        raise OSError(errno.EINVAL, "points outside its folder", name)
    if any(parent.is_symlink() for parent in parents if parent != folder):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
    return path


def _stamp(path: Path) -> Stamp:
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def refuse(target: Path) -> None:
    """What a rename would do without asking."""
    if target.is_dir():
        text = "this is a folder, expected a file name"
        raise IsADirectoryError(errno.EISDIR, text, str(target))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
