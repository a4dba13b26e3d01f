"""One time for one set-up: sums that were fitted to published runs, the simulator, the verbs."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

import npuscope
from many_core.nets import EncoderShape, encoder, graph_of
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
