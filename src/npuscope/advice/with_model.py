"""The network of a compiled program: given, or found beside it by its fingerprint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from npuscope.advice.reasons import with_reasons
from npuscope.building import Build, Options, Source, model_beside, read_graph
from npuscope.graph.model import Graph


def with_model(made: Build, source: Source, model: str | Path | None, options: Options) -> Build:
    """A compiled program with the network it came from, if that is given or found."""
    if made.graph is not None or isinstance(source, Graph):
        return made
    found = model or model_beside(Path(source), made.program)
    if found is None:
        return made
    graph = read_graph(found, options)
    return replace(made, graph=graph, program=with_reasons(made.program, graph, made.machine))
