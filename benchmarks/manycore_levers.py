"""Levers of published set-ups: what a program states beside what compiling and simulating gives.

    python benchmarks/manycore_levers.py CSV [RUNS]

`estimate` and `opstats` print the levers that a program states. Each that another set-up is (cores,
copies, batch, in flight) is compiled and run; those that name a bound are left out. CSV as for
manycore_published.py.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
from manycore_published import Row, read_rows
from published_nets import network

from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.machine import CoreMachine, load_core_machine
from npuscope.families.many_core.opstats.lever import Lever, LeverKind
from npuscope.families.many_core.setups.levers import levers
from npuscope.families.many_core.setups.work import network_work
from npuscope.families.many_core.sim.conditions import RunOptions
from npuscope.families.many_core.sim.run import simulate

_RUNS, _BEGIN = 20, 4


def rate(
    row: Row, machine: CoreMachine, cores: int, copies: int, batch: int, in_flight: int = 1
) -> float:
    """Inferences per second, simulated."""
    graph = network(row.network._replace(batch=batch))
    program = compile_graph(graph, machine, CoreCompileOptions(cores))
    options = RunOptions(_RUNS, collect=False, activations=copies, set_size=in_flight)
    ran = simulate(program, machine, options).iterations[_BEGIN:]
    ticks = (ran[-1].completed - ran[0].completed) / (len(ran) - 1)
    return copies * batch * machine.clocks.utimer_hz / ticks


def changed(lever: Lever, cores: int, batch: int) -> tuple[int, int, int, int]:
    if lever.kind is LeverKind.QUEUE:
        return cores, 1, batch, lever.in_flight
    if lever.kind is LeverKind.CORES:
        return lever.cores, lever.copies, batch, 1
    return cores, 1, lever.batch if lever.kind is LeverKind.SMALLER else lever.batch * batch, 1


def main() -> int:
    machine, rows = load_core_machine(), read_rows(Path(sys.argv[1]))
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    chosen = random.Random(34).sample(rows, len(rows))
    # Families in turn, no set-up twice.
    order = sorted(
        {(row.network, row.setup.cores, row.setup.batch): row for row in chosen}.values(),
        key=lambda row: [one for one in chosen if one.family == row.family].index(row),
    )
    errors = []
    for row in order:
        if len(errors) >= wanted:
            break
        cores, batch = row.setup.cores, row.setup.batch
        work = network_work(network(row.network._replace(batch=batch)), machine, batch)
        ways = [one for one in levers(work, cores, machine) if not one.bound]
        if not ways:
            continue
        lever, now = random.Random(str(row)).choice(ways), rate(row, machine, cores, 1, batch)
        came = rate(row, machine, *changed(lever, cores, batch)) / now
        errors.append(came / lever.gain - 1)
        print(f"{row.model[:30]:30} {cores:2} cores, batch {batch:2}: {lever.name:34} promised "
              f"{lever.gain:6.2f}x, came {came:6.2f}x", flush=True)  # fmt: skip
    off = np.abs(errors)
    print(f"{len(off)} levers: median {np.median(off):.1%} off, {np.mean(off <= 0.15):.0%} within "
          f"15 %, largest {max(off):.0%}")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
