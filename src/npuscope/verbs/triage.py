"""`npuscope triage SOURCE`: why a network that is right on the PC is wrong on the board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from npuscope.errors import UsageError
from npuscope.options.kinds import OptionGroup, Verb, file, list_, real, text
from npuscope.options.rows import COMPILED_FROM, OUTPUT, READING, SOURCE, TARGET
from npuscope.structs import replace
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.building import Build, Options, Source
    from npuscope.diagnosis.case import TriageRequest
    from npuscope.diagnosis.result import TimeTriage, Triage
    from npuscope.profiling.model import Profile
    from npuscope.program.model import Program

GENERATIONS = ("4.0", "3.0", "2.2", "2.1")
_MOST_MS = 1e9
# fmt: off
EVIDENCE = OptionGroup("evidence", (
    list_("inputs", "the input of a run: .npy, raw bytes, C array, hex or CSV; in order, once per "
        "input and run", "FILE"),
    list_("outputs", "what the board gave for it, in the same forms; in order", "FILE"),
    list_("previous", "the input of the run before the first one, for what comes too late", "FILE"),
    list_("seen", "what else was seen: weights:POOL, input, input-ram, output-ram, again, "
        "buffer:NAME (a dump or a checksum), marker=NAMES, flash-word=right", "WHAT=FILE"),
    list_("says", "only a sentence, such as \"all outputs equal -128\"", "TEXT"),
    file("other", "another build or model whose weights or program may be on the board", "SOURCE"),
    real("time", "measured time of one inference, in ms", "MS"),
    file("log", "a log of the NPU profiler, with times per epoch"),
    text("connect", "ask a board: its outputs for the inputs are the evidence; "
        "serial[:PORT][:BAUD], socket:HOST:PORT, emulated", "DESC", vendor=("-d", "--desc")),
))
# fmt: on
VERB = Verb(
    "why outputs or times of a board are not those of the PC",
    (SOURCE,),
    (OptionGroup("", (COMPILED_FROM,)), EVIDENCE, TARGET, READING, OUTPUT),
    text="npuscope.report.triage:triage_text",
    json="npuscope.report.triage:triage_json",
    busy="trying causes",
    reads=("source", "other", "log"),
)


@checked(VERB)
def triage(
    source: Source,
    *,
    inputs: Sequence[str | Path] = (),
    outputs: Sequence[str | Path] = (),
    previous: Sequence[str | Path] = (),
    seen: Sequence[str] = (),
    says: Sequence[str] = (),
    other: str | Path | None = None,
    time: float | None = None,
    log: str | Path | None = None,
    connect: str | None = None,
    model: str | Path | None = None,
    **options: Unpack[Options],
) -> Triage:
    """Which causes reproduce what a board gave, by what the evidence cannot tell apart.

    In: a model or the build on the board, and evidence: outputs with their inputs, checksums,
    buffers, a sentence, or a time. Out: classes of causes with proof and remedy, and the next
    thing to look at.

    >>> npuscope.triage("model.tflite", inputs=["in.npy"], outputs=["out.raw"]).answer
    """
    from npuscope.building import build, refuse_stand_ins
    from npuscope.diagnosis.case import TriageRequest, no_evidence
    from npuscope.diagnosis.run import only_time

    refuse_stand_ins(options, "triage")
    ins, outs, before = (tuple(map(str, rows)) for rows in (inputs, outputs, previous))
    request = TriageRequest(ins, outs, before, tuple(seen), tuple(says))
    if time is not None and not 0 < time < _MOST_MS:
        raise UsageError(f"expected a time in ms, found {time:g}", where="--time")
    if not (request.has_values or connect or time is not None or log is not None):
        raise no_evidence()
    if model is not None:
        options["compiled_from"] = model
    subject = build(source, options)
    if subject.graph is None and subject.program.source == "npuscope" and request.has_values:
        from npuscope.program.flashed import of_files

        program = of_files(Path(source), subject.program)  # type: ignore[arg-type]
        subject = replace(subject, program=program)
    timed = None
    if time is not None or log is not None:
        timed = _timed(source, subject, time, log, options)
    if connect:
        request = _asked(connect, subject, request)
    if not request.has_values:
        assert timed is not None
        return only_time(subject.program, timed)
    rival = None if other is None else build(other, options).program
    result = _of_values(source, subject, request, rival, options)
    return result if timed is None else replace(result, time=timed)


def _of_values(
    source: Source, subject: Build, request: TriageRequest, rival: Program | None, options: Options
) -> Triage:
    """A model may have been built by any generation, unless it is stated; a build tells its own."""
    from npuscope.building import build, is_program
    from npuscope.diagnosis.run import triage_values
    from npuscope.graph.model import Graph

    def rebuilt(generation: str) -> Program:
        return build(source, {**options, "generation": generation}).program

    is_model = isinstance(source, Graph) or not is_program(source)
    names = [name for name in GENERATIONS if name != subject.program.generation]
    rivals = {name: partial(rebuilt, name) for name in names if is_model}
    tolerant = is_model and not options.get("generation")
    return triage_values(subject.program, request, rival, rivals, tolerant=tolerant)


def _timed(
    source: Source,
    subject: Build,
    time: float | None,
    log: str | Path | None,
    options: Options,
) -> TimeTriage:
    """A measured time, or those of a log, against predictions with other settings."""
    from npuscope.building import build
    from npuscope.diagnosis.times import external_only, triage_time
    from npuscope.profiling.run import estimate

    epochs: tuple[float, ...] = ()
    if log is not None:
        from npuscope.verbs.profile import profile

        measured = profile(source, connect=f"log:{log}", **options)
        epochs = tuple(epoch.ms for epoch in measured.epochs)
        time = measured.total_ms if time is None else time
    assert time is not None

    def predict(changes: Mapping[str, Any]) -> Profile:
        changed: dict[str, Any] = {**options, **changes}
        if changed.pop("external_only", False):
            changed["machine"] = external_only(subject.machine)
            changed.pop("generation", None)
        network = build(source, changed)  # type: ignore[arg-type]
        return estimate(network.program, network.machine, network.graph)

    base = estimate(subject.program, subject.machine, subject.graph)
    macs = subject.program.macs
    return triage_time(time, epochs, base, subject.machine, macs, predict)


def _asked(connect: str, subject: Build, request: TriageRequest) -> TriageRequest:
    """The board's own answers to the inputs, in place of files."""
    from npuscope.boards.device import parse_descriptor
    from npuscope.diagnosis.live import with_answers
    from npuscope.profiling.measure import RunSubject, opened

    whole = RunSubject(subject.program, subject.machine, subject.graph)
    with opened(parse_descriptor(connect), whole) as device:
        return with_answers(request, subject.program, device)
