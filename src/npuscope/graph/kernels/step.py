"""What a kernel is: a maker reads an op once and returns the step that runs it every time.

All that depends on constants only (weights as floats, multipliers, tables) belongs to the maker;
the step sees the op's present inputs in order and returns its output, or all of several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from npuscope.errors import ModelError
from npuscope.graph.model import DType, Graph, Op, Quant, Tensor

Array = NDArray[Any]
Step = Callable[[Sequence[Array]], Array]
Maker = Callable[[Graph, Op], Step]
Steps = Callable[[Sequence[Array]], tuple[Array, ...]]
StepsMaker = Callable[[Graph, Op], Steps]


def constant_of(graph: Graph, op: Op, index: int, what: str) -> Tensor:
    """An input that the maker needs now, so it must be a constant."""
    tensor = graph.tensors[op.inputs[index]]
    if tensor.data is None:
        raise ModelError(f"the {what} '{tensor.name}' are not constant")
    return tensor


def optional_constant(graph: Graph, op: Op, index: int, what: str) -> Tensor | None:
    """The same for an input that may be absent."""
    if index >= len(op.inputs) or not op.inputs[index]:
        return None
    return constant_of(graph, op, index, what)


def quant_of(tensor: Tensor) -> Quant:
    """The quantization of a tensor that an integer kernel works on."""
    if tensor.quant is None:
        raise ModelError(f"tensor '{tensor.name}' has type {tensor.dtype.value} but no scale")
    return tensor.quant


def only_bytes(op: Op, *tensors: Tensor) -> None:
    """Refuse types for which a kernel was never compared with LiteRT's."""
    for tensor in tensors:
        if tensor.dtype not in (DType.INT8, DType.UINT8):
            raise ModelError(f"{op.kind} on {tensor.dtype.value} is not covered, only 8 bit is")
