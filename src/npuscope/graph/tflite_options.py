"""Which fields of an operator's options the TFLite reader uses: one row per operator."""

from __future__ import annotations

from typing import Any

Option = int | float | tuple[int, ...]

# operator -> (table in the schema, fields read from it)
OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "CONV_2D": (
        "Conv2DOptions",
        (
            "Padding",
            "StrideH",
            "StrideW",
            "DilationHFactor",
            "DilationWFactor",
            "FusedActivationFunction",
        ),
    ),
    "DEPTHWISE_CONV_2D": (
        "DepthwiseConv2DOptions",
        (
            "Padding",
            "StrideH",
            "StrideW",
            "DilationHFactor",
            "DilationWFactor",
            "FusedActivationFunction",
        ),
    ),
    "FULLY_CONNECTED": (
        "FullyConnectedOptions",
        ("FusedActivationFunction", "WeightsFormat", "KeepNumDims"),
    ),
    "AVERAGE_POOL_2D": (
        "Pool2DOptions",
        (
            "Padding",
            "StrideH",
            "StrideW",
            "FilterHeight",
            "FilterWidth",
            "FusedActivationFunction",
        ),
    ),
    "ADD": ("AddOptions", ("FusedActivationFunction",)),
    "SUB": ("SubOptions", ("FusedActivationFunction",)),
    "MUL": ("MulOptions", ("FusedActivationFunction",)),
    "SOFTMAX": ("SoftmaxOptions", ("Beta",)),
    "MEAN": ("ReducerOptions", ("KeepDims",)),
    "CONCATENATION": ("ConcatenationOptions", ("Axis", "FusedActivationFunction")),
    "BATCH_MATMUL": ("BatchMatMulOptions", ("AdjX", "AdjY")),
    "RESHAPE": ("ReshapeOptions", ("NewShape",)),
    "TRANSPOSE_CONV": (
        "TransposeConvOptions",
        ("Padding", "StrideH", "StrideW", "FusedActivationFunction"),
    ),
    "DIV": ("DivOptions", ("FusedActivationFunction",)),
    "LEAKY_RELU": ("LeakyReluOptions", ("Alpha",)),
    "GELU": ("GeluOptions", ("Approximate",)),
    "L2_NORMALIZATION": ("L2NormOptions", ("FusedActivationFunction",)),
    "STRIDED_SLICE": (
        "StridedSliceOptions",
        ("BeginMask", "EndMask", "EllipsisMask", "NewAxisMask", "ShrinkAxisMask", "Offset"),
    ),
    "SPLIT": ("SplitOptions", ("NumSplits",)),
    "PACK": ("PackOptions", ("Axis",)),
    "UNPACK": ("UnpackOptions", ("Axis",)),
    "GATHER": ("GatherOptions", ("Axis", "BatchDims")),
    "MIRROR_PAD": ("MirrorPadOptions", ("Mode",)),
    "RESIZE_BILINEAR": ("ResizeBilinearOptions", ("AlignCorners", "HalfPixelCenters")),
    "RESIZE_NEAREST_NEIGHBOR": (
        "ResizeNearestNeighborOptions",
        ("AlignCorners", "HalfPixelCenters"),
    ),
    "DEPTH_TO_SPACE": ("DepthToSpaceOptions", ("BlockSize",)),
    "SPACE_TO_DEPTH": ("SpaceToDepthOptions", ("BlockSize",)),
}
OPTIONS["MAX_POOL_2D"] = OPTIONS["AVERAGE_POOL_2D"]
for _reduction in ("SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"):
    OPTIONS[_reduction] = OPTIONS["MEAN"]

_VECTORS = {"NewShape"}


def read_options(operator: Any, kind: str) -> dict[str, Option]:
    """The fields of `kind`'s options as plain numbers; an absent table reads as its defaults."""
    import tflite

    if kind not in OPTIONS:
        return {}
    table_name, fields = OPTIONS[kind]
    table = getattr(tflite, table_name)()
    content = operator.BuiltinOptions()
    wanted = getattr(tflite.BuiltinOptions, table_name)
    if content is None or operator.BuiltinOptionsType() != wanted:
        return {name: () if name in _VECTORS else 0 for name in fields}
    table.Init(content.Bytes, content.Pos)
    return {name: _read(table, name) for name in fields}


def _read(table: Any, name: str) -> Option:
    if name not in _VECTORS:
        value: int | float = getattr(table, name)()
        return value
    length = min(getattr(table, f"{name}Length")(), 64)
    return tuple(int(getattr(table, name)(index)) for index in range(length))
