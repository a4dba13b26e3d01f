"""A float network as quantizers take it, for those who quantize it and for those who only ask.

What a quantizer folds is folded: aliases, normalizations and constant products and sums behind
layers; chains of small ops that are one function become that op. A network that is quantized
already stays as it is: its file is what a compiler gets.
"""

from __future__ import annotations

from npuscope.files.onnx.expand import QLINEAR
from npuscope.files.onnx.file import OnnxModel
from npuscope.files.onnx.layer_folds import fold_into_layers
from npuscope.files.onnx.patterns import fuse_patterns, norms_as_layers

QUANTIZED = frozenset(("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", *QLINEAR))


def float_form(source: OnnxModel) -> OnnxModel:
    """Of a model whose constants are folded and whose aliases are resolved."""
    if any(node.kind in QUANTIZED for node in source.nodes):
        return source
    # Chains first: a number that is added behind a layer may begin one.
    return norms_as_layers(fold_into_layers(fuse_patterns(source)))
