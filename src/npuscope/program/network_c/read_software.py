"""Software kernels of network.c (`ll_sw_forward_*`) as Calls on views of buffers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import field
from math import prod

from npuscope.errors import FileError
from npuscope.graph.model import Quant
from npuscope.lean_dataclass import dataclass, replace
from npuscope.program.addresses import AddressMap
from npuscope.program.model import Buffer, Call
from npuscope.program.network_c.parse_source import Declaration
from npuscope.program.network_c.parse_values import Struct, Value
from npuscope.program.network_c.read_head import Pools, address_of

Arg = float | int | str | tuple[int, ...]
# Axes of an ONNX tensor (N, C, H, W) -> of ours (N, H, W, C).
AXES = {0: 0, 1: 3, 2: 1, 3: 2}


@dataclass(frozen=True, slots=True)
class Images:
    """Bytes of the pools that hold parameters, by pool name."""

    pools: Pools
    data: Mapping[str, bytes]

    def read(self, address: int, count: int) -> bytes | None:
        pool = self.pools.locate(address)
        offset = address - pool.address
        found = self.data.get(pool.name, b"")[offset : offset + count]
        return found if len(found) == count else None


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operand: dimensions and byte steps in the order (N, H, W, C)."""

    shape: tuple[int, int, int, int]
    steps: tuple[int, int, int, int]
    address: int
    signed: bool


def tensor(info: Struct, prefix: str) -> Tensor | None:
    """The fields below a prefix such as `general.input`."""
    found = info.fields.get(f"{prefix}.mem.start_offset")
    address = address_of(found) if found is not None else 0
    if not address:
        return None
    shape = tuple(integer(info, f"{prefix}.dim.tensor_{axis}") or 1 for axis in "bhwc")
    steps = tuple(integer(info, f"{prefix}.stride.{axis}") for axis in "bhwc")
    signed = bool(integer(info, f"{prefix}.format.is_signed"))
    if prod(shape) < (count := integer(info, f"{prefix}.dim.num_elem")):
        shape = (1, 1, 1, count)
    return Tensor(shape, steps, address, signed)  # type: ignore[arg-type]


def integer(info: Struct, name: str) -> int:
    """A whole number of the struct; a field that is absent is 0, as in C."""
    value = info.fields.get(name, 0)
    return value if isinstance(value, int) else 0


@dataclass(slots=True)
class SoftwareReader:
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
        names = [self._bytes(side, n) if side else "" for n, side in enumerate(sides)]
        return Call(name, (names[0],), (names[1],))

    def _bytes(self, of: Tensor, number: int) -> str:
        """An operand of unknown type, as so many bytes."""
        element = min((step for step in of.steps if step), default=1)
        flat = Tensor((1, 1, 1, prod(of.shape) * element), (0, 0, 0, 1), of.address, False)
        return self.view(flat, 8, False, None, number)

    def vector(self, info: Struct, prefix: str, number: int) -> str:
        """A float operand of one axis."""
        found = tensor(info, prefix)
        if found is None:
            raise FileError(f"the operand '{prefix}' has no address", where=f"epoch {self.epoch}")
        name = self.view(found, 32, True, None, number)
        self.views[-1] = replace(self.views[-1], shape=(prod(found.shape),))
        return name

    def view(self, of: Tensor, nbits: int, is_float: bool, quant: Quant | None, number: int) -> str:
        """A buffer that sees the operand as the kernel does; it owns no memory."""
        size = prod(of.shape) * nbits // 8
        pool = self.pools.locate(of.address, size)
        name = f"epoch_{self.epoch}.{number}"
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
                view_of=self.places.ref(of.address, self.epoch).buffer,
                is_param=not pool.writable,
            )
        )
        return name

    def operand(self, info: Struct, prefix: str, number: int, quant: Quant | None = None) -> str:
        found = tensor(info, prefix)
        if found is None:
            raise FileError(f"the operand '{prefix}' has no address", where=f"epoch {self.epoch}")
        is_float = quant is None
        return self.view(found, 32 if is_float else _integer_bits(found), is_float, quant, number)

    def quant(self, info: Struct, scale: str, zero: str) -> Quant:
        """Scale and zero point: in the parameter image, or in arrays beside the call."""
        whose = tensor(info, _OWNERS[zero])
        code = "<h" if whose and _integer_bits(whose) == 16 else "b"
        scales, zeros = self._numbers(info, scale, "<f"), self._numbers(info, zero, code)
        return Quant((float(scales),), (int(zeros),))

    def _numbers(self, info: Struct, name: str, code: str) -> float:
        value = info.fields.get(f"{name}.mem.start_offset")
        if isinstance(value, str) and value in self.arrays:
            content = self.arrays[value].value
            first = content[0] if isinstance(content, list) and content else None
            return first if isinstance(first, int | float) else 0.0
        found = tensor(info, name)
        if found is None:
            raise FileError(f"'{name}' is missing", where=f"epoch {self.epoch}")
        code = code if code == "<f" or found.signed else code.upper()
        raw = self.images.read(found.address, struct.calcsize(code))
        # Without the image there is nothing to execute, so the numbers do not matter.
        return float(struct.unpack(code, raw)[0]) if raw else float(code == "<f")


