"""Integer weights of a conv or fully connected layer, read once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuscope.errors import ModelError
from npuscope.graph.kernels.gemm import reach
from npuscope.graph.kernels.step import Array, constant_of, optional_constant, quant_of
from npuscope.graph.model import DType, Graph, Op, Tensor


@dataclass(frozen=True, slots=True)
class IntegerWeights:
    """Weights with output channels first, their zero points taken out.

    sum(w * (x - zero)) = sum(w * x) + fold, so kernels work on the raw x and add `fold`.
    """

    values: Array  # int32
    scales: Array  # float64, one per channel
    fold: Array  # int64, one per channel
    reach: Array  # float64: bound of |sum(w * x)| over all raw inputs
    input: Tensor

    @property
    def channels(self) -> int:
        return len(self.values)


def integer_weights(graph: Graph, op: Op) -> IntegerWeights:
    source, tensor = graph.first_input(op), constant_of(graph, op, 1, "weights")
    quant = quant_of(tensor)
    if quant.axis not in (None, 0):
        raise ModelError(f"the weights have scales along axis {quant.axis}, expected axis 0")
    data = np.asarray(tensor.data).astype(np.int32)
    zero = np.asarray(quant.zero_points, np.int32).reshape(-1, *[1] * (data.ndim - 1))
    values = data - zero
    totals = values.reshape(len(values), -1).sum(axis=1, dtype=np.int64)
    return IntegerWeights(
        values,
        np.broadcast_to(np.asarray(quant.scales, np.float64), len(values)),
        -quant_of(source).zero_point * totals,
        reach(values, source.dtype),
        source,
    )


def input_scale(weights: IntegerWeights) -> float:
    return quant_of(weights.input).scale


def output_factors(weights: IntegerWeights, output: Tensor) -> Array:
    """Accumulator to output, per channel: products and quotients in double, as LiteRT does."""
    return input_scale(weights) * weights.scales / quant_of(output).scale


def integer_bias(graph: Graph, op: Op, weights: IntegerWeights) -> Array:
    """The bias plus the folded zero point, in units of the accumulator."""
    bias = optional_constant(graph, op, 2, "biases")
    if bias is None:
        return weights.fold
    if bias.dtype not in (DType.INT32, DType.INT64):
        raise ModelError(f"the bias is {bias.dtype.value}, expected int32 or int64")
    return np.asarray(bias.data).astype(np.int64) + weights.fold
