"""Roofs of the roofline: what the roads to memory carry, and the best rate of the units."""

from __future__ import annotations

from typing import Any

from npuscope.machine.model import Machine, MemoryPool
from npuscope.profile.model import Profile
from npuscope.report.figures import clocks_of
from npuscope.report.html.memory_map import pool_kind

_NAMES = {
    "npu": "RAM beside the NPU",
    "chip": "other RAM on the chip",
    "flash": "flash",
    "external": "external RAM",
}


def roofs(profile: Profile, machine: Machine) -> dict[str, Any]:
    """Rates in bytes and operations a second, by kind of memory."""
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
    """Operations a second of the epoch whose units could go fastest, by its ideal cycles."""
    ideal = [
        epoch.claims.ops / epoch.claims.compute_cycles
        for epoch in profile.epochs
        if epoch.claims.ops and epoch.claims.compute_cycles
    ]
    return max(ideal) * clocks_of(profile).npu_mhz * 1e6 if ideal else None
