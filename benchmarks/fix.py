"""What `fix` gains on a folder of models: times before and after, epochs off the NPU, how far the
results move, and how long it takes.

    python benchmarks/fix.py --models DIR [--generation 4.0] [--all] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from npuscope import fix
from npuscope.errors import NpuscopeError
from npuscope.report.fix import effect_words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--generation", default="4.0")
    parser.add_argument("--all", action="store_true", help="cut, integers at the border, all edits")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    files = [p for p in sorted(args.models.rglob("*")) if p.suffix in (".tflite", ".onnx")]
    print(f"{'model':<44} {'before':>8} {'after':>8}  off NPU   seconds  outputs, runtime, fixes")
    rows = []
    for path in files:
        rows.append(measured(path, args.generation, args.all))
        print(line(rows[-1]), flush=True)
    print(summary(rows))
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


def measured(path: Path, generation: str, everything: bool) -> dict[str, Any]:
    start = time.perf_counter()
    try:
        found = fix(path, generation=generation, everything=everything)
    except NpuscopeError as error:
        return {"model": path.name, "error": str(error)}
    off = [p.counts["SW"] + p.counts["HYBRID"] for p in (found.before, found.after)]
    return {
        "model": path.name,
        "before_ms": found.before.total_ms,
        "after_ms": found.after.total_ms,
        "off_npu": off,
        "seconds": time.perf_counter() - start,
        "outputs": effect_words(found.effects) if found.applied else "untouched",
        "runtime": found.runtime.name if found.runtime else None,
        "in_runtime": effect_words(found.runtime.effects) if found.runtime else None,
        "applied": [(s.candidate.fix.id, s.places, s.saved_ms) for s in found.applied],
        "refused": [(s.candidate.fix.id, s.outcome.reason) for s in found.refused],
    }


def line(row: dict[str, Any]) -> str:
    name = row["model"][:43]
    if "error" in row:
        return f"{name:<44} {row['error'].splitlines()[0]}"
    off = f"{row['off_npu'][0]:>3} -> {row['off_npu'][1]:<3}"
    fixes = ", ".join(f"{fix} x{places}" for fix, places, _ in row["applied"])
    return (
        f"{name:<44} {row['before_ms']:>8.2f} {row['after_ms']:>8.2f} {off} "
        f"{row['seconds']:>7.1f}  "
        f"{row['outputs']}, {row['runtime']}; {fixes}"
    )


def summary(rows: list[dict[str, Any]]) -> str:
    done = [row for row in rows if "error" not in row]
    helped = [row for row in done if row["applied"]]
    gains = [1 - row["after_ms"] / row["before_ms"] for row in helped]
    opened = sum(row["runtime"] is not None for row in helped)
    mean = sum(gains) / len(gains) if gains else 0.0
    return (
        f"{len(helped)} of {len(done)} models changed, {mean:.1%} faster on average; "
        f"{opened} of {len(helped)} run in an outside runtime"
    )


if __name__ == "__main__":
    main()
