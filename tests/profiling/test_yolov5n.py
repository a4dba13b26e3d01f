"""The network of the vendor's profiling page, rebuilt: its whole-model part, the epoch it prints.

The page was made with ST Edge AI 2.0, without the epoch controller. Its weights and zero points are
not public; a sibling of three classes, built with the same compiler, is, and has such figures.
"""

from __future__ import annotations

import pytest

from edits.border_case import graph_of
from npuscope.compiler.pipeline import CompileOptions, compile_graph
from npuscope.machine.load import load_machine
from npuscope.profiling.model import Profile
from npuscope.profiling.run import profile
from npuscope.program.model import Program
from profiling.yolov5n import block_186, yolov5n

MACHINE = load_machine(generation="2.0", epoch_controller=False)
PAGE_MS = 16.431  # the total beside its epochs


def build(data: bytes) -> tuple[Program, Profile]:
    graph = graph_of(data)
    program = compile_graph(graph, MACHINE, CompileOptions(optimization=3))
    return program, profile(program, MACHINE, graph)


@pytest.fixture(scope="module")
def whole() -> tuple[Program, Profile]:
    return build(yolov5n())


def test_inputs_and_outputs_are_those_of_the_page() -> None:
    graph = graph_of(yolov5n())
    (picture,), (boxes,) = graph.inputs, graph.outputs
    assert graph.tensor(picture).shape == (1, 224, 224, 3)
    assert graph.tensor(boxes).shape == (1, 3087, 6)


def test_the_compilers_figures(whole: tuple[Program, Profile]) -> None:
    claims = [epoch.claims for epoch in whole[0].epochs if epoch.claims]
    assert sum(c.max_cycles for c in claims) == pytest.approx(15_424_817, rel=0.02)
    assert sum(c.compute_cycles for c in claims) == pytest.approx(7_485_802, rel=0.03)
    assert sum(c.ops for c in claims) == pytest.approx(510_646_150, rel=0.003)
    flash = [a.reads for c in claims for a in c.accesses if a.pool == "octoFlash"]
    assert sum(flash) == pytest.approx(1_758_190, rel=0.005)


def test_time_and_epochs(whole: tuple[Program, Profile]) -> None:
    program, run = whole
    assert run.total_ms == pytest.approx(PAGE_MS, rel=0.05)
    assert len(program.executed) == pytest.approx(199, rel=0.1)


def test_x_times_sigmoid_has_the_units_that_its_layer_left() -> None:
    """Three arithmetic units behind the stem: the product is alone, its corrections follow; behind
    other layers, with two, the first correction joins it. As in two public builds of 2.0."""
    program, _ = build(yolov5n())
    found = [epoch.operators for epoch in program.executed]
    stem, second = [n for n, names in enumerate(found) if "Sigmoid" in names][:2]
    assert found[stem + 1 : stem + 3] == [("Mul",), ("Sub", "Sub")]
    assert found[second + 1 : second + 3] == [("Mul", "Sub"), ("Sub",)]


def test_the_epoch_that_the_page_prints() -> None:
    program, run = build(block_186())
    (epoch,) = program.executed
    assert sorted(epoch.operators) == ["Add", "Add", "Conv", "Mul", "Sigmoid"]
    assert program.unit_counts(epoch) == {"CONVACC": 4, "ARITH": 3, "ACTIV": 1, "STRENG": 8}
    assert epoch.claims is not None
    assert (epoch.claims.compute_cycles, epoch.claims.max_cycles) == (4_608, 27_648)
    assert epoch.claims.ops == pytest.approx(453_348, rel=0.003)
    (timed,) = run.epochs
    assert timed.counters is not None
    assert timed.counters.core_cycles == pytest.approx(13_300, rel=0.04)
    assert sum(bus.write_bytes for bus in timed.counters.busif) == 7_960
    assert sum(bus.read_bytes for bus in timed.counters.busif) == pytest.approx(24_288, rel=0.01)
