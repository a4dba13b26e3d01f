"""Kernels that compute values: on real numbers, on whole ones, or on raw ones as if whole.

The C kernels take real numbers (floats, or integers with a scale) or whole numbers without a
scale, never both in one call.
"""

from __future__ import annotations

from dataclasses import replace

from npuscope.graph.model import Activation, Numerics
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.functions import ClipAttrs
from npuscope.ops.kernels.float_ops import whole_limits
from npuscope.ops.kernels.requantize import clamp_limits, real_limits
from npuscope.ops.reduce import PoolAttrs, ReduceAttrs
from npuscope.program.kernel_calls.model import ElementType, KernelCall, NoKernel, Operand
from npuscope.program.kernel_calls.tables import tensor_of
from npuscope.program.kernel_calls.work import Work, plain_call

_COMPARISONS = ("Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual")
_TRUTH = ("And", "Or", "Not")
_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Min", "Max", "SquaredDifference")
_EXTREMES = ("ReduceMax", "ReduceMin")
_PLACES = ("ArgMax", "ArgMin")
_FUNCTIONS = ("Abs", "Neg", "Sign", "Square", "Clip", "Cast")
_WHOLE = frozenset((*_COMPARISONS, *_TRUTH, *_ARITHMETIC, *_EXTREMES, *_PLACES, *_FUNCTIONS)) | {
    "ReduceSum",
    "ReduceProd",
    "Where",
}
# The numpy kernels of these look at raw values, whatever the scales are.
_RAW = frozenset([*_PLACES, "Cast"])
_RAW_IN_LITERT = frozenset(["Where", "Min", "Max", "MaxPool", *_EXTREMES])
_RAW_WHEN_ALIKE = frozenset(["MaxPool", *_EXTREMES])
_FREE_OUTPUT = frozenset([*_COMPARISONS, *_TRUTH, *_PLACES, "Cast"])
_STORED = (ElementType.int8, ElementType.uint8, ElementType.int16, ElementType.uint16)


def works_on_raw(work: Work) -> bool:
    if work.kind in _RAW:
        return True
    if not work.quantized:
        return False
    if work.numerics is Numerics.LITERT:
        return work.kind in _RAW_IN_LITERT
    return work.kind in _RAW_WHEN_ALIKE and _alike(work)


def _alike(work: Work) -> bool:
    output = work.outputs[0]
    return all((x.quant, x.type) == (output.quant, output.type) for x in work.inputs)


def raw_call(work: Work) -> KernelCall:
    """The call on raw values: to C they are whole numbers without a scale."""
    if work.kind == "MaxPool":
        return _raw_max_pool(work)
    inputs = tuple(replace(operand, quant=None) for operand in work.inputs)
    outputs = tuple(replace(operand, quant=None) for operand in work.outputs)
    # LiteRT's Min and Max have no activation.
    attrs = BinaryAttrs() if isinstance(work.attrs, BinaryAttrs) else work.attrs
    return value_call(replace(work, inputs=inputs, outputs=outputs, attrs=attrs))


def _raw_max_pool(work: Work) -> KernelCall:
    source, target = work.inputs[0], work.outputs[0]
    if source.type not in _STORED or source.type != target.type or target.quant is None:
        raise NoKernel(f"MaxPool from {source.type.name} to {target.type.name} has no kernel")
    tensor = tensor_of("y", target)
    limits = clamp_limits(tensor, *real_limits(work.attrs_as(PoolAttrs).activation))
    call = plain_call(work, "max_pool_raw")
    return replace(call, numbers=(*call.numbers, *limits))


def value_call(work: Work) -> KernelCall:
    """All operands real, or all whole where the kernel takes whole numbers."""
    operands = work.inputs[1:] if work.kind == "Where" else work.inputs
    if work.kind in _TRUTH and work.quantized:
        raise NoKernel(f"{work.kind} takes truth, not numbers with a scale")
    if all(map(_is_real, operands)):
        _check_real_output(work)
        return _numbered(work)
    if work.kind not in _WHOLE or any(map(_is_real, operands)):
        raise NoKernel(f"{work.kind} on {_types(operands)} has no kernel")
    _check_whole(work, operands)
    return _whole_clip(work) if work.kind == "Clip" else _numbered(work)


def _numbered(work: Work) -> KernelCall:
    """Axes of reductions travel as bits: C cannot see where a list of them ends."""
    call = plain_call(work)
    if not isinstance(work.attrs, ReduceAttrs):
        return call
    return replace(call, numbers=(sum(1 << axis for axis in work.attrs.axes),))


def _is_real(operand: Operand) -> bool:
    return operand.type is ElementType.float32 or operand.quant is not None


def _types(operands: tuple[Operand, ...]) -> str:
    return " and ".join(sorted({operand.type.name for operand in operands}))


def _check_real_output(work: Work) -> None:
    output = work.outputs[0]
    if work.kind in _FREE_OUTPUT:
        right = output.quant is None
    elif work.kind == "Dequantize":
        right = work.inputs[0].quant is not None and output.type is ElementType.float32
    elif output.quant is not None:
        right = output.type in _STORED
    else:
        right = output.type is ElementType.float32 and work.kind != "Quantize"
    if not right:
        scaled = " with a scale" if output.quant is not None else ""
        raise NoKernel(f"{work.kind} cannot store real numbers as {output.type.name}{scaled}")


def _check_whole(work: Work, operands: tuple[Operand, ...]) -> None:
    kinds = {operand.type for operand in operands}
    if work.kind not in _FREE_OUTPUT:
        kinds |= {output.type for output in work.outputs}
    scaled = any(output.quant is not None for output in work.outputs)
    if len(kinds) > 1 or ElementType.float64 in kinds or scaled:
        raise NoKernel(f"{work.kind} on {_types((*operands, *work.outputs))} has no kernel")
    if getattr(work.attrs, "activation", Activation.NONE) is not Activation.NONE:
        raise NoKernel(f"{work.kind} on whole numbers takes no activation")


def _whole_clip(work: Work) -> KernelCall:
    source = work.inputs[0]
    if source.type is ElementType.int64:
        raise NoKernel("Clip on int64 has no kernel")
    limits = whole_limits(work.attrs_as(ClipAttrs), tensor_of("x", source).dtype)
    return replace(plain_call(work, "clip_whole"), numbers=limits, reals=())
