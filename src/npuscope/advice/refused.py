"""Epochs off the NPU: the trail of refusals in the Program becomes findings.

Epochs of one op are gathered with the conversions around it; fixes are kept where they fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from npuscope.advice.subject import UNCOSTED, Subject, convolutions
from npuscope.machine.npu_ops import LAYERS
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.profiling.model import EpochProfile
from npuscope.program.model import Buffer, Epoch, EpochKind, Program, Refused
from npuscope.program.units import Streng
from npuscope.rulebook import fixes
from npuscope.rulebook.counts import STEP, dense_layer, input_parts, padded_count, split_fix
from npuscope.rulebook.finding import Confidence, Finding, Hit, Severity, Value
from npuscope.rulebook.fix import FixEffect, FixTemplate, Gain, at_most
from npuscope.rulebook.layout import shuffle_fix
from npuscope.rulebook.queries import CONVERSIONS
from npuscope.rulebook.registry import Rule, RuleKind, make_finding, rule
from npuscope.structs import replace

_ALONE = "NPU"  # the way that needs no CPU
# Rules that say no more than that the op has no unit: each kind of op is a cause of its own.
_ABOUT_ANY_OP = ("NA-OP-SOFTWARE", "NA-OP-UNKNOWN")


def refused_findings(subject: Subject) -> Iterator[Finding]:
    """One finding for every op that left the NPU with a known reason."""
    for fallen in fallen_ops(subject):
        info = rule(fallen.refused.rule) or _unknown(fallen.refused)
        hit = _hit(info, fallen, subject)
        fixes = (t for t in info.fixes if is_fitting(t.id, fallen.main, subject.program))
        yield make_finding(replace(info, fixes=tuple(fixes)), hit, subject.graph)


def _unknown(refused: Refused) -> Rule:
    """A rule that we do not know (a program of another version)."""
    return Rule(
        refused.rule,
        RuleKind.REFUSE,
        "The op does not run on the NPU",
        Severity.WARNING,
        Confidence.REPORTED,
        refused.reason,
    )


def _hit(info: Rule, fallen: Fallen, subject: Subject) -> Hit:
    epoch = fallen.main
    refused = fallen.refused
    parameters = _parameters(subject, epoch)
    gains = {t.id: _gain(t, fallen, subject) for t in info.fixes}
    others = sorted({r.rule for r in epoch.trail} - {refused.rule})
    evidence: dict[str, Value] = {
        "kind": epoch.kind.value,
        "epochs": [e.number for e, _ in fallen.epochs],
        "ms": round(fallen.ms, 6),
        "share": round(subject.share(fallen.ms), 4),
        "ms_known": _time_is_known(epoch, subject),
        "tensors": [_tensor(buffer) for buffer in subject.buffers_of(epoch)],
        "way": refused.way,
        "also": [*others],
    }
    if info.id in _ABOUT_ANY_OP:
        # The slowest kernel of an op may be a conversion: the refusal names the op itself.
        evidence["op"] = str(refused.found.value("op") or refused.found)
    value = str(refused.found) or refused.sentence
    limit = None if refused.limit is None else str(refused.limit)
    return Hit(epoch.origin, value, limit, evidence, parameters, gains, epoch.number)


def _tensor(buffer: Buffer) -> Value:
    kind = "float" if buffer.is_float else "int" if buffer.signed else "uint"
    per_tensor = buffer.quant if buffer.quant and not buffer.quant.per_channel else None
    return {
        "name": buffer.name,
        "shape": [*buffer.shape],
        "dtype": f"{kind}{buffer.nbits}",
        "constant": buffer.is_param,
        "scale": per_tensor.scale if per_tensor else None,
        "zero_point": per_tensor.zero_point if per_tensor else None,
        "per_channel": bool(buffer.quant and buffer.quant.per_channel),
    }


def _time_is_known(epoch: Epoch, subject: Subject) -> bool:
    """Layers on the CPU have no calibrated cost: their time is a lower bound."""
    kernel = epoch.call.kernel if epoch.call else ""
    return kernel in subject.machine.software or kernel not in UNCOSTED


def _parameters(subject: Subject, epoch: Epoch) -> dict[str, Mapping[str, Value]]:
    """Channel counts that a layer should have, for the fixes that name them."""
    if subject.graph is None:
        return {}
    is_transpose = epoch.call is not None and epoch.call.kernel == "Transpose"
    kinds = ("Transpose",) if is_transpose else LAYERS
    ops = (op for op in subject.graph.ops if op.kind in kinds)
    op = next((op for op in ops if set(op.origin) & set(epoch.origin)), None)
    if op is None:
        return {}
    if is_transpose:
        return {**shuffle_fix(subject.graph, op)}
    layer = dense_layer(subject.graph, op, subject.machine)
    inputs = layer.shape.inputs
    if inputs < 2:
        return {}
    padded = padded_count([(layer, "inputs")], subject.machine)
    if padded == inputs:  # off the NPU, any count that can be cut will do
        padded = (inputs // STEP + 1) * STEP
    tiles, halves = (split_fix(parts)["parts"] for parts in input_parts(layer, subject.machine))
    return {
        "change-inputs": {"channels": max(1, round(inputs / STEP)) * STEP},
        "split-inputs": {"parts": tiles, "halves": halves},
        "pad-channels": {"channels": inputs, "padded": padded, "side": "inputs"},
    }


def _gain(template: FixTemplate, fallen: Fallen, subject: Subject) -> Gain:
    """No fix of an op saves more than the op takes, where that is known; epochs of the NPU that
    copy for it are a part of that. A network that ends earlier ends before all work of the CPU."""
    if template.id == fixes.CUT_TAIL.id:
        return at_most(tail_ms(subject))
    if template.effect is FixEffect.OTHER or not _time_is_known(fallen.main, subject):
        return Gain()
    origin = set(fallen.main.origin)
    copies_ms = sum(run.ms for epoch, run in subject.hardware() if origin & set(epoch.origin))
    return at_most(fallen.ms + copies_ms)


def tail_ms(subject: Subject) -> float:
    """What is off the NPU, or behind the last layer."""
    rows = list(subject.epochs())
    last = max((place for place, row in enumerate(rows) if convolutions(row[0])), default=-1)
    return sum(
        run.ms
        for place, (epoch, run) in enumerate(rows)
        if epoch.kind is not EpochKind.HW or place > last
    )


# --- Which epochs belong together ---


class Fallen(Struct, frozen=True):
    """An op off the NPU: its kernel, and the conversions around it, with one reason."""

    epochs: tuple[tuple[Epoch, EpochProfile], ...]
    refused: Refused

    @property
    def main(self) -> Epoch:
        """The epoch of the op itself."""
        kernels = [e for e, _ in self.epochs if e.call and e.call.kernel not in CONVERSIONS]
        return kernels[0] if kernels else self.epochs[0][0]

    @property
    def ms(self) -> float:
        return sum(run.ms for _, run in self.epochs)

    @property
    def only_converts(self) -> bool:
        return all(e.call and e.call.kernel in CONVERSIONS for e, _ in self.epochs)

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
    return _with_conversions(
        [Fallen(tuple(epochs), reasons[key]) for key, epochs in groups.items()]
    )


def deciding(epoch: Epoch) -> Refused:
    """What has to change for the next better way: with the CPU's help, then without."""
    helped = [refused for refused in epoch.trail if refused.way != _ALONE]
    return helped[0] if helped and epoch.kind is EpochKind.SW else epoch.trail[0]