# Zero points -> the operand that they belong to.
_OWNERS = {"izp": "general.input", "ozp": "general.output", "operand_zp": "operand"}


def _integer_bits(of: Tensor) -> int:
    """Integers have 16 bits where neighbours lie two bytes apart, else 8."""
    steps = [step for size, step in zip(of.shape, of.steps, strict=True) if size > 1 and step]
    return 16 if min(steps, default=1) == 2 else 8


def _batch(of: Tensor, element: int) -> int:
    """Channels stored together, from the byte steps."""
    _, height, width, channels = of.shape
    if channels == 1 or height * width == 1 or not any(of.steps):
        return channels
    if of.steps[3] == element and of.steps[2] == channels * element:
        return channels
    if of.steps[3] == height * width * element:
        return 1
    raise FileError(f"operand with byte steps {of.steps} for shape {of.shape}: layout not known")


Maker = Callable[[SoftwareReader, Struct], Call]
_LITERT: tuple[tuple[str, Arg], ...] = (("numerics", "litert"),)


def _quantize(reader: SoftwareReader, info: Struct) -> Call:
    source = reader.operand(info, "general.input", 0)
    target = reader.operand(info, "general.output", 1, reader.quant(info, "os", "ozp"))
    return Call("Quantize", (source,), (target,), (("numerics", "qdq"),))


def _dequantize(reader: SoftwareReader, info: Struct) -> Call:
    source = reader.operand(info, "general.input", 0, reader.quant(info, "is", "izp"))
    target = reader.operand(info, "general.output", 1)
    return Call("Dequantize", (source,), (target,), (("numerics", "qdq"),))


def _softmax(reader: SoftwareReader, info: Struct, quantized: bool) -> Call:
    quants = [reader.quant(info, f"{side}s", f"{side}zp") for side in "io"] if quantized else []
    source = reader.operand(info, "general.input", 0, quants[0] if quants else None)
    target = reader.operand(info, "general.output", 1, quants[1] if quants else None)
    axis = AXES.get(integer(info, "axis"), 3)
    return Call("Softmax", (source,), (target,), (("axis", axis), ("beta", 1.0), *_LITERT))


