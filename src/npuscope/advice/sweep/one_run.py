"""One run, anywhere: JSON in, JSON out. What fails is a row too."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from npuscope.advice.network_row import stored_counts, stored_sizes, stored_times
from npuscope.advice.sweep.runs import canonical, versions
from npuscope.building import Build, build
from npuscope.edits import whole_bytes
from npuscope.errors import FileError, NpuscopeError
from npuscope.families.registry import family_of
from npuscope.files.load import read_model
from npuscope.graph.model import Graph
from npuscope.machine.load import MachineReader
from npuscope.machine.model import Machine
from npuscope.machine.set_keys import same_mapping
from npuscope.profiling.facts import ProgramFacts
from npuscope.profiling.model import Profile
from npuscope.profiling.run import Retimer, RunTimes, retimer
from npuscope.rulebook.finding import Finding
from npuscope.structs import replace

# Runs come ordered by model; a second place serves the worker that begins the next one.
_KEPT_GRAPHS = 2
_graphs: OrderedDict[str, Graph] = OrderedDict()
# Machines of one sweep that differ in mapping keys: a few memory configurations or generations.
_KEPT_PROGRAMS = 8
_compiled: deque[tuple[str, Retimer, Build]] = deque(maxlen=_KEPT_PROGRAMS)
_machines = MachineReader()


class _ModelWantedError(Exception):
    """The model is not on this worker yet: it has to be sent along."""


def run_json(task: str, model: bytes | None = None) -> str:
    """Do one task; raises nothing on account of a model.

    The answer is a row; or `refused` with the versions here, where they are not those of the
    task; or `wanted`, where the model's bytes have to be sent along. A task without a run only
    asks for the versions. A list of tasks is answered by a list of rows: of all that only have
    to be timed, or else of the first.
    """
    record = json.loads(task)
    if isinstance(record, list):
        return json.dumps(_rows(record))
    if record["versions"] != versions():
        return json.dumps({"refused": versions()})
    if "head" not in record:
        return json.dumps({"welcome": versions()})
    try:
        return json.dumps(_row(record, model))
    except _ModelWantedError:
        return json.dumps({"wanted": record["head"]["model_sha256"]})


def _rows(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the first tasks: those whose program is there already, at least one."""
    try:
        with _heard() as warnings:
            rows = _retimed(tasks)
    except Exception:  # whose fault it is, the runs say one by one
        rows = []
    return [_row(tasks[0], None)] if warnings or not rows else rows


