"""Rules about moving data: what stream engines do by themselves, and what the CPU helps with."""

from __future__ import annotations

import numpy as np

from npuscope.graph.attrs import PadAttrs, TransposeAttrs
from npuscope.graph.attrs_moves import ResizeAttrs, ResizeMode, SliceAttrs
from npuscope.graph.kernels.resize import litert_nearest_of, nearest_of
from npuscope.graph.model import Graph, Numerics, Op
from npuscope.machine.model import Machine
from npuscope.rules.operands import is_npu_tensor
from npuscope.rules.registry import Refusal, refuse


@refuse("NA-SLICE-FORMAT", "Slice")
def slice_is_eight_bits(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Stream engines slice 8-bit tensors with one scale."""
    tensor = graph.first_input(op)
    return None if is_npu_tensor(tensor) else Refusal(f"'{tensor.name}' is {tensor.dtype.value}")


@refuse("NA-SLICE-STEP", "Slice")
def slice_has_no_steps(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """A slice with steps is copied by the CPU."""
    steps = op.attrs_as(SliceAttrs).steps
    return Refusal(f"steps {steps}") if any(step != 1 for step in steps) else None


@refuse("NA-SLICE-AXIS", "Slice")
def slice_cuts_channels_only(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Stream engines cut tensors along the channels only; other axes are copied by the CPU."""
    shape, sizes = graph.first_input(op).shape, op.attrs_as(SliceAttrs).sizes
    cut = [axis for axis, size in enumerate(sizes) if size != shape[axis]]
    outer = [axis for axis in cut if axis != len(shape) - 1]
    return Refusal(f"axis {outer[0]} of {len(shape)} dimensions") if outer else None


@refuse("NA-TRANSPOSE", "Transpose")
def transpose_moves_channels_only(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Only the change between channel-first and channel-last of one 8-bit image is a plain DMA."""
    tensor, permutation = graph.first_input(op), op.attrs_as(TransposeAttrs).permutation
    kept = [axis for axis in permutation if tensor.shape[axis] != 1]
    if kept == sorted(kept):
        return None  # moves nothing
    plain = len(tensor.shape) == 4 and tensor.shape[0] == 1 and tensor.dtype.bits == 8
    if plain and permutation in ((0, 2, 3, 1), (0, 3, 1, 2)):
        return None
    return Refusal(f"permutation {permutation} of {tensor.dtype.value} {tensor.shape}")


@refuse("NA-PAD-CHANNEL", "Pad")
def padding_is_spatial(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Padding along the channels, or of anything but an 8-bit map, is made by the CPU."""
    pads, tensor = op.attrs_as(PadAttrs).pads, graph.first_input(op)
    if not is_npu_tensor(tensor) or len(pads) != 4:
        return Refusal(f"{tensor.dtype.value} of {len(pads)} dimensions")
    return None if pads[0] == pads[3] == (0, 0) else Refusal(f"pads {pads}")


@refuse("NA-PAD-VALUE", "Pad")
def padding_is_a_byte(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """A padding of the byte 0 is no padding for the unit: it would be left out."""
    tensor, value = graph.first_input(op), op.attrs_as(PadAttrs).value
    if not is_npu_tensor(tensor) or tensor.quant is None or value == 0.0:
        return None
    byte = tensor.quant.zero_point + np.rint(value / tensor.quant.scale)  # may be infinite
    return Refusal(f"value {value}") if not -128 <= byte <= 127 else None


@refuse("NA-RESIZE-MODE", "Resize", way="NPU+CPU")
def resize_repeats_pixels(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Only a nearest resize by the same whole factor in both directions repeats pixels; all
    others compute on the CPU."""
    attrs = op.attrs_as(ResizeAttrs)
    if not is_npu_tensor(graph.first_input(op)):
        return Refusal(f"{attrs.mode.value} of {graph.first_input(op).dtype.value}")
    if resize_factor(graph, op) is None:
        return Refusal(f"{attrs.mode.value} to {attrs.sizes}")
    return None


@refuse("NA-RESIZE-HYBRID", "Resize")
def resize_ends_in_depth_to_space(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """No unit writes a pixel twice: pixels are copied into channels and moved into space by a
    library call."""
    return Refusal("depth-to-space at the end")


def resize_factor(graph: Graph, op: Op) -> int | None:
    """The whole factor of a nearest resize, the same both ways; else None."""
    attrs = op.attrs_as(ResizeAttrs)
    height, width = graph.first_input(op).shape[1:3]
    rows, columns = attrs.sizes
    factor = rows // height
    whole = rows == factor * height and columns == factor * width
    if attrs.mode is not ResizeMode.NEAREST or not whole or factor < 2:
        return None
    return factor if repeats_pixels(graph, op) else None


def repeats_pixels(graph: Graph, op: Op) -> bool:
    """Does a nearest resize pick what asymmetric coordinates and floor would?"""
    attrs = op.attrs_as(ResizeAttrs)
    picks = litert_nearest_of if graph.numerics is Numerics.LITERT else nearest_of
    for axis, (size, count) in enumerate(
        zip(graph.first_input(op).shape[1:3], attrs.sizes, strict=True)
    ):
        if not np.array_equal(picks(attrs, axis, size), np.arange(count) * size // count):
            return False
    return True
