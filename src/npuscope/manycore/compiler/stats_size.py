"""How large a stats buffer gets: the bytes that the last op of every thread group writes."""

from __future__ import annotations

from collections.abc import Mapping

from npuscope.manycore.buffer_format import HEADER, ROW, aligned, present
from npuscope.manycore.records import SECTIONS, SectionId


def stats_bytes(
    counts: Mapping[SectionId, int], level: int, *, has_pmu: bool, ddr_stats: bool
) -> int:
    """Header, table of contents and the sections that level and options allow."""
    kept = present(level, has_pmu=has_pmu, ddr_stats=ddr_stats)
    size = aligned(HEADER.size + ROW.itemsize * len(kept))
    return size + sum(aligned(counts.get(key, 0) * SECTIONS[key].dtype.itemsize) for key in kept)
