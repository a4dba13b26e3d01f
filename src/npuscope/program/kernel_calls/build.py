"""Which C kernel does a software call's work, and with which arguments.

Float kernels read and store quantized tensors too: they dequantize what they read and round what
they store. Kernels that round in integers have a builder of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from npuscope.graph.model import Numerics
from npuscope.program.calls import attributes
from npuscope.program.kernel_calls.integer import INTEGER
from npuscope.program.kernel_calls.model import KernelCall, operand_of
from npuscope.program.kernel_calls.moves import MOVES
from npuscope.program.kernel_calls.tables import table_call
from npuscope.program.kernel_calls.values import raw_call, value_call, works_on_raw
from npuscope.program.kernel_calls.work import Work
from npuscope.program.model import Buffer, Call


def kernel_call(call: Call, buffers: Mapping[str, Buffer]) -> KernelCall:
    """The C call of a software call. NoKernel where the library has none."""
    work = _work(call, buffers)
    if call.kernel in MOVES:
        return MOVES[call.kernel](work)
    if works_on_raw(work):
        return raw_call(work)
    if not work.quantized:
        return value_call(work)
    builder = INTEGER.get((call.kernel, work.numerics))
    if builder is not None:
        return builder(work)
    return table_call(work) or value_call(work)


def _work(call: Call, buffers: Mapping[str, Buffer]) -> Work:
    numerics = Numerics(str(dict(call.args).get("numerics", Numerics.LITERT.value)))
    inputs = tuple(operand_of(buffers[name]) for name in call.inputs if name)
    outputs = tuple(operand_of(buffers[name]) for name in call.outputs)
    return Work(call.kernel, numerics, inputs, outputs, attributes(call))
