"""Shape arithmetic that readers find in model files is computed while reading.

Only whole numbers without scales are folded: sizes, axes, indices. Constants that take part in
the network's own arithmetic stay in the graph, for passes to fold.
"""

from __future__ import annotations

from dataclasses import replace

from npuscope.errors import ModelError
from npuscope.graph.kernels.step import Array
from npuscope.graph.model import DType, Graph, Op, Tensor

_WHOLE = (DType.INT32, DType.INT64, DType.BOOL)
_MOST_ELEMENTS = 1 << 16  # no shape arithmetic is larger


def fold_last_op(graph: Graph) -> bool:
    """Replace the op that was added last by its result, if that is shape arithmetic."""
    op = graph.ops[-1]
    outputs = [graph.tensors[name] for name in op.outputs]
    if not all(_foldable(graph.tensors[name]) for name in op.inputs):
        return False
    if not all(tensor.elements <= _MOST_ELEMENTS for tensor in outputs):
        return False
    for tensor, value in zip(outputs, _results(graph, op), strict=True):
        if value.shape != tensor.shape:
            raise ModelError(
                f"it makes shape {value.shape}, the file says {tensor.shape}", where=op.origin[0]
            )
        data = value.astype(tensor.dtype.numpy, copy=False)
        graph.tensors[tensor.name] = replace(tensor, data=data)
    graph.ops.pop()
    return True


def _foldable(tensor: Tensor) -> bool:
    plain = tensor.dtype in _WHOLE and tensor.quant is None
    return plain and tensor.is_constant and tensor.elements <= _MOST_ELEMENTS


def _results(graph: Graph, op: Op) -> tuple[Array, ...]:
    """By the reference kernels, which are imported only by networks that need them here."""
    from npuscope.graph.kernels.table import make_step

    values = [graph.tensors[name].data for name in op.inputs]
    try:
        return make_step(graph, op)([value for value in values if value is not None])
    except (ValueError, IndexError, ZeroDivisionError) as error:
        raise ModelError(f"the constants do not fit: {error}", where=", ".join(op.origin)) from None
