"""The words of c_info.json and what they mean here, and the source layers behind its operators'
names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from npuscope.graph.model import Quant
from npuscope.machine.npu_ops import BINARY, SUPPORT
from npuscope.program.c_info.records import BufferInfo, FixedPoint, IntegerQuant
from npuscope.program.model import Buffer, Epoch, EpochKind, Program
from npuscope.structs import replace

if TYPE_CHECKING:
    from npuscope.program.quant_json import QuantJson


# The words of c_info.json and what they mean here: used by the reader and by the writer.

SCHEMA_VERSION = "2.0"
# The first tool of files that we wrote: only these hold origins and kernels of our own.
OWN_TOOL = "npuscope"

EMPTY = "NODE_NO_X"
HARDWARE = "NODE_HW"
SOFTWARE = "NODE_SW"
CONTROLLER = "NODE_EC"
HYBRID = "NODE_SW_HW"

KINDS = {
    HARDWARE: EpochKind.HW,
    CONTROLLER: EpochKind.HW,
    SOFTWARE: EpochKind.SW,
    "NODE_SW_INTEGER": EpochKind.SW,
    HYBRID: EpochKind.HYBRID,
    EMPTY: EpochKind.EMPTY,
    "NODE_UNDEF": EpochKind.EMPTY,
}
MAPPINGS = {
    EpochKind.HW: HARDWARE,
    EpochKind.SW: SOFTWARE,
    EpochKind.HYBRID: HYBRID,
    EpochKind.EMPTY: EMPTY,
}

PARAM = "Param"
RETURN = "Return"
_EPOCH_NAME = re.compile(r"epoch_(\d{1,9})")
_OPERATOR_NAME = re.compile(r"_\d{1,9}_(\d{1,9})$")
_DESCRIPTION = "Node kind="

# The vendor's names of our unit types, and the type that runs an operator; others are ACTIV's.
UNITS = {
    "CONVACC": "CONV_ACC_V2",
    "ARITH": "ARITH_ACC_V2",
    "POOL": "POOL_ACC_V2",
    "ACTIV": "ACTIV_ACC_V2",
}
OPERATOR_UNITS = {
    **{
        row.listed or kind: row.unit
        for kind, row in SUPPORT.items()
        if row.unit in ("CONVACC", "POOL") or kind in BINARY
    },
    "GlobalMaxPool": "POOL",
}
_UNIT_TYPES = {vendor: unit for unit, vendor in UNITS.items()}
UNIT_KEY = "HWUnit"

FLOW = "EDGE_FLOW"
MEMORY = "EDGE_MEMORY"

_IMAGE_NAME = re.compile(r"(?:.*_)?atonbuf\.(.+)\.raw")
_TOOL_VERSION = re.compile(r"\s*(\d{1,4})\.(\d{1,4})")


class Vocabulary(Struct, frozen=True):
    """How the compilers of one time write the file."""

    kind_key: str  # the key of an operator's kind
    parameters: str  # mapping of the parameter pseudo-epoch
    closing: str  # mapping of the closing one
    dependency: str  # name of a flow edge
    states_units: bool


_EARLY = Vocabulary("description", HARDWARE, SOFTWARE, "epochdep", False)
_LATER = Vocabulary("type", EMPTY, EMPTY, "epoch_dep", True)


def dialect(generation: str) -> Vocabulary:
    """`open` and whatever comes later write as 4.0 does."""
    return _EARLY if generation.startswith("2.") else _LATER


def generation_of(version: str) -> str:
    """The generation of a tool version; one that cannot be read is taken as the newest."""
    match = _TOOL_VERSION.match(version)
    major = int(match[1]) if match else 4
    if match and major < 3:
        return f"2.{min(int(match[2]), 2)}" if major == 2 else "2.0"
    return "3.0" if major == 3 else "4.0"


def epoch_name(number: int) -> str:
    return f"epoch_{number}"


def epoch_number(name: str) -> int | None:
    match = _EPOCH_NAME.fullmatch(name)
    return int(match[1]) if match else None


def operator_name(kind: str, epoch: int, place: int, series: int) -> str:
    """Of our own files: by its place in the epoch; units in series are named as vendors do."""
    return f"{kind}_{epoch}_{place}" + (f"_ca_pipe_{series}" if series else "")


def operator_place(name: str) -> int:
    """The place that `operator_name` states; -1 for further units in series."""
    match = _OPERATOR_NAME.search(name)
    return int(match[1]) if match else -1


def kind_text(kind: str, words: Vocabulary) -> str:
    """An operator's kind as the dialect writes it."""
    return kind if words.kind_key == "type" or not kind else _DESCRIPTION + kind


