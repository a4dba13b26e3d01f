"""`npuscope triage SOURCE`: why a network that is right on the PC is wrong on the board."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.errors import UsageError
from npuscope.options.kinds import OptionGroup, Verb, file, list_, real
from npuscope.options.rows import COMPILED_FROM, OUTPUT, READING, SOURCE, TARGET
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.building import Options, Source
    from npuscope.diagnosis.result import Triage
    from npuscope.program.model import Program

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
    model: str | Path | None = None,
    **options: Unpack[Options],
) -> Triage:
    """Which causes reproduce what a board gave, by what the evidence cannot tell apart.

    In: a model or the build on the board, and evidence: outputs with their inputs, checksums,
    buffers, a sentence, or a time. Out: classes of causes with proof and remedy, and the next
    thing to look at.

    >>> npuscope.triage("model.tflite", inputs=["in.npy"], outputs=["out.raw"]).answer
    """
    from npuscope.building import build, is_program, refuse_stand_ins
    from npuscope.diagnosis.case import Request
    from npuscope.diagnosis.run import triage_values
    from npuscope.graph.model import Graph

    refuse_stand_ins(options, "triage")
    request = Request(
        tuple(map(str, inputs)),
        tuple(map(str, outputs)),
        tuple(map(str, previous)),
        tuple(seen),
        tuple(says),
    )
    if time is not None and not 0 < time < 1e9:
        raise UsageError(f"expected a time in ms, found {time:g}", where="--time")
    if model is not None:
        options["compiled_from"] = model
    subject = build(source, options)
    rival = None if other is None else build(other, options).program
    known = options.get("generation") or (not isinstance(source, Graph) and is_program(source))

    def rebuilt(generation: str) -> Program:
        return build(source, {**options, "generation": generation}).program

    generations = ("4.0", "3.0", "2.2", "2.1")
    others = [name for name in generations if name != subject.program.generation]
    rivals = None if known else {g: lambda g=g: rebuilt(g) for g in others}
    return triage_values(subject.program, request, rival, rivals)
