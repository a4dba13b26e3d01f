"""How the cores execute each op of a network: the one table of what only this family knows."""

from __future__ import annotations

from enum import Enum, IntEnum, auto

from msgspec import Struct

from npuscope.graph.model import DType, Graph, Op, Tensor
from npuscope.ops.layers import is_depthwise
from npuscope.ops.row import Row
from npuscope.ops.table import OPS
from npuscope.ops.traits import Trait
from npuscope.structs import replace


class GroupNumber(IntEnum):
    """Thread groups in the machine's order."""

    HVX = 0
    HMX = 1
    DMA = 2


CONV = "aicconvolutiond32"
CONV_TRANSPOSE = "aicconvtransposed32"
DEPTHWISE = "aicdepthwiseconvd32"
TO_D32, WEIGHTS_TO_D32 = "aicconverttod32", "aicconvertweightstod32"
FROM_D32 = "aicconvertfromd32"
COPY_IN, COPY_OUT, COPY_DDR = "aiccopytovtcm", "aiccopyfromvtcm", "aiccopyddr"
MULTICAST = "aicmulticastvtcm"
SEND, RECEIVE = "aicmulticastvtcm_out", "aicmulticastvtcm_in"
INPUT_SEMAPHORE, OUTPUT_SEMAPHORE = "aicinputsemaphoreinc", "aicoutputsemaphoreinc"
END_STATS = "aicendcyclestats"
D32 = 32  # channels of a block


class BlockLayout(Enum):
    """What an op of HVX does with values that lie in blocks of 32 channels."""

    KEPT = auto()
    ROWS = auto()  # it reads and leaves rows
    BLOCKS = auto()  # it leaves blocks


class WholeAxes(Enum):
    """Axes that one core needs as a whole: what is normalised, summed up or reordered."""

    NONE = auto()
    OWN = auto()  # the op's axis
    FROM_OWN = auto()  # that and all behind it
    PICTURE = auto()  # all but the batch and the channels
    ALL = auto()  # all but the batch


class CoreKernel(Struct, frozen=True):
    """How the cores execute one kind of op.

    `name` is what the device calls it. `needs` (in this package) tells the parts of the inputs
    that a part of the output needs. `cropped`: the reference kernel works on such parts alone;
    without it the parts lie in tensors of full size. `rewritten`: other ops take its place first.
    """

    name: str
    layout: BlockLayout = BlockLayout.KEPT
    needs: str = "needs:everything"
    whole: WholeAxes = WholeAxes.NONE
    cropped: bool = False
    rewritten: bool = False


def _kernel(row: Row) -> CoreKernel:
    """What the traits of an op tell; an op of which they tell nothing needs all of its inputs."""
    name = row.kind.lower()
    if row.has(Trait.CONVERSION):
        return CoreKernel(f"aic{name}", needs=PARALLEL, cropped=True)
    if row.has(Trait.ELEMENTWISE):
        return CoreKernel(f"element{name}", needs=PARALLEL, cropped=True)
    if row.has(Trait.REDUCES):
        return CoreKernel(f"aic{name}", needs="needs:reduced", cropped=True)
    if row.has(Trait.FINDS_PLACES):
        return CoreKernel(f"aic{name}", needs="needs:reduced")
    return CoreKernel(f"aic{name}")


PARALLEL = "needs:parallel"
# Where published summaries have another name than the traits would make.
_PUBLISHED_NAMES = {
    "Sigmoid": "sigmoid",
    "Cast": "convertto",
    "ArgMax": "argmax",
    "ReduceMax": "aicbatchedreducemax",
}
_ROWS, _BLOCKS = BlockLayout.ROWS, BlockLayout.BLOCKS
KERNELS: dict[str, CoreKernel] = {
    **{kind: _kernel(row) for kind, row in OPS.items()},
    **{kind: replace(_kernel(OPS[kind]), name=name) for kind, name in _PUBLISHED_NAMES.items()},
    "Conv2D": CoreKernel(CONV, needs="boxes:conv_needs", cropped=True),
    "FullyConnected": CoreKernel(CONV, needs="needs:dense", cropped=True),
    "MatMul": CoreKernel(CONV, needs="needs:matmul", cropped=True),
    "TransposeConv": CoreKernel(
        CONV_TRANSPOSE, needs="needs:transpose_conv", whole=WholeAxes.PICTURE
    ),
    "Gelu": CoreKernel("aicgelu", needs=PARALLEL, cropped=True, rewritten=True),
    "Softmax": CoreKernel("aicsoftmax", _ROWS, PARALLEL, WholeAxes.OWN, cropped=True),
    "LogSoftmax": CoreKernel("aiclogsoftmax", _ROWS, PARALLEL, WholeAxes.OWN, cropped=True),
    "LayerNorm": CoreKernel("aiclayernormd32", _BLOCKS, PARALLEL, WholeAxes.FROM_OWN, cropped=True),
    "L2Normalization": CoreKernel("aicl2normalization", needs=PARALLEL, whole=WholeAxes.OWN),
    "InstanceNorm": CoreKernel("aicinstancenorm", needs=PARALLEL, whole=WholeAxes.PICTURE),
    "GroupNorm": CoreKernel("aicgroupnorm", needs=PARALLEL, whole=WholeAxes.ALL),
    "BatchNorm": CoreKernel("aicbatchnorm", needs=PARALLEL),
    "MaxPool": CoreKernel("aicmaxpoold32", _BLOCKS, "boxes:pool_needs", cropped=True),
    "AveragePool": CoreKernel("aicavgpoold32", _BLOCKS, "boxes:pool_needs", cropped=True),
    "Mean": CoreKernel("aicreducemean", needs="needs:reduced", cropped=True),
    "Transpose": CoreKernel("aictranspose", _ROWS, "needs:transpose", cropped=True),
    "Gather": CoreKernel("aicgather", _ROWS, "needs:gather"),
    "Reshape": CoreKernel("aicreshape", _ROWS),
    "Concat": CoreKernel("inserttensor", _ROWS, "needs:concat"),
    "Slice": CoreKernel("extracttensor", _ROWS, "needs:cut_out"),
    "Split": CoreKernel("aicsplit", needs=PARALLEL, rewritten=True),
    "Pad": CoreKernel("aicpad", needs="needs:padded"),
    "MirrorPad": CoreKernel("aicpad"),
    "BroadcastTo": CoreKernel("aicbroadcastto", needs=PARALLEL),
    "Identity": CoreKernel("aicidentity", needs=PARALLEL),
    "Resize": CoreKernel("aicresize", needs=PARALLEL, whole=WholeAxes.PICTURE),
    "DepthToSpace": CoreKernel("aicdepthtospace", needs=PARALLEL, whole=WholeAxes.ALL),
    "SpaceToDepth": CoreKernel("aicspacetodepth", needs=PARALLEL, whole=WholeAxes.ALL),
}
_ALIKE, _BROADCAST = "element", "aicbroadcast"
_SPLAT = {"Add": "aicaddsplat", "Sub": "aicaddsplat", "Mul": "aicmulsplat", "Div": "aicmulsplat"}


