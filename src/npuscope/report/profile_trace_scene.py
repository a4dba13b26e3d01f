"""Where the epochs of a profile lie in time, and the trace that is being made of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from npuscope.profile.model import EpochProfile, Profile
from npuscope.program.model import EpochKind
from npuscope.report.figures import clocks_of
from npuscope.trace_builder import TraceBuilder
from npuscope.trace_model import Column, Times, texts

PID = 1


@dataclass(slots=True)
class Scene:
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
        found: Times = np.where(software[:, None], self.borders[:, 1:4:2], self.borders[:, 1:3])
        return found


def scene_of(profile: Profile) -> Scene:
    scene = Scene(profile, _borders(profile))
    scene.process = scene.builder.process("NPU", PID)
    return scene


def _borders(profile: Profile) -> Times:
    """Both ends of every phase in whole nanoseconds, rounded from the sum of all before them."""
    clocks = clocks_of(profile)
    cycles = [
        (e.counters.pre_cycles, e.counters.core_cycles, e.counters.post_cycles)
        for e in profile.epochs
    ]
    per_us = np.array([clocks.mcu_mhz, clocks.npu_mhz, clocks.mcu_mhz])
    lengths = np.array(cycles, np.float64).reshape(-1, 3) * 1000 / per_us
    ends = np.rint(np.cumsum(lengths)).astype(np.int64).reshape(-1, 3)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1, 2]])[: len(ends)]
    return np.column_stack([starts, ends])
