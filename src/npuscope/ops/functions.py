"""Functions of one value, and conversions between types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

from npuscope.graph.model import Attrs, Graph, Op
from npuscope.ops.row import Kernel, Onnx, Row, Sign, Tflite, number_type, real_type, same_shape
from npuscope.ops.traits import Trait


class ClipAttrs(Attrs, frozen=True):
    """Clip to [low, high] in real values; Relu is (0, inf), Relu6 (0, 6)."""

    low: float
    high: float


class LeakyReluAttrs(Attrs, frozen=True):
    """x for x >= 0, alpha * x below."""

    alpha: float


class EluAttrs(Attrs, frozen=True):
    """x for x >= 0, alpha * (exp(x) - 1) below."""

    alpha: float = 1.0


class HardSigmoidAttrs(Attrs, frozen=True):
    """clip(alpha * x + beta, 0, 1)."""

    alpha: float = 0.2
    beta: float = 0.5


class SeluAttrs(Attrs, frozen=True):
    """gamma * x for x > 0, gamma * alpha * (exp(x) - 1) below."""

    alpha: float = 1.6732632423543772
    gamma: float = 1.0507009873554805


class CeluAttrs(Attrs, frozen=True):
    """x for x >= 0, alpha * (exp(x / alpha) - 1) below."""

    alpha: float = 1.0


class ThresholdAttrs(Attrs, frozen=True):
    """x above alpha, 0 up to it."""

    alpha: float = 1.0


class ShrinkAttrs(Attrs, frozen=True):
    """x + bias below -limit, x - bias above limit, 0 between."""

    bias: float = 0.0
    limit: float = 0.5


class GeluAttrs(Attrs, frozen=True):
    """x * Phi(x), exactly or by the formula with tanh."""

    approximate: bool = False


_BY_PLACE = {Trait.ELEMENTWISE, Trait.KEEPS_CHANNELS}
_FUNCTION = {*_BY_PLACE, Trait.FUNCTION, Trait.INTEGER_FORM}
_RESCALING = {*_FUNCTION, Trait.CONVERSION, Trait.RESCALING}
Types = Callable[[Graph, Op], str]
_INF = float("inf")
_ALPHA = ("LeakyReluOptions", "Alpha")


def _function(
    kind: str,
    real: str,
    litert: str = "",
    attrs: type[Attrs] = Attrs,
    types: Types = real_type,
    tflite: Mapping[str, Tflite] | str = "",
    onnx: Mapping[str, Onnx] | str = "",
    sign: Sign = "any",
    fixed_range: tuple[float, float] | None = None,
    traits: Set[Trait] = frozenset(),
) -> Row:
    """One value in, one out; a plain string is the file's name of an op without attributes."""
    return Row(
        kind,
        attrs,
        inputs=(1, 1),
        shape=same_shape,
        types=types,
        kernel=Kernel("function" if attrs is Attrs else "values", real, litert),
        traits={*_FUNCTION, *traits},
        sign=sign,
        fixed_range=fixed_range,
        tflite=_plain_tflite(kind, tflite) if isinstance(tflite, str) else tflite,
        onnx=_plain_onnx(kind, onnx) if isinstance(onnx, str) else onnx,
    )


def _plain_tflite(kind: str, name: str) -> Mapping[str, Tflite]:
    return {name: Tflite("convert_values:unary", (kind,))} if name else {}


def _plain_onnx(kind: str, name: str) -> Mapping[str, Onnx]:
    return {name: Onnx("convert_values:unary", (kind,), any_order=True)} if name else {}


def _clamp(low: float, high: float) -> Tflite:
    return Tflite("convert_values:unary", ("Clip", ClipAttrs(low, high)))


def _own(converter: str) -> Onnx:
    return Onnx(f"convert_values:{converter}", any_order=True)


def _numbers(kind: str, attrs: type[Attrs], **numbers: float) -> Mapping[str, Onnx]:
    """ONNX has attributes of these names, with these defaults, in the order of the record."""
    return {kind: Onnx("convert_values:function", (kind, attrs, numbers), any_order=True)}


