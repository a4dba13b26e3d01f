"""Software kernels of other compilers' network.c as Calls: which op, and its arguments.

The library rounds as LiteRT does, whatever the model's runtime was; floats have no such choice.
"""

from __future__ import annotations

from collections.abc import Callable

from npuscope.graph.model import Quant
from npuscope.machine.npu_ops import support
from npuscope.program.model import Argument, Call
from npuscope.program.network_c.c_values import Struct
from npuscope.program.network_c.layout import (
    COORDINATE_WORDS,
    KERNEL_OPS,
    KERNEL_PREFIX,
    NEAREST_WORDS,
    SOFTMAX_DIFF_BITS,
)
from npuscope.program.network_c.read_software import AXES, SoftwareReader, integer, tensor
from npuscope.program.network_c.vendor_functions import KERNEL
from npuscope.structs import replace

Args = tuple[tuple[str, Argument], ...]
# Of a kernel's struct, quantized or not: the op, its operands behind the first, its arguments.
Meaning = tuple[str, tuple[str, ...], Args]
Maker = Callable[[SoftwareReader, Struct, bool], Meaning]

_LITERT: Args = (("numerics", "litert"),)
_QDQ: Args = (("numerics", "qdq"),)
_COORDINATES = {word: name for name, word in COORDINATE_WORDS.items()}
_ROUNDINGS = {word: name for name, word in NEAREST_WORDS.items()}
_HIGHEST = 3.4028234663852886e38
_AS_ONE = 1e-6  # what the 31 bits of a multiplier leave of a factor of one


def read_kernel(reader: SoftwareReader, function: str, info: Struct) -> Call:
    name = function.removeprefix(KERNEL)
    if name not in KERNELS:
        return reader.unknown(name, info)
    meaning, inner, outer = KERNELS[name]
    # The first input and the output, each float or with its scale.
    source_quant = reader.quant(info, "is", "izp") if inner else None
    target_quant = reader.quant(info, "os", "ozp") if outer else None
    source = reader.operand(info, "general.input", 0, source_quant)
    target = reader.operand(info, "general.output", 9, target_quant)
    op, others, args = meaning(reader, info, inner)
    return Call(op, (source, *others), (target,), args)


def _conversion(op: str, numerics: Args) -> Maker:
    return lambda reader, info, quantized: (op, (), numerics)


def _softmax(reader: SoftwareReader, info: Struct, quantized: bool) -> Meaning:
    axis = AXES.get(integer(info, "axis"), 3)
    beta = _beta(info, reader.quant(info, "is", "izp").scale) if quantized else 1.0
    return "Softmax", (), (("axis", axis), ("beta", beta), *_LITERT)


def _beta(info: Struct, scale: float) -> float:
    """The factor of the exponent, as the multiplier of differences holds it with the scale."""
    multiplier = integer(info, "quantized_multiplier") * 2.0 ** (integer(info, "left_shift") - 31)
    beta = multiplier / (scale * 2.0 ** (31 - SOFTMAX_DIFF_BITS)) if scale else 0.0
    return 1.0 if not beta or abs(beta - 1.0) < _AS_ONE else beta


def _function(reader: SoftwareReader, info: Struct, quantized: bool) -> Meaning:
    word = _word(info)
    if word in ("RELU", "CLIP"):
        low, high = (
            (0.0, _HIGHEST) if word == "RELU" else (_float(info, "min"), _float(info, "max"))
        )
        return "Clip", (), (("low", low), ("high", high), *_LITERT)
    if word == "PRELU":
        quant = _second_quant(reader, info, quantized)
        # LiteRT has no kernel for integers with slopes in floats.
        numerics = _QDQ if quantized and quant is None else _LITERT
        return "PRelu", (_slopes(reader, info, quant),), numerics
    kernel = _op(info)
    numbers = ((name, _float(info, name)) for name in support(kernel).numbers)
    return kernel, (), (*numbers, *_LITERT)


def _slopes(reader: SoftwareReader, info: Struct, quant: Quant | None) -> str:
    """One slope for all channels, or one for each; in floats these stand behind their number."""
    name = reader.operand(info, "operand", 2, quant)
    slopes, source = reader.views[-1], tensor(info, "general.input")
    channels = source.shape[-1] if source else 0
    if quant is None and slopes.shape == (1, 1, 1, channels + 1):
        element = slopes.nbits // 8
        reader.views[-1] = replace(
            slopes,
            shape=(1, 1, 1, channels),
            batch=channels,
            size_bytes=channels * element,
            offset=slopes.offset + element,
        )
    return name


def _arithmetic(reader: SoftwareReader, info: Struct, quantized: bool) -> Meaning:
    if tensor(info, "operand") is None:
        return _op(info), (), _LITERT
    other = reader.operand(info, "operand", 1, _second_quant(reader, info, quantized))
    return _op(info), (other,), _LITERT


def _second_quant(reader: SoftwareReader, info: Struct, quantized: bool) -> Quant | None:
    """None is a float: a PReLU of integers may have slopes in floats, which have no scale."""
    if not quantized or info.fields.get("operand_s.mem.start_offset") in ("NULL", 0):
        return None
    return reader.quant(info, "operand_s", "operand_zp")


def _pool(reader: SoftwareReader, info: Struct, quantized: bool) -> Meaning:
    args: Args = (
        ("window", _numbers(info, "k_shape", (1, 1))[:2]),
        ("strides", _numbers(info, "strides", (1, 1))[:2]),
        ("pads", _numbers(info, "pads", (0, 0, 0, 0))[:4]),
        ("count_pads", integer(info, "count_include_pad")),
        *_LITERT,
    )
    return ("MaxPool" if _word(info) == "MAXPOOL" else "AveragePool"), (), args


