"""Stages to unit configurations: one function per kind of stage."""

from __future__ import annotations

from typing import Any

import numpy as np

from npuscope.compiler.emit.buffers import EpochBuilder, StreamSource, Walk, channel_frames
from npuscope.compiler.emit.convolution import emit_conv
from npuscope.compiler.stages import (
    ActivStage,
    ArithStage,
    ConvStage,
    CopyStage,
    PoolKind,
    PoolStage,
    Stage,
    Value,
)
from npuscope.errors import InternalError
from npuscope.program.modes import ActivOp, ArithOp, Bcast, PoolOp
from npuscope.program.units import Activ, Arith, PoolUnit, Port, Ref


def emit_stage(builder: EpochBuilder, stage: Stage, frame: int) -> StreamSource:
    """Configure the stage's units; `frame` is the number of channels per frame."""
    if isinstance(stage, ConvStage):
        return emit_conv(builder, stage)
    if isinstance(stage, ArithStage):
        return _emit_arith(builder, stage, frame)
    if isinstance(stage, PoolStage):
        return _emit_pool(builder, stage, frame)
    if isinstance(stage, ActivStage):
        return _emit_activ(builder, stage, frame)
    if isinstance(stage, CopyStage):
        return _emit_copy(builder, stage)
    raise InternalError(f"no unit runs stage '{stage.name}'")


def store(builder: EpochBuilder, source: StreamSource, value: Value, frame: int) -> None:
    """Write a value that is needed outside the epoch."""
    value = builder.buffers.laid_out(value)
    walk = channel_frames(value, frame)
    buffer = builder.buffers.activation(value, builder.number)
    builder.engine_out(source, buffer, walk, value.nbits)


def _operand(builder: EpochBuilder, value: Value, frame: int) -> tuple[StreamSource, int]:
    """A stream of the value, and the bytes per word on the link."""
    if value.name in builder.sources:
        return builder.sources[value.name], value.nbits // 8
    value = builder.buffers.laid_out(value)
    walk = channel_frames(value, frame)
    if value.signed:
        source = builder.read(value, walk, nbits_in=value.nbits, nbits_out=value.nbits)
        return source, value.nbits // 8
    # An unsigned byte needs a wider, zero-filled word.
    return builder.read(value, walk, nbits_in=8, nbits_out=16, align_right=1, nbits_unsigned=1), 2


def _emit_arith(builder: EpochBuilder, stage: ArithStage, frame: int) -> StreamSource:
    height, width, channels = stage.output.shape
    x, x_bytes = _operand(builder, stage.inputs[0], frame)
    y, y_bytes = _second_operand(builder, stage, frame)
    unit_id = builder.take("ARITH")
    rounds = 0 if stage.wrap else 1
    low, high = stage.clip or (0, 0)
    port = builder.add(
        Arith(
            id=unit_id,
            operation=int(_arith_operation(stage)),
            fWidth=width,
            fHeight=height,
            fChannels=channels,
            batchDepth=frame,
            inbytes_x=x_bytes,
            outbytes_x=min(2, x_bytes),
            # The driver needs valid widths on both ports, linked or not.
            inbytes_y=y_bytes or x_bytes,
            outbytes_y=y_bytes or min(2, x_bytes),
            rounding_o=rounds,
            saturation_o=rounds,
            round_mode_o=rounds,
            outbytes_o=stage.output.nbits // 8,
            shift_o=stage.shift,
            dualinput=int(y is not None),
            Ax_shift=stage.ax_shift,
            By_shift=stage.by_shift,
            C_shift=stage.c_shift,
            clipout=int(stage.clip is not None),
            clipmin=low,
            clipmax=high,
            **_coefficients(builder, stage, y is not None),
        )
    )
    builder.connect(x, Port(port.unit, port.id, 0))
    if y is not None:
        builder.connect(y, Port(port.unit, port.id, 1))
    return StreamSource(port)


def _arith_operation(stage: ArithStage) -> ArithOp:
    if stage.limits:
        return ArithOp.CLIP
    if stage.maximum:
        return ArithOp.MAX
    return ArithOp.MUL if stage.multiply else ArithOp.AFFINE


