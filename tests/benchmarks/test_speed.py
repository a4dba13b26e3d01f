"""The page of speed says what was measured, and marks what misses its aim."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("resource", reason="no processor time of children here")
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("speed")


@pytest.fixture
def growth(speed: ModuleType) -> ModuleType:
    return sys.modules["growth"]


def test_what_misses_its_aim_is_marked(speed: ModuleType) -> None:
    rows = [
        speed.row("slow, peer", 3.0, "ms", "1.0x", 2.0),
        speed.row("fast, peer", 1.0, "ms", "1.0x", 2.0),
        speed.row("long", 3.0, "s", "2 s"),
        speed.row("short", 1.0, "s", "2 s"),
        speed.row("no aim", 1e9, "s", ""),
    ]
    text = speed.page({"fix": rows}, " here")
    lines = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert [line.split("|")[-2].strip() for line in lines] == ["missed", "", "missed", "", ""]
    assert lines[0] == "| slow, peer | 3 ms | 2 ms | 1.50 | 1.0x | missed |"


def test_a_rate_has_a_least(speed: ModuleType) -> None:
    rows = [
        speed.row("slow", 14.0, "M/s", "at least 15"),
        speed.row("fast", 16.0, "M/s", "at least 15"),
        speed.row("slow, peer", 4.0, "M/s", "at least 2.5x", 2.0),
        speed.row("fast, peer", 5.0, "M/s", "at least 2.5x", 2.0),
    ]
    assert [speed._missed(row) for row in rows] == ["missed", "", "missed", ""]


def test_parts_come_from_earlier_runs(
    speed: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several files, the later one counts; a part that is named is run again."""
    monkeypatch.setitem(speed.PARTS, "fix", (lambda *_: [speed.row("new", 1, "s", "")], "numpy"))
    for number, (part, what) in enumerate([("fix", "old"), ("boards", "kept"), ("boards", "last")]):
        rows = {part: [speed.row(what, 2, "s", "")], "host": "here"}
        (tmp_path / f"{number}.json").write_text(json.dumps(rows))
    files = [str(tmp_path / f"{number}.json") for number in range(3)]
    page = tmp_path / "page.md"
    words = ["speed.py", "--from", *files, "--only", "fix", "--page", str(page)]
    monkeypatch.setattr(sys, "argv", words)
    assert speed.main() == 0
    text = page.read_text()
    assert "| new |" in text and "| last |" in text
    assert "| old |" not in text and "| kept |" not in text


def test_growth_is_an_exponent(growth: ModuleType) -> None:
    times = [{"estimate": 1.0, "  placement": 1.0}, {"estimate": 5.0, "  placement": 25.0}]
    rows = [growth._grown("chain", what, times, (1000, 5000)) for what in times[0]]
    assert [round(row["exponent"], 3) for row in rows] == [1.0, 2.0]
    assert growth.missed(rows) == []  # a stage has no aim of its own
    assert growth.missed([rows[0] | {"times": 6.1}]) == ["estimate of chain"]
    assert growth.table(rows)[1] == ["chain", "estimate", "1.00", "5.00", "5.00", "1.00"]


@pytest.mark.parametrize("name", ["chain", "wide", "branches"])
def test_networks_compile_and_every_stage_is_timed(
    growth: ModuleType, name: str, tmp_path: Path
) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(getattr(growth, name)(6))
    found = growth.measured(path, list(growth.VERBS))
    assert {"estimate", "compile", "html", "  reader", "  placement", "  page"} <= found.keys()
    assert all(seconds >= 0 for seconds in found.values())
