"""What to change, predicted from one buffer: the inference replayed with other durations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from npuscope.families.many_core.layout import Capacity, Engine
from npuscope.families.many_core.opstats.index import ENGINES, OpIndex
from npuscope.families.many_core.opstats.lever import Lever, LeverKind, helpful
from npuscope.families.many_core.opstats.model import Opstats
from npuscope.families.many_core.opstats.replay import Replay, ReplayTimes
from npuscope.families.many_core.opstats.runs import Transfers
from npuscope.families.many_core.opstats.verdict import on_path
from npuscope.families.many_core.program import Space
from npuscope.families.many_core.records import UTIMER_HZ
from npuscope.structs import replace

_BATCH = 8  # times the inferences of a run


class Setup(Struct, frozen=True):
    """What a prediction needs beside the replay."""

    cores: int
    floats: bool
    ddr_bytes: int
    ddr_draw: float  # share of what DDR gives that the run takes while it takes any
    constant_bytes: int
    capacity: Capacity | None


def predicted(
    tables: Opstats,
    again: Replay,
    index: OpIndex,
    moves: Transfers,
    stated: tuple[Lever, ...] = (),
) -> Opstats:
    """The tables with the critical path and what levers would bring: those of the program, or of
    the replay where it states none."""
    infos = [index.infos[row] for row in again.op.tolist()]
    brought = [info.rd_bytes for info, new in zip(infos, again.constant, strict=True) if new]
    setup = Setup(
        cores=len(tables.cores),
        floats=any(info.macs and info.dtypes[:1] == ("float16",) for info in infos),
        ddr_bytes=sum(info.rd_bytes + info.wr_bytes for info in infos),
        ddr_draw=_draw(moves, tables.capacity),
        constant_bytes=sum(brought),
        capacity=tables.capacity,
    )
    alone = again.without_host(tables.totals.max_input_wait_uc or 0)
    path = again.path()
    return replace(
        tables,
        path=path,
        verdict=on_path(tables.verdict, dict(path)),
        # What was timed for this program beats what its durations let expect.
        levers=stated or replay_levers(alone, setup),
    )


def _draw(moves: Transfers, capacity: Capacity | None) -> float:
    """Bytes from and to DDR while any are on their way, against what it gives."""
    records = moves.records
    ours = records[(records["src"] == int(Space.DDR)) | (records["dst"] == int(Space.DDR))]
    if capacity is None or not len(ours):
        return 0.0
    ours = ours[np.argsort(ours["issue_uc"], kind="stable")]
    begin, end = ours["issue_uc"].astype(np.int64), ours["done_uc"].astype(np.int64)
    # Of a transfer counts what comes after the end of all before it.
    before = np.concatenate([begin[:1], np.maximum.accumulate(end)[:-1]])
    ticks = np.maximum(end - np.maximum(begin, before), 0).sum()
    return float(ours["bytes"].sum()) * UTIMER_HZ / max(int(ticks), 1) / capacity.ddr_bytes_per_s


def replay_levers(replay: Replay, setup: Setup) -> tuple[Lever, ...]:
    """All are compared with one copy of the program as it ran."""
    before = replay.ticks(replay.times)
    if before <= 0:
        return ()
    levers = [*_retimed(replay, setup, before)]
    if setup.capacity is not None:
        levers += _spread(replay, setup, setup.capacity, before)
    return helpful(levers)


def _retimed(replay: Replay, setup: Setup, before: float) -> Iterator[Lever]:
    times, constant = replay.times, replay.constant
    none = np.zeros_like(times.work)
    without_constants = replace(
        times,
        work=np.where(constant, none, times.work),
        barrier=np.where(constant, none, times.barrier),
        move=np.where(constant, none, times.move),
    )
    free = replay.ticks(without_constants)
    yield Lever(LeverKind.KEEP, before / free, _ms(free), True, _obstacle(setup))
    # Constants are loaded once. Each further inference takes as long as without them or,
    # where those of one run fill each other's gaps, as long as its busiest engine works.
    busiest = min(float(np.bincount(replay.queue, replay.times.work).max()), free)
    low, high = (before + (_BATCH - 1) * ticks for ticks in (free, busiest))
    gains = [_BATCH * before / ticks for ticks in (low, high)]
    yield Lever(LeverKind.BATCH, gains[0], _ms(low), most=gains[1], batch=_BATCH)
    joined = replay.ticks(replace(times, barrier=np.zeros_like(times.barrier)))
    yield Lever(LeverKind.JOIN, before / joined, _ms(joined), True)
    if setup.floats:
        halved = replay.ticks(replace(times, work=times.work / 2, move=times.move / 2))
        yield Lever(LeverKind.INTEGERS, before / halved, _ms(halved), True)


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
        after = max(replay.ticks(_on_more(replay, setup, setup.cores / cores)), moved)
        yield Lever(LeverKind.CORES, before / after, _ms(after), bound=True, cores=cores)
    copies = most.cores // setup.cores
    if copies > 1:
        # Copies want DDR at once; where that is more than it gives, transfers take longer.
        times, outside = replay.times, replay.outside & replay.moves
        longer = times.move * max(copies * setup.ddr_draw, 1.0)
        beside = replace(times, move=np.where(outside, longer, times.move))
        after = max(replay.ticks(beside), copies * moved)
        yield Lever(
            LeverKind.CORES,
            before * copies / after,
            _ms(after),
            bound=True,
            cores=setup.cores,
            copies=copies,
        )


def _on_more(replay: Replay, setup: Setup, share: float) -> ReplayTimes:
    """Each core has that share of its work; what it waits for at barriers stays. Transfers of more
    cores together get no more of DDR than it gives."""
    working = np.isin(replay.engine, [ENGINES.index(one) for one in (Engine.HVX, Engine.HMX)])
    times, least = replay.times, min(max(share, setup.ddr_draw), 1.0)
    return replace(
        times,
        work=np.where(working, times.work * share, times.work),
        move=times.move * np.where(replay.outside, least, share),
    )


def _ms(ticks: float) -> float:
    return ticks * 1e3 / UTIMER_HZ
