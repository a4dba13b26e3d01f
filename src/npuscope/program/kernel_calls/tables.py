"""Functions of one 8-bit value as tables: the reference kernel, run on all 256 values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuscope.errors import ModelError
from npuscope.graph.model import Attrs, DType, Graph, Numerics, Op, Tensor
from npuscope.ops.kernels.step import Array
from npuscope.ops.table import OPS
from npuscope.program.kernel_calls.model import PREFIX, ElementType, KernelCall, Operand, prepared
from npuscope.program.kernel_calls.work import Work

_BYTES = (ElementType.int8, ElementType.uint8)
_TABLE = f"{PREFIX}table"


def table_call(work: Work) -> KernelCall | None:
    """One look-up a value, where the op works value by value on 8 bits with one scale."""
    if work.kind not in OPS or not OPS[work.kind].by_value:
        return None
    source, target = work.inputs[0], work.outputs[0]
    if source.type not in _BYTES or _per_channel(source, target) or not _stores(target):
        return None
    table = one_op_table(work.kind, work.attrs, work.numerics, source, target)
    if table is None:
        return None
    return KernelCall(_TABLE, (source, prepared(table)), work.outputs)


def _stores(target: Operand) -> bool:
    """Real numbers in wider integers, or without a scale, depend on the CPU at their ends."""
    return target.type is ElementType.float32 or (
        target.quant is not None and target.type.name.endswith(("8", "16"))
    )


def _per_channel(*operands: Operand) -> bool:
    return any(operand.quant is not None and operand.quant.per_channel for operand in operands)


def one_op_table(
    kind: str, attrs: Attrs, numerics: Numerics, source: Operand, target: Operand
) -> Array | None:
    """The op's results on every raw value, in the order of the values as unsigned bytes."""
    values = np.arange(256, dtype=np.uint8).view(source.type.name)
    line = [
        tensor_of("x", replace(source, shape=(256,))),
        tensor_of("y", replace(target, shape=(256,))),
    ]
    from npuscope.ops.run import run

    graph = Graph(kind, line, [Op(kind, kind, ("x",), ("y",), attrs)], ("x",), ("y",), numerics)
    try:
        return run(graph, {"x": values})["y"]
    except ModelError:
        return None


def tensor_of(name: str, operand: Operand) -> Tensor:
    return Tensor(name, operand.shape, DType(operand.type.name), operand.quant)
