"""Runs of small networks, for tests of advice."""

from __future__ import annotations

from compiler.nets import MACHINES, Net
from npuscope.advice.subject import Subject
from npuscope.building import Build
from npuscope.compiler.pipeline import compile_graph
from npuscope.graph.model import Activation, Graph
from npuscope.machine.model import Machine
from npuscope.profiling.run import estimate
from npuscope.structs import replace

LATEST = MACHINES["4.0"]
RELU, RELU6 = Activation.RELU, Activation.RELU6


def build(graph: Graph, machine: Machine = LATEST) -> Build:
    return Build(graph, machine, compile_graph(graph, machine))


def run(graph: Graph, machine: Machine = LATEST) -> Subject:
    """Compiled and timed."""
    made = build(graph, machine)
    profile = estimate(made.program, machine, graph)
    return Subject(made.program, profile, machine, graph)


def without_trail(subject: Subject) -> Subject:
    """As a vendor's file has it: no reasons."""
    epochs = tuple(replace(epoch, trail=()) for epoch in subject.program.epochs)
    program = replace(subject.program, epochs=epochs)
    return Subject(program, subject.profile, subject.machine, subject.graph)


def only_pools(machine: Machine, *names: str, size_bytes: int = 0) -> Machine:
    """The machine with some of its pools, perhaps of another size."""
    pools = [pool for pool in machine.pools if pool.name in names]
    resized = (replace(p, size_bytes=size_bytes) if size_bytes and p.writable else p for p in pools)
    return machine.with_pools(tuple(resized))


def on_chip(machine: Machine = LATEST) -> Machine:
    return machine.with_pools(tuple(pool for pool in machine.pools if not pool.cacheable))


def clean_network() -> Graph:
    """A small MobileNet as one should be: int8, good channel counts, nothing for the CPU."""
    net = Net(3)
    x = net.input((1, 64, 64, 3), (1 / 128, 0))
    x = net.conv(x, 16, strides=(2, 2), activation=RELU6)
    for channels in (24, 32):
        x = net.conv(x, 48, (1, 1), activation=RELU6)
        x = net.conv(x, 0, strides=(2, 2), activation=RELU6)
        x = net.conv(x, channels, (1, 1), activation=RELU)
    scale = net.quant(x).scale
    y = net.conv(net.conv(x, 0, activation=RELU6), 32, (1, 1), quant=(scale, -128))
    x = net.add(x, y, quant=(2 * scale, -128))
    x = net.conv(x, 64, (1, 1), activation=RELU6)
    net.dense(net.mean(x), 10)
    return net.graph()
