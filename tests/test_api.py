from __future__ import annotations

import hashlib
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from npuscope import api
from npuscope.graph.model import Graph
from npuscope.machine.load import load_machine
from npuscope.program.model import Program

GRAPH = Graph("net", (), (), (), ())
PROGRAM = Program("net", "stm32n6", "4.0", True, (), (), (), (), ())


@dataclass(frozen=True)
class CompileOptions:
    optimization: int = 3
    input_data_type: str | None = None
    output_data_type: str | None = None


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A compiler that notes what it was asked for."""
    seen: list[Any] = []

    def compile_graph(graph: Graph, machine: Any, options: CompileOptions) -> Program:
        seen.append((graph, machine, options))
        return PROGRAM

    module = types.ModuleType("npuscope.compiler.pipeline")
    module.__dict__.update(CompileOptions=CompileOptions, compile_graph=compile_graph)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(api, "load_model", lambda path, shapes: GRAPH)
    return seen


def test_a_program_remembers_its_model(compiled: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(b"bytes of a model")
    program = api.compile(path, output_data_type="float32")
    assert program.model_file == "net.tflite"
    assert program.model_md5 == hashlib.md5(b"bytes of a model").hexdigest()
    assert compiled[0][0] is GRAPH
    assert compiled[0][2] == CompileOptions(output_data_type="float32")


def test_a_graph_is_taken_as_it_is(compiled: list[Any]) -> None:
    made = api.build(GRAPH, {"generation": "2.2", "epoch_controller": False})
    assert made.program == PROGRAM
    assert made.machine == load_machine(generation="2.2", epoch_controller=False)


def test_a_machine_is_taken_as_it_is(compiled: list[Any]) -> None:
    machine = load_machine(overrides={"npu.clock_mhz": 123})
    assert api.build(GRAPH, {"machine": machine}).machine is machine


def test_runs_get_the_whole_build(compiled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("npuscope.profile.run")
    module.__dict__.update(
        estimate=lambda program, machine, graph: ("estimate", program, machine.name, graph),
        profile=lambda program, machine, graph, batch: ("profile", batch),
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert api.estimate(GRAPH) == ("estimate", PROGRAM, "stm32n6", GRAPH)
    assert api.profile(GRAPH, batch=3) == ("profile", 3)
