"""An STM32N6 program against the network that it was compiled from."""

from __future__ import annotations

from pathlib import Path

from npuscope.building import (
    build,
    is_program,
    read_graph,
    reference_of,
    refuse_other_model,
)
from npuscope.errors import UsageError
from npuscope.families.interface import Options, Source
from npuscope.graph.model import Graph
from npuscope.options.rows import BUILDING
from npuscope.profiling.validate import Validation, validate


def validate_program(source: Source, options: Options) -> Validation:
    """Options hold `inputs`, `seeds` and `model` beside those of a build."""
    plain = {name: value for name, value in options.items() if name in BUILDING}
    model = options.get("model")
    from_model = {**plain, "compiled_from": model or plain.get("compiled_from")}
    network = build(source, from_model)  # type: ignore[arg-type]
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
    graph = network.graph or read_graph(original, plain)  # type: ignore[arg-type]
    converted = plain.get("input_data_type") or plain.get("output_data_type")
    # An outside runtime knows the model file as it is, without conversions at its border.
    file = None if converted or isinstance(original, Graph) else Path(original)
    if compiled and not isinstance(original, Graph):
        refuse_other_model(Path(str(source)), network.program, Path(original))
    return validate(
        network.program,
        graph,
        network.machine,
        inputs=options.get("inputs"),
        seeds=options.get("seeds", 1),
        model=file,
    )