# Kinds of `general.type` -> our op of one operand.
FUNCTIONS = {
    "LL_SW_SIGMOID": "Sigmoid",
    "LL_SW_TANH": "Tanh",
    "LL_SW_HARDSWISH": "HardSwish",
    "LL_SW_SQRT": "Sqrt",
    "LL_SW_EXP": "Exp",
    "LL_SW_LOG": "Log",
    "LL_SW_ABS": "Abs",
    "LL_SW_NEG": "Neg",
    "LL_SW_RECIPROCAL": "Reciprocal",
    "LL_SW_ERF": "Erf",
    "LL_SW_FLOOR": "Floor",
    "LL_SW_CEIL": "Ceil",
    "LL_SW_SOFTPLUS": "Softplus",
}
BINARY = {
    "LL_SW_ARITHADD": "Add",
    "LL_SW_ARITHSUM": "Add",
    "LL_SW_ARITHSUB": "Sub",
    "LL_SW_ARITHMUL": "Mul",
    "LL_SW_ARITHDIV": "Div",
    "LL_SW_MIN": "Min",
    "LL_SW_MAX": "Max",
    "LL_SW_POW": "Pow",
}
# Functions with numbers of their own: our op, and (our argument, their field).
_SHAPED = {
    "LL_SW_HARDSIGMOID": ("HardSigmoid", (("alpha", "alpha"), ("beta", "beta"))),
    "LL_SW_LEAKYRELU": ("LeakyRelu", (("alpha", "alpha"),)),
    "LL_SW_ELU": ("Elu", (("alpha", "alpha"),)),
}
_HIGHEST = 3.4028234663852886e38


def _activ(reader: SoftwareReader, info: Struct) -> Call:
    kind = str(info.fields.get("general.type", ""))
    source = reader.operand(info, "general.input", 0)
    target = reader.operand(info, "general.output", 1)
    args: tuple[tuple[str, Arg], ...] = _LITERT
    if kind == "LL_SW_RELU":
        args = (("low", 0.0), ("high", _HIGHEST), *args)
        return Call("Clip", (source,), (target,), args)
    if kind == "LL_SW_CLIP":
        args = (("low", _float(info, "min")), ("high", _float(info, "max")), *args)
        return Call("Clip", (source,), (target,), args)
    if kind in _SHAPED:
        kernel, fields = _SHAPED[kind]
        args = (*((ours, _float(info, theirs)) for ours, theirs in fields), *args)
        return Call(kernel, (source,), (target,), args)
    if kind == "LL_SW_PRELU":
        return Call("PRelu", (source, reader.operand(info, "operand", 2)), (target,), args)
    return Call(FUNCTIONS.get(kind, kind), (source,), (target,), args)


def _arith(reader: SoftwareReader, info: Struct) -> Call:
    kind = str(info.fields.get("general.type", ""))
    operands = ("general.input", "operand") if tensor(info, "operand") else ("general.input",)
    sources = tuple(reader.operand(info, name, n) for n, name in enumerate(operands))
    target = reader.operand(info, "general.output", 9)
    return Call(BINARY.get(kind, kind), sources, (target,), _LITERT)


def _float(info: Struct, name: str) -> float:
    value: Value = info.fields.get(name, 0.0)
    return float(value) if isinstance(value, int | float) else 0.0


KERNELS: dict[str, Maker] = {
    "quantizelinear": _quantize,
    "dequantizelinear": _dequantize,
    "softmax_integer": lambda reader, info: _softmax(reader, info, True),
    "softmax": lambda reader, info: _softmax(reader, info, False),
    "activ": _activ,
    "arith": _arith,
}


_COORDINATES = {
    "ASYMMETRIC": "asymmetric",
    "HALF_PIXEL": "half_pixel",
    "PYTORCH_HALF_PIXEL": "pytorch_half_pixel",
    "ALIGN_CORNERS": "align_corners",
    "TF_HALF_PIXEL_FOR_NN": "tf_half_pixel_for_nn",
}
_ROUNDINGS = {
    "FLOOR": "floor",
    "CEIL": "ceil",
    "ROUND_PREFER_FLOOR": "round_prefer_floor",
    "ROUND_PREFER_CEIL": "round_prefer_ceil",
}
_NUMERICS = ("numerics", "litert")


def _ends(reader: SoftwareReader, info: Struct, quantized: bool) -> tuple[str, str]:
    """The first input and the output, float or with their scales."""
    quants: list[Quant | None] = [None, None]
    if quantized:
        quants = [reader.quant(info, f"{side}s", f"{side}zp") for side in "io"]
    source = reader.operand(info, "general.input", 0, quants[0])
    return source, reader.operand(info, "general.output", 9, quants[1])


def _kind(info: Struct) -> str:
    return str(info.fields.get("general.type", ""))


