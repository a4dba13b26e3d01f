from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import npuscope
from models import mobilenet_like, save, to_onnx, to_tflite
from npuscope import building
from npuscope.demo_network import demo_graph
from npuscope.graph.model import DType
from npuscope.machine.load import load_machine
from npuscope.profiling.model import Provenance


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))


def test_a_program_remembers_its_model(model: Path) -> None:
    program = npuscope.compile(model)
    assert program.model_file == "net.tflite"
    assert program.model_md5 == hashlib.md5(model.read_bytes()).hexdigest()


def test_a_graph_is_taken_as_it_is() -> None:
    graph = demo_graph()
    made = building.build(graph, {"generation": "2.2", "epoch_controller": False})
    assert made.graph is graph
    assert made.machine == load_machine(generation="2.2", epoch_controller=False)
    assert made.program.generation == "2.2"


def test_a_machine_is_taken_as_it_is() -> None:
    machine = load_machine(overrides={"npu.clock_mhz": 123})
    assert building.build(demo_graph(), {"machine": machine}).machine is machine


def test_io_types_show_in_the_graph_and_the_program(model: Path) -> None:
    made = building.build(model, {"input_data_type": "float32", "output_data_type": "float32"})
    tensors = [made.graph.tensor(made.graph.inputs[0]), made.graph.tensor(made.graph.outputs[0])]
    assert [tensor.dtype for tensor in tensors] == [DType.FLOAT32, DType.FLOAT32]
    assert made.program.inputs == made.graph.inputs
    assert made.program.outputs == made.graph.outputs


def test_the_verbs_are_functions_of_the_package(model: Path) -> None:
    estimated = npuscope.estimate(model, generation="4.0")
    profiled = npuscope.profile(str(model), batch=3)
    assert estimated.total_ms == pytest.approx(profiled.total_ms)
    assert estimated.runs[0].source is Provenance.ESTIMATE
    assert (profiled.runs[0].source, profiled.runs[0].n) == (Provenance.SIMULATION, 3)


def test_a_slower_clock_takes_longer(model: Path) -> None:
    slow = npuscope.estimate(model, overrides={"npu.clock_mhz": 500})
    assert slow.total_ms > 1.3 * npuscope.estimate(model).total_ms


def test_both_formats_of_a_network_take_the_same_time(tmp_path: Path, model: Path) -> None:
    """They differ only in the layout change at the channel-first input."""
    onnx = save(tmp_path, "net.onnx", to_onnx(mobilenet_like()))
    ours = [e.counters.core_cycles for e in npuscope.estimate(model).epochs]
    theirs = [e.counters.core_cycles for e in npuscope.estimate(onnx).epochs]
    assert theirs[1:] == ours


def test_validation_checks_the_reference_against_an_outside_runtime(model: Path) -> None:
    result = npuscope.validate(model, seeds=2)
    assert result.passed
    assert result.reference.name == "litert"
    assert result.reference.mismatches == 0


def test_reasons_are_values_too(model: Path) -> None:
    explained = npuscope.explain(model)
    assert "NA-SOFTMAX" in {finding.rule for finding in explained.findings}
    assert "LINT-SOFTMAX" in {finding.rule for finding in npuscope.lint(model)}
