"""Where every buffer lies and how long, pool by pool, and how much is alive at once."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from npuscope.advice.explanation import Built
from npuscope.machine.model import Machine, MemoryPool
from npuscope.profiling.model import Profile
from npuscope.program.model import Buffer, Pool
from npuscope.report.figures import clocks_of

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
    # Physical addresses; a source that states no place for a buffer leaves it out.
    by_name = program.pool_map()
    starts = [
        by_name[buffer.pool].address + buffer.offset if buffer.pool in by_name else None
        for buffer in owners
    ]
    firsts = [epoch.first for epoch in profile.epochs]
    rows = [_pool(pool, owners, starts, built.machine) for pool in pools]
    return {
        "buffers": [
            [
                buffer.tensor or buffer.name,
                _place(firsts, buffer.first),
                _place(firsts, buffer.last),
                buffer.size_bytes,
                int(buffer.is_param),
                " x ".join(str(dim) for dim in buffer.shape),
            ]
            for buffer in owners
        ],
        "pools": [row for row in rows if row["pieces"]],
    }


def _place(firsts: list[int], number: int) -> int:
    """The epoch that covers a number, or the nearest before it; `firsts` are the numbers that the
    profile's epochs start with, in order."""
    return max(0, bisect_right(firsts, number) - 1)


def _pool(
    pool: Pool, owners: list[Buffer], starts: list[int | None], machine: Machine
) -> dict[str, Any]:
    # What of the buffers is in one physical pool: one in a virtual pool may span several.
    pieces: list[Piece] = []
    for index, (buffer, start) in enumerate(zip(owners, starts, strict=True)):
        if start is None:
            continue
        low = start - pool.address
        high = low + buffer.size_bytes
        if low < pool.size_bytes and high > 0:
            pieces.append((index, max(0, low), min(pool.size_bytes, high)))
    return {
        "name": pool.name,
        "kind": pool_kind(pool.name, machine),
        "size": pool.size_bytes,
        "used": max((high for _, _, high in pieces), default=0),
        "pieces": pieces,
    }


def pool_kind(name: str, machine: Machine) -> str:
    """npu (beside the NPU), chip, flash or external; by the machine, not by the name."""
    memory = next((pool for pool in machine.pools if pool.name == name), None)
    if memory is None:
        return "chip"
    if memory.cacheable:
        # The NPU cache serves external memories only, so `cacheable` means external.
        return "external" if memory.writable else "flash"
    # The road of the memories beside the NPU: the fastest of those on the chip.
    chip = {pool.path for pool in machine.pools if not pool.cacheable}
    return "npu" if memory.path == min(chip, key=machine.cycles_per_byte, default="") else "chip"


# --- Roofs of the roofline: memory bandwidths, and the best rate of the units ---

_NAMES = {
    "npu": "RAM beside the NPU",
    "chip": "other RAM on the chip",
    "flash": "flash",
    "external": "external RAM",
}


def roofs(profile: Profile, machine: Machine) -> dict[str, Any]:
    """Rates in bytes and operations per second, by kind of memory."""
    kinds = {pool.name: pool_kind(pool.name, machine) for pool in machine.pools}
    rows = []
    for kind, name in _NAMES.items():
        pools = [p for p in machine.pools if kinds[p.name] == kind and p.size_bytes]
        if pools:
            rows.append({"kind": kind, "name": name, "bytes_per_s": _rate(pools, machine)})
    return {"memories": rows, "kinds": kinds, "compute_per_s": best_rate(profile)}


def _rate(pools: list[MemoryPool], machine: Machine) -> float:
    """Banks beside the NPU work side by side; what shares a road shares its rate."""
    hertz = machine.clocks.npu_mhz * 1e6
    roads = {pool.path for pool in pools}
    banks = {path: sum(pool.path == path for pool in pools) for path in roads}
    nearest = pool_kind(pools[0].name, machine) == "npu"
    carried = sum(
        hertz / machine.cycles_per_byte(path) * (banks[path] if nearest else 1) for path in roads
    )
    interfaces = machine.units["STRENG"] // machine.stream.engines_per_busif
    both_ways = 2 * interfaces * machine.stream.busif_bytes * hertz
    return min(carried, both_ways)


def best_rate(profile: Profile) -> float | None:
    """Operations per second of the epoch whose units could go fastest, by its ideal cycles."""
    ideal = [
        epoch.claims.ops / epoch.claims.compute_cycles
        for epoch in profile.epochs
        if epoch.claims.ops and epoch.claims.compute_cycles
    ]
    return max(ideal) * clocks_of(profile).npu_mhz * 1e6 if ideal else None
