"""Ops that stay on the host CPU: one kernel call, with the reasons why."""

from __future__ import annotations

from enum import Enum

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from npuscope.compiler.lower.context import Lowering
from npuscope.compiler.lower.pieces import Piece
from npuscope.compiler.stages import CallStage, Value
from npuscope.graph.model import Attrs, DType, Numerics, Op, Quant, Tensor
from npuscope.machine.npu_ops import OnCpu, support
from npuscope.ops.layers import ConvAttrs
from npuscope.ops.moves import PadAttrs
from npuscope.ops.unknown import UNKNOWN, UnknownAttrs
from npuscope.program.calls import listed_name
from npuscope.program.model import Call, Refused, evidence
from npuscope.rulebook import refusals
from npuscope.structs import replace


def fall_back(context: Lowering, op: Op, trail: tuple[Refused, ...]) -> None:
    """Run the op as a software kernel and keep why it is not on the NPU."""
    tensors = [context.graph.tensor(name) for name in (*op.inputs, *op.outputs) if name]
    integer = all(t.is_constant or t.dtype is not DType.FLOAT32 for t in tensors)
    on_cpu = support(op.kind).on_cpu
    if integer and on_cpu is OnCpu.IN_FLOAT:
        _in_float(context, op, trail)
        return
    names = [name for name in op.inputs if name in context.values]
    sources = [context.operand(n, op.origin, gathered=True) for n in names]
    output = context.new_value(context.graph.output_tensor(op))
    hybrid = on_cpu is OnCpu.BY_DMA and context.machine.generation.hybrid_moves
    stage = CallStage(
        op.name,
        _operator(op),
        tuple(sources),
        output,
        op.origin,
        trail,
        call=Call(op.kind, op.inputs, op.outputs, arguments(context.graph.numerics, op.attrs)),
        hybrid=hybrid,
    )
    context.emit(stage)
    context.define(op.outputs[0], output)


def _operator(op: Op) -> str:
    """Zeros behind the channels are listed as a Concat with a tensor of zeros."""
    if op.kind == UNKNOWN:
        return op.attrs_as(UnknownAttrs).name
    if op.kind == "Pad" and not any(np.ravel(op.attrs_as(PadAttrs).pads[:-1])):
        return "Concat"
    return listed_name(op.kind)


def call_stage(
    context: Lowering,
    op: Op,
    kernel: str,
    attrs: Attrs,
    source: Value,
    output: Value,
    trail: tuple[Refused, ...],
    hybrid: bool = False,
    constants: tuple[str, ...] = (),
) -> CallStage:
    """A kernel that is not an op of the graph itself, of one value and maybe constants."""
    inputs = (source.name, *constants)
    call = Call(kernel, inputs, (output.name,), arguments(context.graph.numerics, attrs))
    only_moves = hybrid and context.machine.generation.hybrid_moves
    return CallStage(
        f"{op.name}.{kernel}",
        listed_name(kernel),
        (source,),
        output,
        op.origin,
        trail,
        call=call,
        hybrid=only_moves,
    )


def _in_float(context: Lowering, op: Op, trail: tuple[Refused, ...]) -> None:
    """Dequantize what it reads, compute in float, quantize what it makes."""
    names = [_real_constant(context, name) for name in op.inputs]
    present = [name for name in op.inputs if name in context.values]
    reals: dict[str, Value] = {}
    for name in dict.fromkeys(present):
        source = context.operand(name, op.origin, gathered=True)
        real = real_value(source, f"{name}.{op.name}.real")
        kernel = "Dequantize" if source.quant else "Cast"
        stage = call_stage(context, op, kernel, Attrs(), source, real, trail)
        reals[name] = context.emit(replace(stage, name=f"{op.name}.dequantize.{name}"))
    output = context.new_value(context.graph.output_tensor(op))
    real_out = real_value(output, f"{output.name}.real")
    context.emit(
        CallStage(
            op.name,
            listed_name(op.kind),
            tuple(reals[name] for name in present),
            real_out,
            op.origin,
            trail,
            call=Call(
                op.kind, tuple(names), op.outputs, arguments(context.graph.numerics, op.attrs)
            ),
        )
    )
    kernel = "Quantize" if output.quant else "Cast"  # places and truth have no scale
    context.emit(call_stage(context, op, kernel, Attrs(), real_out, output, trail))
    context.define(op.outputs[0], output)


