"""Steps of values, where both formats can be asked alike: nodes that stand for steps are passed
over in a file that has them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.edits.document import Document, FileConstants
from npuscope.edits.records import Constant, NotFitting, Op, QuantSteps, Value
from npuscope.files.file_graph import FileGraph, kinds_having
from npuscope.graph.model import Quant
from npuscope.ops.traits import Trait

PAIR = ("Quantize", "Dequantize")
# Ops that hand integers on: the tensors on both sides share scale and zero point.
MOVES = kinds_having(Trait.MOVES) - kinds_having(Trait.INDEXED) - {"Concat", "Pad"}
# What they make lies on the same steps.
_MOVERS = kinds_having(Trait.MOVES) - {"Concat"} | {"Relu", "Clip"}
# Scale and zero point of their results are inputs 6 and 7.
_INTEGER_OPS = ("QLinearConv", "QLinearMatMul", "QLinearAdd", "QLinearMul")


def dequantizer(graph: FileGraph, tensor: Value) -> Op | None:
    """The Dequantize that makes a tensor, if one does."""
    maker = graph.producer(tensor)
    return maker if maker is not None and graph.kind(maker) == "Dequantize" else None


def quantizers(graph: FileGraph, tensor: Value) -> list[Op]:
    """The Quantizes that read a tensor."""
    return [op for op in graph.readers(tensor) if graph.kind(op) == "Quantize"]


def step_nodes(graph: FileGraph, tensor: Value) -> list[Op]:
    """Readers that stand for steps."""
    readers = graph.readers(tensor) if graph.steps_are_nodes else []
    return [op for op in readers if graph.kind(op) in PAIR]


def users(graph: FileGraph, tensor: Value) -> list[Op]:
    """Readers; where the only one is a node that stands for steps, those behind it."""
    readers = graph.readers(tensor)
    while graph.steps_are_nodes and [graph.kind(op) in PAIR for op in readers] == [True]:
        readers = graph.readers(graph.outputs(readers[0])[0])
    return readers


def plain(graph: FileGraph, tensor: Value) -> Value:
    """The value in front of nodes that stand for steps."""
    return unquantized(graph, tensor) if graph.steps_are_nodes else tensor


def unquantized(graph: FileGraph, tensor: Value) -> Value:
    """In front of what only changes steps."""
    maker = graph.producer(tensor)
    while maker is not None and graph.kind(maker) in PAIR:
        tensor = graph.inputs(maker)[0]
        maker = graph.producer(tensor)
    return tensor


def steps_behind(document: Document, tensor: Value) -> QuantSteps | None:
    """What the first op that quantizes a value makes of it; kernels that do not mix signs want
    int8."""
    for op in quantizers(document, tensor):
        if document.mixes_signs or document.type(document.outputs(op)[0]) == "int8":
            return document.made_steps(op)
    return None


def result_steps(document: Document, tensor: Value) -> QuantSteps:
    """Those in which a result is kept."""
    if not document.steps_are_nodes:
        return document.steps(tensor)
    steps = steps_behind(document, tensor)
    if steps is None:
        raise NotFitting(f"'{document.name(tensor)}' is not quantized")
    return steps


def float_steps(document: Document, value: Value) -> QuantSteps | None:
    """Of a float operand that comes from integers. LiteRT has no op that computes on integers and
    floats, so there it must."""
    maker = document.producer(value)
    if document.steps_are_nodes:
        return None if dequantizer(document, value) is None else document.steps(value)
    name = document.name(value)
    if maker is None:
        raise NotFitting(f"'{name}' is a float input of the network: its range is unknown")
    source = document.inputs(maker)[0]
    if document.kind(maker) != "Dequantize" or document.type(source) != "int8":
        raise NotFitting(f"'{name}' comes from a float {document.word(maker)}")
    quant = document.quant(source)
    if quant is None or quant.per_channel:
        raise NotFitting(f"'{document.name(source)}' does not have one scale")
    return QuantSteps(quant)


def _first_maker(graph: FileGraph, tensor: Value) -> Op | None:
    """The node that made the values, before any moves."""
    op = graph.producer(tensor)
    while op is not None and graph.kind(op) in _MOVERS:
        op = graph.producer(graph.inputs(op)[0])
    return op


def moved_steps(document: Document, tensor: Value) -> QuantSteps:
    """Steps of a value, also where ops that only move values stand between."""
    if not document.steps_are_nodes:
        return document.steps(tensor)
    op = _first_maker(document, tensor)
    if op is not None and document.kind(op) in PAIR:
        return document.made_steps(op)
    if op is not None and document.kind(op) in _INTEGER_OPS:
        scale, zero = (document.values(value) for value in document.inputs(op)[6:8])
        if scale is not None and zero is not None:
            return steps_of(scale, zero)
    raise NotFitting(f"'{document.name(tensor)}' is not quantized")


def is_integer(graph: FileGraph, tensor: Value) -> bool:
    """A tensor of integers among nodes that stand for steps."""
    op = _first_maker(graph, tensor) if graph.steps_are_nodes else None
    return op is not None and graph.kind(op) in ("Quantize", *_INTEGER_OPS)


def steps_of(scale: np.ndarray, zero: np.ndarray) -> QuantSteps:
    quant = Quant((float(scale.reshape(-1)[0]),), (int(zero.reshape(-1)[0]),))
    return QuantSteps(quant, str(zero.dtype))


def same_steps(graph: FileGraph, one: Op, other: Op) -> bool:
    """Of two nodes that stand for steps, one scale or many."""
    (scale, zero), (second, other_zero) = (_stated(graph, op) for op in (one, other))
    if scale is None or second is None or zero.dtype != other_zero.dtype:
        return False
    return np.array_equal(scale, second) and np.array_equal(zero, other_zero)


def _stated(graph: FileGraph, op: Op) -> tuple[np.ndarray | None, np.ndarray]:
    """Scale and zero point; None where the scale is computed."""
    _, scale, *rest = graph.inputs(op)
    values = graph.values(scale)
    zero = graph.values(rest[0]) if rest and rest[0] is not None else None
    return values, np.zeros_like(values, np.uint8) if zero is None else zero


def int8_constant(graph: FileConstants, stem: str, steps: np.ndarray, scale: float = 1.0) -> Value:
    """About zero."""
    zero, step = np.array(0, np.int8), np.array(scale, np.float32)
    return graph.store(Constant(stem, steps.astype(np.int8), step, zero))


def add_steps(graph: FileGraph, stem: str, steps: QuantSteps) -> tuple[Value, Value]:
    """A scale and a zero point, for nodes that stand for steps."""
    scale = graph.add_constant(f"{stem}_scale", np.array(steps.quant.scale, np.float32))
    zero = np.array(steps.quant.zero_point, steps.type)
    return scale, graph.add_constant(f"{stem}_zero_point", zero)


def in_steps_of(graph: FileGraph, maker: Op, tensor: Value, result: Value, whole: str) -> None:
    """`result` is `tensor` in the steps of a Dequantize that is there already."""
    integers, steps = graph.new_tensor(whole, (), tensor), graph.inputs(maker)[1:]
    graph.add_op("Quantize", [tensor, *steps], integers)
    graph.add_op("Dequantize", [integers, *steps], result)


def as_sent(graph: FileGraph, tensor: Value, way: Sequence[Op]) -> Value:
    """The form in which a value goes out: integers where the output is made of integers."""
    maker = dequantizer(graph, tensor) if graph.steps_are_nodes else None
    ends_float = not way or graph.kind(way[-1]) == "Dequantize"
    return tensor if ends_float or maker is None else graph.inputs(maker)[0]
