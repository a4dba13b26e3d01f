"""What the pages of `fix` and `gate` show: steps with what each gave, checks with their limits."""

from __future__ import annotations

from typing import Any

from npuscope.advice.compare.model import Side
from npuscope.advice.fix.run import Fixed, FixStep
from npuscope.advice.gate import Gate
from npuscope.report.figures import clocks_of, machine_words
from npuscope.report.fix import answer as fix_answer
from npuscope.report.fix import change, runtime_words, step_outputs
from npuscope.report.gate import answer as gate_answer
from npuscope.report.gate import limit_text, shown
from npuscope.report.html.compare import compare_data, side_data
from npuscope.report.html.page import page
from npuscope.version import __version__

# --- fix ---


def fix_page(fixed: Fixed, output: str | None = None) -> str:
    """The HTML file of `npuscope fix`."""
    after, clocks = fixed.after, clocks_of(fixed.after)
    sides = [side_data("before", Side("as it was", fixed.before))]
    if fixed.applied:
        sides.append(side_data("after", Side(output or "with these fixes", after)))
    return page(
        {
            "view": "fix",
            "version": __version__,
            "title": after.model.file or "network",
            "answer": fix_answer(fixed),
            "machine": machine_words(after),
            "said": f"written to {output}" if output else "nothing was written: give -o FIXED",
            "sides": sides,
            "applied": [_step(step) for step in fixed.applied],
            "refused": [_step(step) for step in fixed.refused],
            "outputs": _outputs(fixed),
            "facts": [
                ["Clocks", f"MCU {clocks.mcu_mhz:g} MHz, NPU {clocks.npu_mhz:g} MHz"],
                ["Times", f"predicted, known error {after.model_error}"],
                ["Outputs", f"compared on {fixed.inputs.told}"],
                ["Checked", runtime_words(fixed)],
            ],
            "notes": list(after.notes),
        }
    )


def _step(step: FixStep) -> dict[str, Any]:
    candidate = step.candidate
    return {
        "title": candidate.fix.title,
        "rule": candidate.rule,
        "fix": candidate.fix.id,
        "places": step.places,
        "reason": step.outcome.reason,
        "before_ms": step.before.total_ms,
        "after_ms": step.after.total_ms if step.after else None,
        "change": change(step.before, step.after) if step.after else "",
        "outputs": step_outputs(step),
        "notes": list(step.notes),
        "misfits": list(step.misfits),
    }


def _outputs(fixed: Fixed) -> list[list[str]]:
    """[output, largest difference, share that is equal, SQNR] of the end against the original."""
    rows = []
    for effect in fixed.effects if fixed.applied else ():
        if effect.reference is None:
            rows.append([effect.output, "new", "", ""])
        elif effect.exact:
            rows.append([effect.output, "no difference", "100.0%", ""])
        else:
            ratio = f"{effect.sqnr_db:.1f} dB"
            share = f"{effect.exact_share:.1%}"
            rows.append([effect.output, f"up to {effect.max_lsb:g} LSB", share, ratio])
    return rows


# --- gate ---


def gate_page(gate: Gate) -> str:
    """The HTML file of `npuscope gate`; with a baseline also what changed since."""
    profile = gate.side.profile
    baseline = [["Baseline", gate.baseline.name]] if gate.baseline else []
    return page(
        {
            "view": "gate",
            "version": __version__,
            "title": gate.side.name,
            "answer": gate_answer(gate),
            "machine": machine_words(profile),
            "passed": gate.passed,
            "checks": [
                {
                    "name": check.name,
                    "value": shown(check, check.value),
                    "limit": limit_text(check),
                    "passed": check.passed,
                    "open": check.open,
                    "share": check.value / check.limit
                    if check.limit > 0 and check.kind != "min"
                    else None,
                }
                for check in gate.checks
            ],
            "comparison": compare_data(gate.comparison) if gate.comparison else None,
            "facts": [
                ["Source", gate.side.name],
                *baseline,
            ],
            "notes": list(gate.notes),
        }
    )
