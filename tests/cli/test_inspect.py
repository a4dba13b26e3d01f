"""`npuscope inspect`: the first line is the answer, --json has everything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npuscope.cli import main as cli
from report_texts import NEW_REPORT, OLD_REPORT, VALIDATE_REPORT


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.txt"
    path.write_text(NEW_REPORT)
    return path


def test_the_text(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", str(report)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{report}: generate report, version 4.0.0-99, 56 epochs, 2 in software"
    assert "  used bytes         13,313" in lines


def test_one_line(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", "-q", str(report)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_the_json(report: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", str(report), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"schema", "kind", "version", "summary", "ignored"}
    assert (found["schema"], found["kind"]) == ("npuscope/inspect/1", "generate_report")
    assert (found["version"], found["ignored"]) == ("4.0.0-99", [])
    counts = found["summary"]
    assert [counts[k] for k in ("epochs", "sw_epochs", "hybrid_epochs", "pools")] == [56, 2, 1, 2]
    assert counts["values"]["epochs"][0] == {"first": 1, "last": 53, "mark": "EC", "details": ""}


def test_a_validate_report_has_its_reader(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x"
    path.write_text(VALIDATE_REPORT)
    assert cli.main(["inspect", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["measured_epochs"] == 4


def test_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a_generate_report.txt").write_text(OLD_REPORT)
    (tmp_path / "notes.txt").write_text("hello")
    assert cli.main(["inspect", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{tmp_path}: folder of 2 files, networks: a; missing: 0"
    assert lines[-2:] == ["  not read", "    notes.txt"]


def test_long_lists_are_cut_unless_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(25):
        (tmp_path / f"{number:02d}.txt").write_text("hello")
    assert cli.main(["inspect", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "    and 5 more (-v shows them)"
    assert cli.main(["inspect", "-v", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "    24.txt"


def test_foreign_text_does_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x\x1b[31m.txt"
    path.write_text(OLD_REPORT.replace("1.1.1-14", "1.1\x1b]0;evil\x07"))
    assert cli.main(["inspect", str(path)]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_what_is_unknown_is_the_files_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader")
    assert cli.main(["inspect", str(path), "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "file"


def test_the_file_is_not_overwritten(report: Path) -> None:
    assert cli.main(["inspect", str(report), f"--json={report}"]) == 2
    assert report.read_text() == NEW_REPORT
