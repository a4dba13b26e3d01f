"""A vendor's build in the form that an image needs: its external memories without fixed addresses,
and room for the buffers that an application would give."""

from __future__ import annotations

from npuscope.errors import TargetError
from npuscope.loadable.pack_pools import EXTERNAL
from npuscope.program.code_files import without_blobs
from npuscope.program.model import Buffer, Pool, Program
from npuscope.structs import replace

_ALIGN = 64
_FLASH, _EXTERNAL_RAM = 0x71000000, 0x90000000
_LOWEST = 0x10000000  # below lie what a reader lifts out of blobs, and no memory


def is_fixed(program: Program) -> bool:
    """Whether parameters of another compiler's build lie at a fixed external address."""
    if program.source == "npuscope":
        return False
    pools = program.pool_map()
    owners = (pools.get(b.pool) for b in program.buffers if b.is_param and not b.view_of)
    return any(pool and not pool.relative and pool.address >= EXTERNAL for pool in owners)


def loadable_form(program: Program) -> Program:
    """All external RAM becomes one relative pool, and so does all flash."""
    used = {buffer.pool for buffer in program.buffers}
    outside = [pool for pool in program.pools if pool.name in used and _is_outside(pool)]
    for virtual in (pool for pool in outside if pool.virtual):
        raise TargetError(f"pool '{virtual.name}' spans external memories")
    moves: dict[str, tuple[str, int]] = {}
    merged: list[Pool] = []
    for writable in (False, True):
        group = [pool for pool in outside if pool.writable is writable]
        if not group:
            continue
        # A memory of the build first: the buffers of the application follow it.
        group.sort(key=lambda pool: (pool.relative, pool.address < EXTERNAL, pool.address))
        whole, end = group[0], 0
        for pool in group:
            moves[pool.name] = (whole.name, end)
            end += -(-_extent(pool, program.buffers) // _ALIGN) * _ALIGN
        address = _EXTERNAL_RAM if writable else _FLASH
        merged.append(replace(whole, address=address, size_bytes=end, relative=True))
    pools = [pool for pool in program.pools if not _is_outside(pool)]
    in_blobs = any(epoch.blob is not None for epoch in program.executed)
    return replace(
        program if in_blobs else without_blobs(program),
        pools=(*pools, *merged),
        buffers=tuple(_moved(buffer, moves) for buffer in program.buffers),
    )


def _is_outside(pool: Pool) -> bool:
    return pool.relative or not _LOWEST <= pool.address < EXTERNAL


def _extent(pool: Pool, buffers: tuple[Buffer, ...]) -> int:
    """Up to the last byte that a buffer of the pool takes."""
    own = [b for b in buffers if b.pool == pool.name and b.view_of != b.name]
    return max((b.offset + b.size_bytes for b in own), default=0)


def _moved(buffer: Buffer, moves: dict[str, tuple[str, int]]) -> Buffer:
    if buffer.pool not in moves:
        return buffer
    pool, start = moves[buffer.pool]
    return replace(buffer, pool=pool, offset=buffer.offset + start)
