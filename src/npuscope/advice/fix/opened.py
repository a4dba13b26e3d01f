"""The fixed file in an outside runtime, where one is installed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from npuscope.advice.fix.numeric import step
from npuscope.advice.fix.seeded import given, real, seeded_inputs
from npuscope.advice.fix.step import Opened
from npuscope.advice.fix.workbench import Look
from npuscope.graph.run import run
from npuscope.profile.outside import outside_outputs


def opened(path: Path, look: Look, seeds: int) -> Opened | None:
    """How far the runtime's results are from ours; None where there is no runtime or it fails."""
    graph = look.network.graph
    samples = [given(graph, seeded_inputs(graph, seed)) for seed in range(seeds)]
    with tempfile.TemporaryDirectory(prefix="npuscope-") as folder:
        file = Path(folder) / f"model{path.suffix}"
        file.write_bytes(look.data)
        found = outside_outputs(file, graph, samples)
    if found is None:
        return None
    name, rows = found
    largest, equal, count = 0.0, 0, 0
    for sample, row in zip(samples, rows, strict=True):
        ours = run(graph, sample)
        for output, values in zip(graph.outputs, row, strict=True):
            tensor = graph.tensor(output)
            apart = np.abs(real(tensor, values) - real(tensor, ours[output]).reshape(values.shape))
            steps = apart / step(graph, tensor)
            largest = max(largest, float(steps.max(initial=0.0)))
            equal += int((steps < 1e-3).sum())
            count += steps.size
    return Opened(name, round(largest, 3), equal / max(count, 1))
