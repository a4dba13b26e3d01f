"""A sheet as the Profile that all reports print.

A Profile's epochs follow one another and their times add up to the total. Engines of a core work
beside each other: therefore the epochs are the ops of one engine of one core (that of the largest
share of work), with its waits and what is left over; the others are listed in the notes.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from npuscope.errors import UsageError
from npuscope.families.many_core.adapters.model import Sheet, SheetOp
from npuscope.families.many_core.records import UTIMER_HZ
from npuscope.profiling.model import (
    EpochProfile,
    MachineInfo,
    ModelInfo,
    Profile,
    RunClocks,
    Spread,
)
from npuscope.profiling.plain import plain_part, plain_profile
from npuscope.program.model import EpochKind
from npuscope.shown import counted
from npuscope.sim.counters import Bound, EpochCounters
from npuscope.text import safe_terminal

_TIMER_MHZ = UTIMER_HZ / 1e6
# A clock that the source does not state: a cycle is then a nanosecond.
_NOMINAL_MHZ = 1000.0
_DEVICE = ("HVX", "HMX", "DMAIssue")
_ASYNCHRONOUS = "DMAIssue"


class _View(Struct, frozen=True):
    """The ops that become epochs, and the clocks that count them."""

    rows: tuple[SheetOp, ...]
    clocks: RunClocks
    machine: str
    notes: tuple[str, ...]


def profile_of(sheet: Sheet, *, core: int | None = None, engine: str | None = None) -> Profile:
    """Epochs are op kinds, or ops where the source names them. Core and engine may be chosen."""
    if not sheet.timed or sheet.totals is None:
        raise UsageError("nothing was timed in this file: no profile can be made", where=sheet.file)
    is_device = any(row.engine in _DEVICE for row in sheet.ops)
    view = _device(sheet, core, engine) if is_device else _host(sheet)
    epochs = [_epoch(i, row, view, sheet) for i, row in enumerate(view.rows)]
    rest_ms = sheet.totals.us / 1000 - sum(epoch.ms for epoch in epochs)
    clocks, notes = view.clocks, [*sheet.notes, *view.notes]
    if rest_ms > 0:
        epochs.append(
            plain_part(
                len(epochs),
                "between ops",
                rest_ms,
                kind=EpochKind.EMPTY,
                operators=("between ops",),
                provenance=sheet.provenance,
                spread=Spread(rest_ms, rest_ms, rest_ms, sheet.totals.inferences),
                counters=_phases(len(epochs), rest_ms * 1000 * clocks.mcu_mhz, 0.0, 0.0),
            )
        )
    elif rest_ms < -1e-6:
        notes.append(f"ops ran beside each other: the run took {sheet.totals.us / 1000:.3f} ms")
    return plain_profile(
        ModelInfo(sheet.network or sheet.file, "", (), (), 0, 0),
        MachineInfo(view.machine, "", False, clocks.mcu_mhz, clocks.npu_mhz),
        tuple(epochs),
        provenance=sheet.provenance,
        clocks=clocks,
        inferences=sheet.totals.inferences,
        notes=tuple(notes),
    )


def _host(sheet: Sheet) -> _View:
    clocks = RunClocks(_NOMINAL_MHZ, _NOMINAL_MHZ, 0.0, 0.0)
    engines = sorted({row.engine for row in sheet.ops})
    note = "the source does not state clocks: cycles are nanoseconds"
    return _View(sheet.ops, clocks, f"{sheet.adapter} ({', '.join(engines)})", (note,))


def _device(sheet: Sheet, core: int | None, engine: str | None) -> _View:
    if core is None:  # the slowest one
        spans = [(span.ucycles, -span.core) for span in sheet.threads]
        core = -max(spans)[1] if spans else min(row.core for row in sheet.ops)
    timed = [row for row in sheet.ops if row.us is not None and row.core == core]
    by_engine = {name: tuple(row for row in timed if row.engine == name) for name in _DEVICE}
    name = engine or _busiest(by_engine)
    if not by_engine.get(name):
        raise UsageError(
            f"core {core} has no ops on '{safe_terminal(name)}'",
            where=sheet.file,
            hint=f"cores are {', '.join(map(str, sheet.cores))}; engines {', '.join(_DEVICE)}",
        )
    mhz = dict(sheet.frequencies_mhz).get(core, _NOMINAL_MHZ)
    clocks = RunClocks(_TIMER_MHZ, mhz, 0.0, 0.0)
    return _View(
        by_engine[name],
        clocks,
        f"{counted(len(sheet.cores), 'core')} of a Cloud AI 100 type device",
        _device_notes(sheet, core, name, by_engine),
    )


def _work_us(rows: Sequence[SheetOp]) -> float:
    return sum(row.us or 0.0 for row in rows if not row.is_wait)


def _busiest(by_engine: dict[str, tuple[SheetOp, ...]]) -> str:
    """Transfers overlap in time, so that their sum says nothing beside engines that compute."""
    return max(
        by_engine, key=lambda name: (name != _ASYNCHRONOUS, _work_us(by_engine[name]))
        if by_engine[name] else (False, -1.0),
    )  # fmt: skip


def _device_notes(
    sheet: Sheet, core: int, engine: str, by_engine: dict[str, tuple[SheetOp, ...]]
) -> tuple[str, ...]:
    total_us = sheet.totals.us if sheet.totals else 0.0
    others = [
        f"{name} {100 * _work_us(rows) / total_us:.1f} %"
        for name, rows in by_engine.items()
        if name != engine and rows and total_us
    ]
    notes = [
        f"epochs are op kinds of {engine} on core {core}; "
        f"MCU cycles are ticks of the timer ({_TIMER_MHZ:g} MHz), NPU cycles those of the core"
    ]
    if others:
        notes.append(f"at the same time on core {core}, of the whole: {', '.join(others)}")
    if core not in dict(sheet.frequencies_mhz):
        notes.append("the core's clock is not known: its cycles are nanoseconds")
    return tuple(notes)


def _epoch(index: int, row: SheetOp, view: _View, sheet: Sheet) -> EpochProfile:
    us = row.us or 0.0
    runs = sheet.totals.inferences if sheet.totals else 1
    low, middle, high = row.spread_us or (us, us, us)
    return plain_part(
        index,
        row.name or row.details,
        us / 1000,
        kind=EpochKind.EMPTY if row.is_wait else _kind(row),
        operators=(row.kind,) if not row.is_wait else (row.details,),
        origin=(row.name,) if row.name else (),
        provenance=sheet.provenance,
        spread=Spread(low / 1000, middle / 1000, high / 1000, runs),
        counters=_counters(index, row, view),
    )


def _kind(row: SheetOp) -> EpochKind:
    return EpochKind.SW if row.engine == "CPU" else EpochKind.HW


def _counters(index: int, row: SheetOp, view: _View) -> EpochCounters:
    """Waits are counted by the timer, work by the core, kernels on a CPU by that one."""
    us = row.us or 0.0
    if row.is_wait:
        return _phases(index, us * view.clocks.mcu_mhz, 0.0, 0.0)
    if _kind(row) is EpochKind.SW:
        return _phases(index, 0.0, 0.0, us * view.clocks.mcu_mhz)
    cycles = us * view.clocks.npu_mhz if row.pcycles is None else row.pcycles
    return _phases(index, 0.0, cycles, 0.0)


def _phases(index: int, pre: float, core: float, post: float) -> EpochCounters:
    return EpochCounters(index, index, pre, core, post, Bound.UNKNOWN)
