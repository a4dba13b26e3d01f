"""What verbs print, word for word: the texts beside this file, read by `script`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from npuscope.cli.main import VERBS
from texts.networks import NETWORKS
from texts.script import FOLDER, HIDDEN, renewed, texts

# The README and the tutorial show demo; doctor and completion differ by computer and shell; serve
# stays until it is stopped.
ELSEWHERE = {"demo", "doctor", "completion", "serve"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, HIDDEN, None)


@pytest.mark.parametrize("path", texts(), ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_text(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.splitlines() == renewed(text).splitlines()


def test_a_wrong_line_and_a_wrong_exit_code_are_seen() -> None:
    text = "$ npuscope rules NA-NOTHING | head -1\nall is well\n"
    assert renewed(text).splitlines()[1:] == ["npuscope: unknown rule 'NA-NOTHING'", "exit 2"]


def test_every_verb_has_a_text_and_every_network_is_used() -> None:
    whole = "".join(path.read_text(encoding="utf-8") for path in texts())
    assert {verb for verb in VERBS if f"$ npuscope {verb}" not in whole} == ELSEWHERE
    assert [name for name in NETWORKS if name not in whole] == []
