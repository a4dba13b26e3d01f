"""A measured time against the prediction, and the settings of a board that explain it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from npuscope.diagnosis.result import FarCause, TimeSetting, TimeTriage
from npuscope.errors import NpuscopeError
from npuscope.machine.model import Machine
from npuscope.profiling.model import Profile
from npuscope.structs import replace

_EXPLAINS = 0.10  # relative error up to which a setting explains a time
_GUESS = 0.05  # what a setting without a figure of its own has to give way by
Predict = Callable[[Mapping[str, Any]], Profile]


class TimeCase(Struct, frozen=True):
    """What times are compared with: of the whole network, and by epoch where both have them."""

    measured_ms: float
    epochs_ms: tuple[float, ...]
    profile: Profile
    macs: int
    machine: Machine


class BoardSetting(Struct, frozen=True):
    """A setting of the board: `options` predict it anew, else `time` computes it from the
    prediction. A range of factors stands for what depends on the code."""

    id: str
    title: str
    remedy: str
    options: Mapping[str, Any] = {}
    time: Callable[[TimeCase], float | None] | None = None


def _scaled(low: float, high: float) -> Callable[[TimeCase], float | None]:
    """The CPU's part takes so many times as long, as far as that explains the measured time."""

    def time(case: TimeCase) -> float | None:
        cpu = case.profile.time.software_ms + case.profile.time.control_ms
        if cpu <= 0:
            return None
        factor = (case.measured_ms - case.profile.total_ms + cpu) / cpu
        return case.profile.total_ms + (min(max(factor, low), high) - 1) * cpu

    return time


def _in_software(case: TimeCase) -> float | None:
    cycles = case.macs / case.machine.software_limits.int8_macs_per_cycle
    return cycles / case.machine.clocks.mcu_mhz / 1000 if case.macs else None


def _counted_in(ratio: float) -> Callable[[TimeCase], float | None]:
    return lambda case: case.profile.total_ms * ratio


_BAUD = (9600, 14400, 115200, 460800, 921600)
_LINE_BITS = 18 * 10  # characters of a line as one public application prints it


def _printed(case: TimeCase) -> float | None:
    """A line per epoch at one of the usual speeds: the one that comes nearest."""
    epochs = max(1, len(case.profile.epochs))
    times = [case.profile.total_ms + epochs * _LINE_BITS * 1000 / baud for baud in _BAUD]
    return min(times, key=lambda time: abs(time - case.measured_ms))


def _with_protocol(case: TimeCase) -> float | None:
    """The vendor's validate adds about a millisecond of its own to a run [5.42 against 4.40 ms]."""
    return case.profile.total_ms + 1.0


