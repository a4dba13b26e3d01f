"""What to change, predicted from one buffer: the inference replayed with other durations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from npuscope.many_core.layout import Capacity, Engine
from npuscope.many_core.opstats.index import ENGINES, OpIndex
from npuscope.many_core.opstats.model import Lever, Opstats, helpful
from npuscope.many_core.opstats.replay import Replay, Times
from npuscope.many_core.records import UTIMER_HZ

_BATCH = 8  # times the inferences of a run


@dataclass(frozen=True, slots=True)
class Setup:
    """What a prediction needs beside the replay."""

    cores: int
    floats: bool
    ddr_bytes: int
    constant_bytes: int
    capacity: Capacity | None


def predicted(made: Opstats, again: Replay, index: OpIndex) -> Opstats:
    """The tables with the critical path and what levers would bring."""
    infos = [index.infos[row] for row in again.op.tolist()]
    brought = [info.rd_bytes for info, new in zip(infos, again.constant, strict=True) if new]
    setup = Setup(
        cores=len(made.cores),
        floats=any(info.dtypes[:1] == ("float16",) for info in infos),
        ddr_bytes=sum(info.rd_bytes + info.wr_bytes for info in infos),
        constant_bytes=sum(brought),
        capacity=made.capacity,
    )
    alone = again.without_host(made.totals.max_input_wait_uc or 0)
    return replace(made, path=again.path(), levers=replay_levers(alone, setup))


def replay_levers(replay: Replay, setup: Setup) -> tuple[Lever, ...]:
    """All are compared with one copy of the program as it ran."""
    before = replay.ticks(replay.times)
    if before <= 0:
        return ()
    found = [*_retimed(replay, setup, before)]
    if setup.capacity is not None:
        found += _spread(replay, setup, setup.capacity, before)
    return helpful(found)


def _retimed(replay: Replay, setup: Setup, before: float) -> Iterator[Lever]:
    times = replay.times
    free = replay.ticks(_without_constants(replay))
    yield Lever("constants kept in VTCM", before / free, _ms(free), True, _obstacle(setup))
    # Constants are loaded once, all else is done as often as there are inferences.
    whole = before + (_BATCH - 1) * free
    yield Lever(f"{_BATCH} times the batch", _BATCH * before / whole, _ms(whole))
    joined = replay.ticks(replace(times, barrier=np.zeros_like(times.barrier)))
    yield Lever("ops joined, no barriers between them", before / joined, _ms(joined), True)
    if setup.floats:
        halved = replay.ticks(replace(times, work=times.work / 2, move=times.move / 2))
        yield Lever("8-bit integers instead of half floats", before / halved, _ms(halved), True)


def _without_constants(replay: Replay) -> Times:
    times, gone = replay.times, replay.constant
    none = np.zeros_like(times.work)
    return replace(
        times,
        work=np.where(gone, none, times.work),
        barrier=np.where(gone, none, times.barrier),
        move=np.where(gone, none, times.move),
    )


def _obstacle(setup: Setup) -> str:
    """Constants that are more than VTCM holds cannot stay there."""
    if setup.capacity is None:
        return ""
    room = setup.cores * setup.capacity.vtcm_bytes
    if setup.constant_bytes <= room:
        return ""
    return f"{setup.constant_bytes / 1e6:,.1f} MB do not fit {room / 1e6:,.1f}"


def _spread(replay: Replay, setup: Setup, most: Capacity, before: float) -> Iterator[Lever]:
    """More cores for one copy, or more copies; neither gets more of DDR than there is."""
    moved = setup.ddr_bytes / most.ddr_bytes_per_s * UTIMER_HZ
    for cores in sorted({min(2 * setup.cores, most.cores), most.cores} - {setup.cores}):
        after = max(replay.ticks(_on_more(replay, setup.cores / cores)), moved)
        yield Lever(f"{cores} cores", before / after, _ms(after), bound=True)
    copies = most.cores // setup.cores
    if copies > 1:
        after = max(before, copies * moved)
        name = f"{copies} activations on {setup.cores} core{'s' * (setup.cores > 1)} each"
        yield Lever(name, before * copies / after, _ms(after))


def _on_more(replay: Replay, share: float) -> Times:
    """Each core has that share of its work; what it waits for at barriers stays."""
    working = np.isin(replay.engine, [ENGINES.index(one) for one in (Engine.HVX, Engine.HMX)])
    times = replay.times
    return replace(
        times, work=np.where(working, times.work * share, times.work), move=times.move * share
    )


def _ms(ticks: float) -> float:
    return ticks * 1e3 / UTIMER_HZ
