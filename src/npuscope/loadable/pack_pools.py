"""Pools of a program as an image describes them: placed by the loader, filled, or cleared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from npuscope.errors import FileError, TargetError
from npuscope.loadable.codes import PoolAccess, PoolAction, PoolData, aligned
from npuscope.loadable.layout import MOST_POOLS, PoolFlags
from npuscope.machine.load import load_machine
from npuscope.machine.model import non_secure_alias
from npuscope.program.model import Pool, Program
from npuscope.structs import replace
from npuscope.text import safe_terminal

# Where external memories begin; below lie those of the chip, whose addresses stay fixed.
EXTERNAL = 0x60000000
RELOCATABLE_HINT = "npuscope compile MODEL --relocatable -o DIR"


class PoolSpan(Struct, frozen=True):
    """Bytes of a pool that a buffer takes, from the pool's first."""

    pool: str
    start: int
    end: int
    is_param: bool


class PlannedPool(Struct, frozen=True):
    """A pool with its descriptor's numbers; `data` is its padded initialiser."""

    pool: Pool
    flags: PoolFlags
    size_bytes: int
    params_bytes: int
    data: bytes = b""
    foff: int = 0

    @property
    def name(self) -> str:
        return self.pool.file_name or self.pool.name

    @property
    def dst(self) -> int:
        return 0 if self.flags.kind == PoolAction.RELOC else self.pool.address


class PoolPlan(Struct, frozen=True):
    pools: tuple[PlannedPool, ...]

    @property
    def parameters(self) -> bytes:
        return b"".join(pool.data for pool in self.pools)

    @property
    def non_secure(self) -> bool:
        """Whether a fixed pool has the address of an internal memory in the non-secure world."""
        inside = [pool for pool in load_machine().pools if not pool.cacheable]
        first = min(non_secure_alias(pool.address) for pool in inside)
        end = max(non_secure_alias(pool.address) + pool.size_bytes for pool in inside)
        fixed = (pool.pool for pool in self.pools if not pool.pool.relative)
        return any(first <= pool.address < end for pool in fixed)

    @property
    def params_bytes(self) -> int:
        return sum(pool.params_bytes for pool in self.pools)

    @property
    def acts_bytes(self) -> int:
        return sum(pool.size_bytes - pool.params_bytes for pool in self.pools)

    @property
    def external_ram_bytes(self) -> int:
        pool = self.relocated(1)
        return pool.size_bytes if pool else 0

    def relocated(self, identifier: int) -> PlannedPool | None:
        pools = (
            pool
            for pool in self.pools
            if pool.flags.kind == PoolAction.RELOC and pool.flags.identifier == identifier
        )
        return next(pools, None)


def plan_pools(program: Program, images: Mapping[str, bytes], *, secure: bool = True) -> PoolPlan:
    """Descriptors of the real pools that are used, with their initialisers one after the other.

    Highest address first, as the vendor's packager lists them.
    """
    spans = list(_spans(program))
    used = [
        planned
        for pool in sorted(program.pools, key=lambda pool: pool.address, reverse=True)
        # A virtual pool is a window over real ones, which hold its buffers.
        if not pool.virtual and (planned := _planned(pool, spans)) is not None
    ]
    for planned in used:
        _check_place(planned, secure)
    if len(used) > MOST_POOLS:
        raise TargetError(f"{len(used)} pools are used, an image describes {MOST_POOLS} at most")
    placed = [p for p in used if p.flags.kind == PoolAction.RELOC]
    for identifier, what in ((0, "read-only"), (1, "writable")):
        names = [safe_terminal(p.name) for p in placed if p.flags.identifier == identifier]
        if len(names) > 1:
            raise TargetError(
                f"{' and '.join(names)} are relative {what} pools, an image has one at most",
                hint="make one of them absolute, or put its buffers elsewhere",
            )
    result: list[PlannedPool] = []
    offset = 0
    for planned in used:
        data = _initialiser(planned, images) if planned.flags.filled else b""
        result.append(replace(planned, data=data, foff=offset if data else 0))
        offset += len(data)
    return PoolPlan(tuple(result))


def _spans(program: Program) -> Iterator[PoolSpan]:
    pools = program.pool_map()
    for buffer in program.buffers:
        if buffer.view_of or not buffer.size_bytes or buffer.pool not in pools:
            continue
        pool = pools[buffer.pool]
        end = buffer.offset + buffer.size_bytes
        if not pool.virtual:
            yield PoolSpan(pool.name, buffer.offset, end, buffer.is_param)
            continue
        for part in program.pools:
            if not part.virtual and not part.relative:
                shift = pool.address - part.address
                start, stop = max(0, buffer.offset + shift), min(end + shift, part.size_bytes)
                if start < stop:
                    yield PoolSpan(part.name, start, stop, buffer.is_param)


def _planned(pool: Pool, spans: list[PoolSpan]) -> PlannedPool | None:
    """Sizes count from the pool's first byte, as its initialiser and its address do."""
    own = [span for span in spans if span.pool == pool.name]
    if not own:
        return None
    params = [span for span in own if span.is_param]
    # Holes between parameters count: the initialiser covers them.
    extent = max(s.end for s in params) - min(s.start for s in params) if params else 0
    only_params = len(params) == len(own)
    with_params = bool(params)
    access = PoolAccess.WRITE if pool.writable else PoolAccess.READ
    access_bits = access | (PoolAccess.CACHED if pool.cacheable else 0)
    if not pool.writable and not only_params:
        raise TargetError(
            "buffers that are written are in a read-only pool",
            where=safe_terminal(pool.name),
        )
    data = PoolData.ACTIV if not with_params else PoolData.MIXED
    data = data if pool.writable else PoolData.PARAM
    if pool.relative:
        flags = PoolFlags(PoolAction.RELOC, data, access_bits, int(pool.writable))
    else:
        flags = PoolFlags(PoolAction.COPY if with_params else PoolAction.RESET, data, access_bits)
    return PlannedPool(pool, flags, max(span.end for span in own), extent)


def _check_place(planned: PlannedPool, secure: bool) -> None:
    pool, where = planned.pool, safe_terminal(planned.pool.name)
    stored = planned.params_bytes and not pool.writable  # a loader fills RAM, not flash
    if not pool.relative and stored and pool.address >= EXTERNAL:
        raise TargetError(
            f"parameters are at the fixed address {pool.address:#x}: this is not the relocatable "
            "form of a network",
            where=where,
            hint=RELOCATABLE_HINT,
        )
    if not pool.relative and not secure and non_secure_alias(pool.address) != pool.address:
        raise TargetError(
            f"{pool.address:#x} is a secure address, which non-secure code cannot reach",
            where=where,
            hint="compile with --no-secure: internal pools are then at 0x24000000 and above",
        )


def _initialiser(planned: PlannedPool, images: Mapping[str, bytes]) -> bytes:
    raw = images.get(planned.pool.name, b"")
    if not raw:
        raise FileError(
            f"no initialiser *.{planned.name}.raw beside the source",
            where=safe_terminal(planned.pool.name),
            hint="keep the .raw files of the compiler in the same folder as network.c",
        )
    # The initialiser covers the whole pool, also buffers behind the last parameter.
    return raw.ljust(aligned(max(len(raw), planned.size_bytes)), b"\0")
