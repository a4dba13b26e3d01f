"""The front of a network's set-ups, and the one to take within the limits."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from npuscope.advice.network_row import NetworkRow
from npuscope.shown import Rows, ShownRecord, counted


class TunePoint(NetworkRow, frozen=True, kw_only=True):
    """A set-up that was compiled and timed; `drop` is what its answers lose against the network as
    it is, where data tell. It names its model where there are several."""

    name: str
    choices: dict[str, str]
    total_ms: float
    internal_ram_bytes: int
    external_ram_bytes: int
    weights_bytes: int
    command: str
    within: bool
    edits: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)  # of the build, beside the given
    drop: float | None = None
    outputs: str = ""  # what the edits do to them


class TriedPoint(Struct, frozen=True):
    """A set-up that was timed, on the front or not."""

    name: str
    total_ms: float
    internal_ram_bytes: int
    external_ram_bytes: int
    weights_bytes: int
    figure: float | None = None
    model: str = ""


class Tuned(ShownRecord, frozen=True):
    model: str
    limits: dict[str, float]
    points: int  # of the space
    evaluations: int
    axes: dict[str, tuple[str, ...]]
    front: tuple[TunePoint, ...]
    best: TunePoint | None
    start: TunePoint | None
    metric: str = ""
    metric_is_share: bool = True
    higher_is_better: bool = True
    tried: tuple[TriedPoint, ...] = ()  # all that were compiled and timed
    notes: tuple[str, ...] = ()
    store: str = ""
    machine: str = ""  # or several, where they were an axis

    def told(self) -> str:
        if self.best is None:
            return f"no set-up within the limits, of {counted(self.evaluations, 'evaluation')}"
        return f"{self.best.total_ms:.3f} ms with {self.best.name}"

    def table(self) -> Rows:
        """One row per point of the front."""
        columns = (
            "name",
            "total_ms",
            "internal_ram_bytes",
            "external_ram_bytes",
            "weights_bytes",
            "drop",
            "command",
        )
        return [{name: getattr(point, name) for name in columns} for point in self.front]
