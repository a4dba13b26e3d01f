"""Vendor memory-pool files (.mpool), in hand-written and in compiler-saved form; reader and
writer."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from msgspec import Struct

from npuscope.errors import FileError
from npuscope.machine.foreign_json import VendorNode, read_json
from npuscope.machine.load import load_machine
from npuscope.machine.model import (
    Machine,
    MemoryPool,
    Placement,
    non_secure_alias,
    secure_alias,
)
from npuscope.machine.schema import find_fault
from npuscope.structs import replace

# --- Reading ---

log = logging.getLogger(__name__)

# The compiler's copy holds the pseudo pool "ec params pool", whose size is the largest integer.
_ADDRESS_SPACE = 1 << 32
RELATIVE = "USEMODE_RELATIVE"
RAW = "FORMAT_RAW"
# Bus decoders of this family hand out windows of 256 MiB: one external memory has a window.
_WINDOW_BITS = 28


class Mpool(Struct, frozen=True):
    pools: tuple[MemoryPool, ...]
    cache_bytes: int | None
    notes: tuple[str, ...]


def read_mpool(path: str | Path, machine: Machine | None = None) -> tuple[MemoryPool, ...]:
    """The pools of the file; the machine's own pools define their path and score."""
    mpool = read_mpool_file(path, machine or load_machine())
    for note in mpool.notes:
        log.warning(note)
    return mpool.pools


def apply_mpool(machine: Machine, path: str | Path) -> Machine:
    """The machine with the pools of the file instead of its own."""
    mpool = read_mpool_file(path, machine)
    for note in mpool.notes:
        log.warning(note)
    changed = with_these_pools(machine, mpool.pools, mpool.cache_bytes)
    fault = find_fault(changed)
    if fault is not None:
        raise FileError(f"{fault.path}: {fault.message}", where=str(path))
    return changed


def with_these_pools(
    machine: Machine, pools: tuple[MemoryPool, ...], cache_bytes: int | None = None
) -> Machine:
    """The machine with other pools, in its own order of banks."""
    cache = replace(machine.cache, size_bytes=cache_bytes) if cache_bytes else machine.cache
    return replace(machine.with_pools(pools), cache=cache, placement=_placement(machine, pools))


def as_reached(pool: MemoryPool, machine: Machine) -> MemoryPool:
    """The pool with the path that leads to its address, and the rank of its class."""
    reached = replace(pool, path=_road(pool.address, machine) or machine.cache.path)
    # The compiler's rank of a pool: the machine's pool of that name, else of that class.
    ranked = (
        [own.score for own in machine.pools if own.name == reached.name],
        [
            o.score
            for o in machine.pools
            if (o.path, o.writable) == (reached.path, reached.writable)
        ],
        [own.score for own in machine.pools if own.path == reached.path],
    )
    score = next((scores[0] for scores in ranked if scores), 0)
    return replace(reached, score=score)


def read_mpool_file(path: str | Path, machine: Machine) -> Mpool:
    """The pools and cache of the file, with notes on unusual content."""
    source = read_json(path)
    memory = VendorNode(source.value, file=str(path)).get("memory")
    entries = memory.get("mempools").items()
    real = [entry for entry in entries if entry.get("size").sized() < _ADDRESS_SPACE]
    if not real:
        raise memory.error("'mempools' has no pool")
    pools = tuple(_pool(entry, machine) for entry in real)
    odd = [_road_note(path, pool, machine) for pool in pools]
    odd.append(_format_note(path, real))
    return Mpool(pools, _cache_bytes(memory), (*source.notes, *(note for note in odd if note)))


def _pool(entry: VendorNode, machine: Machine) -> MemoryPool:
    prop = entry.get("prop")
    address = entry.get("offset").sized()
    mode = entry.find("mode")
    pool = MemoryPool(
        name=entry.get("name").text(),
        file=entry.get("fname").text(),
        address=address,
        size_bytes=entry.get("size").sized(),
        byte_width=prop.get("byteWidth", "byte_width").whole(),
        freq_ratio=prop.get("freqRatio", "freq_ratio").number(),
        path="",
        score=0,
        read_power_mw=_power(prop, "read_power", "readPower"),
        write_power_mw=_power(prop, "write_power", "writePower"),
        writable="WRITE" in prop.get("rights").text(),
        cacheable=_flag(prop, "cacheable"),
        constants_preferred=_flag(prop, "constants_preferred", "constantsPreferred"),
        relative=mode is not None and mode.text() == RELATIVE,
    )
    return as_reached(pool, machine)


def _power(prop: VendorNode, *names: str) -> float:
    node = prop.find(*names)
    return node.number() if node else 0.0


def _flag(prop: VendorNode, *names: str) -> bool:
    node = prop.find(*names)
    return node.is_on() if node else False


def _road(address: int, machine: Machine) -> str | None:
    """The machine's path to an address, judged by its own pools; None if none is near."""
    near = [pool for pool in machine.pools if _window(pool.address) == _window(address)]
    if len(near) <= 1:
        return near[0].path if near else None
    address = secure_alias(address)
    near.sort(key=lambda pool: secure_alias(pool.address))
    starts = [secure_alias(pool.address) for pool in near]
    for pool, start, above in zip(near, starts, [*starts[1:], starts[-1]], strict=True):
        # A pool kept for firmware has size 0: it reaches up to the next one.
        end = start + pool.size_bytes if pool.size_bytes else above
        if start <= address < end:
            return pool.path
    # Beside the banks lies the cache used as plain memory, behind the cache's own port.
    return machine.cache.path


