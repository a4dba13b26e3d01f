"""The simulator against figures of real runs.

An encoder of BERT's sizes with a batch of 8 on two cores, as in a published profile; a product that
waits for DDR. Rates of HVX ops and of transfers were taken from that profile, so that they have to
come out again; times and traffic follow from what the compiler makes of it.
"""

from __future__ import annotations

import pytest

from many_core.nets import EncoderShape, encoder, graph_of, wide_product
from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.opstats.model import OpRow
from npuscope.families.many_core.opstats.tables import opstats_of
from npuscope.families.many_core.program import CoreProgram
from npuscope.families.many_core.records import UTIMER_HZ, SectionId
from npuscope.families.many_core.sim.conditions import RunOptions
from npuscope.families.many_core.sim.run import simulate
from npuscope.graph.model import Graph

# Cycles of the core's clock per KB of output.
CALIBRATED = {
    "aicsoftmax": 245.9,
    "elementerf": 107.2,
    "aiclayernormd32": 75.6,
    "aictranspose": 57.7,
    "aicconvertweightstod32": 39.5,
    "aicbroadcastadd": 31.6,
    "aicconverttod32": 28.8,
    "elementmul": 18.2,
    "aicmulsplat": 12.0,
    "elementadd": 12.7,
    "aicconvertfromd32": 15.8,
    "aicaddsplat": 12.3,
}
# KB that a core's ops of a kind write in one layer: what the compiler made, not how fast it is.
WRITTEN = {
    "aicsoftmax": 1536,
    "elementerf": 3072,
    "aictranspose": 3072,
    "aicconverttod32": 3072,
    "aicconvertfromd32": 4608,
    "aicconvertweightstod32": 1536,
    "elementmul": 3072,
    "aicmulsplat": 6144,
    "aicaddsplat": 3072,
    "aiclayernormd32": 1536,
    "elementadd": 1536,
}
LAYERS = 2
# By the number of its products; how many share a partial sum was fitted to this figure.
FITTED_BLOCK = {"aicconvolutiond32": 29.7}
# Ticks a KB: own rate and latency, while both cores share DDR and network.
TRANSFERS = {"aiccopytovtcm": 0.81, "aicmulticastvtcm": 0.20}


@pytest.fixture(scope="module")
def program() -> CoreProgram:
    shape = EncoderShape(LAYERS, hidden=768, heads=12, sequence=128, feed_forward=3072, batch=8)
    options = CoreCompileOptions(cores=2, stats_level=70, ddr_stats=True)
    return compile_graph(graph_of(encoder(shape)), load_core_machine(), options)


@pytest.fixture(scope="module")
def bert(program: CoreProgram) -> Stats:
    run = RunOptions(iterations=2, start_iteration=1)
    return simulate(program, load_core_machine(), run).stats[0]


@pytest.fixture(scope="module")
def rows(bert: Stats) -> list[OpRow]:
    """The op table of core 0."""
    return list(opstats_of(bert).cores[0].ops)


def of_kind(rows: list[OpRow], kind: str) -> list[OpRow]:
    return [row for row in rows if row.details.split()[0] == kind]


@pytest.mark.parametrize(("kind", "seen"), [*CALIBRATED.items(), *FITTED_BLOCK.items()])
def test_cycles_a_kb_are_those_that_were_seen(rows: list[OpRow], kind: str, seen: float) -> None:
    mine = of_kind(rows, kind)
    cycles = sum(row.pcycles or 0 for row in mine)
    kilobytes = sum(row.out_kb or 0.0 for row in mine)
    assert cycles / kilobytes == pytest.approx(seen, rel=0.15)


@pytest.mark.parametrize(("kind", "seen"), WRITTEN.items())
def test_ops_write_what_was_seen(rows: list[OpRow], kind: str, seen: float) -> None:
    written = sum(row.out_kb or 0.0 for row in of_kind(rows, kind))
    before = 768 if kind == "aicconverttod32" else 0  # the input of the first layer
    assert written == LAYERS * seen + before


