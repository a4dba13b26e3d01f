"""Single rules of the search: what counts as a step, what a constant proves, what signs say, and
what is left out for want of time."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from models import Net, to_tflite
from npuscope.building import build
from npuscope.diagnosis.case import TriageCase
from npuscope.diagnosis.causes.lines import LINE_BYTES
from npuscope.diagnosis.causes.registry import CAUSES, FaultPlace, all_causes
from npuscope.diagnosis.evidence import BoardEvidence, SeenValues
from npuscope.diagnosis.fault import RIGHT, BoardFault
from npuscope.diagnosis.result import MOST_CHANCE, TriageVerdict
from npuscope.diagnosis.run import diagnose
from npuscope.diagnosis.scene import BoardScene, Frame
from npuscope.diagnosis.search import Search
from npuscope.diagnosis.sights import Sight, SightView
from npuscope.diagnosis.signs import Sign, signs

INNER = "layer0.sub"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> BoardScene:
    """Three convolutions, two frames."""
    net = Net((1, 12, 12, 3), seed=3)
    for channels in (8, 8, 24):
        net.conv(channels)
    path = tmp_path_factory.mktemp("rules") / "net.tflite"
    path.write_bytes(to_tflite(net))
    program = build(path, {}).program
    random = np.random.default_rng(0)
    frames = [
        Frame({"input": random.integers(-128, 128, (1, 12, 12, 3)).astype(np.int8)})
        for _ in range(2)
    ]
    return BoardScene(program, frames, asked=(INNER,))


def seen(scene: BoardScene, view: SightView, fault: BoardFault = RIGHT, frame: int = 0) -> Any:
    """What a board with this fault shows."""
    names = {SightView.INPUT_RAM: "input", SightView.BUFFER: INNER}
    pool = next(iter(scene.images))
    sight = Sight(view, pool if view is SightView.WEIGHTS else names.get(view, "output"), frame)
    values = scene.predict(sight, fault)
    assert values is not None
    return SeenValues(sight, values.copy())


def test_floats_are_compared_in_steps_of_the_right_output() -> None:
    """A broken network gives large numbers, beside which every difference is small."""
    right, wide = np.linspace(0, 1, 11), np.linspace(0, 1e6, 11)
    board = SimpleNamespace(
        buffers={}, predict=lambda _sight, fault: right if fault is RIGHT else wide
    )
    other = SeenValues(Sight(SightView.OUTPUT, "output"), wide + 500)
    fit = other.fit(board, BoardFault("a network that gives large numbers"))  # type: ignore[arg-type]
    assert fit is not None
    assert fit.near == 0
    close = SeenValues(Sight(SightView.OUTPUT, "output"), right + 0.5 / 255)
    fit = close.fit(board, RIGHT)  # type: ignore[arg-type]
    assert fit is not None
    assert (fit.near, fit.equal) == (11, 0)


def test_a_constant_inside_proves_its_writer_only_with_a_right_input(scene: BoardScene) -> None:
    """A wrong input, black for instance, may leave the same constant."""
    cause = next(one for one in all_causes() if one.id == "buffer-overlap")
    fault = next(iter(cause.faults(scene)))
    rows = (seen(scene, SightView.BUFFER, fault), seen(scene, SightView.OUTPUT, fault))
    alone = diagnose(TriageCase(scene, BoardEvidence(rows), (), frozenset()))
    assert alone.verdict is TriageVerdict.PERHAPS
    rows = (seen(scene, SightView.INPUT_RAM), *rows)
    looked = diagnose(TriageCase(scene, BoardEvidence(rows), (), frozenset()))
    assert looked.verdict is TriageVerdict.REPRODUCED
    chances = {one.id: one.chance for one in looked.classes[0].suspects}
    assert chances["buffer-overlap"] <= MOST_CHANCE


# --- Signs ---


def shown(scene: BoardScene, *rows: Any) -> list[Sign]:
    evidence = BoardEvidence(rows)
    return signs(scene, evidence, evidence.fits(scene), tolerant=False)


def spoilt(one: SeenValues, start: int = 0, end: int | None = None) -> SeenValues:
    values = one.values.copy()
    values.view(np.uint8)[start:end] ^= 0x5A
    return SeenValues(one.sight, values)


def test_a_wrong_buffer_names_every_place_before_it_that_was_not_seen_right(
    scene: BoardScene,
) -> None:
    wrong = spoilt(seen(scene, SightView.BUFFER))
    places = {FaultPlace.WEIGHTS, FaultPlace.INPUT, FaultPlace.MEMORY, FaultPlace.PROGRAM}
    assert {*shown(scene, wrong)[0].kinds} == places
    weights, frame = (seen(scene, view) for view in (SightView.WEIGHTS, SightView.INPUT_RAM))
    assert {*shown(scene, weights, wrong)[0].kinds} == places - {FaultPlace.WEIGHTS}
    both = shown(scene, weights, frame, wrong)[0].kinds
    assert {*both} == {FaultPlace.MEMORY, FaultPlace.PROGRAM}


def test_an_output_that_is_right_in_ram_is_misread(scene: BoardScene) -> None:
    output = seen(scene, SightView.OUTPUT)
    in_ram = seen(scene, SightView.OUTPUT_RAM)
    assert shown(scene, spoilt(output), in_ram)[0].kinds == (FaultPlace.OUTPUT,)
    assert FaultPlace.OUTPUT not in shown(scene, spoilt(output), spoilt(in_ram))[0].kinds


def test_the_same_output_for_two_inputs_points_inside(scene: BoardScene) -> None:
    first, second = (seen(scene, SightView.OUTPUT, frame=number) for number in (0, 1))
    constant = np.full_like(first.values, 7)
    same = shown(scene, *(SeenValues(one.sight, constant) for one in (first, second)))
    assert FaultPlace.OUTPUT not in same[-1].kinds
    assert len(same) == 1 + len(shown(scene, spoilt(first), spoilt(second)))


def test_a_few_wrong_lines_are_named_by_their_bytes(scene: BoardScene) -> None:
    output = seen(scene, SightView.OUTPUT)
    sign = shown(scene, spoilt(output, 2 * LINE_BYTES, 4 * LINE_BYTES))[0]
    assert sign == Sign((FaultPlace.OUTPUT, FaultPlace.MEMORY), "only bytes 64 to 127 are wrong")
    assert shown(scene, spoilt(output)) == []


# --- Time ---


def test_rare_places_without_time_are_left_out_and_the_rest_is_not_tried(
    scene: BoardScene,
) -> None:
    noise = spoilt(seen(scene, SightView.OUTPUT))
    all_causes()
    stale = CAUSES["input-stale-cache"]
    faults = [*stale.faults(scene)]
    rare = sum(fault.rare for fault in faults)
    assert 0 < rare < len(faults)
    search = Search(scene, BoardEvidence((noise,)), tolerant=False, budget_s=-1.0)
    scene.runs.seconds, seconds = 1e6, scene.runs.seconds  # a run is long
    try:
        search.run([stale])
    finally:
        scene.runs.seconds = seconds
    assert search.not_tried == {stale.id: len(faults) - rare}
    assert search.left_out == {stale.id: rare}
