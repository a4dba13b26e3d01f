"""Advice on control: epochs too small for their start, a controller that is off."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.advice.subject import Subject
from npuscope.program.model import EpochKind
from npuscope.rulebook import fixes
from npuscope.rulebook.finding import Confidence, Hit, Severity
from npuscope.rulebook.fix import at_most
from npuscope.rulebook.registry import advise
from npuscope.sim.counters import Bound

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
    "weights latency depends on the number of epochs, not of operations.",
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
    gains = {"fewer-ops": at_most(control)}
    yield Hit((), text, f"below {_CONTROL_SHARE:.0%}", evidence, gains=gains)


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
    gains = {"epoch-controller": at_most(control)}
    yield Hit((), f"{len(by_cpu)} epochs", 0, evidence, gains=gains)
