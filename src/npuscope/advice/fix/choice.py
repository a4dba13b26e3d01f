"""Which fixes may be applied: those that keep the function, and those that were asked for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from npuscope.advice.advise import catalogue
from npuscope.errors import UsageError
from npuscope.rules.finding import Fix

# Fixes that change what the application sees: they wait until they are asked for.
CUT = "cut-tail"
DROP_SOFTMAX = "drop-softmax"
INTEGER_IO = ("integer-input", "integer-output")


@dataclass(frozen=True, slots=True)
class Choice:
    """`only` names rules or fixes; `everything` asks for every edit there is."""

    only: frozenset[str] = frozenset()
    cut: bool = False
    drop_softmax: bool = False
    integer_io: bool = False
    everything: bool = False

    def allows(self, rule: str, fix: Fix) -> bool:
        if self.asked(fix.id) or self._named(rule, fix):
            return True
        if self.only or fix.id in (CUT, DROP_SOFTMAX, *INTEGER_IO):
            return False
        return fix.automatic

    @property
    def integer_border(self) -> bool:
        return self.integer_io or self.everything

    def asked(self, fix: str) -> bool:
        """By an option of its own, or with all."""
        return self.everything or self._flagged(fix)

    def forces(self, rule: str, fix: Fix) -> bool:
        """Asked for by name: applied whatever it costs."""
        return self._named(rule, fix) or self._flagged(fix.id)

    def _flagged(self, fix: str) -> bool:
        flags = {CUT: self.cut, DROP_SOFTMAX: self.drop_softmax}
        flags |= dict.fromkeys(INTEGER_IO, self.integer_border)
        return flags.get(fix, False)

    def _named(self, rule: str, fix: Fix) -> bool:
        return bool(self.only & {rule, fix.id})


def only(names: Iterable[str]) -> frozenset[str]:
    """Names of rules and fixes, checked."""
    known = catalogue()
    fixes = {fix.id for info in known.values() for fix in info.fixes}
    wanted = frozenset(name for name in names if name)
    for name in sorted(wanted - known.keys() - fixes):
        near = difflib.get_close_matches(name, [*known, *fixes], n=3, cutoff=0.5)
        hint = f"nearest: {', '.join(near)}" if near else "`npuscope rules` lists them"
        raise UsageError(f"there is no rule and no fix '{name}'", where="--only", hint=hint)
    return wanted
