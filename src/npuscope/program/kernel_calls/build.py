"""Which C kernel does a software call's work, and with which arguments; kernels on integers
themselves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from npuscope.graph.model import Numerics
from npuscope.machine.npu_ops import support
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.kernels.reduce import exponentials
from npuscope.ops.kernels.requantize import (
    Multipliers,
    clamp_limits,
    quantized_multipliers,
    real_limits,
)
from npuscope.ops.norms import SoftmaxAttrs
from npuscope.ops.row import Row, named
from npuscope.ops.table import OPS
from npuscope.ops.traits import Trait
from npuscope.program.addresses import copies_of
from npuscope.program.calls import attributes
from npuscope.program.kernel_calls.layers import raw_call, value_call, works_on_raw
from npuscope.program.kernel_calls.model import (
    PREFIX,
    ElementType,
    KernelCall,
    KernelOperand,
    KernelTask,
    NoKernel,
    operand_of,
    prepared,
    table_call,
    tensor_of,
)
from npuscope.program.kernel_calls.moves import copied
from npuscope.program.model import Buffer, Call

# --- Kernels that round in integers: their multipliers are prepared here ---

_BYTES = (ElementType.int8, ElementType.uint8)
_MOST_TERMS = 8191  # of a softmax: the sum of its exponentials has 32 bits


def _only_bytes(work: KernelTask) -> None:
    for operand in (*work.inputs, *work.outputs):
        if operand.type not in _BYTES or operand.quant is None or operand.quant.per_channel:
            raise NoKernel(f"{work.kind} on integers needs 8-bit tensors with one scale each")


def softmax(work: KernelTask) -> KernelCall:
    _only_bytes(work)
    source, attrs = work.inputs[0], work.attrs_as(SoftmaxAttrs)
    axis = attrs.axis % len(source.shape)
    count = source.shape[axis]
    if count > _MOST_TERMS:
        raise NoKernel(
            f"Softmax over {count} values: the integer kernel takes at most {_MOST_TERMS}"
        )
    table = exponentials(attrs.beta, _scale(source)).astype(np.int32)
    numbers = (count, int(np.prod(source.shape[axis + 1 :], dtype=np.int64)))
    inputs = (source, prepared(table))
    return KernelCall(f"{PREFIX}softmax_integer", inputs, work.outputs, numbers)


def divide(work: KernelTask) -> KernelCall:
    _only_bytes(work)
    (a, b), target = work.inputs, work.outputs[0]
    factor = quantized_multipliers(_scale(a) / (_scale(b) * _scale(target)))
    output = tensor_of("y", target)
    limits = clamp_limits(output, *real_limits(work.attrs_as(BinaryAttrs).activation))
    numbers = (*_pair(factor), *limits)
    return KernelCall(f"{PREFIX}div_integer", work.inputs, work.outputs, numbers)


def quantize(work: KernelTask) -> KernelCall:
    """From floats, 8 bits or more bits: by rounding, by a table, by a multiplier."""
    source, target = work.inputs[0], work.outputs[0]
    if source.quant is None:
        return value_call(work)
    if target.quant is None or source.quant.per_channel or target.quant.per_channel:
        raise NoKernel("Quantize between integer types needs one scale per tensor")
    call = table_call(work)
    if call is not None:
        return call
    if source.type is ElementType.int64 or target.type is ElementType.int64:
        raise NoKernel("Quantize on int64 has no kernel")
    factor = quantized_multipliers(_scale(source) / _scale(target))
    numbers = (*_pair(factor), *tensor_of("y", target).dtype.limits)
    return KernelCall(f"{PREFIX}requantize", work.inputs, work.outputs, numbers)


def _pair(factor: Multipliers) -> tuple[int, int]:
    return int(factor.mantissa[0]), int(factor.shift[0])


def _scale(operand: KernelOperand) -> float:
    if operand.quant is None:
        raise NoKernel(f"a tensor of {operand.type.name} has no scale")
    return operand.quant.scale


# --- The C kernel of a software call, and its arguments ---
#
# Float kernels read and store quantized tensors too: they dequantize what they read and round what
# they store. Kernels that round in integers have a builder of their own.


def kernel_call(call: Call, buffers: Mapping[str, Buffer]) -> KernelCall:
    """The C call of a software call. NoKernel where the library has none."""
    copies = copies_of(call)
    if copies:
        return copied(call, copies, buffers)
    work, kernel = _work(call, buffers), support(call.kernel).kernel
    if kernel is not None and kernel.build:
        return _built(kernel.build, work)
    if works_on_raw(work):
        return raw_call(work)
    if not work.quantized or kernel is None:
        return value_call(work)
    builder = kernel.litert if work.numerics is Numerics.LITERT else kernel.qdq
    if builder:
        return _built(builder, work)
    if work.numerics is Numerics.LITERT and _rounds_in_integers(OPS[call.kernel]):
        # LiteRT rounds these in integers: floats between two conversions would not be the same.
        table = table_call(work)
        if table is None:
            raise NoKernel(f"{work.kind} on these integers has no kernel with LiteRT's rounding")
        return table
    return table_call(work) or value_call(work)


def _built(builder: str, work: KernelTask) -> KernelCall:
    call: KernelCall = named(__package__, builder)(work)
    return call


def _rounds_in_integers(row: Row) -> bool:
    """LiteRT has a kernel of its own for it; what it dequantizes is a float."""
    return bool(row.kernel.litert or row.has(Trait.COMPARISON)) and not row.has(Trait.RESCALING)


def _work(call: Call, buffers: Mapping[str, Buffer]) -> KernelTask:
    numerics = Numerics(str(dict(call.args).get("numerics", Numerics.LITERT.value)))
    inputs = tuple(operand_of(buffers[name]) for name in call.inputs if name)
    outputs = tuple(operand_of(buffers[name]) for name in call.outputs)
    return KernelTask(call.kernel, numerics, inputs, outputs, attributes(call))
