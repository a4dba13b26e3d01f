"""Operands of software kernels (`ll_sw_forward_*`) as views of buffers."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import prod

import msgspec
import numpy as np
from msgspec import field

from npuscope.errors import FileError
from npuscope.graph.model import Quant
from npuscope.program.addresses import AddressMap
from npuscope.program.model import Buffer, Call
from npuscope.program.network_c.c_values import Struct
from npuscope.program.network_c.parse_source import Declaration
from npuscope.program.network_c.read_head import Pools, address_of
from npuscope.structs import replace

# Axes of an ONNX tensor (N, C, H, W) -> of ours (N, H, W, C).
AXES = {0: 0, 1: 3, 2: 1, 3: 2}


class Images(msgspec.Struct, frozen=True):
    """Bytes of the pools that hold parameters, by pool name."""

    pools: Pools
    data: Mapping[str, bytes]

    def read(self, address: int, count: int) -> bytes | None:
        pool = self.pools.locate(address)
        offset = address - pool.address
        data = self.data.get(pool.name, b"")[offset : offset + count]
        return data if len(data) == count else None


class OperandPlace(msgspec.Struct, frozen=True):
    """An operand: dimensions and byte steps in the order (N, H, W, C)."""

    shape: tuple[int, int, int, int]
    steps: tuple[int, int, int, int]
    address: int
    signed: bool


def tensor(info: Struct, prefix: str) -> OperandPlace | None:
    """The fields below a prefix such as `general.input`."""
    start = info.fields.get(f"{prefix}.mem.start_offset")
    address = address_of(start) if start is not None else 0
    if not address:
        return None
    shape = tuple(integer(info, f"{prefix}.dim.tensor_{axis}") or 1 for axis in "bhwc")
    steps = tuple(integer(info, f"{prefix}.stride.{axis}") for axis in "bhwc")
    signed = bool(integer(info, f"{prefix}.format.is_signed"))
    if prod(shape) < (count := integer(info, f"{prefix}.dim.num_elem")):
        shape = (1, 1, 1, count)
    return OperandPlace(shape, steps, address, signed)  # type: ignore[arg-type]


def integer(info: Struct, name: str) -> int:
    """A whole number of the struct; a field that is absent is 0, as in C."""
    value = info.fields.get(name, 0)
    return value if isinstance(value, int) else 0


class SoftwareReader(msgspec.Struct):
    """Makes the call of one epoch, and the views it works on."""

    places: AddressMap
    pools: Pools
    images: Images
    epoch: int
    arrays: dict[str, Declaration]  # of the function the kernel is called in
    views: list[Buffer] = field(default_factory=list)

    def unknown(self, name: str, info: Struct) -> Call:
        """A kernel that is not known keeps its name: it is refused when it is executed."""
        sides = [tensor(info, f"general.{side}") for side in ("input", "output")]
        source, target = ((self._bytes(side, n),) if side else () for n, side in enumerate(sides))
        return Call(name, source, target)

    def _bytes(self, of: OperandPlace, number: int) -> str:
        """An operand of unknown type, as so many bytes."""
        element = min((step for step in of.steps if step), default=1)
        flat = OperandPlace((1, 1, 1, prod(of.shape) * element), (0, 0, 0, 1), of.address, False)
        return self.view(flat, 8, False, None, number)

    def vector(self, info: Struct, prefix: str, number: int, quant: Quant | None = None) -> str:
        """An operand of 32 bits with one axis: floats, or sums with a scale."""
        place = self._known(info, prefix)
        name = self.view(place, 32, quant is None, quant, number)
        self.views[-1] = replace(self.views[-1], shape=(prod(place.shape),))
        return name

    def places_of_values(self, info: Struct, prefix: str, number: int) -> str:
        """An operand of 32-bit integers with one axis: which values another one gives."""
        place = self._known(info, prefix)
        name = self.view(place, 32, False, None, number)
        self.views[-1] = replace(self.views[-1], shape=(prod(place.shape),))
        return name

    def view(
        self, of: OperandPlace, nbits: int, is_float: bool, quant: Quant | None, number: int
    ) -> str:
        """A buffer that sees the operand as the kernel does; it owns no memory."""
        size = prod(of.shape) * nbits // 8
        pool = self.pools.locate(of.address, size)
        name = f"epoch_{self.epoch}.{number}"
        home = self.places.ref(of.address, self.epoch).buffer
        self.views.append(
            Buffer(
                name,
                size,
                of.shape,
                nbits,
                _batch(of, nbits // 8),
                pool=pool.name,
                offset=of.address - pool.address,
                first=self.epoch,
                last=self.epoch,
                is_float=is_float,
                signed=of.signed or is_float,
                quant=quant,
                view_of=home,
                is_param=not pool.writable or self.places.is_param(home),
            )
        )
        return name

    def operand(self, info: Struct, prefix: str, number: int, quant: Quant | None = None) -> str:
        place = self._known(info, prefix)
        is_float = quant is None
        return self.view(place, 32 if is_float else _integer_bits(place), is_float, quant, number)

    def _known(self, info: Struct, prefix: str) -> OperandPlace:
        place = tensor(info, prefix)
        if place is None:
            raise FileError(f"the operand '{prefix}' has no address", where=f"epoch {self.epoch}")
        return place

    def quant(self, info: Struct, scale: str, zero: str) -> Quant:
        """Scales and zero points: in the parameter image, or in arrays beside the call. Several
        are those of the first axis, which has the outputs of weights."""
        whose = tensor(info, _OWNERS[zero])
        code = "<h" if whose and _integer_bits(whose) == 16 else "b"
        if scale in ("is", "os") and _shifted(info):
            scale, zero = "izp", scale
        scales, zeros = self.numbers(info, scale, "<f"), self.numbers(info, zero, code)
        zeros = zeros if len(zeros) == len(scales) else zeros[:1] * len(scales)
        return Quant(scales, tuple(map(int, zeros)), 0 if len(scales) > 1 else None)

    def numbers(self, info: Struct, name: str, code: str) -> tuple[float, ...]:
        count = integer(info, f"{name}.dim.num_elem") or 1
        value = info.fields.get(f"{name}.mem.start_offset")
        if isinstance(value, str) and value in self.arrays:
            content = self.arrays[value].value
            stated = (
                [n for n in content if isinstance(n, int | float)]
                if isinstance(content, list)
                else []
            )
            return tuple(float(n) for n in np.asarray(stated, np.float32)) or (0.0,)
        place = tensor(info, name)
        if place is None:
            raise FileError(f"'{name}' is missing", where=f"epoch {self.epoch}")
        code = code if code == "<f" or place.signed else code.upper()
        raw = self.images.read(place.address, count * struct.calcsize(code))
        # Without the image there is nothing to execute, so the numbers do not matter.
        if raw is None:
            return (float(code == "<f"),)
        return tuple(float(n) for (n,) in struct.iter_unpack(code, raw))


def _shifted(info: Struct) -> bool:
    """A resize of later compilers states zero points as scales, and the one scale of both sides as
    the input's zero point."""
    names = ("is", "izp", "os", "ozp")
    return [name for name in names if f"{name}.mem.start_offset" in info.fields] == [*names[:3]]


# Zero points -> the operand that they belong to.
_OWNERS = {
    "izp": "general.input",
    "ozp": "general.output",
    "operand_zp": "operand",
    "wzp": "weights",
}


def _integer_bits(of: OperandPlace) -> int:
    """Integers have 16 bits where neighbours lie two bytes apart, else 8."""
    steps = [step for size, step in zip(of.shape, of.steps, strict=True) if size > 1 and step]
    return 16 if min(steps, default=1) == 2 else 8


def _batch(of: OperandPlace, element: int) -> int:
    """Channels stored together, from the byte steps."""
    _, height, width, channels = of.shape
    if channels == 1 or height * width == 1 or not any(of.steps):
        return channels
    if of.steps[3] == element and of.steps[2] == channels * element:
        return channels
    if of.steps[3] == height * width * element:
        return 1
    raise FileError(f"operand with byte steps {of.steps} for shape {of.shape}: unknown layout")
