"""The fixed file in an outside runtime, where one is installed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from npuscope.advice.fix.numeric import Effect, effect
from npuscope.advice.fix.pairs import pairs
from npuscope.advice.fix.seeded import given, real, seeded_inputs
from npuscope.advice.fix.step import Opened
from npuscope.advice.fix.workbench import Look
from npuscope.graph.model import Graph
from npuscope.profile.outside import outside_outputs
from npuscope.whole_file import work_folder


def opened(path: Path, before: Look, after: Look, seeds: int) -> Opened | None:
    """Both files in the runtime, on the same data; None where there is none or it fails."""
    reals = [seeded_inputs(before.network.graph, seed) for seed in range(seeds)]
    new = _run(path, after, reals)
    if new is None:
        return None
    old = _run(path, before, reals)
    found = _effects(before.network.graph, after.network.graph, old[1], new[1]) if old else ()
    return Opened(new[0], found)


def _run(
    path: Path, look: Look, reals: list[list[np.ndarray]]
) -> tuple[str, dict[str, np.ndarray]] | None:
    """(the runtime's name, real values of each output, all samples in a row)."""
    graph = look.network.graph
    samples = [given(graph, values) for values in reals]
    with work_folder(Path(tempfile.gettempdir())) as folder:
        file = folder / f"model{path.suffix}"
        file.write_bytes(look.data)
        found = outside_outputs(file, graph, samples, any_kernels=True)
    if found is None:
        return None
    columns = zip(graph.outputs, zip(*found[1], strict=True), strict=True)
    return found[0], {name: _joined(graph, name, rows) for name, rows in columns}


def _joined(graph: Graph, name: str, rows: tuple[np.ndarray, ...]) -> np.ndarray:
    return np.concatenate([real(graph.tensor(name), row).reshape(-1) for row in rows])


def _effects(
    before: Graph, after: Graph, old: dict[str, np.ndarray], new: dict[str, np.ndarray]
) -> tuple[Effect, ...]:
    """Of the outputs that both networks have."""
    kept = [pair for pair in pairs(before, after) if pair.is_output and pair.output in old]
    return tuple(effect(p, before, [(old[p.output], new[p.output])]) for p in kept)
