"""What triage proposes to look at: afterwards one cause is left, and it is certain."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from models import mobilenet_like, to_tflite
from npuscope.building import build
from npuscope.diagnosis.case import TriageCase
from npuscope.diagnosis.causes.registry import all_causes
from npuscope.diagnosis.evidence import BoardEvidence, SeenValues
from npuscope.diagnosis.fault import BoardFault
from npuscope.diagnosis.run import diagnose
from npuscope.diagnosis.scene import BoardScene, Frame
from npuscope.diagnosis.sights import Sight, SightView, short_names
from npuscope.sim.run import written
from triage_cases import causes, picture, run


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of two output values."""
    path = tmp_path_factory.mktemp("looks") / "net.tflite"
    path.write_bytes(to_tflite(mobilenet_like(seed=4, classes=2)))
    return path


def scene_of(model: Path) -> BoardScene:
    program = build(model, {"generation": "4.0"}).program
    asked = [name for epoch in program.executed for name in written(epoch)]
    return BoardScene(program, [Frame({program.inputs[0]: picture(model, 0)})], asked=asked)


def case(scene: BoardScene, *sights: Sight, fault: BoardFault) -> TriageCase:
    rows = [SeenValues(sight, scene.predict(sight, fault)) for sight in sights]
    return TriageCase(scene, BoardEvidence(tuple(rows)), (), frozenset())


def seen_as_proposed(scene: BoardScene, option: str, fault: BoardFault, folder: Path) -> list[str]:
    """The words of a proposed option, with files of what a board with this fault shows."""
    words = []
    for number, (view, name) in enumerate(re.findall(r"--seen ([a-z-]+)(?::(\S+?))?=", option)):
        names = {"flash-word": "", "output-ram": "output"}
        sight = Sight(SightView(view), name or names.get(view, "input"))
        values = scene.predict(sight, fault)
        assert values is not None
        path = folder / f"{number}.raw"
        path.write_bytes(np.ascontiguousarray(values).tobytes())
        value = "right" if view == "flash-word" else path
        words.append(f"{view}:{name}={value}" if name else f"{view}={value}")
    return words


@pytest.mark.parametrize("id_", ["input-turned", "input-bgr", "input-pitch", "weights-erased"])
def test_one_look_makes_the_cause_certain(id_: str, model: Path, tmp_path: Path) -> None:
    """Two values prove nothing; a checksum of what is right anyway would prove as little."""
    scene = scene_of(model)
    cause = next(one for one in all_causes() if one.id == id_)
    fault = next(iter(cause.faults(scene)))
    frame = picture(model, 0)
    output = scene.predict(Sight(SightView.OUTPUT, "output"), fault)
    first = run(model, tmp_path, frame, output)
    assert id_ in causes(first)
    assert not first.single
    seen = seen_as_proposed(scene, first.next_looks[0].option, fault, tmp_path)
    assert seen
    second = run(model, tmp_path, frame, output, seen=seen)
    assert causes(second) == {id_}
    assert second.single


def test_faults_that_could_not_show_as_was_seen_are_no_tries(model: Path) -> None:
    """A buffer that is right excludes what overwrites it or one before it."""
    scene = scene_of(model)
    cause = next(one for one in all_causes() if one.id == "buffer-overlap")
    fault = [*cause.faults(scene)][-1]
    output = Sight(SightView.OUTPUT, scene.program.outputs[0])
    before = Sight(SightView.BUFFER, scene.asked[0])
    alone, beside = (
        diagnose(case(scene, *sights, fault=fault)) for sights in ((output,), (before, output))
    )
    tries = [
        next(s.tries for s in answer.classes[0].suspects if s.id == "buffer-overlap")
        for answer in (alone, beside)
    ]
    assert 0 < tries[1] < tries[0]


def test_names_of_buffers_can_be_typed() -> None:
    long = ["layer;" * 20 + "a", "layer;" * 20 + "b", "c"]
    short = short_names(long)
    assert sorted(short.values()) == sorted(long)
    assert max(map(len, short)) <= 48
    same = ["x" * 30 + middle + "y" * 30 for middle in "ab"]
    assert sorted(short_names(same).values()) == same
