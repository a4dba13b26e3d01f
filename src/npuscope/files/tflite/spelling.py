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
# Tables of options of new ones, by kind.
OPTIONS = {
    "Add": "AddOptions",
    "Sub": "SubOptions",
    "Mul": "MulOptions",
    "Slice": "SliceOptions",
    "Reshape": "ReshapeOptions",
    "Concat": "ConcatenationOptions",
    "ResizeNearest": "ResizeNearestNeighborOptions",
    "ReduceMean": "ReducerOptions",
    "Pad": "PadOptions",
    "MirrorPad": "MirrorPadOptions",
    "Conv": "Conv2DOptions",
    "DepthwiseConv": "DepthwiseConv2DOptions",
}
# The version in which LiteRT's kernels take int8 where that is not the second.
_INT8_VERSIONS = {
    "CONV_2D": 3,
    "DEPTHWISE_CONV_2D": 3,
    "FULLY_CONNECTED": 4,
    "RESHAPE": 1,
    "EXPAND_DIMS": 1,
    "SQUEEZE": 1,
    "PRELU": 1,
    "HARD_SWISH": 1,
    **dict.fromkeys(("DEPTH_TO_SPACE", "ELU", "FLOOR", "CEIL", "ROUND", "POW", "SIN", "COS"), 1),
    **dict.fromkeys(("SQRT", "SQUARE", "SPLIT_V", "SELECT_V2", "TRANSPOSE_CONV", "NEG"), 1),
    **dict.fromkeys(("LOGICAL_NOT", "LOGICAL_AND", "LOGICAL_OR"), 1),
}
# Attributes that are fields of their own for height and width.
_PAIRS = {"strides": ("StrideH", "StrideW"), "dilations": ("DilationHFactor", "DilationWFactor")}


def int8_version(word: str) -> int:
    """The first that takes int8."""
    return _INT8_VERSIONS.get(word, 2)


def word_of(kind: str) -> str:
    """The first that has it."""
    return next((word for word, kind_of_word in KINDS.items() if kind_of_word == kind), kind)


def fields_of(name: str) -> tuple[str, ...]:
    """The fields of an options table that an attribute stands for."""
    return _PAIRS.get(name) or ("".join(part.capitalize() for part in name.split("_")),)
