"""Evidence of a finding in words: where it runs, what it costs, what was seen.

JSON has the evidence under its keys; a reader gets sentences. A key that is not known here is
shown with its name as words, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npuscope.report.figures import count, ms, size
from npuscope.report.findings import is_rough
from npuscope.rulebook.finding import Finding
from npuscope.shown import counted

_PLACES = {"SW": "on the CPU", "HYBRID": "in a library call on the CPU"}
# Told together with another key, by the page itself, or by the rule's own sentence.
_ELSEWHERE = ("limit", "share", "ms_known", "way", "also", "tensors", "epochs", "deep1x1", "op")


def counted_many(value: int, name: str) -> str:
    """1,234 rows."""
    return f"{count(value)} {name}" + ("" if value == 1 else "s")


_WORDS: dict[str, Callable[[Any], str]] = {
    "kind": lambda value: _PLACES.get(value, ""),
    "bound": lambda value: f"bound by {value}",
    "slowdown": lambda value: f"about {value:g}x slower than a better shape",
    "layers": lambda value: counted(value, "layer"),
    "elements": lambda value: counted_many(value, "element"),
    "rows": lambda value: counted_many(value, "row"),
    "cycles": lambda value: f"{count(value)} NPU cycles",
    "weights_bytes": lambda value: f"{size(value)} of weights",
    "internal_ram_bytes": lambda value: f"{size(value)} of RAM on the chip",
    "lower_bound_bytes": lambda value: f"needs at least {size(value)}",
    "ms_waiting": lambda value: f"{ms(value)} ms of waiting",
    "mode": lambda value: f"mode {value}",
    "zero_point": lambda value: f"zero point {value}",
    "shift": lambda value: f"shifted by {counted(value, 'bit')}",
    "pieces": lambda value: f"cut into {counted(value, 'piece')}",
    "kernel": lambda value: f"kernel {value}",
    "reachable_share": lambda value: f"{value:.1%} of the range can be reached",
    "gain_is": lambda value: f"the gain is the {value}",
    "buffer": lambda value: f"buffer {value}",
    "pool": lambda value: f"in {value}",
    "control_bound": lambda value: f"{counted(value, 'epoch')} shorter than its start",
}


def evidence_text(finding: Finding) -> str:
    evidence = finding.evidence
    texts = [_cost(finding)]
    value, limit = evidence.get("value"), evidence.get("limit")
    if value is not None:
        bound = "" if limit is None else f" (limit: {_plain(limit)})"
        texts.append(f"{_plain(value)}{bound}")
    for key, value in evidence.items():
        if key in ("value", "ms", *_ELSEWHERE) or isinstance(value, bool):
            continue
        if key in _WORDS:
            texts.append(_WORDS[key](value))
        elif isinstance(value, (str, int, float)):
            texts.append(f"{key.replace('_', ' ')}: {_plain(value)}")
    return "; ".join(text for text in texts if text)


def _cost(finding: Finding) -> str:
    """The time that it takes now, and its share of the whole."""
    evidence = finding.evidence
    spent, share = evidence.get("ms"), evidence.get("share")
    if not isinstance(spent, (int, float)):
        return ""
    about = "about " if is_rough([finding]) else ""
    duration = f"{about}{ms(spent)} ms"
    return f"{duration}, {share:.1%} of the time" if isinstance(share, float) else duration


def _plain(value: object) -> str:
    if isinstance(value, int):
        return count(value) if abs(value) >= 10_000 else str(value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
