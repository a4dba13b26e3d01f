"""Buffer tables: inputs with the parameters behind them, outputs, and all that is between."""

from __future__ import annotations

from npuscope.program.model import Buffer
from npuscope.program.network_c.layout import (
    BUFFER_FIELDS,
    CHPOS_PREFIX,
    DATA_TYPES,
    ChannelPosition,
)
from npuscope.program.network_c.writer_scope import Lines, Scope, array, float_text
from npuscope.text import c_string

_DEBUG_ONLY = "#if LL_ATON_DBG_BUFFER_INFO_EXCLUDED == 0"
_RANK = 4


def buffer_tables(scope: Scope) -> Lines:
    """The three functions of the interface."""
    program = scope.program
    inputs = [scope.buffer(name) for name in program.inputs]
    outputs = [scope.buffer(name) for name in program.outputs]
    named = {*program.inputs, *program.outputs}
    rest = [scope.buffer(b.name) for b in program.buffers if b.name not in named]
    parameters = [buffer for buffer in rest if buffer.is_param]
    internal = sorted((b for b in rest if not b.is_param), key=lambda b: (b.first, b.name))
    return [
        *_function(scope, "Input", inputs, parameters),
        *_function(scope, "Output", outputs, []),
        *_function(scope, "Internal", [], internal),
    ]


def _function(scope: Scope, kind: str, always: list[Buffer], debug: list[Buffer]) -> Lines:
    """Entries that only debugging needs may be left out by the user's build."""
    names = [f"{kind.lower()}_{number}" for number in range(len(always) + len(debug))]
    first, second = names[: len(always)], names[len(always) :]
    return [
        f"const LL_Buffer_InfoTypeDef *LL_ATON_{kind}_Buffers_Info_{scope.network}(void)",
        "{",
        *_arrays(first, always),
        *_guarded(_arrays(second, debug)),
        *scope.in_ram(_table(scope, (first, always), (second, debug))),
        "  return buff_info;",
        "}",
        "",
    ]


Named = tuple[list[str], list[Buffer]]


def _table(scope: Scope, always: Named, debug: Named) -> Lines:
    return [
        "  static const LL_Buffer_InfoTypeDef buff_info[] = {",
        *_entries(scope, *always),
        *_guarded(_entries(scope, *debug)),
        "    { .name = NULL },",
        "  };",
    ]


def _guarded(lines: Lines) -> Lines:
    return [_DEBUG_ONLY, *lines, "#endif"] if lines else []


def _arrays(names: list[str], buffers: list[Buffer]) -> Lines:
    return [line for name, b in zip(names, buffers, strict=True) for line in buffer_arrays(name, b)]


def _entries(scope: Scope, names: list[str], buffers: list[Buffer]) -> Lines:
    return [
        line
        for name, b in zip(names, buffers, strict=True)
        for line in buffer_entry(scope, name, b)
    ]


def buffer_arrays(name: str, buffer: Buffer) -> Lines:
    """Shape, shape in memory, scales and offsets that a table entry points to."""
    lines = [
        array("uint32_t", f"{name}_shape", [str(n) for n in full_shape(buffer)]),
        array("uint32_t", f"{name}_mem_shape", [str(n) for n in memory_shape(buffer)]),
    ]
    if buffer.quant is not None:
        # Without the suffix: the vendor's profiler reads these as plain numbers.
        scales = [float_text(scale).removesuffix("f") for scale in buffer.quant.scales]
        offsets = [str(int(zero)) for zero in buffer.quant.zero_points]
        lines.append(array("float", f"{name}_quant_scale", scales))
        lines.append(array("int16_t", f"{name}_quant_offset", offsets))
    return lines


def buffer_entry(scope: Scope, name: str, buffer: Buffer) -> Lines:
    """One entry of a table."""
    values = {**_place(scope, buffer), **_shape(name, buffer), **_type(name, buffer)}
    return ["    {", *(f"      .{n} = {values[n]}," for n in BUFFER_FIELDS), "    },"]


def _place(scope: Scope, buffer: Buffer) -> dict[str, str]:
    return {
        "name": c_string(buffer.name),
        "addr_base": scope.base(buffer),
        "offset_start": str(buffer.offset),
        "offset_end": str(buffer.offset + buffer.size_bytes),
        "offset_limit": str(scope.limit(buffer)),
        "is_user_allocated": "0",
        "is_param": str(int(buffer.is_param)),
        "epoch": str(0 if buffer.is_param else buffer.first),
    }


def _shape(name: str, buffer: Buffer) -> dict[str, str]:
    position = channel_position(buffer)
    return {
        "batch": str(buffer.batch),
        "mem_shape": f"{name}_mem_shape",
        "mem_ndims": str(len(memory_shape(buffer))),
        "chpos": f"{CHPOS_PREFIX}{position.name}",
        "ndims": str(len(full_shape(buffer))),
        "shape": f"{name}_shape",
    }


def _type(name: str, buffer: Buffer) -> dict[str, str]:
    unsigned = int(not buffer.signed and not buffer.is_float)
    quant = buffer.quant
    return {
        "Qm": str(0 if buffer.is_float else buffer.nbits - 1 + unsigned),
        "Qn": "0",
        "Qunsigned": str(unsigned),
        "type": data_type(buffer),
        "nbits": str(buffer.nbits),
        "per_channel": str(int(quant is not None and len(quant.scales) > 1)),
        "scale": f"{name}_quant_scale" if quant else "NULL",
        "offset": f"{name}_quant_offset" if quant else "NULL",
    }


def data_type(buffer: Buffer) -> str:
    sign = "signed" if buffer.signed else "unsigned"
    return DATA_TYPES.get(("float" if buffer.is_float else sign, buffer.nbits), "DataType_FXP")


def full_shape(buffer: Buffer) -> tuple[int, ...]:
    """At least four dimensions (N, H, W, C): (N, C) gets its ones in the middle."""
    shape = buffer.shape or (1,)
    missing = max(0, _RANK - len(shape))
    head = shape[:1] if len(shape) > 1 else ()
    return (*head, *([1] * missing), *shape[len(head) :])


def memory_shape(buffer: Buffer) -> tuple[int, ...]:
    """Dimensions in the order in which the bytes lie."""
    shape, position = buffer.shape or (1,), channel_position(buffer)
    if position is ChannelPosition.First:
        return (shape[0], shape[-1], *shape[1:-1])
    if position is ChannelPosition.Mixed:
        return (shape[0], shape[-1] // buffer.batch, *shape[1:-1], buffer.batch)
    return shape


def channel_position(buffer: Buffer) -> ChannelPosition:
    """Channel-last is what a vector has too; blocks of channels are a mixture."""
    if len(buffer.shape) < 2:
        return ChannelPosition.UNDEFINED
    if not 0 < buffer.batch < buffer.channels:
        return ChannelPosition.Last
    return ChannelPosition.First if buffer.batch == 1 else ChannelPosition.Mixed
