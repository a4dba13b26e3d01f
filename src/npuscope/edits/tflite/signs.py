"""signed-activations of a .tflite file: uint8 tensors as int8, in the whole file at once."""

from __future__ import annotations

import numpy as np

from npuscope.edits.records import LOWEST, NotFitting
from npuscope.edits.registry import edit
from npuscope.edits.request import EditRequest
from npuscope.edits.tflite.document import TfliteDocument
from npuscope.files.tflite.file_parts import FileOp, FileTensor
from npuscope.files.tflite.spelling import int8_version
from npuscope.graph.model import Quant
from npuscope.graph.symmetric import symmetric_weights
from npuscope.structs import replace

_WEIGHTS = ("CONV_2D", "FULLY_CONNECTED", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
_OUTPUT_AXES = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3}  # others have one scale for all weights
_BIAS = {"TRANSPOSE_CONV": 3}  # others: 2


@edit("signed-activations", "tflite")
def signed_activations(document: TfliteDocument, request: EditRequest) -> None:
    """Types must agree wherever integers meet. Values and zero points move by 128, so no result
    changes. Inputs and outputs keep their type: a QUANTIZE stands beside them."""
    group = _unsigned(document)
    for op in [op for op in document.nodes if op.word in _WEIGHTS and op.inputs[1] in group]:
        _center(op)
    inside = [_detached(document, t) for t in group if t.type == "UINT8"]
    for tensor in inside:
        assert tensor.quant is not None
        points = tuple(zero + LOWEST for zero in tensor.quant.zero_points)
        tensor.type, tensor.quant = "INT8", replace(tensor.quant, zero_points=points)
        if tensor.data is not None:
            tensor.data = (tensor.data.astype(np.int16) + LOWEST).astype(np.int8)
    for op in document.nodes:
        if any(t in inside for t in (*op.inputs, *op.outputs)):
            op.version = max(op.version, int8_version(op.word))


def _unsigned(document: TfliteDocument) -> list[FileTensor]:
    """All uint8 tensors; NotFitting where one of them must stay."""
    group = [t for t in document.tensors if t.type == "UINT8" and t.quant is not None]
    border = [t for t in group if t in document.network_inputs or t in document.network_outputs]
    if len(border) == len(group):
        raise NotFitting("no tensor inside the network is uint8")
    for op in (op for op in document.nodes if any(t in group for t in op.inputs)):
        # Only the kernel on uint8 rescales what it joins.
        rescales = any(t is None or t.quant != op.outputs[0].quant for t in op.inputs)
        if op.word == "CUSTOM" or (op.word == "CONCATENATION" and rescales):
            raise NotFitting(f"a {op.word} has no int8 form here")
        if op.word in _WEIGHTS and op.inputs[1] in group:
            # What a layer alone multiplies and adds can get other steps.
            weights, bias = op.inputs[1], op.input(_BIAS.get(op.word, 2))
            if weights is None or weights.data is None or weights.data.shape != weights.shape:
                raise NotFitting("its weights are not constant integers")
            for tensor in (weights, bias):
                if tensor is not None and len(document.readers(tensor)) > 1:
                    raise NotFitting(f"'{tensor.name}' is shared by several layers")
    return group


def _center(op: FileOp) -> None:
    """Kernels on int8 want weights about zero. The step of a bias is the product of the input's
    and the weights'."""
    weights, bias = op.inputs[1], op.input(_BIAS.get(op.word, 2))
    assert weights is not None and weights.data is not None and weights.quant is not None
    old = weights.quant
    data, quant = symmetric_weights(weights.data, old, _OUTPUT_AXES.get(op.word))
    weights.type, weights.data, weights.quant = "INT8", data, quant
    if bias is None or bias.data is None or bias.quant is None or quant.scales == old.scales:
        return
    ratio = np.array(old.scales) / np.array(quant.scales)
    step = bias.quant.scale / old.scale
    scales = tuple(float(np.float32(step * scale)) for scale in quant.scales)
    bias.data = np.rint(bias.data * ratio).astype(np.int32)
    bias.quant = Quant(scales, (0,) * len(scales), None if quant.axis is None else 0)


def _detached(document: TfliteDocument, tensor: FileTensor) -> FileTensor:
    """What stands for a tensor inside the network."""
    is_input, is_output = tensor in document.network_inputs, tensor in document.network_outputs
    if not is_input and not is_output:
        return tensor
    inner = document.add_tensor(f"{tensor.name}_int8", "UINT8", tensor.shape, tensor.quant)
    maker = document.producer(tensor)
    document.rewire(tensor, inner, document.readers(tensor))
    if maker is not None:
        document.set_output(maker, tensor, inner)
    source, result = (tensor, inner) if is_input else (inner, tensor)
    document.add_op("Quantize", [source], result)
    return inner
