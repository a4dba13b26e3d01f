"""Advice on memory: flash, external RAM, placement, weights that grew."""

from __future__ import annotations

from collections.abc import Iterator, Set

from npuscope.advice.subject import Subject
from npuscope.geometry.tiling import depthwise_tiling, simd_of
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine, MemoryPool
from npuscope.ops.layers import ConvAttrs, is_depthwise
from npuscope.profiling.run import estimate
from npuscope.program.units import Streng
from npuscope.rulebook import fixes
from npuscope.rulebook.conv import internal_ram_bytes
from npuscope.rulebook.finding import Confidence, Hit, Severity, Value
from npuscope.rulebook.fix import at_most
from npuscope.rulebook.queries import zero_point
from npuscope.rulebook.registry import advise
from npuscope.sim.counters import Bound
from npuscope.sim.epochs import count_work
from npuscope.sim.group_work import ChainWork
from npuscope.sim.program_work import ClaimedWork, HardwareWork, SoftwareWork, program_work
from npuscope.structs import replace

_FLASH_SHARE = 0.2  # of the time: below it other advice pays more (a choice)
_INFLATED_BYTES = 16_384  # a few small layers inflate to less, which nobody would notice
_SHOWN = 5  # names in one finding

EpochTask = HardwareWork | SoftwareWork | ClaimedWork


@advise(
    "ADV-FLASH",
    "The NPU waits for weights from flash",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="Weights are read from external flash in every inference, at a fraction of what the NPU "
    "could take.",
    fixes=(fixes.WEIGHTS_ON_CHIP, fixes.FOUR_BIT_WEIGHTS, fixes.COMPRESS_WEIGHTS),
)
def weights_come_from_flash(subject: Subject) -> Iterator[Hit]:
    """Much of the time the NPU waits for weights from flash."""
    rows = [run for _, run in subject.hardware() if run.counters.bound is Bound.FLASH]
    if not rows or subject.share(sum(run.ms for run in rows)) < _FLASH_SHARE:
        return
    # A layer that flash limits may be limited by something else right after: what counts is how
    # much shorter the run is where weights come as fast as from the NPU's own RAM.
    ms = subject.profile.total_ms - estimate(subject.program, _with_fast_flash(subject)).total_ms
    if subject.share(ms) < _FLASH_SHARE:
        return
    evidence: dict[str, Value] = {
        "ms": round(ms, 6),
        "epochs": len(rows),
        "weights_bytes": subject.profile.memory.weights_bytes,
    }
    slowest = sorted(rows, key=lambda run: -run.ms)[:_SHOWN]
    ops = tuple(name for run in slowest for name in run.origin)
    text = f"{subject.share(ms):.0%} of the time"
    gains = {name: at_most(ms) for name in ("weights-on-chip", "fewer-weights")}
    halves_ms = _saved_by_halves(subject)
    if halves_ms is not None:
        gains["four-bit-weights"] = at_most(halves_ms)  # if every layer bears it
    fixes: dict[str, dict[str, Value]] = {}
    if subject.profile.fit.on_chip:
        settings = (f"--set {key}={value}" for key, value in on_chip(subject.machine).items())
        fixes["weights-on-chip"] = {"settings": " ".join(settings)}
    yield Hit(ops, text, f"below {_FLASH_SHARE:.0%}", evidence, fixes, gains)


def _saved_by_halves(subject: Subject) -> float | None:
    """Milliseconds, if all weights of 8 bits that the NPU reads from flash had 4."""
    work = program_work(subject.program, subject.machine)
    if any(isinstance(epoch.work, ClaimedWork) for epoch in work.epochs):
        return None
    units = (unit for epoch in subject.program.executed for unit in epoch.units)
    if any(isinstance(unit, Streng) and unit.packed for unit in units):
        return None  # some have 4 bits already: which others bear it is not known
    epochs = tuple(replace(epoch, work=_halved(epoch.work)) for epoch in work.epochs)
    before, after = (
        sum(counters.core_cycles for counters in count_work(each, subject.machine))
        for each in (work, replace(work, epochs=epochs))
    )
    return (before - after) / subject.machine.clocks.npu_mhz / 1000


