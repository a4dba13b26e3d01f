"""Runs the passes of a plan on a device and puts together what each of them counted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import Enum
from statistics import fmean

import numpy as np
from msgspec import Struct

from npuscope.boards.device import NOTHING, CounterOption, Device, NodeCounters, Request
from npuscope.boards.runtime import epoch_blocks
from npuscope.errors import DeviceError, UsageError
from npuscope.program.model import EpochKind, Program
from npuscope.sim.counters import CacheCounts
from npuscope.sim.debug_unit import COUNTERS
from npuscope.structs import replace

# --- Which counters in which inference: with 16 counters, some exclude each other ---


class CounterMetric(Enum):
    CYCLES = "cycles"  # NPU cycles by phase; the MCU's are in every run
    ENGINES = "engines"  # active cycles by stream engine
    BURSTS = "bursts"
    CACHE = "cache"


ALL_METRICS = frozenset(CounterMetric)


class CounterPass(Struct, frozen=True):
    """One configuration of the counters; it is run once for every sample."""

    options: CounterOption
    purpose: str


class CounterPlan(Struct, frozen=True):
    """`warm_up`: an inference before the others, whose numbers are thrown away."""

    passes: tuple[CounterPass, ...]
    warm_up: bool = False

    def text(self, batch: int = 1) -> str:
        """What is counted in which inference."""
        first = "1 warm-up, then " if self.warm_up else ""
        times = f" x {batch}" if batch > 1 else ""
        count, purposes = len(self.passes), "; ".join(one.purpose for one in self.passes)
        return f"{first}{count} pass{'es' * (count != 1)}{times}: {purposes}"

    def inferences(self, batch: int = 1) -> int:
        return int(self.warm_up) + batch * len(self.passes)


# Counter 0 is the NPU clock, whose time stamps give the length of an epoch.
ENGINE_COUNTERS = COUNTERS - 1

_TIMED = CounterOption.EPOCH_LEN
_BURSTS = CounterPass(CounterOption.BUSIF_RW_DATA, "bursts by interface and length")
VENDOR_PLAN = CounterPlan(
    (
        CounterPass(
            CounterOption.STRG_I_ACTIVE | _TIMED | CounterOption.NPU_CACHE, "input engines, cache"
        ),
        CounterPass(
            CounterOption.STRG_O_ACTIVE | _TIMED | CounterOption.NPU_CACHE, "output engines, cache"
        ),
        _BURSTS,
    ),
    warm_up=True,
)


def counter_plan(
    metrics: Collection[CounterMetric] = ALL_METRICS,
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
    chosen_metrics = set(metrics)
    passes = [*_timed(chosen_metrics, program is not None and engines_fit(program))]
    if CounterMetric.BURSTS in chosen_metrics:
        passes.append(_BURSTS)
    if CounterMetric.CACHE in chosen_metrics and passes:
        # The cache has monitors of its own: they go with the first pass.
        first = passes[0]
        passes[0] = CounterPass(first.options | CounterOption.NPU_CACHE, f"{first.purpose}, cache")
    if not passes:
        options = (
            CounterOption.NPU_CACHE if CounterMetric.CACHE in chosen_metrics else CounterOption(0)
        )
        passes = [CounterPass(options, "MCU cycles")]
    return CounterPlan(tuple(passes))


def engines_fit(program: Program) -> bool:
    """Every block's engines, in and out, have a counter each."""
    return all(block.engines <= ENGINE_COUNTERS for block in epoch_blocks(program))


def _timed(metrics: set[CounterMetric], together: bool) -> Iterator[CounterPass]:
    """Passes that count NPU cycles; engines bring them along."""
    if CounterMetric.ENGINES in metrics and together:
        yield CounterPass(CounterOption.STRG_ACTIVE | _TIMED, "engines both ways")
    elif CounterMetric.ENGINES in metrics:
        yield CounterPass(CounterOption.STRG_I_ACTIVE | _TIMED, "input engines")
        yield CounterPass(CounterOption.STRG_O_ACTIVE | _TIMED, "output engines")
    elif CounterMetric.CYCLES in metrics:
        yield CounterPass(_TIMED, "NPU cycles")


Inputs = tuple[np.ndarray, ...] | None
Nodes = tuple[NodeCounters, ...]
Four = tuple[int, int, int, int]


class Measured(Struct, frozen=True):
    """One epoch block over all passes: means, and its cycles in every sample.

    `samples` are (pre, core, post): MCU, NPU and MCU cycles.
    """

    node: NodeCounters
    samples: tuple[tuple[float, float, float], ...]
    engines: dict[tuple[int, str], int]
    bursts: dict[tuple[int, str], Four]
    cache: CacheCounts

    core_mcu_cycles: float = 0.0

    @property
    def cycles(self) -> tuple[float, float, float]:
        pre, core, post = (fmean(values) for values in zip(*self.samples, strict=True))
        return pre, core, post


