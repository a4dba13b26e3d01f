"""How two builds of one model are matched that share no names: by the work, in order.

Some compilers number the ops of their own graph and forget the model's names. What they state of
an epoch's operations is the same for the same layers, so these epochs are anchors; what lies
between two anchors belongs together.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

from npuscope.profile.model import EpochProfile

_Work = tuple[str, str]


def places(
    a: Sequence[EpochProfile], b: Sequence[EpochProfile]
) -> tuple[dict[int, str], dict[int, str]]:
    """The place of every epoch of both sides, by its index; the same place is the same row."""
    matcher = SequenceMatcher(None, list(map(_work, a)), list(map(_work, b)), autojunk=False)
    x: dict[int, str] = {}
    y: dict[int, str] = {}
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        between = f"{a_from} {b_from}"
        for step, epoch in enumerate(a[a_from:a_to]):
            x[epoch.index] = f"{between} {step}" if tag == "equal" else between
        for step, epoch in enumerate(b[b_from:b_to]):
            y[epoch.index] = f"{between} {step}" if tag == "equal" else between
    return x, y


def _work(epoch: EpochProfile) -> _Work:
    """Operations where they are stated, else the last operator: the one that gives the result."""
    if epoch.claims.ops:
        return epoch.kind.value, str(epoch.claims.ops)
    return epoch.kind.value, "".join(epoch.operators[-1:])
