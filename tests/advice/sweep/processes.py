"""Real processes to kill, and what is left of them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npuscope import child
from processes import LIMIT_S

PATIENCE_S = LIMIT_S


class Drivers:
    """Sweeps in processes of their own; none outlives its test."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, spec: Path, *more: str, most_deaths: int = 0) -> subprocess.Popen[bytes]:
        """`most_deaths`: workers that a run may lose before it counts as deadly, if not two."""
        code = "import sys; from npuscope.cli.main import main; sys.exit(main(sys.argv[1:]))"
        if most_deaths:
            pool = "import npuscope.advice.sweep.pool as pool"
            code = f"{pool}; pool.MOST_DEATHS = {most_deaths}; {code}"
        process = subprocess.Popen(
            [*child.command(), "-c", code, "sweep", str(spec), *more],
            env=child.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.processes.append(process)
        return process


def wait_for(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def has_lines(store: Path, number: int) -> bool:
    return store.exists() and store.read_bytes().count(b"\n") >= number


def children(pid: int) -> list[int]:
    """Living workers that a process started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            words = path.with_name("cmdline").read_bytes()
        except OSError:
            continue
        if int(parent) == pid and state != "Z" and (b"sweep.worker" in words or b"spawn" in words):
            found.append(int(path.parent.name))
    return found


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"  # dead, and waiting for whoever inherited it


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
