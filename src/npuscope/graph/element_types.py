"""Element types that some kinds of op insist on; each check gives the problem as text, or ""."""

from __future__ import annotations

from npuscope.graph.attrs_moves import ResizeAttrs, ResizeMode
from npuscope.graph.model import DType, Graph, Op

_WHOLE = (DType.INT32, DType.INT64)


def anything(graph: Graph, op: Op) -> str:
    return ""


def real(graph: Graph, op: Op) -> str:
    """Functions of real numbers: floats, or integers with a scale."""
    for name in (op.inputs[0], *op.outputs):
        tensor = graph.tensors[name]
        if not tensor.dtype.is_float and tensor.quant is None:
            return f"it computes real numbers on {tensor.dtype.value} without a scale"
    return ""


def numbers(graph: Graph, op: Op) -> str:
    """Arithmetic: anything but truth, and one type for all that have no scale."""
    tensors = [graph.tensors[name] for name in (*op.inputs, *op.outputs)]
    types = {t.dtype for t in tensors if t.quant is None}
    if DType.BOOL in types:
        return "it computes on bool"
    return "" if len(types) < 2 else f"operands are {' and '.join(sorted(t.value for t in types))}"


def resizable(graph: Graph, op: Op) -> str:
    """Copies of the nearest value may be of any type."""
    linear = op.attrs_as(ResizeAttrs).mode == ResizeMode.LINEAR
    return real(graph, op) if linear else ""


def makes_truth(graph: Graph, op: Op) -> str:
    """Comparisons."""
    return _wrong(graph, op.outputs[0], (DType.BOOL,), "output")


def only_truth(graph: Graph, op: Op) -> str:
    """Logic."""
    names = (*op.inputs, *op.outputs)
    problems = (_wrong(graph, name, (DType.BOOL,), "operand") for name in names)
    return next((text for text in problems if text), "")


def chooses(graph: Graph, op: Op) -> str:
    """Where: a condition, then two values of the output's type."""
    types = {graph.tensors[name].dtype.value for name in (*op.inputs[1:], *op.outputs)}
    if len(types) > 1:
        return f"it chooses between {' and '.join(sorted(types))}"
    return _wrong(graph, op.inputs[0], (DType.BOOL,), "condition")


def makes_places(graph: Graph, op: Op) -> str:
    """ArgMax and ArgMin."""
    return _wrong(graph, op.outputs[0], _WHOLE, "output")


def reads_places(graph: Graph, op: Op) -> str:
    """Gather."""
    return _wrong(graph, op.inputs[1], _WHOLE, "index")


def _wrong(graph: Graph, name: str, wanted: tuple[DType, ...], what: str) -> str:
    found = graph.tensors[name].dtype
    if found in wanted:
        return ""
    return f"the {what} is {found.value}, expected {' or '.join(t.value for t in wanted)}"
