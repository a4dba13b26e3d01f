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
    found: defaultdict[str, float] = defaultdict(float)
    for name, accesses in called.items():
        found[roots[name]] += accesses
    for name, engines in _engines(program, roots).items():
        agree = _agree(engines) and name not in called
        for engine in engines:
            if not engine.dir:
                found[name] += _accesses(engine, agree, machine.placement)
    return dict(found)


def _engines(program: Program, roots: dict[str, str]) -> dict[str, list[Streng]]:
    found: dict[str, list[Streng]] = {}
    for epoch in program.epochs:
        for group in epoch.groups or ():
            for unit in group.units:
                if isinstance(unit, Streng):
                    found.setdefault(roots[unit.addr_base.buffer], []).append(unit)
    return found


def _agree(engines: list[Streng]) -> bool:
    """Written and read in the same frames."""
    return len({e.run_bytes for e in engines}) == 1 and any(e.dir for e in engines)


def _accesses(engine: Streng, agree: bool, rules: Placement) -> float:
    run = rules.access_bytes if agree or engine.raw else engine.run_bytes
    return engine.total_bytes / run


def _call_accesses(program: Program, rules: Placement) -> dict[str, float]:
    """Of what a library call reads; what it writes counts alike [fit: RAM of FastDepth]."""
    sizes = {buffer.name: buffer.size_bytes for buffer in program.buffers}
    found: defaultdict[str, float] = defaultdict(float)
    for epoch in program.epochs:
        if epoch.call is not None:
            for name in (*epoch.call.inputs, *epoch.call.outputs):
                if name:
                    found[name] += sizes[name] / rules.call_bytes
    return dict(found)
