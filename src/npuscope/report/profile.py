"""The profile as text: runtime part, one line per epoch or full blocks, the whole model."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count as count_from

from npuscope.errors import UsageError
from npuscope.families.registry import family_of
from npuscope.profiling.model import EpochProfile, Profile
from npuscope.program.model import EpochKind
from npuscope.report.device_values import said_values, session_values
from npuscope.report.figures import (
    DASH,
    Phases,
    answer,
    bound_text,
    bus_traffic,
    clocks_of,
    count,
    epoch_counts,
    interval_line,
    is_bare,
    label,
    machine_line,
    model_line,
    ms,
    note_lines,
    operations,
    per,
    percent,
    phases,
    processor_units,
    rate,
    shorten,
    shorten_end,
    source_of,
    tensor_lines,
    total_phases,
    traffic,
)
from npuscope.shown import counted
from npuscope.text import safe_terminal

# --- One line per epoch ---


def epoch_label(epoch: EpochProfile) -> str:
    """The compiler's number, or the range that a meta epoch covers."""
    return str(epoch.first) if epoch.first == epoch.last else f"{epoch.first}->{epoch.last}"


def names(parts: Iterable[str]) -> str:
    """Foreign names in one cell; repeated ones are counted."""
    counts: dict[str, int] = {}
    for part in parts:
        counts[part] = counts.get(part, 0) + 1
    words = (f"{name} x{n}" if n > 1 else name for name, n in counts.items())
    return safe_terminal(", ".join(words))


def table_lines(profile: Profile, epochs: tuple[EpochProfile, ...]) -> list[str]:
    # Our own prediction stands beside measured times, where the program is known.
    compared = any(epoch.predicted_ms is not None for epoch in profile.epochs)
    predicted = f"{'predicted':>10}" if compared else ""
    heading = (
        f"{'epoch':>9}  {'kind':<6} {'ms':>7}{predicted} {'share':>6} {'core cycles':>12} "
        f"{'vs max':>8} {'ops/cycle':>9}  {'bound':<13}{'ops':<20} from"
    )
    return [heading, *(_line(profile, epoch, compared) for epoch in epochs)]


def _line(profile: Profile, epoch: EpochProfile, compared: bool) -> str:
    total = phases(epoch, clocks_of(profile)).total_npu_cycles
    speed = DASH if is_bare(epoch) else per(epoch.claims.ops, total)
    predicted = DASH if epoch.predicted_ms is None else ms(epoch.predicted_ms)
    # The vendor's definition: the gap as a share of the core cycles.
    core, limit = epoch.counters.core_cycles, epoch.claims.max_cycles
    against = f"{100 * (core - limit) / core:+.0f}%" if limit and core else DASH
    return (
        f"{epoch_label(epoch):>9}  {epoch.kind.value:<6} {ms(epoch.ms):>7}"
        f"{f'{predicted:>10}' if compared else ''} {percent(epoch.ms, profile.total_ms):>6} "
        f"{count(core):>12} "
        f"{against:>8} {speed:>9}  "
        f"{epoch.counters.bound.value:<13}{shorten_end(names(epoch.operators), 19):<20} "
        f"{shorten(names(epoch.origin), 40)}"
    ).rstrip()


# --- The full block of one epoch: what the compiler stated, what was counted ---

_RULER = "-" * 60


def epoch_lines(profile: Profile, epoch: EpochProfile) -> list[str]:
    clocks = clocks_of(profile)
    cycles = phases(epoch, clocks)
    c = epoch.counters.cache
    # Bandwidth by pool while the epoch works, and all pools together.
    pools = traffic((epoch,))
    busy_ms = cycles.core_ms if epoch.kind is EpochKind.HW else cycles.total_ms
    reads, writes = (sum(row[i] for row in pools.values()) for i in (0, 1))
    rows = [*pools.items(), ("total", (reads, writes))]
    return [
        _RULER,
        f"{safe_terminal(epoch.name)} (c_idx={epoch.index}, num={epoch.first}:{epoch.last}, "
        f"c_type={epoch.kind.value}, blob={DASH if epoch.blob is None else epoch.blob})",
        _RULER,
        "[compiler]",
        *_compiler(epoch),
        f"[target: {label(epoch.provenance)}]",
        *_duration(profile, epoch, cycles),
        *_cycles(epoch, cycles, clocks.mcu_mhz, clocks.npu_mhz),
        *_buses(epoch, cycles),
        *_speed(epoch, cycles),
        *_engines(epoch, cycles),
        *([_row("bit-stream", f"r={epoch.blob_bytes} (blob)")] if epoch.blob_bytes else []),
        _row(
            "NPU cache cnts",
            f"R[hit={c.read_hit}, miss={c.read_miss}, alloc-miss={c.read_alloc_miss}, "
            f"evict={c.read_evict}], W[hit={c.write_hit}, miss={c.write_miss}, "
            f"alloc-miss={c.write_alloc_miss}, through={c.write_through}]",
        ),
        # The time in which the bytes moved: kernels on the CPU work outside the core phase.
        *[
            _row(safe_terminal(name), f"r={r} w={w} -> {rate(r + w, busy_ms)}")
            for name, (r, w) in rows
        ],
    ]


