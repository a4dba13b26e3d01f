"""One side of a row: its epochs, their times, and what is known of how they work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from npuscope.advice.compare.amounts import Amounts, amounts_of
from npuscope.advice.compare.model import Side
from npuscope.advice.compare.timed import Times, summed
from npuscope.machine.model import Machine
from npuscope.profile.model import EpochProfile
from npuscope.program.model import Buffer, Epoch, EpochKind
from npuscope.program.units import Streng


@dataclass(frozen=True, slots=True)
class Half:
    """`amounts` is None without unit registers, `run` are the program's epochs if it is known."""

    side: Side
    epochs: tuple[EpochProfile, ...]
    run: tuple[Epoch, ...]
    times: Times
    amounts: Amounts | None
    after_another_ms: float = 0.0  # the NPU's work, but for the longest epoch of the row

    @property
    def hardware(self) -> list[EpochProfile]:
        return [epoch for epoch in self.epochs if epoch.kind is EpochKind.HW]

    @property
    def software(self) -> list[EpochProfile]:
        return [epoch for epoch in self.epochs if epoch.kind is not EpochKind.HW]

    @property
    def pieces(self) -> Counter[tuple[str, ...]]:
        """NPU epochs by the operators in them; one of a convolution alone counts without the
        multiplications and additions that rescale its result."""
        return Counter(_essential(epoch.operators) for epoch in self.hardware)

    @property
    def traffic_bytes(self) -> Counter[str]:
        rows = (row for epoch in self.hardware for row in epoch.counters.traffic)
        found: Counter[str] = Counter()
        for row in rows:
            found[row.pool] += row.read_bytes + row.write_bytes
        return found

    @property
    def moved_bytes(self) -> int:
        """Bytes that the CPU's kernels touch."""
        rows = (row for epoch in self.software for row in epoch.counters.traffic)
        return sum(row.read_bytes + row.write_bytes for row in rows)

    @property
    def kernels(self) -> Counter[str]:
        named = [e.call.kernel for e in self.run if e.kind is not EpochKind.HW and e.call]
        return Counter(named or [" + ".join(epoch.operators) for epoch in self.software])

    def bank_cycles(self, machine: Machine) -> float:
        """NPU cycles of the busiest memory, epoch by epoch; unknown pools cost nothing."""
        rates = {pool.name: machine.cycles_per_byte(pool.path) for pool in machine.pools}
        return sum(_busiest(epoch, rates) for epoch in self.hardware)


# Stages of one convolution's own result, which generations arrange differently.
_RESCALING = ("Mul", "Add", "Sub")


def _essential(operators: tuple[str, ...]) -> tuple[str, ...]:
    essential = tuple(name for name in operators if name not in _RESCALING)
    return essential or tuple(dict.fromkeys(operators))


def _busiest(epoch: EpochProfile, rates: dict[str, float]) -> float:
    ways = (
        moved * rates.get(row.pool, 0.0)
        for row in epoch.counters.traffic
        for moved in (row.read_bytes, row.write_bytes)
    )
    return max(ways, default=0.0)


def half(side: Side, epochs: tuple[EpochProfile, ...], parts: Sequence[Times]) -> Half:
    """`parts` are the times of the epochs, one by one."""
    run: tuple[Epoch, ...] = ()
    if side.is_timed and side.program is not None:
        executed = side.program.executed
        run = tuple(executed[epoch.index] for epoch in epochs)
    works = [part.work_ms for part in parts]
    hidden = sum(works) - max(works, default=0.0)
    return Half(side, epochs, run, summed(parts), amounts_of(run) if run else None, hidden)


def touched(part: Half) -> dict[str, Buffer]:
    """Buffers that the NPU epochs of a half reach."""
    if part.side.program is None:
        return {}
    buffers = part.side.program.buffer_map()
    names = dict.fromkeys(name for epoch in part.run for name in _reached(epoch))
    return {name: buffers[name] for name in names if name in buffers}


def _reached(epoch: Epoch) -> list[str]:
    return [unit.addr_base.buffer for unit in epoch.units if isinstance(unit, Streng)]
