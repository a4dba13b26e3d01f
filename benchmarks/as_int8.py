"""What `estimate --as-int8` says of float models, beside the estimate of what `quantize` makes.

    python benchmarks/as_int8.py MODEL_OR_FOLDER... [--generation 4.0] [--quick] [--keep DIR]
        [--json FILE]

Ranges come from a few random samples: they move results, hardly time. Each model runs in a process
of its own, so that one that fails, or takes too long, costs one row. `reason` is what the output of
`--as-int8` itself names as a difference, or why there is no second figure.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from functools import reduce
from pathlib import Path
from typing import Any

_LIMIT = 0.10  # how far the two answers may be apart
_SECONDS = 600


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--generation", default="4.0")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="without the search of quantize")
    parser.add_argument("--keep", type=Path, help="keep the quantized models in this folder")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(compared(args.models[0], args.generation, args.keep, args.quick)))
        return
    rows = []
    print(f"{'model':<52} {'as-int8':>9} {'quantize':>9} {'ratio':>6}  reason")
    for path in models(args.models):
        rows.append(alone(path, args.generation, args.keep, args.quick))
        print(line(rows[-1]), flush=True)
    both = [row for row in rows if row.get("ratio")]
    near = sum(abs(row["ratio"] - 1) <= _LIMIT for row in both)
    print(
        f"{near} of {len(both)} within {_LIMIT:.0%}; {len(rows) - len(both)} without both figures"
    )
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


def models(places: list[Path]) -> list[Path]:
    files = (
        file for place in places for file in ([place] if place.is_file() else place.rglob("*"))
    )
    return sorted(file for file in files if file.suffix in (".onnx", ".tflite"))


def alone(path: Path, generation: str, keep: Path | None, quick: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, str(path), "--generation", generation, "--one"]
    command += [*(["--keep", str(keep)] if keep else []), *(["--quick"] if quick else [])]
    start = time.perf_counter()
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        lines = run.stdout.splitlines() or [
            json.dumps({"error": (run.stderr.splitlines() or ["?"])[-1]})
        ]
        row = json.loads(lines[-1])
    except subprocess.TimeoutExpired:
        row = {"error": f"stopped after {_SECONDS} s"}
    return {"model": path.name, **row, "seconds": round(time.perf_counter() - start, 1)}


def compared(path: Path, generation: str, keep: Path | None, quick: bool) -> dict[str, Any]:
    import npuscope
    from npuscope.errors import NpuscopeError

    row: dict[str, Any] = {}
    try:
        before = npuscope.estimate(path, as_int8=True, generation=generation)
        row |= {"as_int8_ms": before.total_ms, "unknown": sorted(set(before.unknown_ops))}
        row["reason"] = "; ".join(note for note in before.notes if "the quantized network" in note)
        if quick:
            after_ms = fastest_form(path, generation, keep)
        else:
            target = keep and keep / path.name
            after_ms = npuscope.quantize(
                path, target, data="random", samples=4, calibration="minmax", generation=generation
            ).after.total_ms
        row |= {"quantize_ms": after_ms, "ratio": before.total_ms / after_ms}
    except NpuscopeError as error:
        row["error"] = error.message
    return row


def fastest_form(path: Path, generation: str, keep: Path | None) -> float:
    """Of what `quantize` starts from: as calibrated, with fewer ops in integers, with zero points
    of 0 at all layers; no time goes into signal to noise."""
    from npuscope.accuracy.pictures import ImageForm
    from npuscope.building import Options
    from npuscope.quantizing.bench import QuantizingBench
    from npuscope.quantizing.choices import fast_zero_points
    from npuscope.quantizing.plan import RangePlan
    from npuscope.quantizing.run import opened
    from npuscope.quantizing.samples import load_samples
    from npuscope.structs import replace

    options: Options = {"generation": generation}
    with tempfile.TemporaryDirectory() as folder:
        work = opened(path, options, Path(folder))
        samples = load_samples("random", work.borders(), ImageForm(), 2, 0)
        bench = QuantizingBench(path, work, samples, options, 1.0, lambda text: None)
        ranges = work.ranges("minmax", samples.calibration, False, lambda text: None)
        plain = RangePlan("minmax", ranges)
        fast = reduce(
            lambda plan, part: part(plan), fast_zero_points(plain, work.layers, {}), plain
        )
        forms = [
            bench.bordered(work.make(form)) for form in (fast, plain, replace(fast, narrow=True))
        ]
        times = [bench.timed(data)[1].total_ms for data in forms]
    if keep:
        (keep / path.name).write_bytes(forms[times.index(min(times))])
    return min(times)


def line(row: dict[str, Any]) -> str:
    figures = (
        f"{row[key]:9.3f}" if row.get(key) else f"{'-':>9}" for key in ("as_int8_ms", "quantize_ms")
    )
    ratio = f"{row['ratio']:6.2f}" if row.get("ratio") else f"{'-':>6}"
    reason = row.get("error") or row.get("reason", "")
    return f"{row['model'][-52:]:<52} {' '.join(figures)} {ratio}  {reason}"


if __name__ == "__main__":
    main()
