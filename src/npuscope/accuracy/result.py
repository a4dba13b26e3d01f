"""What a network's answers are worth: by each arithmetic, and where they differ."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from npuscope.accuracy.figures import Figure
from npuscope.shown import Rows, ShownRecord, counted


class TaskFigures(Struct, frozen=True):
    """One arithmetic; no figures without labels."""

    name: str  # float, int8 or npu
    title: str
    figures: tuple[Figure, ...] = ()


class Pairing(Struct, frozen=True):
    """The same samples by two arithmetics. `lost` were right by the first alone, `won` by the
    second alone; `worse`: more are lost than chance gives."""

    one: str
    other: str
    changed: Figure
    count: int
    lost: int = 0
    won: int = 0
    worse: bool = False


class ChangedSample(Struct, frozen=True):
    """A sample that two arithmetics answer differently."""

    name: str
    truth: str
    answers: dict[str, str]
    picture: bytes = b""  # a small PNG, for pages


class AccuracyCost(Struct, frozen=True):
    """What the outputs move by when one layer alone is computed as the second arithmetic does."""

    one: str
    other: str
    op: str
    output_move: float  # root mean square, as a part of the outputs' spread
    answers_changed: int
    samples: int


class TaskAccuracy(ShownRecord, frozen=True):
    """`passed`: the machine's answers are not surely worse than those of the integer reference."""

    TEXT: ClassVar[str] = "npuscope.report.accuracy:accuracy_text"
    JSON: ClassVar[str] = "npuscope.report.accuracy:accuracy_json"

    model: str
    machine: str
    task: str
    data: str
    samples: int
    samples_total: int
    preprocess: str
    rows: tuple[TaskFigures, ...]
    pairings: tuple[Pairing, ...]
    changed: tuple[ChangedSample, ...] = ()
    layers: tuple[AccuracyCost, ...] = ()
    notes: tuple[str, ...] = ()
    labelled: bool = True

    @property
    def verdict(self) -> str:
        """Of the machine against the integer reference."""
        pair = next((p for p in self.pairings if (p.one, p.other) == ("int8", "npu")), None)
        if pair is None:
            return "unjudged"
        if not pair.changed.value:
            return "passed"
        return "wrong" if pair.worse else "differs"

    @property
    def passed(self) -> bool:
        return self.verdict in ("passed", "differs")

    def row(self, name: str) -> TaskFigures | None:
        return next((row for row in self.rows if row.name == name), None)

    def told(self) -> str:
        row = self.rows[-1]
        if not row.figures:
            pair = self.pairings[-1] if self.pairings else None
            share = f"{pair.changed.value:.1%} of the answers change" if pair else "no labels"
            return f"{self.task} on {counted(self.samples, 'sample')}: {share}"
        first = row.figures[0]
        return f"{first.name} {first.value:.4g} on {counted(self.samples, 'sample')}, {row.title}"

    def table(self) -> Rows:
        """One row per arithmetic and figure."""
        return [
            {
                "arithmetic": row.title,
                "figure": f.name,
                "value": f.value,
                "low": f.low,
                "high": f.high,
            }
            for row in self.rows
            for f in row.figures
        ]
