"""A program whose buffers have a place of their own each.

Layers that are compared one by one start from references, so they do not show that a buffer was
overwritten before its last reader: the same program without reuse of memory does.
"""

from __future__ import annotations

from npuscope.program.model import Buffer, Pool, Program
from npuscope.structs import replace

_ADDRESS, _GAP_BYTES = 1 << 40, 64


def without_overlaps(program: Program) -> Program:
    buffers = program.buffer_map()

    def whole(buffer: Buffer) -> str:
        """Views lie in their buffer, and buffers of one block side by side."""
        root = buffers[buffer.view_of] if buffer.view_of else buffer
        return root.block or root.name

    starts, ends = dict[str, int](), dict[str, int]()
    for buffer in (b for b in program.buffers if not b.is_param):
        name = whole(buffer)
        starts[name] = min(starts.get(name, buffer.offset), buffer.offset)
        ends[name] = max(ends.get(name, 0), buffer.offset + buffer.size_bytes)
    moves, top = dict[str, int](), 0
    for name, start in starts.items():
        moves[name] = top - start
        top += ends[name] - start + _GAP_BYTES
    pool = Pool("apart", _ADDRESS, top, 8, 1.0)
    moved = [
        b if b.is_param else b.placed(pool.name, b.offset + moves[whole(b)])
        for b in program.buffers
    ]
    return replace(program, buffers=tuple(moved), pools=(*program.pools, pool))