SETTINGS = (
    BoardSetting(
        "flash-50-mhz",
        "flash at 50 MHz instead of 200",
        "set the I/O fuses and the flash's clock to 200 MHz (octal DTR)",
        {"flash": "octo-dtr-50"},
    ),
    BoardSetting(
        "flash-no-prefetch",
        "flash without the controller's prefetch",
        "switch the prefetch of the memory-mapped flash on",
        {"flash": "octo-dtr-200-no-prefetch"},
    ),
    BoardSetting(
        "flash-100-mhz",
        "flash at 100 MHz instead of 200",
        "set the flash's clock to 200 MHz (octal DTR)",
        {"flash": "octo-dtr-100"},
    ),
    BoardSetting(
        "psram-slow",
        "external RAM at 50 MHz instead of 200",
        "set the I/O fuses and the PSRAM's clock",
        {"psram": "hexa-dtr-50"},
    ),
    BoardSetting(
        "clocks-nominal",
        "nominal clocks (CPU 600, NPU 800 MHz) instead of overdrive",
        "raise the core voltage and set 800 and 1000 MHz",
        {
            "mcu_mhz": 600.0,
            "npu_mhz": 800.0,
            "overrides": {"clocks.nic_mhz": 800},
        },
    ),
    BoardSetting(
        "nominal-and-flash-50",
        "nominal clocks and flash at 50 MHz",
        "set clocks, I/O fuses and flash as the vendor's application does",
        {
            "mcu_mhz": 600.0,
            "npu_mhz": 800.0,
            "flash": "octo-dtr-50",
            "overrides": {"clocks.nic_mhz": 800},
        },
    ),
    BoardSetting(
        "controller-off",
        "epochs started by the CPU, not by the epoch controller",
        "compile with --enable-epoch-controller, and use its runtime",
        {"epoch_controller": False},
    ),
    BoardSetting(
        "external-ram",
        "activations in external RAM",
        "give the compiler the internal pools (the .mpool of the profile)",
        {"external_only": True},
    ),
    BoardSetting(
        "caches-off",
        "CPU caches off, or the code runs from slow memory",
        "enable I-cache and D-cache before the first run",
        time=_scaled(2.0, 6.0),
    ),
    BoardSetting(
        "debug-build",
        "a debug build (-O0): kernels and driver run unoptimised",
        "build runtime and kernels with -O3 or -Ofast",
        time=_scaled(3.0, 12.0),
    ),
    BoardSetting(
        "in-software",
        "the network runs on the CPU, not on the NPU",
        "link the NPU build (network.c of the NPU's compiler) and its runtime",
        time=_in_software,
    ),
    BoardSetting(
        "prints",
        "prints inside the timed part",
        "print after the run",
        time=_printed,
    ),
    BoardSetting(
        "validate-protocol",
        "the time of the protocol is part of it",
        "compare times of one and the same tool",
        time=_with_protocol,
    ),
    BoardSetting(
        "wrong-clock-3-2",
        "cycles divided by a clock that is two thirds of the right one",
        "use the clock of the counter's domain in the formula",
        time=_counted_in(1.5),
    ),
    BoardSetting(
        "wrong-clock-2",
        "cycles divided by half of the clock",
        "use the clock of the counter's domain in the formula",
        time=_counted_in(2.0),
    ),
    BoardSetting(
        "wrong-clock-4-3",
        "cycles divided by 600 instead of 800 MHz",
        "use the clock that is set in the formula",
        time=_counted_in(4 / 3),
    ),
    BoardSetting(
        "wrong-clock-half",
        "cycles divided by twice the clock",
        "use the clock of the counter's domain in the formula",
        time=_counted_in(0.5),
    ),
)
# Their factor is fitted to the measured time, inside of a range: they explain it too easily.
FITTED = ("caches-off", "debug-build")


_FAR = 10.0  # times the prediction: settings of clocks and memories cost less
_MB = 1e6
# MB/s without waiting: one line at 50 MHz; eight lines, one edge, at the 64 MHz after reset.
_ONE_LINE, _RESET_CLOCK = 50.0 / 8, 64.0


def _at(megabytes_per_s: float) -> Callable[[TimeCase], float | None]:
    """The weights once in every inference, and nothing beside them."""

    def time(case: TimeCase) -> float | None:
        weights = case.profile.memory.weights_bytes
        spent = weights / megabytes_per_s / _MB * 1000
        return case.profile.total_ms + spent if weights else None

    return time


class FarSetting(Struct, frozen=True):
    id: str
    title: str
    shown_by: str
    time: Callable[[TimeCase], float | None] | None = None


# Causes of times that are far beyond any clock, each with the look that tells it from the others.
FAR_SETTINGS = (
    FarSetting(
        "debugger",
        "a debugger is attached (live watch, SWV, semihosting, a breakpoint with an action)",
        "boot from flash without the probe and measure again: nothing else changes with it",
    ),
    FarSetting(
        "callback-prints",
        "prints in the epoch callbacks, over a slow serial line",
        "remove the callbacks: the time per epoch is then no longer the same for large and small",
        time=_printed,
    ),
    FarSetting(
        "code-uncached",
        "CPU caches off, with code or activations in external memory",
        "read SCB->CCR (bits IC and DC), or enable both caches: library calls and the time between "
        "epochs shrink, NPU cycles stay",
    ),
    FarSetting(
        "flash-one-line",
        "weights read on a single line (SPI at 50 MHz), as a loader left the flash",
        "a profiler log: epochs grow with the bytes of their weights, those without weights do not",
        time=_at(_ONE_LINE),
    ),
    FarSetting(
        "xspi-reset-clock",
        "the XSPI's kernel clock is still the oscillator of reset",
        "read the kernel clock selection of the XSPI in RCC; epochs grow with their weights",
        time=_at(_RESET_CLOCK),
    ),
    FarSetting(
        "development-boot",
        "the board is in development boot and everything lies in external RAM, uncached",
        "the linker's map and `npuscope checklist DIR` show the addresses; every epoch is slower "
        "by about the same factor",
    ),
    FarSetting(
        "in-software",
        "the network runs on the CPU: the CPU build, or a runtime without the NPU",
        "a profiler log has no epochs of the NPU; the time goes with the MACs",
        time=_in_software,
    ),
    FarSetting(
        "counter",
        "the counter is not what the formula takes it for (ticks of a millisecond, an overflow of "
        "32 bits, several inferences)",
        "toggle a pin around one inference, or run 1 and 10 of them: the time has to be 10 times",
    ),
)


