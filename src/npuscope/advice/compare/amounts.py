"""What a row's NPU epochs stream and how their units are set, from the unit registers.

Amounts are words or cycles of the timing law's terms. They are not the time, which is that of the
longest; they tell which of them grew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from npuscope.program.links import Wiring
from npuscope.program.model import Epoch, EpochKind
from npuscope.program.modes import Bcast, Simd
from npuscope.program.units import Arith, Convacc, Streng

Tile = tuple[int, int, int]  # kernels, channels, frames


@dataclass(frozen=True, slots=True)
class Amounts:
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
    modes: Counter[str] = field(default_factory=Counter)
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
    wirings = [Wiring(group) for epoch in hardware for group in epoch.groups or ()]
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
        modes=Counter(_mode(conv) for _, conv in convs),
        convolutions=len(convs),
    )


def _convolutions(wiring: Wiring) -> list[Convacc]:
    return [unit for unit in wiring.processors if isinstance(unit, Convacc)]


def _mode(conv: Convacc) -> str:
    names = {"deep": conv.deepmode, "pairs": conv.dss2mode}
    extra = "".join(f" {name}" for name, on in names.items() if on)
    return f"{Simd(conv.simd).name}{extra}"


def _pipes(wiring: Wiring) -> list[list[Convacc]]:
    """Convolution units in series, by the kernel engine that they share."""
    found: dict[object, list[Convacc]] = {}
    for unit in _convolutions(wiring):
        kernels = wiring.source(unit, 1)
        found.setdefault(kernels.id if kernels else ("none", unit.id), []).append(unit)
    return list(found.values())


def _streams(wiring: Wiring) -> dict[str, int]:
    pipes = _pipes(wiring)
    found: Counter[str] = Counter()
    for pipe in pipes:
        found.update(_pipe_streams(pipe, wiring))
    longest = max((engine.total_elements for engine in wiring.engines), default=0)
    if not pipes:
        found["moved_words"] += longest
    streams = (_pipe_streams(pipe, wiring) for pipe in pipes)
    busiest = (max(s["feature_words"] + s["drained_words"], *s.values()) for s in streams)
    found["longest_words"] += max([longest, *busiest])
    for engine in wiring.engines:
        found["strided_words"] += engine.total_elements if _is_strided(engine) else 0
        found["vector_words"] += engine.total_elements if _is_vector(engine, wiring) else 0
    if found["vector_words"]:
        found["vector_frames"] += sum(wiring.frames(pipe[0]) for pipe in pipes)
    for unit in wiring.processors:
        if isinstance(unit, Arith) and unit.dualinput and unit.bcast == Bcast.CHAN:
            found["product_words"] += wiring.output_words(unit)
    return dict(found)


def _pipe_streams(pipe: list[Convacc], wiring: Wiring) -> dict[str, int]:
    first, last = pipe[0], pipe[-1]
    frames = wiring.frames(first)
    kernels, sums = wiring.source(first, 1), wiring.source(first, 2)
    return {
        "kernel_words": kernels.total_elements if isinstance(kernels, Streng) else 0,
        "feature_words": max(wiring.input_words(unit, 0) for unit in pipe),
        "output_words": last.out_elements * frames,
        "sum_words": sums.total_elements if isinstance(sums, Streng) else 0,
        "drained_words": _drained(first) * frames,
    }


def _drained(conv: Convacc) -> int:
    padded = conv.top_padding or conv.bot_padding
    rows = conv.kernelHeight - 1 if padded and conv.vstride == 1 else 0
    return rows * conv.fWidth * conv.batchDepth


def _is_strided(engine: Streng) -> bool:
    return not engine.raw and engine.batch_depth == 1 and engine.batch_offset > engine.element_bytes


def _is_vector(engine: Streng, wiring: Wiring) -> bool:
    again = engine.distinct_frames < engine.frames
    return again and any(isinstance(unit, Arith) for unit, _ in wiring.readers(engine))
