"""What to change: other set-ups of the network, and what could be had at most."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.opstats.lever import Lever, LeverKind, helpful
from npuscope.families.many_core.setups.model import CardSetup, SetupPrediction, predict
from npuscope.families.many_core.setups.search import AS_GOOD, MOST_BATCH, MOST_IN_FLIGHT
from npuscope.families.many_core.setups.work import NetworkWork
from npuscope.structs import replace

_BATCHES = (2, 8)  # times the inferences of a run


def levers(work: NetworkWork, cores: int, machine: CoreMachine) -> tuple[Lever, ...]:
    """Those that help, the best first; all are compared with one copy and one in flight.

    Times are those of the sums whose pace the simulator keeps.
    """
    setup = CardSetup(cores, batch=work.batch)
    now = predict(work, machine, setup).inferences_per_s

    def gain(row: SetupPrediction) -> float:
        return row.inferences_per_s / now

    ways: list[Lever] = []
    # Fewer cores a copy and more copies, as far as the device has cores; or more cores.
    most = machine.cores.count
    for used in sorted({cores, max(cores // 2, 1), max(cores // 4, 1), 1, most}):
        for copies in sorted({1, most // used} - {0}):
            if (used, copies) != (cores, 1):
                row = predict(work, machine, replace(setup, cores=used, copies=copies))
                way = Lever(LeverKind.CORES, gain(row), row.latency_ms, cores=used, copies=copies)
                ways.append(way)
    for times in (times for times in _BATCHES if times * work.batch <= MOST_BATCH):
        row = predict(work, machine, replace(setup, batch=times * work.batch))
        ways.append(Lever(LeverKind.BATCH, gain(row), row.latency_ms, batch=times))
    if work.batch > 1:
        rows = [predict(work, machine, replace(setup, batch=b)) for b in range(1, work.batch)]
        row = max(rows, key=lambda one: one.inferences_per_s)
        ways.append(Lever(LeverKind.SMALLER, gain(row), row.latency_ms, batch=row.setup.batch))
    counts = range(1, MOST_IN_FLIGHT + 1)
    queued = [predict(work, machine, replace(setup, in_flight=count)) for count in counts]
    enough = AS_GOOD * max(row.inferences_per_s for row in queued)
    row = next(row for row in queued if row.inferences_per_s >= enough)
    ways.append(Lever(LeverKind.QUEUE, gain(row), row.latency_ms, in_flight=row.setup.in_flight))
    room = cores * machine.memory.vtcm_bytes
    for kind, other_work, other_machine in _bounds(work, machine):
        row = predict(other_work, other_machine, setup)
        obstacle = ""
        if kind is LeverKind.KEEP and work.weight_bytes > room:
            obstacle = f"{work.weight_bytes / 1e6:,.1f} MB do not fit {room / 1e6:,.1f}"
        ways.append(Lever(kind, gain(row), row.latency_ms, bound=True, obstacle=obstacle))
    # As precise as a container has them.
    return helpful(replace(way, gain=round(way.gain, 6), ms=round(way.ms, 6)) for way in ways)


def _bounds(
    work: NetworkWork, machine: CoreMachine
) -> Iterator[tuple[LeverKind, NetworkWork, CoreMachine]]:
    """Where something takes no time: what a change could bring at most."""
    costs = machine.setups
    resident = replace(
        costs, resident_bytes=max(costs.resident_bytes, round(work.weight_bytes) + 1)
    )
    yield LeverKind.KEEP, work, replace(machine, setups=resident)
    joined = replace(costs, tile_cycles=0.0, join_cycles=0.0, gather_cycles=0.0)
    yield LeverKind.JOIN, work, replace(machine, setups=joined)
    halves = work.products & (work.macs_per_cycle < machine.hmx.int8_macs_per_cycle)
    if halves.any():
        # Half the bytes on all roads and in all vectors, a quarter over PCIe, HMX at its rate.
        rate = np.where(halves, machine.hmx.int8_macs_per_cycle, work.macs_per_cycle)
        small = replace(
            work,
            macs_per_cycle=rate,
            reads=work.reads / 2,
            writes=work.writes / 2,
            held=work.held / 2,
            weights=work.weights / 2,
            cycles=work.cycles / 2,
            input_bytes=work.input_bytes // 4,
            output_bytes=work.output_bytes // 4,
        )
        yield LeverKind.INTEGERS, small, machine
