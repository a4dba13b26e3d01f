"""Values of networks are computed once, and are those of the executor."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models import mobilenet_like, save, to_tflite
from npuscope.advice.fix import results
from npuscope.advice.fix.numeric import input_values, seeded_inputs
from npuscope.advice.fix.results import Results
from npuscope.files.load import load_model
from npuscope.graph.model import Graph, Op
from npuscope.ops.run import run, trace


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return load_model(save(tmp_path, "net.tflite", to_tflite(mobilenet_like())))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[Op]]:
    """The ops of every run of the executor."""
    found: list[list[Op]] = []

    def watched(part: Graph, *given: object) -> object:
        found.append(part.ops)
        return run(part, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(results, "run", watched)
    return found


def inputs_of(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    return input_values(graph, seeded_inputs(graph, seed))


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)


def changed(graph: Graph, place: int) -> Graph:
    """Another scale behind one op."""
    edited = graph.copy()
    name = edited.ops[place].outputs[0]
    tensor = edited.tensor(name)
    assert tensor.quant is not None
    quant = type(tensor.quant)((tensor.quant.scale * 2,), tensor.quant.zero_points)
    edited.tensors[name] = type(tensor)(name, tensor.shape, tensor.dtype, quant)
    return edited


def test_everything_is_what_the_executor_gives(graph: Graph) -> None:
    known, inputs = Results(), inputs_of(graph)
    assert same(known.run(graph, inputs), run(graph, inputs))
    assert same(known.trace(graph, inputs), trace(graph, inputs))


def test_nothing_runs_twice(graph: Graph, ran: list[list[Op]]) -> None:
    known = Results()
    known.run(graph, inputs_of(graph))
    known.trace(graph.copy(), inputs_of(graph))
    assert [len(ops) for ops in ran] == [len(graph.ops)]


def test_other_data_runs_again(graph: Graph, ran: list[list[Op]]) -> None:
    known = Results()
    known.run(graph, inputs_of(graph))
    assert same(known.run(graph, inputs_of(graph, 1)), run(graph, inputs_of(graph, 1)))
    assert len(ran) == 2


def test_an_edited_network_runs_from_the_edit_on(graph: Graph, ran: list[list[Op]]) -> None:
    known, edited = Results(), changed(graph, 3)
    known.run(graph, inputs_of(graph))
    assert same(known.run(edited, inputs_of(graph)), run(edited, inputs_of(graph)))
    assert ran[1] == edited.ops[3:]


def test_a_changed_constant_runs_again(graph: Graph, ran: list[list[Op]]) -> None:
    known, edited = Results(), graph.copy()
    known.run(graph, inputs_of(graph))
    weights = edited.tensor(edited.ops[-2].inputs[1])
    assert weights.data is not None
    data = weights.data.copy()
    data.flat[0] ^= 1
    edited.tensors[weights.name] = type(weights)(
        weights.name, weights.shape, weights.dtype, weights.quant, data
    )
    assert same(known.run(edited, inputs_of(graph)), run(edited, inputs_of(graph)))
    assert ran[1]


def test_too_much_to_keep(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_MOST_BYTES", 10)
    known = Results()
    for _ in range(2):
        assert same(known.run(graph, inputs_of(graph)), run(graph, inputs_of(graph)))
