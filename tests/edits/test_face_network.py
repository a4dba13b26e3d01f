"""A face recogniser whose PReLUs, tail and last kernel run on the CPU as it was shipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuscope.advice.explain import explain
from npuscope.advice.fix.workbench import BenchNetwork
from npuscope.building import Build, build
from npuscope.edits import EditRequest, apply_edit, open_document
from npuscope.profiling.run import estimate
from npuscope.program.model import EpochKind

FILE = "artefacts/PeleAB__STM32N6-FaceRecognition/input_models/mobilefacenet_int8_faces.onnx"


@pytest.fixture
def network(shared_models: Path) -> Path:
    path = shared_models.parent / FILE
    if not path.is_file():
        pytest.skip("the face recogniser is not on this machine")
    return path


def built(path: Path) -> Build:
    return build(path, {"generation": "2.2", "input_data_type": "float32"})


def on_cpu(path: Path) -> int:
    return sum(epoch.kind is EpochKind.SW for epoch in built(path).program.epochs)


def fixed(path: Path, fix: str, into: Path) -> Path:
    """One fix at every place that a finding offers it for."""
    made = built(path)
    assert made.graph is not None
    profile = estimate(made.program, made.machine, made.graph)
    findings = explain(made, profile, ()).findings
    document, network = open_document(path), BenchNetwork(made.graph, made.machine)
    places = [(f.ops, x) for f in findings for x in f.fixes if x.id == fix]
    for ops, offered in places:
        apply_edit(document, fix, EditRequest(ops, offered.parameters, network))
    assert places
    into.write_bytes(document.to_bytes())
    return into


def test_software_epochs(network: Path, tmp_path: Path) -> None:
    assert on_cpu(network) == 112
    slopes = fixed(network, "quantize-slope", tmp_path / "slopes.onnx")
    assert on_cpu(slopes) == 13
    tail = fixed(slopes, "quantize-op", tmp_path / "tail.onnx")
    assert on_cpu(tail) == 10
    kernel = fixed(tail, "narrower-kernel", tmp_path / "kernel.onnx")
    assert on_cpu(kernel) == 1  # the float input, which was asked for
