"""What may be compared: models, builds, saved profiles, results in JSON, logs of a board."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from npuscope.advice.compare.model import Side
from npuscope.bounded_file import RESULT, read_bytes, read_head
from npuscope.building import (
    Build,
    Options,
    Source,
    build,
    model_beside,
    predicted,
    read_graph,
)
from npuscope.compiler.pipeline import compile_graph
from npuscope.errors import FileError, NpuscopeError, UsageError
from npuscope.families.registry import families, family_for
from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.options.rows import BUILDING
from npuscope.profiling.model import UNKNOWN_FIT, UNKNOWN_MEMORY, Profile
from npuscope.profiling.profiler_log import is_profiler_log
from npuscope.profiling.saved import is_saved_profile, read_profile
from npuscope.profiling.validate_report import is_validate_report
from npuscope.program.generate_report.lines import read_text
from npuscope.program.model import Epoch, EpochKind, Program, Refused
from npuscope.records import decode, encode
from npuscope.rulebook.registry import rule
from npuscope.structs import replace
from npuscope.text import safe_terminal

# --- Why a vendor's program leaves the NPU: reasons from lowering its model ---
# Vendor files say that an epoch is software, not why. The model is lowered by the rules of the same
# generation; what it says about a source op holds for the epoch that came from it.

_USUAL = {"QuantizeLinear": "NA-QUANTIZE-FLOAT", "DequantizeLinear": "NA-DEQUANTIZE-FLOAT"}
_OFF = (EpochKind.SW, EpochKind.HYBRID)


def with_model(network: Build, source: Source, model: str | Path | None, options: Options) -> Build:
    """A compiled program with the network it came from: given, or found beside it by its
    fingerprint."""
    if network.graph is not None or isinstance(source, Graph):
        return network
    file = model or model_beside(Path(source), network.program)
    if file is None:
        return network
    try:
        graph = read_graph(file, options)
        program = with_reasons(network.program, graph, network.machine)
    except NpuscopeError as error:
        if model is not None:
            raise
        # Nobody asked for the model: the build is explained without it.
        name = safe_terminal(Path(file).name)
        note = f"reasons are not known: the model beside it, {name}, is refused: {error.message}"
        notes = (*network.program.notes, note)
        return replace(network, program=replace(network.program, notes=notes))
    return replace(network, graph=graph, program=program)


def with_reasons(program: Program, graph: Graph, machine: Machine) -> Program:
    """The program with a trail on every epoch off the NPU that our lowering explains."""
    ours = compile_graph(graph, machine)
    reasons = _reasons(epoch for epoch in ours.epochs if epoch.trail)
    return replace(program, epochs=tuple(_explained(epoch, reasons) for epoch in program.epochs))


def _reasons(epochs: Iterable[Epoch]) -> dict[str, list[Epoch]]:
    by_op: dict[str, list[Epoch]] = {}
    for epoch in epochs:
        outputs = epoch.call.outputs if epoch.call else ()
        for name in (*epoch.origin, *outputs):
            by_op.setdefault(plain(name), []).append(epoch)
    return by_op


def _explained(epoch: Epoch, reasons: dict[str, list[Epoch]]) -> Epoch:
    if epoch.kind not in _OFF or epoch.trail:
        return epoch
    twins = [other for name in epoch.origin for other in reasons.get(plain(name), ())]
    # Of the same operator if there is one; a source op may become several epochs.
    same = [other for other in twins if set(other.operators) & set(epoch.operators)]
    trail = (same or twins)[0].trail if twins else ()
    return replace(epoch, trail=trail or _usual(epoch))


def _usual(epoch: Epoch) -> tuple[Refused, ...]:
    """Conversions that the front-end put in have no source op; their reason is always one."""
    name = next((_USUAL[kind] for kind in epoch.operators if kind in _USUAL), "")
    refusal = rule(name)
    return (Refused("NPU", name, refusal.sentence),) if refusal else ()


def plain(name: str) -> str:
    """A source op's name as vendor tools write it: "CONV_2D:#68" and "CONV_2D_68" are one."""
    kind, _, rest = name.partition(":")
    if rest.startswith("#"):
        return f"{kind}_{rest[1:]}"
    return re.sub(r"\W", "_", rest or kind).strip("_").removesuffix("_quantized")


# --- Results of `estimate --json` and `profile --json`, read back as a Profile ---
# Those objects are for readers: counters are rounded, engines and bursts are left out. Times,
# kinds, source ops and memories are all there, which is what a comparison needs.

PROFILE_SCHEMAS = ("npuscope/estimate/1", "npuscope/profile/1")
GATE_SCHEMA = "npuscope/gate/1"
_HEAD_BYTES = 256
_DROPPED = ("compute_cycles", "max_cycles", "core_cycles", "pre_cycles", "post_cycles", "bound")


