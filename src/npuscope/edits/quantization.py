"""Other steps for the same numbers: symmetric-weights, zero-point, signed-activations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuscope.edits.document import Document
from npuscope.edits.numbers import fast_quant
from npuscope.edits.records import DEPTHWISE, HIGHEST, LAYERS, LOWEST, Constant, NotFitting, Op
from npuscope.edits.registry import edit
from npuscope.edits.request import Request


@edit("symmetric-weights")
def symmetric_weights(document: Document, request: Request) -> None:
    """Zero point 0 for weights that stay within int8 when it is taken off."""
    layer = document.layer(document.place(request, *LAYERS, DEPTHWISE))
    if layer is None or layer.weights.scale is None or layer.weights.zero_point is None:
        raise NotFitting("its weights are not constant integers")
    weights = layer.weights
    values = _taken_off(weights)
    zeros = np.zeros_like(layer.weights.zero_point, np.int8)
    document.set_layer(replace(layer, weights=weights.changed(values=values, zero_point=zeros)))


def _taken_off(weights: Constant) -> np.ndarray:
    """The same weights about zero, exactly."""
    if not np.any(weights.zeros) and weights.values.dtype == np.int8:
        raise NotFitting(f"'{weights.name}' has zero point 0 already")
    steps = weights.values.astype(np.int16) - weights.zeros
    low, high = int(steps.min()), int(steps.max())
    if low < LOWEST or high > HIGHEST:
        raise NotFitting(f"'{weights.name}' reaches from {low} to {high} steps, beyond int8")
    return steps.astype(np.int8)


@edit("zero-point")
def zero_point(document: Document, request: Request) -> None:
    """0 or -128 at a layer's input, which frees the fast mode of the convolution unit.

    At the network's input the application has to send the other integers; the real values are the
    same but for the ends of the range.
    """
    layer = document.place(request, *LAYERS, DEPTHWISE)
    group = document.tied(document.inputs(layer)[0])
    old = document.tied_steps(group)
    new = replace(old, quant=fast_quant(old.quant, old.unsigned_offset))
    if new.quant.scales != old.quant.scales:
        ratio = old.quant.scale / float(np.float32(new.quant.scale))
        for op in document.tied_layers(group):
            _rescale_bias(document, op, ratio)
    document.set_steps(group, new)


def _rescale_bias(document: Document, op: Op, ratio: float) -> None:
    """The step of an int32 bias is the product of the input's and the weights'."""
    bias = document.layer_bias(op)
    if bias is None or bias.values.dtype != np.int32:
        return  # a float bias has no steps
    values = np.rint(bias.values * ratio).astype(np.int32)
    scale = None if bias.scale is None else np.asarray(bias.scale / ratio, np.float32)
    document.set_bias(op, bias.changed(values=values, scale=scale))


@edit("signed-activations")
def signed_activations(document: Document, request: Request) -> None:
    """uint8 tensors as int8, in the whole file at once: types must agree wherever integers meet.
    Values and zero points move by 128, so no result changes."""
    document.make_signed(document.unsigned())
