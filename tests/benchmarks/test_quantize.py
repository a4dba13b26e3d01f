"""The networks of the benchmark of quantize, and how a row counts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx
import pytest

pytest.importorskip("onnxruntime")
FOLDER = str(Path(__file__).parents[2] / "benchmarks")


@pytest.fixture(scope="module")
def networks() -> Iterator[ModuleType]:
    sys.path.insert(0, FOLDER)
    import quantize_networks

    yield quantize_networks
    sys.path.remove(FOLDER)


@pytest.mark.parametrize(
    "name", ["mobile_net", "dense_res_net", "detector", "face_net", "sound_net"]
)
def test_networks_are_sound_and_open_in_the_batch(networks: ModuleType, name: str) -> None:
    proto = getattr(networks, name)().proto()
    onnx.checker.check_model(proto)
    assert proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert any(node.op_type == "BatchNormalization" for node in proto.graph.node)


def test_the_last_layer_learns(networks: ModuleType) -> None:
    net = networks.sound_net()
    data, labels = networks.sounds(480, 512, 5)
    net.settle(data[:24])
    assert net.teach(data, labels) > 0.6  # one in six by chance
    again, _ = networks.sounds(480, 512, 5)
    assert (again == data).all()


@pytest.mark.parametrize(
    ("ms", "db", "won"),
    [(0.9, 21.0, True), (0.9, 20.0, True), (0.9, 19.9, False), (1.0, 30.0, False)],
)
def test_what_counts_as_won(networks: ModuleType, ms: float, db: float, won: bool) -> None:
    import quantize

    row: dict[str, Any] = {"ms": ms, "plain_ms": 1.0, "db": {"y": db}, "plain_db": {"y": 20.0}}
    assert quantize.wins(row) is won