def result_schema(path: str | Path) -> str:
    """The schema that the first lines of a .json file name, if it is one of these; else ""."""
    path = Path(path)
    if path.suffix.lower() != ".json" or not path.is_file():
        return ""
    head = read_head(path, _HEAD_BYTES)
    schemas = (*PROFILE_SCHEMAS, GATE_SCHEMA)
    return next((name for name in schemas if f'"schema": "{name}"'.encode() in head), "")


def read_result(path: str | Path) -> dict[str, Any]:
    """The object of a result file."""
    data = read_bytes(path, RESULT)
    try:
        result = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise FileError(f"not JSON: {error}", where=str(path)) from None
    if not isinstance(result, dict):
        raise FileError("expected an object", where=str(path))
    return result


def read_result_profile(path: str | Path) -> Profile:
    try:
        return profile_from_result(read_result(path))
    except FileError as error:
        place = safe_terminal(str(path))
        error.where = error.where if place in error.where else f"{place}: {error.where}"
        raise


def profile_from_result(data: dict[str, Any]) -> Profile:
    """The records of profile.model, under whose names and types everything is checked."""
    epochs = data.get("epochs")
    if not isinstance(epochs, list):
        raise FileError("expected a list", where="$.epochs")
    machine = data.get("machine")
    profile: Profile = decode(
        {
            "program_hash": "",
            **{name: data.get(name) for name in ("model", "total_ms", "interval_ms", "time")},
            "machine": machine,
            "model_error": data.get("model_error", ""),
            "runs": data.get("runs") or [_predicted(machine)],
            "epochs": [_epoch(entry, f"$.epochs[{n}]") for n, entry in enumerate(epochs)],
            "memory": data.get("memory") or encode(UNKNOWN_MEMORY),
            "fit": data.get("fit") or encode(UNKNOWN_FIT),
            "counts": data.get("counts"),
            "notes": data.get("notes", []),
            "stops": data.get("stops", []),
        },
        Profile,
    )
    # A time that is not a number would pass every limit.
    times = [profile.total_ms, *(epoch.ms for epoch in profile.epochs)]
    clocks = [value for run in profile.runs for value in (run.clocks.mcu_mhz, run.clocks.npu_mhz)]
    if not all(math.isfinite(value) and value >= 0 for value in times):
        raise FileError("expected times of 0 ms or more", where="$.epochs")
    if not all(math.isfinite(value) and value > 0 for value in clocks):
        raise FileError("expected clocks above 0 MHz", where="$.runs")
    return profile


def _predicted(machine: object) -> dict[str, Any]:
    """An estimate has no run of its own; its clocks are those of the machine."""
    figures = machine if isinstance(machine, dict) else {}
    clocks = {name: figures.get(name) for name in ("mcu_mhz", "npu_mhz")}
    return {"source": "estimate", "clocks": {**clocks, "noc_mhz": 0.0, "nic_mhz": 0.0}}


def _epoch(entry: object, path: str) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise FileError("expected an object", where=path)
    rest = {key: value for key, value in entry.items() if key not in (*_DROPPED, "ops", "pools")}
    rest.pop("counters", None)
    ms = entry.get("ms")
    pools = entry.get("pools")
    if not isinstance(pools, dict) or not all(isinstance(row, dict) for row in pools.values()):
        raise FileError("expected an object of objects", where=f"{path}.pools")
    return {
        **rest,
        "operators": entry.get("ops"),
        "spread": entry.get("spread") or {"min": ms, "median": ms, "max": ms, "n": 1},
        "claims": {name: entry.get(name) for name in ("compute_cycles", "max_cycles")},
        "counters": {
            "number": entry.get("first"),
            "last_number": entry.get("last"),
            **{name: entry.get(name) for name in ("pre_cycles", "core_cycles", "post_cycles")},
            "bound": entry.get("bound"),
            "traffic": [{"pool": name, **row} for name, row in pools.items()],
        },
    }


_LOG = "log:"


def open_sides(a: Source, b: Source, a_options: Options, b_options: Options) -> tuple[Side, Side]:
    """A log knows epochs by number only; the other side's program says what they are."""
    if is_log(a) and not is_log(b):
        other = open_side(b, b_options)
        return open_log(a, a_options, other), other
    side = open_side(a, a_options)
    other = open_log(b, b_options, side) if is_log(b) else open_side(b, b_options)
    if all(is_over(source) for source in (a, b)):  # one that is built has taken them
        refuse_late(a, a_options)
        refuse_late(b, b_options)
    return side, other


