"""The full block of one epoch: what the compiler said of it, what its target did."""

from __future__ import annotations

from npuscope.profile.model import EpochProfile, Profile
from npuscope.program.model import EpochKind
from npuscope.report.figures import (
    Phases,
    clocks_of,
    is_bare,
    label,
    operations,
    phases,
    processor_units,
    traffic,
)
from npuscope.report.numbers import DASH, ms, per, percent, rate
from npuscope.report.text_table import names
from npuscope.sim.counters import BusTraffic, EngineActivity
from npuscope.text import safe_terminal

_RULER = "-" * 60


def epoch_lines(profile: Profile, epoch: EpochProfile) -> list[str]:
    clocks = clocks_of(profile)
    cycles = phases(epoch, clocks)
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
        _cache(epoch),
        *_pool_rates(traffic((epoch,)), _busy_ms(epoch, cycles)),
    ]


def _compiler(epoch: EpochProfile) -> list[str]:
    claims = epoch.claims
    if is_bare(epoch):
        return [_row("epoch type", epoch.kind.value), "  (no more is known of this epoch)"]
    moved = " ".join(
        f"[{safe_terminal(a.pool)}: r={a.reads}, w={a.writes}]" for a in claims.accesses
    )
    return [
        _row("epoch type", epoch.kind.value),
        _row("source ops", names(epoch.origin) or DASH),
        _row("operations", str(operations(epoch))),
        _row("processor units", str(processor_units(epoch))),
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
    share = percent(epoch.ms, profile.total_ms)
    lines = [
        _row("duration", f"{ms(epoch.ms)}ms ({share}) total={ms(profile.total_ms)}ms"),
        _row("bound by", epoch.counters.bound.value),
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
            f"{_against_max(core, claims.max_cycles)}",
        ),
        *([] if is_bare(epoch) else [_row("compute cycles ratio", ratio)]),
    ]


def _against_max(core: float, max_cycles: int) -> str:
    """The gap to the compiler's own estimate; software kernels have none."""
    if not max_cycles:
        return "(no estimate from compiler)"
    gap = core - max_cycles
    return f"diff. vs max_cycles from compiler: {round(gap)} ({percent(gap, core)})"


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
    reads, writes = sum(b.read_bytes for b in buses), sum(b.write_bytes for b in buses)
    return [
        *(_row(f"busif {bus.id}", _bus(bus, cycles.core_ms)) for bus in buses),
        _row("busif (total)", f"r={reads} w={writes} -> {rate(reads + writes, cycles.core_ms)}"),
    ]


def _bus(bus: BusTraffic, core_ms: float) -> str:
    reads, writes = (",".join(map(str, b)) for b in (bus.read_bursts, bus.write_bursts))
    return (
        f"r={bus.read_bytes} w={bus.write_bytes} rburst[1,2,4,8]x8=({reads}) "
        f"wburst[1,2,4,8]x8=({writes}) -> {rate(bus.read_bytes + bus.write_bytes, core_ms)}"
    )


def _engines(epoch: EpochProfile, cycles: Phases) -> list[str]:
    engines = epoch.counters.engines
    if not engines:
        return [_row("strg engines", "none")]
    core = cycles.core_npu_cycles
    busiest = max(engines, key=lambda engine: engine.active_cycles)
    head = f"{percent(busiest.active_cycles, core)} (id={busiest.id})"
    return [
        _row("strg engines", head),
        *(_row(" active", _engine(engine, core)) for engine in engines),
    ]


def _engine(engine: EngineActivity, core: float) -> str:
    place = f"[{safe_terminal(engine.pool)}:{engine.bytes}], " if engine.pool else ""
    return (
        f"STRENG.{engine.id}.{engine.dir}: busif={engine.busif}, {engine.active_cycles} cycles, "
        f"{place}{percent(engine.active_cycles, core)}"
    )


def _cache(epoch: EpochProfile) -> str:
    c = epoch.counters.cache
    return _row(
        "NPU cache cnts",
        f"R[hit={c.read_hit}, miss={c.read_miss}, alloc-miss={c.read_alloc_miss}, "
        f"evict={c.read_evict}], W[hit={c.write_hit}, miss={c.write_miss}, "
        f"alloc-miss={c.write_alloc_miss}, through={c.write_through}]",
    )


def _busy_ms(epoch: EpochProfile, cycles: Phases) -> float:
    """The time in which the bytes moved: kernels on the CPU work outside the core phase."""
    return cycles.core_ms if epoch.kind is EpochKind.HW else cycles.total_ms


def _pool_rates(pools: dict[str, tuple[int, int]], busy_ms: float) -> list[str]:
    """Bandwidth by pool while the epoch works, and all pools together."""
    reads, writes = (sum(row[i] for row in pools.values()) for i in (0, 1))
    rows = [*pools.items(), ("total", (reads, writes))]
    return [
        _row(safe_terminal(name), f"r={r} w={w} -> {rate(r + w, busy_ms)}") for name, (r, w) in rows
    ]


def _row(name: str, value: str) -> str:
    return f"  {name:<20} : {value}"
