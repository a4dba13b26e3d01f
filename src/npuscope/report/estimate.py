"""The estimate on one screen, and what a changed machine does to a network."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from npuscope.machine.load import load_machine, packaged
from npuscope.machine.marks import KeyEffect
from npuscope.machine.set_keys import Key, key_notes, machine_keys
from npuscope.profiling.model import Fit, Profile
from npuscope.report.figures import (
    DASH,
    answer,
    bar,
    epoch_counts,
    interval_line,
    machine_line,
    model_line,
    ms,
    note_lines,
    percent,
    shorten,
    shorten_end,
    size,
)
from npuscope.report.json_report import estimate_json
from npuscope.report.profile import epoch_label, names
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.advice.what_if import Sensitivity, WhatIf
    from npuscope.rulebook.finding import Finding

# --- What-if in one line, and the keys that would help most ---

_SHOWN = 12  # keys of the sensitivity table


def what_if_line(result: WhatIf) -> str:
    keys = ", ".join(
        safe_terminal(f"{change.key} {shown(change.old)} -> {shown(change.new)}")
        for change in result.changes
    )
    before, after = result.baseline.total_ms, result.profile.total_ms
    sign = "+" if result.delta_ms >= 0 else "-"
    share = percent(abs(result.delta_ms), before)
    times = f"{ms(before)} -> {ms(after)} ms ({sign}{ms(abs(result.delta_ms))} ms, {sign}{share})"
    return f"what-if  {keys}: {times}, {_how(result)}"


def shown(value: object) -> str:
    """A value as the TOML would have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(shown, value))}]"
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _how(result: WhatIf) -> str:
    if not result.recompiled:
        return "re-timed, not recompiled"
    if result.vendor is not None:
        time = ms(result.vendor.total_ms)
        return f"both compiled by npuscope; the vendor's program takes {time} ms"
    if not result.mapping_changed:
        return "recompiled, the mapping stays the same"
    before, after = result.baseline.epoch_count, result.profile.epoch_count
    return f"recompiled, the mapping changed ({before} -> {after} epochs)"


def what_if_json(result: WhatIf) -> dict[str, Any]:
    """Keys of `estimate --json` that only a what-if has."""
    return {
        "what_if": [
            {"key": c.key, "old": c.old, "new": c.new, "kind": c.effect.value}
            for c in result.changes
        ],
        "baseline_ms": round(result.baseline.total_ms, 6),
        "recompiled": result.recompiled,
        "mapping_changed": result.mapping_changed,
    } | ({"vendor_ms": round(result.vendor.total_ms, 6)} if result.vendor else {})


def sensitivity_lines(rows: tuple[Sensitivity, ...], total_ms: float) -> list[str]:
    heading = f"{'key':<42} {'value':>9} {'tried':>9} {'saved ms':>9} {'share':>6}"
    from npuscope.advice.what_if import STEP

    lines = [f"Sensitivity  one timing key {STEP:.0%} better at a time; the largest savings:"]
    lines.append(f"  {heading}")
    for row in rows[:_SHOWN]:
        share = percent(row.saved_ms, total_ms)
        lines.append(
            f"  {safe_terminal(row.key):<42} {row.value:>9.6g} {row.better:>9.6g} "
            f"{ms(row.saved_ms):>9} {share:>6}"
        )
    if len(rows) > _SHOWN:
        lines.append(f"  and {len(rows) - _SHOWN} more that save less (--json lists them)")
    return lines


def sensitivity_json(rows: Iterable[Sensitivity]) -> dict[str, Any]:
    return {
        "sensitivity": [
            {
                "key": row.key,
                "value": row.value,
                "tried": round(row.better, 9),
                "saved_ms": round(row.saved_ms, 6),
            }
            for row in rows
        ]
    }


# --- The estimate on one screen ---

_SLOWEST = 8  # epochs: with them the estimate still fits one screen


class Screen(Struct, frozen=True):
    """An estimate as the command line shows it. What was set is compared with the machine as the
    other options describe it; findings are for JSON."""

    profile: Profile
    what_if: WhatIf | None = None
    sensitivity: tuple[Sensitivity, ...] | None = None
    findings: tuple[Finding, ...] = ()


def screen_text(screen: Screen, *, every: bool = False) -> str:
    return estimate_text(screen.profile, screen.what_if, screen.sensitivity, every=every)


def screen_json(screen: Screen) -> dict[str, Any]:
    result = estimate_json(screen.profile, screen.findings)
    result |= what_if_json(screen.what_if) if screen.what_if else {}
    rows = screen.sensitivity
    return result | (sensitivity_json(rows) if rows is not None else {})


