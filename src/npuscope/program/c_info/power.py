"""Memory power of an epoch, as the vendor's compiler estimates it.

Inferred from public files: energy is twice the power of a pool for each of its words moved,
averaged over the epoch's compute cycles. It gives the stated whole milliwatts for 96 % of the
hardware epochs there; the others, of one network, are stated up to 8 % higher.
"""

from __future__ import annotations

from npuscope.machine.model import Machine
from npuscope.program.model import Epoch, EpochKind, Pool, Program

_WORD_CYCLES = 2  # fits the files; the reason is not known


def pool_power_mw(pool: Pool, machine: Machine) -> tuple[float, float]:
    """Power of reading and of writing; a virtual pool is as hungry as its hungriest part."""
    parts = pool.subpools or (pool.name,)
    known = [memory for memory in machine.pools if memory.name in parts]
    read = max((memory.read_power_mw for memory in known), default=0.0)
    return read, max((memory.write_power_mw for memory in known), default=0.0)


def memory_energy(epoch: Epoch, program: Program, machine: Machine) -> float:
    """Milliwatts times cycles of all that the epoch moves; software epochs count nothing."""
    if epoch.kind is not EpochKind.HW:
        return 0.0
    pools, energy = program.pool_map(), 0.0
    for access in epoch.claims.accesses:
        pool = pools[access.pool]
        read, write = pool_power_mw(pool, machine)
        energy += (access.reads * read + access.writes * write) / pool.byte_width
    return _WORD_CYCLES * energy


def memory_power_mw(epoch: Epoch, program: Program, machine: Machine) -> float:
    """Average over the compute cycles; 0 for an epoch that only moves data."""
    cycles = epoch.claims.compute_cycles
    return memory_energy(epoch, program, machine) / cycles if cycles else 0.0
