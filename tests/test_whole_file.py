"""Files and folders that are whole or not there, whenever the writer is killed."""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from npuscope import work_folder as work_folders
from npuscope.errors import FileError, OutputError, UsageError
from npuscope.whole_file import (
    MARKER,
    apart,
    appear,
    fresh,
    new_folder,
    together,
    write_files,
    write_whole,
)
from npuscope.work_folder import Work, tidy

# Python reports these before it does them: the moments at which a writer can be killed.
STEPS = {
    "open",
    "os.rename",
    "os.remove",
    "os.mkdir",
    "os.rmdir",
    "os.link",
    "os.chmod",
    "os.listdir",
    "fcntl.flock",
    "shutil.rmtree",
}
needs_rights = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Run in a process that ends, with no chance to tidy up, before its nth step; False if it
    was done before."""
    if not hasattr(os, "fork"):
        pytest.skip("no process is forked here")
    child = os.fork()
    if child == 0:
        left = step

        def count(event: str, _: object) -> None:
            nonlocal left
            if event in STEPS:
                left -= 1
                if left < 0:
                    os._exit(9)

        try:
            sys.addaudithook(count)
            work()
            os._exit(0)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9


def content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.startswith(".npuscope-")]


def shown(folder: Path) -> dict[str, str]:
    """Files as a user counts them: no marker, nothing in work folders."""
    return {
        name: text
        for name, text in content(folder).items()
        if not any(part.startswith(MARKER) for part in Path(name).parts)
    }


def fill(folder: Path, text: str, names: tuple[str, ...] = ("a.c", "b.h", "program/c")) -> None:
    with new_folder(folder) as made:
        for name in names:
            (made.path / name).parent.mkdir(exist_ok=True)
            (made.path / name).write_text(text)


def test_a_file_is_old_or_new_whenever_its_writer_is_killed(tmp_path: Path) -> None:
    target, step = tmp_path / "x.json", 0
    for old in (None, "old"):
        for step in range(1000):
            target.unlink(missing_ok=True)
            if old:
                write_whole(target, old.encode())
            killed = killed_at(step, lambda: write_whole(target, b"new"))
            found = target.read_text() if target.exists() else None
            assert found in (old, "new")
            write_whole(tmp_path / "another", b"")
            assert not leftovers(tmp_path)
            if not killed:
                break
        assert found == "new"
        assert step > 5


def test_a_set_over_two_folders_is_all_or_none_whenever_its_writer_is_killed(
    tmp_path: Path,
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    files = [one / "a", one / "b", two / "c"]

    def work() -> None:
        with together():
            for path in files:
                write_whole(path, b"new")

    seen = set()
    # Whoever comes first finishes both folders, or neither.
    for homes in ((one, two), (two, one)):
        for step in range(1000):
            for path in files:
                path.parent.mkdir(exist_ok=True)
                path.unlink(missing_ok=True)
                write_whole(path, b"old")
            (two / "c").unlink()
            killed = killed_at(step, work)
            assert {path.read_text() for path in files if path.exists()} <= {"old", "new"}
            for home in homes:
                write_whole(home / "another", b"")
            found = tuple(path.read_text() if path.exists() else None for path in files)
            seen.add(found)
            assert not leftovers(tmp_path)
            if not killed:
                break
    assert seen == {("old", "old", None), ("new", "new", "new")}


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_is_old_or_new_whenever_its_writer_is_killed(tmp_path: Path, there: bool) -> None:
    seen = set()
    for step in range(1000):
        home = tmp_path / str(step)
        home.mkdir()
        net = home / "net"
        old: dict[str, str] = {}
        if there:
            fill(net, "old", ("a.c", "b.h", "gone/d"))
            (net / "notes.txt").write_text("mine")
            old = {"a.c": "old", "b.h": "old", "gone/d": "old"}
        killed = killed_at(step, lambda net=net: fill(net, "new"))
        tidy(home)
        tidy(net)
        found = shown(net) if net.exists() else {}
        assert found.pop("notes.txt", None) == ("mine" if there else None)
        assert found in (old, {"a.c": "new", "b.h": "new", "program/c": "new"})
        seen.add(tuple(sorted(found)))
        assert not leftovers(home)
        fill(net, "newest")
        assert shown(net).pop("a.c") == "newest"
        assert ("notes.txt" in shown(net)) is there
        assert not leftovers(home)
        if not killed:
            break
    assert len(seen) == 2
    assert step > 15


def test_what_a_user_put_into_our_folder_stays_and_is_named(tmp_path: Path) -> None:
    net = tmp_path / "net"
    fill(net, "1")
    (net / "notes.txt").write_text("mine")
    (net / "mine").mkdir()
    (net / "mine" / "deep.txt").write_text("mine")
    with new_folder(net) as made:
        (made.path / "a.c").write_text("2")
    assert shown(net) == {"a.c": "2", "mine/deep.txt": "mine", "notes.txt": "mine"}
    assert made.kept == ("kept mine/deep.txt, notes.txt, which npuscope did not write",)
    assert made.files == ("a.c",)
    assert not (net / "program").exists()  # ours, and empty now


def test_a_file_that_a_user_changed_is_not_replaced(tmp_path: Path) -> None:
    net = tmp_path / "net"
    fill(net, "1")
    (net / "b.h").write_text("by hand")
    before = content(net)
    with pytest.raises(OutputError, match="was changed since npuscope wrote it") as caught:
        fill(net, "2")
    assert caught.value.where == str(net / "b.h")
    assert caught.value.hint == "name a new folder with -o, or replace it with --force"
    assert content(net) == before
    (net / "b.h").unlink()
    fill(net, "2")
    assert shown(net) == {"a.c": "2", "b.h": "2", "program/c": "2"}


def test_a_changed_file_that_we_no_longer_write_stays(tmp_path: Path) -> None:
    net = tmp_path / "net"
    fill(net, "1")
    (net / "b.h").write_text("by hand")
    with new_folder(net) as made:
        (made.path / "a.c").write_text("2")
    assert shown(net) == {"a.c": "2", "b.h": "by hand"}
    assert made.kept == ("kept b.h, changed since npuscope wrote it",)


def test_a_name_that_a_user_took_is_not_replaced(tmp_path: Path) -> None:
    net = tmp_path / "net"
    fill(net, "1")
    (net / "new.c").write_text("mine")
    with pytest.raises(OutputError, match="already exists, and npuscope did not write it"):
        fill(net, "2", ("a.c", "new.c"))
    assert shown(net)["new.c"] == "mine"
    assert shown(net)["a.c"] == "1"


def test_an_older_marker_lists_nothing_so_nothing_is_replaced(tmp_path: Path) -> None:
    net = tmp_path / "net"
    net.mkdir()
    (net / MARKER).write_text("written by npuscope; replaced as a whole\n")
    (net / "a.c").write_text("1")
    (net / "old.txt").write_text("whose?")
    with pytest.raises(OutputError, match="already exists, and npuscope did not write it"):
        fill(net, "2")
    fill(net, "1")  # the same again takes nothing away
    assert shown(net) == {"a.c": "1", "b.h": "1", "old.txt": "whose?", "program/c": "1"}
    fill(net, "2")
    assert shown(net)["a.c"] == "2"


@pytest.mark.parametrize("name", ["../victim", "/etc/hostname", "link/victim"])
def test_a_marker_of_someone_else_deletes_nothing_elsewhere(tmp_path: Path, name: str) -> None:
    net = tmp_path / "net"
    fill(net, "1")
    (tmp_path / "victim").write_text("")
    (net / "link").symlink_to(tmp_path)
    marker = json.loads((net / MARKER).read_text())
    nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    marker["files"][name] = {"size_bytes": 0, "sha256": nothing}
    (net / MARKER).write_text(json.dumps(marker))
    try:
        fill(net, "2")
    except OutputError:
        assert shown(net)["a.c"] == "1"
    assert (tmp_path / "victim").exists()


def test_a_failure_in_the_middle_of_a_commit_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, dict.fromkeys("ab", b"old"))
    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if Path(target).name == "c" and self.parent.name == "new":
            raise PermissionError(1, "Operation not permitted", str(self), None, str(target))
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(OutputError) as caught:
        write_files(tmp_path, dict.fromkeys("abcd", b"new"))
    assert str(caught.value) == f"{tmp_path / 'c'}: cannot be written: Operation not permitted"
    assert content(tmp_path) == {"a": "old", "b": "old"}
    assert not leftovers(tmp_path)


def test_nothing_appears_if_one_of_a_set_fails(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with pytest.raises(
        OutputError, match="cannot be written: this is a folder, expected a file name"
    ):
        write_files(tmp_path, {"a": b"new", "b": b"new"})
    assert content(tmp_path) == {}
    assert not leftovers(tmp_path)


def test_a_set_appears_when_it_is_told_of(tmp_path: Path) -> None:
    with together():
        write_whole(tmp_path / "a", b"1")
        with apart():
            write_whole(tmp_path / "log", b"1")
        assert shown(tmp_path) == {"log": "1"}
        appear()
        assert shown(tmp_path) == {"a": "1", "log": "1"}
        write_whole(tmp_path / "b", b"1")
    assert content(tmp_path) == {"a": "1", "b": "1", "log": "1"}


def test_two_results_have_two_names(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(UsageError, match="two results would be written to this file"), together():
        write_whole(tmp_path / "a", b"1")
        write_whole(tmp_path / "link", b"2")
    assert not (tmp_path / "a").exists()


def test_the_work_of_a_living_run_is_left_alone(tmp_path: Path) -> None:
    with fresh(tmp_path / "slow") as file:
        file.write(b"first")
        write_whole(tmp_path / "quick", b"x")
        assert len(leftovers(tmp_path)) == 1
    assert content(tmp_path) == {"quick": "x", "slow": "first"}


def dead_work(folder: Path, journal: object = None) -> Path:
    """What a killed run leaves."""
    work = folder / ".npuscope-abcdefgh"
    (work / "new").mkdir(parents=True)
    work.chmod(0o700)
    (work / "npuscope.lock").touch()
    (work / "new" / "1").write_text("made")
    if journal is not None:
        (work / "journal.json").write_text(json.dumps(journal))
    return work


def test_only_work_folders_of_ours_are_removed(tmp_path: Path) -> None:
    kept = [".npuscope-notes", ".npuscope-abcdefg", ".npuscope-abcdefgi", ".net.abcdefgh"]
    for name in kept:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("mine")
    (tmp_path / ".npuscope-12345678").write_text("a file")
    dead_work(tmp_path)
    write_whole(tmp_path / "x", b"")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {*kept, ".npuscope-12345678", "x"}


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="rights are kept otherwise there")
def test_a_work_folder_that_others_may_read_is_left_alone(tmp_path: Path) -> None:
    dead_work(tmp_path).chmod(0o755)
    write_whole(tmp_path / "x", b"")
    assert {path.name for path in tmp_path.iterdir()} == {".npuscope-abcdefgh", "x"}


@pytest.mark.parametrize(
    "name", ["../victim", "{home}/victim", "link/victim", "", ".", "sub/../../victim"]
)
def test_a_journal_reaches_no_other_folder(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "link").symlink_to(tmp_path)
    journal = {"moves": [["new/1", name.format(home=tmp_path), None]], "after": "", "others": []}
    dead_work(home, journal)
    write_whole(home / "x", b"")
    assert not (tmp_path / "victim").exists()
    assert (home / "x").exists()


@pytest.mark.parametrize("journal", [1, [], {}, {"moves": [[1]]}, {"moves": 3, "after": []}])
def test_a_journal_of_nobody_is_dropped(tmp_path: Path, journal: object) -> None:
    dead_work(tmp_path, journal)
    write_whole(tmp_path / "x", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_what_someone_wrote_after_the_kill_is_not_replaced(tmp_path: Path) -> None:
    dead_work(tmp_path, {"moves": [["new/1", "a", None]], "after": "", "others": []})
    (tmp_path / "a").write_text("mine")
    write_whole(tmp_path / "x", b"")
    assert content(tmp_path) == {"a": "mine", "x": ""}


def test_the_second_writer_waits_for_the_first(tmp_path: Path) -> None:
    holder = os.open(tmp_path, os.O_RDONLY)
    fcntl = pytest.importorskip("fcntl")
    fcntl.flock(holder, fcntl.LOCK_EX)
    writer = threading.Thread(target=fill, args=(tmp_path / "net", "x"))
    writer.start()
    writer.join(0.1)
    assert not (tmp_path / "net").exists()
    os.close(holder)
    writer.join()
    assert shown(tmp_path / "net")["a.c"] == "x"


def test_a_writer_that_has_stopped_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_folders, "_WAIT_S", 0.0)
    holder = os.open(tmp_path, os.O_RDONLY)
    fcntl = pytest.importorskip("fcntl")
    fcntl.flock(holder, fcntl.LOCK_EX)
    try:
        with pytest.raises(FileError, match="another npuscope is writing to this folder"):
            write_whole(tmp_path / "a", b"")
    finally:
        os.close(holder)
    assert list(tmp_path.iterdir()) == []


def test_two_first_writers_of_a_folder_leave_one_whole(tmp_path: Path) -> None:
    net = tmp_path / "net"
    with new_folder(net) as slow:
        fill(net, "quick", ("a.c", "only_quick"))
        (slow.path / "a.c").write_text("slow")
    assert shown(net) == {"a.c": "slow"}
    assert not leftovers(tmp_path)


def test_links_stay_and_what_they_lead_to_is_replaced(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    for name, target in (("file", real / "f"), ("dangling", real / "d"), ("net", real / "net")):
        (tmp_path / name).symlink_to(target)
    write_whole(real / "f", b"old")
    write_whole(tmp_path / "file", b"new")
    write_whole(tmp_path / "dangling", b"new")
    for text in ("1", "2"):
        fill(tmp_path / "net", text, ("a",))
    assert shown(real) == {"d": "new", "f": "new", "net/a": "2"}
    assert all((tmp_path / name).is_symlink() for name in ("file", "dangling", "net"))


def test_a_link_that_leads_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OutputError, match="cannot be written: Too many levels of symbolic links"):
        write_whole(tmp_path / "loop", b"")
    assert (tmp_path / "loop").is_symlink()


def test_rights_of_a_replaced_file_are_kept(tmp_path: Path) -> None:
    net = tmp_path / "net"
    fill(net, "1")
    for path in (tmp_path / "x", net / "a.c"):
        path.touch()
        path.chmod(0o640)
    write_whole(tmp_path / "x", b"new")
    fill(net, "2")
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "x", net / "a.c")} == {0o640}


def test_a_new_file_has_the_usual_rights(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("")
    write_whole(tmp_path / "x", b"")
    fill(tmp_path / "net", "1")
    usual = (tmp_path / "usual").stat().st_mode
    assert (tmp_path / "x").stat().st_mode == usual
    assert (tmp_path / "net" / "a.c").stat().st_mode == usual


@needs_rights
def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    (tmp_path / "x").chmod(0o444)
    with pytest.raises(OutputError, match="cannot be written: Permission denied"):
        write_whole(tmp_path / "x", b"new")
    assert (tmp_path / "x").read_text() == "mine"


def test_a_folder_is_no_file_and_a_file_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(
        OutputError, match="cannot be written: this is a folder, expected a file name"
    ):
        write_whole(tmp_path, b"")
    with pytest.raises(OutputError, match="is a file, expected a folder"):
        fill(tmp_path / "x", "1")


def test_a_pipe_is_written_as_it_is(tmp_path: Path) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("there are no such pipes here")
    os.mkfifo(tmp_path / "pipe")
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    got: list[bytes] = []
    reader.start()
    write_whole(tmp_path / "pipe", b"through")
    reader.join()
    assert got == [b"through"]
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_what_is_open_already_is_written_where_it_stands(tmp_path: Path) -> None:
    """`--csv /dev/stdout > file` neither replaces nor empties the file."""
    with open(tmp_path / "x", "wb", buffering=0) as file:
        file.write(b"before ")
        write_whole(f"/dev/fd/{file.fileno()}", b"between")
        file.write(b" after")
    assert (tmp_path / "x").read_bytes() == b"before between after"


def test_a_work_folder_moves_with_its_lock(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    work = Work(tmp_path)
    work.move_to(tmp_path / "net")
    write_whole(tmp_path / "net" / "x", b"")
    assert work.path.is_dir()
    work.close()
    assert not leftovers(tmp_path)
