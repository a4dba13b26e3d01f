"""Which graph inputs are channel-first images and signals.

ONNX does not say what an axis means. An input whose values reach a windowed op through ops that do
not mind the order of axes is turned right at the input, so that all of them work channel-last.
"""

from __future__ import annotations

from npuscope.graph.onnx.nodes import Source

_WINDOWED = {
    "Conv",
    "ConvTranspose",
    "MaxPool",
    "AveragePool",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "BatchNormalization",
    "InstanceNormalization",
    "GroupNormalization",
    "Resize",
    "Upsample",
    "DepthToSpace",
    "SpaceToDepth",
}
_INDIFFERENT = {
    *("QuantizeLinear", "DequantizeLinear", "Identity", "Cast"),
    *("Relu", "Clip", "Sigmoid", "Softmax", "LogSoftmax", "Tanh", "HardSigmoid", "HardSwish"),
    *("LeakyRelu", "PRelu", "Elu", "Gelu", "Softplus", "Mish", "Erf"),
    *("Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Sqrt", "Reciprocal", "Exp", "Log"),
    *("Add", "Sub", "Mul", "Div", "Min", "Max", "Pow", "Where"),
    *("Concat", "Pad", "Slice", "Split", "Tile"),
}


def channel_first(source: Source) -> set[str]:
    """Names of tensors that a windowed op reads, directly or behind indifferent ops."""
    found: set[str] = set()
    for node in reversed(source.nodes):
        if node.kind in _WINDOWED:
            found.add(node.input(0))
        elif node.kind in _INDIFFERENT and found.intersection(node.outputs):
            found.update(node.inputs)
    return found
