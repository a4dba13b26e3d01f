"""A program of another network is refused where its outputs have other sizes."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.nets import Net
from npuscope.errors import ModelError
from npuscope.graph.model import Graph
from npuscope.ops.run import run
from npuscope.profiling.execution import validate_execution


def network(channels: int) -> Graph:
    net = Net(3)
    return net.graph(net.conv(net.input((1, 4, 4, 8)), channels))


def test_outputs_of_another_size() -> None:
    graph, other = network(8), network(16)

    def execute(sample: object) -> dict[str, np.ndarray]:
        values = run(other, dict(zip(other.inputs, sample.values(), strict=True)))  # type: ignore[attr-defined]
        return dict(zip(graph.outputs, values.values(), strict=True))

    with pytest.raises(ModelError, match="was not made from this network"):
        validate_execution(graph, execute)  # type: ignore[arg-type]
    assert validate_execution(graph, lambda sample: run(graph, dict(sample))).passed
