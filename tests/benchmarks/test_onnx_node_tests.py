"""A few of onnx's own node tests on the reference executor; the benchmark runs all of them."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks"
OPS = ("GatherND", "GatherElements", "ScatterND", "LSTM", "GRU", "RNN", "TopK", "CumSum", "Trilu")


@pytest.fixture(scope="module")
def benchmark() -> Any:
    sys.path.insert(0, str(SCRIPTS))
    try:
        import onnx_node_tests
    finally:
        sys.path.remove(str(SCRIPTS))
    return onnx_node_tests


def test_node_tests_agree(benchmark: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tests compute with infinities
        found = [case for case in benchmark.cases() if case.model.graph.node[0].op_type in OPS]
    counts = Counter(
        (case.model.graph.node[0].op_type, *benchmark.outcome(case)[:1]) for case in found
    )
    assert {kind for kind, outcome in counts if outcome == benchmark.AGREES} == set(OPS)
    assert not [row for row in counts if row[1] in (benchmark.DIFFERS, benchmark.REFUSED)]
