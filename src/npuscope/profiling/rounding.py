"""How far rounding alone moves the outputs of a network.

An NPU rounds every layer a little differently from the reference. In a deep network these single
steps add up, and by how much depends on the network: a detector's boxes move further than the
scores of a small classifier. So the reference itself is run with such steps in every layer.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from npuscope.graph.model import Graph
from npuscope.ops.run import disturbed
from npuscope.ops.table import OPS

Array = np.ndarray

# Share of a layer's elements that are moved by one LSB, up or down. Layers of right builds are
# typically 98 % to 99.5 % exact and the worst of them 90 %: here all are as the worst.
MOVED_SHARE = 0.1


def rounded(graph: Graph, sample: Mapping[str, Array], seed: int) -> dict[str, Array]:
    """The outputs of the reference when every layer rounds at random."""
    generator = np.random.default_rng(seed)
    names = {
        name
        for op in graph.ops
        if not OPS[op.kind].moves_data
        for name in op.outputs
        if graph.tensors[name].quant and graph.tensors[name].dtype.numpy.kind in "iu"
    }

    def moved(name: str, values: Array) -> Array:
        if name not in names:
            return values
        draw = generator.random(values.shape, np.float32)
        steps = (draw < MOVED_SHARE / 2).astype(np.int64) - (draw > 1 - MOVED_SHARE / 2)
        low, high = graph.tensors[name].dtype.limits
        return np.clip(values + steps, low, high).astype(values.dtype)

    return disturbed(graph, sample, moved)
