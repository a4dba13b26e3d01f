"""Convolutions in a .tflite file whose kernels are ones and zeros: they copy values exactly."""

from __future__ import annotations

import numpy as np

from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.tflite_document import EditOp, EditTensor, TfliteDocument
from npuscope.graph.edit.tflite_records import Record
from npuscope.graph.model import Quant

SAME, VALID = 0, 1


def image(tensor: EditTensor | None) -> EditTensor:
    """An int8 image (N, H, W, C) with one scale."""
    if tensor is None or len(tensor.shape) != 4:
        raise NotFitting("the data is no image (N, H, W, C)")
    if tensor.type != "INT8" or tensor.quant is None or tensor.quant.per_channel:
        raise NotFitting(f"'{tensor.name}' is not int8 with one scale")
    return tensor


def bytes_like(tensor: EditTensor) -> Quant:
    assert tensor.quant is not None  # `image` looked
    return tensor.quant


def add_dense(
    document: TfliteDocument,
    source: EditTensor,
    result: EditTensor,
    kernels: np.ndarray,
    strides: tuple[int, int] = (1, 1),
) -> EditOp:
    """Kernels (O, kh, kw, I), no padding."""
    inputs = _constants(document, source, result, kernels, kernels.shape[0])
    options = Record(
        "Conv2DOptions",
        {
            "Padding": VALID,
            "StrideH": strides[0],
            "StrideW": strides[1],
            "DilationHFactor": 1,
            "DilationWFactor": 1,
        },
    )
    return document.add_op("CONV_2D", inputs, (result,), options, version=3)


def add_depthwise(
    document: TfliteDocument,
    source: EditTensor,
    result: EditTensor,
    kernels: np.ndarray,
    strides: tuple[int, int] = (1, 1),
    padding: int = VALID,
    scale: float = 1.0,
) -> EditOp:
    """Kernels (1, kh, kw, C); `scale` is that of their steps."""
    inputs = _constants(document, source, result, kernels, kernels.shape[-1], scale)
    options = Record(
        "DepthwiseConv2DOptions",
        {
            "Padding": padding,
            "StrideH": strides[0],
            "StrideW": strides[1],
            "DepthMultiplier": 1,
            "DilationHFactor": 1,
            "DilationWFactor": 1,
        },
    )
    return document.add_op("DEPTHWISE_CONV_2D", inputs, (result,), options, version=3)


def _constants(
    document: TfliteDocument,
    source: EditTensor,
    result: EditTensor,
    kernels: np.ndarray,
    channels: int,
    scale: float = 1.0,
) -> tuple[EditTensor, EditTensor, EditTensor]:
    steps, zeros = kernels.astype(np.int8), np.zeros(channels, np.int32)
    stem = result.name
    one = Quant((scale,), (0,))
    step = float(np.float32(bytes_like(source).scale) * np.float32(scale))
    weights = document.add_tensor(f"{stem}_kernels", "INT8", steps.shape, one, steps)
    bias = document.add_tensor(f"{stem}_bias", "INT32", zeros.shape, Quant((step,), (0,)), zeros)
    return source, weights, bias
