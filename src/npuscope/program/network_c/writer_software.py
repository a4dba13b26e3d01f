"""Arguments of software kernels: tensors, their quantization and parameters, as struct fields."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from npuscope.program.model import Buffer, Call
from npuscope.program.network_c.layout import ChannelPosition
from npuscope.program.network_c.writer_buffers import channel_position, full_shape
from npuscope.program.network_c.writer_scope import Lines, Scope, array, float_text
from npuscope.program.units import Ref

_RANK = 4
# Axes (N, H, W, C) as the kernels number them: (N, C, H, W).
_ONNX_AXES = (0, 2, 3, 1)
Argument = float | int | str | tuple[int, ...]


class NoKernel(Exception):
    """The library's kernel cannot take these arguments; the caller falls back."""


@dataclass(slots=True)
class SoftwareCall:
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
            raise NoKernel(name)
        return arguments[name]

    def pair(self, name: str) -> tuple[int, ...]:
        value = self.arg(name)
        if not isinstance(value, tuple):
            raise NoKernel(name)
        return value

    def number(self, name: str) -> float:
        value = self.arg(name)
        if isinstance(value, str | tuple):
            raise NoKernel(name)
        return float(value)

    def buffer(self, index: int) -> Buffer:
        names = [name for name in self.call.inputs if name]
        if index >= len(names):
            raise NoKernel("operand")
        return self.scope.buffer(names[index])

    @property
    def output(self) -> Buffer:
        return self.scope.buffer(self.call.outputs[0])

    def general(self, node: str) -> None:
        """Node kind, first input, output; the kernels have no fused activation."""
        if dict(self.call.args).get("activation", "none") != "none":
            raise NoKernel("activation")
        self.set("general.type", f"LL_SW_{node}")
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
            raise NoKernel("quantization")
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
    if len(buffer.shape) > _RANK:
        raise NoKernel("rank")
    axis %= max(1, len(buffer.shape))
    missing = max(0, _RANK - len(buffer.shape))
    leading = axis == 0 and len(buffer.shape) > 1
    return _ONNX_AXES[axis if leading else axis + missing]


def plain_shape(buffer: Buffer) -> tuple[int, ...]:
    shape = full_shape(buffer)
    if len(shape) != _RANK:
        raise NoKernel("rank")
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
        raise NoKernel("layout")
    return image, width * channels * element, channels * element, element


def is_float(call: SoftwareCall) -> bool:
    """Whether input and output are float; a mixture has no kernel."""
    kinds = {call.buffer(0).is_float, call.output.is_float}
    if len(kinds) > 1:
        raise NoKernel("types")
    return kinds.pop()


def only_float(call: SoftwareCall) -> None:
    if not is_float(call):
        raise NoKernel("types")


def both_quantized(call: SoftwareCall) -> None:
    call.quantization("is", "izp", call.buffer(0))
    call.quantization("os", "ozp", call.output)
