"""A run as the rules look at it: its tables, and what the levers that were tried save."""

from __future__ import annotations

from msgspec import Struct

from npuscope.families.many_core.opstats.lever import Lever, LeverKind
from npuscope.families.many_core.opstats.model import OpRow, Opstats
from npuscope.rulebook.finding import Value
from npuscope.rulebook.fix import Gain, at_most, timed
from npuscope.structs import replace

_LEVERS = {  # of fixes
    "core-batch": LeverKind.BATCH,
    "core-copies": LeverKind.CORES,
    "core-integers": LeverKind.INTEGERS,
    "core-keep": LeverKind.KEEP,
    "core-more": LeverKind.CORES,
    "core-queue": LeverKind.QUEUE,
    "fewer-ops": LeverKind.JOIN,
}
_SHARED = "per inference, as more of them share a run: a run alone is not shorter"


class CoreRun(Struct, frozen=True):
    """Tables of a run with what several rules ask of them."""

    tables: Opstats

    @property
    def ms(self) -> float:
        return self.tables.totals.seconds * 1e3

    def lever(self, fix: str) -> Lever | None:
        """The best one that is this very fix; None where none was tried or helps."""
        fitting = [
            lever
            for lever in self.tables.levers
            if lever.kind is _LEVERS[fix] and not lever.obstacle and self._spreads(fix, lever)
        ]
        return max(fitting, key=lambda lever: lever.gain, default=None)

    def _spreads(self, fix: str, lever: Lever) -> bool:
        """Copies of the program as it is, or one on more cores."""
        used = len(self.tables.cores)
        if fix == "core-copies":
            return (lever.cores, lever.copies) == (used, self.fitting_copies)
        return fix != "core-more" or (lever.copies == 1 and lever.cores > used)

    def gains(self, *fixes: str) -> dict[str, Gain]:
        """What the levers save per inference."""
        gains = {}
        for fix in fixes:
            lever = self.lever(fix)
            if lever is None:
                continue
            ms = self.ms * (1 - 1 / (lever.most or lever.gain))
            shared = _SHARED if lever.ms >= self.ms else ""
            if lever.bound or lever.most is not None:
                gains[fix] = replace(at_most(ms), elsewhere=shared)
            else:
                gains[fix] = timed(ms, shared)
        return gains

    @property
    def unfit(self) -> tuple[str, ...]:
        """Fixes that mean nothing here: a network of integers is not to be quantized again."""
        types = {
            kind for row in self.ops() if row.label.engine == "HMX" for kind in row.label.dtypes
        }
        floats = not types or any(kind.startswith(("float", "f")) for kind in types)
        return () if floats else ("core-integers",)

    @property
    def fitting_copies(self) -> int:
        most, used = self.tables.capacity, len(self.tables.cores)
        return most.cores // used if most is not None and used else 0

    def settings(self) -> dict[str, dict[str, Value]]:
        """Numbers of cores and copies for the fixes that name them, where there is room."""
        values: dict[str, dict[str, Value]] = {}
        if self.fitting_copies > 1:
            values["core-copies"] = {"copies": self.fitting_copies}
        more = self.lever("core-more")
        if more is not None:
            values["core-more"] = {"cores": more.cores}
        return values

    def share(self, engine: str) -> float:
        return dict(self.tables.verdict.shares).get(engine, 0.0)

    def path(self, name: str) -> float:
        return dict(self.tables.path).get(name, 0.0)

    def ops(self) -> list[OpRow]:
        """Of all cores, without waits."""
        return [row for core in self.tables.cores for row in core.ops if not row.label.is_wait]
