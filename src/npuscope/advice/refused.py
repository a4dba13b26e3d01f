"""Epochs off the NPU: the trail of refusals in the Program becomes findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from npuscope.advice.bench import Change
from npuscope.advice.fallen import Fallen, fallen_ops
from npuscope.advice.fitting import is_fitting
from npuscope.advice.subject import LAYERS, UNCOSTED, Subject
from npuscope.graph.model import Op
from npuscope.program.model import Buffer, Epoch, Refused
from npuscope.rules import RULES
from npuscope.rules.catalogue import Effect, FixTemplate, Kind, RuleInfo, make_finding, rule
from npuscope.rules.finding import Confidence, Finding, Hit, Severity, Value
from npuscope.rules.shuffles import shuffle_fix
from npuscope.rules.streams import (
    LayerShape,
    best_split,
    layer_shape,
    padded_count,
    parallel_kernels,
)

_STEP = 8  # channel counts that every mode can cut


def refused_findings(subject: Subject) -> Iterator[Finding]:
    """One finding for every op that left the NPU with a known reason."""
    for fallen in fallen_ops(subject):
        info = rule(fallen.refused.rule) or _unknown(fallen.refused)
        yield make_finding(_fitting(info, fallen, subject), _hit(info, fallen, subject))


def _unknown(refused: Refused) -> RuleInfo:
    """A rule that the catalogue does not hold (a program of another version)."""
    return RuleInfo(
        refused.rule,
        Kind.REFUSE,
        "The op does not run on the NPU",
        Severity.WARNING,
        Confidence.REPORTED,
        refused.reason,
    )


def _fitting(info: RuleInfo, fallen: Fallen, subject: Subject) -> RuleInfo:
    """The rule with the fixes that make sense at this place of the network."""
    fixes = (t for t in info.fixes if is_fitting(t.id, fallen.main, subject.program))
    return replace(info, fixes=tuple(fixes))


def _hit(info: RuleInfo, fallen: Fallen, subject: Subject) -> Hit:
    epoch = fallen.main
    value, limit = found_and_limit(fallen.refused)
    parameters = _parameters(subject, epoch)
    gains = {t.id: _gain(t, fallen, subject, parameters.get(t.id)) for t in info.fixes}
    others = sorted({r.rule for r in epoch.trail} - {fallen.refused.rule})
    evidence: dict[str, Value] = {
        "kind": epoch.kind.value,
        "epochs": [e.number for e, _ in fallen.epochs],
        "ms": round(fallen.ms, 6),
        "share": round(subject.share(fallen.ms), 4),
        "ms_known": _time_is_known(epoch, subject),
        "tensors": [_tensor(buffer) for buffer in _buffers(epoch, subject)],
        "way": fallen.refused.way,
        "also": [*others],
    }
    return Hit(epoch.origin, value, limit, evidence, parameters, gains, epoch.number)


def found_and_limit(refused: Refused) -> tuple[str, str | None]:
    """What the rule saw, apart from its sentence: 'sentence (found, limit 512)'."""
    sentence = next((known.sentence for known in RULES if known.id == refused.rule), None)
    text = refused.reason
    if sentence and text.startswith(f"{sentence} (") and text.endswith(")"):
        text = text[len(sentence) + 2 : -1]
    found, _, limit = text.rpartition(", limit ") if ", limit " in text else (text, "", "")
    return found, limit or None


def _buffers(epoch: Epoch, subject: Subject) -> list[Buffer]:
    buffers = subject.program.buffer_map()
    names = (*epoch.call.inputs, *epoch.call.outputs) if epoch.call else ()
    return [buffers[name] for name in dict.fromkeys(names) if name in buffers]


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
    if epoch.call is not None and epoch.call.kernel == "Transpose":
        return _shuffle(subject, epoch)
    op = _layer(subject, epoch)
    if op is None or subject.graph is None:
        return {}
    shape = layer_shape(subject.graph, op)
    if shape.outputs < 2:
        return {}
    parts = best_split(shape.outputs, parallel_kernels(shape, subject.machine))
    return {
        "change-outputs": {"channels": max(1, round(shape.outputs / _STEP)) * _STEP},
        "split-outputs": {"parts": "+".join(map(str, parts))},
        "pad-channels": _padding(shape, subject),
    }


def _shuffle(subject: Subject, epoch: Epoch) -> dict[str, Mapping[str, Value]]:
    ops = subject.graph.ops if subject.graph else ()
    found = (op for op in ops if op.kind == "Transpose" and set(op.origin) & set(epoch.origin))
    op = next(found, None)
    return {} if op is None or subject.graph is None else {**shuffle_fix(subject.graph, op)}


def _padding(shape: LayerShape, subject: Subject) -> Mapping[str, Value]:
    """Outputs of a layer that is off the NPU: any count that can be cut will do."""
    padded = padded_count([(shape, "outputs")], subject.machine)
    if padded == shape.outputs:
        padded = (shape.outputs // _STEP + 1) * _STEP
    return {"channels": shape.outputs, "padded": padded, "side": "outputs"}


def _layer(subject: Subject, epoch: Epoch) -> Op | None:
    ops = subject.graph.ops if subject.graph else ()
    layers = (op for op in ops if op.kind in LAYERS and set(op.origin) & set(epoch.origin))
    return next(layers, None)


def _gain(
    template: FixTemplate, fallen: Fallen, subject: Subject, given: Mapping[str, Value] | None
) -> float | None:
    """Time saved, by what the fix does; None where one of the two times is not known."""
    if not _time_is_known(fallen.main, subject):
        return None
    if template.effect is Effect.REMOVES:
        return fallen.ms
    if template.effect is Effect.MAPS:
        shapes = [buffer.shape for buffer in _buffers(fallen.main, subject) if not buffer.is_param]
        elements = max((prod(shape) for shape in shapes), default=0)
        return max(0.0, fallen.ms - subject.bench.pass_ms(elements))
    if template.effect is Effect.RESHAPES and given:
        return _reshaped(fallen, subject, given)
    return None


def _reshaped(fallen: Fallen, subject: Subject, given: Mapping[str, Value]) -> float | None:
    """The layer compiled again with other counts."""
    op = _layer(subject, fallen.main)
    if op is None or subject.graph is None:
        return None
    counts = str(given.get("parts") or given.get("padded") or given.get("channels")).split("+")
    changes = [Change(outputs=int(count)) for count in counts]
    times = [subject.bench.layer_ms(subject.graph, op, change) for change in changes]
    if None in times:
        return None
    return max(0.0, fallen.ms - sum(ms for ms in times if ms is not None))