def _with_conversions(everything: list[Fallen]) -> list[Fallen]:
    """Dequantize and Quantize around a float op cost what they cost because of that op."""
    ops = [fallen for fallen in everything if not fallen.only_converts]
    apart: list[Fallen] = []
    added: dict[int, list[tuple[Epoch, EpochProfile]]] = {}
    for fallen in everything:
        if fallen.only_converts:
            place = _cause(fallen, ops)
            if place is None:
                apart.append(fallen)
            else:
                added.setdefault(place, []).extend(fallen.epochs)
    joined = []
    for place, op in enumerate(ops):
        epochs = sorted((*op.epochs, *added.get(place, ())), key=lambda pair: pair[0].number)
        joined.append(replace(op, epochs=tuple(epochs)))
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


# --- Which fixes make sense for an epoch, by its place in the program ---


def is_fitting(fix_id: str, epoch: Epoch, program: Program) -> bool:
    """Fixes that are not in the table fit anywhere."""
    check = _PLACES.get(fix_id)
    return check is None or check(epoch, program)


def _reads_input(epoch: Epoch, program: Program) -> bool:
    return bool(_reads(epoch, program) & roots(program.inputs, program))


def _makes_output(epoch: Epoch, program: Program) -> bool:
    return bool(_makes(epoch, program) & roots(program.outputs, program))


