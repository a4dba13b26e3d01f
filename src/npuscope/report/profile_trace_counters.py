"""Counters of a profile's timeline: bandwidth of buses and pools, memory in use."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from npuscope.machine.model import Machine
from npuscope.program.model import Pool, Program
from npuscope.report.profile_trace_scene import Scene
from npuscope.trace_model import Times

Moved = list[dict[str, int]]  # an epoch's bytes by the name of the counter


def add_bandwidth(scene: Scene) -> None:
    """Means over the core of an epoch; those of pools cover a kernel's work too."""
    buses = [_bus_bytes(scene, place) for place in range(len(scene.epochs))]
    pools = [_pool_bytes(scene, place) for place in range(len(scene.epochs))]
    _add_rates(scene, buses, scene.borders[:, 1:3])
    _add_rates(scene, pools, scene.work_ns())


def _bus_bytes(scene: Scene, place: int) -> dict[str, int]:
    ways = [
        (f"busif {bus.id} {way}", moved)
        for bus in scene.epochs[place].counters.busif
        for way, moved in (("read", bus.read_bytes), ("write", bus.write_bytes))
    ]
    return dict(ways)


def _pool_bytes(scene: Scene, place: int) -> dict[str, int]:
    ways = [
        (f"{row.pool} {way}", moved)
        for row in scene.epochs[place].counters.traffic
        for way, moved in (("read", row.read_bytes), ("write", row.write_bytes))
    ]
    return dict(ways)


def _add_rates(scene: Scene, moved: Moved, spans: Times) -> None:
    length = spans[:, 1] - spans[:, 0]
    for name in dict.fromkeys(name for epoch in moved for name, size in epoch.items() if size):
        sizes = np.array([epoch.get(name, 0) for epoch in moved], np.float64)
        rates = sizes * 1000 / np.maximum(length, 1)  # bytes a ns are thousands of MB/s
        track = scene.builder.counter(scene.process, name, "MB/s")
        timed = length > 0
        _add_steps(scene, track, spans[timed], rates[timed])


def _add_steps(scene: Scene, track: int, spans: Times, values: NDArray[np.float64]) -> None:
    """A value while a span lasts and 0 between spans; of equal times the later one counts."""
    at: dict[int, float] = {0: 0.0}
    for (start, end), value in zip(spans.tolist(), values.tolist(), strict=True):
        at[start] = value
        at[end] = 0.0
    scene.builder.add_samples(track, list(at), list(at.values()))


def add_memory(scene: Scene, program: Program, machine: Machine | None) -> None:
    """Bytes of activations alive in each RAM, the most of them within an epoch."""
    limits = {memory.name: memory.size_bytes for memory in machine.pools} if machine else {}
    for pool in program.pools:
        if pool.virtual or not pool.size_bytes:
            continue
        spans = list(_alive(program, pool))
        if not spans:
            continue
        sizes = [_most(spans, epoch.first, epoch.last) for epoch in scene.epochs]
        size = limits.get(pool.name, pool.size_bytes)
        name = f"{pool.name} in use of {size:,} bytes"
        track = scene.builder.counter(scene.process, name, "bytes")
        _add_steps(scene, track, scene.borders[:, ::3], np.array(sizes, np.float64))


def _alive(program: Program, pool: Pool) -> Iterable[tuple[int, int, int]]:
    """(first epoch, last epoch, bytes) of what lies in the pool, if only with a part of it."""
    addresses = {known.name: known.address for known in program.pools}
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
    return max((_at(here, moment) for moment in moments), default=0)


def _at(spans: list[tuple[int, int, int]], epoch: int) -> int:
    return sum(size for first, last, size in spans if first <= epoch <= last)
