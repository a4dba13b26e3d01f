"""Timing keys leave the Program alone, and timing it again gives what a fresh estimate gives."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest

from compiler.nets import Net, random_network
from npuscope.building import Build, build
from npuscope.compiler.pipeline import compile_graph
from npuscope.graph.model import Graph
from npuscope.machine.load import load_machine
from npuscope.machine.marks import KeyEffect
from npuscope.machine.model import Machine
from npuscope.machine.set_keys import Key, machine_keys, with_value
from npuscope.profiling.facts import program_hash
from npuscope.profiling.model import Profile
from npuscope.profiling.run import Retimer, RunTimes, estimate, retimer
from npuscope.program.c_info.from_program import c_info_of
from npuscope.program.c_info.to_program import program_from_c_info

TIMING = [key for key in machine_keys(load_machine()).values() if key.effect is KeyEffect.TIMING]
ON_CHIP = ("cpuRAM2", "npuRAM3", "npuRAM4", "npuRAM5", "npuRAM6")
OTHER_NAMES = {"clock": "npu_mhz", "path": "noc", "title": "another"}


def mixed() -> Graph:
    """Convolutions, a vector product, software kernels, a softmax over rows."""
    net = Net(5)
    x = net.conv(net.input((1, 16, 16, 3)), 40)
    x = net.conv(net.conv(x, 0, strides=(2, 2)), 129, (1, 1))
    x = net.add(x, net.sigmoid(x), "Mul")
    net.softmax(net.transpose(net.dequantize(x), (0, 3, 1, 2)))
    return net.graph()


def wide() -> Graph:
    """More channels than a unit holds coefficients for, and a strided depthwise layer."""
    net = Net(6)
    x = net.conv(net.input((1, 8, 8, 16)), 640, (1, 1))
    x = net.conv(net.conv(x, 0, strides=(2, 2)), 24, (1, 1))
    net.transpose(x, (0, 3, 1, 2))
    return net.graph()


NETWORKS = {
    "mixed": (mixed, {}),
    "branches": (lambda: random_network(3), {"generation": "2.2", "epoch_controller": False}),
    "tight": (
        lambda: random_network(4),
        {"overrides": {f"pools.{name}.size_kib": 1 for name in ON_CHIP}},
    ),
    "external": (
        lambda: random_network(4),
        {
            "overrides": {f"pools.{name}.size_kib": 0 for name in ON_CHIP}
            | {"placement.virtual_pool": []}
        },
    ),
    "wide": (wide, {}),
}


@cache
def prepared(name: str) -> tuple[Build, Retimer]:
    network, options = NETWORKS[name]
    made = build(network(), options)  # type: ignore[arg-type]
    return made, retimer(made.program, made.machine, made.graph)


def changed(machine: Machine, key: Key) -> Machine:
    return with_value(machine, key, _another(key))


def _another(key: Key) -> Any:
    if isinstance(key.value, str):
        return OTHER_NAMES[key.place[-1]]
    return key.value * 3 + 1


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("key", TIMING, ids=lambda key: key.name)
def test_timing_again_is_an_estimate(key: Key, network: str) -> None:
    made, timer = prepared(network)
    machine = changed(made.machine, key)
    assert timer.estimate(machine) == estimate(made.program, machine, made.graph)


def as_times(profile: Profile) -> RunTimes:
    return RunTimes(profile.total_ms, profile.interval_ms, profile.time, profile.notes)


@pytest.mark.parametrize("network", NETWORKS)
def test_many_machines_at_once(network: str) -> None:
    """Every key on its own, and three at a time, up and down: choices of the law go both ways."""
    made, timer = prepared(network)
    numbers = [key for key in TIMING if isinstance(key.value, float)]
    machines = [changed(made.machine, key) for key in TIMING]
    generator = random.Random(5)
    for _ in range(200):
        machine = made.machine
        for key in generator.sample(numbers, 3):
            machine = with_value(machine, key, key.value * generator.uniform(0.2, 5.0))
        machines.append(machine)
    wanted = tuple(as_times(timer.estimate(machine)) for machine in machines)
    assert timer.times(machines) == wanted


def test_a_program_without_unit_registers() -> None:
    made, _ = prepared("mixed")
    program = program_from_c_info(c_info_of(made.program, made.machine))
    assert None in [epoch.groups for epoch in program.executed]
    timer = retimer(program, made.machine)
    for key in TIMING:
        machine = changed(made.machine, key)
        assert timer.estimate(machine) == estimate(program, machine)
        assert timer.times([machine] * 2)[1] == as_times(timer.estimate(machine))


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("key", TIMING, ids=lambda key: key.name)
def test_timing_keys_do_not_change_the_program(key: Key, network: str) -> None:
    made, _ = prepared(network)
    assert made.graph is not None
    again = compile_graph(made.graph, changed(made.machine, key))
    assert program_hash(again) == program_hash(made.program)
    assert again.pools == made.program.pools


@pytest.mark.parametrize("network", NETWORKS)
def test_all_at_once(network: str) -> None:
    made, timer = prepared(network)
    machine = made.machine
    for key in TIMING:
        machine = changed(machine, key)
    assert made.graph is not None
    assert program_hash(compile_graph(made.graph, machine)) == program_hash(made.program)
    assert timer.estimate(machine) == estimate(made.program, machine, made.graph)
    assert timer.estimate(machine) != timer.estimate(made.machine)


def test_the_networks_feel_the_timing_keys() -> None:
    """Else the tests above would say little."""
    felt = {key.name for network in NETWORKS for key in TIMING if _feels(network, key)}
    law = {key.name for key in TIMING if key.place[0] in ("clocks", "timing")}
    rare = {
        "timing.broadcast_cycles",
        "timing.external_call_bytes",
        "timing.pair_cycles",
        "timing.product_cycles",
        "timing.strided_write_cycles",
        "timing.wide_word_cycles",
    }
    assert law - felt <= rare
    assert {
        "paths.xspi2.bytes_per_cycle",
        "pools.hyperRAM.path",
        "software.Dequantize.fixed",
    } < felt
    assert {"generation.control.pre_per_entry", "stream.engines_per_busif"} < felt


def _feels(network: str, key: Key) -> bool:
    made, timer = prepared(network)
    return timer.estimate(changed(made.machine, key)) != timer.estimate(made.machine)
