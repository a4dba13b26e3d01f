"""Moves of data by the runtime's library, and calls of npuscope's own kernels
(firmware/kernels)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from npuscope.machine.npu_ops import support
from npuscope.ops.kernels.step import Array
from npuscope.ops.row import named
from npuscope.program.addresses import copies_of
from npuscope.program.kernel_calls.build import kernel_call
from npuscope.program.kernel_calls.model import KernelCall, KernelOperand
from npuscope.program.model import Buffer, Call
from npuscope.program.network_c.layout import ChannelPosition
from npuscope.program.network_c.writer_buffers import (
    NoLibraryKernel,
    buffer_arrays,
    buffer_entry,
    channel_position,
    onnx_axis,
)
from npuscope.program.network_c.writer_scope import Lines, Scope, array
from npuscope.program.units import Ref

# Calls of npuscope's own kernels (firmware/kernels): tensors and numbers as static tables.

HEADER = "npuscope_kernels.h"
# Stands above declarations without which the source does not compile.
NEEDS_KERNELS = "/* Kernels that the runtime's libraries lack: build npuscope's with this file. */"
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
    scope: Scope, call: KernelCall, name: str, operands: tuple[KernelOperand, ...], arrays: Lines
) -> Lines:
    lines = [f"  static const npuscope_tensor {name}[] = {{"]
    for number, operand in enumerate(operands):
        label = f"{name}{number}"
        quant = operand.quant
        if quant is not None:
            arrays.append(
                array("float", f"{label}_scales", [float_literal(s) for s in quant.scales])
            )
            zeros = [str(int(zero)) for zero in quant.zero_points]
            arrays.append(array("int32_t", f"{label}_zeros", zeros))
        axis = "NPUSCOPE_WHOLE" if quant is None or quant.axis is None else str(quant.axis)
        shape = ", ".join(str(size) for size in operand.shape) or "0"
        lines += [
            f"    {{ .data = {_data(scope, label, operand, arrays)},",
            f"      .scales = {f'{label}_scales' if quant else 'NULL'},",
            f"      .zero_points = {f'{label}_zeros' if quant else 'NULL'},",
            f"      .shape = {{ {shape} }}, .rank = {len(operand.shape)}, .axis = {axis},",
            f"      .type = NPUSCOPE_{operand.type.name.upper()},",
            f"      .rounding = NPUSCOPE_{call.rounding.name} }},",
        ]
    return [*lines, "  };"]


def _data(scope: Scope, name: str, operand: KernelOperand, arrays: Lines) -> str:
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


# Moves of data by the runtime's library, which drives two stream engines or copies on the CPU.

# Any two engines will do: the library has the NPU for itself.
_ENGINES = "0, 1"
_RANK = 4


class LibraryCall(Struct, frozen=True):
    """Declarations and the call; `drives_npu` where stream engines move the data."""

    lines: Lines
    drives_npu: bool = True


def library_call(scope: Scope, call: Call, prefix: str) -> LibraryCall:
    """The library's function for a move. NoLibraryKernel where none fits."""
    build = support(call.kernel).mover
    if not build or len(call.outputs) != 1 or copies_of(call):
        raise NoLibraryKernel(call.kernel)
    if dict(call.args).get("activation", "none") != "none":
        raise NoLibraryKernel("activation")
    lines: LibraryCall = named(__package__, build)(scope, call, prefix)
    return lines


def tables(scope: Scope, prefix: str, inputs: list[Buffer], outputs: list[Buffer]) -> Lines:
    """The tensors of a call as two tables: <prefix>_in and <prefix>_out."""
    lines: Lines = []
    for side, buffers in (("in", inputs), ("out", outputs)):
        names = [f"{prefix}_{side}{number}" for number in range(len(buffers))]
        pairs = list(zip(names, buffers, strict=True))
        lines += [line for name, buffer in pairs for line in buffer_arrays(name, buffer)]
        entries = [line for name, buffer in pairs for line in buffer_entry(scope, name, buffer)]
        lines += scope.in_ram(
            _library_table(f"{prefix}_{side}", [*entries, "    { .name = NULL },"])
        )
    return lines


def _library_table(name: str, entries: Lines) -> Lines:
    return [f"  static const LL_Buffer_InfoTypeDef {name}[] = {{", *entries, "  };"]


def _tail(scope: Scope) -> str:
    return f", {scope.dialect.library_tail}" if scope.dialect.library_tail else ""


def concat(scope: Scope, call: Call, prefix: str) -> LibraryCall:
    inputs = [_plain(scope, name) for name in call.inputs]
    output = _plain(scope, call.outputs[0])
    axis = onnx_axis(_whole(call, "axis"), output)
    _check_bytes(inputs, output)
    function = (
        f"  LL_ATON_LIB_Concat({prefix}_in, {len(inputs)}, {prefix}_out, {axis}, "
        f"{_ENGINES}{_tail(scope)});"
    )
    return LibraryCall([*tables(scope, prefix, inputs, [output]), function])


def _check_bytes(inputs: Iterable[Buffer], output: Buffer) -> None:
    """The library copies bytes as they are: whoever changes scales is another kernel."""
    if any(buffer.nbits != output.nbits for buffer in inputs):
        raise NoLibraryKernel("widths")
    if any((b.quant, b.signed) != (output.quant, output.signed) for b in inputs):
        raise NoLibraryKernel("scales")


