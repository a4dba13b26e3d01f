"""Points that were timed, as pages draw them: two of their measures against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from npuscope.accuracy.figures import Figure


class Measure(Struct, frozen=True):
    """`kind` says how it is written: ms, bytes, share or number."""

    name: str
    kind: str
    high_is_better: bool = False


MS = Measure("ms", "ms")
INTERNAL = Measure("internal RAM", "bytes")
EXTERNAL = Measure("external RAM", "bytes")
WEIGHTS = Measure("weights", "bytes")


def measure_of(figure: Figure) -> Measure:
    return Measure(figure.name, "share" if figure.is_share else "number", figure.higher_is_better)


class CloudPoint(Struct, frozen=True):
    """Values stand in the order of the measures, choices in that of the axes that colour them."""

    name: str
    values: tuple[float | None, ...]
    choices: tuple[str, ...] = ()
    model: int = 0
    ring: bool = False
    note: str = ""


def cloud(
    title: str,
    caption: str,
    measures: Sequence[Measure],
    points: Sequence[CloudPoint],
    *,
    x: int,
    y: int,
    models: Sequence[str] = ("",),
    axes: Sequence[str] = (),
    last: str = "with",
) -> dict[str, Any]:
    """`x` and `y` are places of measures; `last` heads the column of names."""
    return {
        "title": title,
        "caption": caption,
        "measures": [[m.name, m.kind, m.high_is_better] for m in measures],
        "points": [
            {
                "name": point.name,
                "values": list(point.values),
                "choices": list(point.choices),
                "model": point.model,
                "ring": point.ring,
                "note": point.note,
            }
            for point in points
        ],
        "x": x,
        "y": y,
        "models": list(models),
        "axes": list(axes),
        "with": last,
    }
