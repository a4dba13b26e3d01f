"""What the page shows of a profile: figures with their source, epochs, and all that lies around."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from npuscope.advice.changes import Change
from npuscope.advice.explanation import Built, Explanation
from npuscope.profiling.model import (
    UNKNOWN_FIT,
    UNKNOWN_MEMORY,
    EpochProfile,
    Profile,
    RunClocks,
    TensorInfo,
)
from npuscope.program.model import Epoch, EpochKind, Program
from npuscope.program.units import Streng
from npuscope.report.figures import (
    DASH,
    answer,
    chip_words,
    clocks_of,
    compiler_words,
    count,
    epoch_counts,
    how_sure,
    is_bare,
    is_predicted,
    label,
    machine_words,
    millions,
    ms,
    percent,
    phases,
    size,
    source_of,
    verdict,
)
from npuscope.report.findings import fix_words, known_changes
from npuscope.report.html.evidence import evidence_text
from npuscope.report.html.memory_map import memory_map, roofs
from npuscope.report.html.page import page
from npuscope.rulebook.finding import Finding, Fix, causes_of
from npuscope.rulebook.training import training
from npuscope.shown import counted, significant
from npuscope.structs import replace
from npuscope.version import __version__

# --- Which epoch reads what another one wrote ---


def epoch_edges(profile: Profile, program: Program) -> list[tuple[int, int]]:
    """(producer, consumer) as places in the profile; a block that covers many counts as one.

    Several epochs may fill one buffer, each a part: all of them are producers.
    """
    place = _places(profile)
    owners = {buffer.name: buffer.view_of or buffer.name for buffer in program.buffers}
    writers: dict[str, dict[int, None]] = {}
    edges: dict[tuple[int, int], None] = {}
    for epoch in program.executed:
        here = place.get(epoch.number)
        if here is None:
            continue
        for name in _reads(epoch):
            sources = writers.get(owners.get(name, name), {})
            edges |= {(source, here): None for source in sources if source != here}
        for name in _writes(epoch):
            writers.setdefault(owners.get(name, name), {})[here] = None
    return list(edges)


# Keras numbers the parts of a block in one word: block_1_expand_relu.
_NUMBERED = re.compile(r"([A-Za-z]+_?\d+[a-z]?)_(?=[A-Za-z])")


def epoch_modules(profile: Profile, program: Program) -> list[list[str]]:
    """For every epoch the modules that its name tells, from the outermost on; [] where none."""
    places = _places(profile)
    modules: list[list[str]] = [[] for _ in profile.epochs]
    for epoch in program.executed:
        here = places.get(epoch.number)
        if here is not None and not modules[here]:
            modules[here] = _modules(epoch)
    return modules


def _modules(epoch: Epoch) -> list[str]:
    """By the source op; formats without names of ops have some for tensors."""
    names = (*reversed(epoch.origin), *_writes(epoch))
    path = next((name for name in names if "/" in name), "").partition(";")[0]
    kind, _, rest = path.partition(":")  # "Conv:model/block/conv"
    parts = (rest if rest and "/" not in kind else path).strip("/").split("/")[:-1]
    return [
        piece for part in parts[:_MOST_MODULES] for piece in _NUMBERED.sub(r"\1/", part).split("/")
    ]


def _places(profile: Profile) -> dict[int, int]:
    return {
        number: index
        for index, epoch in enumerate(profile.epochs)
        for number in range(epoch.first, epoch.last + 1)
    }


def _reads(epoch: Epoch) -> Iterator[str]:
    yield from epoch.call.inputs if epoch.call else ()
    yield from (unit.addr_base.buffer for unit in _engines(epoch) if not unit.dir)


def _writes(epoch: Epoch) -> Iterator[str]:
    yield from epoch.call.outputs if epoch.call else ()
    yield from (unit.addr_base.buffer for unit in _engines(epoch) if unit.dir)


def _engines(epoch: Epoch) -> Iterator[Streng]:
    return (unit for unit in epoch.units if isinstance(unit, Streng))


_MOST_MODULES = 8  # of one name, from the outermost on
_MOST_NAMES = 12  # of the ops in one epoch
_MOST_FINDINGS = 1000  # in the page; --json has all
_PLACED = "from the placement of this program"


def profile_page(profile: Profile, explanation: Explanation | None = None) -> str:
    """The HTML file of a profile; with what explains it also findings, memory, roofs and
    dependencies."""
    return page(profile_data(profile, explanation))


def explained_data(explanation: Explanation, built: Built | None) -> dict[str, Any]:
    return profile_data(explanation.profile, replace(explanation, build=built))


def profile_data(profile: Profile, explanation: Explanation | None = None) -> dict[str, Any]:
    findings = explanation.findings if explanation else ()
    built = explanation.build if explanation else None
    clocks = clocks_of(profile)
    # In the program's order; a device may count pools that it does not have.
    pool_names = [pool.name for pool in built.program.pools] if built else []
    for epoch in profile.epochs:
        pool_names += [row.pool for row in epoch.counters.traffic]
        pool_names += [row.pool for row in epoch.counters.engines]
    pools = list(dict.fromkeys(pool_names))
    return {
        "view": "profile",
        "version": __version__,
        "title": profile.model.file or "network",
        "answer": answer(profile),
        "machine": machine_words(profile),
        "said": explanation.verdict if explanation else "",
        "source": label(source_of(profile)),
        "error": profile.model_error if is_predicted(source_of(profile)) else "",
        "sure": how_sure(profile),
        "figures": _figures(profile),
        "facts": _facts(profile, clocks),
        "notes": list(profile.notes),
        # Times of epochs that ran beside each other are no parts of the run.
        "time": [] if profile.overlaps else [[name, ms] for name, ms in profile.time.by_work],
        "overlaps": profile.overlaps,
        "total_ms": profile.total_ms,
        "clocks": {"mcu_mhz": clocks.mcu_mhz, "npu_mhz": clocks.npu_mhz},
        "pools": pools,
        "epochs": [_epoch(epoch, profile, clocks, pools) for epoch in profile.epochs],
        "measured": any(epoch.predicted_ms is not None for epoch in profile.epochs),
        "edges": epoch_edges(profile, built.program) if built else None,
        "modules": epoch_modules(profile, built.program) if built else None,
        "memory": memory_map(profile, built) if built else None,
        "roofs": roofs(profile, built.machine) if built else None,
        "explained": explanation is not None,
        "findings": [finding_data(finding) for finding in islice(findings, _MOST_FINDINGS)],
        "causes": cause_data(findings, explanation.tried if explanation else ()),
        "more_findings": max(0, len(findings) - _MOST_FINDINGS),
    }


# --- Figures: value, meaning, source ---


def _figures(profile: Profile) -> list[dict[str, str]]:
    source = label(source_of(profile))  # its known error stands in the first line, once
    least, most = ("≥ ", "≤ ") if profile.is_lower_bound else ("", "")
    rate = f"{most}{significant(profile.inferences_per_s, 4)} inf/s"
    counter = "counted by the device" if profile.fit == UNKNOWN_FIT else "from the program"
    rows = [
        ("Inference", f"{least}{ms(profile.total_ms)} ms", _range(profile), source),
        ("Rate", rate, "one after the other", source),
        (*_utilisation(profile), source),
        ("Epochs", count(profile.epoch_count), epoch_counts(profile), counter),
        *_memory_figures(profile),
    ]
    return [dict(zip(("name", "value", "detail", "source"), row, strict=True)) for row in rows]


def _utilisation(profile: Profile) -> tuple[str, str, str]:
    """Of the NPU; of the engines, the busiest first, where they work beside each other."""
    if not profile.overlaps:
        core_ms = profile.time.npu_core_ms
        return (
            "NPU utilisation",
            percent(core_ms, profile.total_ms),
            f"{ms(core_ms)} ms of NPU core",
        )
    shares = {
        name.removesuffix("_share"): share
        for name, share in profile.figures.items()
        if name.endswith("_share")
    }
    busiest = sorted(shares.items(), key=lambda row: -row[1])
    engines = [
        f"{name if len(name) > 3 else name.upper()} {100 * share:.0f} %" for name, share in busiest
    ]
    return "Shares of the time", engines[0] if engines else DASH, ", ".join(engines[1:])


def _range(profile: Profile) -> str:
    low, high = profile.interval_ms
    if low == high or not is_predicted(source_of(profile)):
        runs = sum(run.n for run in profile.runs)
        return f"{runs} inferences" if runs > 1 else "one inference"
    return f"at least {ms(low)} ms" if high is None else f"{ms(low)} to {ms(high)} ms"


def _memory_figures(profile: Profile) -> list[tuple[str, str, str, str]]:
    memory = profile.memory
    if memory == UNKNOWN_MEMORY:
        return []
    bound = f"any placement needs at least {size(memory.lower_bound_bytes)} of RAM"
    fit = verdict(profile) if profile.fit != UNKNOWN_FIT else ""
    internal = bound if memory.lower_bound_bytes else fit
    params = profile.model.params
    network = f"{millions(params)} parameters" if params else ""
    external = fit if internal is bound else ""
    rows = [
        ("Internal RAM", size(memory.internal_ram_bytes), internal, _PLACED),
        ("External RAM", size(memory.external_ram_bytes), external, _PLACED),
        ("Weights", size(memory.weights_bytes), network, _PLACED),
    ]
    return [row for row in rows if row[0] != "External RAM" or row[2] or memory.external_ram_bytes]


def _facts(profile: Profile, clocks: RunClocks) -> list[list[str]]:
    """Assumptions, each once."""
    model = profile.model
    runs = "; ".join(f"{label(run.source)}, {counted(run.n, 'inference')}" for run in profile.runs)
    macs = f", {millions(model.macs)} MACs" if model.macs else ""
    rows = [
        ["Model", f"{model.file or 'unnamed'}{macs}"],
        ["MD5", model.md5],
        *(["Input", _tensor(tensor)] for tensor in model.inputs),
        *(["Output", _tensor(tensor)] for tensor in model.outputs),
        *_machine_facts(profile, clocks),
        ["Runs", runs or "none"],
        ["Known error", profile.model_error if is_predicted(source_of(profile)) else ""],
        ["Fit", "" if profile.fit == UNKNOWN_FIT else profile.fit.reason],
    ]
    return [row for row in rows if row[1]]


def _machine_facts(profile: Profile, clocks: RunClocks) -> list[list[str]]:
    machine = profile.machine
    if profile.machine_words:
        return [["Machine", machine_words(profile)]]
    words = [chip_words(profile), *(compiler_words(profile) or ["compiler not known"])]
    return [
        ["Machine", ", ".join(words)],
        ["Epoch controller", "on" if machine.epoch_controller else "off"],
        ["Clocks", f"MCU {clocks.mcu_mhz:g} MHz, NPU {clocks.npu_mhz:g} MHz"],
    ]


def _tensor(tensor: TensorInfo) -> str:
    shape = " x ".join(str(dim) for dim in tensor.shape)
    return f"{tensor.name}: {tensor.dtype} {shape}, {size(tensor.size_bytes)}"


# --- Epochs ---


def _epoch(
    epoch: EpochProfile, profile: Profile, clocks: RunClocks, pools: list[str]
) -> dict[str, Any]:
    counters, claims = epoch.counters, epoch.claims
    # Families without the vendor's compiler have none of its figures.
    has_claims = not is_bare(epoch) and not profile.family
    # [engine, writes, bus interface, share of the core time it was active, pool, bytes].
    core = 0.0 if epoch.kind is EpochKind.SW else epoch.counters.core_cycles
    engines = []
    for engine in epoch.counters.engines:
        active = round(min(1.0, engine.active_cycles / core), 3) if core > 0 else 1.0
        place = (engine.id, int(engine.dir == "o"), engine.busif)
        engines.append([*place, active, pools.index(engine.pool), engine.bytes])
    row: dict[str, Any] = {
        "first": epoch.first,
        "last": epoch.last,
        "kind": epoch.kind.value,
        "blob": epoch.blob,
        "ops": _names(epoch.operators),
        "origin": _names(epoch.origin),
        "ms": epoch.ms,
        "phases": _phases(epoch, profile, clocks),
        "bound": counters.bound.value,
        "source": label(epoch.provenance),
        "operations": claims.ops if has_claims else None,
        "compute_cycles": claims.compute_cycles if has_claims else None,
        "max_cycles": claims.max_cycles if has_claims else None,
        "core_cycles": round(counters.core_cycles),
        "units": {name: number for name, number in epoch.units.items() if number},
        "traffic": [[pools.index(r.pool), r.read_bytes, r.write_bytes] for r in counters.traffic],
        "engines": engines,
        "bus": [[bus.id, bus.read_bytes, bus.write_bytes] for bus in counters.busif],
        "predicted_ms": epoch.predicted_ms,
    }
    spread = epoch.spread
    return row | ({"spread": [spread.min, spread.max, spread.n]} if spread.n > 1 else {})


def _phases(epoch: EpochProfile, profile: Profile, clocks: RunClocks) -> list[float]:
    """pre, core and post; a part of which nothing was counted is all core."""
    counted_ms = phases(epoch, clocks).ms
    if any(counted_ms) or profile.overlaps:
        return list(counted_ms)
    return [0.0, epoch.ms, 0.0]


def _names(names: Sequence[str]) -> list[str]:
    first_names = list(names[:_MOST_NAMES])
    rest = len(names) - len(first_names)
    return [*first_names, f"and {rest} more"] if rest else first_names


def cause_data(findings: Sequence[Finding], tried: Iterable[Change] = ()) -> dict[str, Any]:
    """Causes with their fixes, in the words and with the figures of `explain`: [text, can be done
    by npuscope, what to change where the network is trained]; and what the best of them saves."""
    changes = known_changes(findings, tried)
    causes: dict[str, Any] = {}
    for group in causes_of(findings):
        names = dict.fromkeys(fix.id for finding in group for fix in finding.fixes)
        own = [changes[*group[0].pattern, name] for name in names]
        # What was timed is worth more than a larger bound.
        timed = [change for change in own if change.gain.is_timed and change.gain.may_pay]
        best = max(timed or own, key=lambda change: change.gain_ms or 0.0, default=None)
        causes[" ".join(group[0].pattern)] = {
            "fixes": [
                [fix_words(change, len(group)), change.fix.automatic, _spelling(change.fix)]
                for change in own
            ],
            "gain": None if best is None else best.gain_ms,
            "bound": best is not None and not best.gain.is_timed,
        }
    return causes


def _spelling(fix: Fix) -> str:
    spelled = training(fix.id, fix.parameters)
    return f"Keras: {spelled['keras']}; PyTorch: {spelled['torch']}" if spelled else ""


def finding_data(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "title": finding.title,
        "epoch": finding.epoch,
        "ops": list(finding.ops[:_MOST_NAMES]),
        "more_ops": max(0, len(finding.ops) - _MOST_NAMES),
        "evidence": evidence_text(finding),
        "cost": finding.evidence.get("ms"),
        "op": str(finding.evidence.get("op", "")),
        "cause": finding.cause,
        "confidence": finding.confidence.value,
    }
