"""Memory pools as a vendor .mpool file, in the spelling that people write."""

from __future__ import annotations

import json
from typing import Any

from npuscope.machine.model import Machine, MemoryPool
from npuscope.machine.mpool import RELATIVE

_NEAR = 2.0  # ratio of clocks up to which the vendor's files call a memory fast


def mpool_text(machine: Machine) -> str:
    """The machine's pools and cache; read back they are the same."""
    cache = machine.cache
    lines = cache.size_bytes // (cache.line_bytes * cache.ways)
    entry = {"nlines": lines, "linesize": cache.line_bytes, "associativity": cache.ways}
    memory = {
        "cacheinfo": [entry | {"bypass_enable": 1}],
        "mem_file_prefix": "atonbuf",
        "mempools": [_pool(pool) for pool in machine.pools],
    }
    return json.dumps({"memory": memory}, indent=2) + "\n"


def _pool(pool: MemoryPool) -> dict[str, Any]:
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
        "fformat": "FORMAT_RAW",
        **mode,
        "prop": properties,
        "offset": {"value": f"0x{pool.address:08x}", "magnitude": "BYTES"},
        "size": {"value": str(pool.size_bytes // 1024), "magnitude": "KBYTES"}
        if pool.size_bytes % 1024 == 0
        else {"value": str(pool.size_bytes), "magnitude": "BYTES"},
    }
