"""Calls of npuscope's own kernels (firmware/kernels): tensors and numbers as static tables."""

from __future__ import annotations

import math

import numpy as np

from npuscope.ops.kernels.step import Array
from npuscope.program.kernel_calls.build import kernel_call
from npuscope.program.kernel_calls.model import KernelCall, Operand
from npuscope.program.model import Call
from npuscope.program.network_c.writer_scope import Lines, Scope, array
from npuscope.program.units import Ref

HEADER = "npuscope_kernels.h"
_C_TYPES = {"float32": "float", "float64": "double", "bool": "uint8_t"}
_INT64_MIN = -(1 << 63)


def own_call(scope: Scope, call: Call) -> KernelCall:
    """The C kernel of a call. NoKernel where the library has none."""
    return kernel_call(call, scope.buffers)


def own_lines(scope: Scope, call: KernelCall, prefix: str) -> Lines:
    """Declarations and the call."""
    arrays: Lines = []
    sides = {"in": call.inputs, "out": call.outputs}
    tables = [
        line
        for side, operands in sides.items()
        for line in _table(scope, call, f"{prefix}_{side}", operands, arrays)
    ]
    arrays.append(array("int32_t", f"{prefix}_numbers", [str(n) for n in call.numbers]))
    arrays.append(array("float", f"{prefix}_reals", [float_literal(r) for r in call.reals]))
    record = [
        f"  static const npuscope_call {prefix} = {{",
        f"    .inputs = {prefix}_in, .outputs = {prefix}_out,",
        f"    .numbers = {prefix}_numbers, .reals = {prefix}_reals,",
        f"    .ninputs = {len(call.inputs)}, .noutputs = {len(call.outputs)},",
        "  };",
    ]
    return [*arrays, *scope.in_ram([*tables, *record]), f"  {call.function}(&{prefix});"]


def _table(
    scope: Scope, call: KernelCall, name: str, operands: tuple[Operand, ...], arrays: Lines
) -> Lines:
    lines = [f"  static const npuscope_tensor {name}[] = {{"]
    for number, operand in enumerate(operands):
        lines += _tensor(scope, call, f"{name}{number}", operand, arrays)
    return [*lines, "  };"]


def _tensor(scope: Scope, call: KernelCall, name: str, operand: Operand, arrays: Lines) -> Lines:
    quant = operand.quant
    if quant is not None:
        arrays.append(array("float", f"{name}_scales", [float_literal(s) for s in quant.scales]))
        zeros = [str(int(zero)) for zero in quant.zero_points]
        arrays.append(array("int32_t", f"{name}_zeros", zeros))
    axis = "NPUSCOPE_WHOLE" if quant is None or quant.axis is None else str(quant.axis)
    shape = ", ".join(str(size) for size in operand.shape) or "0"
    return [
        f"    {{ .data = {_data(scope, name, operand, arrays)},",
        f"      .scales = {f'{name}_scales' if quant else 'NULL'},",
        f"      .zero_points = {f'{name}_zeros' if quant else 'NULL'},",
        f"      .shape = {{ {shape} }}, .rank = {len(operand.shape)}, .axis = {axis},",
        f"      .type = NPUSCOPE_{operand.type.name.upper()},",
        f"      .rounding = NPUSCOPE_{call.rounding.name} }},",
    ]


def _data(scope: Scope, name: str, operand: Operand, arrays: Lines) -> str:
    if operand.values is None:
        return scope.address(Ref(operand.buffer))
    arrays.append(values_array(f"{name}_values", operand.values))
    return f"(void *){name}_values"


def values_array(name: str, values: Array) -> str:
    """An array of the source itself."""
    kind = values.dtype.name
    return array(_C_TYPES.get(kind, f"{kind}_t"), name, [_literal(v) for v in values.ravel()])


def _literal(value: np.generic) -> str:
    if isinstance(value, np.float32):
        return float_literal(float(value))
    if isinstance(value, np.floating):
        return _special(float(value), "") or float(value).hex()
    if isinstance(value, np.int64):
        return "INT64_MIN" if int(value) == _INT64_MIN else f"{int(value)}LL"
    return str(int(value))


def float_literal(value: float) -> str:
    """A float32 literal of the same bits."""
    rounded = float(np.float32(value))
    return _special(rounded, "f") or f"{rounded.hex()}f"


def _special(value: float, suffix: str) -> str:
    """What has no literal."""
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()"
    return ""
