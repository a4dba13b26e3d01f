"""Advice on epochs without a layer: copies, broadcasts, element-wise passes; shared banks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from npuscope.advice.refused import buffers_made, buffers_read, roots
from npuscope.advice.subject import Subject, accumulation_passes, convolutions
from npuscope.program.model import Epoch
from npuscope.program.units import Streng
from npuscope.rulebook import fixes
from npuscope.rulebook.finding import Confidence, Hit, Severity, Value
from npuscope.rulebook.fix import at_most
from npuscope.rulebook.registry import advise
from npuscope.sim.counters import Bound

# Shares of the time below which an epoch, or all of a kind, are not worth a line (choices).
_SHARE = 0.03
_BANK_SHARE = 0.05
_ELEMENTWISE_SHARE = 0.25
_SHOWN = 5  # names in one finding


@advise(
    "ADV-COPIES",
    "Time goes into copies",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="The epoch computes nothing: it joins, cuts or reorders channels.",
    fixes=(fixes.CHANNEL_LAST_BORDER, fixes.AVOID_COPY),
)
def epoch_only_copies(subject: Subject) -> Iterator[Hit]:
    """An epoch that computes nothing takes a good part of the time."""
    for epoch, run in subject.hardware(_SHARE):
        if epoch.units and all(isinstance(unit, Streng) for unit in epoch.units):
            moved = sum(e.total_bytes for e in epoch.units if isinstance(e, Streng) and e.dir)
            evidence = {"ms": round(run.ms, 6)}
            gains = {name: at_most(run.ms) for name in ("avoid-copy", "channel-last-border")}
            text, fixes = f"{moved} bytes copied", _border_fix(epoch, subject)
            yield Hit(epoch.origin, text, 0, evidence, fixes, gains, epoch.number)


def _border_fix(epoch: Epoch, subject: Subject) -> Mapping[str, Mapping[str, Value]]:
    """A change of layout at the border goes away where the application has the other one."""
    if set(epoch.operators) != {"Identity"}:
        return {}
    touched = buffers_read(epoch), buffers_made(epoch)
    borders = subject.program.inputs, subject.program.outputs
    for side, names, border in zip(("input", "output"), touched, borders, strict=True):
        if roots(names, subject.program) & roots(border, subject.program):
            return {"channel-last-border": {"side": side}}
    return {}


@advise(
    "ADV-BROADCAST",
    "A small operand is read again and again",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="A short operand is repeated for an element-wise op: 1.2 cycles per element, plus about "
    "31 per restart. Compilers before 4.0 read only as many entries at a time as the layer before "
    "makes channels, one to eight; a full operand takes one cycle per element.",
    fixes=(fixes.FULL_OPERAND,),
)
def operand_is_repeated(subject: Subject) -> Iterator[Hit]:
    """An engine or a unit repeats a short operand, and that sets the time of the epoch."""
    for epoch, run in subject.hardware(_SHARE):
        if run.counters.bound is not Bound.ARITH_VECTOR or convolutions(epoch):
            continue
        elements = max(e.total_elements for e in epoch.units if isinstance(e, Streng) and e.dir)
        rate = f"{run.counters.core_cycles / elements:.3g} cycles per element"
        limit = f"{subject.machine.timing.elementwise_cycles:g}"
        evidence = {"ms": round(run.ms, 6)}
        gains = {"full-operand": at_most(run.ms)}
        yield Hit(epoch.origin, rate, limit, evidence, gains=gains, epoch=epoch.number)


@advise(
    "ADV-ELEMENTWISE",
    "Much time in element-wise passes",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="Activations and affine ops that were not fused into a layer pass over whole tensors.",
    fixes=(fixes.FOLD_ELEMENTWISE,),
)
def passes_over_whole_tensors(subject: Subject) -> Iterator[Hit]:
    """Much of the time goes into element-wise epochs."""
    rows = [(e, run) for e, run in subject.hardware() if _is_elementwise(e, subject)]
    ms = sum(run.ms for _, run in rows)
    if rows and subject.share(ms) >= _ELEMENTWISE_SHARE:
        slowest = sorted(rows, key=lambda row: -row[1].ms)[:_SHOWN]
        ops = tuple(name for epoch, _ in slowest for name in epoch.origin)
        evidence = {"ms": round(ms, 6), "epochs": len(rows)}
        limit = f"below {_ELEMENTWISE_SHARE:.0%}"
        gains = {"fold-elementwise": at_most(ms)}
        yield Hit(ops, f"{subject.share(ms):.0%} of the time", limit, evidence, gains=gains)


def _is_elementwise(epoch: Epoch, subject: Subject) -> bool:
    kinds = {unit.unit for unit in epoch.units}
    passes = bool(kinds & {"ARITH", "ACTIV"}) and not kinds & {"CONVACC", "POOL"}
    return passes and not subject.is_of_layers(epoch)


@advise(
    "ADV-BANK",
    "Streams share one memory bank",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="All engines of the epoch read or write the same bank (or bus interface), which cannot "
    "serve them at full speed.",
    fixes=(fixes.OPTION_SHUFFLE_DMA,),
)
def streams_share_a_bank(subject: Subject) -> Iterator[Hit]:
    """One memory bank or bus interface sets the time of an epoch."""
    for epoch, run in subject.hardware(_BANK_SHARE):
        if run.counters.bound not in (Bound.BANK, Bound.BUSIF):
            continue
        if accumulation_passes(epoch) == 1:  # partial sums have advice of their own
            moved = {row.pool: row.read_bytes + row.write_bytes for row in run.counters.traffic}
            busiest = max(moved, key=lambda pool: moved[pool]) if moved else None
            evidence = {"ms": round(run.ms, 6), "pool": busiest}
            text = run.counters.bound.value
            yield Hit(epoch.origin, text, "features", evidence, epoch=epoch.number)
