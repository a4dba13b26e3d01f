"""`quantize` judged by labels against the defaults of the tools underneath: metric and time.

    python benchmarks/task_quantize.py NET.onnx=DATA.npz NET.tflite=DATA.npz ... --json out.json

Every network is a float model with labelled samples (`labels` in the .npz). Figures are those of
samples that no choice has seen, both in the machine's arithmetic; in brackets, in the tool's own
runtime.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import npuscope

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="+", metavar="MODEL=DATA")
    parser.add_argument("--task", default="classification")
    parser.add_argument("--max-drop", default=None)
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for word in args.networks:
        model, _, data = word.partition("=")
        rows.append(judged(Path(model), data, args))
        print(line(rows[-1]), flush=True)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2) + "\n")


def judged(model: Path, data: str, args: argparse.Namespace) -> Row:
    start = time.process_time()
    result = npuscope.quantize(
        model, data=data, task=args.task, max_drop=args.max_drop, limit=args.limit
    )
    judgement, plain = result.judgement, result.plain
    assert judgement is not None and plain is not None
    return {
        "network": model.name,
        "metric": judgement.metric,
        "unused": judgement.unused,
        "tool": result.tool,
        **{row.name: row.figures[0].value for row in judgement.rows},
        "plain_ms": plain.profile.total_ms,
        "ms": result.after.total_ms,
        "plain_flash": plain.profile.memory.weights_bytes,
        "flash": result.after.memory.weights_bytes,
        "plain_off_npu": plain.profile.counts["SW"] + plain.profile.counts["HYBRID"],
        "off_npu": result.after.counts["SW"] + result.after.counts["HYBRID"],
        "changed_by_npu": judgement.changed.value,
        "tried": len(judgement.tried),
        "cpu_s": round(time.process_time() - start, 1),
    }


def line(row: Row) -> str:
    return (
        f"{row['network']:<22} {row['tool']:<18} float {row['float']:.1%}; defaults "
        f"{row['plain_npu']:.1%} ({row['plain']:.1%}) {row['plain_ms']:.3f} ms "
        f"{row['plain_flash']:,} B; ours {row['npu']:.1%} ({row['int8']:.1%}) {row['ms']:.3f} ms "
        f"{row['flash']:,} B; {row['unused']} samples, "
        f"{row['tried']} forms, {row['cpu_s']} s of CPU"
    )


if __name__ == "__main__":
    main()
