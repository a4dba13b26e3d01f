"""FullyConnected and MatMul on integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npuscope.graph.attrs import Activation, DenseAttrs, MatMulAttrs
from npuscope.graph.kernels.emit import Emit, ExactRescale, RescaleInDouble, litert_target
from npuscope.graph.kernels.gemm import exact_panels
from npuscope.graph.kernels.requantize import quantized_multipliers, scale_twice
from npuscope.graph.kernels.step import Array, Step, quant_of
from npuscope.graph.kernels.weights import (
    IntegerWeights,
    integer_bias,
    integer_weights,
    output_factors,
)
from npuscope.graph.model import Graph, Op, Tensor

EmitMaker = Callable[[Graph, Op, IntegerWeights], Emit]


def litert_fully_connected(graph: Graph, op: Op) -> Step:
    return integer_fully_connected(graph, op, _litert_emit)


def _litert_emit(graph: Graph, op: Op, weights: IntegerWeights) -> Emit:
    output = graph.output_tensor(op)
    target = litert_target(output, op.attrs_as(DenseAttrs).activation)
    bias = integer_bias(graph, op, weights).astype(np.float64)
    return RescaleInDouble(output_factors(weights, output), bias, target)


def integer_fully_connected(graph: Graph, op: Op, make_emit: EmitMaker) -> Step:
    """The step of a layer on raw integers; `make_emit` decides what its sums become."""
    weights, output = integer_weights(graph, op), graph.output_tensor(op)
    panels = exact_panels(weights.values, weights.input.dtype)
    emit = make_emit(graph, op, weights)
    depth = weights.values.shape[1]

    def step(inputs: Sequence[Array]) -> Array:
        rows = inputs[0].reshape(-1, depth).astype(panels.dtype)
        result = np.empty(output.shape, output.dtype.numpy)
        emit(panels(rows), result.reshape(len(rows), -1))
        return result

    return step


def litert_matmul(graph: Graph, op: Op) -> Step:
    """Product of two activations."""
    a, b = (graph.tensors[name] for name in op.inputs)
    output = graph.output_tensor(op)
    factor = product_factor(a, b, output)
    target = litert_target(output, Activation.NONE)
    emit = ExactRescale(scale_twice, quantized_multipliers(factor), np.zeros(1, np.int64), target)
    attrs = op.attrs_as(MatMulAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        left = _centred(inputs[0], a, attrs.transpose_a)
        right = _centred(inputs[1], b, attrs.transpose_b)
        result = np.empty(output.shape, output.dtype.numpy)
        emit(left @ right, result)
        return result

    return step


def product_factor(a: Tensor, b: Tensor, output: Tensor) -> float:
    """Accumulator to output; LiteRT multiplies the two scales in float32."""
    scales = np.float32(quant_of(a).scale) * np.float32(quant_of(b).scale)
    return float(scales) / quant_of(output).scale


def _centred(values: Array, tensor: Tensor, swap: bool) -> Array:
    """Float64, in which the sums of products of 8 and 16 bit values are exact."""
    centred = np.subtract(values, quant_of(tensor).zero_point, dtype=np.float64)
    return centred.swapaxes(-1, -2) if swap else centred
