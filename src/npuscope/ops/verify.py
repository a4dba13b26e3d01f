"""The Graph's invariants, checked after every reader and pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from math import inf, isinf, isnan

from npuscope.errors import InternalError, ModelError, NpuscopeError
from npuscope.graph.limits import MAX_ELEMENTS, MAX_MACS, MAX_RANK
from npuscope.graph.model import DType, Graph, Op, Tensor
from npuscope.ops.functions import ClipAttrs
from npuscope.ops.moves import PadAttrs
from npuscope.ops.table import OPS, spec
from npuscope.ops.traits import Trait
from npuscope.text import safe_terminal

Problem = tuple[str, str]  # where, what


def verify(graph: Graph, error: type[NpuscopeError] = InternalError) -> None:
    """Raise `error` for the first broken rule; its text names the place and the rule.

    Passes leave the default: a broken graph is our bug. Readers pass ModelError, because there the
    file is at fault.
    """
    for name, rule in RULES.items():
        for where, what in rule(graph):
            raise error(f"{what} (rule '{name}')", where=where)


def _place(op: Op) -> str:
    origin = f" from {', '.join(op.origin)}" if op.origin else ""
    return safe_terminal(f"op '{op.name}' ({op.kind}{origin})")


def _known_kind(graph: Graph) -> Iterator[Problem]:
    for op in graph.ops:
        if op.kind not in OPS:
            yield _place(op), f"the kind '{safe_terminal(op.kind)}' is not in the table of ops"


def _attribute_type(graph: Graph) -> Iterator[Problem]:
    for op in graph.ops:
        if type(op.attrs) is not spec(op).attrs:
            attrs_type, expected = type(op.attrs).__name__, spec(op).attrs.__name__
            yield _place(op), f"the attributes are {attrs_type}, expected {expected}"


def _numbers(graph: Graph) -> Iterator[Problem]:
    """No attribute is NaN; limits and fill values may be infinite."""
    for op in graph.ops:
        for name in _float_fields(op.kind):
            value = getattr(op.attrs, name)
            if isnan(value) or (isinf(value) and not isinstance(op.attrs, ClipAttrs | PadAttrs)):
                yield _place(op), f"'{name}' is {value}"


@cache
def _float_fields(kind: str) -> tuple[str, ...]:
    """By their annotations as written: resolving all of them takes longer than a small network."""
    records = OPS[kind].attrs.__mro__
    hints = [hint for record in records for hint in getattr(record, "__annotations__", {}).items()]
    return tuple(name for name, hint in hints if hint == "float")


def _arity(graph: Graph) -> Iterator[Problem]:
    for op in graph.ops:
        row = spec(op)
        most = len(op.inputs) if row.most is None else row.most
        if not row.least <= len(op.inputs) <= most:
            yield _place(op), f"{len(op.inputs)} inputs, expected {row.least} to {most}"
        if "" in op.inputs[: row.least] or (row.most is None and "" in op.inputs):
            yield _place(op), f"input {op.inputs.index('')} is absent but required"
        if not op.outputs or "" in op.outputs:
            yield _place(op), "an output has no name"


def _known_tensors(graph: Graph) -> Iterator[Problem]:
    for op in graph.ops:
        for name in (*op.inputs, *op.outputs):
            if name and name not in graph.tensors:
                yield _place(op), f"tensor '{safe_terminal(name)}' is not in the graph"
    for name in (*graph.inputs, *graph.outputs):
        if name not in graph.tensors:
            yield "graph", f"input or output '{safe_terminal(name)}' is not in the graph"


def _tensor_names(graph: Graph) -> Iterator[Problem]:
    for key, tensor in graph.tensors.items():
        if key != tensor.name or not key:
            yield _tensor_place(tensor), f"it is listed under another name, '{safe_terminal(key)}'"


def _single_producer(graph: Graph) -> Iterator[Problem]:
    makers = dict.fromkeys(graph.inputs, "a graph input")
    for op in graph.ops:
        for name in op.outputs:
            if name in makers or graph.tensors[name].is_constant:
                maker = makers.get(name, "a constant")
                yield _place(op), f"output '{safe_terminal(name)}' is already {maker}"
            makers[name] = f"computed by '{safe_terminal(op.name)}'"


def _defined_before_use(graph: Graph) -> Iterator[Problem]:
    defined = {name for name, tensor in graph.tensors.items() if tensor.is_constant}
    defined.update(graph.inputs)
    for op in graph.ops:
        for name in op.inputs:
            if name and name not in defined:
                yield _place(op), f"input '{safe_terminal(name)}' is used before it is computed"
        defined.update(op.outputs)
    for name in graph.outputs:
        if name not in defined:
            yield "graph", f"output '{safe_terminal(name)}' is never computed"


def _no_dangling_outputs(graph: Graph) -> Iterator[Problem]:
    read = {name for op in graph.ops for name in op.inputs}
    read.update(graph.outputs)
    for op in graph.ops:
        if not read.intersection(op.outputs):
            yield _place(op), "nothing reads its outputs"


def _inferred_shape(graph: Graph) -> Iterator[Problem]:
    for op in graph.ops:
        try:
            inferred = spec(op).shape(graph, op)
        except ModelError as error:
            yield _place(op), error.message
            continue
        shapes = tuple(graph.tensors[name].shape for name in op.outputs)
        if shapes != inferred:
            yield (
                _place(op),
                f"output shapes are {list(shapes)}, but the inputs give {list(inferred)}",
            )


def _dimensions(graph: Graph) -> Iterator[Problem]:
    for tensor in graph.tensors.values():
        if any(dim < 1 for dim in tensor.shape):
            yield _tensor_place(tensor), f"shape {tensor.shape} has an empty axis"
        if len(tensor.shape) > MAX_RANK or tensor.elements > MAX_ELEMENTS:
            yield _tensor_place(tensor), f"shape {tensor.shape} is too large"


def _work(graph: Graph) -> Iterator[Problem]:
    for op in graph.ops:
        macs = spec(op).macs(graph, op)
        if macs > MAX_MACS:
            text = f"it needs {macs:,} multiply-accumulates; the limit is {MAX_MACS:,}"
            yield _place(op), text


def _moved_type(graph: Graph) -> Iterator[Problem]:
    """Ops that move data keep the element type."""
    for op in graph.ops:
        if spec(op).has(Trait.MOVES):
            moved = op.inputs[: spec(op).data_inputs]
            types = {graph.tensors[name].dtype.value for name in (*moved, *op.outputs)}
            if len(types) > 1:
                names = " and ".join(sorted(types))
                yield _place(op), f"it only moves data, but the types differ: {names}"


def _element_types(graph: Graph) -> Iterator[Problem]:
    for op in graph.ops:
        text = spec(op).types(graph, op)
        if text:
            yield _place(op), text


def _quantization(graph: Graph) -> Iterator[Problem]:
    for tensor in graph.tensors.values():
        text = _quant_problem(tensor)
        if text:
            yield _tensor_place(tensor), text


def _quant_problem(tensor: Tensor) -> str:
    quant = tensor.quant
    if quant is None:
        return ""
    if tensor.dtype in (DType.FLOAT32, DType.BOOL):
        return f"a {tensor.dtype.value} tensor carries a quantization"
    if not quant.scales or len(quant.scales) != len(quant.zero_points):
        return f"{len(quant.scales)} scales and {len(quant.zero_points)} zero points"
    lowest, highest = min(quant.scales), max(quant.scales)
    # Not a number is neither the least nor the largest, but makes the sum none.
    if not (lowest >= 0 and highest < inf) or isnan(sum(quant.scales)):
        return "a scale is negative or not finite"  # 0 occurs: weights of a dead channel
    if tensor.data is None and not lowest:
        return "a scale is 0: all its values would be the same"
    if quant.axis is None:
        return "" if len(quant.scales) == 1 else f"{len(quant.scales)} scales without an axis"
    if not 0 <= quant.axis < len(tensor.shape):
        return f"quantization axis {quant.axis} is outside shape {tensor.shape}"
    if tensor.shape[quant.axis] != len(quant.scales):
        return f"{len(quant.scales)} scales for axis {quant.axis} of shape {tensor.shape}"
    if tensor.data is None and len(quant.scales) > 1:
        return f"{len(quant.scales)} scales, but values that a network computes have one"
    return ""


def _constant_data(graph: Graph) -> Iterator[Problem]:
    for tensor in graph.tensors.values():
        if tensor.data is None:
            continue
        if tensor.data.shape != tensor.shape or tensor.data.dtype != tensor.dtype.numpy:
            stored = f"{tensor.data.dtype} {tensor.data.shape}"
            expected = f"{tensor.dtype.numpy} {tensor.shape}"
            yield _tensor_place(tensor), f"the data is {stored}, expected {expected}"


def _tensor_place(tensor: Tensor) -> str:
    return f"tensor '{safe_terminal(tensor.name)}'"


# In this order: a later rule relies on the earlier ones.
RULES: dict[str, Callable[[Graph], Iterator[Problem]]] = {
    "known kind": _known_kind,
    "attribute type": _attribute_type,
    "attribute values": _numbers,
    "arity": _arity,
    "known tensors": _known_tensors,
    "tensor names": _tensor_names,
    "dimensions": _dimensions,
    "constant data": _constant_data,
    "quantization": _quantization,
    "moved type": _moved_type,
    "element types": _element_types,
    "single producer": _single_producer,
    "defined before use": _defined_before_use,
    "no dangling outputs": _no_dangling_outputs,
    "inferred shape": _inferred_shape,
    "work": _work,
}
