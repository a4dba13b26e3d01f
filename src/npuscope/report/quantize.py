"""What `quantize` made, as text and as JSON: time and signal to noise first, then why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npuscope.profiling.model import Profile
from npuscope.quantizing.advice import remedy, rescue, worst
from npuscope.report.figures import machine_line, model_line, ms, shorten
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.graph.model import Tensor
    from npuscope.machine.model import Machine
    from npuscope.quantizing.bench import ChoiceStep, Trial
    from npuscope.quantizing.outputs import OutputLoss
    from npuscope.quantizing.run import Quantized
    from npuscope.quantizing.sqnr import LayerLoss

# --- JSON; keys are added, never renamed ---

QUANTIZE_SCHEMA = "npuscope/quantize/1"
_WORST = 5  # layers that the text lists
_NAME = 48  # characters of a layer's name


def quantize_json(made: Quantized, output: str | None = None) -> dict[str, Any]:
    """The object of `npuscope quantize --json`; `output` is the file that was written."""
    samples = made.samples
    return {
        "schema": QUANTIZE_SCHEMA,
        "output": output,
        "tool": made.tool,
        "data": {
            "source": samples.source,
            "real": samples.real,
            "calibration": len(samples.calibration),
            "held_out": len(samples.held_out),
            "seed": made.wish.seed,
        },
        "calibration": made.method,
        "before": made.before and _profile(made.before),
        "after": _profile(made.after),
        "model_error": made.after.model_error,
        "plain": made.plain and _trial(made.plain),
        "usable": made.usable,
        "outputs": [_output(loss, made.machine) for loss in made.results],
        "inputs": [_tensor(tensor) for tensor in made.inputs],
        "results": [_tensor(tensor) for tensor in made.outputs],
        "choices": [_step(step) for step in made.steps],
        "layers": [_layer(loss) for loss in made.layers],
        "worst": [
            {"layer": loss.name, "drop_db": loss.drop_db, "help": remedy(loss, made.machine)}
            for loss in worst(made.layers, _WORST)
        ],
        "notes": list(made.notes),
        **({"interrupted": True} if made.interrupted else {}),
    }


def _profile(profile: Profile) -> dict[str, Any]:
    return {
        "total_ms": profile.total_ms,
        "interval_ms": list(profile.interval_ms),
        "counts": profile.counts,
        "unknown_ops": list(profile.unknown_ops),
        "weights_bytes": profile.memory.weights_bytes,
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "total_ms": trial.profile.total_ms,
        "counts": trial.profile.counts,
        "sqnr_db": dict(trial.sqnr_db),
    }


def _output(loss: OutputLoss, machine: Machine) -> dict[str, Any]:
    return {
        "name": loss.name,
        "sqnr_db": loss.sqnr_db,
        "groups": [
            {
                **{key: getattr(group, key) for key in ("axis", "first", "last", "width", "steps")},
                "sqnr_db": group.sqnr_db,
                "useless": group.useless,
                "help": rescue(loss, group, machine) if group.useless else None,
            }
            for group in loss.groups
        ],
    }


def _tensor(tensor: Tensor) -> dict[str, Any]:
    quant = tensor.quant
    return {
        "name": tensor.name,
        "dtype": tensor.dtype.value,
        "shape": list(tensor.shape),
        "scale": quant.scale if quant else None,
        "zero_point": quant.zero_point if quant else None,
    }


def _step(step: ChoiceStep) -> dict[str, Any]:
    return {
        "title": step.title,
        "kept": step.kept,
        "places": step.places,
        "reason": step.reason,
        "before": _trial(step.before),
        "after": _trial(step.after),
    }


def _layer(loss: LayerLoss) -> dict[str, Any]:
    return {
        "name": loss.name,
        "kind": loss.kind,
        "tensor": loss.tensor,
        "sqnr_db": loss.sqnr_db,
        "drop_db": loss.drop_db,
        "steps_db": loss.steps_db,
        "weights_db": loss.weights_db,
        "peak_ratio": loss.peak_ratio,
    }


# --- Text ---


def quantize_text(made: Quantized, output: str | None = None, *, every: bool = False) -> str:
    """`every` lists all layers, and the choices that were not taken."""
    lines = [
        _answer(made),
        *([f"written  {safe_terminal(output)}"] if output else ["written  nothing: give -o OUT"]),
        *_plain(made),
        f"data     {safe_terminal(made.samples.source)}; ranges from "
        f"{len(made.samples.calibration)}, compared on {len(made.samples.held_out)} held out",
        *_border(made),
        *_groups(made),
        *_choices(made, every),
        *_losses(made, every),
        *(f"note     {safe_terminal(note)}" for note in made.notes),
        model_line(made.after),
        machine_line(made.after),
        f"times    predicted, known error: {made.after.model_error}",
    ]
    return "\n".join(lines) + "\n"


def _answer(made: Quantized) -> str:
    worst_db = min(made.sqnr_db.values())
    word = "SQNR" if len(made.sqnr_db) == 1 else "worst output SQNR"
    mark = "" if made.samples.real else " on random data"
    least = "at least " if made.after.unknown_ops else ""
    time = f"{least}{ms(made.after.total_ms)} ms in int8{_counts(made.after)}"
    if not made.usable:
        lost = [loss.name for loss in made.results if loss.useless]
        names = ", ".join(f"'{safe_terminal(name)}'" for name in lost)
        return f"not usable{mark}: int8 loses {names} (see below); {time}"
    return f"{time}; {word} {worst_db:.1f} dB{mark}"


def _counts(profile: Profile) -> str:
    off = profile.counts["SW"] + profile.counts["HYBRID"]
    return f", {off} of {len(profile.epochs)} epochs off the NPU" if off else ", all on the NPU"


def _plain(made: Quantized) -> list[str]:
    lines = []
    if made.before is not None:
        lines.append(
            f"before   {ms(made.before.total_ms)} ms for the float model as if it were int8"
        )
    if made.plain is not None:
        db = min(made.plain.sqnr_db.values())
        total, tool = ms(made.plain.profile.total_ms), made.tool
        lines.append(
            f"plain    {total} ms, {db:.1f} dB: what {tool} makes by default from the same data"
        )
    return lines


def _border(made: Quantized) -> list[str]:
    rows = [("input ", tensor) for tensor in made.inputs]
    rows += [("output", tensor) for tensor in made.outputs]
    return [f"{side}   {_told(tensor)}" for side, tensor in rows]


def _groups(made: Quantized) -> list[str]:
    """Outputs that are lost, and columns that differ much from others of the same output."""
    lines = []
    for loss in made.results:
        for group in loss.groups:
            if group.axis is None and not group.useless:
                continue
            place = f"'{safe_terminal(loss.name)}'"
            if group.axis is not None:
                place += f", axis {group.axis}, {group.first} to {group.last}"
            steps = "" if group.steps is None else f", {group.steps:.1f} int8 steps"
            mark = "LOST     " if group.useless else "columns  "
            lines.append(f"{mark}{place}: range {group.width:.4g}{steps}, {group.sqnr_db:.1f} dB")
            if group.useless:
                lines.append(f"         {safe_terminal(rescue(loss, group, made.machine))}")
    return lines


def _told(tensor: Tensor) -> str:
    shape = "x".join(map(str, tensor.shape))
    text = f"{safe_terminal(tensor.name)}: {tensor.dtype.value} {shape}"
    if tensor.quant is None or tensor.dtype.is_float:
        return text
    zero = tensor.quant.zero_point
    byte = f"(byte {'-' if zero > 0 else '+'} {abs(zero)})" if zero else "byte"
    return f"{text}, real value = {tensor.quant.scale:.6g} * {byte}"


def _choices(made: Quantized, every: bool) -> list[str]:
    shown = [step for step in made.steps if every or step.kept]
    lines = ["choices"] if shown else []
    for step in shown:
        places = f" ({step.kept} of {step.places})" if step.places > 1 else ""
        mark = "" if step.kept else "not taken: "
        lines.append(f"  - {step.title}{places}: {mark}{step.reason}")
    return lines


def _losses(made: Quantized, every: bool) -> list[str]:
    found = worst(made.layers, _WORST)
    lines = ["layers that lose most, and what would help"] if found else []
    for loss in found:
        name = shorten(safe_terminal(loss.name), _NAME)
        lines.append(
            f"  {name} ({loss.kind}): {loss.drop_db:.1f} dB, down to {loss.sqnr_db:.1f} dB"
        )
        lines.append(f"     {remedy(loss, made.machine)}")
    if every:
        lines.append("all layers: SQNR so far, lost here, of rounding alone, of weights (dB)")
        lines += [_row(loss) for loss in made.layers]
    return lines


def _row(loss: LayerLoss) -> str:
    weights = "-" if loss.weights_db is None else f"{loss.weights_db:.1f}"
    name = shorten(safe_terminal(loss.name), _NAME)
    return (
        f"  {name:<{_NAME}} {loss.kind:<18} {loss.sqnr_db:7.1f} {loss.drop_db:7.1f} "
        f"{loss.steps_db:7.1f} {weights:>7}"
    )
