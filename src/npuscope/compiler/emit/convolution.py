"""A convolution on a pipe of CONVACC units, with its kernel, feature and partial-sum engines."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from npuscope.compiler.emit.buffers import EpochBuilder, StreamSource, Walk, channel_frames
from npuscope.compiler.stages import ConvStage, Value
from npuscope.geometry.tiling import ConvMode
from npuscope.program.modes import AfiltMode, Simd
from npuscope.program.unit_words import DEEP_BYTES
from npuscope.program.units import NO_CROP, Convacc, Port
from npuscope.structs import replace

HALF = 4  # bits of a weight of which two share a byte
_ALL_BYTES = 3  # kseten of a deep conv: take all three bytes of a kernel word


def emit_conv(builder: EpochBuilder, stage: ConvStage) -> StreamSource:
    """Units in series, each with its own features; sums leave the last one."""
    value = builder.buffers.laid_out(stage.inputs[0])
    if value.name in builder.sources:
        features = [builder.sources[value.name]]
    else:
        features = [
            builder.read(value, _feature_walk(stage, value, index), **_feature_bits(stage, value))
            for index in range(stage.tiling.pipe)
        ]
    # One engine feeds all units of the pipe; each picks its share.
    tiling = stage.tiling
    nbits = 8 * DEEP_BYTES if tiling.deep else 8 * stage.weights.itemsize
    turns = stage.weight_turns
    frames = 1 if turns > 1 else tiling.frames
    words = stage.weights.nbytes * 8 // nbits // frames
    weights, bits = stage.weights, {"nbits_in": nbits, "nbits_out": nbits}
    if stage.weight_bits == HALF:
        # The engine makes bytes of them again: its lanes take any number of bits and extend the
        # sign [registers]. That builds with such weights use it so is an assumption.
        weights = in_halves(weights.reshape(frames, -1))
        bits |= {"nbits_in": nbits // 2, "align_right": 1}
    buffer = builder.buffers.parameter(f"{stage.name}.weights", weights)
    if turns > 1:
        bits |= {"continuous": 0, "frame_tot_cnt": turns}
    else:
        bits |= {"frame_tot_cnt": frames}
    kernels = builder.raw_engine_in(buffer, frame_count=words, **bits)
    units = [_unit(builder, stage, index) for index in range(stage.tiling.pipe)]
    ports = [builder.add(unit) for unit in units]
    for source, port in zip(features, ports, strict=True):
        builder.connect(source, Port(port.unit, port.id, 0))
        builder.connect(kernels, Port(port.unit, port.id, 1))
    for before, after in pairwise(ports):
        builder.connect(StreamSource(before), Port(after.unit, after.id, 2))
    if stage.tiling.passes == 1:
        return StreamSource(ports[-1])
    _partial_sums(builder, stage, ports[0], ports[-1])
    return StreamSource(ports[-1], stage.tiling.passes - 1)


def in_halves(weights: np.ndarray) -> np.ndarray:
    """Rows of weights of 4 bits, two a byte, the first one below; every row fills whole bytes."""
    rows = np.pad(weights.astype(np.uint8), ((0, 0), (0, weights.shape[1] % 2)))
    return (rows[:, ::2] & 0xF | rows[:, 1::2] << HALF).reshape(-1)


def _feature_walk(stage: ConvStage, value: Value, index: int) -> Walk:
    """Frames for unit `index` of the pipe: every pass of a tile, again for every tile."""
    tiling = stage.tiling
    if tiling.grouped:  # one group a frame, again for every tile of its kernels
        walk = channel_frames(value, tiling.depth)
        repeats = tiling.tiles // walk.frame_tot_cnt
        if repeats > 1:
            walk = replace(
                walk,
                frame_offset=0,
                frame_loop_cnt=repeats,
                loop_offset=walk.frame_offset,
                frame_tot_cnt=tiling.tiles,
            )
        return _words(walk, stage)
    walk = channel_frames(
        value,
        tiling.depth,
        first=index * tiling.depth,
        step=tiling.pipe * tiling.depth,
        loop=tiling.passes,
        total=tiling.frames,
    )
    return _words(walk, stage)


def _words(walk: Walk, stage: ConvStage) -> Walk:
    """Modes that carry several channels per word: three when deep, two in DSS2."""
    pack = {ConvMode.DEEP1X1: DEEP_BYTES, ConvMode.DSS2: 2}.get(stage.tiling.mode, 1)
    rows, columns = stage.seen
    _, width = stage.size
    return replace(
        walk,
        fheight=rows,
        fwidth=columns,
        line_offset=width * walk.batch_offset if columns < width else 0,
        batch_depth=-(-walk.batch_depth // pack),
    )


def _feature_bits(stage: ConvStage, value: Value) -> dict[str, int]:
    if stage.tiling.mode is ConvMode.DEEP1X1:
        return {"nbits_in": 24, "nbits_out": 24}
    if stage.tiling.mode is ConvMode.DSS2:
        return {"nbits_in": 16, "nbits_out": 16}
    if stage.simd == Simd.S16X8:
        unsigned = 0 if value.signed else 1
        return {"nbits_in": 8, "nbits_out": 16, "align_right": 1, "nbits_unsigned": unsigned}
    if stage.simd == Simd.S16X16:
        return {"nbits_in": 16, "nbits_out": 16}
    return {"nbits_in": 8, "nbits_out": 8}


def _unit(builder: EpochBuilder, stage: ConvStage, index: int) -> Convacc:
    tiling, value = stage.tiling, stage.inputs[0]
    height, width = stage.seen
    last = index == tiling.pipe - 1
    unsigned = not value.signed and stage.simd == Simd.S8X8
    top, left, bottom, right = stage.pads
    crop_top, crop_left, crop_bottom, crop_right = stage.crop
    return Convacc(
        id=builder.take("CONVACC"),
        fWidth=width,
        fHeight=height,
        kernelHeight=stage.window[0],
        kernelWidth=stage.window[1],
        nKernels=tiling.kernels,
        batchDepth=tiling.depth,
        simd=stage.simd,
        vstride=stage.strides[0],
        hstride=stage.strides[1],
        top_padding=top,
        left_padding=left,
        bot_padding=bottom,
        right_padding=right,
        top_crop=crop_top,
        left_crop=crop_left,
        bot_crop=_last(stage.size[0], crop_bottom),
        right_crop=_last(stage.size[1], crop_right),
        inbytes_f=1 if stage.simd == Simd.S8X8 else 2,
        outbytes_o=stage.output.nbits // 8 if last else 3,
        shift_o=stage.shift_o if last else 0,
        f_unsigned=int(unsigned),
        # A kernel of 1 that moves unsigned bytes on, as bytes.
        k_unsigned=int(unsigned and stage.output.nbits == 8),
        deepmode=int(tiling.deep),
        dss2mode=int(tiling.mode is ConvMode.DSS2),
        kseten=_ALL_BYTES if tiling.deep else 0,
        fsub=stage.fsub,
        zfbias=stage.zfbias,
        **_kernel_filter(stage, index),
        **_accumulation(stage, index),
    )


def _last(length: int, left_out: int) -> int:
    """The last row or column that is kept; the engine reads no more where that is the first."""
    return length - 1 - left_out if 0 < left_out < length - 1 else NO_CROP


def _kernel_filter(stage: ConvStage, index: int) -> dict[str, int]:
    """Which kernels of the shared stream belong to this unit."""
    tiling = stage.tiling
    if tiling.pipe == 1:
        return {}
    first = index * tiling.kernels
    return {
        "kfilt_tot": tiling.pipe * tiling.kernels,
        "kfilt_first": first,
        "kfilt_last": first + tiling.kernels - 1,
    }


def _accumulation(stage: ConvStage, index: int) -> dict[str, int]:
    """Sums come from the unit before, or through memory from the pass before."""
    passes = stage.tiling.passes
    if index > 0:
        return {"accumulate": 1, "accumulate_first": 1}
    if passes == 1:
        return {}
    return {
        "accumulate": 1,
        "accumulate_first": 1,
        "shift_a": stage.shift_o,
        "afilt_mode": int(AfiltMode.FRAMEZERO),
        "afilt_tot": passes,
        "afilt_first": 1,
        "afilt_last": passes - 1,
    }


def _partial_sums(builder: EpochBuilder, stage: ConvStage, first: Port, last: Port) -> None:
    """One tile of 16-bit sums, written after every pass and read back before the next."""
    height, width, _ = stage.output.shape
    kernels = stage.tiling.kernels
    tile = Value(f"{stage.name}.partial", (height, width, kernels), 16)
    buffer = builder.buffers.scratch(tile.name, tile.shape, 16, builder.number)
    walk = channel_frames(tile, kernels, loop=1, total=stage.tiling.frames)
    # The reader waits for the engine that stores the sums.
    sync = {"sync_with_other": 1, "sync_dma": builder.next_output}
    reader = builder.engine_in(buffer, walk, nbits_in=16, nbits_out=16, **sync)
    builder.connect(reader, Port(first.unit, first.id, 2))
    builder.engine_out(StreamSource(last), buffer, walk, 16)
