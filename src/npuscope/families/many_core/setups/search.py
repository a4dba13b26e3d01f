"""The search for a set-up: cores per copy, copies, batch and inferences in flight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

from msgspec import Struct

from npuscope.errors import ModelError
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.setups.model import CardSetup, SetupPrediction, predict
from npuscope.families.many_core.setups.work import NetworkWork
from npuscope.structs import replace


class Objective(StrEnum):
    """What the best set-up has: as the published searches had it."""

    LATENCY = "latency"  # the shortest time of one inference
    THROUGHPUT = "throughput"  # most inferences per second
    BALANCED = "balanced"  # most of them with one in flight per copy


class Unfit(Struct, frozen=True):
    """A set-up that cannot run."""

    setup: CardSetup
    reason: str


class Ranking(Struct, frozen=True):
    """All set-ups that were tried, the best first."""

    objective: Objective
    rows: tuple[SetupPrediction, ...]
    unfit: tuple[Unfit, ...] = ()

    @property
    def best(self) -> SetupPrediction:
        return self.rows[0]

    def rank(self, setup: CardSetup) -> int | None:
        """Place of a set-up, from 1 on, whatever it has in flight."""
        places = [(row.setup.cores, row.setup.copies, row.setup.batch) for row in self.rows]
        sizes = (setup.cores, setup.copies, setup.batch)
        return places.index(sizes) + 1 if sizes in places else None


class Wanted(Struct, frozen=True):
    """What the user has decided; None: all are tried."""

    batch: int | None = None
    cores: int | None = None
    copies: int | None = None
    in_flight: int | None = None
    mxfp6: bool = False


MOST_BATCH = 16
MOST_IN_FLIGHT = 4
# More in flight than necessary only adds to the latency.
AS_GOOD = 0.99


def search(
    work: NetworkWork, machine: CoreMachine, objective: Objective, decisions: Wanted | None = None
) -> Ranking:
    """Every number of cores with as many copies as the card has room for, and every batch."""
    rows, unfit = [], []
    room = machine.ddr.capacity_gb * 1e9
    for setup in _setups(machine, objective, decisions or Wanted()):
        ratio = machine.setups.mxfp6_ratio if setup.mxfp6 else 1.0
        size = setup.copies * (work.weight_bytes * ratio + work.state_bytes * setup.batch)
        if size > room:
            reason = f"{size / 1e9:.1f} GB of weights and states, DDR has {room / 1e9:g}"
            unfit.append(Unfit(setup, reason))
            continue
        # With the fewest inferences in flight that give the rate which more of them give.
        counts: Iterable[int] = (setup.in_flight or 1,)
        if objective is Objective.THROUGHPUT and not setup.in_flight:
            counts = range(1, MOST_IN_FLIGHT + 1)
        times = [predict(work, machine, replace(setup, in_flight=count)) for count in counts]
        enough = AS_GOOD * max(row.inferences_per_s for row in times)
        rows.append(next(row for row in times if row.inferences_per_s >= enough))
    if not rows:
        raise ModelError(f"no set-up fits: {unfit[0].reason}")
    if objective is Objective.LATENCY:
        rows.sort(key=lambda row: (row.latency_ms, -row.inferences_per_s))
    else:
        rows.sort(key=lambda row: (-row.inferences_per_s, row.latency_ms))
    return Ranking(objective, tuple(rows), tuple(unfit))


def _setups(machine: CoreMachine, objective: Objective, decisions: Wanted) -> Iterator[CardSetup]:
    """With 0 in flight where that is still to be tried."""
    most = machine.cores.card_count
    batches = range(1, 2 if objective is Objective.LATENCY else MOST_BATCH + 1)
    for cores in range(1, most + 1) if decisions.cores is None else (decisions.cores,):
        for batch in batches if decisions.batch is None else (decisions.batch,):
            if cores * (decisions.copies or 1) > most:
                continue
            copies = decisions.copies or most // cores
            yield CardSetup(cores, copies, batch, decisions.in_flight or 0, mxfp6=decisions.mxfp6)
