"""Why the NPU's own work in a row takes another time: what is set differently and streams more.

A difference of settings is a cause only if an amount that it governs moved the same way as the
time, and far enough. What fails that test is not named, and the time stays unexplained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import Struct

from npuscope.advice.compare.half import Amounts, Half, Tile, UnitSetting, touched, words
from npuscope.advice.compare.model import LEAST_MS, Cause, CauseKind
from npuscope.machine.model import Generation, Machine
from npuscope.machine.npu_ops import FUNCTIONS
from npuscope.sim.memory import bank_of

# --- Generation habits that join or split epochs ---
# A habit is named only if the epochs show it: what one side runs in one epoch, the other does not.

_POOLS = ("MaxPool", "AveragePool")
_Habit = tuple[Callable[[Generation], bool], Callable[[tuple[str, ...]], bool], str]


def _pools_behind(operators: tuple[str, ...]) -> bool:
    return "Conv" in operators and any(name in _POOLS for name in operators)


def _meets_its_function(operators: tuple[str, ...]) -> bool:
    """A product behind the function, where it meets what the function was taken of."""
    places = [place for place, name in enumerate(operators) if name in FUNCTIONS]
    return bool(places) and "Mul" in operators[places[-1] :]


def _two_convolutions(operators: tuple[str, ...]) -> bool:
    return operators.count("Conv") > 1


# Whether a generation joins; what an epoch looks like then; the sentence.
_HABITS: tuple[_Habit, ...] = (
    (
        lambda generation: generation.joins_padded_pools,
        _pools_behind,
        "generation {joins} runs a pool in the epoch of its convolution",
    ),
    (
        lambda generation: not generation.cuts_reconvergence,
        _meets_its_function,
        "generation {parts} never computes f(x) and x * f(x) in one epoch",
    ),
    (
        lambda generation: generation.depthwise_joins,
        _two_convolutions,
        "generation {joins} runs a depthwise convolution in the epoch of the one before it",
    ),
)


def fusion_habit(a: Half, b: Half) -> str:
    """The habit that the epochs of the row show; "" where none does."""
    if a.side.machine is None or b.side.machine is None:
        return ""
    x, y = a.side.machine.generation, b.side.machine.generation
    for joins, looks, sentence in _HABITS:
        if joins(x) == joins(y):
            continue
        one, other = (a, b) if joins(x) else (b, a)
        if _count(one, looks) > _count(other, looks):
            names = (x.name, y.name) if joins(x) else (y.name, x.name)
            return sentence.format(joins=names[0], parts=names[1])
    return ""


def _count(part: Half, looks: Callable[[tuple[str, ...]], bool]) -> int:
    return sum(looks(epoch.operators) for epoch in part.hardware)


# Of the time's change, what an amount has to account for.
_LEAST_SHARE = 0.5
_SHOWN = 2
_SMALL_GROUP = 4
_DEPTHWISE = {"inflated": "dense groups of channels", "balanced": "small groups"}


class _Difference(Struct, frozen=True):
    """What is set differently, and by how many cycles the streams it governs grew."""

    kind: CauseKind
    text: str
    grown: tuple[float, ...]


def core_causes(a: Half, b: Half) -> Iterator[Cause]:
    """Waiting for memory apart from the units' work, where it has a cause of its own."""
    work = b.times.work_ms - a.times.work_ms
    wait = b.times.wait_ms - a.times.wait_ms
    reason = _supported(list(_waits(a, b)), wait, _mhz(b))
    if reason is None:
        # A shorter stream uncovers the same wait: one change, one part.
        work, wait = work + wait, 0.0
    if reason is not None and abs(wait) >= LEAST_MS:
        yield Cause(reason.kind, reason.text, wait)
    if abs(work) >= LEAST_MS:
        setting = _supported(list(_settings(a, b)), work, _mhz(b))
        if setting is None:
            yield Cause(
                CauseKind.UNEXPLAINED, "time of the NPU itself; no setting explains it", work
            )
        else:
            yield Cause(setting.kind, setting.text, work)


def _mhz(part: Half) -> float:
    return part.side.profile.machine.npu_mhz


def _supported(differences: list[_Difference], ms: float, npu_mhz: float) -> _Difference | None:
    """The first difference whose streams explain the change."""
    cycles = ms * npu_mhz * 1000
    for difference in differences:
        along = [grown for grown in difference.grown if grown * cycles > 0]
        if along and max(map(abs, along)) >= _LEAST_SHARE * abs(cycles):
            return difference
    return None


