"""All ops: the rows of all themes in one table, and lookups in it."""

from __future__ import annotations

from functools import cache

from npuscope.errors import InternalError
from npuscope.graph.model import Graph, Op
from npuscope.ops import (
    elementwise,
    functions,
    images,
    indexing,
    layers,
    moves,
    norms,
    recurrent,
    reduce,
    unknown,
)
from npuscope.ops.row import Onnx, Row, Tflite
from npuscope.ops.traits import Trait

OPS: dict[str, Row] = {
    row.kind: row
    for theme in (
        *(layers, elementwise, functions, reduce, norms, moves, indexing, images),
        *(recurrent, unknown),
    )
    for row in theme.ROWS
}

# By the name that files use.
TFLITE: dict[str, Tflite] = {name: how for row in OPS.values() for name, how in row.tflite.items()}
ONNX: dict[str, Onnx] = {name: how for row in OPS.values() for name, how in row.onnx.items()}
ONNX_ROWS: dict[str, Row] = {name: row for row in OPS.values() for name in row.onnx}


@cache
def having(*traits: Trait) -> frozenset[str]:
    """Kinds of op with any of these traits."""
    return frozenset(kind for kind, row in OPS.items() if not row.traits.isdisjoint(traits))


@cache
def onnx_names(*traits: Trait) -> frozenset[str]:
    """What ONNX calls the ops with any of these traits."""
    return frozenset(name for kind in having(*traits) for name in OPS[kind].onnx)


def spec(op: Op) -> Row:
    """The row of an op's kind."""
    row = OPS.get(op.kind)
    if row is None:
        raise InternalError(f"op '{op.name}' has the unknown kind '{op.kind}'")
    return row


def macs(graph: Graph, op: Op) -> int:
    """Multiply-accumulates of one op in one inference."""
    return spec(op).macs(graph, op)


def total_macs(graph: Graph) -> int:
    """Multiply-accumulates of one inference."""
    return sum(macs(graph, op) for op in graph.ops)
