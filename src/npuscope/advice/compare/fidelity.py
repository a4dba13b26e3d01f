"""How near our compiler comes to another: two programs of one model, epoch by epoch.

Epochs are aligned in order (Needleman-Wunsch): a pair is worth more the more the two have in
common. What has no partner is an epoch that only one compiler makes. A pair is then held against
each other in five steps, each only where the one before agrees: kind, operations, units, tile of
the convolutions, and the memories that its streams touch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import zip_longest

from msgspec import Struct

from npuscope.program.model import Epoch, EpochKind, Group, Program
from npuscope.program.units import Arith, Convacc, Streng
from npuscope.structs import replace

STEPS = ("kind", "ops", "units", "tile", "placement")
_GAP = -1
# The table of sums has a cell for every pair; no network of these compilers comes near.
_MOST_CELLS = 4_000_000
# The calls of both libraries go by several names.
_SAME_KERNEL = {"DequantizeLinear": "Dequantize", "QuantizeLinear": "Quantize"}


class EpochView(Struct, frozen=True):
    """What of an epoch is compared. `units` is empty where its file has no registers."""

    first: int
    last: int
    kind: EpochKind
    ops: tuple[str, ...]
    units: tuple[tuple[str, int], ...]
    tile: tuple[str, ...]
    placement: tuple[str, ...]
    written_bytes: int
    origin: tuple[str, ...]
    has_registers: bool

    @property
    def text(self) -> str:
        counts = " ".join(f"{number} {name}" for name, number in self.units)
        return f"{self.kind.value} {'+'.join(self.ops) or '-'}{f' [{counts}]' if counts else ''}"


class EpochPair(Struct, frozen=True):
    """An epoch of either compiler or of both; `differs` is the first step that does not agree."""

    theirs: EpochView | None
    ours: EpochView | None
    differs: str


class Fidelity(Struct, frozen=True):
    pairs: tuple[EpochPair, ...]
    theirs: int
    ours: int
    has_registers: bool
    ram_bytes: tuple[int, int]  # theirs, ours
    weights_bytes: tuple[int, int]
    notes: tuple[str, ...] = ()

    def equal(self, step: str) -> int:
        """Pairs that agree up to and including a step."""
        later = {*STEPS[STEPS.index(step) + 1 :], ""}
        return sum(pair.differs in later for pair in self.pairs)

    @property
    def score(self) -> float:
        """Share of epochs equal in kind, operations and units; an epoch too many counts too."""
        step = "units" if self.has_registers else "ops"
        return self.equal(step) / max(self.theirs, self.ours, 1)


def fidelity(
    theirs: Program,
    ours: Program,
    ram_bytes: tuple[int, int],
    weights_bytes: tuple[int, int],
    notes: Iterable[str] = (),
    lists_hybrid: bool = True,
) -> Fidelity:
    """`lists_hybrid` is False for generations that list calls which drive the DMA as software."""
    a, b = views(theirs, lists_hybrid), views(ours, lists_hybrid)
    registers = all(view.has_registers for view in a)
    pairs = tuple(_pair(x, y, registers) for x, y in _aligned(a, b, registers))
    return Fidelity(pairs, len(a), len(b), registers, ram_bytes, weights_bytes, tuple(notes))


def views(program: Program, lists_hybrid: bool = True) -> list[EpochView]:
    rows = [_view(epoch, program) for epoch in program.executed]
    if lists_hybrid:
        return rows
    software = EpochKind.SW
    return [replace(v, kind=software) if v.kind is EpochKind.HYBRID else v for v in rows]


def _view(epoch: Epoch, program: Program) -> EpochView:
    engines = [unit for unit in epoch.units if isinstance(unit, Streng)]
    counts = Counter(unit.unit for unit in epoch.units)
    tiles = [
        f"{unit.fWidth}x{unit.fHeight}x{unit.batchDepth} kernel "
        f"{unit.kernelWidth}x{unit.kernelHeight} x{unit.nKernels}"
        for unit in epoch.units
        if isinstance(unit, Convacc)
    ]
    return EpochView(
        epoch.number,
        epoch.last_number,
        epoch.kind,
        _operations(epoch),
        tuple(sorted(counts.items())),
        tuple(sorted(tiles)),
        tuple(sorted(_placement(engines, program))),
        sum(engine.total_bytes for engine in engines if engine.dir),
        epoch.origin,
        epoch.groups is not None or epoch.kind is not EpochKind.HW,
    )


def _operations(epoch: Epoch) -> tuple[str, ...]:
    """What the epoch computes: units with their work on the NPU, the kernel on the CPU."""
    if epoch.kind is not EpochKind.HW or not epoch.groups:
        names = epoch.operators or ((epoch.call.kernel,) if epoch.call else ())
        return tuple(sorted({_SAME_KERNEL.get(name, name) for name in names}))
    counts = Counter(name for group in epoch.groups for name in _group_operations(group))
    return tuple(
        f"{number} {name}" if number > 1 else name for name, number in sorted(counts.items())
    )


def _group_operations(group: Group) -> Iterable[str]:
    """Units in series that share one convolution are one operation."""
    chained = {
        (link.source.unit, link.source.id)
        for link in group.links
        if link.source.unit == Convacc.unit == link.destination.unit
        and link.source.id != link.destination.id  # its own sums come back to a unit
    }
    for unit in group.units:
        if isinstance(unit, Streng) or (unit.unit, unit.id) in chained:
            continue
        if isinstance(unit, Arith):
            yield f"{unit.unit}{unit.operation}"
        else:
            yield unit.unit


def _placement(engines: Iterable[Streng], program: Program) -> Iterable[str]:
    buffers, pools = program.buffer_map(), program.pool_map()
    for engine in engines:
        buffer = buffers.get(engine.addr_base.buffer)
        if buffer is None or buffer.pool not in pools:
            continue
        address = pools[buffer.pool].address + buffer.offset + engine.addr_base.offset
        way = "to" if engine.dir else "from"
        # The memory at an address; pools may be virtual, and span several.
        real = (pool for pool in program.pools if not pool.virtual and pool.size_bytes)
        inside = (p.name for p in real if p.address <= address < p.address + p.size_bytes)
        yield f"{way} {next(inside, '') or buffer.pool}"


def _likeness(a: EpochView, b: EpochView, registers: bool) -> int:
    """How much speaks for two epochs being the same."""
    if a.kind is not b.kind:
        return 2 * _GAP - 1  # never better than two epochs without a partner
    points = 1 + 2 * (a.ops == b.ops)
    if registers:
        points += 2 * (a.written_bytes == b.written_bytes) + (a.units == b.units)
        points += a.tile == b.tile
    return points


_Aligned = list[tuple[EpochView | None, EpochView | None]]


def _aligned(a: list[EpochView], b: list[EpochView], registers: bool) -> _Aligned:
    """The pairing of the largest sum; epochs stay in order on both sides."""
    if len(a) * len(b) > _MOST_CELLS:
        return list(zip_longest(a, b))
    rows = _sums(a, b, registers)
    pairs: _Aligned = []
    i, j = len(a), len(b)
    while i or j:
        if i and j and rows[i][j] == rows[i - 1][j - 1] + _likeness(a[i - 1], b[j - 1], registers):
            i, j = i - 1, j - 1
            pairs.append((a[i], b[j]))
        elif i and rows[i][j] == rows[i - 1][j] + _GAP:
            i -= 1
            pairs.append((a[i], None))
        else:
            j -= 1
            pairs.append((None, b[j]))
    return pairs[::-1]


def _sums(a: list[EpochView], b: list[EpochView], registers: bool) -> list[list[int]]:
    rows = [[_GAP * j for j in range(len(b) + 1)]]
    for i, first in enumerate(a, 1):
        above, row = rows[-1], [_GAP * i]
        for j, second in enumerate(b, 1):
            pair = above[j - 1] + _likeness(first, second, registers)
            row.append(max(pair, above[j] + _GAP, row[-1] + _GAP))
        rows.append(row)
    return rows


def _pair(a: EpochView | None, b: EpochView | None, registers: bool) -> EpochPair:
    if a is None or b is None:
        return EpochPair(a, b, "kind")
    steps = STEPS if registers else STEPS[:2]
    differs = next((step for step in steps if getattr(a, step) != getattr(b, step)), "")
    return EpochPair(a, b, differs)
