"""One time for one set-up: the simulator keeps the pace of what was fitted to published runs.

The simulator knows the order of the ops and what waits for what, the sums of setups/model.py how
long real cards took. A program carries how much longer (or shorter) all of it takes than the rates
of its machine say, so that it ends when the sums say it does, alone and beside copies of itself.
"""

from __future__ import annotations

from npuscope.errors import TargetError
from npuscope.families.many_core.compiler.depth_first import batch_of
from npuscope.families.many_core.container_prog import MOST_PACE
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.program import CoreProgram, Pace
from npuscope.families.many_core.setups.levers import levers
from npuscope.families.many_core.setups.model import CardSetup, predict, weights_stay
from npuscope.families.many_core.setups.work import network_work
from npuscope.families.many_core.sim.conditions import steady_conditions, to_us
from npuscope.families.many_core.sim.events import run_inference
from npuscope.families.many_core.sim.plan import CardPlan, Costs, plan_of
from npuscope.graph.model import Graph
from npuscope.structs import replace

# A share of a time that counts for nothing. Sums know nothing of the latency of single transfers;
# where all of it is less than this beside the host's time, the simulator keeps it.
_HARDLY = 0.03
_STAY = (
    "constants stay in VTCM from run to run, so that times are without their loads; op by op, the "
    "simulated program loads them in every inference"
)


def paced(program: CoreProgram, graph: Graph, machine: CoreMachine) -> CoreProgram:
    """Of several devices nothing was published: they keep the rates of the machine."""
    if len(program.devices) > 1:
        return program
    batch, cores = batch_of(graph), program.layout.cores
    work = network_work(graph, machine, batch)
    try:
        simulated = _device_us(plan_of(program, Costs(machine)))
    except TargetError:  # a machine on which the run itself will say that it never ends
        return program
    expected, *beside = (
        1e3 * predict(work, machine, CardSetup(cores, copies, batch)).device_ms
        for copies in range(1, max(machine.cores.count // cores, 1) + 1)
    )
    loads_us = work.weight_bytes / machine.ddr.effective_gb_per_s / 1e3
    stay = weights_stay(work, machine, CardSetup(cores, batch=batch))
    if stay and loads_us > _HARDLY * expected:
        layout = replace(program.layout, notes=(*program.layout.notes, _STAY))
        program = replace(program, layout=layout)
    ways = levers(work, cores, machine)
    program = replace(program, layout=replace(program.layout, levers=ways))
    slowdowns = tuple(_thousandths(us / expected) for us in beside)
    alone = expected / simulated
    if simulated < _HARDLY * machine.host.fixed_us:
        alone = max(alone, 1.0)
    return replace(program, pace=Pace(_thousandths(alone), slowdowns))


def paced_plan(program: CoreProgram, costs: Costs) -> CardPlan:
    """As paced() says; with copies, what sharing costs the simulator already counts once."""
    pace, copies = program.pace.alone / 1000, costs.copies
    if 1 < copies <= len(program.pace.slowdowns) + 1:
        bare = replace(costs, level=0, pace=pace)
        alone, together = (
            _device_us(plan_of(program, replace(bare, copies=number))) for number in (1, copies)
        )
        pace *= program.pace.slowdowns[copies - 2] / 1000 * alone / together
    return plan_of(program, replace(costs, pace=pace))


def _device_us(plan: CardPlan) -> float:
    return to_us(max(run_inference(plan, steady_conditions(plan)).barrier))


def _thousandths(factor: float) -> int:
    return min(max(round(1e3 * factor), 1), MOST_PACE)
