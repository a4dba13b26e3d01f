"""Bias correction: what rounding of weights adds to a layer's results on average is taken off its
bias.

A channel's rounding errors do not cancel where its inputs are all positive, as behind a ReLU. Their
sum times the mean of each input is known from the weights and one pass over the samples.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from npuscope.edits.document import Document
from npuscope.edits.records import FileLayer
from npuscope.quantizing.equalise import set_values
from npuscope.quantizing.work import Weights

Shifts = Mapping[str, np.ndarray]


def bias_shifts(document: Document, means: Mapping[str, np.ndarray], weights: Weights) -> Shifts:
    """What to add to the bias of layers, by the name of what they make. `means` are those of the
    channels of their inputs, `weights` gives a constant as it was and as it is."""
    shifts = {}
    for op in document.nodes:
        layer = document.layer(op)
        if layer is None or layer.bias is None or layer.weights.scale is not None:
            continue
        mean = means.get(document.name(document.inputs(op)[0]))
        pair = weights(layer.weights.name)
        if mean is None or pair is None or pair[0].shape != pair[1].shape:
            continue
        shift = _shift(layer, pair[1] - pair[0], mean)
        if shift is not None and shift.shape == layer.bias.values.shape:
            shifts[document.name(document.outputs(op)[0])] = shift
    return shifts


def _shift(layer: FileLayer, errors: np.ndarray, mean: np.ndarray) -> np.ndarray | None:
    """None where groups share inputs in another way."""
    if layer.is_depthwise:
        axes = tuple(axis for axis in range(errors.ndim) if axis != layer.out_axis)
        sums = errors.sum(axes)
        return -sums * mean if sums.shape == mean.shape else None
    if not layer.is_dense or layer.in_axis is None:
        return None
    matrix_axes = (layer.out_axis, layer.in_axis)
    sums = errors.sum(tuple(axis for axis in range(errors.ndim) if axis not in matrix_axes))
    table = sums if layer.out_axis < layer.in_axis else sums.T
    return -table @ mean if table.shape[1] == len(mean) else None


def with_shifts(document: Document, shifts: Shifts) -> None:
    for op in document.nodes:
        name = document.name(document.outputs(op)[0]) if document.outputs(op) else ""
        layer = document.layer(op) if name in shifts else None
        if layer is not None and layer.bias is not None:
            set_values(document, layer.bias, layer.bias.values + shifts[name])


def channel_means(values: np.ndarray, axis: int) -> np.ndarray:
    return np.asarray(values.mean(tuple(n for n in range(values.ndim) if n != axis % values.ndim)))
