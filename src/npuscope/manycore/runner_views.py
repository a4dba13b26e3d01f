"""Which level or flag of the compiler a view of the records needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npuscope.errors import UsageError
from npuscope.manycore.buffer_format import collected, options_for
from npuscope.manycore.layout import Layout
from npuscope.manycore.records import SectionId
from npuscope.text import safe_terminal


@dataclass(frozen=True, slots=True)
class View:
    """Something to look at, and the section that it is made of."""

    name: str
    meaning: str
    section: SectionId


VIEWS = {
    view.name: view
    for view in (
        View("threads", "durations of inference and activation by thread", SectionId.THREAD_INF),
        View("pmu", "PMU counts by thread", SectionId.PMU_THREAD),
        View("ddr", "DDR traffic by core", SectionId.DDR_CORE),
        View("ports", "waits for doorbells", SectionId.PORT_WAIT),
        View("semaphores", "semaphore increments", SectionId.SEM_OP),
        View("ops", "operators: op tables and traces", SectionId.OP_REC),
        View("op-pmu", "PMU counts by operator", SectionId.OP_PMU),
    )
}


def missing(layout: Layout) -> list[View]:
    """Views that the records of this program cannot give."""
    there = collected(layout.stats_level, layout)
    return [view for view in VIEWS.values() if view.section not in there]


def check_views(layout: Layout, wanted: Sequence[str]) -> None:
    """Refuse before anything runs what the program was not compiled for."""
    unknown = [name for name in wanted if name not in VIEWS]
    if unknown:
        raise UsageError(
            f"unknown view '{safe_terminal(unknown[0])}'",
            where="--want",
            hint=f"known: {', '.join(VIEWS)}",
        )
    for view in missing(layout):
        if view.name in wanted:
            raise UsageError(
                f"{view.meaning}: the program was compiled with -stats-level="
                f"{layout.stats_level} and does not collect them",
                where=f"--want {view.name}",
                hint=f"compile with {options_for(view.section)}",
            )


def absent_notes(layout: Layout) -> tuple[str, ...]:
    """One sentence a view that the buffers will not have."""
    return tuple(
        f"not collected: {view.meaning}: needs {options_for(view.section)}"
        for view in missing(layout)
    )