def _settings(a: Half, b: Half) -> Iterator[_Difference]:
    """Differences of settings, the more telling first."""
    x, y = a.amounts, b.amounts
    if x is None or y is None:
        yield from _stated(a, b)
        return
    grown = {name: float(words(y)[name] - words(x)[name]) for name in words(x)}
    dense = tuple(grown[f"{n}_words"] for n in ("longest", "feature", "kernel", "output"))
    if a.side.profile.model.md5 != b.side.profile.model.md5 and _ops(a) != _ops(b):
        text = f"{_ops(a):,} -> {_ops(b):,} operations for the same op"
        # More work that takes less time is another tile's doing.
        along = tuple(count for count in dense if count * (_ops(b) - _ops(a)) > 0)
        yield _Difference(CauseKind.SHAPE, text, along)
    if _formats(x) and _formats(y) and _formats(x) != _formats(y):
        text = f"{_formats(x)} -> {_formats(y)}"
        yield _Difference(CauseKind.FORMAT, text, dense)
    if a.pieces != b.pieces or x.epochs != y.epochs:
        # Epochs that become one run side by side: all but the longest is hidden.
        serial = (b.after_another_ms - a.after_another_ms) * _mhz(b) * 1000
        streams = (grown["longest_words"], grown["moved_words"])
        # Cycles that more epochs take to fill and drain, at least.
        machine = b.side.machine
        starts = (y.epochs - x.epochs) * machine.timing.epoch_start_cycles if machine else 0.0
        joined = (*streams, serial, starts, _outside_cycles(a, b))
        yield _Difference(CauseKind.FUSION, fusion_text(a, b), joined)
    if x.tiles != y.tiles or x.modes != y.modes or x.convolutions != y.convolutions:
        sums = (grown["sum_words"], grown["drained_words"])
        yield _Difference(CauseKind.TILE, _tile_text(x, y), (*dense, *sums))
    if b.side.machine is not None:
        yield from _vectors(x, y, b.side.machine)
    if x.strided_words != y.strided_words:
        text = f"{x.strided_words:,} -> {y.strided_words:,} elements moved one by one"
        yield _Difference(CauseKind.LAYOUT, text, (grown["strided_words"],))


def _ops(part: Half) -> int:
    return sum(epoch.claims.ops for epoch in part.hardware)


def _formats(amounts: Amounts) -> str:
    return " + ".join(sorted({mode.simd.name for mode in amounts.modes}))


def fusion_text(a: Half, b: Half) -> str:
    before, after = len(a.hardware), len(b.hardware)
    habit = fusion_habit(a, b)
    count = f"{before} -> {after} epochs" if before != after else "different ops share an epoch"
    text = f"{count}: {_listed(a.pieces)} -> {_listed(b.pieces)}"
    return f"{text} ({habit})" if habit else text


def _listed(pieces: Counter[tuple[str, ...]]) -> str:
    """Epochs by their operators, the most frequent first."""
    parts = [
        "+".join(piece) + (f" x{number}" if number > 1 else "")
        for piece, number in pieces.most_common(_SHOWN + 1)
    ]
    return " | ".join([*parts, *(["..."] if len(pieces) > len(parts) else [])])


def _tile_text(x: Amounts, y: Amounts) -> str:
    before, after = x.tiles - y.tiles, y.tiles - x.tiles
    parts = [f"tile {_tiles(before)} -> {_tiles(after)}"] if before or after else []
    modes, others = x.modes - y.modes, y.modes - x.modes
    if modes.keys() != others.keys():
        parts.append(f"mode {_names(modes)} -> {_names(others)}")
    if x.kernel_words != y.kernel_words:
        parts.append(f"{x.kernel_words:,} -> {y.kernel_words:,} weights streamed")
    return ", ".join(parts)


def _names(modes: Counter[UnitSetting]) -> str:
    return " + ".join(sorted(map(str, modes))) or "none"


def _tiles(tiles: Counter[Tile]) -> str:
    """Kernels x channels, times frames; units in series are counted."""
    parts = [
        f"{kernels}x{depth} in {frames} frames" + (f" on {units} units" if units > 1 else "")
        for (kernels, depth, frames), units in tiles.most_common(_SHOWN)
    ]
    return " + ".join(parts) or "none"


def _stated(a: Half, b: Half) -> Iterator[_Difference]:
    """Without unit registers: what the compiler states, and how many epochs there are."""
    before = sum(epoch.claims.compute_cycles for epoch in a.hardware)
    after = sum(epoch.claims.compute_cycles for epoch in b.hardware)
    if a.pieces != b.pieces:
        yield _Difference(CauseKind.FUSION, fusion_text(a, b), (float(after - before),))
    if before != after:
        text = f"{before:,} -> {after:,} cycles of computation, as stated by the compiler"
        yield _Difference(CauseKind.TILE, text, (float(after - before),))
    machine = b.side.machine or a.side.machine
    if machine is not None and a.traffic_bytes != b.traffic_bytes:
        busier = b.bank_cycles(machine) - a.bank_cycles(machine)
        yield _Difference(_traffic_kind(a, b, machine), _traffic_text(a, b), (busier,))


def _traffic_kind(a: Half, b: Half, machine: Machine) -> CauseKind:
    """Another memory; or more from the same one, which of a read-only one are weights."""
    x, y = a.traffic_bytes, b.traffic_bytes
    if set(x) != set(y):
        return CauseKind.POOL
    most = max(x, key=lambda name: abs(y[name] - x[name]))
    fixed = {pool.name for pool in machine.pools if not pool.writable}
    return CauseKind.WEIGHTS if most in fixed else CauseKind.TILE