def _numbers(info: Struct, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    value = info.fields.get(name)
    found = tuple(n for n in value if isinstance(n, int)) if isinstance(value, list) else ()
    return found or default


def _pool(quantized: bool) -> Maker:
    def make(reader: SoftwareReader, info: Struct) -> Call:
        source, target = _ends(reader, info, quantized)
        args = (
            ("window", _numbers(info, "k_shape", (1, 1))[:2]),
            ("strides", _numbers(info, "strides", (1, 1))[:2]),
            ("pads", _numbers(info, "pads", (0, 0, 0, 0))[:4]),
            ("count_pads", integer(info, "count_include_pad")),
            _NUMERICS,
        )
        kernel = "MaxPool" if _kind(info) == "LL_SW_MAXPOOL" else "AveragePool"
        return Call(kernel, (source,), (target,), args)

    return make


def _global_pool(quantized: bool) -> Maker:
    def make(reader: SoftwareReader, info: Struct) -> Call:
        source, target = _ends(reader, info, quantized)
        args = (("axes", (1, 2)), ("keep_dims", 1), _NUMERICS)
        kernel = "ReduceMax" if _kind(info) == "LL_SW_MAXPOOL" else "Mean"
        return Call(kernel, (source,), (target,), args)

    return make


def _resize(quantized: bool) -> Maker:
    def make(reader: SoftwareReader, info: Struct) -> Call:
        source, target = _ends(reader, info, quantized)
        before, after = tensor(info, "general.input"), tensor(info, "general.output")
        assert before is not None and after is not None  # _ends made views of them
        sizes = after.shape[1:3]
        ratios = tuple(a / b for a, b in zip(sizes, before.shape[1:3], strict=True))
        linear = info.fields.get("mode") == "RESIZE_LINEAR"
        coordinates = str(info.fields.get("coord_transf_mode", "HALF_PIXEL"))
        rounding = str(info.fields.get("nearest_mode", "ROUND_PREFER_FLOOR"))
        args = (
            ("sizes", sizes),
            ("scales", ratios),
            ("mode", "linear" if linear else "nearest"),
            ("coordinates", _COORDINATES.get(coordinates, coordinates)),
            ("rounding", _ROUNDINGS.get(rounding, rounding)),
            _NUMERICS,
        )
        return Call("Resize", (source,), (target,), args)  # type: ignore[arg-type]

    return make


def _conv(reader: SoftwareReader, info: Struct) -> Call:
    source, target = _ends(reader, info, False)
    inputs = [source, reader.operand(info, "weights", 1)]
    if tensor(info, "bias") is not None:
        inputs.append(reader.vector(info, "bias", 2))
    args = (
        ("strides", _numbers(info, "strides", (1, 1))[:2]),
        ("pads", _numbers(info, "pads", (0, 0, 0, 0))[:4]),
        ("dilations", _numbers(info, "dilations", (1, 1))[:2]),
        ("groups", integer(info, "ngroup") or 1),
        _NUMERICS,
    )
    return Call("Conv2D", tuple(inputs), (target,), args)


def _activ_integer(reader: SoftwareReader, info: Struct) -> Call:
    source, target = _ends(reader, info, True)
    kind = _kind(info)
    return Call(FUNCTIONS.get(kind, kind), (source,), (target,), (_NUMERICS,))


def _eltwise_integer(reader: SoftwareReader, info: Struct) -> Call:
    source, target = _ends(reader, info, True)
    other = reader.operand(info, "operand", 1, reader.quant(info, "operand_s", "operand_zp"))
    kind = _kind(info)
    return Call(BINARY.get(kind, kind), (source, other), (target,), (_NUMERICS,))


LAYERS: dict[str, Maker] = {
    "pool": _pool(False),
    "pool_integer": _pool(True),
    "global_pool": _global_pool(False),
    "global_pool_integer": _global_pool(True),
    "resize": _resize(False),
    "resize_integer": _resize(True),
    "conv": _conv,
    "activ_integer": _activ_integer,
    "eltwise_integer": _eltwise_integer,
}
