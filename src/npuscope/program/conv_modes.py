"""Modes of convolutions, in the words of the manual."""

from __future__ import annotations

from collections.abc import Iterable

from npuscope.program.modes import Simd
from npuscope.program.units import Convacc, Unit


def conv_modes(units: Iterable[Unit]) -> tuple[str, ...]:
    """The modes of convolutions in the words of the manual, each once."""
    modes: dict[str, None] = {}
    for unit in units:
        if not isinstance(unit, Convacc):
            continue
        simd = Simd(unit.simd).name.removeprefix("S").lower()
        if unit.deepmode or unit.dss2mode:
            mode = f"{simd}, {'Deep1x1' if unit.deepmode else 'DSS2'}"
        elif unit.fsub and unit.kernelHeight == unit.kernelWidth == 1:
            mode = f"{simd}, FSUB = {unit.fsub}: no Deep1x1"
        else:
            mode = simd
        modes[f"simd {mode}"] = None
    return tuple(modes)
