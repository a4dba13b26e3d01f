"""How often a program reads each of its buffers, in accesses: the order of placement needs it."""

from __future__ import annotations

from collections import defaultdict

from npuscope.machine.model import Machine
from npuscope.program.model import Program
from npuscope.program.units import Streng


def read_accesses(program: Program, machine: Machine) -> dict[str, float]:
    """By the name of a buffer that is nobody's view.

    What is read in the frames in which it was written counts as adjacent bytes: the vendor's
    compilers store it frame by frame [code: two builds of 3.0].
    """
    rules = machine.placement
    buffers = program.buffer_map()
    roots = {name: buffer.view_of or name for name, buffer in buffers.items()}
    accesses: defaultdict[str, float] = defaultdict(float)
    called: set[str] = set()
    engines: defaultdict[str, list[Streng]] = defaultdict(list)
    for epoch in program.epochs:
        # What a library call writes counts like what it reads [fit: RAM of FastDepth].
        for name in (*epoch.call.inputs, *epoch.call.outputs) if epoch.call else ():
            if name:
                called.add(name)
                accesses[roots[name]] += buffers[name].size_bytes / rules.call_bytes
        for group in epoch.groups or ():
            for unit in group.units:
                if isinstance(unit, Streng):
                    engines[roots[unit.addr_base.buffer]].append(unit)
    for name, users in engines.items():
        runs = {engine.run_bytes for engine in users}
        same_frames = len(runs) == 1 and any(engine.dir for engine in users)
        adjacent = same_frames and name not in called
        for engine in users:
            if not engine.dir:
                run = rules.access_bytes if adjacent or engine.raw else engine.run_bytes
                accesses[name] += engine.total_bytes / run
    return dict(accesses)