def _waits(a: Half, b: Half) -> Iterator[_Difference]:
    """What makes units wait: the memory, how much they fetch from it, and in which order."""
    x, y, machine = a.amounts, b.amounts, b.side.machine
    if x is None or y is None or machine is None:
        return
    byte_cycles, access_cycles = _slowest({*a.traffic_bytes, *b.traffic_bytes}, machine)
    if set(a.traffic_bytes) != set(b.traffic_bytes):
        busier = b.bank_cycles(machine) - a.bank_cycles(machine)
        singles = _single_cycles(b, y, machine) - _single_cycles(a, x, machine)
        grown_by_place = (busier, _outside_cycles(a, b), singles)
        yield _Difference(CauseKind.POOL, _pool_text(a, b), grown_by_place)
    yield from _vectors(x, y, machine)
    if x.kernel_words != y.kernel_words:
        grown = (y.kernel_words - x.kernel_words) * byte_cycles
        yield _Difference(CauseKind.WEIGHTS, _weights_text(a, b, x, y), (grown,))
    if x.strided_words != y.strided_words:
        text = f"{x.strided_words:,} -> {y.strided_words:,} elements moved one by one"
        grown = (y.strided_words - x.strided_words) * access_cycles
        yield _Difference(CauseKind.LAYOUT, text, (grown,))


def _single_cycles(part: Half, amounts: Amounts, machine: Machine) -> float:
    """Elements that are moved one by one take longer in some memories."""
    return amounts.strided_words * _slowest({*part.traffic_bytes}, machine)[1]


def _vectors(x: Amounts, y: Amounts, machine: Machine) -> Iterator[_Difference]:
    """Coefficients that are read again for every line, and their start at every frame."""
    if (x.vector_words, x.vector_frames) == (y.vector_words, y.vector_frames):
        return
    timing = machine.timing
    grown = (y.vector_words - x.vector_words) * timing.vector_cycles
    turns = (y.vector_frames - x.vector_frames) * timing.vector_frame_cycles
    text = (
        f"{x.vector_words:,} -> {y.vector_words:,} coefficients streamed, "
        f"{x.vector_frames:,} -> {y.vector_frames:,} frames"
    )
    yield _Difference(CauseKind.REQUANTIZE, text, (grown, turns, grown + turns))


def _slowest(names: set[str], machine: Machine) -> tuple[float, float]:
    """NPU cycles of a byte and, on chip, of a short access, in the slowest of these pools."""
    pools = [pool for pool in machine.pools if pool.name in names]
    rates = [machine.cycles_per_byte(pool.path) for pool in pools]
    accesses = [bank_of(pool, machine).short_cycles for pool in pools if not pool.cacheable]
    return max(rates, default=0.0), max(accesses, default=0.0)


def _weights_text(a: Half, b: Half, x: Amounts, y: Amounts) -> str:
    text = f"{x.kernel_words:,} -> {y.kernel_words:,} weights streamed"
    habits = [part.side.machine.generation.depthwise for part in (a, b) if part.side.machine]
    ways = [_DEPTHWISE.get(habit, habit) for habit in habits]
    balanced = y if ways[-1:] == [_DEPTHWISE["balanced"]] else x
    by_habit = len(set(ways)) == 2 and any(_is_small_group(tile) for tile in balanced.tiles)
    return f"{text}: depthwise in {ways[0]} -> {ways[1]}" if by_habit else text


def _is_small_group(tile: Tile) -> bool:
    """As many kernels as channels, and few."""
    kernels, depth, _ = tile
    return kernels == depth <= _SMALL_GROUP


def _outside_cycles(a: Half, b: Half) -> float:
    """What more bytes of external memory take if each is an access of its own; also where epochs
    that were one meet there."""
    machine = b.side.machine
    if machine is None:
        return 0.0
    timing = machine.timing
    access_ns = (timing.external_read_ns + timing.external_write_ns) / 2
    access_cycles = access_ns * machine.clocks.npu_mhz / 1000
    return (_outside(b, machine) - _outside(a, machine)) * access_cycles


def _outside(part: Half, machine: Machine) -> int:
    pools = {pool.name for pool in machine.pools if pool.cacheable}
    return sum(moved for name, moved in part.traffic_bytes.items() if name in pools)


def _pool_text(a: Half, b: Half) -> str:
    """By buffer where both sides have it, else by pool."""
    x, y = touched(a), touched(b)
    moved = [
        f"{x[name].pool} -> {y[name].pool}: {name}"
        for name in x
        if name in y and x[name].pool != y[name].pool
    ]
    return ", ".join(moved[:_SHOWN]) or _traffic_text(a, b)


def _traffic_text(a: Half, b: Half) -> str:
    x, y = a.traffic_bytes, b.traffic_bytes
    pools = sorted({*x, *y}, key=lambda name: -abs(y[name] - x[name]))
    changed = [f"{name} {x[name]:,} -> {y[name]:,} bytes" for name in pools if x[name] != y[name]]
    return ", ".join(changed[:_SHOWN])
