"""Minimum and maximum with a constant number are clamps."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from npuscope.compiler.passes.base import replace_each
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.ops.functions import ClipAttrs


@dataclass(frozen=True, slots=True)
class ClampExtremes:
    name: str = "clamp-extremes"

    def run(self, graph: Graph, machine: Machine) -> bool:
        return replace_each(graph, lambda op: _clamp(graph, op))


def _limit(graph: Graph, op: Op) -> float | None:
    """The constant operand as a real number, if it is one number."""
    if op.kind not in ("Min", "Max"):
        return None
    constants = [graph.tensor(name) for name in op.inputs if graph.tensor(name).is_constant]
    if len(constants) != 1 or constants[0].elements != 1:
        return None
    value = float(np.asarray(constants[0].data).reshape(-1)[0])
    quant = constants[0].quant
    return (value - quant.zero_point) * quant.scale if quant else value


def _clamp(graph: Graph, op: Op) -> list[Op] | None:
    limit = _limit(graph, op)
    if limit is None:
        return None
    source = next(name for name in op.inputs if not graph.tensor(name).is_constant)
    attrs = ClipAttrs(-inf, limit) if op.kind == "Min" else ClipAttrs(limit, inf)
    return [op.replace(kind="Clip", inputs=(source,), attrs=attrs)]