def core_kind(graph: Graph, op: Op) -> str:
    """The kind of op that does the work of `op`."""
    if is_depthwise(graph, op):
        return DEPTHWISE
    if not OPS[op.kind].has(Trait.ARITHMETIC):
        return KERNELS[op.kind].name
    a, b = (graph.tensors[name] for name in op.inputs)
    if is_splat(b) and op.kind in _SPLAT:
        return _SPLAT[op.kind]
    if is_splat(a) and op.kind in ("Add", "Mul"):
        return _SPLAT[op.kind]
    same = a.shape == b.shape or is_splat(a) or is_splat(b)
    return f"{_ALIKE if same else _BROADCAST}{op.kind.lower()}"


def cost_kinds() -> frozenset[str]:
    """Every name under which a machine can state what an op costs."""
    arithmetic = [kind.lower() for kind, row in OPS.items() if row.has(Trait.ARITHMETIC)]
    pairs = (f"{prefix}{kind}" for kind in arithmetic for prefix in (_ALIKE, _BROADCAST))
    named = (kernel.name for kernel in KERNELS.values())
    conversions = (DEPTHWISE, TO_D32, WEIGHTS_TO_D32, FROM_D32)
    return frozenset([*named, *pairs, *_SPLAT.values(), *conversions])


def is_splat(tensor: Tensor) -> bool:
    """A constant of one value: part of the instruction, not loaded."""
    return tensor.is_constant and tensor.elements == 1


UNREAD = "weights were not read: times do not depend on their values"


def is_unread(tensor: Tensor) -> bool:
    """A constant of which only the size is known: its array takes no memory."""
    return tensor.data is not None and tensor.data.size > 1 and not any(tensor.data.strides)


def group_of(kind: str) -> GroupNumber:
    return GroupNumber.HMX if kind in (CONV, CONV_TRANSPOSE) else GroupNumber.HVX


def needs_rows(kind: str) -> bool:
    """Whether an op of the network has to have blocks of channels written as rows before."""
    return KERNELS[kind].layout is BlockLayout.ROWS


def leaves_blocks(kind: str, first_is_blocked: bool) -> bool:
    """Whether an op of the network leaves its output in blocks of 32 channels."""
    layout = KERNELS[kind].layout
    return layout is BlockLayout.BLOCKS or (layout is BlockLayout.KEPT and first_is_blocked)


class ExactConstant(Tensor, frozen=True):
    """A float constant of an op on integers. It keeps 32 bits, as scales do: half floats move
    results that lie between two integers."""


def device_dtype(tensor: Tensor) -> str:
    """Float values have 16 bits on the device."""
    half = tensor.dtype is DType.FLOAT32 and not isinstance(tensor, ExactConstant)
    return "float16" if half else tensor.dtype.value


# Types as published summaries call them, and operands that ops have there beside the network's.
_TYPE_WORDS = {
    "int8": "i8",
    "uint8": "ui8",
    "int16": "i16",
    "uint16": "ui16",
    "int32": "index32",
    "int64": "index64",
    "float32": "float",
}
_INSIDE = {CONV: ("i8", "index32"), TO_D32: ("i8",), "aicsoftmax": ("i8", "index64")}


def shown_types(kind: str, dtypes: tuple[str, ...]) -> tuple[str, ...]:
    words = (_TYPE_WORDS.get(dtype, dtype) for dtype in dtypes)
    return tuple(dict.fromkeys((*words, *_INSIDE.get(kind, ()))))


def size_bytes(tensor: Tensor, elements: int) -> int:
    bits = 16 if device_dtype(tensor) == "float16" else tensor.dtype.bits
    return (elements * bits + 7) // 8
