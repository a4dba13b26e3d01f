"""The script on the page runs as it stands and prints a line for every hardware epoch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from npuscope.boards import runtime
from npuscope.building import build
from npuscope.demo_network import demo_graph
from npuscope.program.model import EpochKind
from npuscope.sim import debug_unit as debug_services
from processes import LIMIT_S

PAGE = (Path(__file__).parents[1] / "docs" / "callbacks.md").read_text(encoding="utf-8")


def test_the_script_runs():
    (script,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    lines = done.stdout.splitlines()
    program = build(demo_graph(), {"epoch_controller": False}).program
    assert len(lines) == program.count(EpochKind.HW)
    row = re.compile(r"EpochBlock_\d+ +\d+ cycles, STRENG\.\d\.[io] (\d+)% active")
    shares = [int(row.fullmatch(line)[1]) for line in lines]
    assert all(50 < share <= 100 for share in shares)


def test_the_page_names_what_exists():
    for name in re.findall(r"`(watch\w*)`", PAGE):
        assert hasattr(debug_services, name)
    events = {e.name for e in (*runtime.EpochEvent, *runtime.RuntimeEvent)}
    assert events == set(re.findall(r"`((?:PRE|POST|RT)_\w+)`", PAGE))
