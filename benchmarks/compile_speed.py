"""Read, compile and estimate: npuscope against Vela, Arm's compiler for Ethos-U (ethos-u-vela).

    python benchmarks/compile_speed.py --models ../shared/data/models --json speed.json

The targets differ (STM32N6 here, Ethos-U55-128 there), the work is of the same kind: from a .tflite
file to a placed program with cycles. Three CPU times a network, best of many after a warm-up:

    npuscope  npuscope.estimate(): reads the file, compiles, counts
    vela      Vela's main(): options, its C++ core, and the files it writes
    regor     the C++ core of Vela alone, inside that call

Every side runs in a process of its own, so that peak memory is its own. `cold` is the first call
with all Python imports.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SMALL = "vww_96_int8.tflite"
# The first of these that npuscope compiles.
LARGE = (
    "yolov8n_256_quant_pc_uf_od_coco-person.tflite",
    "mobilenet_v2_1.0_224_fft_int8.tflite",
)
RATIO_AIM = 1.5  # times the C++ core of Vela
MEMORY_AIM_MB = 300
_ACCELERATOR = "ethos-u55-128"


def main() -> int:
    options = _arguments()
    if options.side:
        print(json.dumps(measure(options.side, options.network, options.runs)))
        return 0
    if find_spec("ethosu") is None:
        print("Vela is not installed: pip install ethos-u-vela", file=sys.stderr)
        return 2
    rows = [_row(path, options.runs) for path in _networks(options.models)]
    print(_table(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shared = Path(__file__).resolve().parents[2] / "shared" / "data" / "models"
    parser.add_argument("--models", type=Path, default=shared, help="folder of .tflite files")
    parser.add_argument("--runs", type=int, default=20, help="timed runs of each side")
    parser.add_argument("--json", type=Path, help="file to write the table to")
    parser.add_argument("--side", choices=("npuscope", "vela"), help=argparse.SUPPRESS)
    parser.add_argument("--network", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def _networks(models: Path) -> list[Path]:
    large = next(name for name in LARGE if _compiles(models / name))
    return [models / SMALL, models / large]


def _compiles(path: Path) -> bool:
    from npuscope import estimate
    from npuscope.errors import NpuscopeError

    try:
        estimate(path)
    except NpuscopeError as error:
        print(f"not compared: {error}".splitlines()[0], file=sys.stderr)
        return False
    return True


# One side, in its own process.


def measure(side: str, path: Path, runs: int) -> dict[str, float]:
    start = time.process_time()
    call, inner = _npuscope(path) if side == "npuscope" else _vela(path)
    with _silence():
        call()
        cold_ms = _ms_since(start)
        times = [_timed(call) for _ in range(runs)]
    found = {"best_ms": min(times), "cold_ms": cold_ms, "peak_mb": _peak_mb()}
    # The first entry belongs to the cold call. Best of many: noise of the host only adds time.
    return found | ({"core_ms": min(inner[1:])} if inner else {})


def _npuscope(path: Path) -> tuple[Callable[[], object], list[float]]:
    from npuscope import estimate

    return lambda: estimate(path), []


def _vela(path: Path) -> tuple[Callable[[], object], list[float]]:
    """Vela's entry point, with a clock around its call into the C++ core."""
    from ethosu.vela import vela

    core_ms: list[float] = []
    compile_core = vela.regor.compile

    def clocked(*args: Any, **named: Any) -> Any:
        start = time.process_time()
        compiled = compile_core(*args, **named)
        core_ms.append(_ms_since(start))
        return compiled

    vela.regor.compile = clocked

    def call() -> None:
        with tempfile.TemporaryDirectory() as folder:
            vela.main([str(path), "--output-dir", folder, "--accelerator-config", _ACCELERATOR])

    return call, core_ms


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Nothing on stdout, from C++ either."""
    sys.stdout.flush()
    kept = os.dup(1)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _timed(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return _ms_since(start)


def _ms_since(start: float) -> float:
    return 1e3 * (time.process_time() - start)


def _peak_mb() -> float:
    """Linux only. Not getrusage: its peak includes the process that started this one."""
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(line for line in status if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


# Both sides of a network.


def _row(path: Path, runs: int) -> dict[str, Any]:
    ours, vela = (in_child(side, path, runs) for side in ("npuscope", "vela"))
    return {
        "network": path.stem,
        "npuscope_ms": ours["best_ms"],
        "vela_ms": vela["best_ms"],
        "regor_ms": vela["core_ms"],
        "ratio_to_vela": ours["best_ms"] / vela["best_ms"],
        "ratio_to_regor": ours["best_ms"] / vela["core_ms"],
        "npuscope_cold_ms": ours["cold_ms"],
        "vela_cold_ms": vela["cold_ms"],
        "npuscope_peak_mb": ours["peak_mb"],
        "vela_peak_mb": vela["peak_mb"],
    }


def in_child(side: str, path: Path, runs: int) -> dict[str, float]:
    # A process for each side: peak memory and imports of one must not count for the other.
    command = [sys.executable, __file__, "--side", side, "--network", str(path)]
    command += ["--runs", str(runs)]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    if child.returncode:
        raise SystemExit(f"{side} on {path.name}: {child.stderr.strip().splitlines()[-1]}")
    # Vela prints on stdout too; our line is the last.
    found: dict[str, float] = json.loads(child.stdout.splitlines()[-1])
    return found


_COLUMNS = (
    ("npuscope ms", "npuscope_ms", "12.1f"),
    ("vela ms", "vela_ms", "9.1f"),
    ("regor ms", "regor_ms", "9.1f"),
    ("to vela", "ratio_to_vela", "8.2f"),
    ("to regor", "ratio_to_regor", "9.2f"),
    ("cold ms", "npuscope_cold_ms", "8.0f"),
    ("vela cold", "vela_cold_ms", "10.0f"),
    ("peak MB", "npuscope_peak_mb", "8.0f"),
    ("vela MB", "vela_peak_mb", "8.0f"),
)


def _table(rows: list[dict[str, Any]]) -> str:
    width = max(len(row["network"]) for row in rows)
    heads = "".join(f"{head:>{int(form.split('.')[0])}}" for head, _, form in _COLUMNS)
    lines = [f"{'network':{width}}{heads}"]
    for row in rows:
        lines.append(f"{row['network']:{width}}" + "".join(f"{row[k]:{f}}" for _, k, f in _COLUMNS))
    slow = [row["network"] for row in rows if row["ratio_to_regor"] > RATIO_AIM]
    large = [row["network"] for row in rows if row["npuscope_peak_mb"] >= MEMORY_AIM_MB]
    lines.append(f"aim: at most {RATIO_AIM} times regor: {_verdict(slow)}")
    lines.append(f"aim: below {MEMORY_AIM_MB} MB: {_verdict(large)}")
    return "\n".join(lines)


def _verdict(missed: list[str]) -> str:
    return f"missed on {', '.join(missed)}" if missed else "met"


if __name__ == "__main__":
    sys.exit(main())
