"""The network of a compiled program: given, or found beside it by its fingerprint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from npuscope.advice.reasons import with_reasons
from npuscope.building import Build, Options, Source, md5, read_graph
from npuscope.graph.model import Graph
from npuscope.program.model import Program


def with_model(made: Build, source: Source, model: str | Path | None, options: Options) -> Build:
    """A compiled program with the network it came from, if that is given or found."""
    if made.graph is not None or isinstance(source, Graph):
        return made
    found = model or _model_beside(Path(source), made.program)
    if found is None:
        return made
    graph = read_graph(found, options)
    return replace(made, graph=graph, program=with_reasons(made.program, graph, made.machine))


def _model_beside(path: Path, program: Program) -> Path | None:
    """The model file whose fingerprint the program names, in its folder or the one above."""
    folder = path if path.is_dir() else path.parent
    if not program.model_md5:
        return None
    files = (f for place in (folder, folder.resolve().parent) for f in sorted(place.iterdir()))
    models = (f for f in files if f.suffix.lower() in (".tflite", ".onnx") and f.is_file())
    return next((f for f in models if md5(f) == program.model_md5), None)
