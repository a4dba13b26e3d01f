"""The timeline of a profile: one inference, epoch after epoch, with what each one used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from npuscope.machine.model import Machine
from npuscope.profiling.model import Profile
from npuscope.program.model import Epoch, Pool, Program
from npuscope.program.units import Streng
from npuscope.report.figures import label, source_of
from npuscope.report.profile_trace_rows import (
    ProfileScene,
    add_control,
    add_engines,
    add_epochs,
    add_software,
    add_units,
    scene_of,
)
from npuscope.trace_model import Times, TraceModel, floats, texts

# --- Counters: bandwidth of buses and pools, memory in use ---

Moved = list[dict[str, int]]  # an epoch's bytes by the name of the counter


def add_bandwidth(scene: ProfileScene) -> None:
    """Means over the core of an epoch; those of pools cover a kernel's work too."""
    buses = [_bus_bytes(scene, place) for place in range(len(scene.epochs))]
    pools = [_pool_bytes(scene, place) for place in range(len(scene.epochs))]
    _add_rates(scene, buses, scene.borders[:, 1:3])
    _add_rates(scene, pools, scene.work_ns())


def _bus_bytes(scene: ProfileScene, place: int) -> dict[str, int]:
    ways = [
        (f"busif {bus.id} {way}", moved)
        for bus in scene.epochs[place].counters.busif
        for way, moved in (("read", bus.read_bytes), ("write", bus.write_bytes))
    ]
    return dict(ways)


def _pool_bytes(scene: ProfileScene, place: int) -> dict[str, int]:
    ways = [
        (f"{row.pool} {way}", moved)
        for row in scene.epochs[place].counters.traffic
        for way, moved in (("read", row.read_bytes), ("write", row.write_bytes))
    ]
    return dict(ways)


def _add_rates(scene: ProfileScene, moved: Moved, spans: Times) -> None:
    length = spans[:, 1] - spans[:, 0]
    for name in dict.fromkeys(name for epoch in moved for name, size in epoch.items() if size):
        sizes = np.array([epoch.get(name, 0) for epoch in moved], np.float64)
        rates = sizes * 1000 / np.maximum(length, 1)  # 1 byte per ns is 1000 MB/s
        track = scene.builder.counter(scene.process, name, "MB/s")
        # An epoch without core time has no rate; dividing by it would draw a spike.
        timed = length > 0
        _add_steps(scene, track, spans[timed], rates[timed])


def _add_steps(scene: ProfileScene, track: int, spans: Times, values: NDArray[np.float64]) -> None:
    """A value while a span lasts and 0 between spans; of equal times the later one counts."""
    at: dict[int, float] = {0: 0.0}
    for (start, end), value in zip(spans.tolist(), values.tolist(), strict=True):
        at[start] = value
        at[end] = 0.0
    scene.builder.add_samples(track, list(at), list(at.values()))


def add_memory(scene: ProfileScene, program: Program, machine: Machine | None) -> None:
    """Bytes of activations alive in each RAM, the most of them within an epoch."""
    limits = {memory.name: memory.size_bytes for memory in machine.pools} if machine else {}
    for pool in program.pools:
        if pool.virtual or not pool.size_bytes:
            continue
        spans = list(_alive(program, pool))
        if not spans:
            continue
        sizes = [_most(spans, epoch.first, epoch.last) for epoch in scene.epochs]
        # A build may use a part of a memory only; the limit is the memory itself.
        size = limits.get(pool.name, pool.size_bytes)
        name = f"{pool.name} in use of {size:,} bytes"
        track = scene.builder.counter(scene.process, name, "bytes")
        _add_steps(scene, track, scene.borders[:, ::3], np.array(sizes, np.float64))


def _alive(program: Program, pool: Pool) -> Iterable[tuple[int, int, int]]:
    """(first epoch, last epoch, bytes) of what lies in the pool, if only with a part of it."""
    addresses = {own.name: own.address for own in program.pools}
    for buffer in program.buffers:
        if buffer.is_param or buffer.view_of or buffer.pool not in addresses:
            continue
        low = addresses[buffer.pool] + buffer.offset - pool.address
        inside = min(low + buffer.size_bytes, pool.size_bytes) - max(low, 0)
        if inside > 0:
            yield buffer.first, buffer.last, inside


def _most(spans: list[tuple[int, int, int]], first: int, last: int) -> int:
    """A block may hold many epochs; alive bytes change only where a buffer starts to live."""
    here = [span for span in spans if span[0] <= last and span[1] >= first]
    moments = {max(first, span[0]) for span in here}
    return max(
        (sum(size for first, last, size in here if first <= moment <= last) for moment in moments),
        default=0,
    )


# --- Arrows from the epoch that writes a tensor to those that read it ---


def add_flows(scene: ProfileScene, program: Program, slices: NDArray[np.int64]) -> None:
    """`slices` are the numbers of the epochs' slices. What passes inside of a block has none."""
    numbers = [epoch.number for epoch in program.executed]
    # An epoch's number -> the slice that covers it.
    place = {
        number: place
        for place, epoch in enumerate(scene.epochs)
        for number in numbers
        if epoch.first <= number <= epoch.last
    }
    pairs = {(place.get(a), place.get(b)): None for a, b in producers_and_consumers(program)}
    flows = [(a, b) for a, b in pairs if a is not None and b is not None and a != b]
    ends = np.array(flows, np.int64).reshape(-1, 2)
    scene.builder.add_flows(slices[ends[:, 0]], slices[ends[:, 1]], "tensor")


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


def trace_of_profile(
    profile: Profile, program: Program | None = None, machine: Machine | None = None
) -> TraceModel:
    """Rows of epochs, units, engines and kernels; counters; arrows from producer to consumer.

    Without the `program` there are no arrows and no memory in use; the `machine` adds the limits
    of its memories.
    """
    scene = scene_of(profile)
    _add_inference(scene)
    slices = add_epochs(scene)
    add_control(scene)
    add_software(scene)
    add_units(scene)
    add_engines(scene)
    add_bandwidth(scene)
    if program is not None:
        add_memory(scene, program, machine)
        add_flows(scene, program, slices)
    return scene.builder.build(profile.model.file)


def _add_inference(scene: ProfileScene) -> None:
    """The run as a whole: what the numbers stand for and where they come from."""
    profile, builder = scene.profile, scene.builder
    facts = {
        "model": profile.model.file,
        "machine": profile.machine.name,
        "generation": profile.machine.generation,
        "provenance": label(source_of(profile)),
        "model_error": profile.model_error,
        "notes": " | ".join(profile.notes),
    }
    args = {name: texts(builder.text(text)) for name, text in facts.items() if text}
    builder.add_slices(
        scene.row("inference"),
        0,
        scene.end_ns,
        "inference",
        "inference",
        {"total_ms": floats(profile.total_ms), **args},
    )
