"""The quantized network as typed values.

In: what the readers of files/ and the passes of compiler/ find. Out: Graph, Tensor, Op for all.
model.py: the values. compare.py: same network or not. dump.py: as text. limits.py: what a model
file may ask for. What the kinds of op mean stands in ops/.
"""

from __future__ import annotations

from npuscope.graph.model import DType, Graph, Op, Quant, Tensor

__all__ = ["DType", "Graph", "Op", "Quant", "Tensor"]
