"""What ops of a network are called on the cores, which thread group runs them, in which layout."""

from __future__ import annotations

from enum import IntEnum

from npuscope.graph.model import DType, Graph, Op, Tensor
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.layers import is_depthwise
from npuscope.ops.table import ELEMENTWISE, OPS


class Group(IntEnum):
    """Thread groups in the machine's order."""

    HVX = 0
    HMX = 1
    DMA = 2


CONV = "aicconvolutiond32"
CONV_TRANSPOSE = "aicconvtransposed32"
TO_D32, WEIGHTS_TO_D32 = "aicconverttod32", "aicconvertweightstod32"
FROM_D32 = "aicconvertfromd32"
COPY_IN, COPY_OUT, COPY_DDR = "aiccopytovtcm", "aiccopytoddr", "aiccopyddr"
MULTICAST = "aicmulticastvtcm"
SEND, RECEIVE = "aicp2psend", "aicp2preceive"
INPUT_SEMAPHORE, OUTPUT_SEMAPHORE = "aicinputsemaphoreinc", "aicoutputsemaphoreinc"
END_STATS = "aicendcyclestats"
D32 = 32  # channels of a block

_NAMED = {
    "FullyConnected": CONV,
    "MatMul": CONV,
    "TransposeConv": CONV_TRANSPOSE,
    "Softmax": "aicsoftmax",
    "LogSoftmax": "aiclogsoftmax",
    "LayerNorm": "aiclayernormd32",
    "MaxPool": "aicmaxpoold32",
    "AveragePool": "aicavgpoold32",
    "Mean": "aicreducemean",
    "MirrorPad": "aicpad",
}
_BINARY = tuple(row.kind for row in OPS.values() if row.attrs is BinaryAttrs)
_SPLAT = {"Add": "aicaddsplat", "Sub": "aicaddsplat", "Mul": "aicmulsplat", "Div": "aicmulsplat"}
# Gelu is written as other ops before.
_ELEMENTS = frozenset(ELEMENTWISE) - {"Quantize", "Dequantize", "Cast", "Gelu"}
# These read and leave rows; all other ops of HVX keep the layout.
_LEAVES_ROWS = ("Softmax", "LogSoftmax", "Transpose", "Gather", "Reshape", "Concat", "Slice")
_LEAVES_BLOCKS = ("LayerNorm", "MaxPool", "AveragePool")


def core_kind(graph: Graph, op: Op) -> str:
    """The kind of op that does the work of `op`."""
    if op.kind == "Conv2D":
        return "aicdepthwiseconvd32" if is_depthwise(graph, op) else CONV
    if op.kind in _NAMED:
        return _NAMED[op.kind]
    if op.kind in _BINARY:
        return _binary_kind(graph, op)
    prefix = "element" if op.kind in _ELEMENTS else "aic"
    return prefix + op.kind.lower()


def _binary_kind(graph: Graph, op: Op) -> str:
    a, b = (graph.tensors[name] for name in op.inputs)
    if is_splat(b) and op.kind in _SPLAT:
        return _SPLAT[op.kind]
    if is_splat(a) and op.kind in ("Add", "Mul"):
        return _SPLAT[op.kind]
    same = a.shape == b.shape or is_splat(a) or is_splat(b)
    return f"{'element' if same else 'aicbroadcast'}{op.kind.lower()}"


def is_splat(tensor: Tensor) -> bool:
    """A constant of one value: part of the instruction, not loaded."""
    return tensor.is_constant and tensor.elements == 1


def group_of(kind: str) -> Group:
    return Group.HMX if kind in (CONV, CONV_TRANSPOSE) else Group.HVX


def needs_rows(kind: str) -> bool:
    """Whether an op of the network has to have blocks of channels written as rows before."""
    return kind in _LEAVES_ROWS


def leaves_blocks(kind: str, first_is_blocked: bool) -> bool:
    """Whether an op of the network leaves its output in blocks of 32 channels."""
    if kind in _LEAVES_ROWS:
        return False
    return kind in _LEAVES_BLOCKS or first_is_blocked


def device_dtype(tensor: Tensor) -> str:
    """Float values have 16 bits on the device."""
    return "float16" if tensor.dtype is DType.FLOAT32 else tensor.dtype.value


def size_bytes(tensor: Tensor, elements: int) -> int:
    bits = 16 if tensor.dtype is DType.FLOAT32 else tensor.dtype.bits
    return (elements * bits + 7) // 8
