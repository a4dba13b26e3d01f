"""A validation as text and JSON: how far the NPU's arithmetic is from the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from npuscope.profiling.verdict import LAYER_LSB, MOST_BIAS, MUCH_SATURATED, RULE
from npuscope.records import encode
from npuscope.report.figures import shorten
from npuscope.shown import counted
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.profiling.bisection import Bisection
    from npuscope.profiling.validate import Validation

VALIDATE_SCHEMA = "npuscope/validate/1"
BISECT_SCHEMA = "npuscope/bisect/1"
_SHOWN = 3  # layers that disagree, or that were not compared
_LAYER_KEYS = ("epoch", "ops", "origin", "exact_share", "within_1_lsb_share", "max_lsb")


def validation_json(validation: Validation) -> dict[str, Any]:
    """The record's own fields are the keys."""
    return {"schema": VALIDATE_SCHEMA, **encode(validation, whole=True)}


def validation_text(validation: Validation) -> str:
    head = f"{'output':<24} {'exact':>8} {'<=1 LSB':>8} {'max LSB':>8} {'rms LSB':>8}"
    lines = [safe_terminal(validation.sentence)]
    places = validation.contradictions[1:_SHOWN]
    lines += [f"also: {safe_terminal(place)}" for place in places]
    lines += [f"note: {safe_terminal(note)}" for note in validation.notes]
    lines.append(f"rule: {RULE}")
    lines.append(f"{head} {'rounding':>8} {'cosine':>9}")
    for row in validation.outputs:
        lines.append(
            f"{shorten(safe_terminal(row.name), 24):<24} {row.exact_share:>8.2%} "
            f"{row.within_1_lsb_share:>8.2%} {row.max_lsb:>8g} {row.rms_lsb:>8.3g} "
            f"{row.rounding_rms_lsb:>8.3g} {row.cosine:>9.6f}"
        )
    for layer in validation.broken[:_SHOWN]:
        name = safe_terminal(f"{layer.epoch} ({', '.join(layer.origin or layer.ops)})")
        near = f"{layer.near_share:.1%} within {LAYER_LSB:g} LSB"
        near += f", {layer.channel_near_share:.1%} of its worst channel"
        if abs(layer.bias) > MOST_BIAS:
            near += f", {layer.bias * LAYER_LSB:+.2g} LSB on average"
        lines.append(f"disagrees: {name}, {near}")
    lines += _worst(validation)
    if validation.not_compared:
        names = validation.not_compared[:_SHOWN]
        more = len(validation.not_compared) - len(names)
        rest = f" and {more} more" if more else ""
        lines.append(f"not compared: {safe_terminal(', '.join(names))}{rest}")
    if validation.kinds:
        tried = ", ".join(f"{kind} {worst:g} LSB" for kind, worst in validation.kinds)
        lines.append(f"other inputs: outputs are at most this far off: {tried}")
    lines += [f"damaged: {safe_terminal(place)}" for place in validation.damaged[1:_SHOWN]]
    lines.append(f"saturated share: {validation.saturated_share:.3%}")
    off = not validation.passed or validation.saturation_explains
    if off and validation.saturated_share > MUCH_SATURATED:
        lines.append("sums saturate on these inputs: try samples of your own with --inputs")
    lines.append(_reference(asdict(validation.reference)))
    return "\n".join(lines) + "\n"


def _worst(validation: Validation) -> list[str]:
    """Where the rule holds, the op that is furthest off is no fault."""
    layer = min(validation.layers, key=lambda layer: layer.exact_share, default=None)
    if layer is None or not validation.worst_op or layer.exact_share == 1:
        return []
    op = safe_terminal(validation.worst_op)
    if validation.broken:
        return [f"first op to look at: {op}"]
    return [f"furthest off: {op}, {layer.exact_share:.2%} exact, at most {layer.max_lsb:g} LSB"]


def _reference(reference: dict[str, Any]) -> str:
    """Our reference executor against an outside runtime, where one ran."""
    if not reference["name"]:
        return "reference: npuscope's own executor; not compared with another runtime"
    return (
        f"reference: {reference['mismatches']} of {reference['elements']} elements differ from "
        f"{reference['name']}, by at most {reference['max_lsb']:g} LSB"
    )


def bisection_json(bisection: Bisection) -> dict[str, Any]:
    """The first diverging layer, in the words of `validate`."""
    layer = None if bisection.first is None else asdict(bisection.first)
    return {
        "schema": BISECT_SCHEMA,
        "op": bisection.op,
        **{key: layer and layer[key] for key in _LAYER_KEYS},
        "rule": bisection.rule or None,
        "passed": bisection.passed,
        "differing": bisection.differing,
        "layers": bisection.layers,
        "seeds": bisection.seeds,
    }


def bisection_text(bisection: Bisection) -> str:
    compared = f"{counted(bisection.layers, 'layer')} compared, {bisection.differing} differ"
    layer = bisection.first
    if layer is None:
        return f"no layer differs from the reference\n{compared}\n"
    lines = [
        f"first op to differ: {safe_terminal(str(bisection.op))}, by up to {layer.max_lsb:g} LSB",
        f"epoch    {safe_terminal(layer.epoch)}: {safe_terminal(', '.join(layer.ops))}",
        f"rule     {bisection.rule}",
        f"exact    {layer.exact_share:.2%}, within 1 LSB {layer.within_1_lsb_share:.2%}",
        compared,
    ]
    return "\n".join(lines) + "\n"
