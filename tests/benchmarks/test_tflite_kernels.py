"""Operators cut out of a network and compared with LiteRT; the benchmark runs whole folders."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from models import mobilenet_like, to_tflite
from ops.litert_ops import one_op, q8

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def benchmark() -> Any:
    pytest.importorskip("ai_edge_litert", reason="ai_edge_litert is not installed")
    sys.path.insert(0, str(SCRIPTS))
    try:
        import tflite_kernels
    finally:
        sys.path.remove(str(SCRIPTS))
    return tflite_kernels


def test_every_operator_of_a_network_agrees(benchmark: Any) -> None:
    networks = list(benchmark.cut_out(to_tflite(mobilenet_like()), 9))
    assert len(networks) > 1
    assert {benchmark.outcome(data) for data in networks} == {(benchmark.AGREES, "")}


def test_results_that_differ_are_seen(benchmark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = one_op("LOGISTIC", None, [q8((1, 7), 0.1, 3)], q8((1, 7), 1 / 256, -128))
    run = benchmark.run
    monkeypatch.setattr(
        benchmark, "run", lambda graph, feed: {n: v ^ 1 for n, v in run(graph, feed).items()}
    )
    assert benchmark.outcome(model) == (
        benchmark.DIFFERS,
        "int8 by 1, 100.00% of the elements",
    )
