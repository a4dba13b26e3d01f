"""Pairs of a report and its source are found, each build once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import npuscope
from npuscope.demo_network import demo_graph

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import two_readings

    return two_readings


def test_a_line_a_build_and_a_sum(
    benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "copy"):
        npuscope.compile(demo_graph(), tmp_path / name)
        (tmp_path / name / "c_info.json").rename(tmp_path / name / "network_c_info.json")
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "c_info.json").write_text("{}")
    monkeypatch.setattr(sys, "argv", ["two_readings.py", str(tmp_path), "--apart", "50"])
    assert benchmark.main() == 0
    line, total = capsys.readouterr().out.splitlines()
    assert line.endswith("copy/network_c_info.json")
    assert total.startswith("1 of 1 within 50 %, mean ")