def test_cycles_of_a_layer_are_those_that_were_seen(bert: Stats) -> None:
    """28.56 million for 12 layers, at whatever clock."""
    threads = bert.of(SectionId.THREAD_INF)
    cycles = int((threads["end_pc"] - threads["start_pc"]).max())
    assert cycles / LAYERS == pytest.approx(28_559_104 / 12, rel=0.15)


def test_ddr_traffic_is_the_weights_once(bert: Stats, program: CoreProgram) -> None:
    """170,670 KB for 12 layers; what else is read and written are inputs and outputs."""
    traffic = bert.of(SectionId.DDR_CORE)
    moved = int(traffic["rd_bytes"].sum() + traffic["wr_bytes"].sum())
    ends = sum(binding.bytes for binding in (*program.inputs, *program.outputs))
    assert (moved - ends) / LAYERS == pytest.approx(170_670 * 1024 / 12, rel=0.05)
    assert not [text for text in program.warnings if "do not fit" in text]


def test_both_engines_are_as_busy_as_was_seen(bert: Stats) -> None:
    threads = {thread.thread: thread for thread in opstats_of(bert).cores[0].threads}
    assert threads[0].utilization == pytest.approx(0.60, rel=0.20)
    assert threads[4].utilization == pytest.approx(0.55, rel=0.20)


@pytest.mark.parametrize(("kind", "seen"), TRANSFERS.items())
def test_ticks_a_kb_are_those_that_were_seen(rows: list[OpRow], kind: str, seen: float) -> None:
    mine = of_kind(rows, kind)
    ticks = sum(row.ucycles for row in mine)
    assert ticks / sum(row.out_kb or 0.0 for row in mine) == pytest.approx(seen, rel=0.15)


def test_every_hvx_op_but_asynchronous_transfers_has_one_barrier(
    bert: Stats, program: CoreProgram
) -> None:
    for core, tables in enumerate(opstats_of(bert).cores):
        joined = [op for op in program.devices[0].ops[core][0] if not op.info.asynchronous]
        [barrier] = [row for row in tables.ops if row.details == "barrier HVX"]
        assert barrier.count == len(joined) > 40


@pytest.fixture(scope="module")
def from_ddr() -> Graph:
    """64 MiB of weights for one row of values: more than 16 cores keep from run to run."""
    return graph_of(wide_product(inputs=4096, outputs=8192))


def run_on(graph: Graph, cores: int) -> Stats:
    """The second inference: its input is there when it starts."""
    options = CoreCompileOptions(cores=cores, stats_level=70, ddr_stats=True)
    made = compile_graph(graph, load_core_machine(), options)
    run = RunOptions(iterations=2, start_iteration=1)
    return simulate(made, load_core_machine(), run).stats[0]


@pytest.mark.parametrize("cores", [8, 16])
def test_a_product_that_waits_for_ddr_gets_what_ddr_has(from_ddr: Graph, cores: int) -> None:
    """Two copies of BERT were seen to read 119 GB of weights a second."""
    stats = run_on(from_ddr, cores)
    threads = stats.of(SectionId.THREAD_INF)
    seconds = int(threads["end_uc"].max() - threads["start_uc"].min()) / UTIMER_HZ
    read = int(stats.of(SectionId.DDR_CORE)["rd_bytes"].sum())
    assert read >= 4096 * 8192 * 2
    assert read / seconds == pytest.approx(120e9, rel=0.10)


def test_two_cores_do_not_fill_ddr(from_ddr: Graph) -> None:
    """Each is held by its own engine: 0.753 ticks a KB and latency are 24.5 GB/s."""
    moves = run_on(from_ddr, 2).of(SectionId.DMA_REC)
    seconds = int(moves["done_uc"].max() - moves["issue_uc"].min()) / UTIMER_HZ
    assert int(moves["bytes"].sum()) / seconds == pytest.approx(48.5e9, rel=0.05)
