"""Rows of a profile's timeline: epochs with their phases, the MCU, kernels, units, engines."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from npuscope.profiling.model import EpochProfile, Profile, Provenance
from npuscope.program.model import EpochKind
from npuscope.report.figures import clocks_of
from npuscope.sim.counters import EngineActivity
from npuscope.trace_builder import TraceBuilder
from npuscope.trace_model import Column, Times, floats, ints, texts
from npuscope.version import __version__

# --- Where epochs lie in time, and the trace under construction ---

PID = 1  # one process: the device


class ProfileScene(Struct):
    """`borders` has a row an epoch: where it starts, where its core starts and ends, its end."""

    profile: Profile
    borders: Times
    builder: TraceBuilder = field(default_factory=TraceBuilder)
    process: int = 0
    rows: int = 0

    @property
    def epochs(self) -> tuple[EpochProfile, ...]:
        return self.profile.epochs

    @property
    def end_ns(self) -> int:
        return int(self.borders[-1, 3]) if len(self.borders) else 0

    def row(self, name: str) -> int:
        """A new row below those there are."""
        self.rows += 1
        return self.builder.thread(self.process, name, self.rows, self.rows)

    def ids(self, words: Iterable[str]) -> Column:
        """Texts as an argument; the empty ones are left out."""
        words = list(words)
        return texts(self.builder.texts(words), [bool(word) for word in words])

    def work_ns(self) -> Times:
        """First and last moment of the work itself: the core, or the kernel that follows it."""
        software = np.array([epoch.kind is not EpochKind.HW for epoch in self.epochs], bool)
        spans: Times = np.where(software[:, None], self.borders[:, 1:4:2], self.borders[:, 1:3])
        return spans


def scene_of(profile: Profile) -> ProfileScene:
    # Both ends of every phase in whole nanoseconds, rounded from the sum of all before them
    clocks = clocks_of(profile)
    cycles = [
        (e.counters.pre_cycles, e.counters.core_cycles, e.counters.post_cycles)
        for e in profile.epochs
    ]
    per_us = np.array([clocks.mcu_mhz, clocks.npu_mhz, clocks.mcu_mhz])
    lengths = np.array(cycles, np.float64).reshape(-1, 3) * 1000 / per_us
    ends = np.rint(np.cumsum(lengths)).astype(np.int64).reshape(-1, 3)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1, 2]])[: len(ends)]
    borders = np.column_stack([starts, ends])
    scene = ProfileScene(profile, borders)
    made = {run.source for run in profile.runs} <= _OURS
    label = f"simulated by npuscope {__version__}" if made else ""
    scene.process = scene.builder.process("NPU", PID, label=label)
    return scene


_OURS = {Provenance.ESTIMATE, Provenance.SIMULATION, Provenance.EMULATION}
_PHASES = ("pre", "core", "post")
_WAYS = {"i": "in", "o": "out"}
EngineKey = tuple[int, str]


def add_epochs(scene: ProfileScene) -> NDArray[np.int64]:
    """One slice per epoch, its phases inside; gives the numbers of the epochs' slices."""
    row, borders = scene.row("epochs"), scene.borders
    epochs = scene.epochs
    counters = [epoch.counters for epoch in epochs]
    blobs = [epoch.blob for epoch in epochs]
    predicted = [epoch.predicted_ms for epoch in epochs]
    slices = scene.builder.add_slices(
        np.full(len(scene.epochs), row),
        borders[:, 0],
        borders[:, 3],
        scene.builder.texts(map(slice_name, scene.epochs)),
        scene.builder.texts(epoch.kind.value for epoch in scene.epochs),
        {
            "epoch": scene.ids(epoch.name for epoch in epochs),
            "first": ints([epoch.first for epoch in epochs]),
            "last": ints([epoch.last for epoch in epochs]),
            "kind": scene.ids(epoch.kind.value for epoch in epochs),
            "bound": scene.ids(counter.bound.value for counter in counters),
            "blob": ints([blob or 0 for blob in blobs], [blob is not None for blob in blobs]),
            "operators": scene.ids(", ".join(epoch.operators) for epoch in epochs),
            "origin": scene.ids(" | ".join(epoch.origin) for epoch in epochs),
            "ms": floats([epoch.ms for epoch in epochs]),
            "predicted_ms": floats(
                [ms or 0 for ms in predicted], [ms is not None for ms in predicted]
            ),
            "pre_mcu_cycles": ints([round(counter.pre_cycles) for counter in counters]),
            "core_npu_cycles": ints([round(counter.core_cycles) for counter in counters]),
            "post_mcu_cycles": ints([round(counter.post_cycles) for counter in counters]),
            "compute_cycles": ints([epoch.claims.compute_cycles for epoch in epochs]),
            "max_cycles": ints([epoch.claims.max_cycles for epoch in epochs]),
            "read_bytes": ints(
                [sum(t.read_bytes for t in counter.traffic) for counter in counters]
            ),
            "write_bytes": ints(
                [sum(t.write_bytes for t in counter.traffic) for counter in counters]
            ),
            "provenance": scene.ids(epoch.provenance.value for epoch in epochs),
        },
    )
    for phase, name in enumerate(_PHASES):
        spans = borders[:, phase : phase + 2]
        _add_spans(scene, row, spans[spans[:, 1] > spans[:, 0]], name, "phase")
    return slices


