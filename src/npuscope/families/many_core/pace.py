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
from npuscope.families.many_core.setups.model import CardSetup, predict
from npuscope.families.many_core.setups.work import network_work
from npuscope.families.many_core.sim.conditions import steady_conditions, to_us
from npuscope.families.many_core.sim.events import run_inference
from npuscope.families.many_core.sim.plan import CardPlan, Costs, plan_of
from npuscope.families.many_core.sim.pmu import ddr_bytes
from npuscope.graph.model import Graph
from npuscope.structs import replace

# Networks of published runs are within this. Tiny ones would be beyond it: sums know nothing of the
# latency of single transfers, which hardly counts beside the host.
_LEAST, _MOST = 0.4, 2.5


def paced(program: CoreProgram, graph: Graph, machine: CoreMachine) -> CoreProgram:
    """Of several devices nothing was published: they keep the rates of the machine."""
    if len(program.devices) > 1:
        return program
    plan = plan_of(program, Costs(machine))
    try:
        simulated = _device_us(plan)
    except TargetError:  # a machine on which the run itself will say that it never ends
        return program
    batch, cores = batch_of(graph), program.layout.cores
    work = network_work(graph, machine, batch)
    expected, *beside = (
        1e3 * predict(work, machine, CardSetup(cores, copies, batch)).device_ms
        for copies in range(1, max(machine.cores.count // cores, 1) + 1)
    )
    # What stays in VTCM from run to run is loaded by every one that is simulated, at most at the
    # rate that DDR has.
    traffic = sum(sum(ddr_bytes(task)) for task in plan.tasks)
    expected = max(expected, traffic / machine.ddr.peak_gb_per_s / 1e3)
    slowdowns = tuple(_thousandths(us / expected) for us in beside)
    alone = min(max(expected / simulated, _LEAST), _MOST)
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
