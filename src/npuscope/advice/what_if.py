"""What if the machine were another: one Program timed again, or its model compiled again."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from npuscope.building import Build, Options, Source, build, machine_for, needs_model, scheduled
from npuscope.graph.model import Graph
from npuscope.machine.load import plain_overrides
from npuscope.machine.marks import KeyEffect
from npuscope.machine.model import Machine
from npuscope.machine.set_keys import (
    KeyChange,
    changes_of,
    machine_keys,
    with_overrides,
    with_value,
)
from npuscope.profiling.model import Profile
from npuscope.profiling.run import estimate, retimer
from npuscope.shown import Rows, Several, ShownRecord
from npuscope.structs import replace

# --- Sensitivity: every timing key improved a little, one at a time ---

STEP = 0.1  # of a key's value: a tenth better
_NOISE = 1e-9  # of the total: rounding of sums, not a saving


class Sensitivity(Struct, frozen=True):
    """What a better value of one key saves."""

    key: str
    value: float
    better: float
    saved_ms: float


class Sensitivities(Several):
    __slots__ = ()
    noun = "key"
    columns = (("key", "key"), ("value", "value"), ("better", "better"), ("saved_ms", "saved_ms"))

    def told(self) -> str:
        return f"{super().told()} that save time when a tenth better"


def sensitivity(original: Build) -> tuple[Sensitivity, ...]:
    """Keys that save time when they are a tenth better; the largest saving first.

    Better is lower for costs and higher for clocks and widths, so both ways are tried.
    """
    timer = retimer(original.program, original.machine, original.graph)
    now_ms = timer.estimate(original.machine).total_ms
    savings = []
    for key in machine_keys(original.machine).values():
        if key.effect is not KeyEffect.TIMING or key.kind is not float or not key.value:
            continue
        for better in (key.value * (1 - STEP), key.value * (1 + STEP)):
            saved_ms = now_ms - timer.estimate(with_value(original.machine, key, better)).total_ms
            if saved_ms > now_ms * _NOISE:
                savings.append(Sensitivity(key.name, key.value, better, saved_ms))
    return Sensitivities(sorted(savings, key=lambda row: -row.saved_ms))


class WhatIf(ShownRecord, frozen=True):
    """The same network before and after the machine changed.

    A vendor's program that had to be compiled again is not the baseline: both sides come from
    our compiler then, and `vendor` holds the program that was given.
    """

    changes: tuple[KeyChange, ...]
    baseline: Profile
    profile: Profile
    recompiled: bool
    build: Build
    vendor: Profile | None = None

    @property
    def delta_ms(self) -> float:
        return self.profile.total_ms - self.baseline.total_ms

    @property
    def mapping_changed(self) -> bool:
        return self.profile.program_hash != self.baseline.program_hash

    def told(self) -> str:
        before, after = self.baseline.total_ms, self.profile.total_ms
        keys = ", ".join(change.key for change in self.changes)
        return f"{keys}: {before:.3f} ms to {after:.3f} ms"

    def table(self) -> Rows:
        """One row per kind of work."""
        pairs = zip(self.baseline.time.by_work, self.profile.time.by_work, strict=True)
        return [
            {"work": work, "before_ms": before, "after_ms": after}
            for (work, before), (_, after) in pairs
        ]


def what_if(source: Source | Build, values: Mapping[str, object], options: Options) -> WhatIf:
    """Timing keys re-time what was built; a mapping key needs the model and compiles it again."""
    original = source if isinstance(source, Build) else _built(source, values, options)
    plain = plain_overrides(values, original.machine.name, options.get("machine_file"))
    changes = changes_of(original.machine, plain)
    machine = with_overrides(original.machine, plain)
    if any(change.remaps for change in changes):
        again = _compiled_again(source, original, machine, plain, options)
        return _compared(original, again, changes, options)
    timer = retimer(original.program, original.machine, original.graph)
    after = timer.estimate(machine)
    return WhatIf(
        changes, timer.estimate(original.machine), after, False, replace(original, machine=machine)
    )


def _built(source: Source, values: Mapping[str, object], options: Options) -> Build:
    """Mistyped keys are found before the model is read; a vendor profile warns only once."""
    if not options.get("art_profile"):
        changed: Options = {**options, "overrides": {**(options.get("overrides") or {}), **values}}
        machine_for(changed)
    return build(source, options)


def _compiled_again(
    source: Source | Build,
    original: Build,
    machine: Machine,
    values: Mapping[str, object],
    options: Options,
) -> Build:
    if not isinstance(source, Build):
        merged = {**(options.get("overrides") or {}), **values}
        return build(source, {**options, "overrides": merged})
    if original.graph is None:
        raise needs_model([c.key for c in changes_of(original.machine, values) if c.remaps])
    again = _compile(original.graph, machine, options)
    file, md5 = original.program.model_file, original.program.model_md5
    return replace(again, program=replace(again.program, model_file=file, model_md5=md5))


def _compile(graph: Graph, machine: Machine, options: Options) -> Build:
    return build(graph, {"machine": machine, **scheduled(options)})


def _compared(
    original: Build, again: Build, changes: tuple[KeyChange, ...], options: Options
) -> WhatIf:
    before, after = _estimate(original), _estimate(again)
    if original.program.source == "npuscope" or again.graph is None:
        return WhatIf(changes, before, after, True, again)
    ours = _estimate(_compile(again.graph, original.machine, options))
    return WhatIf(changes, ours, after, True, again, vendor=before)


def _estimate(original: Build) -> Profile:
    return estimate(original.program, original.machine, original.graph)
