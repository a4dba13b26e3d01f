"""Random networks with a fixed seed through all judges, and what generator and reducer promise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from differential import judges, probe
from differential.draft import Draft, Unsuitable
from differential.generate import FORMATS, MAKERS, NO_MAKER, PROFILES, network_of
from differential.judges import JUDGES, Verdict, trials
from differential.network import Network, pruned
from differential.reduce import reduced
from npuscope.ops.table import ONNX, TFLITE

pytest.importorskip("ai_edge_litert")
pytest.importorskip("onnxruntime")
FIRST, NETWORKS, BATCH = 500_000, 100, 10
TABLES = {"tflite": TFLITE, "onnx": ONNX}


@pytest.mark.parametrize("first", range(FIRST, FIRST + NETWORKS, BATCH))
def test_both_ways_to_compute_agree(first: int, tmp_path: Path) -> None:
    verdicts = trials(range(first, first + BATCH), tmp_path)
    assert not [text for verdict in verdicts for text in told(verdict)]


def told(verdict: Verdict) -> list[str]:
    again = f"python -m tests.differential --seed {verdict.seed} -n 1"
    return [f"{fault.cause}: {fault.details}\n{again}" for fault in verdict.faults]


@pytest.mark.parametrize("format", FORMATS)
def test_every_op_of_the_tables_has_a_maker_or_a_reason(format: str) -> None:
    assert set(MAKERS[format]) == set(TABLES[format]) - set(NO_MAKER)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_seed_fixes_the_network(profile: str) -> None:
    for seed in range(4):
        assert network_of(seed, profile).written() == network_of(seed, profile).written()


def test_all_kinds_come_up() -> None:
    kinds = {node.kind for seed in range(600) for node in network_of(seed).nodes}
    assert {kind for format in FORMATS for kind in MAKERS[format]} <= kinds
