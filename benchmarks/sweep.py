"""A sweep of 240 runs, on processes and on a dask cluster, with and without something killed.

    python benchmarks/sweep.py --models ../shared/data/models --json sweep.json

40 models, 2 generations, 3 memory configurations, 2 workers. `whole` is left alone;
`kill_workers` kills a worker three times; `kill_drivers` kills the sweep itself twice and starts it
again. Then the store is looked at: rows lost, rows twice, runs that failed because of the killing;
and how long it took until the workers of a killed driver were gone. Needs /proc.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODELS = 40
RUNS = MODELS * 2 * 3
WAYS = {"processes": ("--jobs", "2"), "dask": ("--local-cluster", "2")}
SPEC = """generations = ["2.2", "4.0"]
[[pools]]
name = "default"
[[pools]]
name = "internal RAM and flash"
set = { pools.hyperRAM.size_kib = 0 }
[[pools]]
name = "NPU banks and flash"
set = { pools.hyperRAM.size_kib = 0, pools.cpuRAM2.size_kib = 0 }
"""
_START = "import sys; from npuscope.cli.main import main; sys.exit(main(sys.argv[1:]))"


def main() -> int:
    options = _arguments()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder, "sweep.toml")
        spec.write_text(f"models = {json.dumps(_models(options.models))}\n{SPEC}")
        for way in WAYS:
            for case in (whole, kill_workers, kill_drivers):
                rows.append(_measured(spec, way, case))
                print(_line(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if all(_is_fine(row) for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shared = Path(__file__).resolve().parents[2] / "shared" / "data" / "models"
    parser.add_argument("--models", type=Path, default=shared, help="folder of models")
    parser.add_argument("--json", type=Path, help="file to write the table to")
    return parser.parse_args()


def _models(folder: Path) -> list[str]:
    """Different ones, small and large, of both formats."""
    found = sorted(folder.resolve().glob("*.tflite")) + sorted(folder.resolve().glob("*.onnx"))
    # Copies of one model would be one run, and the counts below would be wrong.
    unique = {path.read_bytes(): path for path in found}
    # Evenly through the sorted names, so that all families are among them.
    step = len(unique) / MODELS
    if step < 1:
        raise SystemExit(f"{MODELS} different models are needed, {folder} has {len(unique)}")
    paths = sorted(unique.values())
    return [str(paths[int(n * step)]) for n in range(MODELS)]


def _measured(spec: Path, way: str, case: Callable[..., float | None]) -> dict[str, Any]:
    store = spec.with_name(f"{way}-{case.__name__}.jsonl")
    started = time.monotonic()
    alive_s = case(spec, store, WAYS[way])
    seconds = time.monotonic() - started
    lines = [json.loads(line) for line in store.read_text().splitlines()]
    ours = [row for row in lines if row["status"] != "ok" and row["error"]["kind"] == "internal"]
    return {
        "way": way,
        "case": case.__name__,
        "seconds": round(seconds, 2),
        "lines": len(lines),
        "runs": len({row["key"] for row in lines}),
        "failed": sum(row["status"] != "ok" for row in lines),
        "failed_by_us": len(ours),
        "workers_gone_after_s": None if alive_s is None else round(alive_s, 2),
        "load": round(os.getloadavg()[0], 2),
    }


def _is_fine(row: dict[str, Any]) -> bool:
    return bool(row["lines"] == row["runs"] == RUNS and not row["failed_by_us"])


def _line(row: dict[str, Any]) -> str:
    gone = row["workers_gone_after_s"]
    return (
        f"{row['way']:<10} {row['case']:<13} {row['seconds']:>7.1f} s  {row['lines']} lines, "
        f"{row['runs']} runs, {row['failed']} failed, {row['failed_by_us']} by the killing"
        f"{'' if gone is None else f', workers gone after {gone:.2f} s'}  (load {row['load']})"
    )


# The three cases.


def whole(spec: Path, store: Path, way: tuple[str, ...]) -> None:
    if _start(spec, store, way).wait() != 0:
        raise SystemExit("the sweep failed")


def kill_workers(spec: Path, store: Path, way: tuple[str, ...]) -> None:
    driver = _start(spec, store, way)
    for share in (0.2, 0.5, 0.8):
        _until(lambda share=share: _lines(store) >= share * RUNS)
        victims = _workers(driver.pid)
        if victims:
            # The youngest: replacements have to survive a kill as well as the first workers.
            os.kill(victims[-1], signal.SIGKILL)
    if driver.wait() != 0:
        raise SystemExit("the sweep failed")


def kill_drivers(spec: Path, store: Path, way: tuple[str, ...]) -> float:
    """The longest time until all workers of a killed driver were gone."""
    longest = 0.0
    for share in (0.25, 0.6):
        driver = _start(spec, store, way)
        _until(lambda share=share: _lines(store) >= share * RUNS)
        workers = _workers(driver.pid)
        driver.kill()
        driver.wait()
        killed = time.monotonic()
        _until(lambda workers=workers: not any(map(_is_alive, workers)))
        longest = max(longest, time.monotonic() - killed)
    whole(spec, store, way)
    return longest


def _start(spec: Path, store: Path, way: tuple[str, ...]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _START, "sweep", str(spec), "-o", str(store), *way],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _until(condition: Callable[[], bool], patience_s: float = 600.0) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("it takes too long")
        time.sleep(0.01)


def _lines(store: Path) -> int:
    return store.read_bytes().count(b"\n") if store.exists() else 0


def _workers(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            words = path.with_name("cmdline").read_bytes()
        except OSError:
            continue
        if parent == pid and (b"sweep.worker" in words or b"spawn_main" in words):
            found.append(int(path.parent.name))
    return sorted(found)


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # dead, and not yet collected by whoever inherited it


if __name__ == "__main__":
    sys.exit(main())
