"""The program as a Graphviz graph."""

from __future__ import annotations

import re

import pytest

from compiler.nets import MACHINES, compiled
from npuscope.demo_network import demo_graph
from npuscope.profiling.run import estimate
from npuscope.program.dot import dot_text
from npuscope.program.units import Streng
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
