"""The result on samples that no choice has seen: float network, then the tool's defaults and the
written file, each in its reference and in the machine's arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npuscope.accuracy.result import TaskFigures
from npuscope.errors import NpuscopeError
from npuscope.families.registry import family_for
from npuscope.graph.model import Tensor
from npuscope.quantizing.bench import QuantizingBench, in_steps, real_values
from npuscope.quantizing.samples import Sample
from npuscope.quantizing.task import Outputs, TaskJudge, TaskJudgement
from npuscope.quantizing.trial import Trial

_AT_ONCE = 50  # samples between two messages
Sides = tuple[tuple[Tensor, ...], tuple[Tensor, ...]]


def judgement(
    bench: QuantizingBench, judge: TaskJudge, plain: Trial | None, data: bytes, sides: Sides
) -> TaskJudgement:
    """`data` is the written file, `sides` its inputs and outputs."""
    places = judge.unused
    runs = {"float": bench.work.outputs(None, judge.samples(places))}
    tool = f"{bench.work.tool} by default"
    titles = {"float": "float", "plain": tool, "plain_npu": f"{tool}, NPU arithmetic"}
    if plain is not None:
        runs["plain"] = bench.work.outputs(plain.data, judge.samples(places))
        bordered = bench.bordered(plain.data)
        graph = bench.timed(bordered)[0].graph
        assert graph is not None
        runs["plain_npu"] = _machine(bench, judge, bordered, bench.border(bordered, graph))
    runs["int8"] = _reference(bench, judge, data, sides)
    runs["npu"] = _machine(bench, judge, data, sides)
    titles |= {"int8": "int8 reference", "npu": "NPU arithmetic"}
    answers = {}
    for name, outputs in runs.items():
        bench.progress(f"{len(places)} samples that no choice has seen: {titles[name]}")
        try:
            answers[name] = judge.answers(outputs, places)
        except NpuscopeError as error:
            if name != "plain_npu":  # the file that is written has to run
                raise
            bench.note(f"{titles[name]}: not judged, {error.message}")
    rows = tuple(
        TaskFigures(name, titles[name], judge.figures(own, places)) for name, own in answers.items()
    )
    first, last = rows[0].figures[0], rows[-1].figures[0]
    return TaskJudgement(
        task=judge.task.name,
        metric=first.name,
        choosing=len(judge.choosing),
        unused=len(places),
        rows=rows,
        changed=judge.changed(answers["int8"], answers["npu"]),
        tried=tuple(bench.tried_forms),
        max_drop=bench.max_drop,
        drop=first.drop(last),
    )


def _given(judge: TaskJudge, inputs: Sequence[Tensor]) -> Iterator[Sample]:
    for sample in judge.samples(judge.unused):
        pairs = zip(sample.items(), inputs, strict=True)
        yield {name: in_steps(tensor, values) for (name, values), tensor in pairs}


def _reference(
    bench: QuantizingBench, judge: TaskJudge, data: bytes, sides: Sides
) -> Iterator[Outputs]:
    for values in bench.work.outputs(data, _given(judge, sides[0])):
        pairs = zip(values.items(), sides[1], strict=True)
        yield {name: real_values(tensor, own) for (name, own), tensor in pairs}


def _machine(
    bench: QuantizingBench, judge: TaskJudge, data: bytes, sides: Sides
) -> Iterator[Outputs]:
    build, _ = bench.timed(data)
    family = family_for(bench.path, bench.options)
    assert build.graph is not None
    names = build.graph.inputs
    for number, sample in enumerate(_given(judge, sides[0])):
        if number % _AT_ONCE == 0:
            bench.progress(f"NPU arithmetic: sample {number + 1} of {len(judge.unused)}")
        values = family.execute(build, dict(zip(names, sample.values(), strict=True)))
        pairs = zip(build.graph.outputs, sides[1], strict=True)
        yield {name: real_values(tensor, values[name]) for name, tensor in pairs}
