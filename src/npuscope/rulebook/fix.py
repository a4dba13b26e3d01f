"""What a fix is: an edit or an option with what it does to the network's function, and what it
saves, timed or as a bound."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from string import Formatter

from msgspec import Struct, field

from npuscope.structs import replace

# What evidence and parameters hold: values that JSON knows.
Value = str | int | float | bool | None | list["Value"] | dict[str, "Value"]


class FixEffect(StrEnum):
    """What a fix does to its op: decides how much it can save."""

    REMOVES = "removes"  # the work is removed from the network
    MAPS = "maps"  # the same work, in one pass on the NPU
    RESHAPES = "reshapes"  # other channel counts
    OTHER = "other"


class FunctionEffect(StrEnum):
    """What a fix does to the function that the network computes."""

    EXACT = "exact"  # the same outputs, bit by bit
    ROUNDING = "rounding"  # the same but for the rounding of single steps
    MOVED = "moved"  # the application does a part of it, or passes other types or layouts
    UNTOUCHED = "untouched"  # the file stays as it is: an option of the tools, another board
    CHANGED = "changed"  # other outputs: to be judged on real data, or trained again


class GainBasis(StrEnum):
    TIMED = "timed"  # the whole network with the change was compiled and timed
    BOUND = "bound"  # not compiled: the gain is this at most
    NONE = "none"  # not known


class Gain(Struct, frozen=True):
    """What a fix saves on the device, and in words the work that moves elsewhere for it."""

    ms: float | None = None
    basis: GainBasis = GainBasis.NONE
    elsewhere: str = ""

    @property
    def is_timed(self) -> bool:
        return self.basis is GainBasis.TIMED

    @property
    def may_pay(self) -> bool:
        return self.ms is None or self.ms > 0


def at_most(ms: float | None) -> Gain:
    """A bound; nothing is known where there is none."""
    return Gain() if ms is None else Gain(max(0.0, ms), GainBasis.BOUND)


def timed(ms: float | None, elsewhere: str = "") -> Gain:
    """Of the whole network, before and after; negative where the change costs time."""
    return Gain() if ms is None else Gain(ms, GainBasis.TIMED, elsewhere)


def is_automatic(function: FunctionEffect) -> bool:
    """`npuscope fix` may make such an edit without being asked: the network's function stays."""
    return function in (FunctionEffect.EXACT, FunctionEffect.ROUNDING)


class Fix(Struct, frozen=True):
    """One graph edit (or option) that helps; the edit itself is looked up by `id`."""

    id: str
    title: str
    parameters: Mapping[str, Value] = field(default_factory=dict)
    function: FunctionEffect = FunctionEffect.CHANGED
    gain: Gain = Gain()

    @property
    def gain_ms(self) -> float | None:
        return self.gain.ms

    @property
    def automatic(self) -> bool:
        return is_automatic(self.function)


class FixTemplate(Struct, frozen=True):
    """`title` may name parameters in braces. A finding fills them in, and by leaving them out says
    that the fix is not true at its place. `tflite` is the title where it speaks of what only ONNX
    files have."""

    id: str
    title: str
    function: FunctionEffect = FunctionEffect.CHANGED
    effect: FixEffect = FixEffect.OTHER
    tflite: str = ""
    sizes: str = ""  # the title with {sizes} that a user chose, where the edit takes them

    @property
    def in_tflite(self) -> FixTemplate:
        return replace(self, title=self.tflite) if self.tflite else self

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(name for _, name, _, _ in Formatter().parse(self.title) if name)

    @property
    def in_general(self) -> str:
        """The title without a finding: parameter names in place of values."""
        return self.title.format(**{name: f"<{name}>" for name in self.parameters})

    @property
    def unbounded(self) -> FixTemplate:
        """The same without a bound: the fix removes more than the ops of its finding."""
        return replace(self, effect=FixEffect.OTHER)

    @property
    def automatic(self) -> bool:
        return is_automatic(self.function)

    def with_sizes(self, fix: Fix, sizes: str) -> Fix:
        """The fix with the sizes that were asked for."""
        title = self.sizes.format(**{**fix.parameters, "sizes": sizes})
        parameters = {**fix.parameters, "parts": sizes}
        return replace(fix, title=title, parameters=parameters, gain=Gain())

    def fix(self, parameters: Mapping[str, Value], gain: Gain | None = None) -> Fix:
        title = self.title.format(**parameters)
        return Fix(self.id, title, parameters, self.function, gain or Gain())