def real_value(value: Value, name: str) -> Value:
    return value.named(name, nbits=32, signed=True, is_float=True, quant=None)


def _real_constant(context: Lowering, name: str) -> str:
    """A quantized constant as float, under a name of its own; other names stay."""
    tensor = context.graph.tensors.get(name)
    if tensor is None or tensor.data is None or tensor.quant is None:
        return name
    real_name = f"{name}.real"
    if real_name not in context.graph.tensors:
        shape = [1] * len(tensor.shape)
        if tensor.quant.axis is not None:
            shape[tensor.quant.axis] = -1
        scales = np.array(tensor.quant.scales, np.float32).reshape(shape or -1)
        zeros = np.array(tensor.quant.zero_points).reshape(shape or -1)
        data = ((tensor.data - zeros) * scales).astype(np.float32).reshape(tensor.shape)
        context.graph.add(Tensor(real_name, tensor.shape, DType.FLOAT32, data=data))
    return real_name


def arguments(
    numerics: Numerics, attrs: Attrs
) -> tuple[tuple[str, float | int | str | tuple[int, ...]], ...]:
    """The attribute record as named arguments, enums by value, plus whose rounding applies."""
    pairs = asdict(attrs).items()
    plain = tuple((name, v.value if isinstance(v, Enum) else v) for name, v in pairs)
    return (*plain, ("numerics", numerics.value))


def lower_software(context: Lowering, op: Op) -> None:
    """Ops that no unit of the NPU computes and that no other rule explains."""
    why = evidence("$op has no NPU lowering: it runs on the CPU", op=op.kind)
    fall_back(context, op, (Refused("NPU", "NA-OP-SOFTWARE", found=why),))


# --- A piece of a kernel that the CPU computes in float: dequantize, convolve, cast to sums ---

Array = np.ndarray


class SoftwarePiece(Struct, frozen=True):
    """What the piece computes: sums of features less `zero`, as the units would shift them."""

    op: Op
    features: Value
    zero: int
    weights: Array  # of the piece
    piece: Piece
    attrs: ConvAttrs
    shift_o: int
    sums: Value  # 16 bits


def emit_software_piece(context: Lowering, part: SoftwarePiece) -> Value:
    """Three kernel calls; the result has the scale of the other pieces' sums."""
    trail = refusals(context.graph, part.op, context.machine)
    name = part.sums.name
    features = context.gathered(part.features, part.op.origin, own=True)
    plain = features.named(f"{name}.features", quant=Quant((1.0,), (part.zero,)), tensor="")
    context.result.views[plain.name] = features
    real = real_value(plain, f"{name}.real_features")
    real_sums = real_value(part.sums, f"{name}.real")
    # The shift of the units is part of the float weights.
    data = (part.weights / 2.0**part.shift_o).astype(np.float32)
    name = context.graph.fresh_name(f"{part.sums.name}.weights")
    weights = (context.graph.add(Tensor(name, data.shape, DType.FLOAT32, data=data)).name,)
    _call(context, part, "Dequantize", Attrs(), plain, real, trail)
    top, left, bottom, right = (
        pad - crop for pad, crop in zip(part.piece.pads, part.piece.crop, strict=True)
    )
    pads = (top, left, bottom, right)
    attrs = ConvAttrs(part.attrs.strides, pads, groups=part.attrs.groups)
    _call(context, part, "Conv2D", attrs, real, real_sums, trail, weights)
    return _call(context, part, "Cast", Attrs(), real_sums, part.sums, trail)


def _call(
    context: Lowering,
    part: SoftwarePiece,
    kernel: str,
    attrs: Attrs,
    source: Value,
    output: Value,
    trail: tuple[Refused, ...],
    constants: tuple[str, ...] = (),
) -> Value:
    stage = call_stage(context, part.op, kernel, attrs, source, output, trail, constants=constants)
    return context.emit(replace(stage, name=f"{output.name}.{kernel}"))
