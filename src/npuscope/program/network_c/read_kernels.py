"""Software kernels of other compilers' network.c as Calls: which op, and its arguments.

The library rounds as LiteRT does, whatever the model's runtime was; floats have no such choice.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from npuscope.graph.model import Quant
from npuscope.machine.npu_ops import support
from npuscope.program.model import Argument, Call
from npuscope.program.network_c.layout import (
    COORDINATE_WORDS,
    KERNEL_OPS,
    KERNEL_PREFIX,
    NEAREST_WORDS,
    SOFTMAX_DIFF_BITS,
)
from npuscope.program.network_c.parse_values import Struct
from npuscope.program.network_c.read_software import AXES, SoftwareReader, integer, tensor

Args = tuple[tuple[str, Argument], ...]
Maker = Callable[[SoftwareReader, Struct], Call]

_LITERT: Args = (("numerics", "litert"),)
_QDQ: Args = (("numerics", "qdq"),)
_COORDINATES = {word: name for name, word in COORDINATE_WORDS.items()}
_ROUNDINGS = {word: name for name, word in NEAREST_WORDS.items()}
_HIGHEST = 3.4028234663852886e38
_AS_ONE = 1e-6  # what the 31 bits of a multiplier leave of a factor of one


def read_kernel(reader: SoftwareReader, function: str, info: Struct) -> Call:
    name = function.removeprefix("ll_sw_forward_")
    make = KERNELS.get(name)
    return make(reader, info) if make else reader.unknown(name, info)


def _ends(reader: SoftwareReader, info: Struct, inner: bool, outer: bool) -> tuple[str, str]:
    """The first input and the output, each float or with its scale."""
    given = reader.quant(info, "is", "izp") if inner else None
    made = reader.quant(info, "os", "ozp") if outer else None
    source = reader.operand(info, "general.input", 0, given)
    return source, reader.operand(info, "general.output", 9, made)


def _conversion(
    kernel: str, inner: bool, outer: bool, numerics: Args, reader: SoftwareReader, info: Struct
) -> Call:
    source, target = _ends(reader, info, inner, outer)
    return Call(kernel, (source,), (target,), numerics)


def _softmax(quantized: bool, reader: SoftwareReader, info: Struct) -> Call:
    source, target = _ends(reader, info, quantized, quantized)
    axis = AXES.get(integer(info, "axis"), 3)
    beta = _beta(info, reader.quant(info, "is", "izp").scale) if quantized else 1.0
    return Call("Softmax", (source,), (target,), (("axis", axis), ("beta", beta), *_LITERT))


def _beta(info: Struct, scale: float) -> float:
    """The factor of the exponent, as the multiplier of differences holds it with the scale."""
    multiplier = integer(info, "quantized_multiplier") * 2.0 ** (integer(info, "left_shift") - 31)
    beta = multiplier / (scale * 2.0 ** (31 - SOFTMAX_DIFF_BITS)) if scale else 0.0
    return 1.0 if not beta or abs(beta - 1.0) < _AS_ONE else beta


def _function(quantized: bool, reader: SoftwareReader, info: Struct) -> Call:
    source, target = _ends(reader, info, quantized, quantized)
    word = _word(info)
    if word in ("RELU", "CLIP"):
        low, high = (
            (0.0, _HIGHEST) if word == "RELU" else (_float(info, "min"), _float(info, "max"))
        )
        return Call("Clip", (source,), (target,), (("low", low), ("high", high), *_LITERT))
    if word == "PRELU":
        slopes = reader.operand(info, "operand", 2, _second_quant(reader, info, quantized))
        return Call("PRelu", (source, slopes), (target,), _LITERT)
    kernel = _op(info)
    numbers = ((name, _float(info, name)) for name in support(kernel).numbers)
    return Call(kernel, (source,), (target,), (*numbers, *_LITERT))


def _arithmetic(quantized: bool, reader: SoftwareReader, info: Struct) -> Call:
    source, target = _ends(reader, info, quantized, quantized)
    if tensor(info, "operand") is None:
        return Call(_op(info), (source,), (target,), _LITERT)
    other = reader.operand(info, "operand", 1, _second_quant(reader, info, quantized))
    return Call(_op(info), (source, other), (target,), _LITERT)


def _second_quant(reader: SoftwareReader, info: Struct, quantized: bool) -> Quant | None:
    return reader.quant(info, "operand_s", "operand_zp") if quantized else None


def _pool(quantized: bool, reader: SoftwareReader, info: Struct) -> Call:
    source, target = _ends(reader, info, quantized, quantized)
    args: Args = (
        ("window", _numbers(info, "k_shape", (1, 1))[:2]),
        ("strides", _numbers(info, "strides", (1, 1))[:2]),
        ("pads", _numbers(info, "pads", (0, 0, 0, 0))[:4]),
        ("count_pads", integer(info, "count_include_pad")),
        *_LITERT,
    )
    kernel = "MaxPool" if _word(info) == "MAXPOOL" else "AveragePool"
    return Call(kernel, (source,), (target,), args)


def _global_pool(quantized: bool, reader: SoftwareReader, info: Struct) -> Call:
    source, target = _ends(reader, info, quantized, quantized)
    args: Args = (("axes", (1, 2)), ("keep_dims", 1), *_LITERT)
    kernel = "ReduceMax" if _word(info) == "MAXPOOL" else "Mean"
    return Call(kernel, (source,), (target,), args)


def _reduce(reader: SoftwareReader, info: Struct) -> Call:
    source, target = _ends(reader, info, False, False)
    args: Args = (("axes", (AXES.get(integer(info, "axis"), 3),)), ("keep_dims", 1), *_LITERT)
    return Call(_op(info), (source,), (target,), args)


def _resize(quantized: bool, reader: SoftwareReader, info: Struct) -> Call:
    source, target = _ends(reader, info, quantized, quantized)
    before, after = tensor(info, "general.input"), tensor(info, "general.output")
    assert before is not None and after is not None  # _ends made views of them
    sizes = after.shape[1:3]
    ratios = tuple(a / b for a, b in zip(sizes, before.shape[1:3], strict=True))
    stated = (
        reader.numbers(info, "scales", "<f") if "scales.mem.start_offset" in info.fields else ()
    )
    coordinates = str(info.fields.get("coord_transf_mode", "HALF_PIXEL"))
    rounding = str(info.fields.get("nearest_mode", "ROUND_PREFER_FLOOR"))
    args = (
        ("sizes", sizes),
        ("scales", stated[2:] if len(stated) == len(AXES) else ratios),
        ("mode", "linear" if info.fields.get("mode") == "RESIZE_LINEAR" else "nearest"),
        ("coordinates", _COORDINATES.get(coordinates, coordinates)),
        ("rounding", _ROUNDINGS.get(rounding, rounding)),
        *_LITERT,
    )
    return Call("Resize", (source,), (target,), args)  # type: ignore[arg-type]


def _conv(quantized: bool, reader: SoftwareReader, info: Struct) -> Call:
    source, target = _ends(reader, info, quantized, quantized)
    scales = reader.quant(info, "ws", "wzp") if quantized else None
    inputs = [source, reader.operand(info, "weights", 1, scales)]
    if tensor(info, "bias") is not None:
        sums = _sum_quant(reader.quant(info, "is", "izp"), scales) if scales else None
        inputs.append(reader.vector(info, "bias", 2, sums))
    args: Args = (
        ("strides", _numbers(info, "strides", (1, 1))[:2]),
        ("pads", _numbers(info, "pads", (0, 0, 0, 0))[:4]),
        ("dilations", _numbers(info, "dilations", (1, 1))[:2]),
        ("groups", integer(info, "ngroup") or 1),
        *_LITERT,
    )
    return Call("Conv2D", tuple(inputs), (target,), args)


def _sum_quant(source: Quant, weights: Quant) -> Quant:
    """Of a bias: it is added to the sums of products."""
    scales = tuple(source.scale * scale for scale in weights.scales)
    return Quant(scales, (0,) * len(scales), weights.axis)


def _word(info: Struct) -> str:
    return str(info.fields.get("general.type", "")).removeprefix(KERNEL_PREFIX)


def _op(info: Struct) -> str:
    """A kind that is not known keeps its name: it is refused when it is executed."""
    kind = str(info.fields.get("general.type", ""))
    return KERNEL_OPS.get(kind, kind)


def _float(info: Struct, name: str) -> float:
    value = info.fields.get(name, 0.0)
    return float(value) if isinstance(value, int | float) else 0.0


def _numbers(info: Struct, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    value = info.fields.get(name)
    found = tuple(n for n in value if isinstance(n, int)) if isinstance(value, list) else ()
    return found or default


KERNELS: dict[str, Maker] = {
    "quantizelinear": partial(_conversion, "Quantize", False, True, _QDQ),
    "dequantizelinear": partial(_conversion, "Dequantize", True, False, _QDQ),
    "requantizelinear": partial(_conversion, "Quantize", True, True, _LITERT),
    "softmax": partial(_softmax, False),
    "softmax_integer": partial(_softmax, True),
    "activ": partial(_function, False),
    "activ_integer": partial(_function, True),
    "arith": partial(_arithmetic, False),
    "eltwise_integer": partial(_arithmetic, True),
    "pool": partial(_pool, False),
    "pool_integer": partial(_pool, True),
    "global_pool": partial(_global_pool, False),
    "global_pool_integer": partial(_global_pool, True),
    "reduce": _reduce,
    "resize": partial(_resize, False),
    "resize_integer": partial(_resize, True),
    "conv": partial(_conv, False),
    "conv_integer": partial(_conv, True),
}
