"""What a report tells of an epoch in place of registers: units, streams, layers."""

from __future__ import annotations

from msgspec import Struct


class StatedStream(Struct, frozen=True):
    """A tensor that a chain of units reads or writes, from a source without registers."""

    buffer: str
    writes: bool
    chain: int  # of the epoch's, counted from 0
    copies: bool  # the chain only moves data
    elements: int
    run: int = 0  # adjacent elements that are taken at once, 0 when all are
    again: int = 0  # entries of a computed vector that are read at once, once per such entries
    layer: bool = False  # features of a layer
    sums: bool = False  # of a layer, which reads them again


class StatedPipe(Struct, frozen=True):
    """A layer in one or several convolution units, from a source without registers."""

    chain: int
    units: int  # in series
    weights: str
    depth: int  # channels in a frame of features
    kernels: int  # results in a frame
    frames: int
    pixels: int  # of a frame of features
    results: int  # pixels of a frame of results
    window: tuple[int, int]  # rows, columns
    drained: int  # pixels behind a padded window; -1 with a stride
    sums: bool  # go through memory
    grouped: bool  # each frame has features of its own


class StatedUnits(Struct, frozen=True):
    """Units of an epoch, one name a unit, and its streams, from a source without registers."""

    epoch: int
    units: tuple[str, ...]
    reads: int
    writes: int
    kernels: tuple[str, ...] = ()  # buffers that convolutions read their weights from
    entries: int = 0  # coefficients of the longest vector that a unit holds
    streams: tuple[StatedStream, ...] = ()
    pipes: tuple[StatedPipe, ...] | None = None  # None where kernels at once are not stated

    @property
    def is_whole(self) -> bool:
        """Enough is stated to time the epoch as with registers."""
        return bool(self.streams) and self.pipes is not None
