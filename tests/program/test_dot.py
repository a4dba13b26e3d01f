"""The program as a Graphviz graph."""

from __future__ import annotations

import re

import pytest

from compiler.nets import MACHINES, Net, compiled
from npuscope.compiler.pipeline import compile_graph
from npuscope.demo_network import demo_graph
from npuscope.machine.load import load_machine
from npuscope.profiling.run import estimate
from npuscope.program.conv_modes import conv_modes
from npuscope.program.dot import dot_text
from npuscope.program.units import Streng
from npuscope.report.profile import epoch_lines
from program.network_c.nets import HOSTILE, kernels, renamed


@pytest.fixture(scope="module")
def program():
    return compiled(demo_graph())


def test_a_cluster_an_epoch_and_a_node_a_unit(program):
    text = dot_text(program)
    assert text.count("subgraph cluster_") == len(program.executed)
    units = sum(len(epoch.units) for epoch in program.executed)
    assert len(re.findall(r"^ {4}e\d+_0_\w+ \[label", text, re.MULTILINE)) == units
    assert 'e23 [label="Softmax"];' in text


def test_buffers_lie_between_epochs(program):
    text = dot_text(program)
    number = next(i for i, b in enumerate(program.buffers) if b.name == "image")
    reader = next(u for u in program.epochs[1].units if isinstance(u, Streng) and not u.dir)
    assert f"  b{number} -> e2_0_STRENG_{reader.id};" in text
    assert "weights" not in text


def test_times_of_a_profile(program):
    graph = demo_graph()
    profile = estimate(program, MACHINES["4.0"], graph)
    text = dot_text(program, profile)
    run = next(run for run in profile.epochs if run.first == 2)
    rate = run.claims.ops / 2 / run.counters.core_cycles
    assert f"{run.ms:.3f} ms, {rate:.1f} MAC/cycle\\nbound by {run.counters.bound.value}" in text


def test_hostile_names_stay_inside_their_strings():
    """Without its strings the graph holds only our own words."""
    text = dot_text(compiled(renamed(kernels(), HOSTILE)))
    rest = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    assert re.fullmatch(r'[\w\s{}\[\];:=,.">-]*', rest)
    assert "error" not in rest
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", text)


def test_a_gemm_shows_its_mode_and_its_choked_port() -> None:
    """The published question: 16x8 because of FSUB, no Deep1x1, and weights that are used once.
    Without flash behind it, it does one MAC (two operations) per cycle."""
    net = Net()
    net.dense(net.input((1, 256), (0.02, 5)), 1024)
    graph = net.graph()
    sizes = {"pools.octoFlash.size_kib": 0, "pools.hyperRAM.size_kib": 0}
    machine = load_machine(generation="2.2", overrides=sizes)
    program = compile_graph(graph, machine)
    profile = estimate(program, machine, graph)
    text = dot_text(program, profile)
    assert "simd 16x8, FSUB = 5: no Deep1x1" in text
    assert "choked ports = (weights)" in text
    assert "1.0 MAC/cycle\\n" in text
    assert "the vendor's graph calls it 2 MAC" in text
    (epoch,) = profile.epochs
    assert epoch.modes == ("simd 16x8, FSUB = 5: no Deep1x1",)
    lines = epoch_lines(profile, epoch)
    assert "  conv mode            : simd 16x8, FSUB = 5: no Deep1x1" in lines
    assert any(line.endswith("choked ports = (weights)") for line in lines)


@pytest.mark.parametrize(
    ("zero", "mode"), [(0, "simd 8x8, Deep1x1"), (-128, "simd 8x8, Deep1x1"), (7, "simd 16x8, ")]
)
def test_modes_follow_the_zero_point(zero: int, mode: str) -> None:
    net = Net()
    net.conv(net.input((1, 4, 4, 64), (0.02, zero)), 16, (1, 1))
    modes = {
        mode for epoch in compiled(net.graph(), "4.0").executed for mode in conv_modes(epoch.units)
    }
    assert len(modes) == 1 and modes.pop().startswith(mode)
