"""Placement by OR-tools' CP-SAT: blocks are rectangles of addresses and steps, and the cheapest way
for all demands together is searched for, with a bound that no way is below."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from npuscope.application.first_fit import first_fit, put
from npuscope.application.memory import (
    Alternative,
    Block,
    Demand,
    FreeRange,
    MemoryPlacement,
    Place,
)
from npuscope.structs import replace

NAME = "CP-SAT"
_GRAIN = 32  # bytes; a line of the CPU's cache
_TICKS = 10_000  # of cost, a millisecond
_SECONDS = 3.0


def is_there() -> bool:
    from importlib.util import find_spec

    return find_spec("ortools") is not None


def solved(demands: Sequence[Demand], rooms: Sequence[FreeRange]) -> MemoryPlacement:
    """The best placement found; the greedy one, with the solver's bound, where it is no better."""
    start = first_fit(demands, rooms)
    from ortools.sat.python import cp_model

    search = _Search(cp_model.CpModel(), rooms)
    for demand in demands:
        search.add(demand)
    search.close()
    if not start.missing:
        search.hint(start)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = _SECONDS
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    status = solver.solve(search.model)
    if status == cp_model.INFEASIBLE:
        return replace(start, solver=f"{NAME}: no placement exists")
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return start
    bound = solver.best_objective_bound / _TICKS
    best = search.placement(solver, bound)
    if start.missing or best.cost_ms < start.cost_ms - 1 / _TICKS:
        return best
    return replace(start, bound_ms=min(bound, start.cost_ms), solver=NAME)


class _Search:
    """The model, and which of its variables stand for which block."""

    def __init__(self, model: Any, rooms: Sequence[FreeRange]) -> None:
        self.model = model
        self.rooms = rooms
        self.cost: list[Any] = []
        self.chosen: list[tuple[Demand, Alternative, Any]] = []
        self.spots: list[tuple[str, Block, FreeRange, Any, Any]] = []
        self._boxes: defaultdict[str, list[tuple[Any, Any]]] = defaultdict(list)

    def add(self, demand: Demand) -> None:
        picks = []
        for number, choice in enumerate(demand.choices):
            pick = self.model.new_bool_var(f"{demand.name}/{number}")
            self.chosen.append((demand, choice, pick))
            self.cost.append(round(choice.cost_ms * _TICKS) * pick)
            for block in choice.blocks:
                self._block(demand.name, block, pick)
            picks.append(pick)
        self.model.add_exactly_one(picks)

    def _block(self, demand: str, block: Block, pick: Any) -> None:
        """In one of the rooms that it may lie in, if its choice is taken."""
        there = []
        for room in self.rooms:
            low, high = -(-room.address // _GRAIN), room.end // _GRAIN
            size = -(-block.size_bytes // _GRAIN)
            step = max(1, block.align // _GRAIN)
            first, last = -(-low // step), (high - size) // step
            if not block.fits_in(room) or last < first:
                continue
            here = self.model.new_bool_var("")
            at = self.model.new_int_var(first, last, "")
            if block.address is not None:
                self.model.add(at * step == block.address // _GRAIN).only_enforce_if(here)
            along = self.model.new_optional_fixed_size_interval_var(at * step, size, here, "")
            times = self.model.new_optional_fixed_size_interval_var(
                block.first, block.last - block.first + 1, here, ""
            )
            self._boxes[room.kind.value + room.region + hex(room.address)].append((along, times))
            self.spots.append((demand, block, room, here, at * step))
            there.append(here)
        self.model.add(sum(there) == pick)

    def close(self) -> None:
        for boxes in self._boxes.values():
            self.model.add_no_overlap_2d([a for a, _ in boxes], [t for _, t in boxes])
        self.model.minimize(sum(self.cost))

    def hint(self, start: MemoryPlacement) -> None:
        for demand, choice, pick in self.chosen:
            self.model.add_hint(pick, int(start.choices.get(demand.name) is choice))

    def placement(self, solver: Any, bound: float) -> MemoryPlacement:
        choices = {d.name: choice for d, choice, pick in self.chosen if solver.boolean_value(pick)}
        places = [
            Place(demand, block, solver.value(at) * _GRAIN)
            for demand, block, room, here, at in self.spots
            if solver.boolean_value(here)
        ]
        cost = sum(choice.cost_ms for choice in choices.values())
        neat = _packed(choices, self.rooms)
        return MemoryPlacement(choices, tuple(neat or places), cost, min(bound, cost), NAME)


def _packed(choices: dict[str, Alternative], rooms: Sequence[FreeRange]) -> list[Place] | None:
    """The same choices at the lowest addresses, where first fit can place them."""
    places: list[Place] = []
    largest = sorted(choices, key=lambda name: -sum(b.size_bytes for b in choices[name].blocks))
    fixed = {n for n in choices if any(b.address is not None for b in choices[n].blocks)}
    for name in sorted(largest, key=lambda name: name not in fixed):
        new = put(name, choices[name].blocks, places, rooms)
        if new is None:
            return None
        places += new
    return places
