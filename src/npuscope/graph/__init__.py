"""The quantized network as typed values.

In: what the readers of files/ and the passes of compiler/ find. Out: Graph, Tensor, Op for all.
model.py: the values. compare.py: whether two networks are the same. dump.py: a graph as text.
limits.py: what a model file may ask for. The meaning of each kind of op is in ops/.
"""

from __future__ import annotations

from npuscope.graph.model import DType, Graph, Op, Quant, Tensor

__all__ = ["DType", "Graph", "Op", "Quant", "Tensor"]
