"""Our programs as c_info.json and back; the dialects; the estimate of memory power."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compiler.nets import GENERATIONS, MACHINES, Net, compiled, random_network, uint8_network
from npuscope.demo_network import demo_graph
from npuscope.graph.model import Graph, Quant
from npuscope.machine.load import load_machine
from npuscope.program.c_info import c_info_json, c_info_of, program_from_c_info, read_c_info
from npuscope.program.c_info.from_epochs import memory_power_mw
from npuscope.program.model import Buffer, Call, Epoch, EpochKind, Program
from npuscope.structs import replace
from program.c_info.small import ARTEFACTS, written
from program.sample import sample

MACHINE = load_machine()


def held(program: Program) -> Program:
    """The program as far as c_info has keys for it."""
    buffers = (replace(b, tensor="", block="", coefficients=False) for b in program.buffers)
    return replace(
        program,
        buffers=tuple(buffers),
        epochs=tuple(held_epoch(epoch) for epoch in program.epochs),
        source="c_info",
        notes=(),
    )


def held_epoch(epoch: Epoch) -> Epoch:
    call = replace(epoch.call, args=()) if epoch.call else None
    return replace(epoch, groups=None, trail=(), call=call)


def back(program: Program, folder: Path) -> Program:
    """Without what stands there in place of registers."""
    return replace(whole(program, folder), stated_units=())


def whole(program: Program, folder: Path) -> Program:
    value = c_info_json(c_info_of(program, MACHINE))
    return program_from_c_info(read_c_info(written(folder, value)))


def softmax_network() -> Graph:
    net = Net(2)
    x = net.conv(net.input((1, 9, 7, 3)), 8)
    return net.graph(net.softmax(net.reshape(net.mean(x), (1, 8))))


def float_network() -> Graph:
    net = Net(3)
    x = net.quantize(net.input((1, 6, 6, 3), None), (0.02, 3))
    return net.graph(net.dequantize(net.transpose(net.conv(x, 5), (0, 3, 1, 2))))


GRAPHS = {
    "demo": demo_graph,
    "branches": lambda: random_network(3),
    "more branches": lambda: random_network(8),
    "uint8": uint8_network,
    "softmax": softmax_network,
    "float": float_network,
}


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_compiled_programs_come_back(graph: str, generation: str, tmp_path: Path) -> None:
    program = compiled(GRAPHS[graph](), generation)
    assert back(program, tmp_path) == held(program)


def test_the_sample_comes_back_but_for_what_no_key_holds(tmp_path: Path) -> None:
    """An epoch of several numbers has one node; blobs are counted from one."""
    exact = replace(sample().buffers[0], quant=Quant((0.5,), (-3,)))  # 0.1 is no float32
    program = replace(sample(), buffers=(exact, *sample().buffers[1:]))
    first = replace(held(program).epochs[0], last_number=1, blob=1)
    expected = replace(held(program), epochs=(first, *held(program).epochs[1:]))
    assert back(program, tmp_path) == expected


@pytest.mark.parametrize("shape", [(5,), (1, 6), (1, 5, 6), (4, 5, 6), (1, 3, 4, 6), (2, 3, 4, 6)])
@pytest.mark.parametrize("batch", [1, 2, 0])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_layouts_come_back(shape, batch: int, axis: int | None, tmp_path: Path) -> None:
    place = None if axis is None else axis % len(shape)
    count = 1 if place is None else shape[place]
    quant = Quant((0.5,) * count, (3,) * count, place)
    made = Buffer("b", 4, shape, 8, batch or shape[-1], "ram", 900, quant=quant)
    program = replace(sample(), buffers=(*sample().buffers, made))
    assert back(program, tmp_path).buffers[-1] == made


@pytest.mark.parametrize("nbits", [8, 16, 32])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("quant", [None, Quant((0.25,), (1,))])
def test_formats_come_back(nbits: int, signed: bool, quant: Quant | None, tmp_path: Path) -> None:
    made = Buffer("b", 4, (1, 4), nbits, 4, "", signed=signed, quant=quant)
    program = replace(sample(), buffers=(*sample().buffers, made))
    assert back(program, tmp_path).buffers[-1] == made


def test_an_input_that_is_left_out(tmp_path: Path) -> None:
    call = Call("Resize", ("x", "", "y"), ("z",))
    epoch = Epoch(1, 1, EpochKind.SW, ("Resize",), call=call, groups=None)
    program = replace(sample(), epochs=(epoch,))
    assert back(program, tmp_path).epochs == (epoch,)


def nodes(generation: str) -> list[dict]:
    program = compiled(softmax_network(), generation)
    value = c_info_json(c_info_of(program, MACHINES[generation]))
    assert json.loads(json.dumps(value)) == value
    assert value["json_schema_version"] == "2.0"
    return value["graphs"][0]["nodes"]


def test_the_early_dialect() -> None:
    first, *_, last = nodes("2.2")
    conv = nodes("2.2")[2]["subgraph_nodes"][0]
    assert (first["name"], first["mapping"], last["mapping"]) == ("epoch_0", "NODE_HW", "NODE_SW")
    assert conv["description"] == "Node kind=Conv"
    assert "type" not in conv and conv["attributes"] == {}
    assert {inner["description"] for inner in first["subgraph_nodes"]} == {"Node kind=Param"}


@pytest.mark.parametrize("generation", ["3.0", "4.0", "open"])
def test_the_later_dialect(generation: str) -> None:
    first, *rest, last = nodes(generation)
    assert first["mapping"] == last["mapping"] == "NODE_NO_X"
    inner = [operator for node in rest for operator in node["subgraph_nodes"]]
    conv = next(operator for operator in inner if operator["type"] == "Conv")
    assert conv["attributes"]["HWUnit"].startswith("CONV_ACC_V2 ")
    assert "description" not in conv
    assert last["subgraph_nodes"][0]["type"] == "Return"


def test_edges_lead_from_maker_to_reader() -> None:
    value = c_info_json(c_info_of(compiled(softmax_network()), MACHINE))
    graph = value["graphs"][0]
    buffers = {buffer["id"]: buffer["name"] for buffer in value["buffers"]}
    flow = [edge for edge in graph["edges"] if edge["edge_kind"] == "EDGE_FLOW"]
    memory = [edge for edge in graph["edges"] if edge["edge_kind"] == "EDGE_MEMORY"]
    names = {node["id"]: node["name"] for node in graph["nodes"]}
    assert flow[0]["name"] == "epoch_dep_0_1"
    assert names[flow[-1]["end"]["node_id"]] == graph["nodes"][-1]["name"]
    assert {edge["name"] for edge in memory} <= set(buffers.values())
    assert all(buffers[edge["buffer"]] == edge["name"] for edge in memory)


def test_a_blob_is_started_once() -> None:
    program = compiled(demo_graph())
    value = c_info_json(c_info_of(program, MACHINE))
    (blob,) = value["ec_blobs_info"]
    controlled = [n["id"] for n in value["graphs"][0]["nodes"] if n["mapping"] == "NODE_EC"]
    assert blob["nodes_id"] == controlled
    assert blob["name"] == f"_ec_blob_{program.name}_2"
    flow = [e for e in value["graphs"][0]["edges"] if e["edge_kind"] == "EDGE_FLOW"]
    assert [e["end"]["node_id"] for e in flow if e["end"]["node_id"] in controlled] == [
        controlled[0]
    ]


def test_memory_power_of_public_builds() -> None:
    """The estimate, cut to whole milliwatts, against what the files state."""
    files = sorted(ARTEFACTS.rglob("*c_info.json"))
    if not files:
        pytest.skip("the public builds are not on this machine")
    pairs = [pair for file in files for pair in hardware_power(file)]
    exact = sum(int(found) == stated for found, stated in pairs)
    assert len(pairs) > 200 and exact / len(pairs) > 0.95
    assert all(0.9 * stated - 1 <= int(found) <= stated for found, stated in pairs)


def hardware_power(file: Path) -> list[tuple[float, float]]:
    """(estimated, stated) of every hardware epoch."""
    info = read_c_info(file)
    rows = {row.node_id: row.average_memory_power_mw for row in info.power_estimates or ()}
    stated = {node.name: rows[node.id] for node in (info.graphs or ())[0].nodes}
    program = program_from_c_info(info)
    return [
        (memory_power_mw(epoch, program, MACHINE), stated[f"epoch_{epoch.number}"])
        for epoch in program.epochs
        if epoch.kind is EpochKind.HW
    ]
