"""What surrounds the core of an epoch: the CPU's or the epoch controller's own work."""

from __future__ import annotations

from npuscope.machine.model import Machine
from npuscope.program.model import Epoch, Program
from npuscope.program.units import Arith, Streng


def cpu_phases(epoch: Epoch, program: Program, machine: Machine) -> tuple[float, float]:
    """MCU cycles to configure and to close an epoch that the CPU schedules."""
    control = machine.generation.control
    engines = sum(isinstance(unit, Streng) for unit in epoch.units)
    units = len(epoch.units) - engines
    pre = control.pre_fixed + control.pre_per_unit * units + control.pre_per_engine * engines
    pre += control.pre_per_entry * vector_entries(epoch, program)
    post = control.post_fixed + control.post_per_unit * units + control.post_per_engine * engines
    return pre, post


def vector_entries(epoch: Epoch, program: Program) -> int:
    """Channels whose coefficients the CPU writes before the start.

    Board epochs with one and with two vectors a channel cost the same.
    """
    elements = {b.name: b.size_bytes * 8 // b.nbits for b in program.buffers if b.is_param}
    entries = 0
    for unit in epoch.units:
        if isinstance(unit, Arith):
            vectors = (unit.A_vector, unit.B_vector, unit.C_vector)
            own = (elements[ref.buffer] for ref in vectors if ref)
            entries = max(entries, *own, 0)
    return entries


def controller_phases(epoch: Epoch, program: Program, machine: Machine) -> tuple[float, float]:
    """MCU cycles at the borders of a blob: only its first and last epoch see the CPU."""
    control = machine.generation.control
    blob = [e.number for e in program.epochs if e.blob == epoch.blob]
    pre = control.controller_pre_cycles if epoch.number == blob[0] else 0.0
    post = control.controller_post_cycles if epoch.number == blob[-1] else 0.0
    return pre, post
