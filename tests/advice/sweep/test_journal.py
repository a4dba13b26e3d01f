"""The store: no row is lost, none is half there, nobody else's file is touched."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from advice.sweep.samples import failed, lines_of, row
from npuscope import child
from npuscope.advice.sweep.journal import opened, read_rows
from npuscope.errors import FileError, UsageError
from processes import started


def written(path: Path, *keys: str) -> Path:
    with opened(path) as journal:
        for key in keys:
            journal.append(row(key))
    return path


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    store = written(tmp_path / "s.jsonl", "a", "b")
    assert read_rows(store) == [row("a"), row("b")] == lines_of(store)
    assert [path.name for path in tmp_path.iterdir()] == ["s.jsonl"]  # the lock is gone
    with opened(store) as journal:
        assert list(journal.rows) == ["a", "b"]


def test_cut_anywhere_it_keeps_the_whole_rows_and_goes_on(tmp_path: Path) -> None:
    store = tmp_path / "s.jsonl"
    with opened(store) as journal:
        for key in "abc":
            journal.append(row(key))
    data = store.read_bytes()
    for size in range(len(data) + 1):
        store.write_bytes(data[:size])
        whole = data[:size].count(b"\n")
        assert [found["key"] for found in read_rows(store)] == ["a", "b", "c"][:whole]
        written(store, "new")
        assert [found["key"] for found in lines_of(store)] == [*["a", "b", "c"][:whole], "new"]


def test_a_last_line_of_rubbish_is_torn_too(tmp_path: Path) -> None:
    store = written(tmp_path / "s.jsonl", "a")
    with store.open("ab") as file:
        file.write(b"\0" * 40 + b"\n")
    assert [found["key"] for found in read_rows(store)] == ["a"]
    assert [found["key"] for found in lines_of(written(store, "b"))] == ["a", "b"]


def test_a_broken_line_in_between_is_an_error(tmp_path: Path) -> None:
    store = written(tmp_path / "s.jsonl", "a", "b")
    first, second = store.read_bytes().splitlines(keepends=True)
    store.write_bytes(first + second[10:] + second)
    with pytest.raises(FileError, match=r"s\.jsonl: line 2 is not a run"):
        read_rows(store)


def test_a_run_that_was_done_again_counts_once(tmp_path: Path) -> None:
    store = tmp_path / "s.jsonl"
    with opened(store) as journal:
        journal.append(failed("a"))
        journal.append(row("b"))
        journal.append(row("a", total_ms=7.0))
    assert read_rows(store) == [row("a", total_ms=7.0), row("b")]


@pytest.mark.parametrize("data", [b"TFL3", b"{}\n", b'{"schema":"npuscope/other/1"}\n', b"\n"])
def test_a_foreign_file_stays_as_it_is(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(data)
    with pytest.raises(FileError) as caught, opened(path):
        pass
    assert str(caught.value) == (
        f"{path}: this is not the store of a sweep\n"
        "  hint: a store is the .jsonl file that `npuscope sweep` writes"
    )
    assert path.read_bytes() == data


def test_one_sweep_at_a_time(tmp_path: Path) -> None:
    store = tmp_path / "s.jsonl"
    with opened(store), pytest.raises(UsageError) as caught, opened(store):
        pass
    assert str(caught.value) == (
        f"{store}: another sweep is writing this store (process {os.getpid()})\n"
        "  hint: wait for it, or name another store with -o"
    )


HOLD = """
import sys, time
from pathlib import Path
from npuscope.advice.sweep.journal import opened
with opened(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(3600)
"""


def test_the_lock_of_a_dead_sweep_is_free(tmp_path: Path) -> None:
    store = tmp_path / "s.jsonl"
    command = [*child.command(), "-c", HOLD, str(store)]
    pipe = {"stdout": subprocess.PIPE, "text": True}
    with started(command, env=child.environment(), **pipe) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match=f"process {holder.pid}"), opened(store):
            pass
    assert (tmp_path / "s.jsonl.lock").exists()
    written(store, "a")
    assert not (tmp_path / "s.jsonl.lock").exists()


def test_folders_that_are_not_there(tmp_path: Path) -> None:
    with (
        pytest.raises(FileError, match="cannot be locked: No such file"),
        opened(tmp_path / "no" / "s.jsonl"),
    ):
        pass
    with pytest.raises(FileError, match="cannot be read: No such file"):
        read_rows(tmp_path / "none.jsonl")