def _retimed(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the tasks, up to the first one for which a network has to be compiled."""
    started, name = time.monotonic(), _program_name(tasks[0])
    machine = _machines.read(tasks[0]["machine"])
    ready = _kept(name, machine)
    if ready is None or tasks[0]["asked"]["findings"]:
        return []
    timer, network = ready
    machines = [machine]
    for task in tasks[1:]:
        machine = _machines.read(task["machine"])
        if _program_name(task) != name or not same_mapping(network.machine, machine):
            break
        machines.append(machine)
    times = timer.times(machines)
    ending = _ending((time.monotonic() - started) / len(times))
    return [
        {**task["head"], "status": "ok", **_columns(entry, timer.facts), **ending}
        for task, entry in zip(tasks, times, strict=False)
    ]


def failed_row(head: dict[str, Any], error: NpuscopeError, seconds: float = 0.0) -> dict[str, Any]:
    texts = {
        "kind": error.kind,
        "message": error.message,
        "where": error.where,
        "hint": error.hint,
    }
    return {**head, "status": "failed", "error": texts, **_ending(seconds)}


def _row(task: dict[str, Any], model: bytes | None) -> dict[str, Any]:
    started = time.monotonic()
    head = task["head"]
    try:
        with _heard() as warnings:
            figures = _figures(task, model, warnings)
    except _ModelWantedError:
        raise
    except NpuscopeError as error:
        error.where = error.where.replace(str(_path(task)), head["model"])
        return failed_row(head, error, time.monotonic() - started)
    except Exception as error:  # a bug in npuscope, or out of memory: the other runs continue
        ours = NpuscopeError(
            f"this is a bug in npuscope: {type(error).__name__}: {error}",
            where=head["model"],
            hint="please report it with the model",
        )
        return failed_row(head, ours, time.monotonic() - started)
    figures["notes"] = [*figures["notes"], *warnings]
    return {**head, "status": "ok", **figures, **_ending(time.monotonic() - started)}


def _ending(seconds: float) -> dict[str, Any]:
    return {"seconds": round(seconds, 4), "version": versions()["npuscope"]}


def _figures(task: dict[str, Any], model: bytes | None, warnings: list[str]) -> dict[str, Any]:
    """Compile and estimate: a Profile as columns."""
    if task["machine"].startswith('{"family":'):  # what a family other than the first compiles with
        options = json.loads(task["machine"])["options"]
        family, graph = family_of(options["machine"]), _graph(task, model)
        if not task["asked"]["findings"]:
            profile = family.estimate(graph, options)
            return _columns(profile, profile)
        explanation = family.explain(graph, options)
        columns = _columns(explanation.profile, explanation.profile)
        return columns | _counted(explanation.findings)
    wish, machine = task["asked"], _machines.read(task["machine"])
    timer, network = _prepared(task, model, machine, warnings)
    profile = timer.estimate(machine)
    columns = _columns(profile, timer.facts)
    if not wish["findings"]:
        return columns
    from npuscope.advice.explain import explain

    findings = _counted(explain(replace(network, machine=machine), profile).findings)
    return columns | findings


def _prepared(
    task: dict[str, Any], model: bytes | None, machine: Machine, warnings: list[str]
) -> tuple[Retimer, Build]:
    """What was compiled for a machine that differs in timing keys alone serves this run too."""
    wish, network = task["asked"], _graph(task, model)
    name = _program_name(task)
    entry = _kept(name, machine)
    if entry is not None:
        return entry
    told: Any = {name: value for name, value in wish.items() if name != "findings"}
    options: Any = {**told, "machine": machine}
    network_build = build(network, options)
    timer = retimer(network_build.program, network_build.machine, network_build.graph)
    if not warnings:  # every row has to tell them
        _compiled.append((name, timer, network_build))
    return timer, network_build


def _kept(name: str, machine: Machine) -> tuple[Retimer, Build] | None:
    for key, timer, network in _compiled:
        if key == name and same_mapping(network.machine, machine):
            return timer, network
    return None


def _program_name(task: dict[str, Any]) -> str:
    return f"{_graph_name(task)} {canonical(task['asked'])}"


def _graph_name(task: dict[str, Any]) -> str:
    head = task["head"]
    return canonical([head["model_sha256"], head["shapes"]])


def _graph(task: dict[str, Any], model: bytes | None) -> Graph:
    """The network, read once for all the runs of its model that come here in a row."""
    head, name = task["head"], _graph_name(task)
    if name not in _graphs:
        if model is None and "path" not in task:
            raise _ModelWantedError
        data = model if model is not None else whole_bytes(Path(task["path"]))
        if hashlib.sha256(data).hexdigest() != head["model_sha256"]:
            raise FileError(
                "the model file changed after the sweep began",
                where=head["model"],
                hint="start the sweep again: the changed model gets new runs",
            )
        _graphs[name] = read_model(_path(task), data, head["shapes"])
        while len(_graphs) > _KEPT_GRAPHS:
            _graphs.popitem(last=False)
    _graphs.move_to_end(name)
    return _graphs[name]


def _path(task: dict[str, Any]) -> Path:
    return Path(task.get("path", task["head"]["model"]))


def _columns(times: Profile | RunTimes, facts: ProgramFacts | Profile) -> dict[str, Any]:
    """Those of a NetworkRow, and what only a sweep lists."""
    time_ms, fit = times.time, facts.fit
    return {
        **stored_times(times),
        "inferences_per_s": times.inferences_per_s,
        # A sum over nothing is a whole number.
        "npu_core_ms": float(time_ms.npu_core_ms),
        "control_ms": float(time_ms.control_ms),
        "software_ms": float(time_ms.software_ms),
        "hybrid_ms": float(time_ms.hybrid_ms),
        **stored_sizes(facts),
        "ram_lower_bound_bytes": facts.memory.lower_bound_bytes,
        "fits_on_chip": fit.on_chip,
        "fits_with_flash": fit.with_flash,
        "macs": facts.model.macs,
        "params": facts.model.params,
        "epochs": sum(number for kind, number in facts.counts.items() if kind != "blobs")
        or len(facts.epochs),
        **stored_counts(facts),
        "notes": list(times.notes),
        **({"unknown_ops": list(facts.unknown_ops)} if facts.unknown_ops else {}),
    }


def _counted(findings: Iterable[Finding]) -> dict[str, Any]:
    counts = Counter(finding.severity.value for finding in findings)
    return {f"findings_{name}": counts[name] for name in ("error", "warning", "info")}


@contextmanager
def _heard() -> Iterator[list[str]]:
    """Warnings that readers log go into the row, not to a worker's terminal."""
    log = logging.getLogger("npuscope")
    texts: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: texts.append(record.getMessage())  # type: ignore[method-assign]
    before = log.propagate
    log.propagate = False
    log.addHandler(handler)
    try:
        yield texts
    finally:
        log.removeHandler(handler)
        log.propagate = before
