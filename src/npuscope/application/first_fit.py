"""Placement without a solver: the demand with the most to lose first, each in the cheapest way that
still finds room, at the lowest address that is free while it lives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from npuscope.application.memory import (
    Alternative,
    Block,
    Demand,
    FreeRange,
    MemoryPlacement,
    Place,
)

NAME = "first fit"


def first_fit(demands: Sequence[Demand], rooms: Sequence[FreeRange]) -> MemoryPlacement:
    places: list[Place] = []
    choices: dict[str, Alternative] = {}
    missing: list[tuple[str, int]] = []
    for demand in sorted(demands, key=_urgency):
        for choice in sorted(demand.choices, key=lambda one: one.cost_ms):
            new = put(demand.name, choice.blocks, places, rooms)
            if new is not None:
                places += new
                choices[demand.name] = choice
                break
        else:
            missing.append((demand.name, _shortage(demand, places, rooms)))
    cost = sum(choice.cost_ms for choice in choices.values())
    return MemoryPlacement(choices, tuple(places), cost, None, NAME, tuple(missing))


def _urgency(demand: Demand) -> tuple[bool, bool, float, int]:
    """Fixed addresses, then what has a single way, then by what a worse way costs."""
    costs = [choice.cost_ms for choice in demand.choices]
    fixed = any(block.address is not None for c in demand.choices for block in c.blocks)
    size = max((b.size_bytes for c in demand.choices for b in c.blocks), default=0)
    return not fixed, len(costs) > 1, min(costs, default=0.0) - max(costs, default=0.0), -size


def put(
    demand: str, blocks: Iterable[Block], places: Sequence[Place], rooms: Sequence[FreeRange]
) -> list[Place] | None:
    """Places for all of the blocks, or None."""
    new: list[Place] = []
    for block in sorted(blocks, key=lambda one: -one.size_bytes):
        address = _lowest(block, [*places, *new], rooms)
        if address is None:
            return None
        new.append(Place(demand, block, address))
    return new


def _lowest(block: Block, places: Sequence[Place], rooms: Sequence[FreeRange]) -> int | None:
    busy = sorted((p.address, p.end) for p in places if p.block.meets(block))
    for room in rooms:
        if not block.fits_in(room):
            continue
        if block.address is not None:
            start, end = block.address, block.address + block.size_bytes
            inside = room.address <= start and end <= room.end
            if inside and all(high <= start or low >= end for low, high in busy):
                return start
            continue
        start = _aligned(room.address, block.align)
        for low, high in busy:
            if low < start + block.size_bytes and high > start:
                start = _aligned(high, block.align)
        if start + block.size_bytes <= room.end:
            return start
    return None


def _aligned(address: int, align: int) -> int:
    return -(-address // align) * align


def _shortage(demand: Demand, places: Sequence[Place], rooms: Sequence[FreeRange]) -> int:
    """Bytes that the nearest way lacks: of each block, beyond the largest gap it could have."""
    return min(
        (
            sum(max(0, block.size_bytes - _gap(block, places, rooms)) for block in choice.blocks)
            or sum(block.size_bytes for block in choice.blocks)
            for choice in demand.choices
        ),
        default=0,
    )


def _gap(block: Block, places: Sequence[Place], rooms: Sequence[FreeRange]) -> int:
    busy = sorted((p.address, p.end) for p in places if p.block.meets(block))
    largest = 0
    for room in (room for room in rooms if block.fits_in(room)):
        start = _aligned(room.address, block.align)
        for low, high in [*busy, (room.end, room.end)]:
            if high >= start and low <= room.end:
                largest = max(largest, min(low, room.end) - start)
                start = max(start, _aligned(high, block.align))
    return largest
