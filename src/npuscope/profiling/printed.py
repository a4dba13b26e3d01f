"""The profiler's report as people see it, read back: nodes with their counters, and what the
compiler had said of each epoch. A page or a mail that quotes the report holds nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from npuscope.profiling.model import EpochProfile, PrintedTotals, Profile, TimeShares
from npuscope.profiling.profiler_events import (
    EngineCount,
    NodeRun,
    PortBursts,
)
from npuscope.profiling.profiler_log import EpochText, ProfilerLog
from npuscope.program.generate_report.lines import number, whole
from npuscope.program.model import Access, Claims
from npuscope.sim.counters import EngineActivity, PoolTraffic
from npuscope.structs import replace

_ACTIVE = "streng_active"
_MOVED = re.compile(r"([^\s:,\[\]]{1,80}): r=(\d{1,18}), w=(\d{1,18})", re.ASCII)
_COMPUTE = re.compile(r"(\d{1,18}) \(max_cycles=(\d{1,18})\)", re.ASCII)
_DATA = re.compile(r"([^\s:,\[\]]{1,80}):(\d{1,18})", re.ASCII)
_NO_EVENTS = 0
_TOTAL = re.compile(r"(\d{1,9}\.\d{1,6})ms", re.ASCII)
_CORE = re.compile(r"npu_core:(\d{1,9}\.\d{1,6})ms", re.ASCII)
_PEAK = re.compile(r"r=\d{1,18} +w=\d{1,18} +-> .{1,40} \(peak\), .{1,40} \(average\)", re.ASCII)
_MEASURED = (
    *("total duration", "mcu cycles", "npu cycles", "ops/cycle", "inf/s"),
    "compute cycles ratio",
)


class CompilerText(Struct, frozen=True):
    """The `[compiler]` part of one block, and the buffers that the engine lines name."""

    c_idx: int
    type: str
    operations: dict[str, int]
    units: dict[str, int]
    claims: Claims
    data: dict[int, tuple[tuple[str, int], ...]]


def printed_nodes(log: ProfilerLog) -> tuple[NodeRun, ...]:
    """One inference: the means that the report prints."""
    nodes = (node for epoch in log.epochs for node in _nodes(epoch))
    return tuple(replace(node, index=index) for index, node in enumerate(nodes))


def _nodes(epoch: EpochText) -> Iterator[NodeRun]:
    """The node and, where it is a hybrid, its internal blocks; the first of them has all."""
    title = epoch.title
    place = (0, title.first, title.first, title.last, _NO_EVENTS, _NO_EVENTS)
    cache = epoch.cache
    yield NodeRun(
        *place,
        title.kind,
        mcu_cycles=epoch.mcu_cycles,
        npu_cycles=_npu_cycles(epoch),
        engines=tuple(
            EngineCount(_ACTIVE, row.direction, row.id, row.active_cycles, 0)
            for row in epoch.engines
        ),
        cache_read=tuple(value for _, value in cache.read) if cache else (),
        cache_write=tuple(value for _, value in cache.write) if cache else (),
        bursts=tuple(
            PortBursts(f"port{line.id}", row.direction, row.counts)
            for line in epoch.bus
            if line.id is not None
            for row in line.bursts
        ),
    )
    for extra in range(title.extra):
        mcu = epoch.cycles("extra mcu") if not extra else (0, 0, 0)
        yield NodeRun(*place, "EXTRA", mcu_cycles=mcu, npu_cycles=(0, 0, 0))


def _npu_cycles(epoch: EpochText) -> tuple[int, ...]:
    """Printed for the core phase; those around it follow from the ratio over all three."""
    core = epoch.npu_core_cycles
    if core is None:
        return (0, 0, 0)
    compute = compiler_text(epoch).claims.compute_cycles
    share = number(epoch.value("compute cycles ratio").partition("%")[0])
    pre, _, post = epoch.mcu_cycles if len(epoch.mcu_cycles) == 3 else (0, 0, 0)
    around = 100 * compute / share - core if compute and share else 0.0
    if around <= 0 or not pre + post:
        return (0, core, 0)
    before = round(around * pre / (pre + post))
    return (before, core, round(around) - before)


def compiler_text(epoch: EpochText) -> CompilerText:
    compute = _COMPUTE.match(epoch.value("compute cycles"))
    moved = _MOVED.findall(epoch.value("mem accesses"))
    return CompilerText(
        epoch.title.c_idx,
        epoch.value("epoch type").removeprefix("EpochType."),
        _counts(epoch.value("operations")),
        _counts(epoch.value("processor units")),
        Claims(
            whole(epoch.value("ops")) or 0,
            int(compute[1]) if compute else 0,
            int(compute[2]) if compute else 0,
            tuple(Access(pool, int(reads), int(writes)) for pool, reads, writes in moved),
        ),
        {row.id: tuple((p, int(n)) for p, n in _DATA.findall(row.data)) for row in epoch.engines},
    )


def _counts(text: str) -> dict[str, int]:
    """`{'hw.conv': 4, 'hw.mul': 1}`."""
    try:
        value = ast.literal_eval(text) if len(text) < 10_000 else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {str(key): n for key, n in value.items() if isinstance(n, int) and n >= 0}


def compiler_texts(log: ProfilerLog) -> dict[tuple[int, int], CompilerText]:
    """By first and last epoch; blocks without such a part are left out."""
    texts = {(e.title.first, e.title.last): compiler_text(e) for e in log.epochs}
    return {key: text for key, text in texts.items() if text.type}


def with_compiler(profile: Profile, said: Mapping[tuple[int, int], CompilerText]) -> Profile:
    """Epochs with what the report said of them, where no program tells it."""
    epochs = tuple(
        _with_text(epoch, said[epoch.first, epoch.last])
        if (epoch.first, epoch.last) in said
        else epoch
        for epoch in profile.epochs
    )
    return replace(profile, epochs=epochs)


def _with_text(epoch: EpochProfile, text: CompilerText) -> EpochProfile:
    if epoch.claims != Claims():
        return epoch
    claims = text.claims
    traffic = tuple(PoolTraffic(a.pool, a.reads, a.writes) for a in claims.accesses)
    engines = tuple(_placed(row, text.data.get(row.id, ())) for row in epoch.counters.engines)
    operators = [name.partition(".")[2] for name, n in text.operations.items() for _ in range(n)]
    return replace(
        epoch,
        index=text.c_idx,
        operators=tuple(name for name in operators if not name.startswith("dma")),
        units={_UNITS.get(name, name): n for name, n in text.units.items()},
        claims=claims,
        counters=replace(epoch.counters, engines=engines, traffic=traffic),
    )


# As a Program names its units.
_UNITS = {"STR_ENG": "STRENG", "CONV_ACC": "CONVACC"} | {
    f"{name}_ACC": name for name in ("ARITH", "ACTIV", "POOL")
}


def _placed(row: EngineActivity, data: tuple[tuple[str, int], ...]) -> EngineActivity:
    return replace(row, pool=data[0][0], bytes=sum(n for _, n in data)) if data else row


def printed_totals(log: ProfilerLog) -> PrintedTotals | None:
    """The lines behind the last epoch, if the report goes on to the whole model."""
    if not log.epochs:
        return None
    entries = [(entry.key, entry.value) for entry in log.epochs[-1].entries]
    keys = [key for key, _ in entries]
    if "total duration" not in keys:
        return None
    start = keys.index("total duration")
    total, core = _TOTAL.match(entries[start][1]), _CORE.search(entries[start][1])
    if total is None:
        return None
    compiler = next((n for n, key in enumerate(keys[:start]) if key == "cycles"), start)
    rows = [row for row in entries[start:] if not _PEAK.match(row[1])]
    stated = [_TOTAL.match(e.value("duration").rpartition("total=")[2]) for e in log.epochs]
    epochs_ms = next((float(hit[1]) for hit in stated if hit), None)
    return PrintedTotals(
        float(total[1]),
        float(core[1]) if core else 0.0,
        epochs_ms,
        tuple(entries[compiler:start]),
        tuple(row for row in rows if row[0] in _MEASURED),
        tuple(row for row in entries[start:] if _PEAK.match(row[1])),
    )


def with_totals(profile: Profile, totals: PrintedTotals | None) -> Profile:
    """What was printed of the whole model stands for it; the text may show only some epochs."""
    if totals is None:
        return profile
    rest = totals.total_ms - totals.core_ms
    return replace(
        profile,
        total_ms=totals.total_ms,
        interval_ms=(totals.total_ms, totals.total_ms),
        time=TimeShares(totals.core_ms, max(0.0, rest), 0.0, 0.0),
        printed=totals,
    )


def printed_notes(log: ProfilerLog, nodes: int) -> Iterator[str]:
    """How much of a run the text shows, and which totals it has."""
    count, totals = len(log.epochs), printed_totals(log)
    of = f" of {nodes}" if nodes > count else ""
    missing = f"; {nodes - count} epochs are missing" if nodes > count else ""
    yield f"read from a printed report with {count}{of} epochs{missing}"
    beside = {e.value("duration").rpartition("total=")[2] for e in log.epochs} - {""}
    if totals is None and beside:
        yield f"the report's own total is {', '.join(sorted(beside))}"
    elif totals is not None and totals.epochs_ms not in (None, totals.total_ms):
        yield (
            f"the report has two totals: {totals.epochs_ms:.3f} ms beside its epochs and "
            f"{totals.total_ms:.3f} ms for the whole model, likely a second run with the epoch "
            "controller: pre and post phases are all but gone there"
        )
