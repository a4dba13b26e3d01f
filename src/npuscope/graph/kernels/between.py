"""Any op on real values, with a dequantize before and a quantize behind.

onnxruntime computes quantized networks this way. For LiteRT it stands in where no integer kernel
exists; there ties round away from zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npuscope.graph.kernels.elementwise import per_axis
from npuscope.graph.kernels.requantize import round_half_away, saturate
from npuscope.graph.kernels.step import Array, Maker, Step
from npuscope.graph.kernels.tabulate import tabulated
from npuscope.graph.model import Graph, Op, Tensor

Store = Callable[[Array, Tensor], Array]


def real_values(values: Array, tensor: Tensor) -> Array:
    """DequantizeLinear; tensors without a scale pass."""
    if tensor.quant is None:
        return values
    zero = per_axis(tensor.quant.zero_points, tensor, np.int64)
    scale = per_axis(tensor.quant.scales, tensor, np.float32)
    real: Array = np.multiply(values - zero, scale, dtype=np.float32)
    return real


def quantized(values: Array, tensor: Tensor) -> Array:
    """QuantizeLinear: half to even, saturating; tensors without a scale pass."""
    return _stored(values, tensor, np.rint)


def quantized_away(values: Array, tensor: Tensor) -> Array:
    """The same with ties away from zero."""
    return _stored(values, tensor, round_half_away)


def _stored(values: Array, tensor: Tensor, rounded: Callable[[Array], Array]) -> Array:
    if tensor.quant is None:
        return values.astype(tensor.dtype.numpy, copy=False)
    with np.errstate(all="ignore"):  # infinities saturate
        ratio = rounded(values / per_axis(tensor.quant.scales, tensor, np.float32))
        shifted = ratio + per_axis(tensor.quant.zero_points, tensor, np.float32)
    low = tensor.dtype.limits[0]
    return saturate(np.where(np.isnan(shifted), low, shifted), tensor.dtype)


def between(make_real: Maker, elementwise: bool = False, store: Store = quantized) -> Maker:
    """`elementwise` ops on 8-bit values become tables."""

    def make(graph: Graph, op: Op) -> Step:
        real = make_real(graph, op)
        sources = [graph.tensors[name] for name in op.inputs if name]
        as_table = elementwise and not any(t.quant and t.quant.per_channel for t in sources)
        # A table is made by running the step on all values: it must read what it is given.
        readers = [_Reader(t) if as_table else _reader(t) for t in sources]
        output = graph.output_tensor(op)

        def step(inputs: Sequence[Array]) -> Array:
            values = [read(value) for read, value in zip(readers, inputs, strict=True)]
            return store(real(values), output)

        return tabulated(step, *sources) if as_table else step

    return make


class _Constant:
    """A constant's real values, computed once."""

    def __init__(self, tensor: Tensor) -> None:
        self.values = real_values(np.asarray(tensor.data), tensor)

    def __call__(self, values: Array) -> Array:
        return self.values


class _Reader:
    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __call__(self, values: Array) -> Array:
        return real_values(values, self.tensor)


def _reader(tensor: Tensor) -> _Constant | _Reader:
    return _Constant(tensor) if tensor.is_constant else _Reader(tensor)


def moving(make_raw: Maker, make_real: Maker, data_inputs: int | None = None) -> Maker:
    """Ops that only move values work on raw ones when both sides share the quantization.

    `data_inputs` is how many of the inputs are moved (None: all).
    """

    def make(graph: Graph, op: Op) -> Step:
        output = graph.output_tensor(op)
        sources = [graph.tensors[name] for name in op.inputs[:data_inputs]]
        if all((t.quant, t.dtype) == (output.quant, output.dtype) for t in sources):
            return make_raw(graph, op)
        return between(make_real)(graph, op)

    return make