def _second_operand(
    builder: EpochBuilder, stage: ArithStage, frame: int
) -> tuple[StreamSource | None, int]:
    if len(stage.inputs) > 1 and stage.inputs[1].shape != stage.output.shape:
        # A vector from memory: once per tile where the unit can hold it, else for every pixel.
        value = stage.inputs[1]
        height, width, channels = stage.output.shape
        element = value.nbits // 8
        start = channel_frames(value, 1).offset_start  # a window begins inside a wider value
        if value.channels == 1:
            count = height * width * channels
            walk = Walk(1, 1, 1, element, 0, 0, count, 0, count, start)
        elif _held(builder, stage):
            walk = channel_frames(value, frame)
        else:
            pixels, step = height * width, frame * element
            total = pixels * channels // frame
            walk = Walk(1, 1, frame, step, 0, 0, pixels, step, total, start)
        source = builder.read(value, walk, nbits_in=value.nbits, nbits_out=value.nbits)
        return source, element
    if len(stage.inputs) > 1:
        return _operand(builder, stage.inputs[1], frame)
    if stage.table is None:
        return None, 0
    # 16-bit coefficients expanded to one line, read again for every line of every tile.
    height, width, channels = stage.output.shape
    tiles = stage.table.reshape(channels // frame, 1, frame).astype("<i2")
    buffer = builder.buffers.parameter(f"{stage.name}.table", np.repeat(tiles, width, axis=1))
    line_bytes = width * frame * 2
    walk = Walk(width, 1, frame, frame * 2, 0, 0, height, line_bytes, height * channels // frame)
    return builder.engine_in(buffer, walk, nbits_in=16, nbits_out=16, cache_allocate=1), 2


def _held(builder: EpochBuilder, stage: ArithStage) -> bool:
    """A factor per channel, few enough for the unit's own broadcast. What a sum repeats is read
    again by the engine."""
    few = stage.multiply and 1 < stage.inputs[1].channels <= builder.machine.arith.max_vector
    return few and not builder.machine.generation.vector_in_frames


def _coefficients(builder: EpochBuilder, stage: ArithStage, dual: bool) -> dict[str, Any]:
    """Scalar or per-channel A and C; a single operand leaves B to widen C to 32 bits."""
    if isinstance(stage.b, np.ndarray):
        # A and B per channel for two streams; C is one number.
        a_buffer = builder.buffers.coefficients(f"{stage.name}.A", stage.a.astype("<i2"))
        b_buffer = builder.buffers.coefficients(f"{stage.name}.B", stage.b.astype("<i2"))
        return {
            "bcast": int(Bcast.CHAN),
            "A_vector": Ref(a_buffer.name),
            "B_vector": Ref(b_buffer.name),
            "C_scalar": int(stage.c[0]),
        }
    if dual:
        vector = len(stage.inputs) > 1 and stage.inputs[1].shape != stage.output.shape
        broadcasts = vector and _held(builder, stage)
        return {
            "scalar": 1,
            "bcast": int(Bcast.CHAN if broadcasts else Bcast.SCALAR),
            "A_scalar": int(stage.a[0]),
            "B_scalar": stage.b,
            "C_scalar": int(stage.c[0]),
        }
    if stage.limits:
        return {"scalar": 1, "A_scalar": int(stage.a[0]), "C_scalar": int(stage.c[0])}
    if len(stage.a) == 1 and len(stage.c) == 1:
        high, low = _halves(int(stage.c[0]))
        return {
            "scalar": 1,
            "combinebc": 1,
            "A_scalar": int(stage.a[0]),
            "B_scalar": high,
            "C_scalar": low,
        }
    return {"bcast": int(Bcast.CHAN), "combinebc": 1, **_vectors(builder, stage)}


def _vectors(builder: EpochBuilder, stage: ArithStage) -> dict[str, Any]:
    # The scalars of C stay 0, as the vendor leaves them: -1 would ask for the vector's negative.
    fields: dict[str, Any] = {"A_scalar": int(stage.a[0]), "vec_precision": (16, 16, 32)}
    if len(stage.a) > 1:
        buffer = builder.buffers.coefficients(f"{stage.name}.A", stage.a.astype("<i2"))
        fields["A_vector"] = Ref(buffer.name)
    # Beside a vector A the driver reads C from a vector too, never from the pair of scalars.
    c = stage.c if len(stage.c) > 1 else np.full(len(stage.a), stage.c[0])
    buffer = builder.buffers.coefficients(f"{stage.name}.C", c.astype("<i4"))
    fields["C_vector"] = Ref(buffer.name)
    return fields


def _halves(value: int) -> tuple[int, int]:
    """A 32-bit coefficient as two signed 16-bit registers."""
    low = value & 0xFFFF
    return (value >> 16), low - 0x10000 if low & 0x8000 else low


def _emit_pool(builder: EpochBuilder, stage: PoolStage, frame: int) -> StreamSource:
    source, nbytes = _operand(builder, stage.inputs[0], frame)
    height, width, _ = stage.inputs[0].shape
    out_height, out_width, _ = stage.output.shape
    averages = stage.kind is not PoolKind.MAX
    whole = stage.kind is PoolKind.GLOBAL_AVERAGE
    top, left, bottom, right = stage.pads
    port = builder.add(
        PoolUnit(
            id=builder.take("POOL"),
            operation=int(_POOL_OPS[stage.kind]),
            inputX=width,
            inputY=height,
            # The vendor writes size + 1 for a global pool; the hardware ignores it there.
            outputX=width + 1 if whole else out_width,
            outputY=height + 1 if whole else out_height,
            batchSize=frame,
            poolWinX=1 if whole else stage.window[1],
            poolWinY=1 if whole else stage.window[0],
            strideX=stage.strides[1],
            strideY=stage.strides[0],
            # The last row and column that are kept: the driver always crops.
            bottomCrop=height - 1,
            rightCrop=width - 1,
            topPad=top,
            leftPad=left,
            bottomPad=bottom,
            rightPad=right,
            nbytes=nbytes,
            inbytes_f=nbytes,
            outbytes_f=nbytes,
            rounding_o=int(averages),
            saturation_o=int(averages),
            round_mode_o=int(averages),
            outbytes_o=stage.output.nbits // 8,
            mulval=stage.mulval,
            shift_o=stage.shift,
        )
    )
    builder.connect(source, port)
    return StreamSource(port)


_POOL_OPS = {
    PoolKind.MAX: PoolOp.MAX,
    PoolKind.AVERAGE: PoolOp.AVG,
    PoolKind.GLOBAL_AVERAGE: PoolOp.GAVG,
}


def _emit_activ(builder: EpochBuilder, stage: ActivStage, frame: int) -> StreamSource:
    source, nbytes = _operand(builder, stage.inputs[0], frame)
    table = stage.table
    if table is None:
        rectifier = Activ(
            id=builder.take("ACTIV"),
            operation=int(ActivOp.TRELU),
            inbytes_f=nbytes,
            outbytes_f=nbytes,
            nbytes=nbytes,
            outbytes_o=stage.output.nbits // 8,
            parameter=stage.floor,
            parameter_2=stage.floor,
        )
        port = builder.add(rectifier)
        builder.connect(source, port)
        return StreamSource(port)
    rom0 = builder.buffers.coefficients(f"{stage.name}.rom0", table.rom0)
    rom1 = builder.buffers.coefficients(f"{stage.name}.rom1", table.rom1.astype("<i2"))
    port = builder.add(
        Activ(
            id=builder.take("ACTIV"),
            operation=int(ActivOp.FUNC),
            inbytes_f=nbytes,
            outbytes_f=nbytes,
            nbytes=nbytes,
            outbytes_o=stage.output.nbits // 8,
            shift_b=table.shift_b,
            shift_c=table.shift_c,
            shift_o=table.shift_o,
            bwidth=table.bwidth,
            ROM0_vector=Ref(rom0.name),
            ROM1_vector=Ref(rom1.name),
            ROM0_nbytes=rom0.size_bytes,
            ROM1_nbytes=rom1.size_bytes,
        )
    )
    builder.connect(source, port)
    return StreamSource(port)


def _emit_copy(builder: EpochBuilder, stage: CopyStage) -> StreamSource:
    """Whole pixels; channel by channel where one side lies plane by plane."""
    value, depth = stage.inputs[0], stage.depth
    if stage.moves_pairs:
        value, depth = value.in_pairs, depth // 2
    walk = channel_frames(value, depth)
    if stage.repeats > 1:
        walk = channel_frames(value, depth, loop=1, total=stage.repeats)
    buffer = builder.buffers.activation(stage.inputs[0], builder.number)
    return builder.engine_in(buffer, walk, nbits_in=value.nbits, nbits_out=value.nbits)


def store_copy(builder: EpochBuilder, source: StreamSource, stage: CopyStage) -> None:
    """What a copy writes, in the words in which it was read."""
    value, depth = stage.output, stage.depth
    if stage.moves_pairs:
        value, depth = value.in_pairs, depth // 2
    buffer = builder.buffers.activation(stage.output, builder.number)
    builder.engine_out(source, buffer, channel_frames(value, depth), value.nbits)
