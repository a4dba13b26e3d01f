"""Multiply-accumulates as the vendor's front end counts them.

Beside products it counts a bias per output channel, an operation per element of a fused function,
and conversions: read off the layer tables of six public reports.
"""

from __future__ import annotations

from npuscope.graph.model import Activation, Graph, Op
from npuscope.machine.npu_ops import LAYERS
from npuscope.ops.table import having, macs
from npuscope.ops.traits import Trait

# Of an output element; what is not here counts nothing. A bilinear resize does, 3 or 4 by the
# rounded total of the one network with some: not known well enough.
_PER_ELEMENT = {
    "Quantize": 2.0,
    "Dequantize": 2.0,
    "PRelu": 2.0,
    "Sigmoid": 10.0,
    "Softmax": 15.0,
    "Transpose": 0.5,  # one case
    "Relu": 1.0,
    "Relu6": 1.0,
    "Add": 1.0,
    "Sub": 1.0,
    "Mul": 1.0,
}
_PER_INPUT_ELEMENT = having(Trait.POOL) | {"Mean"}


def vendor_macc(graph: Graph, op: Op) -> int:
    output = graph.output_tensor(op)
    fused = getattr(op.attrs, "activation", Activation.NONE) is not Activation.NONE
    if op.kind in LAYERS:
        return macs(graph, op) + output.shape[-1] + (output.elements if fused else 0)
    if op.kind in _PER_INPUT_ELEMENT:
        return graph.first_input(op).elements
    return round(_PER_ELEMENT.get(op.kind, 0.0) * output.elements)


def total_vendor_macc(graph: Graph) -> int:
    return sum(vendor_macc(graph, op) for op in graph.ops)
