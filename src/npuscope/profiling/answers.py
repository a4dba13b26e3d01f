"""Whether the answers that an output gives to its task are the same."""

from __future__ import annotations

import numpy as np

from npuscope.graph.model import Graph
from npuscope.ops.table import having
from npuscope.ops.traits import Trait

_MOST_STEPS_BACK = 4


def same_answers(graph: Graph, name: str, values: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """One value for each answer, true where it is the same; none where there are no classes.

    Classes are the last axis of a vector, and of whatever a Softmax made. Places of ArgMax are
    answers as they are. Of several equal scores any may win.
    """
    kind = _maker(graph, name)
    if kind in having(Trait.FINDS_PLACES):
        return np.asarray(values == expected).ravel()
    classes = expected.shape[-1] if expected.ndim else 0
    if classes < 2 or (expected.size != classes and kind != "Softmax"):
        return np.zeros(0, bool)
    rows, scores = values.reshape(-1, classes), expected.reshape(-1, classes)
    scores_of_choice = np.take_along_axis(scores, rows.argmax(1)[:, None], 1)[:, 0]
    return np.asarray(scores_of_choice == scores.max(1))


def _maker(graph: Graph, name: str) -> str:
    """The op behind an output, past those that only move or convert its values."""
    makers = graph.producers()
    for _ in range(_MOST_STEPS_BACK):
        op = makers.get(name)
        if op is None:
            return ""
        if op.kind not in having(Trait.MOVES, Trait.CONVERSION):
            return op.kind
        name = op.inputs[0]
    return ""
