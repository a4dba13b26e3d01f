"""What one more timing key costs: re-timing against a full estimate and against compiling again.

    python benchmarks/what_if.py --models ../shared/data/models --json what_if.json

Everything runs in this process, after a warm-up. One re-timing sets a key of the machine (checked
as `--set` checks it) and gives the whole Profile; best and median of many are shown, the aim holds
for the median of networks with at least 100 epochs. `all keys` is one turn through the timing keys.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from npuscope.building import Build, build
from npuscope.compiler.pipeline import compile_graph
from npuscope.machine.marks import KeyEffect
from npuscope.machine.set_keys import machine_keys, with_overrides, with_value
from npuscope.profiling.run import Retimer, estimate, retimer

NETWORKS = (
    "kws_ref_model.tflite",
    "mobilenet_v2_1.0_224_int8.tflite",
    "ssd_mobilenet_v2_fpnlite_035_224_int8.tflite",
    "shufflenetv2_x100_pt_224_rand_qdq_int8.onnx",
    "deeplab_v3_mobilenetv2_05_16_256_asppv2_qdq_int8.onnx",
)
LARGE_EPOCHS = 100
AIM_MS = 5.0
LIMIT_MS = 10.0


def main() -> int:
    options = _arguments()
    rows = [_row(options.models / name, options.runs) for name in NETWORKS]
    print(_table(rows))
    worst = max(row["retime_median_ms"] for row in rows if row["epochs"] >= LARGE_EPOCHS)
    print(f"\nslowest with {LARGE_EPOCHS} or more epochs: {worst:.2f} ms, aim {AIM_MS:g} ms")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if worst < LIMIT_MS else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shared = Path(__file__).resolve().parents[2] / "shared" / "data" / "models"
    parser.add_argument("--models", type=Path, default=shared, help="folder of the networks")
    parser.add_argument("--runs", type=int, default=50, help="timed runs of each side")
    parser.add_argument("--json", type=Path, help="file to write the table to")
    return parser.parse_args()


def _row(path: Path, runs: int) -> dict[str, Any]:
    made = build(path, {})
    timer = retimer(made.program, made.machine, made.graph)
    clocks = iter(range(500, 100_000))

    def retime() -> object:
        return timer.estimate(with_overrides(made.machine, {"clocks.npu_mhz": next(clocks)}))

    retimed = _times(retime, runs)
    full = _times(lambda: estimate(made.program, made.machine, made.graph), max(5, runs // 5))
    compiled = _times(lambda: _compile(made), max(3, runs // 10))
    keys, all_s = _every_key(made, timer)
    return {
        "network": path.stem,
        "epochs": len(made.program.executed),
        "retime_best_ms": min(retimed),
        "retime_median_ms": statistics.median(retimed),
        "estimate_ms": statistics.median(full),
        "recompile_ms": statistics.median(compiled),
        "timing_keys": keys,
        "all_keys_s": all_s,
        "configurations_per_min": 60 * keys / all_s,
    }


def _compile(made: Build) -> object:
    assert made.graph is not None
    program = compile_graph(made.graph, made.machine)
    return estimate(program, made.machine, made.graph)


def _every_key(made: Build, timer: Retimer) -> tuple[int, float]:
    keys = [
        key
        for key in machine_keys(made.machine).values()
        if key.effect is KeyEffect.TIMING and key.kind is float
    ]
    start = time.perf_counter()
    for key in keys:
        timer.estimate(with_value(made.machine, key, key.value * 1.1))
    return len(keys), time.perf_counter() - start


def _times(call: Callable[[], object], runs: int) -> list[float]:
    call()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return times


_COLUMNS = (
    ("epochs", "epochs", "7d"),
    ("best ms", "retime_best_ms", "8.2f"),
    ("median ms", "retime_median_ms", "10.2f"),
    ("estimate ms", "estimate_ms", "12.1f"),
    ("recompile ms", "recompile_ms", "13.1f"),
    ("all keys s", "all_keys_s", "11.2f"),
    ("a minute", "configurations_per_min", "9.0f"),
)


def _table(rows: list[dict[str, Any]]) -> str:
    width = max(len(row["network"]) for row in rows)
    widths = [int(form.partition(".")[0].rstrip("d")) for _, _, form in _COLUMNS]
    titles = zip((title for title, _, _ in _COLUMNS), widths, strict=True)
    lines = [f"{'network':<{width}} " + " ".join(f"{t:>{w}}" for t, w in titles)]
    for row in rows:
        cells = " ".join(f"{row[key]:{form}}" for _, key, form in _COLUMNS)
        lines.append(f"{row['network']:<{width}} {cells}")
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
