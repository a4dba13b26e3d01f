"""What a .tflite file calls ops and attributes that the file graph names like ONNX."""

from __future__ import annotations

SAME, VALID = 0, 1  # of `padding`
KINDS = {
    "CONV_2D": "Conv",
    "FULLY_CONNECTED": "Gemm",
    "DEPTHWISE_CONV_2D": "DepthwiseConv",
    "QUANTIZE": "Quantize",
    "DEQUANTIZE": "Dequantize",
    "ADD": "Add",
    "SUB": "Sub",
    "MUL": "Mul",
    "DIV": "Div",
    "POW": "Pow",
    "MINIMUM": "Min",
    "MAXIMUM": "Max",
    "NEG": "Neg",
    "ABS": "Abs",
    "CAST": "Cast",
    "RELU": "Relu",
    "RELU6": "Relu6",
    "RELU_N1_TO_1": "ReluN1To1",
    "LEAKY_RELU": "LeakyRelu",
    "PRELU": "PRelu",
    "ELU": "Elu",
    "LOGISTIC": "Sigmoid",
    "TANH": "Tanh",
    "HARD_SWISH": "HardSwish",
    "GELU": "Gelu",
    "EXP": "Exp",
    "LOG": "Log",
    "SQRT": "Sqrt",
    "RSQRT": "Rsqrt",
    "SQUARE": "Square",
    "FLOOR": "Floor",
    "CEIL": "Ceil",
    "ROUND": "Round",
    "SOFTMAX": "Softmax",
    "MAX_POOL_2D": "MaxPool",
    "AVERAGE_POOL_2D": "AveragePool",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearest",
    "RESIZE_BILINEAR": "ResizeLinear",
    "MEAN": "ReduceMean",
    "SUM": "ReduceSum",
    "PAD": "Pad",
    "PADV2": "Pad",
    "RESHAPE": "Reshape",
    "SQUEEZE": "Squeeze",
    "EXPAND_DIMS": "Unsqueeze",
    "TRANSPOSE": "Transpose",
    "SLICE": "Slice",
    "STRIDED_SLICE": "StridedSlice",
    "SPLIT": "Split",
    "CONCATENATION": "Concat",
    "GATHER": "Gather",
    "MIRROR_PAD": "MirrorPad",
}
# Of new ones, by kind: the table of options, and the version that takes int8.
NEW: dict[str, tuple[str, int]] = {
    "Add": ("AddOptions", 2),
    "Sub": ("SubOptions", 2),
    "Mul": ("MulOptions", 2),
    "Slice": ("SliceOptions", 2),
    "Reshape": ("ReshapeOptions", 1),
    "Concat": ("ConcatenationOptions", 2),
    "ResizeNearest": ("ResizeNearestNeighborOptions", 2),
    "PRelu": ("", 1),
    "ReduceMean": ("ReducerOptions", 2),
    "Pad": ("PadOptions", 2),
    "MirrorPad": ("MirrorPadOptions", 2),
    "Conv": ("Conv2DOptions", 3),
    "DepthwiseConv": ("DepthwiseConv2DOptions", 3),
    "Quantize": ("", 2),
    "Dequantize": ("", 2),
}
# Attributes that are fields of their own for height and width.
_PAIRS = {"strides": ("StrideH", "StrideW"), "dilations": ("DilationHFactor", "DilationWFactor")}


def word_of(kind: str) -> str:
    """The first that has it."""
    return next((word for word, kind_of_word in KINDS.items() if kind_of_word == kind), kind)


def fields_of(name: str) -> tuple[str, ...]:
    """The fields of an options table that an attribute stands for."""
    return _PAIRS.get(name) or ("".join(part.capitalize() for part in name.split("_")),)
