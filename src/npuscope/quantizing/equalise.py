"""Cross-layer equalisation: channels of one tensor that differ by orders of magnitude are brought
together, by factors that one layer's weights take and the next one's give back.

The network computes the same. It is worth it where a depthwise layer leaves some channels a
hundred times larger than others: they all share one scale.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from npuscope.edits.document import Document
from npuscope.edits.records import CONVS, Constant, FileLayer, Op, Value
from npuscope.files.onnx.file_graph import OnnxFileGraph

# Functions with f(s * x) = s * f(x) for s > 0, channel by channel.
_HOMOGENEOUS = ("Relu", "LeakyRelu", "PRelu", "MaxPool", "AveragePool", "GlobalAveragePool")
_FUSED = (0, 1)  # none and ReLU, as TFLite numbers what is computed with an op
_MOST = 64.0  # a factor beyond this is an outlier's, not a channel's
_PASSES = 2


def equalise(document: Document, peaks: Mapping[str, np.ndarray]) -> bool:
    """`peaks` are the largest magnitudes by channel of what convolutions make; False where no pair
    of layers allows it."""
    pairs = [(op, second) for op in document.nodes if (second := _next(document, op)) is not None]
    scaled_peaks = dict(peaks)
    for _ in range(_PASSES):
        for first, second in pairs:
            _balance(document, first, second, scaled_peaks)
    return bool(pairs)


def conv_of(document: Document, op: Op) -> FileLayer | None:
    """A convolution of floats whose constants nobody else reads."""
    if document.kind(op) not in CONVS:
        return None
    layer = document.layer(op)
    if layer is None or layer.weights.scale is not None:
        return None
    constants = [c for c in (layer.weights, layer.bias) if c is not None]
    is_own = all(len(document.readers(one.held or one.name)) == 1 for one in constants)
    return layer if is_own else None


def _next(document: Document, op: Op) -> Op | None:
    """The convolution behind one, with nothing else reading what is between."""
    if conv_of(document, op) is None:
        return None
    while document.attribute(op, "fused_activation_function", 0) in _FUSED:
        result = document.outputs(op)[0]
        readers = document.readers(result)
        if result in document.network_outputs or len(readers) != 1:
            return None
        op = readers[0]
        if document.inputs(op)[0] != result:
            return None
        layer = conv_of(document, op)
        if layer is not None:
            return op if layer.is_depthwise or layer.is_dense else None
        if document.kind(op) not in _HOMOGENEOUS:
            return None
    return None


def _balance(document: Document, first: Op, second: Op, all_peaks: dict[str, np.ndarray]) -> None:
    result = document.name(document.outputs(first)[0])
    peaks, one, other = all_peaks.get(result), document.layer(first), document.layer(second)
    assert one is not None and other is not None
    axis = other.out_axis if other.is_depthwise else other.in_axis
    if peaks is None or axis is None or other.weights.values.shape[axis] != len(peaks):
        return
    weights = other.weights.values
    sizes = np.abs(weights).max(axis=tuple(n for n in range(weights.ndim) if n != axis))
    alive = (peaks > 0) & (sizes > 0)
    factors = np.ones(len(peaks))
    factors[alive] = np.sqrt(peaks[alive] / sizes[alive])
    factors[alive] /= np.exp(np.mean(np.log(factors[alive]))) if alive.any() else 1.0
    factors = np.clip(factors, 1 / _MOST, _MOST)
    scale_constant(document, one.weights, 1 / factors, one.out_axis)
    if one.bias is not None:
        scale_constant(document, one.bias, 1 / factors, 0)
    scale_constant(document, other.weights, factors, axis)
    all_peaks[result] = peaks / factors


def scale_constant(document: Document, constant: Constant, factors: np.ndarray, axis: int) -> None:
    shape = [1] * constant.values.ndim
    shape[axis] = -1
    set_values(document, constant, constant.values.astype(np.float64) * factors.reshape(shape))


def set_values(document: Document, constant: Constant, values: np.ndarray) -> None:
    """Floats in place of those of a constant, under its name."""
    tensor: Value = constant.held or constant.name
    document.set_values(tensor, values.astype(np.float32))


def own_constants(graph: OnnxFileGraph) -> None:
    """Equal constants were merged when the network was folded; each layer gets its own again."""
    constants, owned = graph.constant_names, set[str]()
    for op in graph.nodes:
        for place, name in enumerate(graph.inputs(op)[1:], 1):
            if graph.kind(op) in ("Conv", "Gemm") and name in constants and name in owned:
                values = graph.values(name)
                assert values is not None
                own = graph.add_constant(f"{name}/{graph.outputs(op)[0]}", values)
                graph.set_input(op, place, own)
            owned.add(name)
