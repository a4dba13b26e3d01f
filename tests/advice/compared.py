"""Runs to compare, made in code."""

from __future__ import annotations

from pathlib import Path

from models import Net, mobilenet_like, to_tflite
from npuscope.advice.compare.model import Side
from npuscope.building import Options, build
from npuscope.files.load import read_model
from npuscope.graph.model import Graph
from npuscope.profiling.model import EpochProfile, Profile, Provenance, Run, Spread
from npuscope.profiling.run import estimate
from npuscope.structs import replace


def graph_of(net: Net) -> Graph:
    return read_model(Path("net.tflite"), to_tflite(net))


def network(size: int = 24, width: int = 16) -> Graph:
    return graph_of(mobilenet_like(size=size, width=width))


def side(graph: Graph, **options: object) -> Side:
    made = build(graph, Options(**options))  # type: ignore[typeddict-item]
    profile = estimate(made.program, made.machine, made.graph)
    return Side(graph.name, profile, made.program, made.machine)


def kept(found: Side) -> Side:
    """The same run without its program, as a file has it."""
    return Side("kept.json", found.profile)


def with_epochs(profile: Profile, epochs: tuple[EpochProfile, ...]) -> Profile:
    return replace(profile, epochs=epochs, total_ms=sum(epoch.ms for epoch in epochs))


def slower(profile: Profile, index: int, ms: float) -> Profile:
    """One epoch takes longer, and nothing says why."""
    epochs = tuple(
        replace(epoch, ms=epoch.ms + (ms if epoch.index == index else 0.0))
        for epoch in profile.epochs
    )
    return with_epochs(profile, epochs)


def measured(found: Side, factor: float = 1.0, spread: float = 0.02) -> Side:
    """A board's run of the program: all times by a factor, each with a spread around it."""
    epochs = tuple(_on_board(epoch, factor, spread) for epoch in found.profile.epochs)
    profile = with_epochs(found.profile, epochs)
    runs = tuple(Run(Provenance.BOARD, run.clocks, 10) for run in profile.runs)
    return Side("board.json", replace(profile, runs=runs, model_error=""))


def _on_board(epoch: EpochProfile, factor: float, spread: float) -> EpochProfile:
    ms = epoch.ms * factor
    counters = epoch.counters
    scaled = replace(
        counters,
        pre_cycles=counters.pre_cycles * factor,
        core_cycles=counters.core_cycles * factor,
        post_cycles=counters.post_cycles * factor,
    )
    samples = Spread(ms * (1 - spread / 2), ms, ms * (1 + spread / 2), 10)
    return replace(epoch, ms=ms, counters=scaled, spread=samples, provenance=Provenance.BOARD)
