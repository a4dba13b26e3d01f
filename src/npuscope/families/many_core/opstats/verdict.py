"""What holds an inference up: the engine that is at work longest, or the waits between them."""

from __future__ import annotations

import numpy as np

from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.compiler.kinds import END_STATS
from npuscope.families.many_core.layout import Capacity, Engine
from npuscope.families.many_core.opstats.index import ENGINES, OpIndex
from npuscope.families.many_core.opstats.model import (
    BUSY,
    CoreBound,
    CoreTables,
    CoreVerdict,
    ModuleRow,
    NodeRow,
    Roofline,
    Totals,
)
from npuscope.families.many_core.opstats.runs import OpRuns
from npuscope.families.many_core.program import Space
from npuscope.families.many_core.records import UTIMER_HZ, SectionId
from npuscope.structs import replace

_ENGINES = ("DDR", "HMX", "HVX")
_HOST = 0.3


def verdict(
    cores: tuple[CoreTables, ...], totals: Totals, stats: Stats | None = None
) -> CoreVerdict:
    """From tables; transfers are looked up in the buffer itself, where there is one."""
    threads = [row for core in cores for row in core.threads if row.utilization is not None]
    if not any(row.engine in ("HVX", "HMX") for row in threads):
        return CoreVerdict(CoreBound.UNKNOWN, ())
    shares = {"HVX": 0.0, "HMX": 0.0}
    for row in threads:
        if row.engine in shares:
            shares[row.engine] = max(shares[row.engine], row.utilization or 0.0)
    if stats is None:
        shares["DDR"] = _copying(cores)
    else:
        # Threads that reach into DDR themselves wait for it: activations that left VTCM.
        reaching = min(_reaching(stats, totals), shares["HVX"])
        shares["HVX"] -= reaching
        shares["DDR"] = min(_moving(stats, totals) + reaching, 1.0)
    waits = totals.max_input_wait_uc or 0
    shares["host"] = waits / totals.ucycles if totals.ucycles else 0.0
    ranked = tuple(sorted(shares.items(), key=lambda pair: -pair[1]))
    if shares["host"] > _HOST:
        return CoreVerdict(CoreBound.HOST, ranked)
    name = max(_ENGINES, key=shares.__getitem__)
    return CoreVerdict(CoreBound(name) if shares[name] >= BUSY else CoreBound.SYNC, ranked)


def on_path(verdict: CoreVerdict, path: dict[str, float]) -> CoreVerdict:
    """Where no engine is busy enough: an engine still, if the critical path has more of it than
    of hand-overs and waits."""
    if verdict.bound is not CoreBound.SYNC:
        return verdict
    engines = {name: path.get(name, 0.0) for name in _ENGINES}
    name = max(engines, key=engines.__getitem__)
    if engines[name] <= sum(path.values()) - sum(engines.values()):
        return verdict
    return replace(verdict, bound=CoreBound(name), path_share=engines[name])


_COPIES = ("aiccopytovtcm", "aiccopytoddr", "aiccopyfromvtcm", "aiccopyddr")


def _copying(cores: tuple[CoreTables, ...]) -> float:
    """The same from rows of the op table."""
    values = [
        sum(row.ucycles for row in core.ops if row.label.kind in _COPIES) / core.total_uc
        for core in cores
        if core.total_uc
    ]
    return min(max(values, default=0.0), 1.0)


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


def _reaching(stats: Stats, totals: Totals) -> float:
    """Of the time, the part in which a core's vector threads read or write DDR."""
    records, longest = stats.of(SectionId.OP_REC), 0.0
    for core, groups in enumerate(stats.layout.specializations[stats.specialization].ops):
        outside = [
            info.oc
            for info in groups[0]
            if info.rd_bytes + info.wr_bytes and not info.asynchronous and info.kind != END_STATS
        ]
        mine = records[(records["core"] == core) & np.isin(records["oc"], outside)]
        if len(mine):
            spent = float((mine["end_uc"] - mine["start_uc"]).sum())
            longest = max(longest, spent / len(np.unique(mine["thread"])))
    return longest / totals.ucycles if totals.ucycles else 0.0


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


def node_rows(
    index: OpIndex, runs: OpRuns, times: tuple[np.ndarray, np.ndarray]
) -> tuple[NodeRow, ...]:
    """By op of the source network: modules by their cycles, nodes of a module as they ran."""
    by_origin: dict[str, list[int]] = {}
    for place, info in enumerate(index.infos):
        if info.origin and times[1][place] >= 0:
            by_origin.setdefault(info.origin[0], []).append(place)
    cycles = np.bincount(runs.op, weights=runs.pc, minlength=len(index.infos))
    rows = [_node(index, np.array(mine), cycles, times) for mine in by_origin.values()]
    weight: dict[str, int] = {}
    for row in rows:
        weight[row.module] = weight.get(row.module, 0) + row.hvx_pcycles + row.hmx_pcycles
    return tuple(sorted(rows, key=lambda row: (-weight[row.module], row.module, row.start_uc)))


def _node(
    index: OpIndex,
    rows: np.ndarray,
    cycles: np.ndarray,
    times: tuple[np.ndarray, np.ndarray],
) -> NodeRow:
    hvx, hmx = (
        int(cycles[rows[index.engine[rows] == ENGINES.index(engine)]].sum())
        for engine in (Engine.HVX, Engine.HMX)
    )
    infos = [index.infos[row] for row in rows.tolist()]
    # Ops that were joined with others behind them name those too.
    origin = max((info.origin for info in infos), key=len)
    return NodeRow(
        module=_path(origin[0]).rpartition("/")[0],
        node=", ".join(map(_short, origin)),
        ops=len(infos),
        hvx_pcycles=hvx,
        hmx_pcycles=hmx,
        macs=sum(info.macs for info in infos),
        ddr_bytes=sum(info.rd_bytes + info.wr_bytes for info in infos),
        start_uc=int(times[0][rows].min()),
        end_uc=int(times[1][rows].max()),
        origin=origin,
    )


def _short(name: str) -> str:
    """The kind and the last part of the path."""
    kind, _, path = name.partition(":")
    last = path.rstrip("/").rpartition("/")[2]
    return f"{kind}:{last}" if last and last != kind else kind


def roofline(
    capacity: Capacity | None, index: OpIndex, cores: tuple[CoreTables, ...], totals: Totals
) -> Roofline | None:
    """None where the program does not say what its machine can do, or multiplies nothing."""
    # What a run stores about itself is not the network's traffic.
    infos = [info for info in index.infos if info.kind != END_STATS]
    macs = sum(info.macs for info in infos)
    clocks = [core.effective_mhz for core in cores if core.effective_mhz]
    if capacity is None or not macs or not clocks or not totals.ucycles:
        return None
    most = len(cores) * capacity.macs_per_cycle * max(clocks) * 1e6
    moved = sum(info.rd_bytes + info.wr_bytes for info in infos)
    waited = (totals.max_input_wait_uc or 0) / UTIMER_HZ
    seconds = max(totals.seconds - waited, 0.0)
    return Roofline(macs, moved, seconds, most, float(capacity.ddr_bytes_per_s))


def module_of(origin: tuple[str, ...]) -> str:
    """The path of the first source op, without its last part; the op itself where it has none."""
    if not origin:
        return ""
    path = _path(origin[0])
    return path.rpartition("/")[0] or path


def _path(name: str) -> str:
    kind, _, path = name.partition(":")
    return (path or kind).strip("/")
