"""`npuscope validate SOURCE`: the NPU's arithmetic against the reference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.errors import INTERRUPTED, UsageError
from npuscope.families.registry import family_for
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
    all_families=True,
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
    from npuscope.building import refuse_stand_ins

    refuse_stand_ins(options, "validate")
    family = family_for(source, options)
    request = {**options, "inputs": inputs, "seeds": seeds, "model": model}
    own = family.validate(source, request)
    if own is not None:
        return own
    if not family.can("execute"):
        raise family.lacks("validate")
    from npuscope.building import read_graph
    from npuscope.graph.model import Graph
    from npuscope.profiling.validate import validate_execution

    build = family.compile(source, options)
    graph = family.network(build) if model is None else read_graph(model, options)
    if graph is None:
        raise UsageError(
            "a compiled program is validated against its model",
            where="--model",
            hint="give the .tflite or .onnx file it was compiled from",
        )
    original = source if model is None else model
    converted = options.get("input_data_type") or options.get("output_data_type")
    # An outside runtime knows the model file as it is, without conversions at its border.
    file = None if converted or isinstance(original, Graph) else Path(original)
    return validate_execution(graph, partial(family.execute, build), inputs, seeds, file)


def verdict_code(result: Validation, seeds: int, inputs: Sequence[np.ndarray] = ()) -> int:
    if not inputs and result.seeds < seeds:
        return INTERRUPTED
    return 0 if result.passed else 1
