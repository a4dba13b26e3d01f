"""The parts of a row's difference: each kind of work apart, each part with its cause."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from npuscope.advice.compare.core_causes import core_causes, fusion_text
from npuscope.advice.compare.half import Half
from npuscope.advice.compare.model import LEAST_MS, Cause, CauseKind, Move
from npuscope.program.model import EpochKind

PLACES = {EpochKind.HW: "NPU", EpochKind.SW: "CPU", EpochKind.HYBRID: "library call"}


def program_causes(a: Half, b: Half, moves: tuple[Move, ...]) -> Iterator[Cause]:
    """What differs between two programs on the same machine."""
    software = b.times.software_ms - a.times.software_ms
    if moves and not (a.hardware and b.hardware):
        yield Cause(CauseKind.MOVED, move_text(moves), b.times.total_ms - a.times.total_ms)
        return
    if abs(software) >= LEAST_MS:
        yield _software_cause(a, b, moves, software)
    if abs(b.times.control_ms - a.times.control_ms) >= LEAST_MS:
        yield _control_cause(a, b)
    for cause in core_causes(a, b):
        moved_here = moves and not cause.is_known and cause.ms * software < 0
        yield Cause(CauseKind.MOVED, move_text(moves), cause.ms) if moved_here else cause


def move_text(moves: tuple[Move, ...]) -> str:
    first = moves[0]
    others = f" and {len(moves) - 1} more" if len(moves) > 1 else ""
    why = f" ({first.rule}: {first.reason})" if first.rule else ""
    return f"{first.op}{others}: {PLACES[first.a]} -> {PLACES[first.b]}{why}"


def _software_cause(a: Half, b: Half, moves: tuple[Move, ...], ms: float) -> Cause:
    if moves:
        return Cause(CauseKind.MOVED, move_text(moves), ms)
    if a.kernels != b.kernels:
        text = f"{_counted(a.kernels)} -> {_counted(b.kernels)}"
        return Cause(CauseKind.KERNEL, text, ms)
    if (b.moved_bytes - a.moved_bytes) * ms > 0:
        text = f"the kernel touches {a.moved_bytes:,} -> {b.moved_bytes:,} bytes"
        return Cause(CauseKind.SHAPE, text, ms)
    return Cause(CauseKind.UNEXPLAINED, "the same kernels took another time", ms)


def _counted(kernels: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in kernels.items()) or "no kernel"


def _control_cause(a: Half, b: Half) -> Cause:
    """Who starts the epochs; how many there are; what has to be programmed for each."""
    ms = b.times.control_ms - a.times.control_ms
    ways = [_way(part) for part in (a, b)]
    if ways[0] != ways[1] and all(ways):
        return Cause(CauseKind.CONTROL, f"epochs started by {ways[0]} -> by {ways[1]}", ms)
    more = len(b.hardware) - len(a.hardware)
    if more * ms > 0:
        return Cause(CauseKind.FUSION, fusion_text(a, b), ms)
    units = [sum(sum(epoch.units.values()) for epoch in part.hardware) for part in (a, b)]
    if (units[1] - units[0]) * ms > 0:
        return Cause(CauseKind.CONTROL, f"{units[0]} -> {units[1]} units to program", ms)
    ends = [sum(bool(e.counters.pre_cycles) for e in part.hardware) for part in (a, b)]
    if (ends[1] - ends[0]) * ms > 0:
        return Cause(CauseKind.CONTROL, f"{ends[0]} -> {ends[1]} blobs begin here", ms)
    return _other_control(a, b, ms)


def _other_control(a: Half, b: Half, ms: float) -> Cause:
    """Ends of blobs, and coefficient vectors that the CPU writes."""
    ends = [sum(bool(e.counters.post_cycles) for e in part.hardware) for part in (a, b)]
    if (ends[1] - ends[0]) * ms > 0:
        return Cause(CauseKind.CONTROL, f"{ends[0]} -> {ends[1]} blobs end here", ms)
    before = [sum(e.counters.pre_cycles for e in part.hardware) for part in (a, b)]
    if _way(a) == "the CPU" and (before[1] - before[0]) * ms > 0:
        text = f"{before[0]:,.0f} -> {before[1]:,.0f} MCU cycles to set up coefficients"
        return Cause(CauseKind.CONTROL, text, ms)
    return Cause(CauseKind.UNEXPLAINED, "control of the same epochs took another time", ms)


def _way(part: Half) -> str:
    blobs = [epoch.blob is not None for epoch in part.hardware]
    if not blobs:
        return ""
    return "the epoch controller" if all(blobs) else "both" if any(blobs) else "the CPU"


def settled(causes: Iterable[Cause], delta_ms: float) -> tuple[Cause, ...]:
    """One cause a kind, the largest first; what they leave over stays without a cause."""
    found: dict[CauseKind, Cause] = {}
    for cause in causes:
        known = found.get(cause.kind)
        text = known.text if known and abs(known.ms) >= abs(cause.ms) else cause.text
        found[cause.kind] = Cause(cause.kind, text, cause.ms + (known.ms if known else 0.0))
    rest = delta_ms - sum(cause.ms for cause in found.values())
    if abs(rest) >= LEAST_MS:
        known = found.get(CauseKind.UNEXPLAINED)
        text = known.text if known else "nothing that was compared accounts for it"
        total = rest + (known.ms if known else 0.0)
        found[CauseKind.UNEXPLAINED] = Cause(CauseKind.UNEXPLAINED, text, total)
    told = (cause for cause in found.values() if abs(cause.ms) >= LEAST_MS)
    return tuple(sorted(told, key=lambda cause: -abs(cause.ms)))
