"""A model file as the work of its network, without reading its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from npuscope.errors import NpuscopeError
from npuscope.families.many_core.compiler.depth_first import batch_of
from npuscope.families.many_core.compiler.kinds import UNREAD, is_unread
from npuscope.families.many_core.machine import CoreMachine
from npuscope.families.many_core.setups.work import NetworkWork, network_work
from npuscope.files.load import load_model
from npuscope.files.onnx.constants import without_weights
from npuscope.graph.model import Graph


class TimedNetwork(Struct, frozen=True):
    work: NetworkWork
    notes: tuple[str, ...]


def timed_network(
    path: Path, machine: CoreMachine, shapes: Mapping[str, Sequence[int]] | None = None
) -> TimedNetwork:
    """Weights beside the model may be missing or larger than memory."""
    graph = graph_without_weights(path, shapes)
    unread = any(is_unread(tensor) for tensor in graph.tensors.values())
    notes = (*graph.notes, UNREAD) if unread else tuple(graph.notes)
    return TimedNetwork(network_work(graph, machine, batch_of(graph)), notes)


def graph_without_weights(
    path: Path,
    shapes: Mapping[str, Sequence[int]] | None = None,
    symbols: Mapping[str, int] | None = None,
) -> Graph:
    """A graph to time, not to execute: external data stays where it is."""
    with without_weights():
        return load_model(path, shapes, symbols=symbols)


def compilable_graph(
    path: Path,
    shapes: Mapping[str, Sequence[int]] | None = None,
    batch: int | None = None,
    symbols: Mapping[str, int] | None = None,
) -> Graph:
    """The graph with its weights, or with their sizes alone where they are absent or too large.

    A program is compiled and timed by sizes; execute() refuses one without weights.
    """
    try:
        return load_model(path, shapes, batch, symbols)
    except NpuscopeError as error:
        try:
            with without_weights():
                graph = load_model(path, shapes, batch, symbols)
        except NpuscopeError:
            raise error from None
        if not any(is_unread(tensor) for tensor in graph.tensors.values()):
            raise
        return graph
