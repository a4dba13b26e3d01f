"""The table of builds tells what becomes of each, and why not with the sentence of the error."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

import npuscope
from npuscope.demo_network import demo_graph
from processes import LIMIT_S

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "vendor_builds.py"


@pytest.mark.skipif(
    multiprocessing.get_start_method() == "fork" and not hasattr(os, "fork"),
    reason="a Linux without fork starts no processes",
)
def test_the_table_and_its_files(tmp_path: Path) -> None:
    builds, table, page = tmp_path / "builds", tmp_path / "table.json", tmp_path / "table.md"
    good = builds / "owner+name" / "good"
    npuscope.compile(demo_graph(), good)
    (good / "program.json").unlink()
    source = (good / "network.c").read_text()
    copy = builds / "other+fork"
    copy.mkdir()
    renamed = source.replace("EpochBlock_1", "EpochBlock_first")
    (copy / "net.c").write_text(f"/* another day */\n{renamed}")  # the same build, without weights
    bare = builds / "owner+bare"
    bare.mkdir()
    (bare / "network.c").write_text(f"{source}\nint other = 7;\n")
    (bare / "network_ecblobs.h").write_bytes((good / "network_ecblobs.h").read_bytes())
    broken = builds / "owner+broken"
    broken.mkdir()
    (broken / "network.c").write_text(source.replace("EpochBlockItems_", "Items_") + "int n = 8;")
    by_hand = builds / "owner+hand"
    by_hand.mkdir()
    (by_hand / "network.c").write_text(f"{source}\nint other = 9;\n")
    command = [sys.executable, str(SCRIPT), str(builds), "--json", str(table)]
    command += ["--markdown", str(page), "--leave-out", "+hand"]
    made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert made.returncode == 0, made.stderr
    rows = {row["key"]: row for row in map(json.loads, table.read_text().splitlines())}
    assert len(rows) == 3
    (whole,) = (row for row in rows.values() if row["copies"] == 2)
    assert whole["repositories"] == ["other/fork", "owner/name"]
    assert whole["states"] == {
        "read": "yes",
        "executed": "yes",
        "emulated": "yes",
        "validated": "no model",
    }
    assert whole["ms"] > 0 and sum(whole["epochs"]) > 1
    missing = rows["owner+bare/network.c"]["states"]
    assert missing["read"] == "yes" and missing["executed"] == "no weights"
    assert "is missing" in rows["owner+broken/network.c"]["why"]["read"]
    assert "read: 2 of 3; with weights: 1" in made.stdout
    assert "emulated: 1 of 1 with weights" in page.read_text()
    # What the file holds is not computed again.
    again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert len(table.read_text().splitlines()) == 3 and again.returncode == 0
