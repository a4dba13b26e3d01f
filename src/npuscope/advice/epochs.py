"""Advice on whole epochs: control and starts, software, and passes without a layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from npuscope.advice.refused import buffers_made, buffers_read, roots
from npuscope.advice.subject import Subject, accumulation_passes, convolutions
from npuscope.profiling.model import EpochProfile
from npuscope.program.model import Buffer, Epoch, EpochKind
from npuscope.program.units import Streng
from npuscope.rulebook import fixes
from npuscope.rulebook.finding import Confidence, Hit, Severity, Value
from npuscope.rulebook.registry import advise
from npuscope.sim.counters import Bound

# Advice on control: epochs too small for their start, a controller that is off.

# Below about 1 MB of weights latency follows the number of epochs; with 20 and more of them, and
# two fifths of the time spent on starts, that is what there is to change.
_CONTROL_SHARE = 0.4
_MANY_EPOCHS = 20


@advise(
    "ADV-LAUNCH",
    "Epochs are too small to be worth their start",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="Programming and starting an epoch takes longer than running it. Below about 1 MB of "
    "weights latency follows the number of epochs, not the operations.",
    fixes=(fixes.FEWER_OPS,),
)
def starts_take_the_time(subject: Subject) -> Iterator[Hit]:
    """Programming epochs takes a large part of the time."""
    control, epochs = subject.profile.time.control_ms, list(subject.hardware())
    if len(epochs) < _MANY_EPOCHS or subject.share(control) < _CONTROL_SHARE:
        return
    small = sum(run.counters.bound is Bound.CONTROL for _, run in epochs)
    evidence = {"ms": round(control, 6), "epochs": len(epochs), "control_bound": small}
    text = f"{subject.share(control):.0%} of the time"
    yield Hit((), text, f"below {_CONTROL_SHARE:.0%}", evidence)


@advise(
    "ADV-CONTROLLER-OFF",
    "The CPU starts every epoch",
    severity=Severity.WARNING,
    confidence=Confidence.VERIFIED,
    cause="Without the epoch controller the CPU writes all registers and coefficients before each "
    "epoch; some shipped profiles leave it off.",
    fixes=(fixes.EPOCH_CONTROLLER,),
)
def cpu_starts_epochs(subject: Subject) -> Iterator[Hit]:
    """The epoch controller is off: the CPU programs every epoch."""
    by_cpu = [e for e, _ in subject.epochs(EpochKind.HW) if e.blob is None]
    if subject.program.epoch_controller or not by_cpu:
        return
    control = subject.profile.time.control_ms
    evidence = {"ms": round(control, 6), "share": round(subject.share(control), 4)}
    gains = {"epoch-controller": _controller_gain(subject)}
    yield Hit((), f"{len(by_cpu)} epochs", 0, evidence, gains=gains)


def _controller_gain(subject: Subject) -> float | None:
    """The network compiled again with the controller on."""
    if subject.graph is None:
        return None
    machine = replace(subject.machine, epoch_controller=True)
    after = subject.bench.network_ms(subject.graph, machine)
    return None if after is None else max(0.0, subject.profile.total_ms - after)


# Advice on software epochs beyond their reasons.

# Sizes at which results were reported wrong, and kernels to hang. Both come from single reports on
# boards, where the true limits were not looked for.
_LARGE_OUTPUT_BYTES = 64_000
_LARGE_FLOAT_BYTES = 256_000


@advise(
    "ADV-SOFTWARE",
    "An epoch off the NPU, for an unknown reason",
    severity=Severity.WARNING,
    confidence=Confidence.VERIFIED,
    cause="The program says that the CPU runs this epoch but not why: vendor files leave the "
    "reason out. `npuscope explain` on the model file finds it.",
    fixes=(fixes.CUT_TAIL,),
)
def no_reason_is_known(subject: Subject) -> Iterator[Hit]:
    """An epoch runs on the CPU and the program does not say why."""
    for epoch, run in subject.epochs(EpochKind.SW, EpochKind.HYBRID):
        if not epoch.trail:
            text = ", ".join(epoch.operators) or epoch.kind.value
            evidence = {"ms": round(run.ms, 6), "kind": epoch.kind.value}
            yield Hit(epoch.origin, text, "HW", evidence, epoch=epoch.number)


@advise(
    "ADV-SW-OUTPUT",
    "A large result of a software epoch",
    severity=Severity.WARNING,
    confidence=Confidence.REPORTED,
    cause="Software kernels were seen to corrupt results of 64 kB and more, and to hang on 256 kB "
    "of float in external RAM.",
    fixes=(fixes.SMALL_FLOAT,),
)
def software_makes_large_tensors(subject: Subject) -> Iterator[Hit]:
    """A software kernel makes a large output of the network, or reads much float from external
    RAM."""
    outside = {buffer.name for buffer in subject.external()}
    for epoch, _ in subject.epochs(EpochKind.SW):
        for buffer in _touched(epoch, subject):
            is_output = buffer.name in subject.program.outputs
            if is_output and buffer.size_bytes >= _LARGE_OUTPUT_BYTES:
                yield _large(epoch, buffer, _LARGE_OUTPUT_BYTES)
            elif _is_float_outside(buffer, outside):
                yield _large(epoch, buffer, _LARGE_FLOAT_BYTES)


def _is_float_outside(buffer: Buffer, outside: set[str]) -> bool:
    large = buffer.is_float and buffer.size_bytes >= _LARGE_FLOAT_BYTES
    return large and buffer.name in outside


def _touched(epoch: Epoch, subject: Subject) -> list[Buffer]:
    buffers = subject.program.buffer_map()
    names = (*epoch.call.inputs, *epoch.call.outputs) if epoch.call else ()
    return [buffers[name] for name in names if name in buffers and not buffers[name].is_param]


def _large(epoch: Epoch, buffer: Buffer, limit: int) -> Hit:
    evidence = {"buffer": buffer.name, "pool": buffer.pool}
    return Hit(epoch.origin, buffer.size_bytes, limit, evidence, epoch=epoch.number)


# Advice on epochs without a layer: copies, broadcasts, element-wise passes; shared banks.

# Shares of the time below which an epoch, or all of a kind, are not worth a line (choices).
_SHARE = 0.03
_BANK_SHARE = 0.05
_ELEMENTWISE_SHARE = 0.25
_SHOWN = 5  # names in one finding


@advise(
    "ADV-COPIES",
    "Time goes into copies",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="The epoch computes nothing: it joins, cuts or reorders channels.",
    fixes=(fixes.CHANNEL_LAST_BORDER, fixes.AVOID_COPY),
)
def epoch_only_copies(subject: Subject) -> Iterator[Hit]:
    """An epoch that computes nothing takes a good part of the time."""
    for epoch, run in subject.hardware(_SHARE):
        if epoch.units and all(isinstance(unit, Streng) for unit in epoch.units):
            moved = sum(e.total_bytes for e in epoch.units if isinstance(e, Streng) and e.dir)
            evidence = {"ms": round(run.ms, 6)}
            gains = {"avoid-copy": run.ms, "channel-last-border": run.ms}
            text, fixes = f"{moved} bytes copied", _border_fix(epoch, subject)
            yield Hit(epoch.origin, text, 0, evidence, fixes, gains, epoch.number)


def _border_fix(epoch: Epoch, subject: Subject) -> Mapping[str, Mapping[str, Value]]:
    """A change of layout at the border goes away where the application has the other one."""
    if set(epoch.operators) != {"Identity"}:
        return {}
    touched = buffers_read(epoch), buffers_made(epoch)
    borders = subject.program.inputs, subject.program.outputs
    for side, names, border in zip(("input", "output"), touched, borders, strict=True):
        if roots(names, subject.program) & roots(border, subject.program):
            return {"channel-last-border": {"side": side}}
    return {}


@advise(
    "ADV-BROADCAST",
    "A small operand is read again and again",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="A short operand is repeated for an element-wise op: some 3 cycles an element where a "
    "unit holds it, 33 where an engine reads it again; a full operand takes one.",
    fixes=(fixes.FULL_OPERAND,),
)
def operand_is_repeated(subject: Subject) -> Iterator[Hit]:
    """An engine or a unit repeats a short operand, and that sets the time of the epoch."""
    for epoch, run in subject.hardware(_SHARE):
        if run.counters.bound is not Bound.ARITH_VECTOR or convolutions(epoch):
            continue
        elements = max(e.total_elements for e in epoch.units if isinstance(e, Streng) and e.dir)
        gain = max(0.0, run.ms - subject.bench.pass_ms(elements))
        rate = f"{run.counters.core_cycles / elements:.3g} cycles an element"
        limit = f"{subject.machine.timing.elementwise_cycles:g}"
        evidence = {"ms": round(run.ms, 6)}
        gains = {"full-operand": gain}
        yield Hit(epoch.origin, rate, limit, evidence, gains=gains, epoch=epoch.number)


@advise(
    "ADV-ELEMENTWISE",
    "Much time in element-wise passes",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="Activations and affine ops that did not join a layer pass over whole tensors.",
    fixes=(fixes.FOLD_ELEMENTWISE,),
)
def passes_over_whole_tensors(subject: Subject) -> Iterator[Hit]:
    """Much of the time goes into element-wise epochs."""
    rows = [(e, run) for e, run in subject.hardware() if _is_elementwise(e, subject)]
    ms = sum(run.ms for _, run in rows)
    if rows and subject.share(ms) >= _ELEMENTWISE_SHARE:
        slowest = sorted(rows, key=lambda row: -row[1].ms)[:_SHOWN]
        ops = tuple(name for epoch, _ in slowest for name in epoch.origin)
        evidence = {"ms": round(ms, 6), "epochs": len(rows)}
        limit = f"below {_ELEMENTWISE_SHARE:.0%}"
        yield Hit(ops, f"{subject.share(ms):.0%} of the time", limit, evidence)


def _is_elementwise(epoch: Epoch, subject: Subject) -> bool:
    kinds = {unit.unit for unit in epoch.units}
    passes = bool(kinds & {"ARITH", "ACTIV"}) and not kinds & {"CONVACC", "POOL"}
    return passes and not subject.is_of_layers(epoch)


@advise(
    "ADV-BANK",
    "Streams share one memory bank",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="All engines of the epoch read or write the same bank (or bus interface), which cannot "
    "serve them at full speed.",
    fixes=(fixes.OPTION_SHUFFLE_DMA,),
)
def streams_share_a_bank(subject: Subject) -> Iterator[Hit]:
    """One memory bank or bus interface sets the time of an epoch."""
    for epoch, run in subject.hardware(_BANK_SHARE):
        if run.counters.bound not in (Bound.BANK, Bound.BUSIF):
            continue
        if accumulation_passes(epoch) == 1:  # partial sums have advice of their own
            evidence = {"ms": round(run.ms, 6), "pool": _busiest(run)}
            text = run.counters.bound.value
            yield Hit(epoch.origin, text, "features", evidence, epoch=epoch.number)


def _busiest(run: EpochProfile) -> str | None:
    moved = {row.pool: row.read_bytes + row.write_bytes for row in run.counters.traffic}
    return max(moved, key=lambda pool: moved[pool]) if moved else None
