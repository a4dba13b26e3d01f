"""`estimate --objective`: the best set-up of a network as the Profile that all verbs share."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npuscope.advice.explanation import Explanation
from npuscope.families.interface import Report
from npuscope.families.many_core.compiler.depth_first import batch_of
from npuscope.families.many_core.inference import core_machine_info
from npuscope.families.many_core.machine import known_core_machines, load_core_machine
from npuscope.families.many_core.report.setups import (
    SetupSearch,
    setup_line,
    setups_json,
    setups_text,
)
from npuscope.families.many_core.rules import FAMILY
from npuscope.families.many_core.setups.model import MODEL_ERROR
from npuscope.families.many_core.setups.network import graph_without_weights
from npuscope.families.many_core.setups.search import Objective, search
from npuscope.families.many_core.setups.work import network_work
from npuscope.graph.model import Graph
from npuscope.profiling.model import ModelInfo, Profile
from npuscope.profiling.plain import plain_part, plain_profile


def searched(source: str | Path | Graph, options: Mapping[str, Any]) -> Profile:
    """Its time is the latency of the best set-up; the SetupSearch is the payload."""
    machine = load_core_machine(
        options.get("machine") or known_core_machines()[0],
        overrides=options.get("overrides"),
        machine_file=options.get("machine_file"),
    )
    if isinstance(source, Graph):
        graph, file = source, source.name
    else:
        graph, file = graph_without_weights(Path(source), options.get("shapes")), Path(source).name
    work = network_work(graph, machine, batch_of(graph))
    ranking = search(work, machine, Objective(options["objective"]))
    best = ranking.best
    low, high = best.interval
    result = SetupSearch(file, machine, ranking, tuple(graph.notes))
    return plain_profile(
        ModelInfo(result.file, "", (), (), work.macs, graph.parameters()),
        core_machine_info(machine),
        [plain_part(n, str(name), ms) for n, (name, ms) in enumerate(best.parts_ms.items())],
        total_ms=best.latency_ms,
        interval_ms=(low * best.latency_ms, high * best.latency_ms),
        model_error=MODEL_ERROR,
        notes=result.notes,
        family=FAMILY,
        machine_words=str(best.setup),
        batch=best.setup.batch * best.setup.copies * best.setup.in_flight,
        figures={"ddr_bytes": best.ddr_bytes},
        payload=result,
    )


def explain_search(profile: Profile) -> Explanation:
    """What the best set-up waits for; the set-ups beside it are the changes that were tried."""
    result: SetupSearch = profile.payload
    answer = f"{setup_line(result.best)}, bound by {result.best.limit}"
    lines = tuple(setups_text(result).splitlines()[1:])
    about = {**setups_json(result), "interval_ms": list(profile.interval_ms)}
    return Explanation(answer, profile, (), (), lines=lines, about=about)


def search_screen(result: SetupSearch) -> Report:
    return Report(setups_text(result), setups_json(result))
