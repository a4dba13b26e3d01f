"""Advice on software epochs beyond their reasons."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.advice.refused import is_fitting, tail_ms
from npuscope.advice.subject import Subject, convolutions
from npuscope.profiling.model import EpochProfile
from npuscope.program.model import Buffer, Epoch, EpochKind
from npuscope.rulebook import fixes
from npuscope.rulebook.finding import Confidence, Hit, Severity, Value
from npuscope.rulebook.fix import at_most
from npuscope.rulebook.registry import advise

# Sizes at which results were reported wrong, and kernels to hang. Both come from single reports on
# boards, where the true limits were not looked for.
_LARGE_OUTPUT_BYTES = 64_000
_LARGE_FLOAT_BYTES = 256_000
# A tail worth a cut: a Softmax or a dequantization alone have rules of their own.
_MANY_OPS = 4
_LEAST_SHARE = 0.05


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
            evidence: dict[str, Value] = {
                "ms": round(run.ms, 6),
                "share": round(subject.share(run.ms), 4),
                "kind": epoch.kind.value,
                "epochs": [epoch.number],
            }
            last = is_fitting("cut-tail", epoch, subject.program)
            yield Hit(
                epoch.origin,
                text,
                "HW",
                evidence,
                gains={"cut-tail": at_most(tail_ms(subject))},
                epoch=epoch.number,
                unfit=() if last else ("cut-tail",),
            )


@advise(
    "ADV-TAIL",
    "Post-processing runs on the CPU",
    severity=Severity.WARNING,
    confidence=Confidence.VERIFIED,
    cause="After the last layer the CPU decodes results in many small ops, one kernel call after "
    "the other; the application can do the same in one loop, and only for what it needs.",
    fixes=(fixes.DECODE_OUTSIDE,),
)
def results_are_decoded(subject: Subject) -> Iterator[Hit]:
    """Many software epochs after the last layer."""
    tail: list[tuple[Epoch, EpochProfile]] = []
    for epoch, run in subject.epochs():
        tail = [] if convolutions(epoch) else [*tail, (epoch, run)]
    away = [(epoch, run) for epoch, run in tail if epoch.kind is not EpochKind.HW]
    cost = sum(run.ms for _, run in away)
    ops = tuple(dict.fromkeys(name for epoch, _ in away for name in epoch.origin))
    if len(ops) >= _MANY_OPS and subject.share(cost) >= _LEAST_SHARE:
        text = f"{len(ops)} CPU ops after the last layer"
        evidence: dict[str, Value] = {
            "ms": round(cost, 6),
            "share": round(subject.share(cost), 4),
            "epochs": [epoch.number for epoch, _ in away],
        }
        gains = {fixes.DECODE_OUTSIDE.id: at_most(tail_ms(subject))}
        yield Hit(ops, text, 0, evidence, gains=gains, epoch=away[0][0].number)


@advise(
    "ADV-SW-OUTPUT",
    "A software epoch with a large result",
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
        for buffer in subject.buffers_of(epoch):
            if buffer.is_param:
                continue
            is_output = buffer.name in subject.program.outputs
            if is_output and buffer.size_bytes >= _LARGE_OUTPUT_BYTES:
                yield _large(epoch, buffer, _LARGE_OUTPUT_BYTES)
            elif (
                buffer.is_float
                and buffer.name in outside
                and buffer.size_bytes >= _LARGE_FLOAT_BYTES
            ):
                yield _large(epoch, buffer, _LARGE_FLOAT_BYTES)


def _large(epoch: Epoch, buffer: Buffer, limit: int) -> Hit:
    evidence = {"buffer": buffer.name, "pool": buffer.pool}
    return Hit(epoch.origin, buffer.size_bytes, limit, evidence, epoch=epoch.number)
