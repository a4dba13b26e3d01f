"""Runs with a fault that take epochs from the right run give what a whole run gives."""

from __future__ import annotations

import numpy as np
import pytest

from models import mobilenet_like, to_tflite
from npuscope.building import build
from npuscope.diagnosis.causes.registry import all_causes
from npuscope.diagnosis.fault import RIGHT
from npuscope.diagnosis.runs import FaultyRuns, RunStart
from npuscope.diagnosis.scene import BoardScene, Frame
from npuscope.program.calls import element_type


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> BoardScene:
    path = tmp_path_factory.mktemp("net") / "net.tflite"
    path.write_bytes(to_tflite(mobilenet_like(seed=5)))
    program = build(path, {}).program
    random = np.random.default_rng(0)
    buffers = program.buffer_map()
    inputs = {
        name: random.integers(-128, 128, buffers[name].shape).astype(element_type(buffers[name]))
        for name in program.inputs
    }
    return BoardScene(program, [Frame(inputs)])


def faults_inside(scene: BoardScene) -> list:
    """Some of every cause that changes weights or what epochs leave."""
    rows = []
    for cause in all_causes():
        faults = [f for f in cause.faults(scene) if f.image or f.image_read or f.step or f.blocked]
        rows += faults[:: max(1, len(faults) // 6)]
    return rows


@pytest.mark.parametrize("fill", [0, 0x55])
def test_runs_with_shared_epochs_equal_whole_runs(scene: BoardScene, fill: int) -> None:
    name = scene.program.inputs[0]
    start = RunStart(scene.program, {name: scene.feed(name, 0).stored()}, fill, again=True)
    shared = FaultyRuns(scene.asked, scene.watched)
    shared.run(start, RIGHT)
    faults = faults_inside(scene)
    assert len(faults) > 30
    for fault in faults:
        one, other = shared.run(start, fault), FaultyRuns((), scene.watched).run(start, fault)
        assert (one is None) is (other is None), fault.words
        if one is not None and other is not None:
            assert one.kept_marker == other.kept_marker, fault.words
            for mine, theirs in ((one.outputs, other.outputs), (one.left, other.left)):
                for key, values in mine.items():
                    np.testing.assert_array_equal(values, theirs[key], fault.words)
