"""Named passes over the Graph, in their order."""

from __future__ import annotations

from npuscope.compiler.passes.base import FoldConstants, Pass, refuse_float_network
from npuscope.compiler.passes.folds import (
    AbsorbPad,
    FoldBatchNorm,
    RemoveMoves,
    SplitBatchNorm,
    SplitToSlices,
)
from npuscope.compiler.passes.numbers import QuantizeAcrossReshape, SignedBytes, SymmetricWeights
from npuscope.compiler.passes.rewrite import (
    ClampExtremes,
    DecomposePool,
    DivideByConstant,
    ExpandTransposedConv,
    FuseActivation,
)
from npuscope.graph.model import Graph
from npuscope.machine.model import Machine

# Quantization is bound to ops before shape ops go: only `open` moves a Quantize over a Reshape.
PASSES: tuple[Pass, ...] = (
    FoldConstants(),
    SplitToSlices(),
    ClampExtremes(),
    DivideByConstant(),
    ExpandTransposedConv(),
    DecomposePool(),
    FoldBatchNorm(),
    SplitBatchNorm(),
    FuseActivation(),
    AbsorbPad(),
    QuantizeAcrossReshape(),
    RemoveMoves(),
    SignedBytes(),
    SymmetricWeights(),
)


def run_passes(graph: Graph, machine: Machine) -> Graph:
    """A cleaned copy of the graph, ready to be lowered."""
    refuse_float_network(graph)
    graph = graph.copy()
    for step in PASSES:
        step.run(graph, machine)
    graph.drop_unused()
    return graph


__all__ = ["PASSES", "Pass", "run_passes"]
