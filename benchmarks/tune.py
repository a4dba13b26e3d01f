"""`tune` on three networks: budgets, the front against all points, and evaluations per minute.

    python benchmarks/tune.py --models ../shared/data/models --json tune.json

For each network three budgets (time, RAM, flash) with the command that makes the best point; then
the front that the search finds against the front of every point of its space; then how many points
one and two workers compile and time in a minute.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any
from unittest import mock

import npuscope
from npuscope.advice.tune import run
from npuscope.advice.tune.search import Aims, Evaluate
from npuscope.advice.tune.space import Point, TuneSpace

NETWORKS = {
    "kws_ref_model.tflite": ("ms=0.19", "ram=50KiB", "flash=0"),
    "st_yolo_x_nano_192_0.33_0.25_int8.tflite": ("ms=5", "ram=400KiB", "flash=1MiB"),
    "mobilenet_v2_0.35_128_fft_int8.tflite": ("ms=3", "ram=300KiB", "flash=700KiB"),
}
GENERATIONS = "2.2,3.0,4.0"
Row = dict[str, Any]


def budgets(model: Path, limits: tuple[str, ...]) -> list[Row]:
    rows = []
    for limit in limits:
        result = npuscope.tune(model, limits=[limit])
        best = result.best
        rows.append(
            {
                "network": model.name,
                "limit": limit,
                "start_ms": result.start.total_ms,
                "best_ms": best.total_ms if best else None,
                "ram": best.internal_ram_bytes if best else None,
                "flash": best.weights_bytes if best else None,
                "command": best.command if best else "",
                "evaluations": result.evaluations,
                "points": result.points,
            }
        )
        print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    return rows


def every_point(space: TuneSpace, evaluate: Evaluate, most: int, seed: int) -> dict[Point, Aims]:
    """Instead of the search, which leaves out axes on which no single step changes anything."""
    points = list(space.points(range(len(space.axes))))
    return {point: aims for point, aims in evaluate(points).items() if aims is not None}


def grid(model: Path) -> Row:
    """The search, and every point of the space."""
    found = npuscope.tune(model, generations=GENERATIONS)
    with mock.patch.object(run, "search", every_point):
        whole = npuscope.tune(model, generations=GENERATIONS)
    fronts = [
        {(p.total_ms, p.internal_ram_bytes, p.external_ram_bytes, p.weights_bytes) for p in r.front}
        for r in (found, whole)
    ]
    row = {
        "network": model.name,
        "points": found.points,
        "searched": found.evaluations,
        "whole": whole.evaluations,
        "front": len(fronts[1]),
        "of it found": len(fronts[0] & fronts[1]),
    }
    print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


def rate(model: Path, jobs: int) -> Row:
    start = time.monotonic()
    result = npuscope.tune(model, jobs=jobs, evaluations=400, generations=GENERATIONS)
    seconds = time.monotonic() - start
    row = {
        "network": model.name,
        "jobs": jobs,
        "evaluations": result.evaluations,
        "per_minute": round(result.evaluations / seconds * 60),
    }
    print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    shared = Path(__file__).resolve().parents[2] / "shared" / "data" / "models"
    parser.add_argument("--models", type=Path, default=shared)
    parser.add_argument("--only", choices=("budgets", "grid", "rate"), nargs="*")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    parts = args.only or ("budgets", "grid", "rate")
    files = {args.models / name: limits for name, limits in NETWORKS.items()}
    tables: dict[str, list[Row]] = {}
    if "budgets" in parts:
        tables["budgets"] = [row for file, limits in files.items() for row in budgets(file, limits)]
    if "grid" in parts:
        tables["grid"] = [grid(file) for file in files]
    if "rate" in parts:
        tables["rate"] = [rate(file, jobs) for file in files for jobs in (1, 2)]
    if args.json:
        args.json.write_text(json.dumps(tables, indent=1) + "\n")


if __name__ == "__main__":
    main()
