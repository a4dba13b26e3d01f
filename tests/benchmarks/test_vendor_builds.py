"""The table of builds tells what can be read, and what cannot with the sentence of the error."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import npuscope
from npuscope.demo_network import demo_graph
from processes import LIMIT_S

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "vendor_builds.py"


def test_the_table_and_its_file(tmp_path: Path) -> None:
    builds, table = tmp_path / "builds", tmp_path / "table.json"
    npuscope.compile(demo_graph(), builds / "good")
    source = builds / "good" / "network.c"
    (builds / "good" / "network.c.old").write_bytes(source.read_bytes())
    (builds / "empty").mkdir()
    (builds / "empty" / "network.c").touch()
    command = [sys.executable, str(SCRIPT), str(builds), "--once", "--json", str(table)]
    made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert made.returncode == 1, made.stderr
    assert "explain: 1 of 2" in made.stdout
    bad, good = json.loads(table.read_text())
    assert bad["errors"]["parses"] == "is empty (copy or generate the network again)"
    assert not good["errors"] and good["ms"] > 0 and sum(good["epochs"]) > 1
