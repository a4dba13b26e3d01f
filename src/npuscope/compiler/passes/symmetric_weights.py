"""Weights with a zero point become symmetric: the units multiply plain int8.

Where the shifted weights still fit a byte nothing changes; else they are rounded to a coarser
scale, which a note tells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from npuscope.graph.model import DType, Graph, Quant, Tensor
from npuscope.machine.model import Machine

_LARGEST = 127


@dataclass(frozen=True, slots=True)
class SymmetricWeights:
    name: str = "symmetric-weights"

    def run(self, graph: Graph, machine: Machine) -> bool:
        layers = [op for op in graph.ops if op.kind in ("Conv2D", "FullyConnected")]
        names = {op.inputs[1] for op in layers if _is_asymmetric(graph.tensor(op.inputs[1]))}
        coarser = 0
        for name in names:
            tensor = graph.tensor(name)
            graph.tensors[name] = _symmetric(tensor)
            coarser += graph.tensors[name].quant != _without_zero(tensor)
        if coarser:
            graph.notes.append(
                f"{coarser} layers have weights with a zero point that does not fit int8: "
                "they are rounded to symmetric weights (quantize weights symmetrically to avoid it)"
            )
        return bool(names)


def _is_asymmetric(tensor: Tensor) -> bool:
    eight_bits = tensor.dtype in (DType.INT8, DType.INT4)
    has_zero = tensor.quant is not None and any(tensor.quant.zero_points)
    return tensor.is_constant and eight_bits and has_zero


def _without_zero(tensor: Tensor) -> Quant:
    assert tensor.quant is not None
    return replace(tensor.quant, zero_points=(0,) * len(tensor.quant.zero_points))


def _symmetric(tensor: Tensor) -> Tensor:
    assert tensor.quant is not None and tensor.data is not None
    rows = len(tensor.quant.scales)
    flat = tensor.data.reshape(rows, -1).astype(np.float64)
    shifted = flat - np.array(tensor.quant.zero_points)[:, None]
    largest = np.abs(shifted).max(axis=1, keepdims=True)
    shrink = np.maximum(largest / _LARGEST, 1.0)
    data = np.rint(shifted / shrink).astype(np.int8).reshape(tensor.shape)
    scales = np.asarray(np.array(tensor.quant.scales) * shrink[:, 0], np.float32)
    quant = replace(_without_zero(tensor), scales=tuple(float(s) for s in scales))
    return replace(tensor, data=data, dtype=DType.INT8, quant=quant)
