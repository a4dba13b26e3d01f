"""Ops that a file only numbers ("CONV_2D:#68"), across two files: an edit shifts all behind it.

Two of them are the same op if they make the same tensor in the same way. The others, and all of
them where a run was kept without its network, are matched by kind and shapes, then by kind, in
the order of the files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from npuscope.advice.compare.model import Side
from npuscope.graph.model import Graph
from npuscope.structs import replace

_NUMBERED = re.compile(r"(.+):#(\d+)")


class NumberedOp(NamedTuple):
    """`form` is what it shares with its like: the kind, and the shapes where they are known."""

    name: str
    form: tuple[object, ...]
    results: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        return int(self.name.rpartition("#")[2])


def under_names_of(a: Side, b: Side) -> Side:
    """B with the names that A has for the same ops."""
    if a.graph is not None and b.graph is not None:
        return with_names(b, renumbered(a.graph, b.graph))
    if a.profile.model.md5 and b.profile.model.md5:
        return with_names(b, _names(_ops_of_run(a), _ops_of_run(b)))
    return b  # they may be two builds of one file


def with_names(side: Side, names: dict[str, str]) -> Side:
    if all(name == new for name, new in names.items()):
        return side

    def renamed(origin: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names.get(name, name) for name in origin)

    runs = (replace(run, origin=renamed(run.origin)) for run in side.profile.epochs)
    profile = replace(side.profile, epochs=tuple(runs))
    if side.program is None:
        return replace(side, profile=profile)
    epochs = (replace(epoch, origin=renamed(epoch.origin)) for epoch in side.program.epochs)
    program = replace(side.program, epochs=tuple(epochs))
    return replace(side, profile=profile, program=program)


def renumbered(before: Graph, after: Graph) -> dict[str, str]:
    """From the names in a network after an edit to those before it."""
    return {} if before is after else _names(_ops_of_graph(before), _ops_of_graph(after))


def _ops_of_graph(graph: Graph) -> list[NumberedOp]:
    """A source op may have become several; what the last of them makes is its result."""
    ops = {}
    for op in graph.ops:
        shapes = tuple(graph.tensor(name).shape for name in op.outputs)
        for name in op.origin:
            if numbered := _NUMBERED.fullmatch(name):
                ops[name] = NumberedOp(name, (numbered[1], shapes), op.outputs)
    return _in_order(ops.values())


def _ops_of_run(side: Side) -> list[NumberedOp]:
    names = dict.fromkeys(name for epoch in side.profile.epochs for name in epoch.origin)
    numbered = (_NUMBERED.fullmatch(name) for name in names)
    return _in_order(NumberedOp(one[0], (one[1],)) for one in numbered if one)


def _in_order(ops: Iterable[NumberedOp]) -> list[NumberedOp]:
    return sorted(ops, key=lambda op: op.number)


def _names(before: Sequence[NumberedOp], after: Sequence[NumberedOp]) -> dict[str, str]:
    """From names of `after` to those of `before`; ops that `before` does not have are marked."""
    if not (before and after):  # the other side has names of another kind
        return {}
    # Exporters number tensors too: the same name alone is no proof.
    makers = {(result, *op.form): op.name for op in before for result in op.results}
    names = {}
    for op in after:
        keys = ((result, *op.form) for result in op.results)
        if maker := next((makers[key] for key in keys if key in makers), None):
            names[op.name] = maker
    for length in (2, 1):  # kind and shapes, then the kind alone: another input size changes shapes
        pairs = set(names.values())
        old = [(op.name,) if op.name in pairs else op.form[:length] for op in before]
        new = [(names[op.name],) if op.name in names else op.form[:length] for op in after]
        names |= {after[y].name: before[x].name for x, y in _common(old, new)}
    return {op.name: names.get(op.name, f"{op.name} (new)") for op in after}


_Forms = Sequence[tuple[object, ...]]


def _common(a: _Forms, b: _Forms) -> Iterator[tuple[int, int]]:
    """The places of a longest common subsequence. (difflib prefers one long block to many short
    ones: of C C C and C D C C it would join the last two of B with the first two of A.)"""
    forms = {form: number for number, form in enumerate(dict.fromkeys((*a, *b)))}
    x, y = (np.array([forms[form] for form in side], np.int32) for side in (a, b))
    rest = np.zeros((len(x) + 1, len(y) + 1), np.int32)  # length of what is common from there on
    for row in reversed(range(len(x))):
        longer = np.maximum(rest[row + 1, :-1], rest[row + 1, 1:] + (y == x[row]))
        rest[row, :-1] = np.maximum.accumulate(longer[::-1])[::-1]
    i = j = 0
    while i < len(x) and j < len(y):
        if x[i] == y[j]:
            yield i, j
            i, j = i + 1, j + 1
        elif rest[i + 1, j] >= rest[i, j + 1]:
            i += 1
        else:
            j += 1
