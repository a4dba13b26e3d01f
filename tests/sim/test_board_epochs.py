"""Predicted epochs against published board measurements.

The boards ran at 800 MHz (MCU) and 1000 MHz (NPU), without the epoch controller; their logs count
MCU cycles. Skipped where the measurements are absent.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pytest

from npuscope.building import build
from npuscope.profiling.model import Profile
from npuscope.profiling.run import estimate
from npuscope.program.model import EpochKind

DATA = (Path(__file__).parents[2] / ".." / "shared" / "data").resolve()
BENCHMARKS = DATA / "artefacts" / "Magnus3327__stm32n6-edge-ai-benchmarks"
MOBILENET = BENCHMARKS / "Models" / "quantized_int8" / "mobilenet_v2_224_int8.onnx"
MOBILENET_MS = 20.694
MOBILENET_RAM_BYTES = 2_107_392
MOBILENET_WEIGHTS_BYTES = 4_137_361
NPU_PER_MCU_CYCLE = 1000 / 800

# Name in the board's logs -> name of the network's file.
BASELINES = {
    "Conv2d_3x3": "conv2d_3x3",
    "Depthwise_3x3": "depthwise_3x3",
    "Conv2d_1x1": "conv2d_1x1",
    "Conv2d_poll": "conv2d_pool",
    "Conv2d_16f_3x3": "conv2d_16f_3x3",
    "Conv2d_32f_5x5": "conv2d_32f_5x5",
}


@dataclass(frozen=True)
class BoardEpoch:
    """One line of a board's log."""

    name: str
    software: bool
    core_cycles: float  # NPU cycles
    post_cycles: float  # MCU cycles


def board_epochs(part_of_name: str) -> list[BoardEpoch]:
    """Epochs of the logs whose file name contains the text."""
    file = DATA / "measured" / "board_epochs.csv"
    if not file.is_file():
        pytest.skip("the board measurements are not on this machine")
    with file.open(newline="") as rows:
        return [_epoch(row) for row in csv.DictReader(rows) if part_of_name in row["source_file"]]


def _epoch(row: dict[str, str]) -> BoardEpoch:
    core = float(row["cpu_cycles_core"]) * NPU_PER_MCU_CYCLE
    return BoardEpoch(row["epoch_block"], "SW" in row["type"], core, float(row["cpu_cycles_post"]))


def predicted(path: Path, generation: str) -> Profile:
    if not path.is_file():
        pytest.skip(f"{path.name} is not on this machine")
    made = build(path, {"generation": generation, "epoch_controller": False})
    return estimate(made.program, made.machine, made.graph)


def baseline(name: str) -> Path:
    return DATA / "models" / f"baseline_{BASELINES[name]}_int8.tflite"


@pytest.fixture(scope="module")
def measured():
    return board_epochs("Cube MX/mobilenet_v2_224")


@pytest.fixture(scope="module")
def mobilenet():
    return predicted(MOBILENET, "2.2")


def test_mobilenet_has_the_boards_epochs(mobilenet, measured):
    assert mobilenet.counts == {"HW": 55, "SW": 3, "HYBRID": 0, "blobs": 0}
    found = [(epoch.name, epoch.kind is EpochKind.SW) for epoch in mobilenet.epochs]
    assert found == [(epoch.name, epoch.software) for epoch in measured]


def test_mobilenet_core_cycles(mobilenet, measured):
    errors = [
        abs(found.counters.core_cycles / board.core_cycles - 1)
        for found, board in zip(mobilenet.epochs, measured, strict=True)
        if not board.software
    ]
    assert len(errors) == 55
    assert median(errors) <= 0.01
    assert sum(error <= 0.05 for error in errors) >= 0.9 * len(errors)


def test_mobilenet_software_kernels(mobilenet, measured):
    """Dequantize, mean, quantize: their work is in the post phase."""
    pairs = [
        (found.counters.post_cycles, board.post_cycles)
        for found, board in zip(mobilenet.epochs, measured, strict=True)
        if board.software
    ]
    assert len(pairs) == 3
    for found, expected in pairs:
        assert found == pytest.approx(expected, rel=0.10)


def test_mobilenet_latency(mobilenet):
    assert mobilenet.total_ms == pytest.approx(MOBILENET_MS, rel=0.03)


def test_mobilenet_memory(mobilenet):
    assert mobilenet.memory.internal_ram_bytes == MOBILENET_RAM_BYTES
    assert mobilenet.memory.external_ram_bytes == 0
    # The tool's report counts the whole flash pool, coefficient vectors included.
    flash = next(pool for pool in mobilenet.memory.pools if pool.name == "octoFlash")
    assert flash.used_bytes == pytest.approx(MOBILENET_WEIGHTS_BYTES, rel=0.001)


@pytest.mark.parametrize("name", BASELINES)
def test_single_layers(name):
    limit = 0.07 if name.startswith("Depthwise") else 0.03
    board = board_epochs(f"CubeMX xcubeai/{name}/")
    found = predicted(baseline(name), "2.2").epochs
    assert board and len(found) == len(board)
    for epoch, row in zip(found, board, strict=True):
        assert epoch.counters.core_cycles == pytest.approx(row.core_cycles, rel=limit)


@pytest.mark.parametrize("name", BASELINES)
def test_single_layers_of_4_0_have_the_boards_epochs(name):
    board = board_epochs(f"Dev Cloud/AICore4.0/{name.lower()}_report")
    found = predicted(baseline(name), "4.0").epochs
    assert board and [epoch.name for epoch in found] == [row.name for row in board]
