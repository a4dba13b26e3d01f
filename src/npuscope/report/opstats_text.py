"""What `opstats` prints: each buffer in a line, what was written, what was missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from npuscope.manycore.opstats.model import Opstats
from npuscope.report.numbers import ms, percent, shorten
from npuscope.text import safe_terminal

_PSEUDO = ("sync ", "barrier ")


def opstats_text(buffers: Sequence[Opstats], written: Sequence[Path], notes: Sequence[str]) -> str:
    """The first line is the answer."""
    lines = [_answer(buffers, written), *map(_line, buffers)]
    lines += [f"wrote    {safe_terminal(str(path))}" for path in written]
    lines += [f"note     {safe_terminal(note)}" for note in notes]
    return "\n".join(lines)


def _answer(buffers: Sequence[Opstats], written: Sequence[Path]) -> str:
    number = f"{len(buffers)} buffer{'s' * (len(buffers) != 1)}"
    levels = sorted({made.level for made in buffers})
    cores = len({core.core for made in buffers for core in made.cores})
    level = f"level {', '.join(map(str, levels))}, " if levels else ""
    files = f": {len(written)} file{'s' * (len(written) != 1)}" if written else ""
    return f"{number} ({level}{cores} core{'s' * (cores != 1)}){files}"


def _line(made: Opstats) -> str:
    totals = made.totals
    return (
        f"{shorten(safe_terminal(made.name), 90)}: device {made.device}, "
        f"{ms(totals.seconds * 1000)} ms, {totals.inferences_per_s:.6g} inf/s{_longest(made)}"
    )


def _longest(made: Opstats) -> str:
    """The ops that took longest on any core."""
    rows = [(row, core) for core in made.cores for row in core.ops if not _waits(row.details)]
    if not rows:
        return ""
    row, core = max(rows, key=lambda pair: pair[0].ucycles)
    share = percent(row.ucycles, core.total_uc)
    return f", most on c{core.core}: {share} {shorten(safe_terminal(row.details), 60)}"


def _waits(details: str) -> bool:
    return details.startswith(_PSEUDO)
