"""Transfers that share DDR, network on chip and links: each gets the largest fair rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

# Bytes that rounding may leave behind at the end of a transfer.
_NOTHING = 1e-3


@dataclass(slots=True)
class Flow:
    """A transfer under way. `cap` is what its own engine can do, in bytes per tick."""

    task: int
    remaining: float
    cap: float
    resources: tuple[int, ...]
    rate: float = 0.0


class Fabric:
    """Resources by number, with their rates in bytes per tick, and the flows over them."""

    def __init__(self, capacity: Sequence[float]) -> None:
        self._capacity = tuple(capacity)
        self._flows: list[Flow] = []
        self._now = 0.0

    def add(self, now: float, flow: Flow) -> None:
        self._advance(now)
        self._flows.append(flow)
        self._share()

    def next_end(self) -> float:
        """When the first flow ends if none joins; infinite where there is none."""
        return self._now + min(
            (max(flow.remaining, 0.0) / flow.rate for flow in self._flows), default=inf
        )

    def take_ended(self, now: float) -> list[Flow]:
        """The flows that have ended by now leave; the others share what they had."""
        self._advance(now)
        ended = [flow for flow in self._flows if flow.remaining <= _NOTHING]
        if ended:
            self._flows = [flow for flow in self._flows if flow.remaining > _NOTHING]
            self._share()
        return ended

    def _advance(self, now: float) -> None:
        passed = now - self._now
        for flow in self._flows:
            flow.remaining -= flow.rate * passed
        self._now = now

    def _share(self) -> None:
        """Max-min fairness: who is limited most is settled first, the rest share what is left."""
        left, waiting = list(self._capacity), self._flows
        while waiting:
            fair = _fair_shares(left, waiting)
            limits = [min(flow.cap, *(fair[r] for r in flow.resources)) for flow in waiting]
            lowest = min(limits) * (1 + 1e-9)
            unsettled = []
            for flow, limit in zip(waiting, limits, strict=True):
                if limit > lowest:
                    unsettled.append(flow)
                    continue
                flow.rate = limit
                for resource in flow.resources:
                    left[resource] -= limit
            waiting = unsettled


def _fair_shares(left: list[float], flows: list[Flow]) -> list[float]:
    users = [0] * len(left)
    for flow in flows:
        for resource in flow.resources:
            users[resource] += 1
    return [rate / count if count else inf for rate, count in zip(left, users, strict=True)]
