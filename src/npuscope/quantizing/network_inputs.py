"""Samples of real data as inputs of a network that is quantized already: what an edit of it is
judged on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from npuscope.accuracy.pictures import ImageForm
from npuscope.advice.fix.numeric import InputData, random_data
from npuscope.graph.model import Graph
from npuscope.quantizing.samples import RANDOM, Border, load_samples

_MOST = 16  # samples: each is run before and after every edit


def network_inputs(
    graph: Graph, source: str | Path | None, form: ImageForm, seeds: int
) -> InputData:
    """Real values, whatever the types of the inputs; random numbers without a source."""
    if source is None or str(source) == RANDOM:
        return random_data(graph, seeds)
    borders = [
        Border(t.name, t.shape, np.dtype(np.float32 if t.quant else t.dtype.numpy))
        for t in map(graph.tensor, graph.inputs)
    ]
    data = load_samples(source, borders, form, _MOST, 0)
    # A single sample serves for both parts.
    every = {id(sample): sample for sample in (*data.held_out, *data.calibration)}.values()
    reals = ({name: v.astype(np.float64) for name, v in sample.items()} for sample in every)
    return InputData(tuple(reals), data.source, is_real=True)
