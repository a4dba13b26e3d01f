"""Element types that some kinds of op insist on; each check gives the problem as text, or ""."""

from __future__ import annotations

from npuscope.graph.model import DType, Graph, Op

_WHOLE = (DType.INT32, DType.INT64)


def anything(graph: Graph, op: Op) -> str:
    return ""


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
