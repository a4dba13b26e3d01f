"""`npuscope validate SOURCE`: the NPU's arithmetic against the reference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.errors import INTERRUPTED, ModelError, UsageError
from npuscope.families.registry import family_for
from npuscope.options.kinds import DEFAULT_MACHINE, OptionGroup, Verb, file, text, whole
from npuscope.options.rows import (
    COMPILED_FROM,
    DATA,
    HTML,
    LAYOUTS,
    OUTPUT,
    READING,
    SOURCE,
    TARGET,
)
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    import numpy as np

    from npuscope.accuracy.result import TaskAccuracy
    from npuscope.accuracy.run import DataRequest
    from npuscope.building import Options, Source
    from npuscope.profiling.validate import Validation

# fmt: off
ACCURACY = OptionGroup("accuracy on your data", (
    file("data", "samples: a folder of images, .wav, .npy or raw files, a .npz, .npy or .csv file",
        "DIR|FILE"),
    file("labels", "what is right: a .csv, .npy, COCO .json, or a folder of masks or YOLO's texts "
        "(default: the folders of the samples, or `labels` in the .npz)", "FILE|DIR",
        of_samples=True),
    text("task", "what the outputs answer (default: as their shapes tell)", "",
        choices=("classification", "detection", "segmentation", "keypoints", "anomaly",
                 "regression"), of_samples=True),
    file("float_model", "the float model that it was quantized from, to compare with",
        flags=("--float",)),
    text("preprocess", "of pixels: uint8, unit, signed or mean=...,std=...; ,bgr swaps colours "
        "(default: as the input's range tells)", "FORM", suggested=("uint8", "unit", "signed"),
        of_samples=True),
    text("layout", "axis order of the input (default: channels are where its shape has 1 or 3)",
        "", choices=LAYOUTS, of_samples=True),
    text("resize", "how images are brought to the input's size (stretch)", "", default="stretch",
        choices=("stretch", "crop", "letterbox"), of_samples=True),
    whole("limit", "use at most N samples, evenly over all of them",
        of_samples=True),
    HTML,
))
# fmt: on
VERB = Verb(
    "the NPU's arithmetic against the reference, or the accuracy on your data",
    (SOURCE,),
    (OptionGroup("", (COMPILED_FROM,)), DATA, ACCURACY, TARGET, READING, OUTPUT),
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
    data: str | Path | None = None,
    labels: str | Path | None = None,
    task: str | None = None,
    float_model: str | Path | None = None,
    preprocess: str | None = None,
    layout: str | None = None,
    resize: str = "stretch",
    limit: int | None = None,
    html: str | Path | None = None,
    **options: Unpack[Options],
) -> Validation | TaskAccuracy:
    """NPU arithmetic against the reference, on `inputs` or on random data of `seeds` seeds.

    In: a model, or a compiled program with the `model` it was made from. Out: how close outputs
    and layers are, and the `verdict`: passed, differs (as rounding does), wrong, or unjudged.
    With `data`: the accuracy of the float network, the integer reference and the NPU on it.

    >>> npuscope.validate("model.tflite", seeds=3).passed
    >>> npuscope.validate("model.tflite", data="images", float_model="float.tflite").rows
    """
    if data is not None:
        from npuscope.accuracy.run import DataRequest

        request = DataRequest(data, labels, task, preprocess, layout or "", resize, limit)
        result = on_data(source, float_model, request, options)
        if html is not None:
            from npuscope.report.html.accuracy import accuracy_page
            from npuscope.whole_file import write_whole

            write_whole(html, accuracy_page(result).encode())
        return result
    for name, value in (("labels", labels), ("task", task), ("float", float_model), ("html", html)):
        if value is not None:
            raise UsageError("needs samples", where=f"--{name}", hint="give them with --data")
    return compared(source, inputs, seeds, model, options)


def compared(
    source: Source,
    inputs: Sequence[np.ndarray] | None,
    seeds: int,
    model: str | Path | None,
    options: Options,
) -> Validation:
    """The machine's arithmetic against the reference, as `validate` and `bisect` ask for it."""
    if seeds < 1:
        raise UsageError(f"expected at least 1 seed, found {seeds}", where="--seeds")
    from npuscope.building import refuse_stand_ins

    refuse_stand_ins(options, "validate")
    family = family_for(source, options)
    own = family.validate(source, {**options, "inputs": inputs, "seeds": seeds, "model": model})
    if own is not None:
        return own
    if not family.can("execute"):
        raise family.lacks("validate")
    from npuscope.building import is_as_filed, read_graph
    from npuscope.graph.model import Graph
    from npuscope.profiling.execution import validate_execution

    build = family.compile(source, options)
    graph = family.network(build) if model is None else read_graph(model, options)
    if graph is None:
        raise UsageError(
            "a compiled program is validated against its model",
            where="--model",
            hint="give the .tflite or .onnx file it was compiled from",
        )
    original = source if model is None else model
    file = Path(original) if is_as_filed(options) and not isinstance(original, Graph) else None
    run, notes = partial(family.execute, build), tuple[str, ...]()
    try:
        layers = family.layers(build, graph, {**options, "model": original})
    except UsageError as error:  # the outputs are judged without them
        layers, notes = None, (f"layers were not compared: {error.message}",)
    return validate_execution(graph, run, inputs, seeds, file, layers, notes)


def on_data(
    source: Source,
    float_model: str | Path | None,
    request: DataRequest,
    options: Options,
) -> TaskAccuracy:
    """The float network, the integer reference and the machine on the user's data."""
    from npuscope.accuracy.run import Arithmetic, measure
    from npuscope.building import read_graph, refuse_stand_ins
    from npuscope.ops.run import run, trace

    if request.limit is not None and request.limit < 1:
        raise UsageError(f"expected at least 1 sample, found {request.limit}", where="--limit")
    refuse_stand_ins(options, "validate")
    family = family_for(source, options)
    if not family.can("execute"):
        raise family.lacks("validate --data")
    build = family.compile(source, options)
    graph = family.network(build)
    if graph is None:
        raise UsageError(
            "accuracy on data is measured from the model file",
            where="SOURCE",
            hint="give the .tflite or .onnx file that the program was compiled from",
        )
    arithmetics = [
        Arithmetic("int8", "int8 reference", graph, partial(run, graph), partial(trace, graph)),
        Arithmetic("npu", "NPU arithmetic", graph, *[partial(family.execute, build)] * 2),
    ]
    if float_model is not None:
        original = read_graph(float_model, {})
        if len(original.outputs) != len(graph.outputs):
            raise ModelError(
                f"has {len(original.outputs)} outputs, the quantized model {len(graph.outputs)}",
                where=str(float_model),
                hint="give the float model that it was quantized from",
            )
        both = partial(run, original), partial(trace, original)
        arithmetics.insert(0, Arithmetic("float", "float", original, *both))
    name = Path(source).name if isinstance(source, str | Path) else graph.name
    return measure(name, str(options.get("machine") or DEFAULT_MACHINE), arithmetics, request)


def verdict_code(
    result: Validation | TaskAccuracy, seeds: int, inputs: Sequence[np.ndarray] = ()
) -> int:
    from npuscope.accuracy.result import TaskAccuracy

    if isinstance(result, TaskAccuracy):
        if result.samples < result.samples_total:
            return INTERRUPTED
        return 0 if result.passed else 1
    if result.contradictions:
        return 1  # also where the files cannot be executed, so that no seed was run
    if not inputs and result.seeds < seeds:
        return INTERRUPTED
    return 0 if result.passed else 1
