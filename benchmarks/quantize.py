"""What `quantize` makes of five float networks, beside onnxruntime's defaults on the same data.

    python benchmarks/quantize.py [--generation 4.0] [--loss-db 1] [--keep DIR] [--json FILE]

Both get the same repaired float network, the same samples and int8 at the border. SQNR is on
samples that neither saw; "right" is the share of 240 new samples that are classified as labelled,
in float and in int8. Every result is opened in onnxruntime, validated and estimated.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from quantize_networks import Case, cases, pictures, sounds

import npuscope
from npuscope.profiling.runtimes import onnxruntime_session
from npuscope.quantizing.bench import in_steps, real_values
from npuscope.quantizing.run import Quantized

_NEW, _SEED = 240, 99


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generation", default="4.0")
    parser.add_argument("--loss-db", type=float, default=1.0)
    parser.add_argument("--keep", type=Path, help="keep the models in this folder")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = args.keep or Path(folder)
        place.mkdir(exist_ok=True)
        rows = [measured(case, place, args.generation, args.loss_db) for case in cases()]
    print(table(rows))
    won = sum(wins(row) for row in rows)
    print(f"{won} of {len(rows)} faster than the defaults at equal or better SQNR of every output")
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


def measured(case: Case, folder: Path, generation: str, loss_db: float) -> dict[str, Any]:
    start = time.perf_counter()
    source, target = folder / f"{case.name}.onnx", folder / f"{case.name}_int8.onnx"
    source.write_bytes(case.proto.SerializeToString())
    np.savez(folder / f"{case.name}.npz", image=case.data)
    made = npuscope.quantize(
        source,
        target,
        data=folder / f"{case.name}.npz",
        generation=generation,
        loss_db=loss_db,
    )
    assert made.plain is not None
    seconds = time.perf_counter() - start
    profile = npuscope.estimate(target, generation=generation)
    return {
        "network": case.name,
        "plain_ms": made.plain.profile.total_ms,
        "ms": profile.total_ms,
        "plain_db": dict(made.plain.sqnr_db),
        "db": dict(made.sqnr_db),
        "off_npu": [p.counts["SW"] + p.counts["HYBRID"] for p in (made.plain.profile, profile)],
        "unknown_ops": list(profile.unknown_ops),
        "validated": npuscope.validate(target, generation=generation).passed,
        "right": right(case, source, target, made),
        "calibration": made.method,
        "kept": [step.title for step in made.steps if step.kept],
        "seconds": seconds,
    }


def right(case: Case, source: Path, target: Path, made: Quantized) -> list[float] | None:
    """Shares of new samples, in float and in int8; None for a network without labels."""
    if not case.right:
        return None
    make = sounds if case.data.ndim == 3 else pictures
    data, labels = make(_NEW, case.data.shape[-1], _SEED)
    real, small = (onnxruntime_session(path.read_bytes()) for path in (source, target))
    (name,), (result,) = [tensor.name for tensor in made.inputs], made.outputs
    hits = np.zeros(2)
    for sample, label in zip(data[:, None], labels, strict=True):
        steps = in_steps(made.inputs[0], sample)
        scores = (
            real.run(None, {name: sample})[0],
            real_values(result, small.run(None, {name: steps})[0]),
        )
        hits += [int(np.argmax(score)) == label for score in scores]
    return [float(hit) for hit in hits / len(labels)]


def wins(row: dict[str, Any]) -> bool:
    better = all(db >= row["plain_db"][name] for name, db in row["db"].items())
    return better and row["ms"] < row["plain_ms"]


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        f"{'network':<10} {'defaults':>9} {'quantize':>9} {'change':>7}  {'defaults':>14} "
        f"{'quantize':>14}  off NPU  {'right':>14}  validate  seconds"
    ]
    for row in rows:
        change = row["ms"] / row["plain_ms"] - 1
        dbs = ["/".join(f"{db:.1f}" for db in row[key].values()) for key in ("plain_db", "db")]
        share = "-" if row["right"] is None else " -> ".join(f"{x:.1%}" for x in row["right"])
        off = f"{row['off_npu'][0]:>2} -> {row['off_npu'][1]}"
        passed = "passed" if row["validated"] else "failed"
        lines.append(
            f"{row['network']:<10} {row['plain_ms']:>6.3f} ms {row['ms']:>6.3f} ms {change:>7.1%}  "
            f"{dbs[0]:>11} dB {dbs[1]:>11} dB  {off:<7}  {share:>14}  {passed:<8} "
            f"{row['seconds']:>8.1f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
