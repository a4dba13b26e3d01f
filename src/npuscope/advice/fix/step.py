"""One fix, tried: what it changed, what it is worth, and whether it was kept."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.advice.fix.candidates import Candidate
from npuscope.advice.fix.numeric import Effect
from npuscope.profile.model import Profile


@dataclass(frozen=True, slots=True)
class Outcome:
    """Kept or not, and why in a few words."""

    kept: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """`places` counts the findings it was applied to; `misfits` tell where it could not be.

    `after` is None and `effects` are empty where the edit was not possible at all.
    """

    candidate: Candidate
    outcome: Outcome
    places: int
    misfits: tuple[str, ...]
    before: Profile
    after: Profile | None = None
    effects: tuple[Effect, ...] = ()
    border: tuple[str, ...] = ()  # what changes for the application

    @property
    def notes(self) -> tuple[str, ...]:
        """For the application's author."""
        return (*self.candidate.notes, *self.border)

    @property
    def saved_ms(self) -> float:
        return self.before.total_ms - self.after.total_ms if self.after else 0.0


@dataclass(frozen=True, slots=True)
class Fixed:
    """The whole: from the first profile to the last, the steps between, the file's content.

    `effects` compare the end with the original; `runtime` tells what opened it.
    """

    data: bytes
    before: Profile
    after: Profile
    steps: tuple[Step, ...]
    effects: tuple[Effect, ...]
    seeds: int
    runtime: Opened | None = None

    @property
    def applied(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.outcome.kept)

    @property
    def refused(self) -> tuple[Step, ...]:
        """Without wishes for the whole network that came true in another step."""
        done = {step.candidate.fix.id for step in self.applied}
        return tuple(
            step
            for step in self.steps
            if not step.outcome.kept and (step.candidate.rule or step.candidate.fix.id not in done)
        )


@dataclass(frozen=True, slots=True)
class Opened:
    """An outside runtime ran the fixed file; what it makes of the outputs that the original has
    too, against the original in the same runtime."""

    name: str
    effects: tuple[Effect, ...]
