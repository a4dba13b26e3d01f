"""What `quantize` made, as text and as JSON: time and signal to noise first, then why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npuscope.profiling.model import Profile
from npuscope.quantizing.advice import remedy, rescue, worst
from npuscope.records import encode
from npuscope.report.accuracy import range_text, value_text
from npuscope.report.figures import machine_line, model_line, ms, shorten
from npuscope.shown import counted
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from msgspec import Struct

    from npuscope.graph.model import Tensor
    from npuscope.machine.model import Machine
    from npuscope.profiling.model import Profile
    from npuscope.quantizing.outputs import ColumnGroup, OutputLoss
    from npuscope.quantizing.run import Quantized
    from npuscope.quantizing.trial import Trial

# --- JSON; keys are added, never renamed ---

QUANTIZE_SCHEMA = "npuscope/quantize/1"
_WORST = 5  # layers that the text lists
_NAME = 48  # characters of a layer's name


def quantize_json(result: Quantized, output: str | None = None) -> dict[str, Any]:
    """The object of `npuscope quantize --json`; `output` is the file that was written."""
    samples = result.samples
    return {
        "schema": QUANTIZE_SCHEMA,
        "output": output,
        "tool": result.tool,
        "data": {
            "source": samples.source,
            "real": samples.real,
            "calibration": len(samples.calibration),
            "held_out": len(samples.held_out),
            "seed": result.wish.seed,
        },
        "calibration": result.method,
        "before": result.before and _profile(result.before),
        "after": _profile(result.after),
        "model_error": result.after.model_error,
        "plain": result.plain and _trial(result.plain),
        "usable": result.usable,
        "verdict": result.verdict,
        "outputs": [_output(loss, result.machine) for loss in result.results],
        "inputs": [_tensor(tensor) for tensor in result.inputs],
        "results": [_tensor(tensor) for tensor in result.outputs],
        "choices": [
            {
                "title": step.title,
                "kept": step.kept,
                "places": step.places,
                "reason": step.reason,
                "before": _trial(step.before),
                "after": _trial(step.after),
            }
            for step in result.steps
        ],
        "layers": [
            {
                "name": loss.name,
                "kind": loss.kind,
                "tensor": loss.tensor,
                "sqnr_db": loss.sqnr_db,
                "drop_db": loss.drop_db,
                "steps_db": loss.steps_db,
                "weights_db": loss.weights_db,
                "peak_ratio": loss.peak_ratio,
            }
            for loss in result.layers
        ],
        "worst": [
            {"layer": loss.name, "drop_db": loss.drop_db, "help": remedy(loss, result.machine)}
            for loss in worst(result.layers, _WORST)
        ],
        "notes": list(result.notes),
        "task": result.judgement and encode(result.judgement, whole=True),
        **({"interrupted": True} if result.interrupted else {}),
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


def _tensor(tensor: Tensor) -> dict[str, Any]:
    quant = tensor.quant
    return {
        "name": tensor.name,
        "dtype": tensor.dtype.value,
        "shape": list(tensor.shape),
        "scale": quant.scale if quant else None,
        "zero_point": quant.zero_point if quant else None,
    }


# --- Text ---


def _output(loss: OutputLoss, machine: Machine | Struct) -> dict[str, Any]:
    return {
        "name": loss.name,
        "sqnr_db": loss.sqnr_db,
        "groups": [
            {
                **{key: getattr(group, key) for key in ("axis", "first", "last", "width", "steps")},
                **{key: getattr(group, key) for key in ("sqnr_db", "spread_db", "error")},
                **{key: getattr(group, key) for key in ("useless", "doubtful")},
                "help": rescue(loss, group, machine) if _mark(group) else None,
            }
            for group in loss.groups
        ],
    }


def quantize_text(result: Quantized, output: str | None = None, *, every: bool = False) -> str:
    """`every` lists all layers, and the choices that were not taken."""
    rows = [("input ", tensor) for tensor in result.inputs]
    rows += [("output", tensor) for tensor in result.outputs]
    lines = [
        answer(result),
        *([f"written  {safe_terminal(output)}"] if output else ["written  no file: give -o OUT"]),
        *_plain(result),
        *_judged(result),
        f"data     {safe_terminal(result.samples.source)}; ranges from "
        f"{len(result.samples.calibration)}, {_compared(result)}",
        *[f"{side}   {_tensor_line(tensor)}" for side, tensor in rows],
        *_groups(result),
        *_choices(result, every),
        *_losses(result, every),
        *(f"note     {safe_terminal(note)}" for note in result.notes),
        model_line(result.after),
        machine_line(result.after),
        f"times    predicted, known error: {result.after.model_error}",
    ]
    return "\n".join(lines) + "\n"


def answer(result: Quantized) -> str:
    worst_db = min(result.sqnr_db.values())
    word = "SQNR" if len(result.sqnr_db) == 1 else "worst output SQNR"
    mark = "" if result.samples.real else " on random data"
    off = sum(result.after.counts.get(kind, 0) for kind in ("SW", "HYBRID"))
    places = f"{off} of {result.after.epoch_count} epochs off the NPU" if off else "all on the NPU"
    time = f"{_time(result.after)} in int8, {places}"
    judged = result.judgement
    if judged is not None:
        worth = judged.rows[-1].figures[0]
        time += f"; {worth.name} {value_text(worth)} ({_drop(judged.drop)} the float model)"
    if not result.usable:
        lost = _names([loss for loss in result.results if loss.useless])
        return f"not usable{mark}: int8 loses {lost} (see below); {time}"
    weak = [(group.spread_db, loss) for loss in result.results for group in loss.doubtful]
    if weak and judged is None:  # answers tell more than decibels
        db, loss = min(weak, key=lambda pair: pair[0])
        more = f" and {len(weak) - 1} more" if len(weak) > 1 else ""
        return (
            f"doubtful{mark}: the error of {_names([loss])}{more} is {10 ** (-db / 20):.0%} of "
            f"what its values differ by ({db:.1f} dB, see below); {time}"
        )
    return f"{time}; {word} {worst_db:.1f} dB{mark}"


def _time(profile: Profile) -> str:
    """As `estimate` has it: no number where most of the work is of unknown cost."""
    if profile.is_mostly_unknown:
        return "time not known"
    least = "at least " if profile.unknown_ops else ""
    return f"{least}{ms(profile.total_ms)} ms"


def _drop(drop: float) -> str:
    if not drop:
        return "as"
    return f"{abs(drop):.1%} {'below' if drop > 0 else 'above'}"


def _compared(result: Quantized) -> str:
    judged = result.judgement
    if judged is None:
        return f"compared on {counted(len(result.samples.held_out), 'held-out sample')}"
    return f"chosen by {judged.choosing}, judged on {judged.unused} that no choice has seen"


def _judged(result: Quantized) -> list[str]:
    """One line per arithmetic, on samples that no choice has seen."""
    if result.judgement is None:
        return []
    lines = []
    for row in result.judgement.rows:
        figures = ", ".join(f"{f.name} {value_text(f)} {range_text(f)}" for f in row.figures)
        lines.append(f"answers  {row.title}: {figures}")
    changed = result.judgement.changed
    lines.append(f"changed  {changed.value:.2%} {range_text(changed)} of the answers by the NPU")
    return lines


def _names(losses: list[OutputLoss]) -> str:
    return ", ".join(f"'{safe_terminal(loss.name)}'" for loss in losses)


def _plain(result: Quantized) -> list[str]:
    lines = []
    if result.before is not None:
        lines.append(f"before   {_time(result.before)} for the float model as if it were int8")
    if result.plain is not None:
        db = min(result.plain.sqnr_db.values())
        total = _time(result.plain.profile)
        lines.append(
            f"plain    {total}, {db:.1f} dB: {result.tool} with default settings on the same data"
        )
    return lines


def _groups(result: Quantized) -> list[str]:
    """Outputs that are lost, and columns that differ much from others of the same output."""
    lines = []
    for loss in result.results:
        for group in loss.groups:
            mark = _mark(group)
            if group.axis is None and not mark:
                continue
            place = _names([loss])
            if group.axis is not None:
                place += f", axis {group.axis}, {group.first} to {group.last}"
            steps = "" if group.steps is None else f", {group.steps:.1f} int8 steps"
            lines.append(
                f"{mark or 'columns':<9}{place}: range {group.width:.4g}{steps}, error "
                f"{group.error:.2g}, {group.sqnr_db:.1f} dB"
            )
            if mark:
                lines.append(f"         {safe_terminal(rescue(loss, group, result.machine))}")
    if result.verdict == "doubtful":
        lines.append("         whether the task stands it: `npuscope validate MODEL --data DIR`")
    return lines


def _mark(group: ColumnGroup) -> str:
    return "LOST" if group.useless else "DOUBTFUL" if group.doubtful else ""


def _tensor_line(tensor: Tensor) -> str:
    shape = "x".join(map(str, tensor.shape))
    text = f"{safe_terminal(tensor.name)}: {tensor.dtype.value} {shape}"
    if tensor.quant is None or tensor.dtype.is_float:
        return text
    zero = tensor.quant.zero_point
    byte = f"(byte {'-' if zero > 0 else '+'} {abs(zero)})" if zero else "byte"
    return f"{text}, real value = {tensor.quant.scale:.6g} * {byte}"


def _choices(result: Quantized, every: bool) -> list[str]:
    steps = [step for step in result.steps if every or step.kept]
    lines = ["choices"] if steps else []
    for step in steps:
        places = f" ({step.kept} of {step.places})" if step.places > 1 else ""
        mark = "" if step.kept else "not taken: "
        lines.append(f"  - {step.title}{places}: {mark}{step.reason}")
    return lines


def _losses(result: Quantized, every: bool) -> list[str]:
    losses = worst(result.layers, _WORST)
    lines = ["layers that lose most, and what would help"] if losses else []
    for loss in losses:
        name = shorten(safe_terminal(loss.name), _NAME)
        lines.append(
            f"  {name} ({loss.kind}): {loss.drop_db:.1f} dB, down to {loss.sqnr_db:.1f} dB"
        )
        lines.append(f"     {remedy(loss, result.machine)}")
    if every:
        lines.append("all layers, in dB: SQNR up to here, lost here, by rounding alone, by weights")
        for loss in result.layers:
            weights = "-" if loss.weights_db is None else f"{loss.weights_db:.1f}"
            lines.append(
                f"  {shorten(safe_terminal(loss.name), _NAME):<{_NAME}} {loss.kind:<18} "
                f"{loss.sqnr_db:7.1f} {loss.drop_db:7.1f} {loss.steps_db:7.1f} {weights:>7}"
            )
    return lines