def _global_pool(reader: SoftwareReader, info: Struct, quantized: bool) -> Meaning:
    args: Args = (("axes", (1, 2)), ("keep_dims", 1), *_LITERT)
    return ("ReduceMax" if _word(info) == "MAXPOOL" else "Mean"), (), args


def _reduce(reader: SoftwareReader, info: Struct, quantized: bool) -> Meaning:
    args: Args = (("axes", (AXES.get(integer(info, "axis"), 3),)), ("keep_dims", 1), *_LITERT)
    return _op(info), (), args


def _resize(reader: SoftwareReader, info: Struct, quantized: bool) -> Meaning:
    before, after = tensor(info, "general.input"), tensor(info, "general.output")
    assert before is not None and after is not None  # both have views
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
    return "Resize", (), args  # type: ignore[return-value]


def _conv(reader: SoftwareReader, info: Struct, quantized: bool) -> Meaning:
    scales = reader.quant(info, "ws", "wzp") if quantized else None
    others = [reader.operand(info, "weights", 1, scales)]
    if tensor(info, "bias") is not None:
        sums = _sum_quant(reader.quant(info, "is", "izp"), scales) if scales else None
        others.append(reader.vector(info, "bias", 2, sums))
    strides, pads = _numbers(info, "strides", (1, 1)), _numbers(info, "pads", (0, 0, 0, 0))
    dilations = _numbers(info, "dilations", (1, 1))
    pads = _reached_pads(info, strides, pads, dilations)
    args: Args = (
        ("strides", strides[:2]),
        ("pads", pads[:4]),
        ("dilations", dilations[:2]),
        ("groups", integer(info, "ngroup") or 1),
        *_LITERT,
    )
    return "Conv2D", tuple(others), args


def _reached_pads(
    info: Struct,
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
) -> tuple[int, ...]:
    """A piece of a cut kernel reads of the whole input what its output positions reach: a pad that
    is negative leaves out the rest."""
    sides = [tensor(info, name) for name in ("general.input", "weights", "general.output")]
    source, weights, output = (side.shape if side else (1, 1, 1, 1) for side in sides)
    found = list(pads)
    for axis in (0, 1):
        kernel = (weights[axis + 1] - 1) * dilations[axis] + 1
        space = source[axis + 1] + pads[axis] + pads[axis + 2] - kernel
        if space // strides[axis] + 1 > output[axis + 1]:
            found[axis + 2] += (output[axis + 1] - 1) * strides[axis] - space
    return tuple(found)


def _sum_quant(source: Quant, weights: Quant) -> Quant:
    """Of a bias: it is added to the sums of products."""
    scales = tuple(source.scale * scale for scale in weights.scales)
    return Quant(scales, (0,) * len(scales), weights.axis)


def _sign(reader: SoftwareReader, info: Struct, quantized: bool) -> Meaning:
    return "Sign", (), _LITERT


def _batch_norm(reader: SoftwareReader, info: Struct, quantized: bool) -> Meaning:
    """The library takes no epsilon: the variances hold it."""
    names = ("scale", "bias", "mean", "var")
    others = tuple(reader.vector(info, name, number) for number, name in enumerate(names, 1))
    return "BatchNorm", others, (("epsilon", 0.0), *_LITERT)


def _gather(reader: SoftwareReader, info: Struct, quantized: bool) -> Meaning:
    """Along the only axis whose size changes, or the only one with several values: how the library
    numbers the axes of tensors with less than four is not known."""
    sides = [tensor(info, f"general.{side}") for side in ("input", "output")]
    before, after = (side.shape if side else () for side in sides)
    axes = [axis for axis, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    axes = axes or [axis for axis, size in enumerate(before) if size > 1]
    if len(axes) != 1:
        return "gather", (), ()
    args: Args = (("axis", axes[0]), *_LITERT)
    return "Gather", (reader.places_of_values(info, "operand", 1),), args


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
    numbers = tuple(n for n in value if isinstance(n, int)) if isinstance(value, list) else ()
    return numbers or default


# By the library's function: what it means, and whether it reads and writes integers with a scale.
# Those that `vendor_functions` lists beside are timed, and refused by name where they would be
# executed: no public build calls them, so that nothing tells how their operands lie.
KERNELS: dict[str, tuple[Maker, bool, bool]] = {
    "quantizelinear": (_conversion("Quantize", _QDQ), False, True),
    "dequantizelinear": (_conversion("Dequantize", _QDQ), True, False),
    "requantizelinear": (_conversion("Quantize", _LITERT), True, True),
    "softmax": (_softmax, False, False),
    "softmax_integer": (_softmax, True, True),
    "activ": (_function, False, False),
    "activ_integer": (_function, True, True),
    "arith": (_arithmetic, False, False),
    "eltwise_integer": (_arithmetic, True, True),
    "pool": (_pool, False, False),
    "pool_integer": (_pool, True, True),
    "global_pool": (_global_pool, False, False),
    "global_pool_integer": (_global_pool, True, True),
    "reduce": (_reduce, False, False),
    "resize": (_resize, False, False),
    "resize_integer": (_resize, True, True),
    "conv": (_conv, False, False),
    "conv_integer": (_conv, True, True),
    "qlinearconv": (_conv, True, True),  # its struct has the same fields
    "bn": (_batch_norm, False, False),
    "sign": (_sign, False, False),
    "gather": (_gather, False, False),
}
