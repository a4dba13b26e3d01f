"""What a run on one kind of board leaves out, and what it contradicts."""

from __future__ import annotations

from collections.abc import Sequence

from npuscope.machine.load import known_machines, plain_overrides, set_ups
from npuscope.machine.model import Machine
from npuscope.machine.set_keys import with_overrides
from npuscope.profiling.model import EpochProfile, Profile, Provenance
from npuscope.profiling.run import Retimer, retimer
from npuscope.program.model import EpochKind, Program
from npuscope.shown import significant


def run_notes(program: Program, machine: Machine, profile: Profile) -> tuple[str, ...]:
    """What a run on that kind of board leaves out, or contradicts."""
    source = profile.runs[0].source
    if source is Provenance.SIMULATION:
        return left_out(profile)
    if source is Provenance.EMULATION:
        return own_kernels(profile)
    measured = source in (Provenance.BOARD, Provenance.LOG)
    return flash_warning(program, machine, profile.epochs) if measured else ()


_NOTED = 0.05  # of the time: what is worth a note


def left_out(profile: Profile) -> tuple[str, ...]:
    """A simulated run knows the processor by measured kernels alone."""
    kernels = profile.time.software_ms + profile.time.hybrid_ms
    if not profile.total_ms or kernels < _NOTED * profile.total_ms:
        return ()
    return (
        f"{kernels / profile.total_ms:.0%} of the time is in CPU kernels and library calls, "
        "at "
        "costs per element measured on boards; caches, interrupts and other work of the processor "
        "are not included",
    )


def own_kernels(profile: Profile) -> tuple[str, ...]:
    """The emulated processor runs kernels of npuscope's, not those of the vendor's library."""
    off = (EpochKind.SW, EpochKind.HYBRID)
    total_ms = sum(e.ms for e in profile.epochs)
    predicted = sum(e.predicted_ms or 0.0 for e in profile.epochs)
    if abs(total_ms - predicted) <= _NOTED * max(total_ms, predicted):
        return ()
    kernels = [e for e in profile.epochs if e.kind in off]
    rest = [e for e in profile.epochs if e.kind not in off]
    parts = (_beside("kernels and library calls", kernels), _beside("NPU blocks", rest))
    return (
        "the processor's time is that of npuscope's own C kernels and driver on an emulated "
        f"Cortex-M33 without vectors, not that of the vendor's library: {'; '.join(parts)}. With "
        "the costs measured on boards that estimates use, the total is "
        f"{significant(predicted, 4)} ms",
    )


def _beside(name: str, epochs: list[EpochProfile]) -> str:
    total_ms = sum(e.ms for e in epochs)
    predicted = sum(e.predicted_ms or 0.0 for e in epochs)
    here, there = significant(total_ms, 4), significant(predicted, 4)
    return f"{name} {here} ms here, {there} ms by board costs"


# --- The flash of a measured run ---
#
# Boards drive their flash at different clocks, which no log states: a network that waits for its
# weights tells.

# Another set-up is named when it explains so much more of the measured time, and is right itself.
_MORE = 0.10
_RIGHT = 0.15


def flash_warning(
    program: Program, machine: Machine, measured: Sequence[EpochProfile]
) -> tuple[str, ...]:
    """One sentence if another set-up of the flash explains the run far better."""
    if machine.name not in known_machines() or not measured:
        return ()
    timer = retimer(program, machine)
    own, run = _blocks(timer, machine, measured)
    others = {}
    for name in set_ups(machine.name, "flash"):
        overrides = plain_overrides({"flash": name}, machine.name, None)
        others[name] = _blocks(timer, with_overrides(machine, overrides), measured)[0]
    best = min(others, key=lambda name: _off(others[name], run))
    error = _off(others[best], run)
    if error > _RIGHT or _off(own, run) - error < _MORE:
        return ()
    return (
        f"the run does not match the assumed flash: it took {significant(sum(run), 4)} ms, "
        f"{significant(sum(own), 4)} predicted; --flash {best} gives "
        f"{significant(sum(others[best]), 4)}",
    )


def _blocks(
    timer: Retimer, machine: Machine, measured: Sequence[EpochProfile]
) -> tuple[list[float], list[float]]:
    """Milliseconds predicted and measured by block of the NPU: a blob is one.

    Where the device ran another build, block numbers say nothing: the totals are compared.
    """
    epochs = timer.estimate(machine).epochs
    parts = [[e for e in epochs if b.first <= e.first and e.last <= b.last] for b in measured]
    if not all(map(_same_kind, measured, parts)):
        return [sum(e.ms for e in epochs)], [sum(block.ms for block in measured)]
    pairs = [(b, part) for b, part in zip(measured, parts, strict=True) if b.kind is EpochKind.HW]
    return [sum(e.ms for e in part) for _, part in pairs], [block.ms for block, _ in pairs]


def _same_kind(block: EpochProfile, part: Sequence[EpochProfile]) -> bool:
    on_npu = block.kind is EpochKind.HW
    return bool(part) and all((epoch.kind is EpochKind.HW) is on_npu for epoch in part)


def _off(predicted: Sequence[float], run: Sequence[float]) -> float:
    """As a share of the time that was measured."""
    return sum(abs(a - b) for a, b in zip(predicted, run, strict=True)) / (sum(run) or 1.0)
