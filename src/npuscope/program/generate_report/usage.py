"""How full the pools of a Program are: weights, activations, addresses."""

from __future__ import annotations

from msgspec import Struct

from npuscope.program.model import Buffer, Pool, Program

# Ends of ranges are given as the compiler allocates: in steps of 16 bytes.
_STEP = 16


class PoolUsage(Struct, frozen=True):
    """Bytes in one pool, and the addresses they span. Activations count to their high mark."""

    name: str
    address: int
    size_bytes: int
    weights_bytes: int
    activations_bytes: int
    low: int
    high: int
    holds: tuple[str, ...]  # weights, inputs and outputs of the network by name, activations


def pool_usage(program: Program) -> tuple[PoolUsage, ...]:
    """Physical pools by address. A buffer of a virtual pool lies in the banks it crosses."""
    pools = program.pool_map()
    owners = [b for b in program.buffers if not b.view_of and b.pool in pools]
    placed = [(buffer, pools[buffer.pool].address + buffer.offset) for buffer in owners]
    real = sorted((pool for pool in program.pools if not pool.virtual), key=lambda p: p.address)
    buffers = program.buffer_map()
    io: dict[str, str] = {}
    for word, names in (("input", program.inputs), ("output", program.outputs)):
        for name in names:
            owner = buffers[name].view_of if name in buffers else ""
            io.setdefault(owner or name, f"{word} '{name}'")
    return tuple(_usage(pool, placed, io) for pool in real)


def _usage(pool: Pool, placed: list[tuple[Buffer, int]], io: dict[str, str]) -> PoolUsage:
    end = pool.address + pool.size_bytes
    spans = [
        (buffer, max(start, pool.address), min(start + buffer.size_bytes, end))
        for buffer, start in placed
        if start < end and start + buffer.size_bytes > pool.address
    ]
    top = max((high for _, _, high in spans), default=pool.address)
    holds = [
        "weights" if buffer.is_param else io.get(buffer.name, "activations")
        for buffer, _, _ in spans
    ]
    marks = [high - pool.address for buffer, _, high in spans if not buffer.is_param]
    return PoolUsage(
        pool.name,
        pool.address,
        pool.size_bytes,
        sum(high - low for buffer, low, high in spans if buffer.is_param),
        max(marks, default=0),
        min((low for _, low, _ in spans), default=pool.address),
        min(-(-top // _STEP) * _STEP, end),
        tuple(sorted(set(holds), key=lambda text: (text == "activations", text))),
    )
