"""Results that version 0.1.0 saved are read and give their figures: docs/stability.md promises it.

The files of tests/saved are never written again; a new version adds a folder.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import npuscope
from npuscope.cli.main import main

SAVED = Path(__file__).parent / "saved" / "0.1.0"
Capture = pytest.CaptureFixture[str]


def answer(capsys: Capture, *argv: str) -> dict[str, Any]:
    code = main([*argv, "--json"])
    out, err = capsys.readouterr()
    assert code == 0, err
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def refused(capsys: Capture, path: str) -> list[tuple[str, str, str | None]]:
    """(rule, what it saw, its limit) of ops on the CPU."""
    rows = answer(capsys, "explain", path)["findings"]
    return [
        (row["rule"], row["evidence"]["value"], row["evidence"]["limit"])
        for row in rows
        if row["rule"].startswith("NA-")
    ]


@pytest.mark.parametrize(("generation", "epochs"), [("2.2", 10), ("4.0", 11), ("open", 11)])
def test_a_program(capsys: Capture, generation: str, epochs: int) -> None:
    path = str(SAVED / generation / "program.json")
    found = answer(capsys, "estimate", path)
    assert len(found["epochs"]) == epochs
    assert found["total_ms"] > 0
    assert refused(capsys, path) == [("NA-SOFTMAX", "(1, 5)", None)]


def test_the_reason_why_a_layer_left_the_npu(capsys: Capture) -> None:
    reason = ("NA-CONV-PRIME", "257 output channels", "255")
    assert reason in refused(capsys, str(SAVED / "prime"))


def test_a_program_under_another_name(capsys: Capture, tmp_path: Path) -> None:
    for name, copy in (("program.json", "then.json"), ("octoFlash.raw", "octoFlash.raw")):
        (tmp_path / copy).write_bytes((SAVED / "4.0" / name).read_bytes())
    assert len(answer(capsys, "estimate", str(tmp_path / "then.json"))["epochs"]) == 11


def test_the_same_program_takes_the_same_time(capsys: Capture) -> None:
    then = json.loads((SAVED / "estimate.json").read_text())
    now = answer(capsys, "estimate", str(SAVED / "4.0"))
    assert [e["name"] for e in now["epochs"]] == [e["name"] for e in then["epochs"]]


def test_a_profile(capsys: Capture) -> None:
    profile = npuscope.load(SAVED / "profile.json")
    assert isinstance(profile, npuscope.Profile) and len(profile.epochs) == 11
    found = answer(capsys, "profile", str(SAVED / "profile.json"))
    assert found["total_ms"] == round(profile.total_ms, 6)


@pytest.mark.parametrize("name", ["estimate.json", "profile_report.json", "gate.json"])
def test_a_baseline(capsys: Capture, name: str) -> None:
    found = answer(
        capsys, "gate", str(SAVED / "profile.json"), "--baseline", str(SAVED / name), "--tol", "90%"
    )
    assert found["passed"] and found["checks"]


def test_a_store_of_a_sweep(capsys: Capture) -> None:
    assert main(["sweep", "report", str(SAVED / "sweep.jsonl")]) == 0
    assert "2 runs" in capsys.readouterr().out
