"""Einsum of two operands that is one matrix product."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.errors import ModelError
from npuscope.graph.attrs import MatMulAttrs
from npuscope.graph.onnx.arrange import Value
from npuscope.graph.onnx.layout import ADDED, Layout
from npuscope.graph.onnx.task import Task

_HINT = "write it as Transpose, MatMul and Reshape; one summed axis and batch axes are supported"


@dataclass(frozen=True, slots=True)
class _Product:
    """Labels: shared by all three, rows of the first, summed, columns of the second."""

    batch: str
    rows: str
    inner: str
    columns: str


def einsum(task: Task) -> None:
    """The operands are stored as (batch, rows, inner) and (batch, inner, columns)."""
    first, second, result = _labels(task.node.text("equation", ""))
    product = _product(first, second, result)
    a = _stored(task, 0, first, (*product.batch, product.rows, product.inner))
    b = _stored(task, 1, second, (*product.batch, product.inner, product.columns))
    order = (*product.batch, product.rows, product.columns)
    layout = _places(result, order)
    task.emit("MatMul", (a.tensor, b.tensor), MatMulAttrs(), layout, (*a.via, *b.via))


def _stored(task: Task, index: int, labels: str, order: tuple[str, ...]) -> Value:
    if len(task.shape(task.value(index))) != len(labels):
        raise ModelError(f"operand {index} has not the axes '{labels}'", hint=_HINT)
    return task.arranged(index, _places(labels, order))


def _places(labels: str, order: tuple[str, ...]) -> Layout:
    """Where each stored axis comes from; a label that is absent is an axis of size 1."""
    return tuple(labels.index(label) if label else ADDED for label in order)


def _labels(equation: str) -> tuple[str, str, str]:
    plain = equation.replace(" ", "")
    operands, arrow, result = plain.partition("->")
    parts = operands.split(",")
    wrong = not arrow or len(parts) != 2 or not (operands.replace(",", "") + result).isalpha()
    if wrong or any(len(set(part)) != len(part) for part in (*parts, result)):
        raise ModelError(f"equation '{equation}' is not supported", hint=_HINT)
    return parts[0], parts[1], result


def _product(first: str, second: str, result: str) -> _Product:
    shared = [label for label in first if label in second]
    batch = "".join(label for label in shared if label in result)
    inner = "".join(label for label in shared if label not in result)
    rows = "".join(label for label in first if label not in second)
    columns = "".join(label for label in second if label not in first)
    complete = set(result) == set(batch + rows + columns)
    if not complete or len(inner) != 1 or len(rows) > 1 or len(columns) > 1:
        raise ModelError(f"equation '{first},{second}->{result}' is not one product", hint=_HINT)
    return _Product(batch, rows, inner, columns)
