"""The cache: what was not used for longest goes, and nothing that somebody may be about to read."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from npuscope.cache import MOST_DAYS, TRIMMED, cache_folder, kept, trim, used

HOUR, DAY = 3600.0, 86400.0


def aged(path: Path, age_s: float, size: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    set_age(path, age_s)
    return path


def set_age(path: Path, age_s: float) -> None:
    os.utime(path, (time.time() - age_s,) * 2)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    for number in range(5):
        aged(tmp_path / "objects" / str(number), (number + 2) * HOUR)
    used(tmp_path / "objects" / "4")
    trim(tmp_path, most_bytes=30)
    assert names(tmp_path) == ["objects/0", "objects/1", "objects/4"]
    trim(tmp_path, most_files=2)
    assert names(tmp_path) == ["objects/0", "objects/4"]


def test_what_is_old_goes_although_there_is_room(tmp_path: Path) -> None:
    aged(tmp_path / "old", (MOST_DAYS + 1) * DAY)
    aged(tmp_path / "young", (MOST_DAYS - 1) * DAY)
    trim(tmp_path)
    assert names(tmp_path) == ["young"]


def test_what_was_used_a_moment_ago_stays_whatever_its_size(tmp_path: Path) -> None:
    aged(tmp_path / "new", 60)
    trim(tmp_path, most_bytes=1)
    assert names(tmp_path) == ["new"]


def test_a_compilers_folder_goes_as_a_whole_or_stays(tmp_path: Path) -> None:
    aged(tmp_path / "zig" / "deep" / "a", 3 * HOUR)
    aged(tmp_path / "zig" / "b", 300 * DAY)
    set_age(tmp_path / "zig", 2 * HOUR)
    trim(tmp_path, most_bytes=20)
    assert names(tmp_path) == ["zig/b", "zig/deep/a"]
    trim(tmp_path, most_bytes=19)
    assert not list(tmp_path.iterdir())


def test_work_of_other_processes_is_left_alone(tmp_path: Path) -> None:
    work = aged(tmp_path / ".npuscope-abcdefgh" / "new" / "made", 300 * DAY)
    trim(tmp_path)
    assert work.exists()
    assert not list(kept(tmp_path))


def test_the_cache_is_trimmed_once_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = cache_folder()
    old = aged(folder / "old", 300 * DAY)
    assert cache_folder() == folder
    assert old.exists()
    set_age(folder / TRIMMED, 2 * HOUR)
    cache_folder()
    assert not old.exists()
