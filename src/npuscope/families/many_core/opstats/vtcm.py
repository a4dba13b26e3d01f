"""What lay in VTCM when: places of the compiler's plan, times of the buffer."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from msgspec import Struct

from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.opstats.index import OpIndex
from npuscope.families.many_core.opstats.model import Totals, VtcmBlock, VtcmRow
from npuscope.families.many_core.opstats.runs import OpRuns, Transfers, boundaries
from npuscope.structs import replace

_MOST_BLOCKS = 600  # more are not told apart in a picture
COLUMNS = 64  # moments of a map, each with the most that was there at a time


class Holds(Struct, frozen=True):
    """One row per buffer: from the start of its first use to the end of its last, in ticks."""

    core: np.ndarray
    offset: np.ndarray
    bytes: np.ndarray
    constant: np.ndarray
    op: np.ndarray  # row of the index: the first that uses it
    start: np.ndarray
    end: np.ndarray


def op_times(index: OpIndex, runs: OpRuns, moves: Transfers) -> tuple[np.ndarray, np.ndarray]:
    """Ticks from each op's first start to its last end, transfers included; -1: did not run."""
    size = len(index.infos)
    start, end = np.full(size, np.iinfo(np.int64).max), np.full(size, -1, np.int64)
    np.minimum.at(start, runs.op, runs.start_at)
    np.maximum.at(end, runs.op, runs.barrier_at)
    np.maximum.at(end, moves.op, moves.records["done_uc"].astype(np.int64))
    return np.where(end >= 0, start, -1), end


def holds_of(stats: Stats, index: OpIndex, runs: OpRuns, moves: Transfers) -> Holds | None:
    """None where the program does not tell its places, or where ops were not timed."""
    places = stats.network.held
    op = index.rows(places["op_core"], places["oc"])
    start, end = op_times(index, runs, moves)
    valid = (op >= 0) & (end[op] >= 0) if len(places) else np.zeros(0, bool)
    places, op = places[valid], op[valid]
    if not len(places):
        return None
    order = np.lexsort((start[op], places["buffer"]))
    places, op = places[order], op[order]
    first = boundaries(places["buffer"])
    return Holds(
        core=places["core"][first].astype(np.int64),
        offset=places["offset"][first].astype(np.int64),
        bytes=places["bytes"][first].astype(np.int64),
        constant=places["constant"][first] != 0,
        op=op[first],
        start=start[op][first],
        end=np.maximum.reduceat(end[op], first),
    )


def in_use(holds: Holds, core: int) -> tuple[np.ndarray, np.ndarray]:
    """Moments at which the bytes in use of a core change, and how many there are from then on."""
    mine = holds.core == core
    times = np.concatenate([holds.start[mine], holds.end[mine]])
    sizes = holds.bytes[mine]
    moments, place = np.unique(times, return_inverse=True)
    change = np.bincount(place, np.concatenate([sizes, -sizes]), len(moments))
    return moments, np.cumsum(change).astype(np.int64)


def vtcm_rows(holds: Holds | None, index: OpIndex, totals: Totals) -> tuple[VtcmRow, ...]:
    """By core, the most bytes in use in each part of the inference."""
    if holds is None or not totals.ucycles:
        return ()
    edges = np.linspace(totals.start_uc, totals.end_uc, COLUMNS + 1)
    rows = []
    for core in np.unique(holds.core).tolist():
        moments, level = in_use(holds, core)
        most = []
        for low, high in pairwise(edges.tolist()):
            first, last = np.searchsorted(moments, (low, high), side="right")
            before = level[max(first - 1, 0) : last]
            most.append(int(before.max(initial=0)) if last else 0)
        rows.append(VtcmRow(core, int(level.max(initial=0)), tuple(most)))
    fullest = max(rows, key=lambda row: row.most_bytes)
    mine = np.flatnonzero(holds.core == fullest.core)
    area = holds.bytes[mine] * (holds.end[mine] - holds.start[mine])
    largest = mine[np.argsort(-area, kind="stable")[:_MOST_BLOCKS]]
    with_blocks = replace(
        fullest,
        blocks=tuple(
            VtcmBlock(
                name=index.infos[holds.op[row]].name,
                offset=int(holds.offset[row]),
                bytes=int(holds.bytes[row]),
                constant=bool(holds.constant[row]),
                start_uc=int(holds.start[row]),
                end_uc=int(holds.end[row]),
            )
            for row in sorted(largest.tolist(), key=holds.start.__getitem__)
        ),
    )
    return tuple(with_blocks if row is fullest else row for row in rows)
