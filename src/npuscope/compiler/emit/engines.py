"""Stream-engine geometry: how a value's frames lie in memory."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.compiler.stages import Value


@dataclass(frozen=True, slots=True)
class Walk:
    """The fields of a raster engine that visits frames of a value."""

    fwidth: int
    fheight: int
    batch_depth: int
    batch_offset: int
    line_offset: int
    frame_offset: int
    frame_loop_cnt: int
    loop_offset: int
    frame_tot_cnt: int
    offset_start: int = 0

    def fields(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}


def channel_frames(
    value: Value,
    depth: int,
    *,
    first: int = 0,
    step: int | None = None,
    loop: int = 0,
    total: int | None = None,
) -> Walk:
    """Frames of `depth` channels over the whole map.

    Frame i starts at channel first + i * step; with `loop` the walk starts over after that
    many frames, so the same channels are read again for the next tile.
    """
    height, width, channels = value.shape
    element = value.nbits // 8
    step = depth if step is None else step
    batch = value.stored_batch
    return Walk(
        width,
        height,
        depth,
        batch * element,
        0,
        _channel_offset(value, value.first + step) - _channel_offset(value, value.first),
        loop,
        0,
        channels // depth if total is None else total,
        _channel_offset(value, value.first + first),
    )


def _channel_offset(value: Value, channel: int) -> int:
    """Bytes from channel 0 to `channel`, where channels are stored in blocks of `batch`."""
    height, width, _ = value.shape
    batch, element = value.stored_batch, value.nbits // 8
    block, inside = divmod(channel, batch)
    return (block * height * width * batch + inside) * element
