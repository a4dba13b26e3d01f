"""uint8 tensors inside the network become int8: the units' bytes are signed.

A graph input or output of type uint8 stays what the user has; a Quantize of the same scale
stands between, which costs nothing where the units can read unsigned bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from npuscope.graph.model import Attrs, DType, Graph, Op, Tensor
from npuscope.machine.model import Machine

OFFSET = 128


@dataclass(frozen=True, slots=True)
class SignedBytes:
    name: str = "signed-bytes"

    def run(self, graph: Graph, machine: Machine) -> bool:
        inner = _inner(graph)
        if not any(_is_byte(tensor) and tensor.name in inner for tensor in graph.tensors.values()):
            return False
        _detach_inputs(graph, inner)
        _detach_outputs(graph, inner)
        borders = {*graph.inputs, *graph.outputs}
        for name, tensor in list(graph.tensors.items()):
            if name not in borders and _is_byte(tensor):
                graph.tensors[name] = _signed(tensor)
        return True


def _inner(graph: Graph) -> set[str]:
    """Tensors computed or read by an op other than the Quantize at the network's border."""
    inner = (op for op in graph.ops if op.kind != "Quantize")
    return {name for op in inner for name in (*op.inputs, *op.outputs)}


def _is_byte(tensor: Tensor) -> bool:
    return tensor.dtype is DType.UINT8 and tensor.quant is not None


def _signed(tensor: Tensor) -> Tensor:
    assert tensor.quant is not None
    quant = replace(
        tensor.quant, zero_points=tuple(zero - OFFSET for zero in tensor.quant.zero_points)
    )
    data = None
    if tensor.data is not None:
        data = (tensor.data.astype(np.int16) - OFFSET).astype(np.int8)
    return replace(tensor, dtype=DType.INT8, quant=quant, data=data)


def _detach_inputs(graph: Graph, known: set[str]) -> None:
    for name in graph.inputs:
        tensor = graph.tensor(name)
        if _is_byte(tensor) and name in known:
            inner = graph.add(replace(tensor, name=graph.fresh_name(f"{name}.bytes")))
            graph.ops = [_renamed(op, name, inner.name) for op in graph.ops]
            graph.ops.insert(0, _bridge(name, inner.name))


def _detach_outputs(graph: Graph, known: set[str]) -> None:
    for name in graph.outputs:
        tensor = graph.tensor(name)
        if _is_byte(tensor) and name in known:
            inner = graph.add(replace(tensor, name=graph.fresh_name(f"{name}.bytes")))
            graph.ops = [_renamed(op, name, inner.name) for op in graph.ops]
            graph.ops.append(_bridge(inner.name, name))


def _renamed(op: Op, old: str, new: str) -> Op:
    swap = {old: new}
    return op.replace(
        inputs=tuple(swap.get(name, name) for name in op.inputs),
        outputs=tuple(swap.get(name, name) for name in op.outputs),
    )


def _bridge(source: str, target: str) -> Op:
    return Op("Quantize", f"{target}.sign", (source,), (target,), Attrs())
