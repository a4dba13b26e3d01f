"""What each operator of the source becomes inside of a stream: its kernels are given the
reference's tensors, so that what an earlier one does wrong is not counted again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from npuscope.errors import NpuscopeError, UsageError
from npuscope.families.ethos_u.build import EthosBuild, compiled_like, written_tflite
from npuscope.families.ethos_u.container import Offload
from npuscope.families.ethos_u.jobs import NpuKernel
from npuscope.families.ethos_u.network import Network, moved, renamed
from npuscope.families.ethos_u.registers import jobs_of
from npuscope.families.interface import LayerValues
from npuscope.graph.model import Graph, Numerics, Op

Array = np.ndarray[Any, np.dtype[Any]]
Box = tuple[slice, slice, slice]  # rows, columns, channels
_ALL: Box = (slice(None), slice(None), slice(None))
_MOST_FUSED = 4  # operators after a layer that may be part of its kernel


class LayerRunner:
    """A file that Vela wrote, beside the network that it was made from."""

    def __init__(self, build: EthosBuild, graph: Graph, options: Mapping[str, Any]) -> None:
        self.network = Network(build.file)
        self.graph = graph
        self.carriers = _carriers(build, graph, _origins(build, graph, options))

    def run(self, expected: Mapping[str, Array]) -> Iterator[LayerValues]:
        """Tensors that the kernels make of the reference's; all of each tensor, or nothing."""
        parts: dict[str, list[tuple[Box, Array]]] = {}
        pieces = {
            name: expected[name].reshape(_image_shape(expected[name].shape))
            for name in {name for name, _ in self.carriers.values()}
        }

        def watch(offload: Offload, kernel: NpuKernel, values: Array) -> Array | None:
            name, box = self.carriers.get((offload.op.index, kernel.place), ("", _ALL))
            if not name:
                return None
            right = moved(pieces[name][box], np.dtype(kernel.ofm.dtype).name.upper())
            parts.setdefault(name, []).append((box, values.reshape(right.shape)))
            return right.reshape(values.shape)

        sample = {name: expected[name] for name in self.graph.inputs}
        arrays = renamed(sample, tuple(self.network.inputs), "inputs")
        types = {name: self.network.file.tensor(i).type for name, i in self.network.inputs.items()}
        self.network.run({name: moved(arrays[name], types[name]) for name in arrays}, watch)
        for op in self.graph.ops:
            for name in op.outputs:
                if name in parts:
                    result = np.empty_like(pieces[name])
                    for box, values in parts[name]:
                        result[box] = moved(values, result.dtype.name.upper())
                    yield LayerValues(op, name, result.reshape(expected[name].shape))


# --- Which kernel makes which part of which tensor ---


def _origins(
    build: EthosBuild, graph: Graph, options: Mapping[str, Any]
) -> Mapping[tuple[int, int], int]:
    """The number of the source's operator by (number of the stream, place of a kernel)."""
    if build.origins:
        numbers = {name: number for number, name in enumerate(build.names)}
        words = ((place, name) for place, name in build.origins.items())
        return {
            place: numbers[name] if name in numbers else int(name.rpartition("#")[2])
            for place, name in words
        }
    try:
        other = compiled_like(build, options.get("model") or graph, options)
    except NpuscopeError as error:
        raise UsageError(
            "the file does not say which operator a kernel came from, and Vela cannot be asked: "
            f"{error.message}",
            where="SOURCE",
            hint="Vela's option --enable-debug-db writes NAME_debug.xml, which belongs beside the "
            "file; npuscope compile -o DIR does so",
        ) from None
    if _kernels(build) != _kernels(other):
        raise UsageError(
            "the file does not say which operator a kernel came from, and this version of Vela "
            "makes other kernels of the model",
            where="SOURCE",
            hint="give the options that it was compiled with, such as --memory-mode, or the model "
            "itself with --machine",
        )
    return _origins(other, graph, options)


def _kernels(build: EthosBuild) -> list[tuple[int, str, tuple[int, int, int]]]:
    return [
        (kernel.place, kernel.kind, kernel.shape)
        for offload in build.file.offloads.values()
        for kernel in _kernels_of(offload)
    ]


def _kernels_of(offload: Offload) -> Iterator[NpuKernel]:
    return (job for job in jobs_of(offload.stream) if isinstance(job, NpuKernel))


def _carriers(
    build: EthosBuild, graph: Graph, origins: Mapping[tuple[int, int], int]
) -> dict[tuple[int, int], tuple[str, Box]]:
    """By the operator of a stream and the place of a kernel in it; only where the kernels of an
    operator make all of a tensor."""
    groups: dict[int, list[tuple[int, NpuKernel]]] = {}
    for number, offload in enumerate(build.file.offloads.values()):
        for kernel in _kernels_of(offload):
            if (source := origins.get((number, kernel.place))) is not None:
                groups.setdefault(source, []).append((offload.op.index, kernel))
    names = _operator_names(graph)
    numbers = {name: number for number, name in names.items()}
    places: dict[tuple[int, int], tuple[str, Box]] = {}
    taken: set[str] = set()
    for source, kernels in groups.items():
        own = [op for op in graph.ops if names.get(source, "") in op.origin]

        def fused(op: Op) -> bool:
            return not any(numbers.get(name) in groups for name in op.origin)

        for name in _results(graph, own, fused):
            boxes = None if name in taken else _boxes(graph, name, [k for _, k in kernels])
            if boxes is not None:
                taken.add(name)
                last = kernels[-len(boxes) :]
                for (index, kernel), box in zip(last, boxes, strict=True):
                    places[index, kernel.place] = name, box
                break
    return places