def kind_of(type_: str | None, description: str | None) -> str:
    return type_ or (description or "").removeprefix(_DESCRIPTION)


def unit_of(kind: str, stated: object) -> str:
    """The unit type that runs a hardware operator; nothing where no unit computes.

    From 3.0 on the file says "CONV_ACC_V2 0"; before it the kind tells.
    """
    if isinstance(stated, str):
        return _UNIT_TYPES.get(stated.partition(" ")[0], "")
    return OPERATOR_UNITS.get(kind, "")


def image_name(file_name: str) -> str:
    """The file of a pool's bytes: "AXISRAM5" is atonbuf.AXISRAM5.raw."""
    return f"atonbuf.{file_name}.raw" if file_name else ""


def file_name(image: str) -> str:
    match = _IMAGE_NAME.fullmatch(image)
    return match[1] if match else image


# Source layers of a vendor program: its operators' names through the front end's Q.json.

_GENERATED = "__FE_GENERATED__"


def with_origins(program: Program, quant: QuantJson) -> Program:
    """The program with layers of the model file as the origin of its epochs.

    What compiler and front end made up has no origin.
    """
    layers = {name: _layer(node.names) for name, node in quant.nodes.items()}
    epochs = (replace(epoch, origin=_origin(epoch, layers)) for epoch in program.epochs)
    return replace(program, epochs=tuple(epochs))


def _layer(names: tuple[str, ...]) -> str:
    """The layer comes first; the constants and conversions folded into it follow."""
    return next((name for name in names if name != _GENERATED), "")


def _origin(epoch: Epoch, layers: dict[str, str]) -> tuple[str, ...]:
    """Operators that the front end knows; else those that they were made for."""
    stated = [name for name in epoch.origin if name in layers]
    nodes = stated or [_parent(name, layers) for name in epoch.origin]
    names = (layers.get(node, "") for node in nodes)
    return tuple(dict.fromkeys(layer for layer in names if layer))


def _parent(name: str, layers: dict[str, str]) -> str:
    """The compiler adds to the name of what it splits: Gemm_75_conv_4 was Gemm_75."""
    while name and name not in layers:
        name = name.rpartition("_")[0]
    return name


# A buffer's shape, layout, number format and quantization: c_info's view and ours.
#
# c_info lists channels before pixels whatever the order in memory; here shapes are channel-last
# and `batch` tells the order in memory.

_FLOAT = "STAI_FORMAT_FLOAT"
_RAW = "STAI_FORMAT_Q"  # fixed point, no scale
_FORMAT = "STAI_FORMAT_"
_PER_TENSOR = -1
_LARGEST_SCALE = float(np.finfo(np.float32).max)


def logical_shape(info: BufferInfo) -> tuple[int, ...]:
    """The shape in our order: channels last."""
    shape = tuple(info.shape) or (1,)
    axis = _channel_axis(shape, bool(info.channel_first and info.channel_last))
    return (*shape[:axis], *shape[axis + 1 :], shape[axis])


def stored_batch(info: BufferInfo, channels: int) -> int:
    """Channels stored together."""
    if info.channel_last:
        return channels
    return 1 if info.channel_first else max(1, info.batch or 1)


