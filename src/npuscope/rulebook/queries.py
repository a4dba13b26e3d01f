"""Questions about a graph that several rules ask."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from operator import is_

from npuscope.graph.model import DType, Graph, Op, Tensor
from npuscope.machine.npu_ops import LAYERS
from npuscope.ops.layers import ConvAttrs, is_depthwise
from npuscope.rulebook.finding import Hit, Value

CONVERSIONS = ("Quantize", "Dequantize")


def source(op: Op) -> tuple[str, ...]:
    """The op under the names of the model file."""
    return op.origin or (op.name,)


def hit(op: Op, value: Value, limit: Value = None, **evidence: Value) -> Hit:
    return Hit(source(op), value, limit, evidence)


def live_ops(graph: Graph) -> list[Op]:
    """Ops that depend on an input; all others are folded when the network is compiled."""
    # Every rule asks again. Ops are frozen, so the same ones in the same order are as live.
    if not _LAST.fits(graph):
        moving, live = set(graph.inputs), []
        for op in graph.ops:
            if not moving.isdisjoint(op.inputs):
                moving.update(op.outputs)
                live.append(op)
        _LAST.inputs, _LAST.ops, _LAST.live = graph.inputs, list(graph.ops), live
    return list(_LAST.live)


class _Last(threading.local):
    """The network that a thread asked for last."""

    inputs: tuple[str, ...] = ()
    ops: Sequence[Op] = ()
    live: Sequence[Op] = ()

    def fits(self, graph: Graph) -> bool:
        alike = self.inputs == graph.inputs and len(self.ops) == len(graph.ops)
        return alike and all(map(is_, self.ops, graph.ops))


_LAST = _Last()


def of_kind(graph: Graph, *kinds: str) -> Iterator[Op]:
    return (op for op in live_ops(graph) if op.kind in kinds)


def convolutions(graph: Graph) -> Iterator[tuple[Op, ConvAttrs, tuple[int, ...]]]:
    """Conv2D ops with their attributes and the shape (O, kh, kw, I / groups) of the weights."""
    for op in of_kind(graph, "Conv2D"):
        yield op, op.attrs_as(ConvAttrs), graph.tensor(op.inputs[1]).shape


def layers(graph: Graph) -> Iterator[tuple[Op, Tensor]]:
    """Convolutions and dense layers with their constant weights."""
    for op in of_kind(graph, *LAYERS):
        weights = graph.tensor(op.inputs[1])
        if weights.is_constant:
            yield op, weights


def is_dense(graph: Graph, op: Op) -> bool:
    """A layer that sums over all input channels."""
    if op.kind == "FullyConnected":
        return True
    return not is_depthwise(graph, op) and op.attrs_as(ConvAttrs).groups == 1


def computed(graph: Graph) -> Iterator[Tensor]:
    """Results of ops and graph inputs, in order."""
    names = (*graph.inputs, *(name for op in graph.ops for name in op.outputs))
    return (graph.tensor(name) for name in dict.fromkeys(names))


def operands(graph: Graph, op: Op) -> list[Tensor]:
    """Inputs that are not constants."""
    return [t for t in graph.input_tensors(op) if t is not None and not t.is_constant]


def is_npu_tensor(tensor: Tensor | None) -> bool:
    """8 bits with one scale: what the units compute on."""
    return (
        tensor is not None
        and tensor.dtype in (DType.INT8, DType.UINT8)
        and tensor.quant is not None
        and not tensor.quant.per_channel
    )


def is_float(tensor: Tensor) -> bool:
    return tensor.dtype is DType.FLOAT32 and not tensor.is_constant


def zero_point(tensor: Tensor) -> int | None:
    """The zero point in int8 terms; None where there is not exactly one."""
    if tensor.quant is None or len(set(tensor.quant.zero_points)) != 1:
        return None
    return tensor.quant.zero_point - (128 if tensor.dtype is DType.UINT8 else 0)


def scale(tensor: Tensor) -> float | None:
    if tensor.quant is None or tensor.quant.per_channel:
        return None
    return tensor.quant.scale


def shape_text(shape: tuple[int, ...]) -> str:
    return "x".join(str(size) for size in shape)