def _compiler(epoch: EpochProfile) -> list[str]:
    claims = epoch.claims
    if is_bare(epoch):
        return [_row("epoch type", epoch.kind.value), "  (nothing else is known about this epoch)"]
    moved = " ".join(
        f"[{safe_terminal(a.pool)}: r={a.reads}, w={a.writes}]" for a in claims.accesses
    )
    return [
        _row("epoch type", epoch.kind.value),
        _row("source ops", names(epoch.origin) or DASH),
        _row("operations", str(operations(epoch))),
        _row("processor units", str(processor_units(epoch))),
        *([_row("conv mode", "; ".join(epoch.modes))] if epoch.modes else []),
        _row("ops", str(claims.ops)),
        _row("compute cycles", f"{claims.compute_cycles} (max_cycles={claims.max_cycles})"),
        _row(
            "ops/cycle",
            f"{per(claims.ops, claims.max_cycles)} "
            f"(ideal={per(claims.ops, claims.compute_cycles)})",
        ),
        _row("mem accesses", moved or DASH),
    ]


def _duration(profile: Profile, epoch: EpochProfile, cycles: Phases) -> list[str]:
    printed = profile.printed
    total = (printed.epochs_ms if printed else None) or profile.total_ms
    lines = [
        _row("duration", f"{ms(epoch.ms)}ms ({percent(epoch.ms, total)}) total={ms(total)}ms"),
        _row("bound by", bound_text(epoch)),
    ]
    if epoch.predicted_ms is not None:
        error = percent(epoch.predicted_ms - epoch.ms, epoch.ms)
        lines.append(_row("predicted", f"{ms(epoch.predicted_ms)}ms ({error} off)"))
    spread = epoch.spread
    if spread.n > 1:
        lines.append(
            _row(
                "spread",
                f"min={ms(spread.min)} median={ms(spread.median)} max={ms(spread.max)} ms "
                f"({spread.n} runs)",
            )
        )
    return lines


def _cycles(epoch: EpochProfile, cycles: Phases, mcu_mhz: float, npu_mhz: float) -> list[str]:
    claims = epoch.claims
    mcu = ", ".join(str(round(value)) for value in cycles.mcu_cycles)
    split = ",".join(ms(value) for value in cycles.ms)
    core = cycles.core_npu_cycles
    # The gap to the compiler's own estimate; software kernels have none.
    gap = core - claims.max_cycles
    against = f"diff. vs max_cycles from compiler: {round(gap)} ({percent(gap, core)})"
    whole = percent(claims.compute_cycles, cycles.total_npu_cycles)
    ratio = f"{whole} (core only: {percent(claims.compute_cycles, core)})"
    return [
        _row(
            "mcu cycles",
            f"[{mcu}] -> {split} ms (mcu_freq={mcu_mhz:g}MHz), {ms(cycles.total_ms)}ms",
        ),
        _row(
            "core npu cycles",
            f"{round(core)} -> {ms(cycles.core_ms)} ms (npu_freq={npu_mhz:g}MHz) "
            f"{against if claims.max_cycles else '(no estimate from compiler)'}",
        ),
        *([] if is_bare(epoch) else [_row("compute cycles ratio", ratio)]),
    ]


def _speed(epoch: EpochProfile, cycles: Phases) -> list[str]:
    if is_bare(epoch):
        return []
    ops = epoch.claims.ops
    core = f"(core only: {per(ops, cycles.core_npu_cycles)})"
    return [_row("ops/cycle", f"{per(ops, cycles.total_npu_cycles)} {core}")]


