"""Tables of buffers, and the arguments of software kernels: tensors, quantization, parameters."""

from __future__ import annotations

from math import prod

from msgspec import Struct, field

from npuscope.program.model import Buffer, Call
from npuscope.program.network_c.layout import (
    AXIS_NOTE,
    BUFFER_FIELDS,
    CHPOS_PREFIX,
    DATA_TYPES,
    KERNEL_PREFIX,
    ChannelPosition,
)
from npuscope.program.network_c.writer_scope import Lines, Scope, array, float_text
from npuscope.program.units import Ref
from npuscope.structs import replace
from npuscope.text import c_string

# Buffer tables: inputs with the parameters behind them, outputs, and all that is between.

_DEBUG_ONLY = "#if LL_ATON_DBG_BUFFER_INFO_EXCLUDED == 0"
_RANK = 4


def buffer_tables(scope: Scope) -> Lines:
    """The three functions of the interface."""
    program = scope.program
    inputs = [scope.buffer(name) for name in program.inputs]
    outputs = [scope.buffer(name) for name in program.outputs]
    interface = {*program.inputs, *program.outputs}
    rest = [scope.buffer(b.name) for b in program.buffers if b.name not in interface]
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
    axis = buffer.quant.axis if buffer.quant else None
    notes = {"per_channel": f" /* {AXIS_NOTE}{axis} */"} if axis is not None else {}
    fields = (f"      .{name} = {values[name]},{notes.get(name, '')}" for name in BUFFER_FIELDS)
    return ["    {", *fields, "    },"]


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
        "mem_ndims": str(len(memory_shape(buffer)) if buffer.shape else 0),
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
        "per_channel": str(int(quant is not None and quant.per_channel)),
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


# Arguments of software kernels: tensors, their quantization and parameters, as struct fields.

_TENSOR_RANK = 4
# Axes (N, H, W, C) as the kernels number them: (N, C, H, W).
_ONNX_AXES = (0, 2, 3, 1)
Argument = float | int | str | tuple[int, ...]


class NoLibraryKernel(Exception):
    """The library's kernel cannot take these arguments; the caller falls back."""


