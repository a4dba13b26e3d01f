"""How often a program reads each of its buffers, in accesses: the order of placement needs it."""

from __future__ import annotations

from collections import defaultdict

from npuscope.machine.model import Machine, Placement
from npuscope.program.model import Program
from npuscope.program.units import Streng


def read_accesses(program: Program, machine: Machine) -> dict[str, float]:
    """By the name of a buffer that is nobody's view.

    What is read in the frames in which it was written counts as adjacent bytes: the vendor's
    compilers store it frame by frame [code: two builds of 3.0].
    """
    roots = {buffer.name: buffer.view_of or buffer.name for buffer in program.buffers}
    called = _call_accesses(program, machine.placement)
    accesses_of: defaultdict[str, float] = defaultdict(float)
    for name, accesses in called.items():
        accesses_of[roots[name]] += accesses
    for name, engines in _engines(program, roots).items():
        agree = _agree(engines) and name not in called
        for engine in engines:
            if not engine.dir:
                run = machine.placement.access_bytes if agree or engine.raw else engine.run_bytes
                accesses_of[name] += engine.total_bytes / run
    return dict(accesses_of)


def _engines(program: Program, roots: dict[str, str]) -> dict[str, list[Streng]]:
    engines: dict[str, list[Streng]] = {}
    for epoch in program.epochs:
        for group in epoch.groups or ():
            for unit in group.units:
                if isinstance(unit, Streng):
                    engines.setdefault(roots[unit.addr_base.buffer], []).append(unit)
    return engines


def _agree(engines: list[Streng]) -> bool:
    """Written and read in the same frames."""
    return len({e.run_bytes for e in engines}) == 1 and any(e.dir for e in engines)


def _call_accesses(program: Program, rules: Placement) -> dict[str, float]:
    """Of what a library call reads; what it writes counts alike [fit: RAM of FastDepth]."""
    sizes = {buffer.name: buffer.size_bytes for buffer in program.buffers}
    accesses: defaultdict[str, float] = defaultdict(float)
    for epoch in program.epochs:
        if epoch.call is not None:
            for name in (*epoch.call.inputs, *epoch.call.outputs):
                if name:
                    accesses[name] += sizes[name] / rules.call_bytes
    return dict(accesses)
