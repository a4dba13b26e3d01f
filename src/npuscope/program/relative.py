"""Pools whose address is set when an image is loaded, and the symbols that stand for them."""

from __future__ import annotations

from npuscope.program.model import Pool, Program
from npuscope.text import c_identifier

_PREFIX = "_mem_pool_"


def pool_symbol(pool: Pool, network: str) -> str:
    """The C name of a relative pool's first byte."""
    return f"{_PREFIX}{c_identifier(pool.file_name or pool.name)}_{network}"


def relative_pools(program: Program) -> tuple[Pool, ...]:
    return tuple(pool for pool in program.pools if pool.relative)
