"""How near our compiler came to a vendor's build, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npuscope.advice.compare.fidelity import STEPS, EpochView, Fidelity
from npuscope.report.figures import shorten, size
from npuscope.text import safe_terminal

_SHOWN = 20
_SIDE = 44


def fidelity_json(fidelity: Fidelity) -> dict[str, Any]:
    return {
        "score": round(fidelity.score, 4),
        "epochs": {"theirs": fidelity.theirs, "ours": fidelity.ours},
        "equal": {step: fidelity.equal(step) for step in _steps(fidelity)},
        "ram_bytes": dict(zip(("theirs", "ours"), fidelity.ram_bytes, strict=True)),
        "weights_bytes": dict(zip(("theirs", "ours"), fidelity.weights_bytes, strict=True)),
        "differences": [
            {"differs": pair.differs, "theirs": _view(pair.theirs), "ours": _view(pair.ours)}
            for pair in fidelity.pairs
            if pair.differs
        ],
        "notes": list(fidelity.notes),
    }


def _steps(fidelity: Fidelity) -> tuple[str, ...]:
    return STEPS if fidelity.has_registers else STEPS[:2]


def _view(view: EpochView | None) -> dict[str, Any] | None:
    if view is None:
        return None
    return {
        "epochs": [view.first, view.last],
        "kind": view.kind.value,
        "ops": list(view.ops),
        "units": dict(view.units),
        "tile": list(view.tile),
        "placement": list(view.placement),
        "from": list(view.origin),
    }


def fidelity_lines(fidelity: Fidelity, every: bool) -> Iterator[str]:
    steps = ", ".join(f"{step} {fidelity.equal(step)}" for step in _steps(fidelity))
    yield (
        f"fidelity {100 * fidelity.score:.1f}%: {fidelity.theirs} epochs in the build, "
        f"{fidelity.ours} in ours; equal up to {steps}"
    )
    yield (
        f"memory   RAM {size(fidelity.ram_bytes[0])} -> {size(fidelity.ram_bytes[1])}"
        f"{_share(fidelity.ram_bytes)}, weights {size(fidelity.weights_bytes[0])} -> "
        f"{size(fidelity.weights_bytes[1])}{_share(fidelity.weights_bytes)}"
    )
    yield from (f"note     {safe_terminal(note)}" for note in fidelity.notes)
    if not fidelity.has_registers:
        yield "note     the build has no unit registers: only kinds and operations are compared"
    yield from _difference_lines(fidelity, every)


def _share(pair: tuple[int, int]) -> str:
    return f" ({100 * (pair[1] / pair[0] - 1):+.1f}%)" if pair[0] else ""


def _difference_lines(fidelity: Fidelity, every: bool) -> Iterator[str]:
    differences = [pair for pair in fidelity.pairs if pair.differs]
    if not differences:
        return
    yield f"{'differs':<10} {'the build':<{_SIDE}} {'ours':<{_SIDE}} from"
    for pair in differences if every else differences[:_SHOWN]:
        views = (view for view in (pair.ours, pair.theirs) if view is not None)
        source = ", ".join(next((view.origin for view in views if view.origin), ()))
        what = pair.differs if pair.theirs and pair.ours else "only one"
        yield (
            f"{what:<10} {_side(pair.theirs, pair.differs):<{_SIDE}} "
            f"{_side(pair.ours, pair.differs):<{_SIDE}} {shorten(safe_terminal(source), 40)}"
        ).rstrip()
    if len(differences) > _SHOWN and not every:
        yield f"and {len(differences) - _SHOWN} more (--verbose)"


def _side(view: EpochView | None, differs: str) -> str:
    if view is None:
        return "-"
    texts = {"tile": ", ".join(view.tile), "placement": ", ".join(view.placement)}
    return shorten(safe_terminal(f"{view.first}: {texts.get(differs) or view.text}"), _SIDE)
