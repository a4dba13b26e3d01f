"""What a build needs on the board, as text and as JSON."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from npuscope.loadable.checklist import CacheWork, Checklist, Initialiser
from npuscope.loadable.checklist_memories import UsedMemory
from npuscope.text import safe_terminal

_WHERE = " (where the CPU's data cache covers the memory)"


def answer(checklist: Checklist) -> str:
    """All of it in one line."""
    files = f"{_count(len(checklist.initialisers), 'file')} to write"
    banks = f"{_count(len(checklist.memories), 'memory', 'memories')} to power"
    caches = f"{_count(len(checklist.caches), 'buffer')} with cache maintenance"
    faults = sum(bool(row.problem) for row in checklist.initialisers)
    problem = f"; {_count(faults, 'file')} missing or too short" if faults else ""
    return f"{files}, {banks}, {caches}{problem}"


def checklist_text(checklist: Checklist) -> str:
    own = [work for work in checklist.caches if not work.generated]
    generated = [work for work in checklist.caches if work.generated]
    parts = [
        ("files to write before the first run", [_file(row) for row in checklist.initialisers]),
        ("memories to power and open", [line for m in checklist.memories for line in _memory(m)]),
        (f"cache maintenance by the application{_WHERE}", [_cache(work) for work in own]),
        ("cache maintenance that network.c has to do", [_cache(work) for work in generated]),
        ("alignment", [_box(line) for line in checklist.alignment]),
        ("runtime and clocks", [_box(line) for line in checklist.notes]),
    ]
    lines = [line for title, rows in parts if rows for line in ("", title, *rows)]
    return "\n".join([answer(checklist), *lines])


def checklist_json(checklist: Checklist) -> dict[str, Any]:
    return {
        "schema": "npuscope/checklist/1",
        "network": checklist.network,
        "source": checklist.source,
        "files": [
            {
                **asdict(row),
                "crc32": None if row.crc32 is None else f"{row.crc32:08x}",
                "problem": row.problem,
            }
            for row in checklist.initialisers
        ],
        "memories": [asdict(memory) for memory in checklist.memories],
        "buffers": [{**asdict(work), "aligned": work.aligned} for work in checklist.caches],
        "alignment": list(checklist.alignment),
        "notes": list(checklist.notes),
    }


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def _box(text: str) -> str:
    return f"  [ ] {safe_terminal(text)}"


def _file(row: Initialiser) -> str:
    place = "at the address that the loader gives" if row.relative else f"at {row.address:#010x}"
    if not row.file:
        return _box(f"{row.pool}: MISSING, {row.needed_bytes:,} bytes {place}")
    problem = f"  PROBLEM: {row.problem}" if row.problem else ""
    return _box(
        f"{row.file} -> {row.pool} {place}, {row.size_bytes:,} bytes, "
        f"CRC-32 {row.crc32 or 0:08x}{problem}"
    )


def _memory(memory: UsedMemory) -> list[str]:
    pools = ", ".join(memory.pools)
    head = f"{memory.name} ({pools}) from {memory.address:#010x}, {memory.used_bytes:,} bytes used"
    return [_box(head), *(f"      {safe_terminal(step)}" for step in memory.steps)]


def _cache(work: CacheWork) -> str:
    npu = "; NPU cache too" if work.npu_cache else ""
    return _box(
        f"{work.buffer} in {work.pool} at {work.address:#010x}, {work.size_bytes:,} bytes, "
        f"{work.reason}: {work.action}{npu}"
    )
