"""Which counters in which inference: 16 counters, so some measures exclude each other."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum

from npuscope.board.device import Option
from npuscope.board.runtime import epoch_blocks
from npuscope.program.model import Program
from npuscope.sim.debug_unit import COUNTERS


class Metric(Enum):
    CYCLES = "cycles"  # NPU cycles by phase; the MCU's are in every run
    ENGINES = "engines"  # active cycles by stream engine
    BURSTS = "bursts"
    CACHE = "cache"


ALL_METRICS = frozenset(Metric)


@dataclass(frozen=True, slots=True)
class Pass:
    """One configuration of the counters; it is run once for every sample."""

    options: Option
    purpose: str


@dataclass(frozen=True, slots=True)
class CounterPlan:
    """`warm_up`: an inference before the others, whose numbers are thrown away."""

    passes: tuple[Pass, ...]
    warm_up: bool = False

    def inferences(self, batch: int = 1) -> int:
        return int(self.warm_up) + batch * len(self.passes)


# Counter 0 is the NPU clock, whose time stamps give the length of an epoch.
ENGINE_COUNTERS = COUNTERS - 1

_TIMED = Option.EPOCH_LEN
_BURSTS = Pass(Option.BUSIF_RW_DATA, "bursts by interface and length")
VENDOR_PLAN = CounterPlan(
    (
        Pass(Option.STRG_I_ACTIVE | _TIMED | Option.NPU_CACHE, "input engines, cache"),
        Pass(Option.STRG_O_ACTIVE | _TIMED | Option.NPU_CACHE, "output engines, cache"),
        _BURSTS,
    ),
    warm_up=True,
)


def counter_plan(
    metrics: Collection[Metric] = ALL_METRICS,
    program: Program | None = None,
    *,
    vendor_plan: bool = False,
) -> CounterPlan:
    """The fewest inferences that give the metrics.

    All engines of a block are counted at once where they fit beside the NPU clock. Without
    the program that cannot be known: a blob may use every engine both ways. `vendor_plan`
    repeats the passes of the vendor's profiler, whatever the metrics.
    """
    if vendor_plan:
        return VENDOR_PLAN
    wanted = set(metrics)
    passes = [*_timed(wanted, program is not None and engines_fit(program))]
    if Metric.BURSTS in wanted:
        passes.append(_BURSTS)
    if Metric.CACHE in wanted and passes:
        # The cache has monitors of its own: they go with the first pass.
        first = passes[0]
        passes[0] = Pass(first.options | Option.NPU_CACHE, f"{first.purpose}, cache")
    return CounterPlan(tuple(passes) or (Pass(_cache_only(wanted), "MCU cycles"),))


def engines_fit(program: Program) -> bool:
    """Every block's engines, in and out, have a counter each."""
    return all(block.engines <= ENGINE_COUNTERS for block in epoch_blocks(program))


def _timed(wanted: set[Metric], together: bool) -> Iterator[Pass]:
    """Passes that count NPU cycles; engines bring them along."""
    if Metric.ENGINES in wanted and together:
        yield Pass(Option.STRG_ACTIVE | _TIMED, "engines both ways")
    elif Metric.ENGINES in wanted:
        yield Pass(Option.STRG_I_ACTIVE | _TIMED, "input engines")
        yield Pass(Option.STRG_O_ACTIVE | _TIMED, "output engines")
    elif Metric.CYCLES in wanted:
        yield Pass(_TIMED, "NPU cycles")


def _cache_only(wanted: set[Metric]) -> Option:
    return Option.NPU_CACHE if Metric.CACHE in wanted else Option(0)
