"""From physical addresses, as foreign files hold them, to buffers of a Program; and pools that have
no address until an image is loaded."""

from __future__ import annotations

from collections.abc import Iterable

from npuscope.errors import FileError
from npuscope.program.model import Buffer, Pool, Program
from npuscope.program.units import Ref
from npuscope.text import c_identifier

# Pools whose address is set when an image is loaded, and the symbols that stand for them.

_PREFIX = "_mem_pool_"


def pool_symbol(pool: Pool, network: str) -> str:
    """The C name of a relative pool's first byte."""
    return f"{_PREFIX}{c_identifier(pool.file_name or pool.name)}_{network}"


def relative_pools(program: Program) -> tuple[Pool, ...]:
    return tuple(pool for pool in program.pools if pool.relative)


# From physical addresses, as foreign files hold them, to buffers of a Program.


class AddressMap:
    """Finds the buffer at an address; what no buffer covers belongs to the pool as a whole.

    Memory is used again and again: of several buffers at an address one alive in the epoch
    asked for is meant, of those the youngest, then the one that starts nearest below.
    """

    def __init__(self, pools: Iterable[Pool], buffers: Iterable[Buffer]) -> None:
        self._pools = sorted((p for p in pools if p.size_bytes), key=lambda p: p.address)
        addresses = {pool.name: pool.address for pool in self._pools}
        placed = [b for b in buffers if b.pool in addresses and not b.view_of]
        self._buffers = sorted(
            ((addresses[b.pool] + b.offset, b) for b in placed), key=lambda pair: pair[0]
        )
        self._names = {b.name: (start, b) for start, b in self._buffers}
        self._whole: dict[str, Buffer] = {}

    def add(self, buffer: Buffer) -> None:
        """A buffer that the file's tables do not hold."""
        start = next(p.address for p in self._pools if p.name == buffer.pool) + buffer.offset
        self._buffers.append((start, buffer))
        self._names[buffer.name] = (start, buffer)

    def ref(self, address: int, epoch: int | None = None, name: str = "") -> Ref:
        """The place of an address. `name` is the buffer that the file itself names there."""
        if name in self._names:
            start, buffer = self._names[name]
            if start <= address < start + max(1, buffer.size_bytes):
                return Ref(name, address - start)
        found = [
            (buffer.first, start, buffer)
            for start, buffer in self._buffers
            if start <= address < start + buffer.size_bytes
            and (epoch is None or buffer.is_param or buffer.first <= epoch <= buffer.last)
        ]
        if found:
            _, start, buffer = max(found, key=lambda entry: entry[:2])
            return Ref(buffer.name, address - start)
        pool = self.pool_at(address)
        self._whole.setdefault(pool.name, _whole(pool))
        return Ref(_whole_name(pool), address - pool.address)

    def pool_at(self, address: int, size_bytes: int = 1) -> Pool:
        """The pool that holds some bytes: a real one, else a virtual one over several."""
        end = address + max(1, size_bytes)
        for pool in sorted(self._pools, key=lambda pool: pool.virtual):
            if pool.address <= address and end <= pool.address + pool.size_bytes:
                return pool
        raise FileError(f"bytes {address:#x} to {end:#x} lie in no pool")

    def knows(self, name: str) -> bool:
        return name in self._names

    def size_of(self, name: str) -> int:
        found = self._names.get(name)
        return found[1].size_bytes if found else self._whole[name[1:]].size_bytes

    @property
    def whole_pools(self) -> tuple[Buffer, ...]:
        """Buffers for the pools that were referred to as a whole, to be added to the Program."""
        return tuple(self._whole.values())


def _whole_name(pool: Pool) -> str:
    return f"@{pool.name}"


def _whole(pool: Pool) -> Buffer:
    """A pool's bytes as one buffer, from the first epoch to the last; it owns none of them."""
    return Buffer(
        _whole_name(pool),
        pool.size_bytes,
        (pool.size_bytes,),
        8,
        pool.size_bytes,
        pool=pool.name,
        last=1 << 15,
        is_param=not pool.writable,
        view_of=_whole_name(pool),
    )
