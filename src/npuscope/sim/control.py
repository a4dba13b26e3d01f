"""What surrounds the core of an epoch: the CPU's or the epoch controller's own work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from npuscope.machine.model import Control
from npuscope.program.model import Epoch, EpochKind, Program
from npuscope.program.units import Arith, Streng


@dataclass(frozen=True, slots=True)
class ControlWork:
    """What has to be programmed around one epoch."""

    units: int
    engines: int
    entries: int  # channels whose coefficients the CPU writes before the start
    opens: bool  # the first epoch of its blob
    closes: bool


def control_works(program: Program) -> tuple[ControlWork, ...]:
    """By executed epoch."""
    elements = {b.name: b.size_bytes * 8 // b.nbits for b in program.buffers if b.is_param}
    first: dict[int | None, int] = {}
    last: dict[int | None, int] = {}
    for epoch in program.epochs:
        first.setdefault(epoch.blob, epoch.number)
        last[epoch.blob] = epoch.number
    return tuple(
        _work(epoch, elements, first[epoch.blob], last[epoch.blob]) for epoch in program.executed
    )


def _work(epoch: Epoch, elements: Mapping[str, int], first: int, last: int) -> ControlWork:
    engines = sum(isinstance(unit, Streng) for unit in epoch.units)
    by_cpu = epoch.kind is EpochKind.HW and epoch.blob is None
    entries = _vector_entries(epoch, elements) if by_cpu else 0
    others = len(epoch.units) - engines
    return ControlWork(others, engines, entries, epoch.number == first, epoch.number == last)


def _vector_entries(epoch: Epoch, elements: Mapping[str, int]) -> int:
    """Board epochs with one and with two vectors a channel cost the same."""
    entries = 0
    for unit in epoch.units:
        if isinstance(unit, Arith):
            vectors = (unit.A_vector, unit.B_vector, unit.C_vector)
            own = (elements[ref.buffer] for ref in vectors if ref)
            entries = max(entries, *own, 0)
    return entries


def cpu_phases(work: ControlWork, control: Control) -> tuple[float, float]:
    """MCU cycles to configure and to close an epoch that the CPU schedules."""
    units, engines = work.units, work.engines
    pre = control.pre_fixed + control.pre_per_unit * units + control.pre_per_engine * engines
    pre += control.pre_per_entry * work.entries
    post = control.post_fixed + control.post_per_unit * units + control.post_per_engine * engines
    return pre, post


def controller_phases(work: ControlWork, control: Control) -> tuple[float, float]:
    """MCU cycles at the borders of a blob: only its first and last epoch see the CPU."""
    pre = control.controller_pre_cycles if work.opens else 0.0
    return pre, control.controller_post_cycles if work.closes else 0.0
