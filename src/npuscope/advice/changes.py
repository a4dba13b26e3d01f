"""Changes: gathered from findings, tried on the whole network, ranked by what they pay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from msgspec import Struct

from npuscope.graph.model import Graph
from npuscope.ops.unknown import word_of
from npuscope.rulebook import fixes
from npuscope.rulebook.finding import Finding, Fix, worst_first
from npuscope.rulebook.fix import FunctionEffect, Gain, GainBasis, at_most
from npuscope.structs import Apart, replace

_BEST = 3  # changes on the first screen
_LEAST_SHARE = 0.005  # of the time: a smaller gain is not worth a change
_MOST_TRIALS = 5  # compilations spent on changes
_MOST_WAYS = 2  # and on edits for the first cause alone
_FEW = 3  # ops that are named one by one
ChangeKey = tuple[str, str, str]  # rule, op, fix


class Change(Apart, frozen=True):
    """One kind of fix for all findings of a cause; `fix.gain` is that of all places together.
    `cost_ms` is what they take off the NPU: no fix of them saves more."""

    apart = ("places",)

    rule: str
    fix: Fix
    ops: tuple[str, ...]
    count: int
    cost_ms: float = 0.0
    places: tuple[tuple[Finding, Fix], ...] = ()

    @property
    def key(self) -> ChangeKey:
        return *self.places[0][0].pattern, self.fix.id

    @property
    def gain(self) -> Gain:
        """A bound where nothing better is known: what the ops take. What an option of the tools
        does to them is not known."""
        untouched = self.fix.function is FunctionEffect.UNTOUCHED
        is_known = self.fix.gain.ms is not None or not self.cost_ms or untouched
        return self.fix.gain if is_known else replace(at_most(self.cost_ms), elsewhere=self.moves)

    @property
    def moves(self) -> str:
        """What the application does then."""
        return self.fix.gain.elsewhere

    @property
    def gain_ms(self) -> float | None:
        return self.gain.ms

    @property
    def is_lossy_edit(self) -> bool:
        """It was made on a copy of the file, and the network then computes something else."""
        return self.gain.is_timed and self.fix.function is FunctionEffect.CHANGED


class Editing(Struct, frozen=True):
    """Which verbs take the source, a model file: `fix` one that can be run and written again,
    `quantize` one without any scales."""

    possible: bool
    quantizable: bool = False


class Trials(Protocol):
    """Makes changes and times the whole network with them."""

    @property
    def editing(self) -> Editing: ...

    def can_try(self, change: Change) -> bool: ...

    def gain(self, change: Change) -> Gain | None:
        """None where the change cannot be made at any of its places."""


def with_moves(finding: Finding, graph: Graph | None) -> Finding:
    """Fixes that leave work to the application say which."""
    if not any(fix.function is FunctionEffect.MOVED for fix in finding.fixes):
        return finding
    work = f"the application then does {moved_work(graph, finding.ops)}"
    fixes = (
        replace(fix, gain=replace(fix.gain, elsewhere=work))
        if fix.function is FunctionEffect.MOVED
        else fix
        for fix in finding.fixes
    )
    return replace(finding, fixes=tuple(fixes))


def moved_work(graph: Graph | None, names: Iterable[str]) -> str:
    """Ops of the network in words: 'a Softmax over 8,400 x 16 values'."""
    origins = set(names)
    ops = [op for op in graph.ops if origins.intersection(op.origin)] if graph is not None else []
    if graph is None or not ops:
        return "this work"
    if len(ops) > _FEW:
        kinds = ", ".join(list(dict.fromkeys(map(word_of, ops)))[:_FEW])
        return f"the work of {len(ops)} ops ({kinds} ...)"
    words = []
    for op in ops:
        word = word_of(op)
        article = "an" if word[0].upper() in "AEIO" else "a"
        sizes = [size for size in graph.output_tensor(op).shape if size != 1] or [1]
        values = " x ".join(f"{size:,}" for size in sizes)
        words.append((op.origin, f"{article} {word} over {values} values"))
    # An unknown op stands in the graph once for each of its outputs.
    return " and ".join(text for _, text in dict.fromkeys(words))


def changes_of(findings: Iterable[Finding]) -> dict[ChangeKey, Change]:
    """Every fix of every cause, for all findings that offer it."""
    groups: dict[ChangeKey, list[tuple[Finding, Fix]]] = {}
    for finding in findings:
        for fix in finding.fixes:
            groups.setdefault((*finding.pattern, fix.id), []).append((finding, fix))
    return {key: _change(rows) for key, rows in groups.items()}


def _change(rows: list[tuple[Finding, Fix]]) -> Change:
    first, fix = max(rows, key=lambda row: row[1].gain_ms or 0.0)
    gains = [row.gain for _, row in rows if row.gain.ms is not None]
    ops = tuple(dict.fromkeys(op for finding, _ in rows for op in finding.ops))
    if len(rows) > 1 and gains:
        times = [gain.ms or 0.0 for gain in gains]
        # One end of the network serves all places.
        total = max(times) if fix.id == fixes.CUT_TAIL.id else sum(times)
        nothing = all(gain.is_timed and not gain.may_pay for gain in gains)
        basis = GainBasis.TIMED if nothing else GainBasis.BOUND
        fix = replace(fix, gain=Gain(total, basis, fix.gain.elsewhere))
    known = (finding for finding, _ in rows if finding.evidence.get("ms_known") is not False)
    cost = sum(finding.cost_ms for finding in known)
    return Change(first.rule, fix, ops, len(rows), cost, tuple(rows))


Tried = dict[ChangeKey, Change | None]  # None: the change cannot be made here


def try_changes(findings: tuple[Finding, ...], total_ms: float, trials: Trials) -> Tried:
    """What promises most is timed first. A timed gain takes the place of its bound, so after a few
    trials the best are known, and what is left promises less."""
    tried: Tried = {}
    every = changes_of(findings)

    def try_change(change: Change) -> None:
        gain = trials.gain(change)
        timed = None if gain is None else replace(change, fix=replace(change.fix, gain=gain))
        tried[change.key] = timed

    for _ in range(_MOST_TRIALS):
        first = best_changes(findings, total_ms, tried)
        waiting = [c for c in first if c.key not in tried and trials.can_try(c)]
        if not waiting:
            break
        try_change(every[waiting[0].key])
    # What brings ops back to the NPU is asked for by name: its cost has to be known before.
    cause = worst_first(findings, total_ms)[0] if findings else None
    if cause is not None and cause.leaves_npu:
        ways = (c for c in every.values() if c.places[0][0].pattern == cause.pattern)
        waiting = [c for c in ways if c.fix.automatic and c.key not in tried and trials.can_try(c)]
        for change in waiting[:_MOST_WAYS]:
            try_change(change)
    return tried


def settled(findings: Iterable[Finding], tried: Tried) -> Iterator[Finding]:
    """Findings without fixes that cannot be made; a gain that was timed at a single place, or is
    none at all, is theirs. No place saves more than was timed at all of them."""
    for finding in findings:
        fixes = []
        for fix in finding.fixes:
            key = (*finding.pattern, fix.id)
            change = tried.get(key)
            if change is not None and (change.count == 1 or not change.gain.may_pay):
                fix = replace(fix, gain=change.gain)
            elif change is not None and (fix.gain_ms or 0.0) > (change.gain_ms or 0.0):
                fix = replace(fix, gain=replace(fix.gain, ms=change.gain_ms))
            if key not in tried or change is not None:
                fixes.append(fix)
        yield replace(finding, fixes=tuple(fixes))


def best_changes(
    findings: tuple[Finding, ...], total_ms: float, tried: Tried | None = None
) -> tuple[Change, ...]:
    """The three changes that pay most, one per cause; a bound stands for a gain that is not
    known."""
    every = {**changes_of(findings), **(tried or {})}
    offered = [change for change in every.values() if change is not None]
    problems = {finding.rule for finding in findings if finding.is_problem}
    least = _LEAST_SHARE * total_ms
    # A change that saves time or may, or that may remove a problem.
    worth = [
        change
        for change in offered
        if (change.gain_ms >= least if change.gain_ms is not None else change.rule in problems)
    ]
    causes: dict[tuple[str, str], Change] = {}
    for change in sorted(worth, key=_preference):
        causes.setdefault(change.places[0][0].pattern, change)
    return tuple(sorted(causes.values(), key=lambda change: -(change.gain_ms or 0.0))[:_BEST])


def _preference(change: Change) -> tuple[bool, int, float]:
    """Within a cause: what was timed, then what leaves most of the network as it is, then what
    may save most."""
    place = list(FunctionEffect).index(change.fix.function)
    return not change.gain.is_timed, place, -(change.gain_ms or 0.0)
