"""Our own reports, read back."""

from __future__ import annotations

import pytest

from npuscope.compiler.pipeline import compile_graph
from npuscope.demo_network import demo_graph
from npuscope.graph.model import Graph
from npuscope.machine.load import load_machine
from npuscope.machine.model import Machine
from npuscope.profiling.run import estimate
from npuscope.program.generate_report import GenerateReport, generate_report_text
from npuscope.program.generate_report.lines import split_lines
from npuscope.program.generate_report.reader import parse_generate_report
from npuscope.program.generate_report.usage import pool_usage
from npuscope.program.generate_report.vendor_macc import total_vendor_macc
from npuscope.program.generate_report.writer import amount
from npuscope.program.model import Call, Epoch, EpochKind, Program
from npuscope.structs import replace
from program.sample import sample

MACHINE = load_machine()


def read_back(program: Program, machine: Machine = MACHINE, **more) -> GenerateReport:
    text = generate_report_text(program, machine, **more)
    report = parse_generate_report(split_lines(text, "ours"))
    assert report.ignored == ()
    return report


@pytest.fixture(scope="module", params=["2.2", "3.0", "4.0", "open"])
def built(request) -> tuple[Graph, Machine, Program]:
    machine = load_machine(generation=request.param)
    graph = demo_graph()
    return graph, machine, compile_graph(graph, machine)


def test_counts_pools_and_epochs_come_back(built) -> None:
    graph, machine, program = built
    report = read_back(program, machine, graph=graph, profile=estimate(program, machine, graph))
    assert report.counts is not None
    # The reports of 2.x count epochs without work as such of the NPU.
    idle = program.count(EpochKind.EMPTY) if program.generation == "2.2" else 0
    assert report.counts.total == len(program.executed) + idle
    assert report.count(EpochKind.HW) == program.count(EpochKind.HW) + idle
    for kind in (EpochKind.SW, EpochKind.HYBRID):
        assert report.count(kind) == program.count(kind)
    for pool, line in zip(pool_usage(program), report.pools, strict=True):
        assert (line.name, line.start) == (pool.name, pool.address)
        assert line.size.bytes == line.end - line.start == pool.size_bytes
        used = pool.weights_bytes + pool.activations_bytes
        # Three decimals of a unit.
        assert line.used.amount.bytes == pytest.approx(used, abs=0.001 * max(used, 1024))
    assert report.entry("estimated duration").endswith(" ms")


def test_layers_come_back(built) -> None:
    graph, machine, program = built
    report = read_back(program, machine, graph=graph)
    rows = report.layers[len(graph.inputs) :]
    assert len(rows) == len(graph.ops)
    assert sum(row.macc or 0 for row in rows) == total_vendor_macc(graph)
    assert dict(report.model_totals)["macc"] == total_vendor_macc(graph)
    for row, op in zip(rows, graph.ops, strict=True):
        variable = [name for name in op.inputs if name and not graph.tensor(name).is_constant]
        assert len(row.inputs) == len(variable)


def epochs_of(program: Program) -> list[tuple[int, int, str, str]]:
    return [(e.first, e.last, e.mark, e.details) for e in read_back(program).epochs]


def test_a_blob_takes_one_row() -> None:
    assert epochs_of(sample()) == [(1, 2, "EC", ""), (3, 3, "SW", "Softmax"), (5, 5, "HW", "")]


def test_the_old_style_has_a_row_for_every_epoch() -> None:
    hybrid = Epoch(6, 6, EpochKind.HYBRID, call=Call("Concat", (), ()))
    program = sample()
    program = replace(program, generation="2.2", epochs=(*program.epochs, hybrid))
    assert epochs_of(program) == [
        (1, 1, "EC", ""),
        (3, 3, "-SW-", "Softmax"),
        (4, 4, "EC", ""),
        (5, 5, "HW", ""),
        (6, 6, "??", ""),
    ]


def test_foreign_names_do_not_break_the_report() -> None:
    evil = Call("Soft|max\n\x1b[31m", (), ())
    program = replace(
        sample(),
        name="a\nb",
        model_file="\x1b]0;x\x07",
        epochs=(Epoch(1, 1, EpochKind.SW, call=evil),),
    )
    text = generate_report_text(program, MACHINE)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert epochs_of(program) == [(1, 1, "SW", r"Soft/max\n\x1b[31m")]


def test_amounts_have_the_usual_form() -> None:
    assert amount(0) == "         0  B"
    assert amount(12320) == "    12.031 kB"
    assert amount(112 << 20) == "   112.000 MB"


def test_the_range_of_a_pool_ends_at_a_step_of_16_bytes() -> None:
    report = read_back(sample())
    assert [(row.name, row.ranges) for row in report.used_ranges] == [
        ("ram", ((0x34200000, 0x34200300),)),
        ("flash", ((0x70000020, 0x70000080),)),
    ]
