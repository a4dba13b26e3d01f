"""`npuscope validate SOURCE`: the NPU's arithmetic against the reference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.errors import INTERRUPTED, UsageError
from npuscope.options.kinds import OptionGroup, Verb
from npuscope.options.rows import COMPILED_FROM, DATA, OUTPUT, READING, SOURCE, TARGET
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    import numpy as np

    from npuscope.building import Options, Source
    from npuscope.profiling.validate import Validation

VERB = Verb(
    "the NPU's arithmetic against the reference",
    (SOURCE,),
    (OptionGroup("", (COMPILED_FROM,)), DATA, TARGET, READING, OUTPUT),
    text="npuscope.report.validation:validation_text",
    json="npuscope.report.validation:validation_json",
    busy="validating",
    code="verdict_code",
)


@checked(VERB)
def validate(
    source: Source,
    *,
    inputs: Sequence[np.ndarray] | None = None,
    seeds: int = 1,
    model: str | Path | None = None,
    **options: Unpack[Options],
) -> Validation:
    """NPU arithmetic against the reference, on `inputs` or on random data of `seeds` seeds.

    In: a model, or a compiled program with the `model` it was made from. Out: how close outputs
    and layers are, and the `verdict`: passed, differs (as rounding does), wrong, or unjudged.

    >>> npuscope.validate("model.tflite", seeds=3).passed
    """
    if seeds < 1:
        raise UsageError(f"expected at least 1 seed, found {seeds}", where="--seeds")
    from npuscope.building import (
        build,
        is_program,
        read_graph,
        reference_of,
        refuse_other_model,
        refuse_stand_ins,
    )
    from npuscope.graph.model import Graph

    refuse_stand_ins(options, "validate")
    network = build(source, {**options, "compiled_from": model or options.get("compiled_from")})
    from npuscope.profiling.validate import validate as run_validation

    compiled = not isinstance(source, Graph) and is_program(source)
    original = model if compiled else source
    if original is None and compiled:
        original = reference_of(Path(str(source)), network.program)
    if original is None:
        raise UsageError(
            "a compiled program is validated against its model",
            where="--model",
            hint="give the .tflite or .onnx file it was compiled from",
        )
    graph = network.graph or read_graph(original, options)
    converted = options.get("input_data_type") or options.get("output_data_type")
    # An outside runtime knows the model file as it is, without conversions at its border.
    file = None if converted or isinstance(original, Graph) else Path(original)
    if compiled and not isinstance(original, Graph):
        refuse_other_model(Path(str(source)), network.program, Path(original))
    return run_validation(
        network.program, graph, network.machine, inputs=inputs, seeds=seeds, model=file
    )


def verdict_code(result: Validation, seeds: int, inputs: Sequence[np.ndarray] = ()) -> int:
    if not inputs and result.seeds < seeds:
        return INTERRUPTED
    return 0 if result.passed else 1
