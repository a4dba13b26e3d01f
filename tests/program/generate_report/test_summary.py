"""The summary of a compilation, with the names that the vendor's front end prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from compiler.nets import MACHINES, Net, compiled
from edits.border_case import graph_of
from edits.channel_nets import two_cell_denoiser
from npuscope.compiler.pipeline import compile_graph
from npuscope.files.load import load_model
from npuscope.graph.model import Activation, Graph
from npuscope.machine.load import load_machine
from npuscope.program.generate_report.summary import BuildCall, summary_lines
from npuscope.program.generate_report.vendor_macc import total_vendor_macc, vendor_macc
from npuscope.program.generate_report.writer import generate_report_text


def network() -> Graph:
    net = Net(7)
    net.conv(net.input((1, 8, 8, 4), (0.05, 3)), 8)
    return net.graph()


def values(lines: list[str]) -> dict[str, str]:
    pairs = (line.partition(":") for line in lines if ":" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def test_every_line_of_the_thread_is_there() -> None:
    graph = network()
    program = compiled(graph, "4.0")
    found = values(summary_lines(program, graph, BuildCall("out", level=3)))
    assert found["model_fmt"] == "ss/sa per channel"
    assert found["c_name"] == "network"
    assert found["target/series"] == "stm32n6npu"
    weights = sum(b.size_bytes for b in program.buffers if b.is_param)
    items = sum(t.elements for t in graph.tensors.values() if t.is_constant)
    assert found["params #"].startswith(f"{items:,} items")
    assert found["weights (ro)"].startswith(f"{weights:,} B")
    assert f"{weights - 4 * items:+,}" in found["weights (ro)"]
    assert "QLinear(0.050000001,3,int8), activations" in found["input 1/1"]
    assert found["options"] == "allocate-inputs, allocate-outputs"
    assert found["optimization"] == "balanced (--optimization 3)"
    assert found["workspace dir"] == found["output dir"] == "out"
    assert found["inputs (total)"] == found["outputs (total)"] == "0 Bytes"  # in the activations
    assert found["activations (rw)"].endswith("*")
    used = sum(p.used_bytes for p in program.pools if p.writable and not p.virtual)
    assert found["ram (total)"].endswith(f"= {used:,} + 0 + 0")


def test_the_report_holds_it() -> None:
    graph = network()
    program = compiled(graph, "4.0")
    text = generate_report_text(program, MACHINES["4.0"], graph)
    for line in summary_lines(program, graph):
        assert line in text


def test_weights_in_ram_count_where_activations_are() -> None:
    """The published network of 257 bins without external memory: 435,585 bytes in one segment."""
    graph = graph_of(two_cell_denoiser())
    sizes = {"pools.octoFlash.size_kib": 0, "pools.hyperRAM.size_kib": 0}
    machine = load_machine(generation="2.2", overrides=sizes)
    program = compile_graph(graph, machine)
    found = values(summary_lines(program, graph))
    size, _, segments = found["activations (rw)"].partition(" B (")
    assert segments.endswith("(1 segment) *")
    assert int(size.replace(",", "")) == pytest.approx(435_585, rel=0.03)
    assert found["ram (total)"].endswith(f"= {size} + 0 + 0")
    weights, _, segments = found["weights (ro)"].partition(" B (")
    assert "(4 segments)" in segments
    assert int(weights.replace(",", "")) == pytest.approx(1_287_937, rel=0.02)


def test_the_arguments_are_spelled_as_the_vendors() -> None:
    graph = network()
    program = compiled(graph, "4.0")
    call = BuildCall("out", level=3, mpool="a.mpool", words=("compile", "net"), date="today")
    text = generate_report_text(program, MACHINES["4.0"], graph, call=call)
    assert "Created date          : today\nParameters            : compile net\n" in text
    line = next(line for line in text.splitlines() if line.startswith("Compiler arguments:"))
    for words in (
        '-g "network.c"',
        '--load-mpool "a.mpool" --save-mpool-file "out/stm32n6.mpool"',
        '--out-dir-prefix "out/" --optimization 3 --enable-epoch-controller',
        '--output-info-file "c_info.json"',
    ):
        assert words in line


def test_multiply_accumulates_as_the_vendor_counts_them() -> None:
    """The published report of a 64x64x3 image, 64 kernels of 3x3, ReLU and mean: 7,602,240."""
    net = Net()
    x = net.conv(net.input((1, 64, 64, 3)), 64, activation=Activation.RELU)
    net.mean(x)
    graph = net.graph()
    rows = [vendor_macc(graph, op) for op in graph.ops]
    assert rows[0] == 7_077_952 + 262_144
    assert sum(rows) == 7_602_240
    found = values(summary_lines(compiled(graph, "2.2"), graph))
    assert found["macc"] == "7,602,240 as the vendor counts, 7,077,888 products"


def test_published_totals(shared_models: Path) -> None:
    files = shared_models.parent / "artefacts" / "PeleAB__STM32N6-FaceRecognition"
    path = files / "input_models" / "centerface.tflite"
    if not path.exists():
        pytest.skip("the network is not at hand")
    assert total_vendor_macc(load_model(path)) == 100_287_399
