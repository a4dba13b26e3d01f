"""Advice on layers that run on the NPU, but slowly. Bounds: the layer compiled again, alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, prod

from npuscope.advice.subject import LayerChange, Subject, accumulation_passes, convolutions
from npuscope.graph.model import Graph, Op
from npuscope.profiling.model import EpochProfile
from npuscope.program.model import Epoch
from npuscope.program.modes import Simd
from npuscope.rulebook import fixes
from npuscope.rulebook.channels import channel_fixes
from npuscope.rulebook.counts import STEP, dense_layer, output_parts, shared_count, split_fix
from npuscope.rulebook.finding import Confidence, Hit, Severity, Value
from npuscope.rulebook.fix import Gain, at_most
from npuscope.rulebook.queries import is_dense, source
from npuscope.rulebook.registry import advise
from npuscope.sim.counters import Bound

_SHARE = 0.02  # of the time: epochs below it are not worth a line
_SLOW = 1.5  # lower than lint asks for: here the time is known, and the gain decides
_WORTH = 0.1  # of the layer's own time: less is not worth a change (a choice)
_MOST_PARTS = 2  # times the fewest: more parts cost more starts than one join saves (a choice)


@advise(
    "ADV-WEIGHTS",
    "Weights are used only once",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="With one output position every weight is read for one multiplication, so the kernel "
    "port is the bottleneck: 2 operations per cycle (which the vendor's graph calls 2 MAC), 6 in "
    "Deep1x1 mode. A zero point other than 0 and -128 rules that mode out.",
    fixes=(fixes.ZERO_POINT, fixes.BATCH_FRAMES, fixes.FEWER_WEIGHTS),
)
def weights_are_used_once(subject: Subject) -> Iterator[Hit]:
    """One output position: every weight is read for one multiplication."""
    for epoch, run, op in subject.layers(_SHARE):
        assert subject.graph is not None
        shape = subject.graph.output_tensor(op).shape
        choked = run.counters.bound in (Bound.WEIGHTS, Bound.FLASH)
        if prod(shape[:-1]) == 1 and choked and is_dense(subject.graph, op):
            yield _weights_hit(subject, epoch, run, op)


def _weights_hit(subject: Subject, epoch: Epoch, run: EpochProfile, op: Op) -> Hit:
    unit = convolutions(epoch)[0]
    rate = round(run.claims.ops / max(run.counters.core_cycles, 1.0), 2)
    evidence: dict[str, Value] = {
        "ms": round(run.ms, 6),
        "bound": run.counters.bound.value,
        "mode": Simd(unit.simd).name.removeprefix("S").lower(),
        "deep1x1": bool(unit.deepmode),
        "zero_point": unit.fsub,
    }
    fixes, gains = _zero_point_fix(subject, run, op) if unit.simd == Simd.S16X8 else ({}, {})
    ops = source(op)
    return Hit(
        ops, f"{rate} ops/cycle", "weights that are reused", evidence, fixes, gains, epoch.number
    )


def _zero_point_fix(
    subject: Subject, run: EpochProfile, op: Op
) -> tuple[Mapping[str, Mapping[str, Value]], Mapping[str, Gain]]:
    assert subject.graph is not None
    alone_ms = subject.bench.gain_ms(subject.graph, op, LayerChange(zero_point=0)) or 0.0
    # Without the subtraction the layer may join the epoch in front: all of its time is saved then.
    gain = at_most(run.ms if alone_ms >= _WORTH * run.ms else alone_ms)
    # A layer in front with ReLU has such a zero point.
    return {"zero-point": {"zero_point": "0 or -128"}}, {"zero-point": gain, "relu": gain}


@advise(
    "ADV-MODE-16X8",
    "A zero point halves the speed",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="The input's zero point is neither 0 nor -128 and is subtracted inside the unit, in "
    "16x8 mode: half the kernels, no Deep1x1. SiLU, leaky and linear layers leave such zero "
    "points.",
    fixes=(fixes.ZERO_POINT, fixes.RELU_IN_FRONT),
)
def zero_point_halves_the_speed(subject: Subject) -> Iterator[Hit]:
    """A layer runs in 16x8 mode because of the zero point of its input."""
    for epoch, run, op in subject.layers(_SHARE):
        assert subject.graph is not None
        unit = convolutions(epoch)[0]
        if unit.simd != Simd.S16X8 or not _has_positions(subject.graph, op):
            continue
        fixes, gains = _zero_point_fix(subject, run, op)
        if (gains["zero-point"].ms or 0.0) >= _WORTH * run.ms:
            text = f"zero point {unit.fsub}"
            evidence = {"ms": round(run.ms, 6)}
            yield Hit(source(op), text, "0 or -128", evidence, fixes, gains, epoch.number)


def _has_positions(graph: Graph, op: Op) -> bool:
    """A dense layer over more than one pixel."""
    return is_dense(graph, op) and prod(graph.output_tensor(op).shape[:-1]) > 1


@advise(
    "ADV-CHANNELS",
    "Channel counts with only small divisors",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="Channels are cut into equal parts; these counts have no divisor near the size of the "
    "units, so the layer runs in many small parts.",
    fixes=(fixes.CHANGE_OUTPUTS, fixes.CHANGE_INPUTS, fixes.SPLIT_OUTPUTS, fixes.PAD_CHANNELS),
)
def channels_have_no_good_divisors(subject: Subject) -> Iterator[Hit]:
    """A layer runs in small parts because its channel counts have only small divisors."""
    for epoch, _, op in subject.layers(_SHARE):
        assert subject.graph is not None
        if not is_dense(subject.graph, op):
            continue
        layer = dense_layer(subject.graph, op, subject.machine)
        factor = layer.slowdown(subject.machine)
        if factor < _SLOW:
            continue
        fixes = channel_fixes(subject.graph, op, subject.machine)
        gains = {
            fix: _count_gain(subject, op, fix, parameters) for fix, parameters in fixes.items()
        }
        spent = subject.layer_ms(op)
        least = _WORTH * spent
        if not _joins_pay(subject, gains.get("split-outputs"), least):
            fixes = {fix: parameters for fix, parameters in fixes.items() if fix != "split-outputs"}
            gains.pop("split-outputs", None)
        if max((gain or 0.0 for gain in gains.values()), default=0.0) >= least:
            text = f"{layer.shape.inputs} -> {layer.shape.outputs} channels"
            evidence = {"ms": round(spent, 6), "slowdown": round(factor, 1)}
            bounds = {fix: at_most(gain) for fix, gain in gains.items()}
            yield Hit(source(op), text, None, evidence, fixes, bounds, epoch.number)


def _joins_pay(subject: Subject, gain: float | None, least: float) -> bool:
    """Parts of a bad count are never equal: where that means a library call, it must pay."""
    return gain is None or subject.machine.generation.concat_in_place or gain >= least


def _count_gain(
    subject: Subject, op: Op, fix: str, parameters: Mapping[str, Value]
) -> float | None:
    assert subject.graph is not None
    if fix == "split-outputs":
        layer = dense_layer(subject.graph, op, subject.machine)
        return _split_gain(subject, op, output_parts(layer, subject.machine))
    if fix == "pad-channels":
        return _pad_gain(subject, op, str(parameters["side"]), int(str(parameters["padded"])))
    count = int(str(parameters["channels"]))
    change = LayerChange(inputs=count) if fix == "change-inputs" else LayerChange(outputs=count)
    gain = subject.bench.gain_ms(subject.graph, op, change)
    return None if gain is None else max(0.0, gain)


def _pad_gain(subject: Subject, op: Op, side: str, padded: int) -> float | None:
    """All layers that share the count."""
    assert subject.graph is not None
    shared = shared_count(subject.graph, op, side)
    if shared is None:
        return None
    gains = []
    for layer, place in shared.layers():
        change = LayerChange(inputs=padded) if place == "inputs" else LayerChange(outputs=padded)
        gains.append(subject.bench.gain_ms(subject.graph, layer, change))
    if None in gains:
        return None
    copies = _copies_ms(subject, op, padded - shared.count) if shared.repeats else 0.0
    return max(0.0, sum(gain or 0.0 for gain in gains) - copies)


def _copies_ms(subject: Subject, op: Op, new: int) -> float:
    """Some channels of the layer's data a second time, behind the others."""
    assert subject.graph is not None
    data = subject.graph.first_input(op)
    positions = prod(data.shape[:-1])
    joined = subject.bench.join_ms(positions, (data.shape[-1], new))
    return subject.bench.pass_ms(positions * new) + joined


