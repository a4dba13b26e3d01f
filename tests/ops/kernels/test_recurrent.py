"""Recurrent layers and single places against onnxruntime, with sizes that are prime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from models import OnnxWriter, save
from npuscope.errors import TargetError
from npuscope.files.load import load_model
from npuscope.ops.run import run
from npuscope.ops.table import total_macs
from npuscope.profiling.runtimes import onnxruntime_session

pytest.importorskip("onnxruntime")
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, BATCH, INPUTS, UNITS = 5, 2, 3, 7


def layer(kind: str, direction: str, states: bool, **attrs: Any) -> OnnxWriter:
    rng = np.random.default_rng(11)
    directions = 2 if direction == "bidirectional" else 1
    rows = GATES[kind] * UNITS

    def real(*shape: int) -> np.ndarray:
        return (rng.normal(size=shape) / 2).astype(np.float32)

    w = OnnxWriter()
    shapes = ((directions, rows, INPUTS), (directions, rows, UNITS), (directions, 2 * rows))
    names = [w.constant(real(*shape)) for shape in shapes]
    if states:
        count = 2 if kind == "LSTM" else 1
        names += ["", *(w.constant(real(directions, BATCH, UNITS)) for _ in range(count))]
    outputs = ["y", "last", "cells"][: 3 if kind == "LSTM" else 2]
    x = w.input("x", (STEPS, BATCH, INPUTS))
    attrs = {"hidden_size": UNITS, "direction": direction, **attrs}
    w.nodes.append(helper.make_node(kind, [x, *names], outputs, **attrs))
    return w


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("states", [False, True])
def test_layers(kind: str, direction: str, states: bool, tmp_path: Path) -> None:
    w = layer(kind, direction, states)
    outputs = dict.fromkeys(["y", "last", "cells"][: 3 if kind == "LSTM" else 2])
    _compare(tmp_path, w.finish(outputs))


def test_a_gru_that_resets_last(tmp_path: Path) -> None:
    w = layer("GRU", "forward", True, linear_before_reset=1)
    _compare(tmp_path, w.finish({"y": None, "last": None}))


def _compare(folder: Path, data: bytes) -> None:
    path = save(folder, "m.onnx", data)
    x = np.random.default_rng(1).normal(size=(STEPS, BATCH, INPUTS)).astype(np.float32)
    wanted = onnxruntime_session(str(path)).run(None, {"x": x})
    graph = load_model(path)
    found = run(graph, {"x": x})
    for name, values in zip(graph.outputs, wanted, strict=True):
        np.testing.assert_allclose(found[name], values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("outputs", [["y"], ["cells"], ["y", "last", "cells"]])
def test_macs_of_a_layer(outputs: list[str], tmp_path: Path) -> None:
    """What the cells hold is a result of the same work."""
    data = layer("LSTM", "forward", False).finish(dict.fromkeys(outputs))
    graph = load_model(save(tmp_path, "m.onnx", data))
    assert total_macs(graph) == STEPS * BATCH * 4 * UNITS * (INPUTS + UNITS)


def test_other_activations_are_work_of_unknown_cost(tmp_path: Path) -> None:
    data = layer("RNN", "forward", False, activations=["Relu"]).finish({"y": None})
    graph = load_model(save(tmp_path, "m.onnx", data))
    with pytest.raises(TargetError, match=r"does not compute \(RNN: "):
        run(graph, {"x": np.zeros((STEPS, BATCH, INPUTS), np.float32)})
