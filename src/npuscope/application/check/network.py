"""A generated network as ranges of memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from npuscope.application.check.model import (
    FLASH_START,
    PSRAM_START,
    AddressRange,
    CheckedNetwork,
    secure_range,
)
from npuscope.program.network_c.reader import read_network_c


def checked_network(path: Path, file: str) -> CheckedNetwork:
    network = read_network_c(path)
    program = network.program
    pools = {p.name: p for p in program.pools if not p.relative and p.size_bytes}
    name = path.stem
    rows = [b for b in program.buffers if not b.view_of and b.size_bytes and b.pool in pools]
    spans = {
        b.name: secure_range(name, b.name, pools[b.pool].address + b.offset, b.size_bytes)
        for b in rows
    }
    return CheckedNetwork(
        name,
        file,
        tuple(
            secure_range(name, p.name, p.address, p.size_bytes)
            for p in pools.values()
            if not p.virtual
        ),
        _merged(spans.values()),
        _merged(s for s in spans.values() if FLASH_START <= s.start < PSRAM_START),
        tuple(spans[n] for n in program.inputs if n in spans),
        tuple(spans[n] for n in program.outputs if n in spans),
    )


def _merged(spans: Iterable[AddressRange]) -> tuple[AddressRange, ...]:
    """Ranges that touch, or nearly, are one: what a network uses of a memory."""
    rows: list[AddressRange] = []
    for one in sorted(spans, key=lambda s: s.start):
        last = rows[-1] if rows else None
        if last is not None and one.start <= last.end + 64 and one.start >> 28 == last.start >> 28:
            rows[-1] = AddressRange(last.owner, "used", last.start, max(last.end, one.end))
        else:
            rows.append(AddressRange(one.owner, "used", one.start, one.end))
    return tuple(rows)