def _halved(work: EpochTask) -> EpochTask:
    """The same work with half the bytes in every set of kernels."""
    if not isinstance(work, tuple):
        return work

    def chain_of(chain: ChainWork) -> ChainWork:
        pipes = (
            replace(pipe, load=pipe.load and replace(pipe.load, bytes=pipe.load.bytes // 2))
            for pipe in chain.pipes
        )
        return replace(chain, pipes=tuple(pipes))

    return tuple(replace(group, chains=tuple(map(chain_of, group.chains))) for group in work)


def on_chip(machine: Machine) -> dict[str, object]:
    """What to set for a machine without external memories."""
    return {f"pools.{pool.name}.size_kib": 0 for pool in machine.external_pools}


@advise(
    "ADV-EXTERNAL-RAM",
    "Activations are in external RAM",
    severity=Severity.WARNING,
    confidence=Confidence.VERIFIED,
    cause="They did not fit on chip. External RAM is limited by its accesses: about 60 cycles "
    "per element read, once per pass, which the vendor's cycle estimate leaves out. The "
    "application must also map this memory before the first inference.",
    fixes=(fixes.SMALLER_INPUT,),
)
def activations_left_the_chip(subject: Subject) -> Iterator[Hit]:
    """Activations are in external RAM."""
    outside = subject.external()
    if not outside:
        return
    waiting = [run for _, run in subject.hardware() if run.counters.bound is Bound.EXTERNAL_RAM]
    evidence: dict[str, Value] = {
        "lower_bound_bytes": subject.profile.memory.lower_bound_bytes,
        "internal_ram_bytes": internal_ram_bytes(subject.machine),
        "ms_waiting": round(sum(run.ms for run in waiting), 6),
        "buffers": [buffer.name for buffer in outside[:_SHOWN]],
    }
    ops = tuple(dict.fromkeys(name for run in waiting[:_SHOWN] for name in run.origin))
    # As if all activations were on chip: a smaller input may do less work besides.
    inside_ms = estimate(subject.program, _with_fast_ram(subject.machine)).total_ms
    gains = {"smaller-input": at_most(subject.profile.total_ms - inside_ms)}
    size = subject.profile.memory.external_ram_bytes
    yield Hit(ops, f"{size} bytes", 0, evidence, gains=gains)


def _with_fast_ram(machine: Machine) -> Machine:
    """External RAM as fast as the NPU's own."""
    return _fast(machine, {pool.name for pool in machine.pools if pool.cacheable and pool.writable})


def _with_fast_flash(subject: Subject) -> Machine:
    """Memories that hold weights alone as fast as the NPU's own."""
    pools = subject.profile.memory.pools
    weights = {pool.name for pool in pools if pool.weights_bytes and not pool.activations_bytes}
    outside = {pool.name for pool in subject.machine.pools if pool.cacheable}
    return _fast(subject.machine, weights & outside)


def _fast(machine: Machine, names: Set[str]) -> Machine:
    inside = machine.memory(machine.placement.bank_order[0]).path

    def fast(pool: MemoryPool) -> MemoryPool:
        return replace(pool, path=inside, cacheable=False) if pool.name in names else pool

    return machine.with_pools(tuple(fast(pool) for pool in machine.pools))


@advise(
    "ADV-PLACEMENT",
    "Placement uses more RAM than necessary",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="Activations that are live at the same time would fit on chip, but gaps between "
    "buffers pushed some of them into external RAM.",
    fixes=(fixes.OPTION_AUTO_SCHED,),
)
def placement_wastes_ram(subject: Subject) -> Iterator[Hit]:
    """Activations would fit on chip, but their placement pushed some into external RAM."""
    memory, room = subject.profile.memory, internal_ram_bytes(subject.machine)
    if memory.external_ram_bytes and memory.lower_bound_bytes <= room:
        used = memory.internal_ram_bytes + memory.external_ram_bytes
        names = tuple(buffer.name for buffer in subject.external()[:_SHOWN])
        yield Hit(names, used, memory.lower_bound_bytes, {"internal_ram_bytes": room})


@advise(
    "ADV-PARTIALS",
    "A large kernel leaves partial sums in external RAM",
    severity=Severity.WARNING,
    confidence=Confidence.VERIFIED,
    cause="The kernel is cut into pieces, each with a 16-bit buffer as large as the output; "
    "together they do not fit on chip.",
    fixes=(fixes.SMALLER_KERNEL,),
)
def partial_sums_left_the_chip(subject: Subject) -> Iterator[Hit]:
    """16-bit partial sums of a large kernel are in external RAM."""
    partial = [b for b in subject.external() if b.nbits == 16 and not b.is_float]
    if partial:
        names = {buffer.name for buffer in partial}
        size = sum(buffer.size_bytes for buffer in partial)
        ops: dict[str, None] = {}
        for epoch, _ in subject.hardware():
            engines = [unit for unit in epoch.units if isinstance(unit, Streng)]
            if any(engine.addr_base.buffer in names for engine in engines):
                ops |= dict.fromkeys(epoch.origin)
        yield Hit(tuple(ops), f"{size} bytes", 0, {"buffers": len(partial)})


@advise(
    "ADV-INFLATED",
    "Depthwise weights are stored eight times",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="The 2.x compilers write depthwise kernels as dense groups of 8 x 8 channels, which "
    "takes more flash and more time to read.",
    fixes=(fixes.NEWER_COMPILER,),
)
def depthwise_weights_grew(subject: Subject) -> Iterator[Hit]:
    """Depthwise kernels are stored as dense groups of 8 x 8 channels."""
    graph = subject.graph
    if graph is None or subject.machine.generation.depthwise != "inflated":
        return
    layers = [op for op in graph.ops if is_depthwise(graph, op)]
    groups = [_stored_group(graph, op, subject.machine) for op in layers]
    sizes = [graph.tensor(op.inputs[1]).elements for op in layers]
    extra = sum(size * (group - 1) for size, group in zip(sizes, groups, strict=True))
    ops = [op for op, group in zip(layers, groups, strict=True) if group > 1]
    if extra >= _INFLATED_BYTES:
        names = tuple(name for op in ops[:_SHOWN] for name in op.origin)
        fixes = {"newer-compiler": {"generation": "3.0"}}
        yield Hit(names, f"{extra} bytes more", _INFLATED_BYTES, {"layers": len(ops)}, fixes)


def _stored_group(graph: Graph, op: Op, machine: Machine) -> int:
    """Channels of a depthwise layer whose kernels are stored as one dense group."""
    features, (_, rows, columns, _) = graph.first_input(op), graph.tensor(op.inputs[1]).shape
    _, height, width, channels = features.shape
    simd, strides = simd_of(zero_point(features)), op.attrs_as(ConvAttrs).strides
    tiling = depthwise_tiling(channels, (rows, columns), strides, simd, machine, (height, width))
    return tiling.depth
