"""Arrows from the epoch that makes something to the epochs that read it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from npuscope.program.model import Epoch, Program
from npuscope.program.units import Streng
from npuscope.report.profile_trace_scene import Scene


def add_flows(scene: Scene, program: Program, slices: NDArray[np.int64]) -> None:
    """`slices` are the numbers of the epochs' slices. What passes inside of a block has none."""
    place = _places(scene, program)
    pairs = {(place.get(a), place.get(b)): None for a, b in producers_and_consumers(program)}
    drawn = [(a, b) for a, b in pairs if a is not None and b is not None and a != b]
    ends = np.array(drawn, np.int64).reshape(-1, 2)
    scene.builder.add_flows(slices[ends[:, 0]], slices[ends[:, 1]], "tensor")


def _places(scene: Scene, program: Program) -> dict[int, int]:
    """An epoch's number -> the slice that covers it."""
    numbers = [epoch.number for epoch in program.executed]
    return {
        number: place
        for place, epoch in enumerate(scene.epochs)
        for number in numbers
        if epoch.first <= number <= epoch.last
    }


def producers_and_consumers(program: Program) -> Iterator[tuple[int, int]]:
    """Numbers of epochs; a buffer that several epochs fill has all of them as producers."""
    owner = _owners(program)
    writers: dict[str, list[int]] = {}
    for epoch in program.executed:
        accesses = [(owner.get(name, ""), writes) for name, writes in _accesses(epoch)]
        for name, writes in accesses:
            if not writes:
                yield from ((writer, epoch.number) for writer in writers.get(name, ()))
        for name, writes in accesses:
            if writes and name and epoch.number not in writers.setdefault(name, []):
                writers[name].append(epoch.number)


def _owners(program: Program) -> dict[str, str]:
    """Activation -> the buffer whose bytes it is; a view may lie in a view."""
    parent = {b.name: b.view_of for b in program.buffers}
    owner = {}
    for buffer in program.buffers:
        name, steps = buffer.name, len(parent)
        while parent.get(name) and steps:
            name, steps = parent[name], steps - 1
        if not buffer.is_param:
            owner[buffer.name] = name
    return owner


def _accesses(epoch: Epoch) -> Iterator[tuple[str, bool]]:
    """(buffer, whether it writes) of an epoch."""
    if epoch.call is not None:
        yield from ((name, False) for name in epoch.call.inputs)
        yield from ((name, True) for name in epoch.call.outputs)
    for unit in epoch.units:
        if isinstance(unit, Streng):
            yield unit.addr_base.buffer, bool(unit.dir)
