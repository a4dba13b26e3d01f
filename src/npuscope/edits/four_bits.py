"""Weights in steps of 4 bits: half the bytes in flash, sixteen values per channel."""

from __future__ import annotations

import numpy as np

from npuscope.edits.document import Document
from npuscope.edits.places import ops_of
from npuscope.edits.records import DEPTHWISE, LAYERS, Constant, FileLayer, NotFitting
from npuscope.edits.registry import edit
from npuscope.edits.request import EditRequest
from npuscope.structs import replace

_LOW, _HIGH = -8, 7
# Parts of a channel's range: cutting a few large weights may cost less than rounding all others.
_SHARES = np.linspace(0.6, 1.0, 9)


@edit("four-bit-weights")
def four_bit_weights(document: Document, request: EditRequest) -> None:
    """All layers of the finding that have integers of 8 bits."""
    ops = ops_of(document, request, (*LAYERS, DEPTHWISE))
    layers = [layer for op in ops if (layer := document.layer(op)) and may_be_four_bits(layer)]
    if not layers:
        raise NotFitting("none of its ops is a layer with constant int8 weights")
    for layer in layers:
        to_four_bits(document, layer)


def may_be_four_bits(layer: FileLayer) -> bool:
    """Integers of 8 bits about zero, some of which need more than 4."""
    weights = layer.weights
    if weights.scale is None or weights.values.dtype != np.int8 or np.any(weights.zeros):
        return False
    return bool(weights.values.min(initial=0) < _LOW or weights.values.max(initial=0) > _HIGH)


def to_four_bits(document: Document, layer: FileLayer) -> None:
    """Weights with the scales that lose least, one per output channel; the bias follows them."""
    axis = layer.out_axis
    old = np.broadcast_to(np.asarray(layer.weights.scale, np.float64).reshape(-1), layer.outputs)
    scales = _scales(np.moveaxis(layer.weights.real, axis, 0).reshape(layer.outputs, -1))
    shape = [1] * layer.weights.values.ndim
    shape[axis] = -1
    steps = np.clip(np.rint(layer.weights.real / scales.reshape(shape)), _LOW, _HIGH)
    weights = document.four_bits(
        layer.weights.changed(
            values=steps.astype(np.int8),
            scale=scales.astype(np.float32),
            zero_point=np.zeros(layer.outputs, np.int64),
            axis=axis,
        )
    )
    bias = layer.bias and _with_scales(layer.bias, scales / old)
    document.set_layer(replace(layer, weights=weights, bias=bias))


def _scales(rows: np.ndarray) -> np.ndarray:
    """One per row: of those tried, the one with the least square error."""
    whole = np.abs(rows).max(1) / -_LOW
    whole = np.where(whole > 0, whole, 1.0)
    best, least = whole, np.full(len(rows), np.inf)
    for share in _SHARES:
        scales = whole * share
        steps = np.clip(np.rint(rows / scales[:, None]), _LOW, _HIGH)
        errors = ((steps * scales[:, None] - rows) ** 2).sum(1)
        best, least = np.where(errors < least, scales, best), np.minimum(errors, least)
    return best


def _with_scales(bias: Constant, factors: np.ndarray) -> Constant:
    """Integers of the same real values, in steps that are so many times as large."""
    if bias.scale is None:
        return bias
    old = np.broadcast_to(np.asarray(bias.scale, np.float64).reshape(-1), len(factors))
    values = np.rint(bias.values.astype(np.float64) / factors.reshape(bias.values.shape))
    limits = np.iinfo(bias.values.dtype)
    return bias.changed(
        values=np.clip(values, limits.min, limits.max).astype(bias.values.dtype),
        scale=(old * factors).astype(np.float32),
        zero_point=np.zeros(len(factors), bias.values.dtype),
        axis=bias.values.ndim - 1,
    )
