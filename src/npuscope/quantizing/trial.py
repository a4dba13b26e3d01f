"""A plan carried out, and whether one serves better than another."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from npuscope.accuracy.figures import surely_worse
from npuscope.profiling.model import Profile
from npuscope.quantizing.plan import RangePlan
from npuscope.quantizing.task import TaskScore

NOISE = 0.001  # share of the time below which a change is not a gain
_LITTLE = 0.05  # of the time: what surely better answers may cost
_SAME_DB = 0.1  # what other samples would change anyway


class Trial(Struct, frozen=True):
    """A plan carried out: the file with a float border, its time, and how near its outputs are."""

    plan: RangePlan
    data: bytes
    profile: Profile
    sqnr_db: Mapping[str, float]
    score: TaskScore | None = None  # where labels tell

    @property
    def mean_db(self) -> float:
        return sum(self.sqnr_db.values()) / len(self.sqnr_db)

    @property
    def worst_db(self) -> float:
        return min(self.sqnr_db.values())


def verdict(
    before: Trial,
    after: Trial,
    best_db: Mapping[str, float],
    floor_db: Mapping[str, float],
    loss_db: float,
) -> tuple[bool, str]:
    """Kept if faster at a price within the limit, or better at no more time.

    `best_db` is what each output had at best so far, `floor_db` what the quantizer's defaults give.
    """
    old_ms, new_ms = before.profile.total_ms, after.profile.total_ms
    change = (new_ms - old_ms) / max(old_ms, 1e-9)
    if change > NOISE:
        return False, f"{change:.1%} slower"
    gain = after.mean_db - before.mean_db
    drop = max(before.sqnr_db[name] - db for name, db in after.sqnr_db.items())
    better = gain > _SAME_DB and drop <= _SAME_DB
    if change >= -NOISE:
        return better, f"{gain:.1f} dB better" if better else "it does not help"
    if _sinks(before, after, floor_db):
        return False, _WORSE_THAN_PLAIN
    lost = max(best_db.get(n, db) - db for n, db in after.sqnr_db.items())
    if lost > loss_db:
        return False, f"it costs {lost:.1f} dB, more than the {loss_db:g} dB allowed"
    return True, f"{-change:.1%} faster"


_WORSE_THAN_PLAIN = "an output would be worse than with the quantizer's defaults"


def _sinks(before: Trial, after: Trial, floor_db: Mapping[str, float]) -> bool:
    """An output falls below the floor."""
    return any(
        db < floor_db.get(name, db) and before.sqnr_db[name] >= floor_db[name]
        for name, db in after.sqnr_db.items()
    )


def task_verdict(
    before: Trial,
    after: Trial,
    floats: TaskScore,
    plain: Trial | None,
    max_drop: float,
) -> tuple[bool, str]:
    """Kept if faster with answers within the limit, better at no more time, or surely better for
    little more. A drop is against the float network on the same samples.

    One answer more of some hundred is chance, and other samples take it back: decibels, which all
    samples share in, must not speak against it. Six networks whose forms were kept by answers alone
    were 0.1 to 0.3 points worse than the defaults on samples that no choice had seen.
    """
    assert before.score is not None and after.score is not None
    old_ms, new_ms = before.profile.total_ms, after.profile.total_ms
    change = (new_ms - old_ms) / max(old_ms, 1e-9)
    figure, was = after.score.figure, before.score.figure
    gain = -was.drop(figure)
    if change > NOISE:
        if change <= _LITTLE and surely_worse(after.score.right, before.score.right):
            return True, f"{figure.name} {gain:.1%} better for {change:.1%} more time"
        return False, f"{change:.1%} slower"
    if change >= -NOISE:
        db = after.mean_db - before.mean_db
        if gain > 0 and (db >= -_SAME_DB or surely_worse(after.score.right, before.score.right)):
            return True, f"{figure.name} {gain:.1%} better"
        if gain == 0 and db > _SAME_DB:
            return True, f"the same {figure.name}, {db:.1f} dB nearer to the float network"
        return False, "it does not help"
    below = False
    if max_drop == 0 and plain is not None and plain.score is not None:
        below = plain.score.figure.drop(figure) > 0
        if _sinks(before, after, plain.sqnr_db):
            return False, _WORSE_THAN_PLAIN
    drop = floats.figure.drop(figure)
    if gain < 0 and (drop > max_drop or below):
        return False, f"it costs {-gain:.1%} of {figure.name}: more than is allowed"
    return True, f"{-change:.1%} faster"
