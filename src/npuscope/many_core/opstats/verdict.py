"""What holds an inference up: the engine that is at work longest, or the waits between them."""

from __future__ import annotations

import numpy as np

from npuscope.many_core.buffer_format import Stats
from npuscope.many_core.layout import Engine
from npuscope.many_core.opstats.index import ENGINES, OpIndex
from npuscope.many_core.opstats.model import Bound, CoreTables, ModuleRow, Totals, Verdict
from npuscope.many_core.opstats.runs import OpRuns
from npuscope.many_core.program import Space
from npuscope.many_core.records import SectionId

# An engine that works less than this is not what the others wait for: their order is.
_BUSY = 0.6
_HOST = 0.3


def verdict(cores: tuple[CoreTables, ...], totals: Totals, stats: Stats) -> Verdict:
    """From the tables of a buffer; transfers are looked up in the buffer itself."""
    engines = {name: _most(cores, name) for name in ("HVX", "HMX")}
    if all(share is None for share in engines.values()):
        return Verdict(Bound.UNKNOWN, ())
    shares = {name: share or 0.0 for name, share in engines.items()}
    shares["DDR"] = _moving(stats, totals)
    waits = totals.max_input_wait_uc or 0
    shares["host"] = waits / totals.ucycles if totals.ucycles else 0.0
    told = tuple(sorted(shares.items(), key=lambda pair: -pair[1]))
    return Verdict(_bound(shares), told)


def _bound(shares: dict[str, float]) -> Bound:
    if shares["host"] > _HOST:
        return Bound.HOST
    name = max(("DDR", "HMX", "HVX"), key=shares.__getitem__)
    return Bound(name) if shares[name] >= _BUSY else Bound.SYNC


def _most(cores: tuple[CoreTables, ...], engine: str) -> float | None:
    found = [share for core in cores if (share := _share(core, engine)) is not None]
    return max(found, default=None)


def _share(core: CoreTables, engine: str) -> float | None:
    rows = [row.utilization for row in core.threads if row.engine == engine]
    known = [share for share in rows if share is not None]
    return max(known, default=None)


def _moving(stats: Stats, totals: Totals) -> float:
    """Of the time, the part in which a core has a transfer from or to DDR under way."""
    moves, total = stats.of(SectionId.DMA_REC), totals.ucycles
    if not len(moves) or not total:
        return 0.0
    outside = moves[(moves["src"] == int(Space.DDR)) | (moves["dst"] == int(Space.DDR))]
    longest = 0
    for core in np.unique(outside["core"]):
        mine = outside[outside["core"] == core]
        longest = max(longest, int((mine["done_uc"] - mine["issue_uc"]).sum()))
    return min(longest / total, 1.0)


# --- Where the time goes in terms of the network: by module ---


def module_rows(index: OpIndex, runs: OpRuns) -> tuple[ModuleRow, ...]:
    """Cycles of all cores by module of the source network, the longest first."""
    numbers: dict[str, int] = {}
    of = [numbers.setdefault(module_of(info.origin), len(numbers)) for info in index.infos]
    module, engine = np.array(of, np.int64)[runs.op], index.engine[runs.op]
    size = len(numbers)
    counts = np.bincount(module, minlength=size)
    cycles = [
        np.bincount(
            module, weights=np.where(engine == ENGINES.index(one), runs.pc, 0), minlength=size
        )
        for one in (Engine.HVX, Engine.HMX)
    ]
    rows = [
        ModuleRow(name, int(counts[i]), int(cycles[0][i]), int(cycles[1][i]))
        for name, i in numbers.items()
        if name and counts[i]
    ]
    return tuple(sorted(rows, key=lambda row: (-row.hvx_pcycles - row.hmx_pcycles, row.module)))


def module_of(origin: tuple[str, ...]) -> str:
    """The path of the first source op, without its last part; the op itself where it has none."""
    if not origin:
        return ""
    kind, _, name = origin[0].partition(":")
    path = (name or kind).strip("/")
    return path.rpartition("/")[0] or path
