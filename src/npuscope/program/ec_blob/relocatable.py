"""A blob whose addresses in relative pools count from the pool: a container with relocations.

Which words hold such addresses is found by lowering twice, with the pool in two places.
"""

from __future__ import annotations

from dataclasses import replace

from npuscope.errors import InternalError
from npuscope.program.ec_blob.binary import EcBinary, Relocation
from npuscope.program.ec_blob.instructions import decode, encode
from npuscope.program.ec_blob.lower import lower
from npuscope.program.model import Pool, Program
from npuscope.program.network_c.layout import dialect
from npuscope.program.relative import pool_symbol, relative_pools

# Two places of a pool for the comparison; neither is a reset value of a register.
_PLACE = 0x10000000
_OTHER = 0x20000000


def binary_of(program: Program, blob: int, network: str) -> EcBinary:
    """The blob with this index: plain, or a container where it reads or writes relative pools."""
    pools = relative_pools(program)
    words = _words(program, blob, None)
    rows = []
    for pool in pools:
        places = _differing(words, _words(program, blob, pool))
        if places:
            rows.append(Relocation(pool_symbol(pool, network), places))
    if not rows:
        return EcBinary(lower(program, blob))
    for place in (place for row in rows for place in row.places):
        words[place] -= _PLACE
    container = dialect(program.generation).blob_container
    return EcBinary(decode(words), container, tuple(rows))


def _words(program: Program, blob: int, moved: Pool | None) -> list[int]:
    """The code with all relative pools in the first place, but one in the other."""
    pools = tuple(
        replace(pool, address=_OTHER if pool == moved else _PLACE) if pool.relative else pool
        for pool in program.pools
    )
    return encode(lower(replace(program, pools=pools), blob))


def _differing(words: list[int], moved: list[int]) -> tuple[int, ...]:
    if len(words) != len(moved):
        raise InternalError("a blob depends on the place of a pool in more than its addresses")
    places = tuple(i for i, (a, b) in enumerate(zip(words, moved, strict=True)) if a != b)
    if any(moved[i] - words[i] != _OTHER - _PLACE for i in places):
        raise InternalError("a word of a blob is no plain address")
    return places
