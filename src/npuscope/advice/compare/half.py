"""One side of a row: its epochs, their times, and what is known of how they work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from npuscope.advice.compare.model import Side
from npuscope.advice.compare.times import Times, summed
from npuscope.machine.model import Machine
from npuscope.machine.npu_ops import BINARY
from npuscope.profiling.model import EpochProfile
from npuscope.program.links import Wiring, wired
from npuscope.program.model import Buffer, Epoch, EpochKind
from npuscope.program.modes import Bcast, Simd
from npuscope.program.units import Arith, Convacc, PoolUnit, Streng
from npuscope.sim.group_work import words_apart

# --- What NPU epochs stream and how their units are set, from the unit registers ---
# Amounts are words or cycles of the timing law's terms. They are not the time, which is that of the
# longest; they tell which of them grew.

Tile = tuple[int, int, int]  # kernels, channels, frames


class UnitSetting(NamedTuple):
    """How a convolution unit is set."""

    simd: Simd
    deep: bool
    pairs: bool

    def __str__(self) -> str:
        extra = f"{' deep' if self.deep else ''}{' pairs' if self.pairs else ''}"
        return f"{self.simd.name}{extra}"


class Amounts(Struct, frozen=True):
    """Sums over epochs; `tiles` and `modes` count the convolution units by their setting."""

    kernel_words: int = 0
    feature_words: int = 0
    output_words: int = 0
    sum_words: int = 0  # partial sums that come back from memory
    vector_words: int = 0  # coefficients read again for an arithmetic unit
    vector_frames: int = 0  # frames of convolutions behind which that happens
    moved_words: int = 0  # epochs without a convolution: their longest stream
    strided_words: int = 0  # elements fetched or stored one by one
    product_words: int = 0  # products with a vector that the network computes
    drained_words: int = 0  # lines that leave a padded convolution between frames
    longest_words: int = 0  # of units started together, the longest of these streams
    epochs: int = 0
    pipes: int = 0
    arithmetic_units: int = 0
    pieces: tuple[tuple[str, ...], ...] = ()  # operators of each epoch
    tiles: Counter[Tile] = field(default_factory=Counter)
    modes: Counter[UnitSetting] = field(default_factory=Counter)
    convolutions: int = 0


_WORDS = (
    "kernel_words",
    "feature_words",
    "output_words",
    "sum_words",
    "vector_words",
    "vector_frames",
    "moved_words",
    "strided_words",
    "product_words",
    "drained_words",
    "longest_words",
)


def words(amounts: Amounts) -> dict[str, int]:
    return {name: getattr(amounts, name) for name in _WORDS}


def amounts_of(epochs: Iterable[Epoch]) -> Amounts | None:
    """None where an epoch has no unit registers."""
    hardware = [epoch for epoch in epochs if epoch.kind is EpochKind.HW]
    if any(epoch.groups is None for epoch in hardware):
        return None
    wirings = [wired(group) for epoch in hardware for group in epoch.groups or ()]
    parts = [_streams(wiring) for wiring in wirings]
    convs = [(wiring, unit) for wiring in wirings for unit in _convolutions(wiring)]
    units = [unit for wiring in wirings for unit in wiring.processors]
    return Amounts(
        **{name: sum(part.get(name, 0) for part in parts) for name in _WORDS},
        epochs=len(hardware),
        pipes=sum(len(_pipes(wiring)) for wiring in wirings),
        arithmetic_units=sum(isinstance(unit, Arith) for unit in units),
        pieces=tuple(epoch.operators for epoch in hardware),
        tiles=Counter((c.nKernels, c.batchDepth, w.frames(c)) for w, c in convs),
        modes=Counter(
            UnitSetting(Simd(conv.simd), bool(conv.deepmode), bool(conv.dss2mode))
            for _, conv in convs
        ),
        convolutions=len(convs),
    )


def _convolutions(wiring: Wiring) -> list[Convacc]:
    return [unit for unit in wiring.processors if isinstance(unit, Convacc)]


def _pipes(wiring: Wiring) -> list[list[Convacc]]:
    """Convolution units in series, by the kernel engine that they share."""
    pipes: dict[object, list[Convacc]] = {}
    for unit in _convolutions(wiring):
        kernels = wiring.source(unit, 1)
        pipes.setdefault(kernels.id if kernels else ("none", unit.id), []).append(unit)
    return list(pipes.values())


def _streams(wiring: Wiring) -> dict[str, int]:
    pipes = _pipes(wiring)
    sums: Counter[str] = Counter()
    for pipe in pipes:
        sums.update(_pipe_streams(pipe, wiring))
    longest = max((engine.total_elements for engine in wiring.engines), default=0)
    if not pipes:
        sums["moved_words"] += longest
    streams = (_pipe_streams(pipe, wiring) for pipe in pipes)
    busiest = (max(s["feature_words"] + s["drained_words"], *s.values()) for s in streams)
    sums["longest_words"] += max([longest, *busiest])
    for engine in wiring.engines:
        single = engine.batch_depth == 1 and engine.batch_offset > engine.element_bytes
        readers = [unit for unit, _ in wiring.readers(engine)]
        pooled = not engine.adjacent and any(isinstance(unit, PoolUnit) for unit in readers)
        if words_apart(engine) or pooled or (single and not engine.raw):
            sums["strided_words"] += engine.total_elements
        again = engine.distinct_frames < engine.frames
        if again and any(isinstance(unit, Arith) for unit in readers):
            sums["vector_words"] += engine.total_elements
    if sums["vector_words"]:
        sums["vector_frames"] += sum(wiring.frames(pipe[0]) for pipe in pipes)
    for unit in wiring.processors:
        if isinstance(unit, Arith) and unit.dualinput and unit.bcast == Bcast.CHAN:
            sums["product_words"] += wiring.output_words(unit)
    return dict(sums)


def _pipe_streams(pipe: list[Convacc], wiring: Wiring) -> dict[str, int]:
    first, last = pipe[0], pipe[-1]
    frames = wiring.frames(first)
    kernels, sums = wiring.source(first, 1), wiring.source(first, 2)
    padded = first.top_padding or first.bot_padding
    drained_rows = first.kernelHeight - 1 if padded and first.vstride == 1 else 0
    return {
        "kernel_words": kernels.total_elements if isinstance(kernels, Streng) else 0,
        "feature_words": max(wiring.input_words(unit, 0) for unit in pipe),
        "output_words": last.out_elements * frames,
        "sum_words": sums.total_elements if isinstance(sums, Streng) else 0,
        "drained_words": drained_rows * first.fWidth * first.batchDepth * frames,
    }


class Half(Struct, frozen=True):
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
        totals: Counter[str] = Counter()
        for row in rows:
            totals[row.pool] += row.read_bytes + row.write_bytes
        return totals

    @property
    def moved_bytes(self) -> int:
        """Bytes that the CPU's kernels touch."""
        rows = (row for epoch in self.software for row in epoch.counters.traffic)
        return sum(row.read_bytes + row.write_bytes for row in rows)

    @property
    def kernels(self) -> Counter[str]:
        names = [e.call.kernel for e in self.run if e.kind is not EpochKind.HW and e.call]
        return Counter(names or [" + ".join(epoch.operators) for epoch in self.software])

    def bank_cycles(self, machine: Machine) -> float:
        """NPU cycles of the busiest memory, epoch by epoch; unknown pools cost nothing."""
        rates = {pool.name: machine.cycles_per_byte(pool.path) for pool in machine.pools}
        return sum(_busiest(epoch, rates) for epoch in self.hardware)


def _essential(operators: tuple[str, ...]) -> tuple[str, ...]:
    """Without the stages of a convolution's own result, which generations arrange differently."""
    essential = tuple(name for name in operators if name not in BINARY)
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
    names = dict.fromkeys(
        unit.addr_base.buffer
        for epoch in part.run
        for unit in epoch.units
        if isinstance(unit, Streng)
    )
    return {name: buffers[name] for name in names if name in buffers}
