"""A Program from network.csv alone: what every epoch computes and moves, but no operators."""

from __future__ import annotations

from pathlib import Path

from npuscope.bounded_file import read_head
from npuscope.machine.load import DEFAULT_GENERATION, load_machine
from npuscope.machine.model import MemoryPool
from npuscope.program.model import Access, Buffer, Claims, Epoch, EpochKind, Pool, Program
from npuscope.program.network_csv import (
    FIRST_COLUMN,
    EpochRow,
    StatedPoolUse,
    read_network_csv,
)

_UNITS = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}
_HEAD_BYTES = 256
_NOTE = (
    "timed from network.csv alone: it tells neither operators nor buffers, so kernels of the CPU "
    "count as nothing but the bytes they move, and the compiler's generation, start of epochs and "
    "pools are taken to be the usual ones"
)


def is_network_csv(path: Path) -> bool:
    head = read_head(path, _HEAD_BYTES).lstrip(b"\xef\xbb\xbf")
    return path.suffix.lower() == ".csv" and head.startswith(FIRST_COLUMN.encode() + b",")


def program_from_network_csv(path: Path) -> Program:
    """Every epoch as one of the NPU without registers; those without figures do nothing."""
    table = read_network_csv(path)
    machine = load_machine()
    memories = {memory.name: memory for memory in machine.pools}
    uses = {use.pool: use for use in table.uses}
    names = [traffic.pool for traffic in table.totals]
    pools = tuple(_pool(name, memories.get(name), uses.get(name)) for name in names)
    last = max((row.number for row in table.epochs), default=0)
    return Program(
        name=path.stem,
        machine=machine.name,
        generation=DEFAULT_GENERATION,
        epoch_controller=True,
        pools=pools,
        buffers=tuple(_contents(pool, last) for pool in pools if pool.used_bytes),
        epochs=tuple(map(_epoch, table.epochs)),
        inputs=(),
        outputs=(),
        source="network.csv",
        notes=(_NOTE,),
    )


def _pool(name: str, memory: MemoryPool | None, use: StatedPoolUse | None) -> Pool:
    used = 0
    if use is not None and use.used is not None:
        used = round(use.used * _UNITS.get(use.unit, 1))
    if memory is None:  # its speed is not known: as fast as the bus
        return Pool(name, 0, used, 8, 1.0, used_bytes=used)
    return Pool(
        name,
        memory.address,
        max(memory.size_bytes, used),
        memory.byte_width,
        memory.freq_ratio,
        memory.writable,
        memory.cacheable,
        memory.score,
        file_name=memory.file,
        used_bytes=used,
    )


def _contents(pool: Pool, last: int) -> Buffer:
    """All that lies in a pool, as one: weights in memory that can only be read."""
    size = pool.used_bytes
    return Buffer(
        f"contents of {pool.name}",
        size,
        (size,),
        8,
        size,
        pool.name,
        first=0,
        last=last,
        is_param=not pool.writable,
    )


def _epoch(row: EpochRow) -> Epoch:
    moved = tuple(
        Access(pool.pool, round(pool.read_bytes), round(pool.write_bytes))
        for pool in row.pools
        if pool.total_bytes
    )
    kind = EpochKind.HW if moved or row.compute_cycles else EpochKind.EMPTY
    claims = Claims(round(row.ops), round(row.compute_cycles), round(row.max_cycles), moved)
    blob = 0 if kind is EpochKind.HW else None
    return Epoch(row.number, row.number, kind, blob=blob, groups=None, claims=claims)
