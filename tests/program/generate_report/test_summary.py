"""The summary of a compilation, with the names that the vendor's front end prints."""

from __future__ import annotations

from compiler.nets import MACHINES, Net, compiled
from npuscope.graph.model import Graph
from npuscope.program.generate_report.summary import summary_lines
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
    found = values(summary_lines(program, graph, "out"))
    assert found["model_fmt"] == "ss/sa per channel"
    assert found["c_name"] == "network"
    assert found["target/series"] == "stm32n6npu"
    weights = sum(b.size_bytes for b in program.buffers if b.is_param)
    items = sum(t.elements for t in graph.tensors.values() if t.is_constant)
    assert found["params #"].startswith(f"{items:,} items")
    assert found["weights (ro)"].startswith(f"{weights:,} B")
    assert f"{weights - 4 * items:+,}" in found["weights (ro)"]
    assert "QLinear(0.050000001,3,int8), activations" in found["input 1/1"]
    assert found["inputs (total)"] == "256 Bytes"
    assert found["activations (rw)"].endswith("*")
    used = sum(p.used_bytes for p in program.pools if p.writable and not p.virtual)
    assert found["ram (total)"].endswith(f"= {used:,} + 0 + 0")


def test_the_report_holds_it() -> None:
    graph = network()
    program = compiled(graph, "4.0")
    text = generate_report_text(program, MACHINES["4.0"], graph)
    for line in summary_lines(program, graph):
        assert line in text
