"""How much of the difference between two compiler generations has a cause, by network.

    python benchmarks/compare_generations.py --models DIR [NAME ...] --json out.json

Every row of `npuscope compare` that changed is asked for its cause. The share is that of the sum
of all |B - A|: what stays unexplained counts against it, also inside of a row.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import Any

import npuscope
from npuscope.advice.compare.model import Comparison

_HERE = Path(__file__).resolve().parents[1]
_MODELS = _HERE.parent / "shared" / "data" / "models"
_NETWORKS = (
    "mobilenet_v1_0.5_224_int8.tflite",
    "mobilenet_v2_1.0_224_fft_int8.tflite",
    "yolov8n_256_quant_pc_uf_od_coco-person.tflite",
    "st_yolo_x_nano_256_0.33_0.25_int8.tflite",
    "st_ssd_mobilenet_v1_025_256_int8.tflite",
    "shufflenetv2_x050_pt_224_rand_qdq_int8.onnx",
    "sqnxt23_x100_pt_224_rand_qdq_int8.onnx",
    "deeplab_v3_mobilenetv2_05_16_256_asppv2_qdq_int8.onnx",
)
_TARGET = 0.9


def main() -> None:
    arguments = parse()
    print(f"{'network':<46}{'A ms':>9}{'B ms':>9}{'rows':>6}{'changed':>9}", end="")
    print(f"{'sum |d| ms':>12}{'with cause':>12}{'seconds':>9}  largest causes")
    rows = [measure(arguments.models / name, arguments) for name in arguments.names]
    below = [row["model"] for row in rows if row["explained_share"] < _TARGET]
    print(f"{len(rows) - len(below)} of {len(rows)} networks have a cause for {_TARGET:.0%}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=_NETWORKS, metavar="NAME", help="model files")
    parser.add_argument("--models", type=Path, default=_MODELS, help="folder of the models")
    parser.add_argument("--generations", nargs=2, default=["2.2", "4.0"], metavar=("A", "B"))
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def measure(path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    a, b = arguments.generations
    started = perf_counter()
    found = npuscope.compare(path, a_options={"generation": a}, b_options={"generation": b})
    seconds = perf_counter() - started
    print_row(path, found, seconds)
    return {
        "model": path.name,
        "a_ms": found.a.profile.total_ms,
        "b_ms": found.b.profile.total_ms,
        "rows": len(found.rows),
        "changed_rows": len(found.changed),
        "changed_ms": found.changed_ms,
        "unexplained_ms": found.unexplained_ms,
        "explained_share": found.explained_share,
        "by_cause": {kind.value: ms for kind, ms, _ in found.by_cause},
        "seconds": seconds,
    }


def print_row(path: Path, found: Comparison, seconds: float) -> None:
    largest = ", ".join(f"{kind.value} {ms:+.3f}" for kind, ms, _ in found.by_cause[:3])
    print(
        f"{path.stem[:45]:<46}{found.a.profile.total_ms:>9.3f}{found.b.profile.total_ms:>9.3f}"
        f"{len(found.rows):>6}{len(found.changed):>9}{found.changed_ms:>12.3f}"
        f"{found.explained_share:>12.2%}{seconds:>9.2f}  {largest}"
    )


if __name__ == "__main__":
    main()
