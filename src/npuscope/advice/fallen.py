"""Epochs off the NPU, gathered: an op, and the conversions that stand around it because of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from npuscope.advice.subject import Subject
from npuscope.profile.model import EpochProfile
from npuscope.program.model import Epoch, EpochKind, Refused

_CONVERSIONS = ("Quantize", "Dequantize")
_ALONE = "NPU"  # the way that needs no CPU


@dataclass(frozen=True, slots=True)
class Fallen:
    """An op off the NPU: its kernel, and the conversions around it, with one reason."""

    epochs: tuple[tuple[Epoch, EpochProfile], ...]
    refused: Refused

    @property
    def main(self) -> Epoch:
        """The epoch of the op itself."""
        kernels = [e for e, _ in self.epochs if e.call and e.call.kernel not in _CONVERSIONS]
        return kernels[0] if kernels else self.epochs[0][0]

    @property
    def ms(self) -> float:
        return sum(run.ms for _, run in self.epochs)

    @property
    def only_converts(self) -> bool:
        return all(e.call and e.call.kernel in _CONVERSIONS for e, _ in self.epochs)

    @property
    def read(self) -> set[str]:
        return {name for e, _ in self.epochs if e.call for name in e.call.inputs}

    @property
    def written(self) -> set[str]:
        return {name for e, _ in self.epochs if e.call for name in e.call.outputs}


def fallen_ops(subject: Subject) -> list[Fallen]:
    """Epochs of one source op and one reason belong together, with the conversions they cause."""
    groups: dict[tuple[tuple[str, ...], str], list[tuple[Epoch, EpochProfile]]] = {}
    reasons: dict[tuple[tuple[str, ...], str], Refused] = {}
    for epoch, run in subject.epochs(EpochKind.SW, EpochKind.HYBRID):
        if epoch.trail:
            reason = deciding(epoch)
            # Without a source op an epoch stands for itself.
            key = (epoch.origin or (epoch.name,), reason.rule)
            groups.setdefault(key, []).append((epoch, run))
            reasons[key] = reason
    found = [Fallen(tuple(epochs), reasons[key]) for key, epochs in groups.items()]
    return _with_conversions(found)


def deciding(epoch: Epoch) -> Refused:
    """What has to change for the next better way: with the CPU's help, then without."""
    helped = [refused for refused in epoch.trail if refused.way != _ALONE]
    return helped[0] if helped and epoch.kind is EpochKind.SW else epoch.trail[0]


def _with_conversions(found: list[Fallen]) -> list[Fallen]:
    """Dequantize and Quantize around a float op cost what they cost because of that op."""
    ops = [fallen for fallen in found if not fallen.only_converts]
    apart: list[Fallen] = []
    added: dict[int, list[tuple[Epoch, EpochProfile]]] = {}
    for fallen in found:
        if fallen.only_converts:
            place = _cause(fallen, ops)
            if place is None:
                apart.append(fallen)
            else:
                added.setdefault(place, []).extend(fallen.epochs)
    joined = [replace(op, epochs=_ordered(op.epochs, added.get(n, ()))) for n, op in enumerate(ops)]
    return sorted((*joined, *apart), key=lambda fallen: fallen.epochs[0][0].number)


def _cause(conversion: Fallen, ops: list[Fallen]) -> int | None:
    """Place of the op that reads what is dequantized, or makes what is quantized."""
    kernel = conversion.main.call.kernel if conversion.main.call else ""
    for place, op in enumerate(ops):
        meets = (
            conversion.written & op.read if kernel == "Dequantize" else conversion.read & op.written
        )
        if meets:
            return place
    return None


def _ordered(
    first: Iterable[tuple[Epoch, EpochProfile]], second: Iterable[tuple[Epoch, EpochProfile]]
) -> tuple[tuple[Epoch, EpochProfile], ...]:
    return tuple(sorted((*first, *second), key=lambda pair: pair[0].number))