def _moved(scope: Scope, call: Call) -> tuple[Buffer, Buffer]:
    """What a library's move reads and writes."""
    source, output = _plain(scope, call.inputs[0]), _plain(scope, call.outputs[0])
    _check_bytes([source], output)
    return source, output


def blocks(scope: Scope, call: Call, prefix: str) -> LibraryCall:
    if dict(call.args).get("order", "dcr") != "dcr":
        raise NoLibraryKernel("order")
    rows = _whole(call, "block")
    columns = dict(call.args).get("width") or rows
    source, output = _moved(scope, call)
    function = (
        f"  LL_ATON_LIB_DMA_{call.kernel}({prefix}_in, 1, {prefix}_out, {rows}, {columns}, "
        f"{_ENGINES}{_tail(scope)});"
    )
    return LibraryCall([*tables(scope, prefix, [source], [output]), function])


def transpose(scope: Scope, call: Call, prefix: str) -> LibraryCall:
    """Axes are those of memory; each input axis is told its place in the output too."""
    source, output = _moved(scope, call)
    permutation = _tuple(call, "permutation")
    missing = _RANK - len(permutation)
    if missing < 0:
        raise NoLibraryKernel("rank")
    order = [*range(missing), *(axis + missing for axis in permutation)]
    places = [order.index(axis) for axis in range(_RANK)]
    lines = [
        *_shapes(scope, prefix, source, output, rank=_RANK),
        array("uint8_t", f"{prefix}_target", [str(place) for place in places]),
        array("uint8_t", f"{prefix}_perm", [str(axis) for axis in order]),
        f"  LL_ATON_LIB_DMA_Transpose({prefix}_in, {prefix}_in_steps, {prefix}_out, "
        f"{prefix}_out_steps, {prefix}_target, {prefix}_perm, {_ENGINES}{_tail(scope)});",
    ]
    return LibraryCall(lines)


def cut(scope: Scope, call: Call, prefix: str) -> LibraryCall:
    """Copied by the CPU."""
    source, output = _moved(scope, call)
    starts, sizes, steps = (_tuple(call, name) for name in ("starts", "sizes", "steps"))
    if any(step < 1 for step in steps) or len(starts) != len(source.shape):
        raise NoLibraryKernel("steps")
    ends = [a + (n - 1) * s + 1 for a, n, s in zip(starts, sizes, steps, strict=True)]
    lines = [
        *_shapes(scope, prefix, source, output, rank=len(source.shape)),
        array("int32_t", f"{prefix}_starts", [str(n) for n in starts]),
        array("int32_t", f"{prefix}_ends", [str(n) for n in ends]),
        array("int32_t", f"{prefix}_every", [str(n) for n in steps]),
        f"  LL_ATON_LIB_Slice({prefix}_in, {prefix}_in_steps, {prefix}_out, {prefix}_out_steps, "
        f"{len(starts)}, {prefix}_starts, {prefix}_ends, {prefix}_every);",
    ]
    return LibraryCall(lines, drives_npu=False)


def _shapes(scope: Scope, prefix: str, source: Buffer, output: Buffer, rank: int) -> Lines:
    """Bare tensors of a given rank, ones in front, and the bytes between neighbours per axis."""
    lines: Lines = []
    for side, buffer in (("in", source), ("out", output)):
        shape = (*([1] * (rank - len(buffer.shape))), *buffer.shape)
        name = f"{prefix}_{side}"
        lines += [
            array("uint32_t", f"{name}_shape", [str(n) for n in shape]),
            array("uint32_t", f"{name}_steps", [str(n) for n in _steps(shape, buffer)]),
            *scope.in_ram(_library_table(name, _bare(scope, name, buffer, shape))),
        ]
    return lines


def _bare(scope: Scope, name: str, buffer: Buffer, shape: tuple[int, ...]) -> Lines:
    return [
        "    {",
        f"      .addr_base = {scope.base(buffer)},",
        f"      .offset_start = {buffer.offset},",
        f"      .offset_end = {buffer.offset + buffer.size_bytes},",
        f"      .offset_limit = {scope.limit(buffer)},",
        f"      .ndims = {len(shape)},",
        f"      .nbits = {buffer.nbits},",
        f"      .shape = {name}_shape,",
        f"      .batch = {shape[-1]},",
        "    },",
    ]


def _steps(shape: tuple[int, ...], buffer: Buffer) -> list[int]:
    steps = [buffer.nbits // 8]
    for size in reversed(shape[1:]):
        steps.append(steps[-1] * size)
    return steps[::-1]


def _plain(scope: Scope, name: str) -> Buffer:
    """A buffer whose bytes lie in the order of its shape."""
    buffer = scope.buffer(name)
    if channel_position(buffer) in (ChannelPosition.First, ChannelPosition.Mixed):
        raise NoLibraryKernel("layout")
    return buffer


def _whole(call: Call, name: str) -> int:
    value = dict(call.args).get(name)
    if not isinstance(value, int):
        raise NoLibraryKernel(name)
    return value


def _tuple(call: Call, name: str) -> tuple[int, ...]:
    value = dict(call.args).get(name)
    if not isinstance(value, tuple):
        raise NoLibraryKernel(name)
    return value
