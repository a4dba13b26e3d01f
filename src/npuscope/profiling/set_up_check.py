"""Does a measured run fit the flash that its prediction was made with?

Boards drive their flash at different clocks, which no log states: a network that waits for its
weights tells.
"""

from __future__ import annotations

from collections.abc import Sequence

from npuscope.machine.load import known_machines, plain_overrides, set_ups
from npuscope.machine.model import Machine
from npuscope.machine.set_keys import with_overrides
from npuscope.profiling.model import EpochProfile
from npuscope.profiling.run import Retimer, retimer
from npuscope.program.model import EpochKind, Program

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
    others = {
        name: _blocks(timer, _with_flash(machine, name), measured)[0]
        for name in set_ups(machine.name, "flash")
    }
    best = min(others, key=lambda name: _off(others[name], run))
    error = _off(others[best], run)
    if error > _RIGHT or _off(own, run) - error < _MORE:
        return ()
    return (
        f"the run contradicts the flash that was assumed: it took {sum(run):.4g} ms, "
        f"{sum(own):.4g} predicted; --flash {best} gives {sum(others[best]):.4g}",
    )


def _with_flash(machine: Machine, name: str) -> Machine:
    return with_overrides(machine, plain_overrides({"flash": name}, machine.name, None))


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