def run_passes(
    device: Device, network: str, plan: CounterPlan, inputs: Inputs, batch: int
) -> tuple[Measured, ...]:
    if batch < 1:
        raise UsageError(f"expected at least 1 sample, found {batch}", where="--batch")
    # The vendor's profiler runs one inference first and drops its numbers.
    if plan.warm_up:
        device.run(Request(network, inputs, per_layer=False, options=NOTHING))
    runs = [
        [_nodes(device, Request(network, inputs, True, one.options)) for _ in range(batch)]
        for one in plan.passes
    ]
    # Before the passes are zipped: a mismatch would pair counters of different epochs.
    # Counters of different inferences are put side by side: it must have been one program.
    expected = [node.name for node in runs[0][0]]
    for number, nodes in enumerate((nodes for samples in runs for nodes in samples), 1):
        names = [node.name for node in nodes]
        if names != expected:
            pairs = zip(expected, names, strict=False)
            apart = next((f"'{a}' and '{b}'" for a, b in pairs if a != b), "their number")
            raise DeviceError(
                f"inferences 1 and {number} do not have the same epochs: {apart}",
                hint="nothing else may use the device while it is profiled",
            )
    clocks = device.info().clocks
    ratio = clocks.npu_hz / clocks.mcu_hz
    blocks = zip(*(zip(*samples, strict=True) for samples in runs), strict=True)
    return tuple(_measured(passes, ratio) for passes in blocks)


def _nodes(device: Device, request: Request) -> Nodes:
    nodes = merge_extra(device.run(request).nodes)
    if not nodes:
        raise DeviceError(
            f"no epochs were counted in '{request.network}'",
            hint="the device has to run it in the per-layer mode",
        )
    return nodes


def merge_extra(nodes: Iterable[NodeCounters]) -> Nodes:
    """Internal DMA blocks belong to the hybrid before them."""
    merged: list[NodeCounters] = []
    for node in nodes:
        if not node.extra:
            merged.append(node)
        elif not merged or merged[-1].kind is not EpochKind.HYBRID:
            raise DeviceError("an internal block without a hybrid before it", where=node.name)
        else:
            hybrid = merged[-1]
            npu = (hybrid.npu_cycles, node.npu_cycles)
            merged[-1] = replace(
                hybrid,
                mcu_cycles=_three(zip(hybrid.mcu_cycles, node.mcu_cycles, strict=True)),
                npu_cycles=_three(zip(npu[0], npu[1], strict=True)) if npu[0] and npu[1] else None,
                engines=_summed([hybrid.engines, node.engines]),
                bursts=_summed_bursts([hybrid.bursts, node.bursts]),
                cache_read=_added(hybrid.cache_read, node.cache_read),
                cache_write=_added(hybrid.cache_write, node.cache_write),
            )
    return tuple(merged)


def _measured(passes: Sequence[Sequence[NodeCounters]], ratio: float) -> Measured:
    """`passes` are the samples of one block, pass by pass."""
    # Several passes may count the cycles and the cache: all of them are samples.
    timed = [node for nodes in passes for node in nodes if node.npu_cycles] or passes[0]
    cached = [node for nodes in passes for node in nodes if node.cache_read]
    # A log may lack one of a node's two lines: each is the mean of those that are there.
    lines = (
        [node.cache_read for node in cached if node.cache_read],
        [node.cache_write for node in cached if node.cache_write],
    )
    columns = (values for rows in lines for values in zip(*rows, strict=True))
    return Measured(
        timed[0],
        tuple(_cycles(node, ratio) for node in timed),
        {key: value for nodes in passes for key, value in _mean_engines(nodes).items()},
        {key: value for nodes in passes for key, value in _mean_bursts(nodes).items()},
        CacheCounts(*(round(fmean(values)) for values in columns)),
        fmean(node.mcu_cycles[1] for node in timed),
    )


def _cycles(node: NodeCounters, ratio: float) -> tuple[float, float, float]:
    pre, core, post = node.mcu_cycles
    # A pass without NPU time stamps has MCU cycles only; the ratio of the clocks converts them.
    return pre, node.npu_cycles[1] if node.npu_cycles else core * ratio, post


def _mean_engines(nodes: Sequence[NodeCounters]) -> dict[tuple[int, str], int]:
    total = _summed([node.engines for node in nodes])
    return {key: round(value / len(nodes)) for key, value in total.items()}


def _mean_bursts(nodes: Sequence[NodeCounters]) -> dict[tuple[int, str], Four]:
    total = _summed_bursts([node.bursts for node in nodes])
    return {key: _four(round(value / len(nodes)) for value in row) for key, row in total.items()}


def _summed(rows: Sequence[dict[tuple[int, str], int]]) -> dict[tuple[int, str], int]:
    keys = dict.fromkeys(key for row in rows for key in row)
    return {key: sum(row.get(key, 0) for row in rows) for key in keys}


def _summed_bursts(rows: Sequence[dict[tuple[int, str], Four]]) -> dict[tuple[int, str], Four]:
    keys = dict.fromkeys(key for row in rows for key in row)
    rows_of_key = {key: [row[key] for row in rows if key in row] for key in keys}
    return {key: _four(map(sum, zip(*values, strict=True))) for key, values in rows_of_key.items()}


def _added(one: Four | None, two: Four | None) -> Four | None:
    if one is None or two is None:
        return one or two
    return _four(a + b for a, b in zip(one, two, strict=True))


def _four(values: Iterable[int]) -> Four:
    one, two, three, four = values
    return one, two, three, four


def _three(pairs: Iterable[tuple[int, int]]) -> tuple[int, int, int]:
    pre, core, post = (a + b for a, b in pairs)
    return pre, core, post