def _operator_names(graph: Graph) -> dict[int, str]:
    """Origins by the number of the operator in the file that Vela was given."""
    if graph.numerics is not Numerics.LITERT:
        return dict(enumerate(written_tflite(graph).names))
    names = (name for op in graph.ops for name in op.origin)
    return {int(name.rpartition("#")[2]): name for name in names if name[-1:].isdigit()}


def _results(graph: Graph, own: Sequence[Op], fused: Callable[[Op], bool]) -> Iterator[str]:
    """Tensors that the kernels of these operators may make, the furthest first: operators without
    kernels of their own that alone read a result may be part of it."""
    names: list[str] = []
    for op in reversed(own):
        for name in op.outputs:
            chain = [name]
            while len(chain) <= _MOST_FUSED:
                readers = [one for one in graph.ops if chain[-1] in one.inputs]
                if len(readers) != 1 or chain[-1] in graph.outputs or not fused(readers[0]):
                    break
                if len(readers[0].outputs) != 1 or readers[0] in own:
                    break
                chain.append(readers[0].outputs[0])
            names += reversed(chain)
    return iter(dict.fromkeys(names))


def _image_shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Height, width and channels; batches lie below each other."""
    return prod(shape[:-2]), *(1, 1, *shape)[-2:]  # type: ignore[return-value]


def _boxes(graph: Graph, name: str, kernels: Sequence[NpuKernel]) -> list[Box] | None:
    """Parts of the tensor that the last kernels write, in their order; None if they do not make
    it up, or store it with another zero point or type."""
    tensor = graph.tensors[name]
    last = kernels[-1]
    signed = np.dtype(last.ofm.dtype)
    if tensor.dtype.numpy.kind not in "iu" or signed.itemsize != tensor.dtype.numpy.itemsize:
        return None
    shift = 128 if (signed.kind, tensor.dtype.numpy.kind) == ("i", "u") else 0
    points = () if tensor.quant is None else tensor.quant.zero_points
    # The zero point is that of the values before a table, and has no meaning at 32 bits.
    plain = last.activation.function in ("RELU", "LUT_NONE") and signed.itemsize < 4
    if plain and points and points[0] != last.ofm.zero_point + shift:
        return None
    if not all(map(_keeps_order, kernels)):
        return None
    if prod(last.stored_shape) == tensor.elements:
        same = last.stored_shape == _image_shape(tensor.shape)
        return [_ALL] if same or _is_dense(last) else None
    count = total = 0
    while total < tensor.elements and count < len(kernels):
        count += 1
        total += prod(kernels[-count].stored_shape)
    if total != tensor.elements:
        return None
    return _tiled(kernels[-count:], _image_shape(tensor.shape))


def _keeps_order(kernel: NpuKernel) -> bool:
    """Transposes are also written as strides."""
    rows, columns, _ = kernel.stored_shape
    place = kernel.ofm
    return rows == 1 or columns == 1 or place.stride_y > place.stride_x > 0


def _is_dense(kernel: NpuKernel) -> bool:
    """Values lie in memory in their order, whatever their shape is called."""
    rows, columns, channels = kernel.stored_shape
    place = kernel.ofm
    pixel = channels * place.item_bytes
    wide = columns == 1 or place.stride_x == pixel
    return not place.bricks and wide and (rows == 1 or place.stride_y == columns * pixel)


def _tiled(kernels: Sequence[NpuKernel], shape: tuple[int, int, int]) -> list[Box] | None:
    """Stripes of rows, each in slices of channels, or slices of channels in stripes of rows."""
    height, width, channels = shape
    rows_first = len(kernels) > 1 and _next_is_below(kernels[0], kernels[1])
    boxes: list[Box] = []
    row = channel = 0
    for kernel in kernels:
        rows, columns, count = kernel.stored_shape
        if columns != width or row + rows > height or channel + count > channels:
            return None
        boxes.append((slice(row, row + rows), slice(None), slice(channel, channel + count)))
        if rows_first:
            row += rows
            if row == height:
                row, channel = 0, channel + count
        else:
            channel += count
            if channel == channels:
                row, channel = row + rows, 0
    whole = np.zeros((height, 1, channels), np.int8)
    for box in boxes:
        whole[box[0], :, box[2]] += 1
    return boxes if (whole == 1).all() else None


def _next_is_below(one: NpuKernel, other: NpuKernel) -> bool:
    return other.ofm.bases[0] - one.ofm.bases[0] == one.shape[0] * one.ofm.stride_y
