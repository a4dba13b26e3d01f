"""Predictions against epochs measured on a board; whole networks: benchmarks/accuracy.py.

    python benchmarks/board_accuracy.py --data ../shared/data --json epochs.json

MobileNetV2 and six single layers, epoch by epoch, compiled as generation 2.2 without the epoch
controller, as those boards ran (800/1000 MHz).

Start, flush, vector and CPU-control cycles of the machine were fitted on these epochs. So the
errors say how well the model describes them, not how well it predicts others.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path
from statistics import mean, median
from typing import Any

from npuscope.building import build
from npuscope.profiling.model import Profile
from npuscope.profiling.run import estimate

Row = dict[str, Any]

NPU_PER_MCU_CYCLE = 1000 / 800  # the logs count MCU cycles
_REPOSITORY = Path("artefacts") / "Magnus3327__stm32n6-edge-ai-benchmarks"
MOBILENET = _REPOSITORY / "Models" / "quantized_int8" / "mobilenet_v2_224_int8.onnx"
MOBILENET_MS = 20.694
MOBILENET_RAM_BYTES = 2_107_392
MOBILENET_WEIGHTS_BYTES = 4_137_361

# Board log -> network file.
BASELINES = {
    "Conv2d_16f_3x3": "conv2d_16f_3x3",
    "Conv2d_3x3": "conv2d_3x3",
    "Conv2d_1x1": "conv2d_1x1",
    "Conv2d_poll": "conv2d_pool",
    "Conv2d_32f_5x5": "conv2d_32f_5x5",
    "Depthwise_3x3": "depthwise_3x3",
}


def main() -> int:
    options = _arguments()
    epochs = mobilenet_epochs(options.data)
    layers = single_layers(options.data)
    print(_report(epochs, layers, options.all))
    if options.json:
        rows = {"mobilenet": epochs, "layers": layers}
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=shared, help="folder of models and figures")
    parser.add_argument("--all", action="store_true", help="print every epoch of MobileNetV2")
    parser.add_argument("--json", type=Path, help="file to write all rows to")
    return parser.parse_args()


def _table_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _predict(path: Path) -> Profile:
    made = build(path, {"generation": "2.2", "epoch_controller": False})
    return estimate(made.program, made.machine, made.graph)


def mobilenet_epochs(data: Path) -> Row:
    found = _predict(data / MOBILENET)
    return {
        "epochs": _epoch_rows(found, data, "Cube MX/mobilenet_v2_224"),
        "counts": found.counts,
        "ms": found.total_ms,
        "ms_error": found.total_ms / MOBILENET_MS - 1,
        "ram_bytes": found.memory.internal_ram_bytes,
        "ram_error": found.memory.internal_ram_bytes / MOBILENET_RAM_BYTES - 1,
        "weights_bytes": found.memory.weights_bytes,
        "weights_error": found.memory.weights_bytes / MOBILENET_WEIGHTS_BYTES - 1,
    }


def single_layers(data: Path) -> list[Row]:
    rows = []
    for log, file in BASELINES.items():
        path = data / "models" / f"baseline_{file}_int8.tflite"
        found = _predict(path)
        for row in _epoch_rows(found, data, f"CubeMX xcubeai/{log}/"):
            rows.append({"network": file} | row)
    return rows


def _epoch_rows(found: Profile, data: Path, log: str) -> list[Row]:
    """Hardware epochs by their core cycles, software epochs by the post phase."""
    lines = _table_of(data / "measured" / "board_epochs.csv")
    board = [line for line in lines if log in line["source_file"]]
    rows = []
    for epoch, line in zip(found.epochs, board, strict=True):
        software = "SW" in line["type"]
        core = float(line["cpu_cycles_core"]) * NPU_PER_MCU_CYCLE
        measured = float(line["cpu_cycles_post"]) if software else core
        counted = epoch.counters
        predicted = counted.post_cycles if software else counted.core_cycles
        rows.append(
            {
                "epoch": line["epoch_block"],
                "kind": epoch.kind.value,
                "operators": list(epoch.operators),
                "bound": counted.bound.value,
                "measured_cycles": measured,
                "predicted_cycles": predicted,
                "error": predicted / measured - 1,
            }
        )
    return rows


def _report(mobilenet: Row, layers: list[Row], every: bool) -> str:
    rows = mobilenet["epochs"]
    worst = sorted(rows, key=lambda row: -abs(row["error"]))[:8]
    lines = [
        "MobileNetV2 224, generation 2.2, no epoch controller (in sample)",
        *_mobilenet_summary(mobilenet),
        "  every epoch:" if every else "  the worst epochs:",
        *(_epoch_line(row) for row in (rows if every else worst)),
        "",
        "Single layers, generation 2.2",
        *(_epoch_line(row) for row in layers),
        "",
    ]
    return "\n".join(lines)


def _mobilenet_summary(found: Row) -> list[str]:
    errors = [abs(row["error"]) for row in found["epochs"] if row["kind"] == "HW"]
    near = sum(error <= 0.05 for error in errors)
    return [
        f"  epochs: {found['counts']}",
        f"  core cycles of {len(errors)} HW epochs: median error {median(errors):.2%}, "
        f"mean {mean(errors):.2%}, within 5 %: {near}, largest {max(errors):.1%}",
        f"  latency {found['ms']:.3f} ms, board {MOBILENET_MS}: {found['ms_error']:+.2%}",
        f"  internal RAM {found['ram_bytes']:,} bytes, vendor's tool {MOBILENET_RAM_BYTES:,}: "
        f"{found['ram_error']:+.3%}",
        f"  weights {found['weights_bytes']:,} bytes, vendor's tool {MOBILENET_WEIGHTS_BYTES:,}: "
        f"{found['weights_error']:+.3%}",
    ]


def _epoch_line(row: Row) -> str:
    name = row.get("network", row["epoch"])
    operators = "+".join(row["operators"])
    return (
        f"  {name:16} {row['kind']:3} {row['predicted_cycles']:12,.0f} "
        f"{row['measured_cycles']:12,.0f} {row['error']:+8.2%}  {row['bound']:12} {operators}"
    )


if __name__ == "__main__":
    sys.exit(main())
