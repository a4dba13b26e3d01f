"""Advice on epochs without a layer: copies, broadcasts, element-wise passes; shared banks."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.advice.advise import advise
from npuscope.advice.subject import Subject, convolutions
from npuscope.program.model import Epoch
from npuscope.program.units import Streng
from npuscope.rules.finding import Hit
from npuscope.sim.counters import Bound

_SHARE = 0.03
_BANK_SHARE = 0.05
_ELEMENTWISE_SHARE = 0.25
_SHOWN = 5


@advise("ADV-COPIES")
def epoch_only_copies(subject: Subject) -> Iterator[Hit]:
    """An epoch that computes nothing takes a good part of the time."""
    for epoch, run in subject.hardware(_SHARE):
        if epoch.units and all(isinstance(unit, Streng) for unit in epoch.units):
            moved = sum(e.total_bytes for e in epoch.units if isinstance(e, Streng) and e.dir)
            evidence = {"ms": round(run.ms, 6)}
            gains = {"avoid-copy": run.ms}
            text = f"{moved} bytes copied"
            yield Hit(epoch.origin, text, 0, evidence, gains=gains, epoch=epoch.number)


@advise("ADV-BROADCAST")
def operand_is_repeated(subject: Subject) -> Iterator[Hit]:
    """An engine reads a short operand again for every row of the other."""
    timing = subject.machine.timing
    for epoch, run in subject.hardware(_SHARE):
        if run.counters.bound is not Bound.ARITH_VECTOR or convolutions(epoch):
            continue
        # All but the start of the epoch shrinks to what a full operand takes.
        streamed = run.counters.core_cycles - timing.move_start_cycles
        saved = streamed * (1 - timing.elementwise_cycles / timing.broadcast_cycles)
        gain = max(0.0, saved) / subject.machine.clocks.npu_mhz / 1000
        evidence = {"ms": round(run.ms, 6)}
        rate = f"{timing.broadcast_cycles:g} cycles an element"
        limit = f"{timing.elementwise_cycles:g}"
        yield Hit(
            epoch.origin,
            rate,
            limit,
            evidence,
            gains={"expand-operand": gain},
            epoch=epoch.number,
        )


@advise("ADV-ELEMENTWISE")
def passes_over_whole_tensors(subject: Subject) -> Iterator[Hit]:
    """Much of the time goes into element-wise epochs."""
    rows = [(epoch, run) for epoch, run in subject.hardware() if _is_elementwise(epoch)]
    ms = sum(run.ms for _, run in rows)
    if rows and subject.share(ms) >= _ELEMENTWISE_SHARE:
        slowest = sorted(rows, key=lambda row: -row[1].ms)[:_SHOWN]
        ops = tuple(name for epoch, _ in slowest for name in epoch.origin)
        evidence = {"ms": round(ms, 6), "epochs": len(rows)}
        limit = f"below {_ELEMENTWISE_SHARE:.0%}"
        yield Hit(ops, f"{subject.share(ms):.0%} of the time", limit, evidence)


def _is_elementwise(epoch: Epoch) -> bool:
    kinds = {unit.unit for unit in epoch.units}
    return bool(kinds & {"ARITH", "ACTIV"}) and not kinds & {"CONVACC", "POOL"}


@advise("ADV-BANK")
def streams_share_a_bank(subject: Subject) -> Iterator[Hit]:
    """One memory bank or bus interface sets the time of an epoch."""
    for epoch, run in subject.hardware(_BANK_SHARE):
        if run.counters.bound in (Bound.BANK, Bound.BUSIF):
            busiest = max(
                run.counters.traffic, key=lambda row: row.read_bytes + row.write_bytes, default=None
            )
            evidence = {"ms": round(run.ms, 6), "pool": busiest.pool if busiest else None}
            text = run.counters.bound.value
            yield Hit(epoch.origin, text, "features", evidence, epoch=epoch.number)
