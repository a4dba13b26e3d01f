"""Runs one group of units with all frames of a unit at once, where nothing forbids it.

Engines read everything, each unit computes its frames in one array, and engines store at the
end. A group that reads what it stores, other than partial sums, or that does not fit together, is
run frame by frame instead, which also says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npuscope.errors import TargetError
from npuscope.program import unit_words
from npuscope.program.model import Group
from npuscope.program.units import Activ, Arith, Convacc, Decun, PoolUnit, Streng
from npuscope.sim.arithmetic import pool, units, walks
from npuscope.sim.arithmetic.chains import find_loop, is_inner, run_chain
from npuscope.sim.arithmetic.convacc import ClampTally
from npuscope.sim.arithmetic.group import run_by_frames
from npuscope.sim.arithmetic.plan import ByFramesError, Frames, UnitPlan, planned
from npuscope.sim.arithmetic.streams import Words
from npuscope.sim.memory import Memory

# What geometries that contradict each other raise, here and in NumPy.
_DOES_NOT_FIT = (TargetError, ValueError, LookupError, ArithmeticError, MemoryError)


def run_group(group: Group, memory: Memory, tally: ClampTally) -> None:
    """Execute until every engine that stores has stored its frames."""
    if not run_whole(group, memory, tally):
        run_by_frames(group, memory, tally)


def run_whole(group: Group, memory: Memory, tally: ClampTally) -> bool:
    """Nothing is stored or counted before all is computed; False if it cannot be."""
    own = ClampTally()
    try:
        with planned(group) as plans:
            for engine, view, words in list(_computed(plans, memory, own)):
                walks.store(engine, memory, view, words)
    except (ByFramesError, *_DOES_NOT_FIT):
        return False
    tally.outputs += own.outputs
    tally.clamped += own.clamped
    return True


def _computed(
    plans: list[UnitPlan], memory: Memory, tally: ClampTally
) -> Iterator[tuple[Streng, np.ndarray, Words]]:
    """What engines have to store where."""
    loop = find_loop(plans, memory)
    for plan in plans:
        if not plan.frames or is_inner(plan) or (loop and plan is loop.reader):
            continue
        if loop and plan is loop.chain[-1]:
            plan.output = Frames(loop.run(tally))
        elif plan.is_sink:
            assert plan.view is not None
            words = plan.inlet(0, plan.words, plan.frames).all
            # What contradicts the walk shows here, before anything is stored.
            yield plan.engine, plan.view, words.reshape(plan.frames, *plan.view.shape[2:])
        else:
            plan.output = _run(plan, memory, tally)


def _run(plan: UnitPlan, memory: Memory, tally: ClampTally) -> Frames:
    """All frames of one unit."""
    unit = plan.unit
    match unit:
        case Streng():
            assert plan.view is not None
            return walks.load(unit, plan.view, plan.frames)
        case Convacc():
            return Frames(run_chain(plan, tally))
        case Arith():
            has_y = 1 in plan.sources
            units.check(unit, has_y)
            y = None
            if unit_words.takes_y(unit, has_y):
                words = unit.batchDepth if unit_words.broadcasts(unit) else plan.words
                y = plan.inlet(1, words, plan.frames).all
            x = plan.inlet(0, plan.words, plan.frames).all
            return Frames(units.compute(units.load(unit, memory), x, y, tally))
        case Activ():
            inlet = plan.inlet(0, plan.words, plan.frames)
            return Frames(units.activation(unit, memory)(inlet.values), inlet.which)
        case PoolUnit():
            pool.check_pool(unit)
            inlet = plan.inlet(0, unit_words.pool_words(unit), plan.frames)
            return Frames(pool.pool(inlet.all, unit))
        case Decun():
            raise ByFramesError