def _window(address: int) -> int:
    return secure_alias(address) >> _WINDOW_BITS


def _format_note(path: str | Path, entries: list[VendorNode]) -> str:
    """Images for a loader hold raw bytes; an Intel HEX file has fixed addresses."""
    formats = [(entry.get("name").text(), entry.find("fformat")) for entry in entries]
    others = [(name, node.text()) for name, node in formats if node and node.text() != RAW]
    if not others:
        return ""
    names = ", ".join(name for name, _ in others)
    return (
        f"{path}: {others[0][1]} of {names}: npuscope writes initialisers as .raw files, and an "
        f'image that is loaded at run time needs "fformat": "{RAW}"'
    )


def _road_note(path: str | Path, pool: MemoryPool, machine: Machine) -> str:
    if _road(pool.address, machine) is not None:
        return ""
    return (
        f"{path}: pool '{pool.name}' at {pool.address:#x} is not in any memory window of "
        f"{machine.name}; timed like memory on '{machine.cache.path}'"
    )


def _cache_bytes(memory: VendorNode) -> int | None:
    info = memory.find("cacheinfo", "cacheInfo")
    first = next(info.items(), None) if info else None
    if first is None:
        return None
    parts = [first.find("nlines"), first.find("linesize", "lineSize"), first.find("associativity")]
    size = 1
    for part in parts:
        size *= part.whole() if part else 0
    return size or None


def _placement(machine: Machine, pools: tuple[MemoryPool, ...]) -> Placement:
    """The machine's order of banks, with the names that this file uses."""
    old = machine.placement
    here = {pool.name for pool in pools}
    own = {pool.name for pool in machine.pools}
    banks = {pool.path for pool in machine.pools if pool.name in old.bank_order}
    parts = {_window(pool.address) for pool in machine.pools if pool.name in old.virtual_pool}
    new = sorted((pool for pool in pools if pool.name not in own), key=lambda pool: pool.address)
    return replace(
        old,
        bank_order=(
            *(name for name in old.bank_order if name in here),
            *(pool.name for pool in new if pool.path in banks),
        ),
        virtual_pool=(
            *(name for name in old.virtual_pool if name in here),
            *(pool.name for pool in new if _window(pool.address) in parts),
        ),
    )


# --- Writing, in the hand-written form ---

_NEAR = 2.0  # clock ratio up to which the vendor's files call a memory fast


def mpool_text(machine: Machine) -> str:
    """The machine's pools and cache; read back they are the same."""
    cache = machine.cache
    lines = cache.size_bytes // (cache.line_bytes * cache.ways)
    entry = {"nlines": lines, "linesize": cache.line_bytes, "associativity": cache.ways}
    memory = {
        "cacheinfo": [entry | {"bypass_enable": 1}],
        "mem_file_prefix": "atonbuf",
        "mempools": [_written_pool(pool) for pool in machine.pools],
    }
    return json.dumps({"memory": memory}, indent=2) + "\n"


def _written_pool(pool: MemoryPool) -> dict[str, Any]:
    near = not pool.cacheable
    properties: dict[str, Any] = {
        "rights": "ACC_WRITE" if pool.writable else "ACC_READ",
        "throughput": "HIGH" if near and pool.freq_ratio < _NEAR else "MID",
        "latency": "LOW" if near and pool.freq_ratio < _NEAR else "MID" if near else "HIGH",
        "byteWidth": pool.byte_width,
        "freqRatio": pool.freq_ratio,
        "cacheable": "CACHEABLE_ON" if pool.cacheable else "CACHEABLE_OFF",
        "read_power": pool.read_power_mw,
        "write_power": pool.write_power_mw,
    }
    if pool.constants_preferred:
        properties["constants_preferred"] = "true"
    mode = {"mode": RELATIVE} if pool.relative else {}
    return {
        "fname": pool.file,
        "name": pool.name,
        "fformat": RAW,
        **mode,
        "prop": properties,
        "offset": {"value": f"0x{pool.address:08x}", "magnitude": "BYTES"},
        "size": {"value": str(pool.size_bytes // 1024), "magnitude": "KBYTES"}
        if pool.size_bytes % 1024 == 0
        else {"value": str(pool.size_bytes), "magnitude": "BYTES"},
    }


# --- Machines for the world of code that is not secure ---


def with_non_secure_pools(machine: Machine) -> Machine:
    """Internal pools at the addresses under which code that is not secure reaches them."""
    pools = tuple(replace(p, address=non_secure_alias(p.address)) for p in machine.pools)
    return machine.with_pools(pools)


# --- Machines for images loaded at run time: external memories get their address then ---


def with_relative_pools(machine: Machine) -> Machine:
    """External pools (those behind the NPU's cache) become relative, all others stay fixed."""
    pools = tuple(replace(p, relative=p.relative or p.cacheable) for p in machine.pools)
    return machine.with_pools(pools)