def _channel_axis(shape: Sequence[int], plain: bool) -> int:
    """Where c_info has the channels. `plain`: the order in memory is the order of the shape.

    Of rank 3 there are vectors of coefficients (C, H, W) and sequences (N, C, W); what has one
    channel is plain.
    """
    rank = len(shape)
    if rank < 3 or (rank == 3 and plain):
        return rank - 1
    return 0 if rank == 3 and shape[0] > 1 else 1


def listed_shape(buffer: Buffer) -> tuple[int, ...]:
    """The shape as c_info lists it: `logical_shape` gives ours again."""
    shape = tuple(int(size) for size in buffer.shape)
    rank = len(shape)
    if rank < 3 or (rank == 3 and buffer.batch == buffer.channels):
        return shape
    if rank == 3 and shape[0] > 1:
        return (shape[-1], *shape[:-1])
    return (shape[0], shape[-1], *shape[1:-1])


def layout_flags(buffer: Buffer) -> tuple[bool, bool]:
    """channel_first and channel_last; both where the shape is the order in memory."""
    last = buffer.batch == buffer.channels
    plain = last and len(buffer.shape) < 4
    return plain or buffer.batch == 1, last


def is_signed(info: BufferInfo) -> bool:
    kind = info.format.removeprefix(_FORMAT)
    if kind.startswith("U"):
        return False
    if info.format == _FLOAT or kind.startswith("S") or info.qmn is None:
        return True
    return info.qmn.sign != 0


def is_float(info: BufferInfo) -> bool:
    return info.format == _FLOAT


def format_name(buffer: Buffer) -> str:
    if buffer.is_float:
        return _FLOAT
    if buffer.quant is None:
        return _RAW
    return f"{_FORMAT}{'S' if buffer.signed else 'U'}{buffer.nbits}"


def fixed_point(buffer: Buffer) -> FixedPoint:
    if buffer.is_float:
        return FixedPoint(0, 0, 1)
    sign = int(buffer.signed)
    return FixedPoint(int(buffer.nbits) - sign, 0, sign)


def quant_of(info: BufferInfo) -> Quant | None:
    """Scales have nine digits in the file, enough to find the float32 again."""
    if info.intq is None:
        return None
    scales = tuple(
        float(np.float32(min(max(scale, -_LARGEST_SCALE), _LARGEST_SCALE)))
        for scale in info.intq.scales
    )
    return Quant(scales, info.intq.offsets, _our_axis(info))


def _our_axis(info: BufferInfo) -> int | None:
    """The axis of per-channel scales in our order.

    Public files state axis 1 for weights whose scales run along axis 0 (the output channels), so
    the axis that has as many entries as there are scales is taken, the stated one last.
    """
    if info.intq is None or info.intq.axis == _PER_TENSOR:
        return None
    shape, count = tuple(info.shape) or (1,), len(info.intq.scales)
    stated = info.intq.axis
    order = (0, stated) if info.is_param else (stated, 0)
    fitting = [axis for axis in order if 0 <= axis < len(shape) and shape[axis] == count]
    channel = _channel_axis(shape, bool(info.channel_first and info.channel_last))
    return _after_move(fitting[0] if fitting else 0, channel, len(shape))


def _after_move(axis: int, channel: int, rank: int) -> int:
    if axis == channel:
        return rank - 1
    return axis - 1 if axis > channel else axis


def affine(buffer: Buffer) -> IntegerQuant | None:
    if buffer.quant is None:
        return None
    scales = tuple(float(f"{scale:.9g}") for scale in buffer.quant.scales)
    zeros = tuple(int(zero) for zero in buffer.quant.zero_points)
    return IntegerQuant(_listed_axis(buffer), scales, zeros)


def _listed_axis(buffer: Buffer) -> int:
    axis = buffer.quant.axis if buffer.quant else None
    if axis is None:
        return _PER_TENSOR
    # Of all places in the listed shape, the one that reading maps to our axis.
    rank, shape = len(buffer.shape), listed_shape(buffer)
    channel = _channel_axis(shape, all(layout_flags(buffer)))
    return next(place for place in range(rank) if _after_move(place, channel, rank) == axis)