def _far(case: TimeCase, tried: Sequence[TimeSetting]) -> tuple[FarCause, ...]:
    """Where nothing that was tried comes near; a figure of its own that fits comes first."""
    reached = max((row.predicted_ms for row in tried), default=case.profile.total_ms)
    if case.measured_ms < max(_FAR * case.profile.total_ms, reached):
        return ()
    rows = [
        FarCause(one.id, one.title, one.shown_by, one.time(case) if one.time else None)
        for one in FAR_SETTINGS
    ]
    return tuple(sorted(rows, key=lambda row: _misses(case, row)))


def _misses(case: TimeCase, row: FarCause) -> float:
    """By how much its figure misses the time; one without a figure stands between near and far."""
    if row.predicted_ms is None:
        return math.log(2)
    return _relative(case.measured_ms, row.predicted_ms)


def triage_time(
    measured_ms: float,
    epochs_ms: Sequence[float],
    base: Profile,
    machine: Machine,
    macs: int,
    predict: Predict,
) -> TimeTriage:
    """Settings ranked by how well they fit; those that change nothing are left out."""
    case = TimeCase(measured_ms, tuple(epochs_ms), base, macs, machine)
    low, high = base.interval_ms
    inside = low * (1 - _GUESS) <= measured_ms <= (high or math.inf) * (1 + _GUESS)
    rows = [row for setting in SETTINGS if (row := _tried(setting, case, predict)) is not None]
    rows.sort(key=lambda row: row.error)
    plain = _error(case, base.total_ms, base)
    notes = []
    if len(epochs_ms) == len(base.epochs):
        notes.append(f"fitted on {len(epochs_ms)} epochs, not on the total alone")
    return TimeTriage(
        measured_ms,
        base.total_ms,
        low,
        high,
        inside,
        tuple(row for row in rows if row.error <= _EXPLAINS and row.error < plain)[:5],
        tuple(notes),
        tuple(sorted(rows, key=lambda row: -row.predicted_ms)),
        _far(case, rows),
    )


def _tried(setting: BoardSetting, case: TimeCase, predict: Predict) -> TimeSetting | None:
    profile = case.profile
    if setting.time is not None:
        time = setting.time(case)
    else:
        try:
            profile = predict(setting.options)
        except NpuscopeError:
            return None
        time = profile.total_ms
    if time is None or abs(time - case.profile.total_ms) < 1e-3 * case.profile.total_ms:
        return None
    scaled = setting.time is not None
    error = _relative(case.measured_ms, time) if scaled else _error(case, time, profile)
    error += _GUESS * (setting.id in FITTED)
    return TimeSetting(setting.id, setting.title, time, error, setting.remedy)


def _relative(measured: float, predicted: float) -> float:
    return abs(math.log(predicted / measured)) if predicted > 0 else math.inf


def _error(case: TimeCase, total_ms: float, profile: Profile) -> float:
    """Of the total or, where the log has them, summed over epochs."""
    if len(case.epochs_ms) != len(profile.epochs) or not case.epochs_ms:
        return _relative(case.measured_ms, total_ms)
    pairs = zip(case.epochs_ms, profile.epochs, strict=True)
    off = sum(abs(measured - epoch.ms) for measured, epoch in pairs)
    return max(off / max(sum(case.epochs_ms), 1e-9), 0.0)


def external_only(machine: Machine) -> Machine:
    """The machine without its RAM on chip."""
    pools = tuple(pool for pool in machine.pools if pool.cacheable or not pool.writable)
    return replace(machine, pools=pools)