def _split_gain(subject: Subject, op: Op, parts: Sequence[int]) -> float | None:
    """Parts one after the other, and what joins them."""
    assert subject.graph is not None
    changes = [LayerChange(outputs=part) for part in parts]
    gain = subject.bench.gain_ms(subject.graph, op, *changes)
    positions = prod(subject.graph.output_tensor(op).shape[:-1])
    return None if gain is None else max(0.0, gain - subject.bench.join_ms(positions, parts))


@advise(
    "ADV-VECTORS",
    "Coefficients are streamed for every pixel",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="The layer has more output channels than the arithmetic unit holds coefficients for; "
    "they are read from memory again for every pixel.",
    fixes=(fixes.SPLIT_OUTPUTS,),
)
def coefficients_are_streamed(subject: Subject) -> Iterator[Hit]:
    """More output channels than the arithmetic unit holds coefficients for."""
    limit = subject.machine.arith.max_vector
    for epoch, run, op in subject.layers(_SHARE):
        assert subject.graph is not None
        outputs = subject.graph.output_tensor(op).shape[-1]
        if outputs <= limit or not _has_positions(subject.graph, op):
            continue
        tried = {parts: _split_gain(subject, op, parts) for parts in _parts(subject, outputs)}
        parts, gain = max(tried.items(), key=lambda pair: pair[1] or 0.0)
        if gain is not None and gain >= _WORTH * run.ms:
            fixes = {"split-outputs": split_fix(parts)}
            evidence = {"ms": round(run.ms, 6)}
            gains = {"split-outputs": at_most(gain)}
            yield Hit(source(op), outputs, limit, evidence, fixes, gains, epoch.number)


