"""How large a stats buffer gets: the bytes that the last op of every thread group writes."""

from __future__ import annotations

from collections.abc import Mapping

from npuscope.manycore.buffer_format import HEADER, ROW, aligned
from npuscope.manycore.records import SECTIONS, Needs, Section, SectionId


def stats_bytes(
    counts: Mapping[SectionId, int], level: int, *, has_pmu: bool, ddr_stats: bool
) -> int:
    """Header, table of contents and the sections that level and options allow."""
    present = [
        section
        for section in SECTIONS.values()
        if level >= section.min_level and _asked(section, has_pmu, ddr_stats)
    ]
    size = aligned(HEADER.size + ROW.itemsize * len(present))
    return size + sum(aligned(counts.get(s.id, 0) * s.dtype.itemsize) for s in present)


def _asked(section: Section, has_pmu: bool, ddr_stats: bool) -> bool:
    asked = {Needs.NOTHING: True, Needs.PMU: has_pmu, Needs.DDR: ddr_stats}
    return asked[section.needs]
