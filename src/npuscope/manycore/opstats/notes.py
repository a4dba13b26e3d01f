"""Which level or option of the compiler a view needs that a buffer lacks."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.manycore.buffer_format import OPTIONS, options_for
from npuscope.manycore.records import SECTIONS, Needs, SectionId
from npuscope.manycore.stats import Stats


@dataclass(frozen=True, slots=True)
class View:
    """A part of summary and trace, and the section that it is made of."""

    section: SectionId
    title: str


VIEWS = (
    View(SectionId.PMU_THREAD, "PMU counters"),
    View(SectionId.DDR_CORE, "DDR traffic"),
    View(SectionId.PORT_WAIT, "port waits, doorbells and semaphore ops"),
    View(SectionId.OP_REC, "ops, sync, barriers, utilization and transfers"),
    View(SectionId.OP_PMU, "PMU counters by op"),
)


def lacking(stats: Stats) -> tuple[str, ...]:
    """One sentence for each view that this buffer cannot give."""
    return tuple(
        f"no {view.title}: compile with {_missing(stats, view.section)} "
        f"(this buffer has level {stats.level})"
        for view in VIEWS
        if not stats.has(view.section) and _worth_saying(stats, view.section)
    )


def _worth_saying(stats: Stats, section: SectionId) -> bool:
    """Counters by op are a matter only for who asked for counters."""
    return section is not SectionId.OP_PMU or has_pmu(stats)


def _missing(stats: Stats, section: SectionId) -> str:
    """Only what is not given already."""
    record = SECTIONS[section]
    given = {Needs.NOTHING: True, Needs.PMU: has_pmu(stats), Needs.DDR: stats.layout.ddr_stats}
    words = []
    if stats.level < record.min_level:
        words.append(f"-stats-level={record.min_level} or higher")
    if not given[record.needs]:
        words.append(OPTIONS[record.needs])
    return " and ".join(words) or options_for(section)


def has_pmu(stats: Stats) -> bool:
    return bool(stats.layout.pmu.recipe or stats.layout.pmu.events)
