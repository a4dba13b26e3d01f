"""A large maximum at stride 1 becomes a chain of 3x3 ones: the same maximum, in steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from npuscope.compiler.passes.base import replace_each
from npuscope.graph.limits import check_pieces
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.ops.reduce import PoolAttrs


@dataclass(frozen=True, slots=True)
class DecomposePool:
    name: str = "decompose-pool"

    def run(self, graph: Graph, machine: Machine) -> bool:
        limit = machine.pool.max_window
        return replace_each(
            graph, lambda op: _steps(graph, op) if _decomposable(op, limit) else None
        )


def _decomposable(op: Op, limit: int) -> bool:
    """Odd square windows at stride 1, padded to keep the size."""
    if op.kind != "MaxPool":
        return False
    attrs = op.attrs_as(PoolAttrs)
    size = attrs.window[0]
    same = attrs.window == (size, size) and attrs.strides == (1, 1)
    return same and size > limit and size % 2 == 1 and set(attrs.pads) == {size // 2}


def _steps(graph: Graph, op: Op) -> list[Op]:
    attrs = op.attrs_as(PoolAttrs)
    small = replace(attrs, window=(3, 3), pads=(1, 1, 1, 1))
    target = graph.output_tensor(op)
    chain: list[Op] = []
    source = op.inputs[0]
    steps = attrs.window[0] // 2
    check_pieces(steps, op.name)
    for number in range(steps):
        last = number == steps - 1
        name = op.outputs[0] if last else graph.fresh_name(f"{op.outputs[0]}.step{number}")
        if not last:
            graph.add(replace(target, name=name, quant=graph.first_input(op).quant))
        chain.append(Op("MaxPool", f"{op.name}.{number}", (source,), (name,), small, op.origin))
        source = name
    return chain
