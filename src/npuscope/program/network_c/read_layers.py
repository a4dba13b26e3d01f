"""Software kernels with windows or weights, and integer element-wise ones, as Calls."""

from __future__ import annotations

from npuscope.graph.model import Quant
from npuscope.program.model import Call
from npuscope.program.network_c.parse_values import Struct
from npuscope.program.network_c.read_software import (
    BINARY,
    FUNCTIONS,
    Maker,
    SoftwareReader,
    integer,
    tensor,
)

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