def slice_name(epoch: EpochProfile) -> str:
    """The epoch's number and what it computes; without the program its own name."""
    if not epoch.operators:
        return epoch.name
    number = str(epoch.first) if epoch.first == epoch.last else f"{epoch.first}-{epoch.last}"
    return f"{number} {', '.join(dict.fromkeys(epoch.operators))}"


def add_control(scene: ProfileScene) -> None:
    """What the MCU does around the NPU's work; its kernels have a row of their own."""
    row, borders = scene.row("MCU control"), scene.borders
    hardware = np.array([epoch.kind is EpochKind.HW for epoch in scene.epochs], bool)
    before, after = borders[:, :2], borders[:, 2:]
    _add_spans(scene, row, before[before[:, 1] > before[:, 0]], "start", "control")
    _add_spans(scene, row, after[hardware & (after[:, 1] > after[:, 0])], "finish", "control")


def _add_spans(scene: ProfileScene, row: int, spans: Times, name: str, category: str) -> None:
    rows = np.full(len(spans), row)
    scene.builder.add_slices(rows, spans[:, 0], spans[:, 1], name, category)


def add_software(scene: ProfileScene) -> None:
    """Kernels of the MCU, those that drive the NPU's DMA included: counted as the post phase."""
    places = [i for i, epoch in enumerate(scene.epochs) if epoch.kind is not EpochKind.HW]
    if not places:
        return
    epochs = [scene.epochs[place] for place in places]
    scene.builder.add_slices(
        np.full(len(places), scene.row("software kernels")),
        scene.borders[places, 2],
        scene.borders[places, 3],
        scene.builder.texts(", ".join(epoch.operators) or epoch.name for epoch in epochs),
        scene.builder.texts(epoch.kind.value for epoch in epochs),
        {
            "epoch": scene.ids(epoch.name for epoch in epochs),
            "origin": scene.ids(" | ".join(epoch.origin) for epoch in epochs),
        },
    )


def add_units(scene: ProfileScene) -> None:
    """One row per kind of unit, busy while the core of an epoch that has some runs."""
    kinds = dict.fromkeys(kind for epoch in scene.epochs for kind in epoch.units)
    for kind in kinds:
        if kind == "STRENG":  # engines have rows of their own
            continue
        places = [i for i, epoch in enumerate(scene.epochs) if epoch.units.get(kind)]
        counts = [scene.epochs[place].units[kind] for place in places]
        scene.builder.add_slices(
            np.full(len(places), scene.row(kind)),
            scene.borders[places, 1],
            scene.borders[places, 2],
            scene.builder.texts(f"{count} {kind}" for count in counts),
            "units",
            {
                "epoch": scene.ids(scene.epochs[place].name for place in places),
                "units": ints(counts),
            },
        )


def add_engines(scene: ProfileScene) -> None:
    """One row per stream engine and direction: how long it was active of each core.

    Devices count for how long, not when: the time is drawn from the start of the core.
    """
    # A block of several epochs starts an engine more than once.
    by_epoch: list[dict[EngineKey, list[EngineActivity]]] = [{} for _ in scene.epochs]
    for epoch, active in zip(scene.epochs, by_epoch, strict=True):
        for engine in epoch.counters.engines:
            if engine.active_cycles > 0:
                active.setdefault((engine.id, engine.dir), []).append(engine)
    for key in sorted({key for engines in by_epoch for key in engines}):
        places = [place for place, engines in enumerate(by_epoch) if key in engines]
        _add_engine(scene, key, places, [by_epoch[place][key] for place in places])


def _add_engine(
    scene: ProfileScene, key: EngineKey, places: list[int], used: list[list[EngineActivity]]
) -> None:
    number, way = key[0], _WAYS.get(key[1], key[1])
    active = [sum(engine.active_cycles for engine in engines) for engines in used]
    start, core_end = scene.borders[places, 1], scene.borders[places, 2]
    length = np.rint(np.array(active) * 1000 / clocks_of(scene.profile).npu_mhz).astype(np.int64)
    pools = [", ".join(dict.fromkeys(e.pool for e in engines if e.pool)) for engines in used]
    scene.builder.add_slices(
        np.full(len(places), scene.row(f"STRENG {number} {way}")),
        start,
        np.minimum(start + length, core_end),
        scene.builder.texts(pool or "active" for pool in pools),
        "engine",
        {
            "epoch": scene.ids(scene.epochs[place].name for place in places),
            "active_cycles": ints(active),
            "bytes": ints([sum(engine.bytes for engine in engines) for engines in used]),
            "busif": ints([engines[0].busif for engines in used]),
        },
    )
