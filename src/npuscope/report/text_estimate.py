"""The estimate on one screen: the answer, the assumptions, time, memory, fit, slowest epochs."""

from __future__ import annotations

from npuscope.advice.sensitivity import Sensitivity
from npuscope.advice.what_if import WhatIf
from npuscope.profile.model import Fit, PoolUse, Profile
from npuscope.report.header import answer, interval_line, machine_line, model_line, note_lines
from npuscope.report.numbers import DASH, bar, ms, percent, shorten, size
from npuscope.report.text_table import epoch_label, names
from npuscope.report.what_if import sensitivity_lines, what_if_line
from npuscope.text import safe_terminal

_SLOWEST = 8


def estimate_text(
    profile: Profile,
    changed: WhatIf | None = None,
    sensitive: tuple[Sensitivity, ...] | None = None,
) -> str:
    lines = [
        answer(profile),
        *([what_if_line(changed)] if changed else []),
        model_line(profile),
        machine_line(profile),
        *interval_line(profile),
        *note_lines(profile),
        "",
        *time_lines(profile),
        "",
        *memory_lines(profile),
        "",
        *_fit_lines(profile.fit),
        "",
        *_slowest_lines(profile),
        *(["", *sensitivity_lines(sensitive, profile.total_ms)] if sensitive is not None else []),
    ]
    return "\n".join(lines) + "\n"


def time_lines(profile: Profile) -> list[str]:
    total = profile.total_ms
    lines = [f"{'Time':<12} {'ms':>9} {'share':>7}"]
    for name, value in profile.time.by_work:
        share = percent(value, total)
        lines.append(f"  {name:<10} {ms(value):>9} {share:>7}  {bar(value, total)}".rstrip())
    lines.append(f"  {'total':<10} {ms(total):>9}")
    return lines


def memory_lines(profile: Profile) -> list[str]:
    memory = profile.memory
    used = [pool for pool in memory.pools if pool.used_bytes]
    lines = [f"{'Memory':<12} {'used':>11} {'of':>11} {'share':>7} {'live peak':>12}"]
    lines += [_pool_line(pool) for pool in used]
    lines.append(
        f"  internal RAM {size(memory.internal_ram_bytes)}, "
        f"external RAM {size(memory.external_ram_bytes)}, weights {size(memory.weights_bytes)}"
    )
    lines.append(f"  no placement needs less than {size(memory.lower_bound_bytes)} of RAM")
    return lines


def _pool_line(pool: PoolUse) -> str:
    live = size(pool.live_bytes) if pool.live_bytes else DASH
    share = percent(pool.used_bytes, pool.size_bytes)
    name = safe_terminal(pool.name)
    return (
        f"  {name:<10} {size(pool.used_bytes):>11} {size(pool.size_bytes):>11} {share:>7} "
        f"{live:>12}"
    )


def _fit_lines(fit: Fit) -> list[str]:
    rows = (
        ("on chip only", fit.on_chip),
        ("with flash", fit.with_flash),
        ("with external RAM", fit.with_external_ram),
    )
    lines = ["Fit", *(f"  {name:<18} {'yes' if fits else 'no'}" for name, fits in rows)]
    return [*lines, f"  {safe_terminal(fit.reason)}"] if fit.reason else lines


def _slowest_lines(profile: Profile) -> list[str]:
    counts = ", ".join(f"{number} {name}" for name, number in profile.counts.items())
    slowest = sorted(profile.epochs, key=lambda epoch: -epoch.ms)[:_SLOWEST]
    heading = f"{'epoch':<9} {'kind':<7} {'ms':>7} {'share':>6}  {'bound':<13}{'ops':<20} from"
    lines = [f"Epochs  {counts}; the slowest:", f"  {heading}"]
    for epoch in slowest:
        lines.append(
            f"  {epoch_label(epoch):<9} {epoch.kind.value:<7} {ms(epoch.ms):>7} "
            f"{percent(epoch.ms, profile.total_ms):>6}  {epoch.counters.bound.value:<13}"
            f"{shorten(names(epoch.operators), 19):<20} {shorten(names(epoch.origin), 32)}".rstrip()
        )
    return lines
