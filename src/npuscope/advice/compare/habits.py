"""Habits of a compiler generation that join or split epochs, where two sides differ in one.

A habit is named only if the epochs show it: what one side runs in one epoch, the other does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from npuscope.advice.compare.half import Half
from npuscope.machine.model import Generation

_POOLS = ("MaxPool", "AveragePool")
_FUNCTIONS = ("Sigmoid", "Tanh", "HardSigmoid", "HardSwish")
_Habit = tuple[Callable[[Generation], bool], Callable[[tuple[str, ...]], bool], str]


def _pools_behind(operators: tuple[str, ...]) -> bool:
    return "Conv" in operators and _has(operators, _POOLS)


def _meets_its_function(operators: tuple[str, ...]) -> bool:
    """A product behind the function, where it meets what the function was taken of."""
    places = [place for place, name in enumerate(operators) if name in _FUNCTIONS]
    return bool(places) and "Mul" in operators[places[-1] :]


def _two_convolutions(operators: tuple[str, ...]) -> bool:
    return operators.count("Conv") > 1


def _has(operators: Iterable[str], names: tuple[str, ...]) -> bool:
    return any(name in names for name in operators)


# Whether a generation joins; what an epoch looks like then; the sentence.
_HABITS: tuple[_Habit, ...] = (
    (
        lambda generation: generation.joins_padded_pools,
        _pools_behind,
        "generation {joins} runs a pool in the epoch of its convolution",
    ),
    (
        lambda generation: not generation.cuts_reconvergence,
        _meets_its_function,
        "generation {parts} never lets x and f(x) meet in one epoch",
    ),
    (
        lambda generation: generation.depthwise_joins,
        _two_convolutions,
        "generation {joins} runs a depthwise convolution behind the one before it",
    ),
)


def fusion_habit(a: Half, b: Half) -> str:
    """The habit that the epochs of the row show; "" where none does."""
    if a.side.machine is None or b.side.machine is None:
        return ""
    x, y = a.side.machine.generation, b.side.machine.generation
    for joins, looks, sentence in _HABITS:
        if joins(x) == joins(y):
            continue
        one, other = (a, b) if joins(x) else (b, a)
        if _count(one, looks) > _count(other, looks):
            names = (x.name, y.name) if joins(x) else (y.name, x.name)
            return sentence.format(joins=names[0], parts=names[1])
    return ""


def _count(part: Half, looks: Callable[[tuple[str, ...]], bool]) -> int:
    return sum(looks(epoch.operators) for epoch in part.hardware)
