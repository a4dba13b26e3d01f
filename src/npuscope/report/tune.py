"""Set-ups for a budget as text and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npuscope.records import encode
from npuscope.report.figures import ms, size
from npuscope.report.row_columns import row_cells
from npuscope.shown import counted
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.advice.tune.result import Tuned, TunePoint

SCHEMA = "npuscope/tune/1"
_SHOWN = 12
MEMORIES = ("internal", "external", "flash")
_WORDS = {"ms": "ms", "ram": "RAM", "external": "external RAM", "flash": "flash", "drop": "drop"}


def tune_json(result: Tuned) -> dict[str, Any]:
    return {"schema": SCHEMA, **encode(result, whole=True)}


def limits_line(result: Tuned) -> str:
    return ", ".join(_limit(*item) for item in result.limits.items()) or "no limits"


def tune_text(result: Tuned) -> str:
    lines = [answer(result)]
    if result.limits:
        lines.append(f"limits    {limits_line(result)}")
    axes = ", ".join(f"{name} ({len(names)})" for name, names in result.axes.items())
    lines.append(
        f"searched  {result.evaluations:,} of {counted(result.points, 'point')}, each compiled and "
        f"timed: {safe_terminal(axes)}"
    )
    lines += [f"note: {safe_terminal(note)}" for note in result.notes[:_SHOWN]]
    head = f"{'':2}{'ms':>9} " + " ".join(f"{name:>10}" for name in MEMORIES)
    metric = f" {result.metric:>8} {'drop':>7}" if result.metric else ""
    lines.append(f"{head}{metric}  set-up")
    for point in result.front[:_SHOWN]:
        lines.append(_row(point, bool(result.metric)))
    if len(result.front) > _SHOWN:
        lines.append(f"and {len(result.front) - _SHOWN} more on the front")
    if result.best is not None:
        lines.append(f"make it: {safe_terminal(result.best.command)}")
    lines.append("* within the limits; times are predicted")
    return "\n".join(lines) + "\n"


def answer(result: Tuned) -> str:
    best, start = result.best, result.start
    if best is None:
        near = min(result.front, key=lambda point: point.total_ms, default=None)
        rest = f"; the fastest takes {ms(near.total_ms)} ms" if near else ""
        return f"nothing is within the limits{rest}"
    if start is not None and best.name == start.name:
        return f"{ms(best.total_ms)} ms as it is: nothing tried within the limits is faster"
    was = ""
    if start is not None and start.total_ms != best.total_ms:
        was = f" (as it is: {ms(start.total_ms)} ms)"
    return f"{ms(best.total_ms)} ms, {safe_terminal(best.name)}{was}"


def _limit(name: str, value: float) -> str:
    if name == "ms":
        return f"{value:g} ms"
    text = f"{value:.1%}" if name == "drop" else size(int(value))
    return f"{_WORDS[name]} {text}"


def _row(point: TunePoint, measured: bool) -> str:
    mark = "* " if point.within else "  "
    cells = " ".join(f"{cell:>10}" for cell in row_cells(point, MEMORIES))
    worth = ""
    if measured:
        (figure,) = row_cells(point, ("metric",))
        worth = f" {figure:>8} {'-' if point.drop is None else f'{point.drop:.2%}':>7}"
    outputs = f" (outputs: {point.outputs})" if point.outputs else ""
    return f"{mark}{ms(point.total_ms):>9} {cells}{worth}  {safe_terminal(point.name)}{outputs}"
