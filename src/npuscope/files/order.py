"""The order in which the ops of an edited file are written."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def in_order(items: Sequence[T], needs: Mapping[T, Sequence[T]]) -> list[T]:
    """A stable order in which everything stands behind its needs; items of a ring keep theirs."""
    order: dict[T, None] = {}
    for start in items:
        waiting = [start]
        entered: set[T] = set()
        while waiting:
            item = waiting[-1]
            if item in order or item in entered:
                order.setdefault(waiting.pop())
                continue
            entered.add(item)
            waiting.extend(n for n in reversed(needs[item]) if n not in order and n not in entered)
    return list(order)
