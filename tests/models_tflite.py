"""Write small .tflite files with the schema's object API (extra `reference`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from npuscope.ops.table import TFLITE

SAME, VALID = schema.Padding.SAME, schema.Padding.VALID
NONE, RELU, RELU6 = 0, 1, 3

# operator -> (its options table, values that differ from the schema's defaults)
_OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "VAR_HANDLE": ("VarHandleOptions", {}),
    "CONV_2D": ("Conv2DOptions", {"strideH": 1, "strideW": 1}),
    "DEPTHWISE_CONV_2D": (
        "DepthwiseConv2DOptions",
        {"strideH": 1, "strideW": 1, "depthMultiplier": 1},
    ),
    "FULLY_CONNECTED": ("FullyConnectedOptions", {}),
    "AVERAGE_POOL_2D": (
        "Pool2DOptions",
        {"strideH": 1, "strideW": 1, "filterHeight": 1, "filterWidth": 1},
    ),
    "MAX_POOL_2D": (
        "Pool2DOptions",
        {"strideH": 1, "strideW": 1, "filterHeight": 1, "filterWidth": 1},
    ),
    "ADD": ("AddOptions", {}),
    "SUB": ("SubOptions", {}),
    "MUL": ("MulOptions", {}),
    "SOFTMAX": ("SoftmaxOptions", {"beta": 1.0}),
    "MEAN": ("ReducerOptions", {}),
    "SUM": ("ReducerOptions", {}),
    "GATHER": ("GatherOptions", {}),
    "CONCATENATION": ("ConcatenationOptions", {}),
    "BATCH_MATMUL": ("BatchMatMulOptions", {}),
    "RESHAPE": ("ReshapeOptions", {}),
    "TRANSPOSE_CONV": ("TransposeConvOptions", {"strideH": 1, "strideW": 1}),
    "STRIDED_SLICE": ("StridedSliceOptions", {}),
    "SPLIT": ("SplitOptions", {}),
    "PACK": ("PackOptions", {}),
    "SPLIT_V": ("SplitVOptions", {}),
    "ARG_MAX": ("ArgMaxOptions", {"outputType": schema.TensorType.INT32}),
    "ARG_MIN": ("ArgMinOptions", {"outputType": schema.TensorType.INT32}),
    "RESIZE_BILINEAR": ("ResizeBilinearOptions", {}),
    "RESIZE_NEAREST_NEIGHBOR": ("ResizeNearestNeighborOptions", {}),
}


_VERSIONS = {"BROADCAST_TO": 2}  # the first one that LiteRT has; most kernels look at types only


def _table_of(kind: str) -> tuple[str, dict[str, Any]]:
    """The options table that the op's row names."""
    row = TFLITE.get(kind)
    return (row.options[0] if row and row.options else "", {})


class TfliteWriter:
    """Collects tensors and operators; `finish` gives the bytes of the file."""

    def __init__(self) -> None:
        self.buffers: list[Any] = [schema.BufferT()]  # number 0 stays empty by convention
        self.tensors: list[Any] = []
        self.codes: list[Any] = []
        self.operators: list[Any] = []

    def tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str = "int8",
        scale: float | tuple[float, ...] | None = None,
        zero_point: int = 0,
        axis: int = 0,
        data: np.ndarray | None = None,
        signature: tuple[int, ...] | None = None,
        variable: bool = False,
    ) -> int:
        """Add a tensor, a constant if it has `data`, and return its index."""
        made = schema.TensorT()
        made.name, made.shape = name.encode(), list(shape)
        made.type = getattr(schema.TensorType, dtype.upper())
        made.shapeSignature = list(signature) if signature else None
        made.buffer = self._buffer(dtype, data) if data is not None else 0
        made.isVariable = variable
        if scale is not None:
            made.quantization = _quantization(scale, zero_point, axis)
        self.tensors.append(made)
        return len(self.tensors) - 1

    def constant(self, name: str, data: np.ndarray, **quantization: Any) -> int:
        return self.tensor(name, data.shape, str(data.dtype), data=data, **quantization)

    def _buffer(self, dtype: str, data: np.ndarray) -> int:
        buffer = schema.BufferT()
        raw = pack_int4(data) if dtype == "int4" else np.ascontiguousarray(data)
        buffer.data = np.frombuffer(raw.tobytes(), np.uint8)
        self.buffers.append(buffer)
        return len(self.buffers) - 1

    def op(
        self,
        kind: str,
        inputs: list[int],
        outputs: list[int],
        inner: Sequence[int] = (),
        **options: Any,
    ) -> None:
        """Add an operator; options by their schema names, e.g. strideH=2."""
        made = schema.OperatorT()
        made.opcodeIndex = self._code(kind)
        made.inputs, made.outputs = list(inputs), list(outputs)
        made.intermediates = list(inner) or None
        table, defaults = _OPTIONS.get(kind) or _table_of(kind)
        if table:
            made.builtinOptionsType = getattr(schema.BuiltinOptions, table)
            made.builtinOptions = getattr(schema, f"{table}T")()
            for name, value in {**defaults, **options}.items():
                setattr(made.builtinOptions, name, value)
        self.operators.append(made)

    def _code(self, kind: str) -> int:
        code = schema.OperatorCodeT()
        custom = kind.removeprefix("CUSTOM:") if kind.startswith("CUSTOM:") else None
        number = getattr(schema.BuiltinOperator, "CUSTOM" if custom else kind)
        code.builtinCode, code.deprecatedBuiltinCode = number, min(number, 127)
        code.customCode = custom.encode() if custom else None
        code.version = _VERSIONS.get(kind, 1)
        self.codes.append(code)
        return len(self.codes) - 1

    def finish(self, inputs: list[int], outputs: list[int], subgraphs: int = 1) -> bytes:
        graph = schema.SubGraphT()
        graph.name = b"main"
        graph.tensors, graph.operators = self.tensors, self.operators
        graph.inputs, graph.outputs = list(inputs), list(outputs)
        model = schema.ModelT()
        model.version, model.description = 3, b"npuscope test"
        model.operatorCodes, model.buffers = self.codes, self.buffers
        model.subgraphs = [graph] * subgraphs
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def _quantization(scale: float | tuple[float, ...], zero_point: int, axis: int) -> Any:
    made = schema.QuantizationParametersT()
    scales = scale if isinstance(scale, tuple) else (scale,)
    made.scale, made.zeroPoint = list(scales), [zero_point] * len(scales)
    made.quantizedDimension = axis if len(scales) > 1 else 0
    return made


def pack_int4(values: np.ndarray) -> np.ndarray:
    """Two values a byte, the first in the low half."""
    flat = np.append(values.ravel(), 0) if values.size % 2 else values.ravel()
    nibbles = flat.astype(np.uint8) & 15
    return nibbles[0::2] | nibbles[1::2] << 4
