"""What a gate holds a run against: an earlier result, a saved profile, or another source."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npuscope.advice.compare.model import Side
from npuscope.advice.compare.sides import GATE_SCHEMA, open_side, read_result, result_schema
from npuscope.advice.gate_figures import Figures, figures
from npuscope.building import Options, Source
from npuscope.errors import FileError
from npuscope.text import safe_terminal

_HINT = "`npuscope estimate SOURCE --json FILE` writes one"


@dataclass(frozen=True, slots=True)
class Baseline:
    """`side` is None where only figures were kept."""

    name: str
    figures: Figures
    md5: str
    generation: str
    side: Side | None = None


def read_baseline(source: Source, options: Options) -> Baseline:
    if isinstance(source, str | Path) and result_schema(source) == GATE_SCHEMA:
        return _from_gate(Path(source))
    if isinstance(source, str | Path) and not _exists(source):
        raise FileError("there is no such baseline", where=str(source), hint=_HINT)
    side = open_side(source, options)
    profile = side.profile
    known = figures(profile)
    return Baseline(side.name, known, profile.model.md5, profile.machine.generation, side)


def _exists(source: str | Path) -> bool:
    return Path(str(source).removeprefix("log:")).exists()


def _from_gate(path: Path) -> Baseline:
    data, where = read_result(path), safe_terminal(str(path))
    found = data.get("figures")
    if not isinstance(found, dict) or not found:
        raise FileError("expected an object of figures", where=f"{where}: $.figures", hint=_HINT)
    for name, value in found.items():
        if not _is_figure(value):
            place = f"{where}: $.figures.{safe_terminal(name)}"
            raise FileError("expected a number of 0 or more", where=place, hint=_HINT)
    md5, generation = _text(data, "model", "md5"), _text(data, "machine", "generation")
    return Baseline(safe_terminal(path.name), found, md5, generation)


def _is_figure(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and value >= 0


def _text(data: dict[str, Any], part: str, key: str) -> str:
    inner = data.get(part)
    value = inner.get(key) if isinstance(inner, dict) else None
    return value if isinstance(value, str) else ""
