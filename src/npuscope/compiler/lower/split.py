"""Channel counts without good divisors, cut in two (generation `open`).

A tile takes a divisor of the channels: of 257 that is 1. Cut into 240 and 17, the larger part
fills whole tiles and the rest takes one.
"""

from __future__ import annotations

from npuscope.compiler.tiling import largest_divisor

Span = tuple[int, int]


def good_parts(channels: int, limit: int) -> list[Span]:
    """(first, count) of parts that tiles of up to `limit` channels cut well."""
    if channels <= limit or 2 * largest_divisor(channels, limit) >= limit:
        return [(0, channels)]
    whole = channels - channels % limit
    return [(0, whole), (whole, channels - whole)]
