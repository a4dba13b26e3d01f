"""Plans: what shares memory, what never does, what does not fit, and the frame over time."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path

import pytest

from application.app_folder import app_folder
from application.networks_here import EXAMPLE, application, example
from npuscope.application import solver
from npuscope.application.first_fit import first_fit
from npuscope.application.memory import Alternative, Block, Demand, FreeRange, Place
from npuscope.application.plan import Plan, make_plan
from npuscope.application.request import Kind, read_application
from npuscope.errors import FileError


def plan_of(path: Path) -> Plan:
    return make_plan(read_application(path))


def collisions(places: tuple[Place, ...]) -> list[tuple[str, str]]:
    return [
        (a.block.name, b.block.name)
        for a, b in combinations(places, 2)
        if a.block.meets(b.block) and a.address < b.end and b.address < a.end
    ]


def test_the_example(tmp_path: Path) -> None:
    plan = plan_of(example(tmp_path))
    assert plan.fits
    assert collisions(plan.placement.places) == []
    names = {place.block.name for place in plan.placement.places}
    assert {"application image", "screen", "tagger input"} <= names
    assert plan.frame.worst_ms >= plan.frame.latency_ms > plan.frame.least_ms
    # The detector's activations and those of the tagger lie at the same place.
    homes = {p.block.name: p.address for p in plan.placement.places}
    assert homes["detector activations"] == homes["tagger activations"]


def test_buffers_of_programs_stay_inside_their_windows(tmp_path: Path) -> None:
    plan = plan_of(example(tmp_path))
    for network in plan.networks:
        own = [p for p in plan.placement.places if p.demand == network.name]
        pools = network.program.pool_map()
        for buffer in network.program.buffers:
            pool = pools[buffer.pool]
            if buffer.is_param or pool.relative:
                continue
            start = pool.address + buffer.offset
            assert any(p.address <= start and start + buffer.size_bytes <= p.end for p in own)


def test_state_is_never_shared(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    kept = text.replace(
        'model = "detector.tflite"', 'model = "detector.tflite"\nstate_bytes = 4096'
    )
    plan = plan_of(application(tmp_path, kept))
    state = next(p for p in plan.placement.places if p.block.name == "detector state")
    assert (state.block.first, state.block.last) == (0, 5)
    assert collisions(plan.placement.places) == []


def test_what_does_not_fit_and_by_how_much(tmp_path: Path) -> None:
    path = example(tmp_path, **{"count = 2\nmemory": "count = 50\nmemory"})
    plan = plan_of(path)
    (problem,) = plan.problems
    assert (problem.kind, problem.what) == ("memory", "screen")
    assert problem.amount == 50 * 768_000 - (32 << 20)


def test_a_board_without_external_ram(tmp_path: Path) -> None:
    plan = plan_of(example(tmp_path, **{"stm32n6570-dk": "nucleo-n657x0-q"}))
    assert [problem.what for problem in plan.problems] == ["screen"]
    assert plan.bandwidth is None


def test_a_missed_deadline(tmp_path: Path) -> None:
    plan = plan_of(example(tmp_path, **{"deadline_ms = 33": "deadline_ms = 1"}))
    (problem,) = plan.problems
    assert problem.kind == "deadline"
    assert problem.amount == pytest.approx(plan.frame.latency_ms - 1)


def test_without_threads_a_frame_is_the_sum_of_its_steps(tmp_path: Path) -> None:
    plan = plan_of(example(tmp_path))
    detector, tagger = (network.cost.ms for network in plan.networks)
    work = 0.4 + 0.8 + 3 * 0.5 + 2.5
    assert plan.frame.latency_ms == pytest.approx(work + detector + 3 * tagger)
    assert plan.frame.least_ms == pytest.approx(0.4 + 0.8 + 2.5 + detector)


def test_threads_overlap_but_never_on_one_unit(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace("fps = 30", "fps = 2000\nthreads = true")
    slow = text.replace('repeat = "box"\ninputs', 'repeat = "box"\nmeasured_ms = 2\ninputs')
    plan = plan_of(application(tmp_path, slow))
    serial = plan_of(application(tmp_path, slow.replace("threads = true\n", "")))
    assert plan.frame.latency_ms < serial.frame.latency_ms
    assert plan.frame.latency_ms >= plan.frame.frames[0].bound_ms - 1e-9
    assert plan.frame.interval_ms < plan.frame.latency_ms
    for slots in (plan.frame.frames[0].slots, plan.frame.steady):
        by_unit: dict[str, list[tuple[float, float]]] = {}
        for slot in slots:
            for unit, start, end in slot.busy:
                by_unit.setdefault(unit, []).append((start, end))
        for spans in by_unit.values():
            spans.sort()
            assert all(b[0] >= a[1] - 1e-6 for a, b in pairwise(spans))


def test_measured_time_is_preferred(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    path = application(
        tmp_path, text.replace('name = "detector"\n', 'name = "detector"\nmeasured_ms = 7\n')
    )
    detector = plan_of(path).networks[0]
    assert (detector.cost.ms, detector.cost.source) == (7, "measured")


# --- The two ways of placing ---

ROOMS = (
    FreeRange(Kind.NPU, 0x1000, 0x1000 + 100 * 1024),
    FreeRange(Kind.PSRAM, 0x90000000, 0x90100000),
)


def demand(name: str, *choices: tuple[float, int]) -> Demand:
    """Kilobytes on chip at a cost, else external RAM."""
    rows = [Alternative(f"{size}", (Block(name, size * 1024, Kind.NPU, 0, 1),), cost)
        for cost, size in choices]  # fmt: skip
    outside = Alternative("outside", (Block(name, 1024, Kind.PSRAM, 0, 1),), 10.0)
    return Demand(name, (*rows, outside))


def test_the_solver_beats_first_fit_and_proves_it() -> None:
    pytest.importorskip("ortools")
    demands = [demand("a", (0.0, 60), (1.0, 40)), demand("b", (0.0, 60)), demand("c", (9.0, 1))]
    greedy, best = first_fit(demands, ROOMS), solver.solved(demands, ROOMS)
    assert greedy.cost_ms > best.cost_ms == best.bound_ms == pytest.approx(11.0)
    assert collisions(best.places) == []


def test_first_fit_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "is_there", lambda: False)
    plan = plan_of(example(tmp_path))
    assert plan.fits
    assert plan.placement.bound_ms is None
    assert collisions(plan.placement.places) == []
    assert any("extra 'plan'" in note for note in plan.notes)


# --- Builds, and what threads change ---


def test_with_threads_only_activations_without_inputs_and_outputs_share(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8").replace("fps = 30", "fps = 30\nthreads = true")
    plan = plan_of(application(tmp_path, text))
    always = (0, len(plan.application.steps) - 1)
    lives = {p.block.name: (p.block.first, p.block.last) for p in plan.placement.places}
    assert set(lives.values()) == {always}
    model = 'model = "detector.tflite"'
    outside = 'inputs = "application"\noutputs = "application"'
    apart = text.replace(model, f"{model}\n{outside}").replace('inputs = "application"  ', outside)
    plan = plan_of(application(tmp_path, apart))
    lives = {p.block.name: (p.block.first, p.block.last) for p in plan.placement.places}
    shared = {name for name, ends in lives.items() if ends != always}
    assert shared == {"detector activations"}  # the tagger is one layer: it has no others
    assert collisions(plan.placement.places) == []


def test_a_build_of_others_stays_where_it_is(tmp_path: Path) -> None:
    source = app_folder(tmp_path / "other") / "Model" / "detector.c"
    text = f"""
    order = ["built", "tagger"]
    [[networks]]
    name = "built"
    build = "{source.as_posix()}"
    [[networks]]
    name = "tagger"
    model = "tagger.tflite"
    """
    plan = plan_of(application(tmp_path, text))
    assert plan.fits
    home = next(p for p in plan.placement.places if p.demand == "built")
    assert (home.address, home.block.size_bytes) == (0x34200C00, 1728)
    taken = text.replace(
        "order", '[[regions]]\nname = "R"\naddress = 0x34200000\nsize = 65536\n', 1
    )
    order = '    order = ["built", "tagger"]\n'
    inside = order + taken.replace(' = ["built", "tagger"]\n', "", 1)
    plan = plan_of(application(tmp_path, inside))
    assert [problem.what for problem in plan.problems] == ["built"]
    assert "was built for memory" in plan.problems[0].message


def test_data_types_at_the_border(tmp_path: Path) -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    model = 'model = "tagger.tflite"'
    wide = plan_of(
        application(tmp_path, text.replace(model, f'{model}\ninput_data_type = "float32"'))
    )
    narrow = plan_of(application(tmp_path, text))
    sizes = [
        next(p.block.size_bytes for p in plan.placement.places if p.block.name == "tagger input")
        for plan in (wide, narrow)
    ]
    assert sizes[0] == 4 * sizes[1]


def test_an_image_region_outside_of_the_memories(tmp_path: Path) -> None:
    """The region that the image goes into lies where no memory of the board is."""
    text = EXAMPLE.read_text(encoding="utf-8")
    region = '[[regions]]\nname = "r"\naddress = 255\nsize = 524288\n[[networks]]'
    text = text.replace("[[networks]]", region, 1)
    with pytest.raises(FileError, match="no memory of the board"):
        plan_of(application(tmp_path, text))
