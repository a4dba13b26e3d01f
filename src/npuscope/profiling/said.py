"""What a program says of the epochs that one measured block covers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from npuscope.profiling.model import EpochProfile
from npuscope.program.model import Access, Claims
from npuscope.sim.counters import Bound, PoolTraffic

ENGINES_PER_BUSIF = 5


@dataclass(frozen=True, slots=True)
class Said:
    """One epoch, or those of a blob added up; none without a program."""

    epochs: tuple[EpochProfile, ...] = ()

    @property
    def claims(self) -> Claims:
        return added_claims(epoch.claims for epoch in self.epochs)

    @property
    def bound(self) -> Bound:
        """Of the longest of them."""
        if not self.epochs:
            return Bound.UNKNOWN
        return max(self.epochs, key=lambda epoch: epoch.ms).counters.bound

    @property
    def units(self) -> dict[str, int]:
        return dict(sum((Counter(epoch.units) for epoch in self.epochs), Counter()))

    @property
    def traffic(self) -> tuple[PoolTraffic, ...]:
        total: dict[str, tuple[int, int]] = {}
        for row in (row for epoch in self.epochs for row in epoch.counters.traffic):
            reads, writes = total.get(row.pool, (0, 0))
            total[row.pool] = reads + row.read_bytes, writes + row.write_bytes
        return tuple(PoolTraffic(pool, *moved) for pool, moved in total.items())

    def moved(self, engine: tuple[int, str]) -> tuple[str, int]:
        """The pool an engine moved most bytes of, and all its bytes."""
        rows = [r for e in self.epochs for r in e.counters.engines if (r.id, r.dir) == engine]
        pools = Counter[str]()
        for row in rows:
            pools[row.pool] += row.bytes
        return (pools.most_common(1)[0][0], pools.total()) if pools else ("", 0)

    def busif(self, engine: int) -> int:
        rows = (r for e in self.epochs for r in e.counters.engines if r.id == engine)
        return next((r.busif for r in rows), engine // ENGINES_PER_BUSIF)


def added_claims(claims: Iterable[Claims]) -> Claims:
    rows = tuple(claims)
    return Claims(
        sum(row.ops for row in rows),
        sum(row.compute_cycles for row in rows),
        sum(row.max_cycles for row in rows),
        _accesses(access for row in rows for access in row.accesses),
    )


def _accesses(rows: Iterable[Access]) -> tuple[Access, ...]:
    total: dict[str, Access] = {}
    for row in rows:
        one = total.get(row.pool, Access(row.pool))
        total[row.pool] = Access(
            row.pool,
            one.reads + row.reads,
            one.writes + row.writes,
            one.read_cycles + row.read_cycles,
            one.write_cycles + row.write_cycles,
        )
    return tuple(total.values())
