"""Lines of the CPU's data cache, over buffers that need not begin or end on one."""

from __future__ import annotations

LINE_BYTES = 32


def tail_start(base: int, size: int, lines: int) -> int:
    """Where the last `lines` cache lines of a buffer at address `base` begin, from its start."""
    last = -(-(base + size) // LINE_BYTES)
    return max(0, (last - lines) * LINE_BYTES - base)


def head_end(base: int, size: int, lines: int) -> int:
    """Where its first `lines` cache lines end."""
    return min(size, (base // LINE_BYTES + lines) * LINE_BYTES - base)


def line_count(base: int, size: int) -> int:
    """Of a buffer, with those that it has only a part of."""
    return -(-(base + size) // LINE_BYTES) - base // LINE_BYTES
