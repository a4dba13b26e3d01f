"""Named passes over the Graph, in their order."""

from __future__ import annotations

from npuscope.compiler.passes.absorb_pad import AbsorbPad
from npuscope.compiler.passes.base import Pass
from npuscope.compiler.passes.clamp_extremes import ClampExtremes
from npuscope.compiler.passes.decompose_pool import DecomposePool
from npuscope.compiler.passes.expand_transposed_conv import ExpandTransposedConv
from npuscope.compiler.passes.fold_batch_norm import FoldBatchNorm
from npuscope.compiler.passes.fold_constants import FoldConstants
from npuscope.compiler.passes.fuse_activation import FuseActivation
from npuscope.compiler.passes.quantize_across_reshape import QuantizeAcrossReshape
from npuscope.compiler.passes.refuse_float import refuse_float_network
from npuscope.compiler.passes.remove_moves import RemoveMoves
from npuscope.compiler.passes.signed_bytes import SignedBytes
from npuscope.compiler.passes.split_batch_norm import SplitBatchNorm
from npuscope.compiler.passes.split_to_slices import SplitToSlices
from npuscope.compiler.passes.symmetric_weights import SymmetricWeights
from npuscope.graph.model import Graph
from npuscope.machine.model import Machine

# Quantization is bound to ops before shape ops go: only `open` moves a Quantize over a Reshape.
PASSES: tuple[Pass, ...] = (
    FoldConstants(),
    SplitToSlices(),
    ClampExtremes(),
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