def _is_last(epoch: Epoch, program: Program) -> bool:
    """Its result is an output, as it is or dequantized."""
    if _makes_output(epoch, program):
        return True
    results = _makes(epoch, program)
    readers = [e for e in program.executed if results & _reads(e, program)]
    return bool(readers) and all(
        e.call is not None and e.call.kernel == "Dequantize" and _makes_output(e, program)
        for e in readers
    )


def _is_behind_layers(epoch: Epoch, program: Program) -> bool:
    """Nothing that is worth the NPU comes after it."""
    last = next((e for e in reversed(program.executed) if convolutions(e)), None)
    return last is None or epoch.number > last.number


# What these do to numbers no layer can learn: other advice is needed.
_NOT_FEATURES = having(
    *(Trait.CONVERSION, Trait.INDEXED, Trait.FINDS_PLACES, Trait.COMPARISON, Trait.LOGIC)
) | {"TopK", "Where", "FloorDiv", "Mod"}


def _computes_features(epoch: Epoch, program: Program) -> bool:
    return epoch.call is None or epoch.call.kernel not in _NOT_FEATURES


def _casts_input(epoch: Epoch, program: Program) -> bool:
    is_cast = epoch.call is not None and epoch.call.kernel == "Cast"
    return is_cast and _reads_input(epoch, program)


def _reads(epoch: Epoch, program: Program) -> set[str]:
    return roots(buffers_read(epoch), program)


def _makes(epoch: Epoch, program: Program) -> set[str]:
    return roots(buffers_made(epoch), program)


def buffers_read(epoch: Epoch) -> tuple[str, ...]:
    return epoch.call.inputs if epoch.call else _engines(epoch, 0)


def buffers_made(epoch: Epoch) -> tuple[str, ...]:
    return epoch.call.outputs if epoch.call else _engines(epoch, 1)


def _engines(epoch: Epoch, direction: int) -> tuple[str, ...]:
    engines = (unit for unit in epoch.units if isinstance(unit, Streng))
    return tuple(e.addr_base.buffer for e in engines if e.dir == direction)


def roots(names: Iterable[str], program: Program) -> set[str]:
    """Buffers by the name of the one they lie in: a reshape is the same bytes."""
    buffers = program.buffer_map()
    wholes = set()
    for name in names:
        views: set[str] = set()
        # A pool that a file refers to as a whole lies in itself.
        while name in buffers and buffers[name].view_of and name not in views:
            views.add(name)
            name = buffers[name].view_of
        wholes.add(name)
    return wholes


_PLACES: dict[str, Callable[[Epoch, Program], bool]] = {
    "integer-input": _reads_input,
    "integer-output": _makes_output,
    "quantize-neighbours": lambda e, program: (
        not (_reads_input(e, program) or _makes_output(e, program))
    ),
    "drop-softmax": _is_last,
    "cut-tail": _is_behind_layers,
    "replace-block": _computes_features,
    "cast-outside": _casts_input,
}
