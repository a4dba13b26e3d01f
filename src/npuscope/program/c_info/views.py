"""Which buffers of a c_info.json are views: the file lists them like any other.

A reshape or a transpose that moves nothing gives a second name to live bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from npuscope.program.model import Buffer, Pool

Placed = tuple[int, Buffer]  # address


def with_views(buffers: Sequence[Buffer], pools: Iterable[Pool]) -> tuple[Buffer, ...]:
    """Buffers that lie within a live one name it in `view_of`."""
    addresses = {pool.name: pool.address for pool in pools}
    placed = [(addresses[b.pool] + b.offset, b) for b in buffers if _counts(b, addresses)]
    # The one that holds another comes before it; of equals the one that lived first.
    placed.sort(key=lambda entry: (entry[0], -entry[1].size_bytes, entry[1].first))
    homes = _homes(placed)
    return tuple(replace(b, view_of=homes[b.name]) if b.name in homes else b for b in buffers)


def _counts(buffer: Buffer, addresses: dict[str, int]) -> bool:
    return buffer.pool in addresses and not buffer.is_param and buffer.size_bytes > 0


def _homes(placed: list[Placed]) -> dict[str, str]:
    """View to the buffer it lies in, by name; `open` are those that may still hold others."""
    homes: dict[str, str] = {}
    open_: list[Placed] = []
    for start, buffer in placed:
        open_ = [(at, other) for at, other in open_ if at + other.size_bytes > start]
        home = next((other for at, other in open_ if _holds(at, other, start, buffer)), None)
        if home is not None:
            homes[buffer.name] = home.name
        open_.append((start, buffer))
    return homes


def _holds(at: int, other: Buffer, start: int, buffer: Buffer) -> bool:
    inside = start + buffer.size_bytes <= at + other.size_bytes
    return inside and other.first <= buffer.last and buffer.first <= other.last