class SoftwareCall(Struct):
    """One kernel call in the making: the arrays it points to and the fields of its struct."""

    scope: Scope
    call: Call
    prefix: str  # starts the names of its arrays
    arrays: Lines = field(default_factory=list)
    fields: Lines = field(default_factory=list)

    def set(self, name: str, value: object) -> None:
        self.fields.append(f"    .{name} = {value},")

    def numbers(self, name: str, values: tuple[int, ...]) -> None:
        self.set(name, "{" + ", ".join(str(value) for value in values) + "}")

    def arg(self, name: str) -> Argument:
        arguments = dict(self.call.args)
        if name not in arguments:
            raise NoLibraryKernel(name)
        return arguments[name]

    def pair(self, name: str) -> tuple[int, ...]:
        value = self.arg(name)
        if not isinstance(value, tuple):
            raise NoLibraryKernel(name)
        return value

    def number(self, name: str) -> float:
        value = self.arg(name)
        if isinstance(value, str | tuple):
            raise NoLibraryKernel(name)
        return float(value)

    def buffer(self, index: int) -> Buffer:
        names = [name for name in self.call.inputs if name]
        if index >= len(names):
            raise NoLibraryKernel("operand")
        return self.scope.buffer(names[index])

    @property
    def output(self) -> Buffer:
        return self.scope.buffer(self.call.outputs[0])

    def general(self, node: str) -> None:
        """Node kind, first input, output; the kernels have no fused activation."""
        if dict(self.call.args).get("activation", "none") != "none":
            raise NoLibraryKernel("activation")
        self.set("general.type", f"{KERNEL_PREFIX}{node}")
        self.tensor("general.input", self.buffer(0))
        self.tensor("general.output", self.output)

    def tensor(self, role: str, buffer: Buffer) -> None:
        shape = plain_shape(buffer)
        for letter, size in zip("bhwc", shape, strict=True):
            self.set(f"{role}.dim.tensor_{letter}", size)
        self.set(f"{role}.dim.num_elem", prod(shape))
        for letter, step in zip("bhwc", strides(buffer), strict=True):
            self.set(f"{role}.stride.{letter}", step)
        self.set(f"{role}.mem.start_offset", self.scope.address(Ref(buffer.name)))
        self.set(f"{role}.format.is_signed", int(buffer.signed))

    def operand(self) -> Buffer:
        """The second input, with as many dimensions as the output: ones come in front."""
        buffer = self.buffer(1)
        missing = len(self.output.shape) - len(buffer.shape)
        aligned = replace(buffer, shape=(1,) * missing + buffer.shape)
        self.tensor("operand", aligned)
        return buffer

    def quantization(self, scale_role: str, zero_role: str, buffer: Buffer) -> None:
        """Scales and zero points lie in arrays of their own."""
        if buffer.quant is None or buffer.nbits != 8:
            raise NoLibraryKernel("quantization")
        name = f"{self.prefix}_{scale_role}"
        kind = "int8_t" if buffer.signed else "uint8_t"
        scales = [float_text(scale) for scale in buffer.quant.scales]
        zeros = [str(int(zero)) for zero in buffer.quant.zero_points]
        self.values(scale_role, array("float", name, scales), name, len(scales), buffer.signed)
        name = f"{self.prefix}_{zero_role}"
        self.values(zero_role, array(kind, name, zeros), name, len(zeros), buffer.signed)

    def values(self, role: str, declaration: str, name: str, count: int, signed: bool) -> None:
        """A tensor that is an array of the source itself."""
        self.arrays.append(declaration)
        self.set(f"{role}.mem.start_offset", f"(unsigned char *){name}")
        self.set(f"{role}.format.is_signed", int(signed))
        self.set(f"{role}.dim.num_elem", count)

    def scratch(self, type_name: str, count: int, element: int) -> None:
        """Working memory of the kernel, which the program's plan does not hold."""
        name = f"{self.prefix}_scratch"
        declaration = f"  static {type_name} {name}[{count}];"
        self.values("scratch", declaration, name, count, True)
        for letter, size in zip("bhwc", (1, 1, 1, count), strict=True):
            self.set(f"scratch.dim.tensor_{letter}", size)
        for letter, step in zip("bhwc", (count * element,) * 2 + (element,) * 2, strict=True):
            self.set(f"scratch.stride.{letter}", step)


def onnx_axis(axis: int, buffer: Buffer) -> int:
    """An axis of a channel-last shape in the order (N, C, H, W)."""
    if len(buffer.shape) > _TENSOR_RANK:
        raise NoLibraryKernel("rank")
    axis %= max(1, len(buffer.shape))
    missing = max(0, _TENSOR_RANK - len(buffer.shape))
    leading = axis == 0 and len(buffer.shape) > 1
    return _ONNX_AXES[axis if leading else axis + missing]


def plain_shape(buffer: Buffer) -> tuple[int, ...]:
    shape = full_shape(buffer)
    if len(shape) != _TENSOR_RANK:
        raise NoLibraryKernel("rank")
    return shape


def strides(buffer: Buffer) -> tuple[int, int, int, int]:
    """Bytes between neighbours along (N, H, W, C)."""
    _, height, width, channels = plain_shape(buffer)
    element = buffer.nbits // 8
    image = height * width * channels * element
    position = channel_position(buffer)
    if position is ChannelPosition.First:
        return image, width * element, element, height * width * element
    if position is ChannelPosition.Mixed:
        raise NoLibraryKernel("layout")
    return image, width * channels * element, channels * element, element


def is_float(call: SoftwareCall) -> bool:
    """Whether input and output are float; a mixture has no kernel."""
    kinds = {call.buffer(0).is_float, call.output.is_float}
    if len(kinds) > 1:
        raise NoLibraryKernel("types")
    return kinds.pop()


def only_float(call: SoftwareCall) -> None:
    if not is_float(call):
        raise NoLibraryKernel("types")


def both_quantized(call: SoftwareCall) -> None:
    call.quantization("is", "izp", call.buffer(0))
    call.quantization("os", "ozp", call.output)
