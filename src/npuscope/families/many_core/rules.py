"""Rules on networks and runs of many-core machines, in the registry of all rules.

Advice looks at the tables of a run, whoever made them: a buffer, a simulation, another source. What
fixes would save comes from the levers of these tables."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from npuscope.families.many_core.layout import Engine, MemorySpace
from npuscope.families.many_core.opstats.model import CoreBound, CoreTables, OpLabel, Opstats
from npuscope.families.many_core.rule_subject import CoreRun
from npuscope.ops.table import OPS
from npuscope.ops.traits import Trait
from npuscope.rulebook import fixes
from npuscope.rulebook import registry as rulebook
from npuscope.rulebook.finding import (
    Confidence,
    Finding,
    Hit,
    Severity,
    Value,
    gravest_first,
    worst_first,
)
from npuscope.rulebook.fix import at_most
from npuscope.rulebook.registry import RuleKind, findings_of

if TYPE_CHECKING:
    from npuscope.families.many_core.machine import CoreMachine
    from npuscope.graph.model import Graph, Op

FAMILY = "many-core"
# From these on something is worth a word; below, nobody would change a network for it.
_SYNC, _HOST, _CONVERSIONS, _UNEVEN, _POOR_HMX, _MUCH = 0.2, 0.1, 0.15, 1.2, 0.3, 0.05
_CONVERTING = ("aicconverttod32", "aicconvertfromd32", "aicconvertweightstod32", "aictranspose")
_ENDS = ("aicendcyclestats", "aicinputsemaphoreinc", "aicoutputsemaphoreinc")


advise = partial(rulebook.advise, family=FAMILY, confidence=Confidence.DOCUMENTED)
lint = partial(rulebook.lint, family=FAMILY, confidence=Confidence.DOCUMENTED)


def core_findings(tables: Opstats) -> tuple[Finding, ...]:
    """What the rules find in a run, what costs most first."""
    run = CoreRun(tables)
    return worst_first(findings_of(__name__, RuleKind.ADVISE, run), run.ms)


def core_lints(graph: Graph, machine: CoreMachine) -> tuple[Finding, ...]:
    """Risks that the network alone shows."""
    return gravest_first(findings_of(__name__, RuleKind.LINT, graph, machine))


@advise(
    "ADV-CORE-DDR",
    "The inference waits for DDR",
    severity=Severity.WARNING,
    cause="All cores share one DDR, and constants are read from it with every inference. What they "
    "take to arrive does not shrink with the number of cores.",
    fixes=(fixes.CORE_BATCH, fixes.CORE_INTEGERS, fixes.CORE_KEEP),
)
def waits_for_ddr(run: CoreRun) -> Iterator[Hit]:
    """Transfers from and to DDR are under way most of the time."""
    if run.tables.verdict.bound is not CoreBound.DDR:
        return
    evidence = {
        "ms": round(run.path("DDR") * run.ms, 6),
        "critical_path": round(run.path("DDR"), 4),
        "ddr_bytes": run.tables.ddr_bytes,
    }
    gains = run.gains("core-batch", "core-integers", "core-keep")
    yield Hit(
        (),
        _percent(run.share("DDR")),
        "below 60 % of the time",
        evidence,
        gains=gains,
        unfit=run.unfit,
    )


@advise(
    "ADV-CORE-HMX",
    "HMX works most of the time",
    severity=Severity.INFO,
    cause="The matrix engines are what the inference waits for: more of them, or twice as many "
    "products per cycle with 8-bit integers, is what makes it faster.",
    fixes=(fixes.CORE_INTEGERS, fixes.CORE_MORE),
)
def hmx_is_full(run: CoreRun) -> Iterator[Hit]:
    """No other engine is at work longer than HMX."""
    if run.tables.verdict.bound is CoreBound.HMX:
        gains = run.gains("core-integers", "core-more")
        share = _percent(run.share("HMX"))
        path = run.path("HMX")
        evidence: dict[str, Value] = {
            "ms": round(path * run.ms, 6),
            "critical_path": round(path, 4),
        }
        yield Hit((), share, None, evidence, run.settings(), gains, unfit=run.unfit)


@advise(
    "ADV-CORE-HVX",
    "Vector ops hold the inference up",
    severity=Severity.WARNING,
    cause="Softmax, erf and element-wise ops run on the vector threads, at many cycles per KB, "
    "while HMX waits for them.",
    fixes=(fixes.CORE_CHEAPER, fixes.CORE_INTEGERS, fixes.CORE_MORE),
)
def vectors_hold_up(run: CoreRun) -> Iterator[Hit]:
    """HVX is at work longer than any other engine."""
    if run.tables.verdict.bound is not CoreBound.HVX:
        return
    kinds: dict[str, int] = {}
    for row in run.ops():
        if row.label.engine == Engine.HVX.value:
            kinds[row.label.kind] = kinds.get(row.label.kind, 0) + (row.pcycles or 0)
    dearest = max(kinds, key=kinds.__getitem__, default="")
    share = _percent(kinds[dearest] / max(sum(kinds.values()), 1)) if dearest else ""
    settings = run.settings()
    if dearest:
        settings["core-cheaper"] = {"kind": dearest, "share": share}
    gains = run.gains("core-integers", "core-more")
    evidence: dict[str, Value] = {"ms": round(run.path("HVX") * run.ms, 6), "dearest": dearest}
    share = _percent(run.share("HVX"))
    yield Hit((), share, None, evidence, settings, gains, unfit=run.unfit)


@advise(
    "ADV-CORE-SYNC",
    "Engines wait for each other",
    severity=Severity.WARNING,
    cause="Every op ends at a barrier, where what others wait for is handed over. With small ops "
    "that takes as long as their work.",
    fixes=(fixes.FEWER_OPS, fixes.CORE_BATCH, fixes.CORE_COPIES),
)
def engines_wait(run: CoreRun) -> Iterator[Hit]:
    """Barriers and hand-overs take a large part of the critical path."""
    share = run.path("synchronisation")
    if share < _SYNC:
        return
    gains = run.gains("fewer-ops", "core-batch", "core-copies")
    value, cost = f"{_percent(share)} of the critical path", {"ms": round(share * run.ms, 6)}
    yield Hit((), value, f"below {_percent(_SYNC)}", cost, run.settings(), gains)


@advise(
    "ADV-CORE-HOST",
    "The device waits for the host",
    severity=Severity.WARNING,
    cause="An inference starts when its input has been copied and the doorbell has rung. With few "
    "inferences in the queue the device is done before the next one is there.",
    fixes=(fixes.CORE_QUEUE,),
)
def waits_for_the_host(run: CoreRun) -> Iterator[Hit]:
    """Cores wait for the doorbell of the input for a large part of the inference."""
    share = run.share("host")
    if share >= _HOST:
        waited = share * run.ms
        limit, cost = f"below {_percent(_HOST)}", {"ms": round(waited, 6)}
        gains = run.gains("core-queue") or {"core-queue": at_most(waited)}
        yield Hit((), _percent(share), limit, cost, gains=gains)


@advise(
    "ADV-CORE-SPILL",
    "Activations leave VTCM",
    severity=Severity.WARNING,
    cause="What does not fit VTCM is written to DDR and read again, which all cores share.",
    fixes=(fixes.CORE_SMALLER, fixes.CORE_MORE),
)
def activations_leave(run: CoreRun) -> Iterator[Hit]:
    """Ops write their results to DDR."""
    rows = [row for row in run.ops() if _leaves(row.label)]
    if rows:
        moved = sum(row.out_bytes or 0 for row in rows)
        gains = run.gains("core-more")
        text, evidence = f"{moved / 1e6:,.2f} MB per inference", {"bytes": moved}
        yield Hit((), text, 0, evidence, run.settings(), gains)


def _leaves(label: OpLabel) -> bool:
    working = label.engine in (Engine.HVX.value, Engine.HMX.value) and label.kind not in _ENDS
    return working and label.memory in (MemorySpace.DDR.value, MemorySpace.CACHED.value)


@advise(
    "ADV-CORE-UNEVEN",
    "Cores have unequal work",
    severity=Severity.INFO,
    cause="Rows and blocks of 32 channels are given out whole. Where their number is not a "
    "multiple of the cores, some cores have one more, and all wait for those.",
    fixes=(fixes.CORE_DIVISOR,),
)
def unequal_work(run: CoreRun) -> Iterator[Hit]:
    """The busiest core works much longer than the mean."""
    busy, ratio = [_busy(core) for core in run.tables.cores], unevenness(run.tables)
    if ratio >= _UNEVEN:
        core = run.tables.cores[busy.index(max(busy))].core
        value = f"core {core} works {ratio:.2f} times the mean"
        yield Hit((), value, f"below {_UNEVEN:g}", {"ratio": round(ratio, 4)})


def unevenness(tables: Opstats) -> float:
    """Work of the busiest core, times the mean."""
    busy = [_busy(core) for core in tables.cores]
    return max(busy) * len(busy) / sum(busy) if sum(busy) else 1.0


def _busy(core: CoreTables) -> int:
    """Cycles of HMX and of the vector thread that works longest."""
    cycles: dict[str, int] = {}
    for row in core.threads:
        if row.engine in ("HVX", "HMX"):
            cycles[row.engine] = max(cycles.get(row.engine, 0), row.busy_pcycles or 0)
    return sum(cycles.values())


@advise(
    "ADV-CORE-IDLE",
    "Cores of the device are idle",
    severity=Severity.INFO,
    cause="A program runs on the cores that it was compiled for; others are free for more copies.",
    fixes=(fixes.CORE_COPIES, fixes.CORE_MORE),
)
def idle_cores(run: CoreRun) -> Iterator[Hit]:
    """The program uses half of the cores or fewer."""
    if run.fitting_copies > 1:
        gains = run.gains("core-copies", "core-more")
        most = run.tables.capacity.cores if run.tables.capacity else 0
        value = f"{len(run.tables.cores)} of {most} cores"
        yield Hit((), value, None, {}, run.settings(), gains)


@advise(
    "ADV-CORE-CONVERT",
    "Changes of layout take much of the vector threads",
    severity=Severity.INFO,
    cause="Products read blocks of 32 channels, softmax and moves read rows; between them the "
    "vector threads rearrange what is there.",
    fixes=(fixes.CORE_FEWER_MOVES,),
)
def changes_of_layout(run: CoreRun) -> Iterator[Hit]:
    """Conversions and transposes are a large part of the cycles of HVX."""
    rows = [row for row in run.ops() if row.label.engine == Engine.HVX.value]
    every = sum(row.pcycles or 0 for row in rows if not row.label.kind.startswith(_ENDS))
    moved = sum(row.pcycles or 0 for row in rows if row.label.kind.startswith(_CONVERTING))
    share = moved / every if every else 0.0
    if share >= _CONVERSIONS:
        limit = f"below {_percent(_CONVERSIONS)}"
        yield Hit((), f"{_percent(share)} of the cycles of HVX", limit)


@advise(
    "ADV-CORE-FEW-ROWS",
    "A product uses little of HMX",
    severity=Severity.INFO,
    cause="HMX takes whole blocks of rows and of 32 channels; a product with fewer takes as long "
    "as a full one.",
    fixes=(fixes.CORE_BATCH,),
)
def little_of_hmx(run: CoreRun) -> Iterator[Hit]:
    """A node makes far fewer products per cycle than HMX can."""
    most, total = run.tables.capacity, sum(row.hmx_pcycles for row in run.tables.nodes)
    for row in run.tables.nodes if most else ():
        assert most is not None
        used = row.macs / (row.hmx_pcycles * most.macs_per_cycle) if row.hmx_pcycles else 0.0
        if row.hmx_pcycles >= _MUCH * total and 0 < used < _POOR_HMX:
            share = round(row.hmx_pcycles / total, 4)
            evidence: dict[str, Value] = {"hmx_share": share, "module": row.module}
            limit = f"above {_percent(_POOR_HMX)}"
            yield Hit((row.node,), f"{_percent(used)} of HMX peak", limit, evidence)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


# --- What a network alone shows ---

_BLOCK = 32  # channels
_LEAST_CHANNELS = 8  # fewer are an image's or a detector's last layer: nobody pads those


@lint(
    "LINT-CORE-CHANNELS",
    "Channels fill blocks of 32 in part",
    severity=Severity.INFO,
    cause="Products work on blocks of 32 channels; the rest of a block is computed too.",
    fixes=(fixes.CHANGE_OUTPUTS,),
)
def blocks_in_part(graph: Graph, machine: CoreMachine) -> Iterator[Hit]:
    """The output channels of a product are not a multiple of 32."""
    for op in _products(graph):
        channels = graph.output_tensor(op).shape[-1]
        whole = -(-channels // _BLOCK) * _BLOCK
        if channels >= _LEAST_CHANNELS and whole / channels >= _UNEVEN:
            settings = {"change-outputs": {"channels": whole}}
            yield Hit(op.origin or (op.name,), channels, f"a multiple of {_BLOCK}", {}, settings)


@lint(
    "LINT-CORE-ROWS",
    "Products have fewer rows than HMX takes",
    severity=Severity.INFO,
    cause="HMX takes blocks of rows; fewer rows take as long as a block.",
    fixes=(fixes.CORE_BATCH,),
)
def too_few_rows(graph: Graph, machine: CoreMachine) -> Iterator[Hit]:
    """A product has fewer rows than a block of HMX."""
    least = int(machine.hmx.least_rows)
    few = [op for op in _products(graph) if prod(graph.output_tensor(op).shape[:-1]) < least]
    for op in few:
        rows = prod(graph.output_tensor(op).shape[:-1])
        yield Hit(op.origin or (op.name,), f"{rows} row{'s' * (rows != 1)}", least)


@lint(
    "LINT-CORE-HALF",
    "Constants are beyond half floats",
    severity=Severity.WARNING,
    cause="Floats have 16 bits on the device, at most 65,504; larger values are clipped.",
    fixes=(fixes.CORE_SMALL_CONSTANTS,),
)
def beyond_half_floats(graph: Graph, machine: CoreMachine) -> Iterator[Hit]:
    """A float constant has values that half floats do not reach."""
    most = float(np.finfo(np.float16).max)
    for op in graph.ops:
        for name in filter(None, op.inputs):
            data = graph.tensors[name].data
            if data is None or data.dtype.kind != "f" or not data.size:
                continue
            largest = float(np.abs(data).max())
            if largest > most:
                yield Hit(op.origin or (op.name,), f"{name}: {largest:.4g}", round(most))


def _products(graph: Graph) -> list[Op]:
    return [op for op in graph.ops if OPS[op.kind].has(Trait.PRODUCT)]
