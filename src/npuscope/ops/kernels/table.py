"""The makers of a row's kernels: loaded when an op needs them, chosen by numerics and types."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from msgspec import Struct

from npuscope.errors import ModelError
from npuscope.graph.model import Graph, Numerics, Op
from npuscope.ops.kernels.between import between, fast_when_integer, moving, quantized_away
from npuscope.ops.kernels.step import Maker, Steps
from npuscope.ops.row import Row, named
from npuscope.ops.table import OPS

_HERE = "npuscope.ops.kernels"


class Makers(Struct, frozen=True):
    """`real` works on unquantized tensors, `litert` and `qdq` where a quantization is involved."""

    litert: Maker | None
    qdq: Maker | None
    real: Maker | None


def _loaded(name: str) -> Any:
    if not name:
        return None
    module, _, function = name.partition(":")
    return getattr(np, function) if module == "numpy" else named(_HERE, name)


def _function(row: Row) -> Makers:
    """One value at a time, without attributes."""
    from npuscope.ops.kernels.functions import of

    return _by_value(row, of(_loaded(row.kernel.real)))


def _values(row: Row) -> Makers:
    return _by_value(row, _loaded(row.kernel.real))


def _by_value(row: Row, real: Maker) -> Makers:
    """LiteRT's kernel, where it has an integer one."""
    litert = _loaded(row.kernel.litert) or between(real, True, quantized_away)
    return Makers(litert, between(real, True), real)


def _whole(row: Row) -> Makers:
    real = _loaded(row.kernel.real)
    litert = _loaded(row.kernel.litert) or between(real, store=quantized_away)
    return Makers(litert, between(real), real)


def _moves(row: Row) -> Makers:
    real = _loaded(row.kernel.real)
    raw = _loaded(row.kernel.litert) or real
    return Makers(raw, moving(_loaded(row.kernel.qdq) or raw, real, row.data_inputs), real)


def _layer(row: Row) -> Makers:
    real = _loaded(row.kernel.real)
    fast = _loaded(row.kernel.qdq)
    return Makers(_loaded(row.kernel.litert), fast_when_integer(fast, real), real)


def _comparison(row: Row) -> Makers:
    from npuscope.ops.kernels.elementwise import comparison, litert_comparison

    function = _loaded(row.kernel.real)
    real = comparison(function)
    return Makers(litert_comparison(function), between(real), real)


def _raw(row: Row) -> Makers:
    real = _loaded(row.kernel.real)
    return Makers(real, between(real), real)


def _plain(row: Row) -> Makers:
    names = row.kernel
    return Makers(_loaded(names.litert), _loaded(names.qdq), _loaded(names.real))


_FORMS: dict[str, Callable[[Row], Makers]] = {
    "function": _function,
    "values": _values,
    "whole": _whole,
    "moves": _moves,
    "layer": _layer,
    "comparison": _comparison,
    "raw": _raw,
    "plain": _plain,
}


@cache
def makers(kind: str) -> Makers:
    """All kernels of an op with one output."""
    return _FORMS[OPS[kind].kernel.form](OPS[kind])


def has_kernel(graph: Graph, op: Op) -> bool:
    """Whether something computes the op on the types of its tensors."""
    row = OPS.get(op.kind)
    if row is None:
        return False
    return row.kernel.form == "several" or _choose(graph, op, makers(op.kind)) is not None


def make_step(graph: Graph, op: Op) -> Steps:
    """The prepared kernel of an op, chosen by the graph's numerics and the op's tensors."""
    if op.kind not in OPS:
        raise ModelError(f"the reference executor has no kernel for '{op.kind}'")
    kernel = OPS[op.kind].kernel
    if kernel.form == "several":
        steps: Steps = _loaded(kernel.real)(graph, op)
        return steps
    maker = _choose(graph, op, makers(op.kind))
    if maker is None:
        raise ModelError(f"the reference executor has no kernel for {op.kind} on these types")
    step = maker(graph, op)
    return lambda inputs: (step(inputs),)


def _choose(graph: Graph, op: Op, row: Makers) -> Maker | None:
    tensors = [graph.tensors[name] for name in (*op.inputs, *op.outputs) if name]
    if not any(tensor.quant is not None for tensor in tensors):
        return row.real
    return row.litert if graph.numerics is Numerics.LITERT else row.qdq
