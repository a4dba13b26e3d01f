"""Two faults at once, and faults on a board of a generation that nobody stated."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import npuscope
from models import Net, dense_net, to_tflite
from npuscope.building import build
from npuscope.diagnosis.case import TriageRequest, open_case
from npuscope.diagnosis.result import TriageVerdict
from npuscope.diagnosis.search import Search
from npuscope.sim.run import execute
from triage_cases import causes


def deep_net() -> Net:
    net = Net((1, 10, 10, 3), seed=14)
    last = net.conv(8)
    for _ in range(6):
        net.conv(8, activation="relu")
        last = net.add(last, net.conv(8, activation="none"), "relu")
    net.conv(4, kernel=1, activation="none")
    return net


def board_of(model: Path, generation: str, frame: np.ndarray) -> np.ndarray:
    program = build(model, {"generation": generation}).program
    return execute(program, {program.inputs[0]: frame}).outputs[program.outputs[0]]


@pytest.fixture
def frame(tmp_path: Path) -> np.ndarray:
    values = np.random.default_rng(1).integers(-128, 128, (1, 10, 10, 3)).astype(np.int8)
    np.save(tmp_path / "in.npy", values)
    return values


def test_a_fault_of_another_generation_is_found(tmp_path: Path, frame: np.ndarray) -> None:
    """Through many layers generations are more than a step apart."""
    model = tmp_path / "deep.tflite"
    model.write_bytes(to_tflite(deep_net()))
    swapped = np.ascontiguousarray(frame[..., ::-1])
    output = board_of(model, "2.2", swapped)
    apart = output.astype(int) - board_of(model, "4.0", swapped)
    assert np.abs(apart).max() > 1
    np.save(tmp_path / "out.npy", output)
    result = npuscope.triage(model, inputs=[tmp_path / "in.npy"], outputs=[tmp_path / "out.npy"])
    assert result.verdict is TriageVerdict.REPRODUCED
    assert causes(result) == {"input-bgr"}
    assert result.generation == "2.2"
    assert not result.generation_known
    assert any("generation 2.2" in note for note in result.notes)


def test_a_step_that_no_generation_gives_is_said(tmp_path: Path) -> None:
    model = tmp_path / "dense.tflite"
    model.write_bytes(to_tflite(dense_net(64, (24, 10), seed=11)))
    values = np.random.default_rng(1).integers(-128, 128, (1, 64)).astype(np.int8)
    rows = [board_of(model, name, values) for name in ("4.0", "3.0", "2.2", "2.1")]
    assert all(np.array_equal(rows[0], row) for row in rows)
    np.save(tmp_path / "in.npy", values)
    np.save(tmp_path / "out.npy", (rows[0].astype(int) ^ 1).astype(np.int8))
    result = npuscope.triage(model, inputs=[tmp_path / "in.npy"], outputs=[tmp_path / "out.npy"])
    assert result.verdict is TriageVerdict.NO_FAULT
    assert "none of those known here" in result.answer


def test_causes_that_no_time_was_left_for_are_counted(tmp_path: Path, frame: np.ndarray) -> None:
    model = tmp_path / "deep.tflite"
    model.write_bytes(to_tflite(deep_net()))
    program = build(model, {}).program
    output = np.full_like(board_of(model, "4.0", frame), 0)
    (tmp_path / "out.raw").write_bytes(output.tobytes())
    request = TriageRequest((str(tmp_path / "in.npy"),), (str(tmp_path / "out.raw"),))
    case = open_case(program, request, None)
    search = Search(case.scene, case.evidence, tolerant=False, wall_s=0)
    assert search.run() == []
    assert search.is_late
    assert set(search.untried) == set(search.not_tried) > {"input-bgr", "output-late"}


def test_two_faults_are_no_single_cause_and_named_after_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    from triage import Bench
    from triage_kinds import KINDS
    from triage_pairs import pairs_of

    path = tmp_path / "net.tflite"
    path.write_bytes(to_tflite(dense_net(64, (48, 24, 10), seed=11)))
    name = "weights beside their address + output read as uint8"
    (pair,) = (kind for kind in pairs_of(list(KINDS), 0) if kind.name == name)
    row = Bench("net", path, 0).judge(pair, 0, 2)
    assert len(row.traces) == 2
    assert row.told == ("not one cause", "named")
    for module in [name for name in sys.modules if name.startswith("triage")]:
        if module != "triage_cases":
            sys.modules.pop(module)
