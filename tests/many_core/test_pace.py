"""One time for one set-up: sums that were fitted to published runs, the simulator, the verbs."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import npuscope
from many_core.nets import EncoderShape, encoder, graph_of
from npuscope.cli.main import main
from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.container import read_program, write_program
from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.program import Pace
from npuscope.families.many_core.setups.model import CardSetup, predict
from npuscope.families.many_core.setups.work import network_work
from npuscope.families.many_core.sim.conditions import RunOptions
from npuscope.families.many_core.sim.run import simulate

MACHINE = load_core_machine()
SHAPE = EncoderShape(layers=2, hidden=256, heads=4, sequence=128, feed_forward=1024, batch=4)


@pytest.mark.parametrize(
    ("cores", "copies", "in_flight"), [(1, 1, 1), (2, 1, 1), (4, 1, 3), (2, 5, 1), (1, 14, 2)]
)
def test_the_simulator_ends_when_the_sums_say(cores: int, copies: int, in_flight: int) -> None:
    graph = graph_of(encoder(SHAPE))
    setup = CardSetup(cores, copies, SHAPE.batch, in_flight)
    expected = predict(network_work(graph, MACHINE, SHAPE.batch), MACHINE, setup)
    program = compile_graph(graph, MACHINE, CoreCompileOptions(cores))
    options = RunOptions(24, collect=False, activations=copies, set_size=in_flight)
    ran = simulate(program, MACHINE, options).iterations[6:]
    device = fmean(one.exec_us - one.input_wait_us for one in ran) / 1e3
    assert device == pytest.approx(expected.device_ms, rel=0.05)
    period = (ran[-1].completed - ran[0].completed) / 19_200 / (len(ran) - 1)
    # Where device and host take equally long, the sums go round the corner.
    assert period == pytest.approx(expected.period_ms, rel=0.07)


def test_all_verbs_tell_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(encoder(SHAPE))
    profile = npuscope.estimate(path, machine="cloudai100", overrides={"cores.count": 2})
    found = npuscope.manycore_setups(path, cores=2, copies=1, batch=SHAPE.batch, in_flight=1)
    assert profile.total_ms == found.best.latency_ms
    assert profile.inferences_per_s == pytest.approx(found.best.inferences_per_s)
    low, high = profile.interval_ms
    assert (low, high) == pytest.approx([f * profile.total_ms for f in MACHINE.setups.interval])
    npuscope.manycore_compile(path, directory=tmp_path / "bin", cores=2)
    ran = npuscope.manycore_run(tmp_path / "bin", num_iter=20, set_size=1)
    per_run = ran.total_us / 1e3 / ran.inferences
    assert per_run == pytest.approx(profile.total_ms, rel=0.05)


def test_a_container_keeps_the_pace() -> None:
    program = compile_graph(graph_of(encoder(SHAPE)), MACHINE, CoreCompileOptions(4))
    assert program.pace != Pace()
    assert len(program.pace.slowdowns) == 3
    assert list(program.pace.slowdowns) == sorted(program.pace.slowdowns)
    assert read_program(write_program(program)).pace == program.pace


def test_a_slower_machine_is_slower_in_both() -> None:
    graph = graph_of(encoder(SHAPE))
    work = network_work(graph, MACHINE, SHAPE.batch)
    program = compile_graph(graph, MACHINE, CoreCompileOptions(2))
    slow = load_core_machine(overrides={"clocks.core_mhz": MACHINE.clocks.core_mhz / 2})
    setup = CardSetup(2, batch=SHAPE.batch)
    times = []
    for machine in (MACHINE, slow):
        ran = simulate(program, machine, RunOptions(16, collect=False)).iterations[1:]
        times.append(fmean(one.exec_us - one.input_wait_us for one in ran))
    sums = [predict(work, machine, setup).device_ms for machine in (MACHINE, slow)]
    assert times[1] / times[0] == pytest.approx(sums[1] / sums[0], rel=0.1)


@pytest.mark.parametrize("share", [0.05, 8.0])
def test_a_pace_far_from_the_rates_of_the_machine_is_kept(share: float) -> None:
    """Products that take a twentieth or eight times as long in the sums alone."""
    graph = graph_of(encoder(EncoderShape(layers=2, hidden=512, heads=8, sequence=256, batch=4)))
    machine = load_core_machine(overrides={"setups.product_share": share})
    expected = predict(network_work(graph, machine, 4), machine, CardSetup(2, batch=4))
    program = compile_graph(graph, machine, CoreCompileOptions(2))
    ran = simulate(program, machine, RunOptions(24, collect=False)).iterations[6:]
    device = fmean(one.exec_us - one.input_wait_us for one in ran) / 1e3
    assert device == pytest.approx(expected.device_ms, rel=0.05)


@pytest.mark.parametrize(("cores", "copies", "in_flight"), [(8, 1, 3), (2, 7, 1)])
def test_outputs_of_several_inferences_are_copied_side_by_side(
    tmp_path: Path, cores: int, copies: int, in_flight: int
) -> None:
    """4 MB of outputs, which PCIe has moved long before one thread of the host has copied them.

    Copies of the network take turns on the link, each for as long as its bytes need.
    """
    from npuscope.families.many_core.setups.network import timed_network

    size = 1 << 20
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, length])
        for name, length in (("x", 1), ("y", size))
    ]
    many = numpy_helper.from_array(np.arange(size, dtype=np.float32)[None] / size, "c")
    graph = helper.make_graph([helper.make_node("Add", ["x", "c"], ["y"])], "wide", ends[:1],
                              ends[1:], [many])  # fmt: skip
    path = tmp_path / "wide.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    setup = CardSetup(cores, copies, 1, in_flight)
    expected = predict(timed_network(path, MACHINE).work, MACHINE, setup)
    npuscope.manycore_compile(path, directory=tmp_path / "bin", cores=cores)
    report = npuscope.manycore_run(
        tmp_path / "bin", num_iter=20, set_size=in_flight, activations=copies
    )
    ran = report.result.iterations[6:]
    period = (ran[-1].completed - ran[0].completed) / 19_200 / (len(ran) - 1)
    assert period == pytest.approx(expected.period_ms, rel=0.1)


def test_estimate_says_what_setups_says_of_limit_and_traffic(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(encoder(SHAPE))
    assert main(["estimate", str(path), "--machine", "cloudai100", "--set", "cores.count=4"]) == 0
    estimated = capsys.readouterr().out.splitlines()
    words = ["--cores", "4", "--copies", "1", "--batch", "4", "--in-flight", "1"]
    assert main(["manycore", "setups", str(path), *words]) == 0
    searched = capsys.readouterr().out.splitlines()
    limits = [[line for line in lines if line.startswith("limit ")]
              for lines in (estimated, searched)]  # fmt: skip
    assert limits[0] == limits[1] and len(limits[0]) == 1
    best = npuscope.manycore_setups(path, cores=4, copies=1, batch=4, in_flight=1).best
    profile = npuscope.estimate(path, machine="cloudai100", overrides={"cores.count": 4})
    assert profile.figures["ddr_bytes"] == best.ddr_bytes
    assert profile.payload.tables.verdict.bound.name == best.limit.name
    traffic = next(line for line in estimated if line.startswith("DDR "))
    assert traffic.startswith(f"DDR      {best.ddr_bytes / 1e6:,.1f} MB per run, ")