def _buses(epoch: EpochProfile, cycles: Phases) -> list[str]:
    buses = epoch.counters.busif
    if not buses:
        return [_row("busif", "not counted")]
    lines = []
    for bus in buses:
        reads, writes = (",".join(map(str, b)) for b in (bus.read_bursts, bus.write_bursts))
        text = (
            f"r={bus.read_bytes} w={bus.write_bytes} rburst[1,2,4,8]x8=({reads}) "
            f"wburst[1,2,4,8]x8=({writes}) -> "
            f"{rate(bus.read_bytes + bus.write_bytes, cycles.core_ms)}"
        )
        lines.append(_row(f"busif {bus.id}", text))
    r, w = sum(b.read_bytes for b in buses), sum(b.write_bytes for b in buses)
    return [*lines, _row("busif (total)", f"r={r} w={w} -> {rate(r + w, cycles.core_ms)}")]


def _engines(epoch: EpochProfile, cycles: Phases) -> list[str]:
    engines = epoch.counters.engines
    if not engines:
        return [_row("strg engines", "none")]
    core = cycles.core_npu_cycles
    busiest = max(engines, key=lambda engine: engine.active_cycles)
    head = f"{percent(busiest.active_cycles, core)} (id={busiest.id})"
    lines = [_row("strg engines", head)]
    for engine in engines:
        place = f"[{safe_terminal(engine.pool)}:{engine.bytes}], " if engine.pool else ""
        text = (
            f"STRENG.{engine.id}.{engine.dir}: busif={engine.busif}, "
            f"{engine.active_cycles} cycles, {place}{percent(engine.active_cycles, core)}"
        )
        lines.append(_row(" active", text))
    return lines


def _row(name: str, value: str) -> str:
    return f"  {name:<20} : {value}"


# --- The whole report ---


def profile_text(
    profile: Profile, *, full: bool = False, epochs: frozenset[int] | None = None
) -> str:
    """The report; `full` prints every field of every epoch, `epochs` picks some by number."""
    epochs_shown = select(profile, epochs)
    if profile.family:  # parts without registers and counters
        lines = [*_runtime(profile), "", *_part_lines(profile, epochs_shown)]
        if full:
            family = family_of(profile.machine.name)
            for part in epochs_shown:
                lines += ["", f"Part {part.index}: {safe_terminal(part.name)}"]
                lines += family.part_lines(profile, part)
        return "\n".join(lines) + "\n"
    lines = [*_runtime(profile), "", "Per epoch"]
    if full:
        lines += [line for epoch in epochs_shown for line in epoch_lines(profile, epoch)]
    else:
        lines += table_lines(profile, epochs_shown)
    if profile.printed is None:
        lines += ["", *_compiler_lines(profile), "", *_target(profile), "", *_bandwidth(profile)]
    else:
        totals = profile.printed
        titles = (
            "Compiler",
            label(source_of(profile)).capitalize(),
            "Memory bandwidth / inference",
        )
        parts = zip(titles, (totals.compiler, totals.measured, totals.bandwidth), strict=True)
        lines += [
            line
            for title, rows in parts
            for line in ("", title, *(_row(*map(safe_terminal, row)) for row in rows))
        ]
    return "\n".join(lines) + "\n"


def _part_lines(profile: Profile, parts: tuple[EpochProfile, ...]) -> list[str]:
    rows = [
        f"{part.index:>6}  {part.kind.value:<6} {ms(part.ms):>9} "
        f"{percent(part.ms, profile.total_ms):>6}  {shorten_end(safe_terminal(part.name), 29):<30}"
        f"{shorten_end(names(part.operators), 19):<20} {shorten(names(part.origin), 40)}".rstrip()
        for part in parts
    ]
    figures = [f"{name:<22}: {value:g}" for name, value in profile.figures.items()]
    head = f"{'part':>6}  {'kind':<6} {'ms':>9} {'share':>6}  {'name':<30}{'ops':<20} from"
    return [head, *rows, *(["", *figures] if figures else [])]


def select(profile: Profile, numbers: frozenset[int] | None) -> tuple[EpochProfile, ...]:
    """Epochs that cover one of the numbers; all of them without numbers. Numbers in a row of
    which the run has none are refused."""
    if numbers is None:
        return profile.epochs
    there = {n for epoch in profile.epochs for n in range(epoch.first, epoch.last + 1)}
    for first in sorted(number for number in numbers if number - 1 not in numbers):
        last = next(number for number in count_from(first) if number + 1 not in numbers)
        if there.isdisjoint(range(first, last + 1)):
            known = f"{min(there)} to {max(there)}" if there else "none"
            asked = str(first) if first == last else f"{first} to {last}"
            raise UsageError(
                f"this run has no epoch {asked}", where="--epochs", hint=f"its epochs: {known}"
            )
    return tuple(
        epoch
        for epoch in profile.epochs
        if any(epoch.first <= number <= epoch.last for number in numbers)
    )


