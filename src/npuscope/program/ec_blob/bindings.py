"""Which field of a unit's record sits in which bits of its registers, for both directions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from npuscope.errors import TargetError
from npuscope.program.ec_blob.registers import UNIT_BY_NAME, Field
from npuscope.program.units import Unit

# Input shifters count from -16: a register value of 16 shifts by nothing.
SHIFT_BIAS = 16


@dataclass(frozen=True, slots=True)
class Bound:
    """A record's field and its bits; `bias` is added in the register, `invert` flips a flag."""

    name: str
    path: str
    signed: bool = False
    bias: int = 0
    invert: bool = False


class Image:
    """The registers of one unit, by name, starting from their reset values."""

    def __init__(self, unit: str, words: Mapping[int, int] | None = None) -> None:
        self.unit = UNIT_BY_NAME[unit]
        found = words or {}
        self.words = {r.name: found.get(r.index, r.reset) for r in self.unit.registers}

    def get(self, path: str, signed: bool = False) -> int:
        register, field = self.unit.field(path)
        value = field.get(self.words[register.name])
        return value - (1 << field.width) if signed and value >> field.width - 1 else value

    def put(self, path: str, value: int, signed: bool = False) -> None:
        """Set a field; a value without room is a TargetError that names the register."""
        register, field = self.unit.field(path)
        low, high = _range(field, signed)
        if not low <= value <= high:
            raise TargetError(
                f"{self.unit.name} register {path} holds {low} to {high}, not {value}"
            )
        self.words[register.name] = field.put(self.words[register.name], value)

    def lift(self, bounds: Iterable[Bound]) -> dict[str, Any]:
        """The bound fields of a record."""
        return {bound.name: self._lifted(bound) for bound in bounds}

    def _lifted(self, bound: Bound) -> int:
        value = self.get(bound.path, bound.signed) - bound.bias
        return int(not value) if bound.invert else value

    def lower(self, bounds: Iterable[Bound], record: Unit) -> None:
        for bound in bounds:
            value = int(getattr(record, bound.name))
            value = int(not value) if bound.invert else value
            self.put(bound.path, value + bound.bias, bound.signed)


def _range(field: Field, signed: bool) -> tuple[int, int]:
    if signed:
        return -(1 << field.width - 1), (1 << field.width - 1) - 1
    return 0, (1 << field.width) - 1


def output_stage(where: str, relu: str = "") -> tuple[Bound, ...]:
    """Rounding, saturation and width at a unit's output; `relu`: where the modes sit."""
    modes = relu or where
    return (
        Bound("rounding_o", f"{where}.ROUND"),
        Bound("saturation_o", f"{where}.SAT"),
        Bound("round_mode_o", f"{modes}.ORNDMODE"),
        Bound("relu_mode_o", f"{modes}.ORELU"),
        Bound("outbytes_o", f"{modes}.OBYTES"),
    )


def input_stage(where: str, modes: str = "") -> tuple[Bound, ...]:
    """Rounding, saturation, shift and width of the input f."""
    return (
        Bound("rounding_f", f"{where}.FROUND"),
        Bound("saturation_f", f"{where}.FSAT"),
        Bound("round_mode_f", f"{modes or where}.FRNDMODE"),
        Bound("inbytes_f", f"{where}.FBYTES"),
        Bound("shift_f", f"{where}.FSHIFT", bias=SHIFT_BIAS),
    )
