"""Where every buffer lies and how long, pool by pool, and how much is alive at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from npuscope.advice.explain import Built
from npuscope.machine.model import Machine
from npuscope.profile.model import Profile
from npuscope.program.model import Buffer, Pool, Program

Piece = tuple[int, int, int]  # buffer, low, high


def memory_map(profile: Profile, built: Built) -> dict[str, Any] | None:
    """Buffers as [name, first, last, bytes, is weights, shape]; pools with the pieces inside.

    `first` and `last` are places in the profile. None where the placement is not known.
    """
    program = built.program
    owners = [buffer for buffer in program.buffers if not buffer.view_of]
    pools = [pool for pool in program.pools if not pool.virtual and pool.size_bytes]
    if not owners or not pools or not profile.epochs:
        return None
    starts = _starts(program, owners)
    firsts = [epoch.first for epoch in profile.epochs]
    rows = [_pool(pool, owners, starts, built.machine) for pool in pools]
    return {
        "buffers": [_buffer(buffer, firsts) for buffer in owners],
        "pools": [row for row in rows if row["pieces"]],
    }


def _starts(program: Program, owners: list[Buffer]) -> list[int | None]:
    """Physical addresses; a source that states no place for a buffer leaves it out."""
    pools = program.pool_map()
    return [
        pools[buffer.pool].address + buffer.offset if buffer.pool in pools else None
        for buffer in owners
    ]


def _buffer(buffer: Buffer, firsts: list[int]) -> list[Any]:
    """`firsts` are the numbers that the profile's epochs start with, in order."""
    shape = " x ".join(str(dim) for dim in buffer.shape)
    lifetime = (_place(firsts, buffer.first), _place(firsts, buffer.last))
    name = buffer.tensor or buffer.name
    return [name, *lifetime, buffer.size_bytes, int(buffer.is_param), shape]


def _place(firsts: list[int], number: int) -> int:
    """The epoch that covers a number, or the nearest before it."""
    return max(0, bisect_right(firsts, number) - 1)


def _pool(
    pool: Pool, owners: list[Buffer], starts: list[int | None], machine: Machine
) -> dict[str, Any]:
    pieces = list(_pieces(pool, owners, starts))
    return {
        "name": pool.name,
        "kind": pool_kind(pool.name, machine),
        "size": pool.size_bytes,
        "used": max((high for _, _, high in pieces), default=0),
        "pieces": pieces,
    }


def _pieces(pool: Pool, owners: list[Buffer], starts: list[int | None]) -> Iterable[Piece]:
    """What of the buffers lies in one physical pool: one in a virtual pool may span several."""
    for index, (buffer, start) in enumerate(zip(owners, starts, strict=True)):
        if start is None:
            continue
        low = start - pool.address
        high = low + buffer.size_bytes
        if low < pool.size_bytes and high > 0:
            yield index, max(0, low), min(pool.size_bytes, high)


def pool_kind(name: str, machine: Machine) -> str:
    """npu (beside the NPU), chip, flash or external; by the machine, not by the name."""
    memory = next((pool for pool in machine.pools if pool.name == name), None)
    if memory is None:
        return "chip"
    if memory.cacheable:
        return "external" if memory.writable else "flash"
    return "npu" if memory.path == _nearest(machine) else "chip"


def _nearest(machine: Machine) -> str:
    """The road of the memories beside the NPU: the fastest of those on the chip."""
    chip = {pool.path for pool in machine.pools if not pool.cacheable}
    return min(chip, key=machine.cycles_per_byte, default="")