def _parts(subject: Subject, count: int) -> Iterator[tuple[int, ...]]:
    """Parts within the limit: multiples of 8 but for the last and, where only equal parts are
    joined without the CPU, the fewest of those."""
    limit = subject.machine.arith.max_vector
    fewest = ceil(count / limit)
    size = min(limit, ceil(count / fewest / STEP) * STEP)
    yield tuple(min(size, count - first) for first in range(0, count, size))
    if not subject.machine.generation.concat_in_place:
        equal = next(n for n in range(fewest, count + 1) if count % n == 0)
        if equal <= _MOST_PARTS * fewest:
            yield (count // equal,) * equal


@advise(
    "ADV-ACCUMULATION",
    "Partial sums go through memory",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="The units cannot hold all input channels at once, so 16-bit sums are written and read "
    "back, once per pass.",
    fixes=(fixes.FEWER_INPUTS,),
)
def sums_go_through_memory(subject: Subject) -> Iterator[Hit]:
    """Partial sums that are written and read back set the time of a layer."""
    by_sums = (Bound.ACCUMULATOR, Bound.OUTPUT, Bound.BANK)
    for epoch, run in subject.hardware(_SHARE):
        passes = accumulation_passes(epoch)
        if passes > 1 and run.counters.bound in by_sums:
            evidence = {"ms": round(run.ms, 6), "bound": run.counters.bound.value}
            gains, text = {"fewer-inputs": at_most(run.ms)}, f"{passes} passes"
            yield Hit(epoch.origin, text, 1, evidence, gains=gains, epoch=epoch.number)