def _runtime(profile: Profile) -> list[str]:
    runs = "; ".join(f"{label(run.source)}, {counted(run.n, 'inference')}" for run in profile.runs)
    clocks = clocks_of(profile)
    domains = [("noc", clocks.noc_mhz), ("nic", clocks.nic_mhz)]
    buses = ", ".join(f"{name.upper()} {mhz:g} MHz" for name, mhz in domains if mhz)
    return [
        answer(profile),
        machine_line(profile) + (f", {buses}" if buses else ""),
        model_line(profile),
        *tensor_lines(profile),
        *(_row(name, value or DASH) for name, value in session_values(profile.device).items()),
        *(_row(name, value or DASH) for name, value in said_values(profile.device).items()),
        *interval_line(profile),
        f"runs     {runs or 'none'}",
        f"epochs   {epoch_counts(profile)}",
        *note_lines(profile),
    ]


def _compiler_lines(profile: Profile) -> list[str]:
    """The compiler's own estimate, summed; cycles are NPU cycles."""
    ops = sum(epoch.claims.ops for epoch in profile.epochs)
    cycles = sum(epoch.claims.max_cycles for epoch in profile.epochs)
    ideal = sum(epoch.claims.compute_cycles for epoch in profile.epochs)
    hertz = clocks_of(profile).npu_mhz * 1e6
    if not ops and not cycles:
        return ["Compiler", "  not known: name the build that ran with --cfile"]
    return [
        "Compiler",
        _row("cycles", f"{cycles} (total max_cycles)"),
        _row("ideal cycles", f"{ideal} (total compute_cycles)"),
        _row("ops", str(ops)),
        _row("ops/cycle", per(ops, cycles)),
        _row("inf/s", f"{per(hertz, cycles)} (based on estimated total max_cycles)"),
        _row("ideal ops/cycle", per(ops, ideal)),
        _row("ideal inf/s", per(hertz, ideal)),
    ]


def _target(profile: Profile) -> list[str]:
    """What ran, under the name of its source: only a board's numbers are measured."""
    total = total_phases(profile.epochs, clocks_of(profile))
    ops = sum(epoch.claims.ops for epoch in profile.epochs)
    ideal = sum(epoch.claims.compute_cycles for epoch in profile.epochs)
    mcu = sum(total.mcu_cycles)
    shares = ", ".join(percent(cycles, mcu) for cycles in total.mcu_cycles)
    core = total.core_npu_cycles
    speed = f"{per(ops, total.total_npu_cycles)}, including SW epochs"
    ratio = f"{percent(ideal, total.total_npu_cycles)} (core only: {percent(ideal, core)})"
    return [
        label(source_of(profile)).capitalize(),
        _row(
            "total duration",
            f"{ms(profile.total_ms)}ms, npu_core:{ms(total.core_ms)}ms "
            f"({percent(total.core_ms, profile.total_ms)}), mcu_cycles=[{shares}]",
        ),
        _row("mcu cycles", f"{count(mcu)} (core only = {count(total.mcu_cycles[1])})"),
        _row("npu cycles", f"{count(total.total_npu_cycles)} (core only = {count(core)})"),
        *([_row("ops/cycle", f"{speed} (core only = {per(ops, core)})")] if ops else []),
        _row("inf/s", f"{profile.inferences_per_s:.1f} ({ms(profile.total_ms)}ms)"),
        *([_row("compute cycles ratio", ratio)] if ops else []),
        _row(
            "time by work",
            ", ".join(f"{name.lower()} {ms(value)}ms" for name, value in profile.time.by_work),
        ),
    ]


def _bandwidth(profile: Profile) -> list[str]:
    """Peak counts hardware epochs while the NPU is active, average the whole inference."""
    hardware = tuple(epoch for epoch in profile.epochs if epoch.kind is EpochKind.HW)
    core_ms = total_phases(hardware, clocks_of(profile)).core_ms
    # Without the program the pools are not known, but what passed each bus interface is.
    moved = traffic if traffic(profile.epochs) else bus_traffic
    active = moved(hardware)
    lines = ["Memory bandwidth / inference"]
    for name, (reads, writes) in _with_total(moved(profile.epochs)).items():
        peak = sum(_with_total(active).get(name, (0, 0)))
        lines.append(
            _row(
                safe_terminal(name),
                f"r={reads} w={writes} -> {rate(peak, core_ms)} (peak), "
                f"{rate(reads + writes, profile.total_ms)} (average)",
            )
        )
    return lines


def _with_total(pools: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    reads, writes = (sum(row[i] for row in pools.values()) for i in (0, 1))
    return {**pools, "total r/w": (reads, writes)}
