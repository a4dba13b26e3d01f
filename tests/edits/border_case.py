"""One edit of a file in memory, and what runtimes make of both."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from compiler.nets import MACHINES
from npuscope.advice.fix.workbench import BenchNetwork
from npuscope.edits import EditRequest, NotFitting, apply_edit, open_document
from npuscope.files.load import is_tflite, read_model
from npuscope.graph import Graph
from npuscope.profiling.runtimes import litert_interpreter, onnxruntime_session
from npuscope.rulebook.finding import Value


def graph_of(data: bytes) -> Graph:
    return read_model(Path("net"), data)


def applied(data: bytes, fix: str, *ops: str, **parameters: Value) -> bytes:
    """The file after one edit."""
    document = open_document("net", data)
    network = BenchNetwork(graph_of(data), MACHINES["4.0"])
    apply_edit(document, fix, EditRequest(ops, parameters, network))
    return document.to_bytes()


def edited(data: bytes, fix: str, *ops: str, **parameters: Value) -> bytes:
    """The file after an edit that changed something."""
    after = applied(data, fix, *ops, **parameters)
    assert after != open_document("net", data).to_bytes()
    return after


def misfit(data: bytes, fix: str, *ops: str, **parameters: Value) -> str:
    """Why the edit cannot be made; the file is as it was then."""
    document = open_document("net", data)
    before = document.copy().to_bytes()
    network = BenchNetwork(graph_of(data), MACHINES["4.0"])
    with pytest.raises(NotFitting) as caught:
        apply_edit(document, fix, EditRequest(ops, parameters, network))
    assert document.to_bytes() == before
    return str(caught.value)


def outside(data: bytes, seed: int = 0, batch: int = 1) -> dict[str, np.ndarray]:
    """Outputs by name on seeded inputs, by LiteRT's reference kernels or by onnxruntime."""
    random = np.random.default_rng(seed)
    return _litert(data, random) if is_tflite(data) else _onnxruntime(data, random, batch)


def _litert(data: bytes, random: np.random.Generator) -> dict[str, np.ndarray]:
    interpreter = litert_interpreter(data)
    for detail in interpreter.get_input_details():
        values = random.integers(-128, 127, detail["shape"], endpoint=True)
        interpreter.set_tensor(detail["index"], values.astype(detail["dtype"]))
    interpreter.invoke()
    details = interpreter.get_output_details()
    return {d["name"]: np.array(interpreter.get_tensor(d["index"])) for d in details}


def _onnxruntime(data: bytes, random: np.random.Generator, batch: int) -> dict[str, np.ndarray]:
    session = onnxruntime_session(data)
    values = {
        entry.name: random.uniform(
            -1, 1, [size if isinstance(size, int) else batch for size in entry.shape]
        ).astype(np.float32)
        for entry in session.get_inputs()
    }
    names = [entry.name for entry in session.get_outputs()]
    return dict(zip(names, session.run(names, values), strict=True))