def estimate_text(
    profile: Profile,
    changed: WhatIf | None = None,
    sensitive: tuple[Sensitivity, ...] | None = None,
    *,
    every: bool = False,
) -> str:
    """`every` lists all epochs, the slowest first, under their whole names."""
    lines = [
        answer(profile),
        machine_line(profile),
        *([what_if_line(changed)] if changed else []),
        model_line(profile),
        *interval_line(profile),
        *note_lines(profile),
        "",
        *time_lines(profile),
        "",
        *memory_lines(profile),
        "",
        *_fit_lines(profile.fit),
        "",
        *_slowest_lines(profile, every),
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
    columns = f"{'used':>11} {'of':>11} {'share':>7} {'live peak':>12}"
    lines = [f"{'Memory':<12} {columns}" if used else "Memory"]
    for pool in used:
        live = size(pool.live_bytes) if pool.live_bytes else DASH
        share = percent(pool.used_bytes, pool.size_bytes)
        lines.append(
            f"  {safe_terminal(pool.name):<10} {size(pool.used_bytes):>11} "
            f"{size(pool.size_bytes):>11} {share:>7} {live:>12}"
        )
    lines.append(
        f"  internal RAM {size(memory.internal_ram_bytes)}, "
        f"external RAM {size(memory.external_ram_bytes)}, weights {size(memory.weights_bytes)}"
    )
    if memory.known_error:
        lines.append(f"  known error: {safe_terminal(memory.known_error)}")
    if memory.lower_bound_bytes:
        lines.append(f"  any placement needs at least {size(memory.lower_bound_bytes)} of RAM")
    return lines


def _fit_lines(fit: Fit) -> list[str]:
    rows = (
        ("on chip only", fit.on_chip),
        ("with flash", fit.with_flash),
        ("with external RAM", fit.with_external_ram),
    )
    lines = ["Fit", *(f"  {name:<18} {'yes' if fits else 'no'}" for name, fits in rows)]
    return [*lines, *(f"  {safe_terminal(text)}" for text in (fit.reason, fit.unsure) if text)]


def _slowest_lines(profile: Profile, every: bool) -> list[str]:
    slowest = sorted(profile.epochs, key=lambda epoch: -epoch.ms)
    slowest = slowest if every else slowest[:_SLOWEST]
    room = max((len(names(epoch.origin)) for epoch in slowest), default=0) if every else 32
    heading = f"{'epoch':<9} {'kind':<7} {'ms':>7} {'share':>6}  {'bound':<13}{'ops':<20} from"
    which = "all, the slowest first" if every else "the slowest"
    lines = [f"Epochs  {epoch_counts(profile)}; {which}:", f"  {heading}"]
    for epoch in slowest:
        lines.append(
            f"  {epoch_label(epoch):<9} {epoch.kind.value:<7} {ms(epoch.ms):>7} "
            f"{percent(epoch.ms, profile.total_ms):>6}  {epoch.counters.bound.value:<13}"
            f"{shorten_end(names(epoch.operators), 19):<20} "
            f"{shorten(names(epoch.origin), room)}".rstrip()
        )
    return lines


# --- The keys of a machine: what --set takes ---

_UNITS = {
    "_mhz": "MHz",
    "_cycles": "cycles",
    "_bytes": "bytes",
    "_kib": "KiB",
    "_mw": "mW",
    "_elements": "elements",
    "_per_cycle": "bytes per cycle",
}


class KnownKey(Struct, frozen=True):
    key: Key
    unit: str
    note: str


def known_keys(machine_name: str, text: str = "") -> tuple[KnownKey, ...]:
    """Keys with `text` in their name or mark."""
    machine = load_machine(machine_name)
    notes = key_notes(packaged(machine_name), machine)
    return tuple(
        KnownKey(
            key,
            next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), ""),
            notes[name],
        )
        for name, key in machine_keys(machine).items()
        if text in name or text == key.effect.value
    )


def keys_text(machine_name: str, rows: tuple[KnownKey, ...]) -> str:
    timing = sum(row.key.effect is KeyEffect.TIMING for row in rows)
    lines = [
        f"{machine_name}: {len(rows)} keys for --set: {timing} timing (a program is timed again), "
        f"{len(rows) - timing} mapping (the model is compiled again)"
    ]
    for row in rows:
        is_address = row.key.place[-1] == "address"
        value = f"{row.key.value:#x}" if is_address else shown(row.key.value)
        lines.append(
            f"  {row.key.name:<42} {shorten(value, 18):>18}  {row.key.effect.value:<8} "
            f"{row.note}".rstrip()
        )
    return "\n".join(lines)


def keys_json(rows: tuple[KnownKey, ...]) -> list[dict[str, Any]]:
    return [
        {
            "key": row.key.name,
            "value": row.key.value,
            "kind": row.key.effect.value,
            "unit": row.unit,
            "note": row.note,
        }
        for row in rows
    ]
