"""Profiles of machines without epochs of their own: parts that follow one another, with names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from npuscope.profiling.model import (
    UNKNOWN_FIT,
    UNKNOWN_MEMORY,
    EpochProfile,
    Fit,
    MachineInfo,
    MemoryUse,
    ModelInfo,
    Profile,
    Provenance,
    Run,
    RunClocks,
    Spread,
    TimeShares,
)
from npuscope.program.model import Claims, EpochKind
from npuscope.sim.counters import Bound, EpochCounters


def plain_part(
    index: int,
    name: str,
    ms: float,
    *,
    kind: EpochKind = EpochKind.HW,
    operators: tuple[str, ...] = (),
    origin: tuple[str, ...] = (),
    provenance: Provenance = Provenance.ESTIMATE,
    spread: Spread | None = None,
    counters: EpochCounters | None = None,
) -> EpochProfile:
    """One part of a run, of which no more is known than where it ran and how long."""
    return EpochProfile(
        index=index,
        name=name,
        first=index,
        last=index,
        kind=kind,
        blob=None,
        operators=operators,
        origin=origin,
        units={},
        claims=Claims(),
        counters=counters or EpochCounters(index, index, 0.0, 0.0, 0.0, Bound.UNKNOWN),
        ms=ms,
        provenance=provenance,
        spread=spread or Spread(ms, ms, ms, 1),
    )


def plain_profile(
    model: ModelInfo,
    machine: MachineInfo,
    parts: Sequence[EpochProfile],
    *,
    total_ms: float | None = None,
    interval_ms: tuple[float, float | None] | None = None,
    provenance: Provenance = Provenance.ESTIMATE,
    clocks: RunClocks | None = None,
    inferences: int = 1,
    model_error: str = "",
    memory: MemoryUse = UNKNOWN_MEMORY,
    fit: Fit = UNKNOWN_FIT,
    notes: Sequence[str] = (),
    family: str = "",
    machine_words: str = "",
    fit_words: str = "",
    batch: int = 1,
    figures: Mapping[str, float] | None = None,
    payload: Any = None,
) -> Profile:
    """The sum of the parts, unless engines worked beside each other and `total_ms` is known."""
    total = sum(part.ms for part in parts) if total_ms is None else total_ms
    sums = {kind: sum(p.ms for p in parts if p.kind is kind) for kind in EpochKind}
    counts = {kind.value: sum(p.kind is kind for p in parts) for kind in EpochKind}
    clocks = clocks or RunClocks(machine.mcu_mhz, machine.npu_mhz, 0.0, 0.0)
    return Profile(
        program_hash="",
        model=model,
        machine=machine,
        runs=(Run(provenance, clocks, inferences),),
        epochs=tuple(parts),
        total_ms=total,
        interval_ms=interval_ms or (total, total),
        model_error=model_error,
        time=TimeShares(sums[EpochKind.HW], sums[EpochKind.EMPTY], sums[EpochKind.SW], 0.0),
        memory=memory,
        fit=fit,
        counts={name: number for name, number in counts.items() if number},
        notes=tuple(notes),
        family=family,
        machine_words=machine_words,
        fit_words=fit_words,
        batch=batch,
        figures=dict(figures or {}),
        payload=payload,
    )
