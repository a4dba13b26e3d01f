"""Files of others are not replaced; those that npuscope wrote are, without being asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuscope.cache import cache_folder
from npuscope.errors import OutputError
from npuscope.whole_file import replacing, together, write_whole

REFUSED = "already exists, and npuscope did not write it"


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def test_a_file_of_someone_else_is_refused_with_a_way_out(tmp_path: Path) -> None:
    mine = tmp_path / "mine.html"
    mine.write_text("<p>years of work")
    with pytest.raises(OutputError, match=REFUSED) as caught:
        write_whole(mine, b"report")
    assert caught.value.exit_code == 74
    assert caught.value.where == str(mine)
    assert caught.value.hint == "name another file, or replace this one with --force"
    assert mine.read_text() == "<p>years of work"
    with replacing():
        write_whole(mine, b"report")
    assert mine.read_bytes() == b"report"


def test_the_same_command_twice_replaces_its_own_results(tmp_path: Path) -> None:
    for content in (b"first", b"second", b"third"):
        write_whole(tmp_path / "table.csv", content)
    assert (tmp_path / "table.csv").read_bytes() == b"third"


def test_a_file_of_ours_that_a_user_changed_is_theirs(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    write_whole(table, b"first")
    table.write_bytes(b"first, with notes")
    with pytest.raises(OutputError, match=REFUSED):
        write_whole(table, b"second")


def test_a_copy_of_ours_elsewhere_is_not_known(tmp_path: Path) -> None:
    """`fix` may write a copy of the user's own model: the content does not tell whose it is."""
    model = tmp_path / "model.tflite"
    model.write_bytes(b"the user's")
    write_whole(tmp_path / "fixed.tflite", b"the user's")
    with pytest.raises(OutputError, match=REFUSED):
        write_whole(model, b"another")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{\n  "schema": "npuscope/estimate/1",\n  "total_ms": 1\n}\n',
        b'{"address": "x", "schema":"npuscope/serve/1"}',
        b'<!doctype html>\n<meta name="generator" content="npuscope">\n',
        b"the new content",
    ],
)
def test_what_loses_nothing_or_says_that_it_is_ours_is_replaced(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "file").write_bytes(content)
    write_whole(tmp_path / "file", b"the new content")
    assert (tmp_path / "file").read_bytes() == b"the new content"


def test_none_of_a_set_appears_if_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    with pytest.raises(OutputError, match=REFUSED), together():
        write_whole(tmp_path / "a", b"1")
        write_whole(tmp_path / "b", b"2")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_without_a_cache_equal_content_and_marks_still_tell(tmp_path: Path, cache: Path) -> None:
    (cache / "npuscope").write_text("in the way")
    for _ in range(2):
        write_whole(tmp_path / "table.csv", b"same")
    with pytest.raises(OutputError, match=REFUSED):
        write_whole(tmp_path / "table.csv", b"other")


def test_records_tell_nobody_what_was_written(tmp_path: Path) -> None:
    write_whole(tmp_path / "secret.csv", b"secret")
    (record,) = (cache_folder() / "written").iterdir()
    assert record.read_bytes() == b""
    assert "secret" not in record.name
