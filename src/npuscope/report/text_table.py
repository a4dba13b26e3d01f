"""One line an epoch: what a long run looks like at a glance."""

from __future__ import annotations

from collections.abc import Iterable

from npuscope.profile.model import EpochProfile, Profile
from npuscope.report.figures import clocks_of, is_bare, phases
from npuscope.report.numbers import DASH, count, ms, per, percent, shorten
from npuscope.text import safe_terminal


def epoch_label(epoch: EpochProfile) -> str:
    """The compiler's number, or the range that a meta epoch covers."""
    return str(epoch.first) if epoch.first == epoch.last else f"{epoch.first}->{epoch.last}"


def names(parts: Iterable[str]) -> str:
    """Foreign names in one cell; repeated ones are counted."""
    counted: dict[str, int] = {}
    for part in parts:
        counted[part] = counted.get(part, 0) + 1
    shown = (f"{name} x{n}" if n > 1 else name for name, n in counted.items())
    return safe_terminal(", ".join(shown))


def table_lines(profile: Profile, epochs: tuple[EpochProfile, ...]) -> list[str]:
    # Our own prediction stands beside measured times, where the program is known.
    compared = any(epoch.predicted_ms is not None for epoch in profile.epochs)
    predicted = f"{'predicted':>10}" if compared else ""
    heading = (
        f"{'epoch':>9}  {'kind':<6} {'ms':>7}{predicted} {'share':>6} {'core cycles':>12} "
        f"{'vs max':>8} {'ops/cycle':>9}  {'bound':<13}{'ops':<20} from"
    )
    return [heading, *(_line(profile, epoch, compared) for epoch in epochs)]


def _predicted(epoch: EpochProfile) -> str:
    return f"{DASH if epoch.predicted_ms is None else ms(epoch.predicted_ms):>10}"


def _line(profile: Profile, epoch: EpochProfile, compared: bool) -> str:
    total = phases(epoch, clocks_of(profile)).total_npu_cycles
    speed = DASH if is_bare(epoch) else per(epoch.claims.ops, total)
    return (
        f"{epoch_label(epoch):>9}  {epoch.kind.value:<6} {ms(epoch.ms):>7}"
        f"{_predicted(epoch) if compared else ''} {percent(epoch.ms, profile.total_ms):>6} "
        f"{count(epoch.counters.core_cycles):>12} "
        f"{_against_max(epoch):>8} {speed:>9}  "
        f"{epoch.counters.bound.value:<13}{shorten(names(epoch.operators), 19):<20} "
        f"{shorten(names(epoch.origin), 40)}"
    ).rstrip()


def _against_max(epoch: EpochProfile) -> str:
    """Core cycles against the compiler's own estimate."""
    limit = epoch.claims.max_cycles
    return f"{100 * (epoch.counters.core_cycles - limit) / limit:+.0f}%" if limit else DASH
