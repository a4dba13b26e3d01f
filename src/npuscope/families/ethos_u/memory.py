"""Memories that a stream reaches, and feature maps in them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from npuscope.errors import FileError
from npuscope.families.ethos_u.jobs import FeatureMap, MemorySpan, NpuTransfer, Storage

Array = np.ndarray[Any, np.dtype[Any]]
MOST_ELEMENTS = 1 << 26  # of a feature map
_MOST_PIECES = 1 << 20  # of a transfer
TABLE_BYTES = 2048  # at the end of the shared RAM on U55 and U65, a RAM of its own on U85
_BRICK = 16


class Memories:
    """Regions by number, look-up tables, and buffers between chained kernels."""

    def __init__(self, regions: dict[int, Array]) -> None:
        self.regions = regions
        self.tables: Array = np.zeros(TABLE_BYTES, np.uint8)
        self.chains: dict[int, Array] = {}
        self.accumulators: Array | None = None

    def bytes(self, span: MemorySpan) -> Array:
        memory = self._region(span.region)
        if span.base + span.length > len(memory):
            raise FileError(
                f"{span.length} bytes from 0x{span.base:x} on reach beyond the {len(memory)} bytes "
                f"of region {span.region}"
            )
        return memory[span.base : span.base + span.length]

    def _region(self, number: int) -> Array:
        if number not in self.regions:
            raise FileError(f"the stream uses region {number}, which the file does not have")
        return self.regions[number]

    # --- Feature maps ---

    def read(self, place: FeatureMap, shape: tuple[int, int, int]) -> Array:
        """Height x width x channels, as they are stored."""
        if place.storage is Storage.CHAINED:
            return self._chained(place.region, shape)
        if prod(shape) > MOST_ELEMENTS:
            raise FileError(f"a feature map of {shape} is too large")
        result = np.empty(shape, place.dtype)
        for values, view in self._parts(place, result):
            values[...] = view
        return result

    def write(self, place: FeatureMap, values: Array) -> None:
        if place.storage is Storage.CHAINED:
            self.chains[place.region] = values
        elif place.storage is not Storage.NONE:
            self._writable(place.region)
            for part, view in self._parts(place, values):
                view[...] = part

    def _writable(self, region: int) -> None:
        if not self._region(region).flags.writeable:
            raise FileError(f"region {region} holds constants, and the stream writes to it")

    def _chained(self, number: int, shape: tuple[int, int, int]) -> Array:
        values = self.chains.get(number)
        if values is None or values.shape != shape:
            raise FileError(f"chaining buffer {number} does not hold what a kernel reads")
        return values

    def _parts(self, place: FeatureMap, values: Array) -> Iterator[tuple[Array, Array]]:
        """Parts of the values, each with the memory where it is."""
        if place.storage is Storage.ROWS:
            raise FileError("feature maps of three tiles are not supported")
        memory = self._region(place.region)
        for base, part in _tiles(place, values):
            if part.size:
                yield from _in_memory(memory, place, base, part)

    # --- Transfers ---

    def transfer(self, job: NpuTransfer) -> None:
        if prod(job.sizes) > _MOST_PIECES:
            raise FileError(f"a transfer in {prod(job.sizes)} pieces is too large")
        if not job.to_table:
            self._writable(job.target.region)
        if job.indices is not None:
            self._indexed(job)
        elif job.to_table:
            first = job.target.base % TABLE_BYTES
            if first + job.target.length > TABLE_BYTES:
                raise FileError("a table reaches beyond the memory of tables")
            self.tables[first : first + job.target.length] = self.bytes(job.source)
        else:
            for outer in range(job.sizes[1]):
                for inner in range(job.sizes[0]):
                    source = _moved(job.source, job.source_strides, inner, outer)
                    target = _moved(job.target, job.target_strides, inner, outer)
                    self.bytes(target)[...] = self.bytes(source).copy()

    def _indexed(self, job: NpuTransfer) -> None:
        assert job.indices is not None
        count = job.sizes[0]
        span = MemorySpan(job.indices.region, job.indices.base, 4 * count * job.sizes[1])
        indices = self.bytes(span).view("<i4").reshape(job.sizes[1], count)
        for outer, row in enumerate(indices.tolist()):
            for inner, index in enumerate(row):
                if not 0 <= index <= job.indices.length:
                    raise FileError(f"index {index} of a transfer is out of range")
                places = (inner, index) if job.scatters else (index, inner)
                source = _moved(job.source, job.source_strides, places[0], outer)
                target = _moved(job.target, job.target_strides, places[1], outer)
                self.bytes(target)[...] = self.bytes(source).copy()


def _moved(span: MemorySpan, strides: tuple[int, int], inner: int, outer: int) -> MemorySpan:
    return MemorySpan(span.region, span.base + inner * strides[0] + outer * strides[1], span.length)


def _tiles(place: FeatureMap, values: Array) -> Iterator[tuple[int, Array]]:
    left, right = values[:, : place.width0], values[:, place.width0 :]
    yield place.bases[0], left[: place.height0]
    yield place.bases[1], right[: place.height1]
    yield place.bases[2], left[place.height0 :]
    yield place.bases[3], right[place.height1 :]


def _in_memory(
    memory: Array, place: FeatureMap, base: int, part: Array
) -> Iterator[tuple[Array, Array]]:
    """Bricks hold 16 channels of a pixel; the last may have fewer."""
    height, width, channels = part.shape
    item, dtype = place.item_bytes, np.dtype(place.dtype).newbyteorder("<")
    sizes = [(0, channels)]
    if place.bricks:
        sizes = [(first, min(_BRICK, channels - first)) for first in range(0, channels, _BRICK)]
    for first, count in sizes:
        offset = base + first // _BRICK * place.stride_c if place.bricks else base
        strides = (place.stride_y, place.stride_x, item)
        steps = ((height - 1) * strides[0], (width - 1) * strides[1])
        first_byte = offset + sum(min(step, 0) for step in steps)
        last = offset + sum(max(step, 0) for step in steps) + count * item
        if first_byte < 0 or last > len(memory):
            raise FileError(
                f"a feature map of {height} x {width} x {channels} from 0x{base:x} on reaches "
                f"beyond the {len(memory)} bytes of region {place.region}"
            )
        view = np.ndarray((height, width, count), dtype, memory, offset, strides)
        yield part[:, :, first : first + count], view
