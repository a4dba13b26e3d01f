"""`npuscope export SOURCE`: layer costs for Model Explorer and Netron."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from npuscope.errors import UsageError
from npuscope.families.registry import family_for
from npuscope.options.kinds import OptionGroup, Verb, file, result_file
from npuscope.options.rows import OUTPUT, READING, SOURCE, TARGET
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.building import Options, Source
    from npuscope.graph.model import Graph
    from npuscope.profiling.model import Profile
    from npuscope.report.export_drawing import Export

VERB = Verb(
    "show layer costs in Model Explorer or Netron",
    (SOURCE,),
    (
        OptionGroup(
            "",
            (
                result_file("model_explorer", "node data (JSON) for Google's Model Explorer"),
                result_file("netron", "an annotated ONNX file for Netron"),
                file("model", "the model of a compiled program or a saved profile", "M"),
            ),
        ),
        TARGET,
        READING,
        OUTPUT,
    ),
    text="npuscope.report.export_text:export_text",
    json="npuscope.report.export_text:export_json",
    busy="exporting",
    reads=("source", "model"),
    all_families=True,
)


@checked(VERB)
def export(
    source: Source,
    *,
    model_explorer: str | Path | None = None,
    netron: str | Path | None = None,
    model: str | Path | None = None,
    **options: Unpack[Options],
) -> Export:
    """What each layer of a model costs, for Model Explorer and Netron.

    In: a model, or a compiled program or a saved profile with its `model`. Out: costs by node,
    and the files that were written for Model Explorer and Netron.

    >>> npuscope.export("model.onnx", netron="costs.onnx").files
    """
    from npuscope.report.export_drawing import export_files, subject_of

    if not (model_explorer or netron):
        raise UsageError("no output selected", hint="give --model-explorer FILE or --netron FILE")
    profile, own = _profile_of(source, options)
    if own is not None and model is not None:
        raise UsageError("a model is shown on itself", where="--model", hint="leave it out")
    graph = own or _shown_graph(model, options)
    path = source if own else model
    if path is None or not isinstance(path, (str, Path)):
        raise UsageError("a Graph has no model file to annotate", hint="give the model file")
    return export_files(subject_of(Path(path), graph, profile), model_explorer, netron)


def _profile_of(source: Source, options: Options) -> tuple[Profile, Graph | None]:
    """Times of the source, and the network if the source is a model."""
    from npuscope.profiling.saved import is_saved_profile, read_profile

    if isinstance(source, (str, Path)) and is_saved_profile(source):
        return read_profile(source), None
    family = family_for(source, options)
    if family.can("read") and isinstance(source, (str, Path)) and family.recognises(Path(source)):
        return family.read(Path(source), options), None
    build = family.compile(source, options)
    return family.time(build), family.network(build)


def _shown_graph(model: str | Path | None, options: Options) -> Graph:
    if model is None:
        raise UsageError(
            "a compiled program and a saved profile are shown on their model",
            where="--model",
            hint="give the .tflite or .onnx file it was compiled from",
        )
    from npuscope.files.load import load_model

    return load_model(model, options.get("shapes"))