_SMOOTH = (
    _function(
        "Sigmoid",
        "functions:sigmoid",
        "functions:litert_sigmoid",
        tflite="LOGISTIC",
        onnx="Sigmoid",
        sign="positive",
        fixed_range=(0.0, 1.0),
    ),
    _function(
        "Tanh",
        "real_math:tanh",
        "functions:litert_tanh",
        tflite="TANH",
        onnx="Tanh",
        sign="kept",
        fixed_range=(-1.0, 1.0),
    ),
    _function(
        "HardSwish",
        "functions:hard_swish",
        "litert_functions:hard_swish",
        tflite="HARD_SWISH",
        onnx="HardSwish",
        sign="kept",
    ),
    _function("Softplus", "functions:softplus", onnx="Softplus", sign="positive"),
    _function("Mish", "functions:mish", onnx="Mish", sign="kept"),
    _function("Erf", "real_math:erf", onnx="Erf", sign="kept"),
    _function(
        "LeakyRelu",
        "functions:leaky_relu",
        "litert_functions:leaky_relu",
        LeakyReluAttrs,
        tflite={"LEAKY_RELU": Tflite("convert_values:leaky_relu", options=_ALPHA)},
        onnx=_numbers("LeakyRelu", LeakyReluAttrs, alpha=0.01),
        sign="kept",
    ),
    _function(
        "Elu",
        "functions:elu",
        "functions:litert_elu",
        EluAttrs,
        tflite={"ELU": Tflite("convert_values:unary", ("Elu", EluAttrs()))},
        onnx=_numbers("Elu", EluAttrs, alpha=1.0),
        sign="kept",
    ),
    _function(
        "HardSigmoid",
        "functions:hard_sigmoid",
        attrs=HardSigmoidAttrs,
        onnx=_numbers("HardSigmoid", HardSigmoidAttrs, alpha=0.2, beta=0.5),
        sign="positive",
        fixed_range=(0.0, 1.0),
    ),
    _function(
        "Gelu",
        "functions:gelu",
        "functions:litert_gelu",
        GeluAttrs,
        tflite={"GELU": Tflite("convert_values:gelu", options=("GeluOptions", "Approximate"))},
        onnx={"Gelu": _own("gelu"), "com.microsoft.Gelu": _own("gelu")},
        sign="kept",
    ),
    _function("Softsign", "functions:softsign", onnx="Softsign", sign="kept"),
    _function(
        "Selu",
        "functions:selu",
        attrs=SeluAttrs,
        onnx=_numbers("Selu", SeluAttrs, alpha=SeluAttrs().alpha, gamma=SeluAttrs().gamma),
    ),
    _function(
        "Celu",
        "functions:celu",
        attrs=CeluAttrs,
        onnx=_numbers("Celu", CeluAttrs, alpha=1.0),
        sign="kept",
    ),
    _function(
        "ThresholdedRelu",
        "functions:thresholded_relu",
        attrs=ThresholdAttrs,
        onnx=_numbers("ThresholdedRelu", ThresholdAttrs, alpha=1.0),
        sign="kept",
    ),
    _function(
        "Shrink",
        "functions:shrink",
        attrs=ShrinkAttrs,
        onnx=_numbers("Shrink", ShrinkAttrs, bias=0.0, lambd=0.5),
    ),
)
_ARITHMETIC = (
    _function(
        "Abs",
        "numpy:abs",
        "litert_functions:absolute",
        types=number_type,
        tflite="ABS",
        onnx="Abs",
        sign="positive",
    ),
    _function(
        "Neg",
        "numpy:negative",
        "litert_functions:negative",
        types=number_type,
        tflite="NEG",
        onnx="Neg",
    ),
    _function(
        "Sign", "numpy:sign", types=number_type, tflite="SIGN", onnx="Sign", traits={Trait.JUMPS}
    ),
    _function("Square", "numpy:square", types=number_type, tflite="SQUARE", sign="positive"),
    _function("Floor", "numpy:floor", tflite="FLOOR", onnx="Floor", traits={Trait.JUMPS}),
    _function("Ceil", "numpy:ceil", tflite="CEIL", onnx="Ceil", traits={Trait.JUMPS}),
    _function("Round", "numpy:rint", tflite="ROUND", onnx="Round", traits={Trait.JUMPS}),
    _function(
        "Sqrt", "numpy:sqrt", "functions:litert_sqrt", tflite="SQRT", onnx="Sqrt", sign="positive"
    ),
    _function(
        "Rsqrt",
        "functions:rsqrt",
        "litert_functions:rsqrt",
        tflite="RSQRT",
        sign="positive",
        traits={Trait.SINGULAR},
    ),
    _function(
        "Reciprocal",
        "functions:reciprocal",
        onnx="Reciprocal",
        sign="kept",
        traits={Trait.SINGULAR},
    ),
    _function(
        "Exp", "real_math:exp", "functions:litert_exp", tflite="EXP", onnx="Exp", sign="positive"
    ),
    _function(
        "Log",
        "real_math:log",
        "functions:litert_log",
        tflite="LOG",
        onnx="Log",
        traits={Trait.SINGULAR},
    ),
    _function("Sin", "real_math:sin", tflite="SIN", onnx="Sin"),
    _function("Cos", "real_math:cos", tflite="COS", onnx="Cos"),
    *(
        _function(kind, f"circle_math:{kind.lower()}", onnx=kind)
        for kind in ("Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Atanh")
    ),
    _function("Acosh", "circle_math:acosh", onnx="Acosh", traits={Trait.SINGULAR}),
)
_CONVERSIONS = (
    Row(
        "Clip",
        ClipAttrs,
        inputs=(1, 1),
        shape=same_shape,
        traits=_FUNCTION,
        types=number_type,
        kernel=Kernel("values", "float_ops:clip", "elementwise:litert_clip"),
        tflite={
            "RELU": _clamp(0.0, _INF),
            "RELU6": _clamp(0.0, 6.0),
            "RELU_N1_TO_1": _clamp(-1.0, 1.0),
            "RELU_0_TO_1": _clamp(0.0, 1.0),
        },
        onnx={
            "Relu": _own("clip"),
            "Clip": Onnx("convert_values:clip", parameters=(1, 2), any_order=True),
        },
    ),
    Row(
        "Quantize",
        Attrs,
        inputs=(1, 1),
        shape=same_shape,
        traits=_RESCALING,
        kernel=Kernel("plain", "", "elementwise:litert_quantize", "between:qdq_quantize"),
        tflite=_plain_tflite("Quantize", "QUANTIZE"),
    ),
    Row(
        "Dequantize",
        Attrs,
        inputs=(1, 1),
        shape=same_shape,
        traits=_RESCALING,
        kernel=Kernel("plain", "", "elementwise:dequantize", "elementwise:dequantize"),
        tflite=_plain_tflite("Dequantize", "DEQUANTIZE"),
    ),
    Row(
        "Cast",
        Attrs,
        inputs=(1, 1),
        shape=same_shape,
        kernel=Kernel("plain", "functions:cast", "functions:cast", "functions:cast"),
        traits={*_BY_PLACE, Trait.CONVERSION},
        tflite=_plain_tflite("Cast", "CAST"),
        onnx={"Cast": _own("cast")},
    ),
)

ROWS = (*_SMOOTH, *_ARITHMETIC, *_CONVERSIONS)
