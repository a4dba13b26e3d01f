"""Compiled programs as wholes: everything is there, in order, for every number of cores."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from onnx import TensorProto

from many_core.compiler_checks import check_program
from many_core.nets import (
    EncoderShape,
    bert_base,
    convolutions,
    encoder,
    graph_of,
    integer_net,
    wide_product,
    zoo,
)
from models_onnx import OnnxWriter
from npuscope.errors import ModelError, UsageError
from npuscope.families.many_core.buffer import write_buffer
from npuscope.families.many_core.compiler.options import RECIPES, CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.container import read_program, write_program
from npuscope.families.many_core.layout import Pmu
from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.program import CoreOp, CoreProgram, Space
from npuscope.graph.model import Graph
from npuscope.structs import replace

MACHINE = load_core_machine()
NETS = {
    "encoder": encoder(),
    "convolutions": convolutions(),
    "integer": integer_net(),
    "product": wide_product(256, 1024),
    "zoo": zoo(),
}
# Kinds with published figures, as one encoder has to show them all.
PUBLISHED = {
    *("aicconvolutiond32", "aicsoftmax", "elementerf", "aiclayernormd32", "aictranspose"),
    *("aicconvertweightstod32", "aicbroadcastadd", "aicconverttod32", "elementmul"),
    *("aicmulsplat", "elementadd", "aiccopytovtcm", "aicmulticastvtcm"),
}


def _compile(data: bytes, **options: object) -> CoreProgram:
    return compile_graph(graph_of(data), MACHINE, CoreCompileOptions(**options))


def _ops(program: CoreProgram, device: int = 0) -> list[CoreOp]:
    return program.devices[device].all_ops()


@pytest.mark.parametrize(("cores", "devices"), [(1, 1), (2, 1), (7, 1), (16, 1), (4, 2), (2, 3)])
@pytest.mark.parametrize("net", NETS)
def test_programs_are_whole_and_never_stuck(net: str, cores: int, devices: int) -> None:
    program = _compile(NETS[net], cores=cores, devices=devices)
    check_program(graph_of(NETS[net]), program)
    assert program.layout.cores == cores and len(program.devices) == devices


def test_ops_have_the_names_of_published_summaries() -> None:
    """Two summaries of a language model; the open compiler that the vendor's is made of has these
    names for the same ops."""
    x = OnnxWriter()
    a = x.node("Sigmoid", x.input("a", (2, 8, 64)))
    b = x.node("Slice", a, *(x.constant(np.array([n])) for n in (0, 5, 1)))
    c = x.node("Concat", a, b, axis=1)
    place = x.node("Cast", x.node("ArgMax", c, axis=2), to=TensorProto.FLOAT)
    x.node("Add", x.node("ReduceMax", c, axes=[2]), place, output="out")
    kinds = {op.info.kind for op in _ops(_compile(x.finish({"out": (2, 13, 1)}), cores=2))}
    moves = {"extracttensor", "inserttensor", "convertto"}
    assert {"sigmoid", "argmax", "aicbatchedreducemax", *moves} <= kinds


def test_the_same_network_gives_the_same_program() -> None:
    first, second = (_compile(encoder(), stats_level=70) for _ in range(2))
    assert first == second
    assert write_program(first) == write_program(second)
    other = _compile(encoder(), stats_level=50)
    assert other.layout.program_uuid != first.layout.program_uuid


def test_a_container_gives_the_program_back() -> None:
    program = _compile(encoder(), cores=3, devices=2, stats_level=70)
    assert read_program(write_program(program)) == program


def test_an_encoder_has_every_op_with_a_published_speed() -> None:
    program = _compile(encoder(bert_base()), cores=2)
    assert {op.info.kind for op in _ops(program)} >= PUBLISHED


def test_parts_of_a_product_add_up() -> None:
    data = wide_product(600, 1000, 5)
    program = _compile(data, cores=3)
    products = [op for op in _ops(program) if op.info.kind == "aicconvolutiond32"]
    assert sum(op.info.macs for op in products) == program.macs == 600 * 1000 * 5
    # At most 192 products a value and op, in whole blocks of 32 channels.
    parts = ("0 to 160", "160 to 320", "320 to 480", "480 to 600")
    assert {op.info.attributes for op in products} == {f"channels {p} of 600" for p in parts}
    firsts = [op for op in products if op.info.attributes == "channels 0 to 160 of 600"]
    assert len(products) == 4 * len(firsts)
    assert sum(op.info.out_bytes for op in firsts) == 2 * 1000 * 5
    assert sorted({op.core for op in products}) == [0, 1, 2]


def test_weights_are_read_from_ddr_once() -> None:
    program = _compile(encoder(bert_base()), cores=4)
    read = sum(op.info.rd_bytes for op in _ops(program) if op.transfer is not None)
    inputs = sum(binding.bytes for binding in program.inputs)
    # Small constants and inputs are fetched by every core; the matrices are not.
    assert program.constant_bytes < read < program.constant_bytes * 1.02 + 4 * inputs


def test_shared_weights_go_to_all_other_cores() -> None:
    """Rows are split where they are many: then every core needs all weights."""
    # Parts of a sum of 192 products by 512 channels are loaded one by one, by one core after the
    # other: 4 of them.
    program = _compile(wide_product(768, 512, 4096), cores=4)
    sent = [op for op in _ops(program) if op.info.kind == "aicmulticastvtcm"]
    assert {(op.core, op.transfer.receivers) for op in sent} == {
        (core, 0b1111 & ~(1 << core)) for core in range(4)
    }
    assert sum(op.transfer.bytes for op in sent) == 768 * 512 * 2


def test_neighbours_exchange_their_halo_only() -> None:
    program = _compile(convolutions(size=64, channels=32), cores=4)
    sent = [op for op in _ops(program) if op.info.kind == "aicmulticastvtcm"]
    halos = [op for op in sent if op.info.name.startswith("maxpool_")]
    assert {op.info.shape for op in halos} == {(1, 1, 32, 32)}
    assert sorted((op.core, op.transfer.receivers) for op in halos) == [
        (0, 0b0010),
        (1, 0b0001),
        (1, 0b0100),
        (2, 0b0010),
        (2, 0b1000),
        (3, 0b0100),
    ]


def test_integers_stay_integers_and_floats_become_halves() -> None:
    integers = {t for op in _ops(_compile(integer_net())) for t in op.info.dtypes}
    assert integers <= {"i8", "index32", "index64"}
    program = _compile(encoder())
    assert {t for op in _ops(program) for t in op.info.dtypes} == {
        "float16",
        "i8",
        "index32",
        "index64",
    }
    assert {data.dtype.name for data in program.constants.values()} == {"float16"}
    assert program.layout.notes[0].startswith("float values have 16 bits")
    assert [(b.name, b.dtype, b.bytes) for b in program.inputs] == [
        ("tokens", "float16", 32 * 128 * 2),
        ("mask", "float16", 64),
    ]


def test_each_core_waits_once_for_the_host_and_tells_it_once() -> None:
    program = _compile(encoder(), cores=4)
    waits = Counter((op.core, op.port_wait) for op in _ops(program) if op.port_wait is not None)
    assert waits == Counter({(core, port): 1 for core in range(4) for port in (100, 101)})
    told = [op for op in _ops(program) if op.semaphore is not None]
    assert Counter((op.core, op.semaphore) for op in told) == Counter(
        {(core, number): 1 for core in range(4) for number in (0, 1)}
    )
    keys = {op.key: op for op in _ops(program)}
    for op in told:
        kinds = {keys[key].info.kind for key in op.waits_for}
        assert kinds == {"aiccopytovtcm" if op.semaphore == 0 else "aiccopyfromvtcm"}


def test_devices_send_to_each_other_in_pairs() -> None:
    program = _compile(encoder(), cores=2, devices=2)
    sent, received = Counter(), Counter()
    for device in range(2):
        for op in _ops(program, device):
            if op.transfer is None or Space.PEER not in (op.transfer.source, op.transfer.target):
                continue
            pair = (op.core, op.info.attributes, op.transfer.bytes)
            side = sent if op.transfer.target is Space.PEER else received
            side[pair] += 1
            port = next(p for p in program.layout.ports if p.id == op.transfer.port)
            assert port.peer == op.transfer.peer == 1 - device
            assert port.incoming == (op.transfer.source is Space.PEER) == (op.port_wait == port.id)
    assert sent == received and sent
    names = [network.name for network in program.layout.specializations]
    assert names == ["QAicGraph_slice00", "QAicGraph_slice01"]
    ports = {(port.id, port.name) for port in program.layout.ports if port.kind == "p2p"}
    assert ports == {(102, "0->1"), (103, "1<-0"), (104, "1->0"), (105, "0<-1")}


def test_dependencies_are_the_waits() -> None:
    program = _compile(encoder(), cores=3)
    waits = {(key, op.key) for op in _ops(program) for key in op.waits_for}
    edges = program.layout.specializations[0].dependencies
    assert {(edge.source, edge.target) for edge in edges} == waits
    assert len(edges) == len(waits)
    assert {edge.data for edge in edges} == {True, False}


def test_cores_without_work_are_left_out_unless_asked_for() -> None:
    small = wide_product(32, 64)
    assert _compile(small).layout.cores == 2
    program = _compile(small, cores=5)
    assert program.layout.cores == 5
    assert [len(groups[1]) for groups in program.devices[0].ops] == [2, 2, 1, 1, 1]
    assert "out: FullyConnected uses 2 of 5 cores" in program.warnings


@pytest.mark.parametrize("level", [0, 40, 50, 70, 100])
@pytest.mark.parametrize("devices", [1, 2])
def test_the_last_op_writes_the_whole_stats_buffer(level: int, devices: int) -> None:
    from npuscope.families.many_core.sim.conditions import RunOptions
    from npuscope.families.many_core.sim.run import simulate

    program = _compile(
        encoder(),
        cores=3,
        devices=devices,
        stats_level=level,
        ddr_stats=level > 0,
        pmu=Pmu("KernelUtil", RECIPES["KernelUtil"]) if level else Pmu(),
    )
    for stats in simulate(program, MACHINE, RunOptions()).stats:
        ops = program.devices[stats.specialization].all_ops()
        ends = {op.info.out_bytes for op in ops if op.info.kind == "aicendcyclestats"}
        assert ends == {len(write_buffer(stats))}


def test_levels_between_take_the_lower_one_and_say_so() -> None:
    program = _compile(encoder(), stats_level=75)
    assert program.layout.stats_level == 70
    assert program.layout.notes[0] == "level 75 collects what level 70 does"
    assert _compile(encoder(), stats_level=39).layout.notes[0] == (
        "level 39 collects nothing: 40 is the lowest that does"
    )


def test_ops_of_the_network_keep_their_names() -> None:
    program = _compile(encoder(EncoderShape(layers=1)), cores=2)
    soft = [op.info for op in _ops(program) if op.info.kind == "aicsoftmax"]
    assert [info.name for info in soft] == ["softmax_" + soft[0].name.split("_")[1] + "__0"] * 2
    assert all(info.origin[0].startswith("Softmax:") for info in soft)
    assert soft[0].operands[-1].startswith("out TCM Activation softmax_")
    assert soft[0].operands[-1].endswith(f"{soft[0].out_bytes / 1024:.2f}KB")


def test_what_cannot_be_compiled_is_refused() -> None:
    empty = Graph("empty", (), (), (), ())
    with pytest.raises(ModelError, match="no ops"):
        compile_graph(empty, MACHINE)
    with pytest.raises(UsageError, match="17 cores: cloudai100 has 1 to 16"):
        _compile(encoder(), cores=17)
    with pytest.raises(UsageError, match="0 devices"):
        _compile(encoder(), devices=0)


def test_an_input_may_be_an_output() -> None:
    graph = graph_of(encoder())
    graph.outputs = (*graph.outputs, "mask")
    program = compile_graph(graph, MACHINE, CoreCompileOptions(cores=2))
    copies = [op.info.name for op in _ops(program) if op.info.kind == "aiccopyfromvtcm"]
    assert "mask/__1" in copies


def test_the_graph_is_not_changed() -> None:
    graph = graph_of(convolutions())
    ops, tensors = list(graph.ops), dict(graph.tensors)
    compile_graph(graph, MACHINE, replace(CoreCompileOptions(), cores=2))
    assert graph.ops == ops and graph.tensors == tensors


def test_constants_beyond_a_half_float_are_cut_off_and_told() -> None:
    graph = graph_of(wide_product(8, 64))
    name = graph.ops[0].inputs[1]
    data = np.full((64, 8), -3e38, np.float32)
    graph.tensors[name] = replace(graph.tensors[name], data=data)
    program = compile_graph(graph, MACHINE)
    assert program.constants[name].min() == -65504
    assert f"{name}: values beyond 65504 are clipped" in program.warnings
