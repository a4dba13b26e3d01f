"""The answer of a triage."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from npuscope.shown import Rows, ShownRecord

MOST_CHANCE = 0.01  # expected matches by chance up to which a reproduction is a proof


class TriageVerdict(Enum):
    """What the evidence shows."""

    NO_FAULT = "no fault visible"
    REPRODUCED = "reproduced"
    PERHAPS = "reproduced, perhaps by chance"
    POINTS = "not reproduced, but pointed to"
    UNKNOWN = "no cause found"


class Suspect(Struct, frozen=True):
    """A cause that reproduces the evidence: `fault` is how, `proof` what was compared. Of the
    values that differ from a right board (`touched`) it gives `explained`; `tries` of its faults
    were tried, of which `chance` would be expected to give them without being the cause."""

    id: str
    kind: str
    title: str
    fault: str
    proof: str
    remedy: str
    exact: bool
    equal: int
    compared: int
    touched: int = 0
    explained: int = 0
    tries: int = 1
    chance: float = 0.0

    @property
    def by_chance(self) -> bool:
        return self.chance > MOST_CHANCE


class SuspectClass(Struct, frozen=True):
    """Causes that this evidence cannot tell apart."""

    kinds: tuple[str, ...]
    exact: bool
    suspects: tuple[Suspect, ...]


class NextLook(Struct, frozen=True):
    """The cheapest observation that tells causes apart; `splits` is what would remain for each
    outcome, as ids. Where no cause is certain, `shows` is what it says of the place."""

    id: str
    words: str
    option: str
    splits: tuple[tuple[str, ...], ...] = ()
    shows: str = ""


class TimeSetting(Struct, frozen=True):
    """A setting of the board, with the time that it predicts."""

    id: str
    title: str
    predicted_ms: float
    error: float
    remedy: str


class FarCause(Struct, frozen=True):
    """What may cost a board a factor that no setting has, and what shows it."""

    id: str
    title: str
    shown_by: str
    predicted_ms: float | None = None  # where it has a figure


class TimeTriage(Struct, frozen=True):
    measured_ms: float
    predicted_ms: float
    low_ms: float | None
    high_ms: float | None
    explained: bool
    settings: tuple[TimeSetting, ...]
    notes: tuple[str, ...] = ()
    tried: tuple[TimeSetting, ...] = ()  # all that change the time, the slowest first
    far: tuple[FarCause, ...] = ()  # where the time is far beyond all of them


class Triage(ShownRecord, frozen=True):
    """What was seen, and which causes reproduce it, by class."""

    model: str
    verdict: TriageVerdict
    answer: str
    generation: str
    generation_known: bool
    evidence: tuple[str, ...]
    differing: int
    compared: int
    classes: tuple[SuspectClass, ...] = ()
    next_looks: tuple[NextLook, ...] = ()
    nearest: tuple[Suspect, ...] = ()
    points_to: tuple[str, ...] = ()  # kinds of causes, where none reproduces the evidence
    signs: tuple[str, ...] = ()  # what it shows by itself then
    not_tried: tuple[str, ...] = ()  # causes cut short
    never_tried: tuple[str, ...] = ()  # faults that no search tries, where nothing was found
    left_out: tuple[str, ...] = ()  # causes of which only some of the rare places were tried
    tried: int = 0
    simulations: int = 0
    time: TimeTriage | None = None
    notes: tuple[str, ...] = ()

    @property
    def single(self) -> bool:
        """Is it one cause, and none by chance?"""
        certain = self.verdict is TriageVerdict.REPRODUCED
        return certain and len(self.classes[0].suspects) == 1

    def told(self) -> str:
        return self.answer

    def table(self) -> Rows:
        """One row per suspect."""
        return [
            {"class": number, "id": one.id, "kind": one.kind, "fault": one.fault}
            for number, group in enumerate(self.classes, 1)
            for one in group.suspects
        ]
