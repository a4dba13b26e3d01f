"""When what a fix says is true of an op: conditions, declared beside the rules that offer it.

A fix without a condition is true wherever its rule finds something."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from msgspec import Struct

from npuscope.graph.model import Graph, Op
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.rulebook.fix import Value

# Values for the title of the fix, or True; None or False where it is not true of the op.
Condition = Callable[[Graph, Op], Mapping[str, Value] | bool | None]
C = TypeVar("C", bound=Condition)

# What is behind them is the same values, or some of them.
_SAME_VALUES = having(Trait.VIEW, Trait.CONVERSION) | {"Transpose"}


class _Row(Struct, frozen=True):
    ops: tuple[str, ...]  # kinds that it asks about; none: every kind
    holds: Condition


_CONDITIONS: dict[str, _Row] = {}


def holds_for(fix: str, *ops: str) -> Callable[[C], C]:
    """The function is asked for ops of these kinds before the fix is offered."""

    def register(condition: C) -> C:
        _CONDITIONS[fix] = _Row(ops, condition)
        return condition

    return register


def fitting(fix: str, graph: Graph, names: Iterable[str]) -> Mapping[str, Value] | None:
    """Values for the title where the fix is true of one of the ops that a finding names; None
    where it is true of none."""
    row, sources = _CONDITIONS.get(fix), set(names)
    if row is None:
        return {}
    ops = [op for op in graph.ops if sources & {*op.origin, op.name}]
    ops = [op for op in ops if not row.ops or op.kind in row.ops]
    if not ops:
        return {}  # the condition is about other ops
    for op in ops:
        answer = row.holds(graph, op)
        if answer or answer == {}:
            return answer if isinstance(answer, Mapping) else {}
    return None


# --- Questions that several conditions ask ---


def leads_out(graph: Graph, op: Op) -> bool:
    """Its result, as it is or moved and converted, is an output, and nothing else reads it."""
    readers = graph.consumers()
    waiting, ends = list(op.outputs), False
    while waiting:
        name = waiting.pop()
        ends = ends or name in graph.outputs
        for reader in readers[name]:
            if reader.kind not in _SAME_VALUES:
                return False
            waiting += reader.outputs
    return ends


def comes_in(graph: Graph, op: Op) -> bool:
    """Its data are an input of the network, as it is or moved and converted."""
    makers, name = graph.producers(), op.inputs[0]
    while name in makers and makers[name].kind in _SAME_VALUES:
        name = makers[name].inputs[0]
    return name in graph.inputs


def only_reader(graph: Graph, op: Op) -> Op | None:
    """The op that alone reads its result, behind conversions."""
    readers = graph.consumers()
    name = op.outputs[0]
    while len(readers[name]) == 1 and name not in graph.outputs:
        reader = readers[name][0]
        if reader.kind not in having(Trait.RESCALING):
            return reader
        name = reader.outputs[0]
    return None


def maker_of(graph: Graph, name: str) -> Op | None:
    """The op that computes a tensor, in front of conversions."""
    makers = graph.producers()
    while name in makers and makers[name].kind in having(Trait.RESCALING):
        name = makers[name].inputs[0]
    return makers.get(name)