def is_over(source: Source) -> bool:
    """True for a file that keeps a run: a saved profile, a result, a log or report of a board."""
    if isinstance(source, Graph) or Path(source).suffix.lower() in (".tflite", ".onnx"):
        return False
    return is_log(source) or is_saved_profile(source) or result_schema(source) in PROFILE_SCHEMAS


def refuse_late(source: Source, options: Options) -> None:
    """Options with a run that is over: what would change it was not asked for in time."""
    rows = {**BUILDING, **{row.name: row for one in families() for row in one.options}}
    given = [row for name, row in rows.items() if row.is_given(options.get(name))]
    late = next((row for row in given if row.name != "machine"), None)
    if late is not None and is_over(source):
        raise UsageError(
            f"{safe_terminal(str(source))} keeps a run as it was, which no option changes",
            where=late.long,
            hint="give the model or the build",
        )


def open_side(source: Source, options: Options) -> Side:
    """A run of the source on a machine of any family: read where it was kept, else predicted."""
    family = family_for(source, options)
    side = family.side(source, options)
    if side is not None:
        return side
    name = source.name if isinstance(source, Graph) else Path(source).name or str(source)
    return Side(safe_terminal(name), family.estimate(source, options))


def neural_art_side(source: Source, options: Options) -> Side:
    """With the program and the machine, where they are known."""
    if isinstance(source, Graph):
        return _predicted_side(source, source.name, options)
    name = safe_terminal(Path(source).name or str(source))
    if is_log(source):
        return open_log(source, options)
    run = kept_run(source)
    return Side(name, run) if run is not None else _predicted_side(source, name, options)


def kept_run(source: Source) -> Profile | None:
    """The run that a file keeps: a saved profile, a result in JSON, a log of the profiler or a
    report of a validation on a board. None for a model, a program and all else."""
    if isinstance(source, Graph):
        return None
    if is_log(source):
        return open_log(source, {}).profile
    if is_saved_profile(source):
        return read_profile(source)
    return read_result_profile(source) if result_schema(source) in PROFILE_SCHEMAS else None


def _predicted_side(source: Source, name: str, options: Options) -> Side:
    network = build(source, options)
    profile = predicted(network)
    # Reasons come from the model; they are not part of what was timed.
    program = with_model(network, source, None, options).program
    return Side(name, profile, program, network.machine, graph=network.graph)


def is_log(source: Source) -> bool:
    """`log:FILE`, a file that is called a log, or a text that says what a board counted."""
    if isinstance(source, Graph):
        return False
    path = Path(source)
    if str(source).startswith(_LOG) or path.suffix.lower() == ".log":
        return True
    if path.suffix.lower() != ".txt" or not path.is_file():
        return False
    text = read_text(path)
    return is_validate_report(text) or is_profiler_log(text)


def log_path(source: str | Path) -> str:
    return str(source).removeprefix(_LOG)


def open_log(source: Source, options: Options, other: Side | None = None) -> Side:
    """With the program of the other side, if the blocks of the log are the epochs of it."""
    assert not isinstance(source, Graph)
    path = log_path(source)
    name = safe_terminal(Path(path).name)
    bare = _measured(path, None, None)
    if other is None or other.program is None:
        return Side(name, bare)
    if not _fits(bare, other.program):
        note = "the log belongs to another program: its blocks are not the epochs of the other side"
        return Side(name, replace(bare, notes=(*bare.notes, note)))
    return Side(name, _measured(path, other.program, other.machine), other.program, other.machine)


def _measured(path: str, program: Program | None, machine: Machine | None) -> Profile:
    from npuscope.boards.device import parse_descriptor
    from npuscope.profiling.measure import RunSubject, measure, opened

    subject = RunSubject(program, machine)
    with opened(parse_descriptor(f"{_LOG}{path}"), subject) as device:
        return measure(device, subject).profile


def _fits(log: Profile, program: Program) -> bool:
    """Every epoch lies in one block, of its own kind; a block of several is one blob."""
    blocks = [
        [e for e in program.executed if block.first <= e.number and e.last_number <= block.last]
        for block in log.epochs
    ]
    numbers = [epoch.number for epochs in blocks for epoch in epochs]
    # A runtime calls hybrid what reports of 2.x list as software.
    pairs = [(block, epoch) for block, run in zip(log.epochs, blocks, strict=True) for epoch in run]
    kinds = all((e.kind in _OFF) == (b.kind in _OFF) for b, e in pairs)
    # What is started at once: a blob, or a single epoch.
    starts = [
        {("epoch", e.number) if e.blob is None else ("blob", e.blob) for e in epochs}
        for epochs in blocks
    ]
    blobs = all(len(block) < 2 for block in starts)
    return kinds and blobs and numbers == [epoch.number for epoch in program.executed]
