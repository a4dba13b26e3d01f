"""Predictions against published board measurements: epochs, latencies, memory.

    python benchmarks/board_accuracy.py --data ../shared/data --json accuracy.json

Part 1: MobileNetV2 and six single layers, epoch by epoch, compiled as generation 2.2 without the
epoch controller, as those boards ran (800/1000 MHz). Part 2: every published latency of one tool
version (4.0.0 unless told) whose model compiles, with the epoch controller.

These are the measurements that the machine's constants were fitted on: start, flush, vector and
CPU-control cycles on the epochs of part 1, controller and external-RAM cycles on the 4.0.0 rows of
part 2. So the errors say how well the model describes them, not how well it foretells others.
`--version 2.2.0` shows rows that had no part in the fit, though mostly of the same networks.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path
from statistics import mean, median
from typing import Any

from npuscope.api import build
from npuscope.errors import NpuscopeError
from npuscope.profile.model import Profile
from npuscope.profile.run import estimate

Row = dict[str, Any]

# Version of the vendor's tools -> generation of their compiler.
GENERATIONS = {"2.0.0": "2.2", "2.2.0": "2.2", "3.0.0": "3.0", "4.0.0": "4.0"}
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
    latencies = published_latencies(options.data, options.version)
    print(_epoch_report(epochs, layers, options.all))
    print(_latency_report(latencies, options.version))
    if options.json:
        rows = {"mobilenet": epochs, "layers": layers, "latencies": latencies}
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shared = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=shared, help="folder of models and figures")
    parser.add_argument("--version", choices=GENERATIONS, default="4.0.0", help="published rows")
    parser.add_argument("--all", action="store_true", help="print every epoch of MobileNetV2")
    parser.add_argument("--json", type=Path, help="file to write all rows to")
    return parser.parse_args()


def _table_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _predict(path: Path, generation: str, epoch_controller: bool) -> Profile:
    made = build(path, {"generation": generation, "epoch_controller": epoch_controller})
    return estimate(made.program, made.machine, made.graph)


# Part 1: epochs.


def mobilenet_epochs(data: Path) -> Row:
    found = _predict(data / MOBILENET, "2.2", False)
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
        found = _predict(path, "2.2", False)
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


def _epoch_report(mobilenet: Row, layers: list[Row], every: bool) -> str:
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


# Part 2: published latencies.


def published_latencies(data: Path, version: str) -> list[Row]:
    lines = _table_of(data / "measured" / "published_latency.csv")
    chosen = [line for line in lines if line["stedgeai"] == version]
    return [_latency_row(line, data / "models", GENERATIONS[version]) for line in chosen]


def _latency_row(line: dict[str, str], models: Path, generation: str) -> Row:
    published = {
        "network": Path(line["file"]).stem,
        "graph": line["graph"],
        "published_ms": float(line["inference_ms"]),
        "published_ram_kib": float(line["internal_ram_kib"]),
        "published_external_kib": float(line["external_ram_kib"]),
        "published_weights_kib": float(line["weights_flash_kib"]),
    }
    path = models / line["file"]
    if not path.is_file():
        return published | {"skipped": "the file is not here"}
    try:
        found = _predict(path, generation, True)
    except NpuscopeError as error:
        return published | {"skipped": error.message}
    return published | _predicted(found, published)


def _predicted(found: Profile, published: Row) -> Row:
    memory = found.memory
    ram_kib, weights_kib = memory.internal_ram_bytes / 1024, memory.weights_bytes / 1024
    return {
        "ms": found.total_ms,
        "error": found.total_ms / published["published_ms"] - 1,
        "in_interval": found.interval_ms[0] <= published["published_ms"] <= found.interval_ms[1],
        "software_share": found.time.software_ms / found.total_ms,
        "ram_kib": ram_kib,
        "ram_error": ram_kib / published["published_ram_kib"] - 1,
        "external_kib": memory.external_ram_bytes / 1024,
        "weights_kib": weights_kib,
        "weights_error": weights_kib / published["published_weights_kib"] - 1,
        "software": _software_operators(found),
    }


def _software_operators(found: Profile) -> dict[str, float]:
    """Milliseconds by kernel that runs on the CPU, longest first."""
    spent: dict[str, float] = {}
    for epoch in found.epochs:
        if epoch.kind.value == "SW":
            name = "+".join(epoch.operators)
            spent[name] = spent.get(name, 0.0) + epoch.ms
    return dict(sorted(spent.items(), key=lambda item: -item[1]))


def _latency_report(rows: list[Row], version: str) -> str:
    done = [row for row in rows if "skipped" not in row]
    inside = [row for row in done if not row["published_external_kib"]]
    outside = [row for row in done if row["published_external_kib"]]
    # A kernel that falls to the CPU here but not at the vendor's hides what the NPU does.
    on_npu = [row for row in inside if row["software_share"] <= 0.1]
    sample = "in sample" if version == "4.0.0" else "constants fitted on 4.0.0 rows"
    lines = [
        f"Published latencies of {version}, with the epoch controller ({sample})",
        f"  {'network':46} {'ours ms':>8} {'board':>8} {'error':>8} {'CPU':>5} "
        f"{'RAM KiB':>8} {'board':>8} {'weights':>8} {'board':>8}",
        *(_latency_line(row) for row in rows),
        "",
        f"  {len(done)} of {len(rows)} compile; {sum(row['in_interval'] for row in done)} of them "
        "lie in the interval that an estimate prints",
        *_summary("latency, without external RAM", inside, "error"),
        *_summary("latency, of those at most 10 % on our CPU", on_npu, "error"),
        *_summary("latency, with external RAM", outside, "error"),
        *_summary("internal RAM, without external RAM", inside, "ram_error"),
        *_summary("weights", done, "weights_error"),
    ]
    return "\n".join(lines)


def _latency_line(row: Row) -> str:
    name = f"  {row['network'][:46]:46}"
    if "skipped" in row:
        return f"{name} skipped: {row['skipped'][:90]}"
    external = row["external_kib"] or row["published_external_kib"]
    spill = f"  external {row['external_kib']:.0f} / {row['published_external_kib']:.0f}"
    kernels = ", ".join(f"{name} {ms:.1f} ms" for name, ms in row["software"].items() if ms >= 0.3)
    return (
        f"{name} {row['ms']:8.2f} {row['published_ms']:8.2f} {row['error']:+8.1%} "
        f"{row['software_share']:5.0%} {row['ram_kib']:8.1f} {row['published_ram_kib']:8.1f} "
        f"{row['weights_kib']:8.1f} {row['published_weights_kib']:8.1f}"
        f"{spill if external else ''}{f'  CPU: {kernels}' if kernels else ''}"
    )


def _summary(title: str, rows: list[Row], key: str) -> list[str]:
    errors = [abs(row[key]) for row in rows]
    if not errors:
        return []
    bias = mean(row[key] for row in rows)
    return [
        f"  {title}: {len(errors)} networks, mean error {mean(errors):.1%}, "
        f"median {median(errors):.1%}, largest {max(errors):.1%}, bias {bias:+.1%}"
    ]


if __name__ == "__main__":
    sys.exit(main())
