"""Which kernel of the vendor's software library does a call's work, and with which parameters.

Seen in real files: quantize, dequantize, integer softmax. The others follow the library's
declarations and have not been run against it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from npuscope.ops.kernels.requantize import quantized_multipliers
from npuscope.program.network_c.writer_layers import conv, dense, mean, pool, resize
from npuscope.program.network_c.writer_scope import FLOAT_MAX, float_text
from npuscope.program.network_c.writer_software import (
    NoKernel,
    SoftwareCall,
    both_quantized,
    is_float,
    only_float,
    onnx_axis,
)

Build = Callable[[SoftwareCall], str]  # fills the fields, returns the stem of struct and function

# LiteRT's softmax keeps 5 integer bits of the difference to the largest input.
_DIFF_BITS = 5

_ACTIVATIONS = {
    "Sigmoid": "SIGMOID",
    "Tanh": "TANH",
    "Exp": "EXP",
    "Log": "LOG",
    "Sqrt": "SQRT",
    "Neg": "NEG",
    "Abs": "ABS",
    "HardSwish": "HARDSWISH",
    "Erf": "ERF",
    "Floor": "FLOOR",
    "Ceil": "CEIL",
    "Round": "ROUND",
    "Sin": "SIN",
    "Cos": "COS",
    "Softplus": "SOFTPLUS",
    "Elu": "ELU",
    "HardSigmoid": "HARDSIGMOID",
}
_ARITHMETIC = {
    "Add": "ARITHADD",
    "Sub": "ARITHSUB",
    "Mul": "ARITHMUL",
    "Div": "ARITHDIV",
    "Pow": "POW",
    "Min": "MIN",
    "Max": "MAX",
    "Equal": "EQUAL",
    "Greater": "GREATER",
    "GreaterEqual": "GREATEROREQUAL",
    "Less": "LESS",
    "LessEqual": "LESSOREQUAL",
}
# The integer element-wise kernel knows these.
_INTEGER_ARITHMETIC = {
    "Add": "ARITHSUM",
    "Sub": "ARITHSUB",
    "Mul": "ARITHMUL",
    "Div": "ARITHDIV",
}
_REDUCTIONS = {
    "ReduceSum": "REDUCESUM",
    "ReduceMin": "REDUCEMIN",
    "ReduceMax": "REDUCEMAX",
    "ReduceProd": "REDUCEPROD",
}


def fill(call: SoftwareCall) -> str:
    """Fill the call's fields; the stem names struct and function. NoKernel where none fits."""
    build = _BUILDS.get(call.call.kernel)
    if build is None or len(call.call.outputs) != 1:
        raise NoKernel(call.call.kernel)
    return build(call)


def _quantize(call: SoftwareCall) -> str:
    if not call.buffer(0).is_float:
        call.general("REQUANTIZELINEAR")
        both_quantized(call)
        return "Requantizelinear"
    call.general("QUANTIZELINEAR")
    call.quantization("os", "ozp", call.output)
    return "Quantizelinear"


def _dequantize(call: SoftwareCall) -> str:
    call.general("DEQUANTIZELINEAR")
    call.quantization("is", "izp", call.buffer(0))
    return "Dequantizelinear"


def _softmax(call: SoftwareCall) -> str:
    call.general("SOFTMAX")
    source, beta = call.buffer(0), call.number("beta")
    call.set("axis", onnx_axis(int(call.number("axis")), source))
    if is_float(call):
        if beta != 1.0:
            raise NoKernel("beta")
        call.scratch("int32_t", prod(source.shape), 4)
        return "Softmax"
    both_quantized(call)
    assert source.quant is not None
    real = min(beta * source.quant.scale * 2.0 ** (31 - _DIFF_BITS), 2.0**31 - 1)
    factor = quantized_multipliers(real)
    shift = int(factor.shift[0])
    below = (2**_DIFF_BITS - 1) * 2 ** (31 - _DIFF_BITS) >> shift
    call.set("quantized_multiplier", int(factor.mantissa[0]))
    call.set("left_shift", shift)
    call.set("diff_min", -below)
    call.scratch("int32_t", below + 1, 4)
    return "Softmax_integer"


def _activation(call: SoftwareCall) -> str:
    only_float(call)
    call.general(_ACTIVATIONS[call.call.kernel])
    if call.call.kernel in ("Elu", "HardSigmoid"):
        call.set("alpha", float_text(call.number("alpha")))
    if call.call.kernel == "HardSigmoid":
        call.set("beta", float_text(call.number("beta")))
    return "Activ"


def _clip(call: SoftwareCall) -> str:
    only_float(call)
    low, high = call.number("low"), call.number("high")
    relu = low == 0.0 and high >= FLOAT_MAX
    call.general("RELU" if relu else "CLIP")
    call.set("min", float_text(low))
    call.set("max", float_text(high))
    return "Activ"


def _prelu(call: SoftwareCall) -> str:
    only_float(call)
    call.general("PRELU")
    call.operand()
    return "Activ"


def _arithmetic(call: SoftwareCall) -> str:
    kernel = call.call.kernel
    if not is_float(call):
        return _integer_arithmetic(call)
    call.general(_ARITHMETIC[kernel])
    call.operand()
    call.set("num_of_inputs", 2)
    return "Arith"


def _integer_arithmetic(call: SoftwareCall) -> str:
    node = _INTEGER_ARITHMETIC.get(call.call.kernel)
    if node is None:
        raise NoKernel(call.call.kernel)
    call.general(node)
    call.quantization("operand_s", "operand_zp", call.operand())
    both_quantized(call)
    call.set("num_of_inputs", 2)
    return "Eltwise_integer"


def _reduce(call: SoftwareCall) -> str:
    """One axis only."""
    only_float(call)
    axes = call.pair("axes")
    if len(axes) != 1:
        raise NoKernel("axes")
    call.general(_REDUCTIONS[call.call.kernel])
    call.set("axis", onnx_axis(axes[0], call.buffer(0)))
    return "Reduce"


_BUILDS: dict[str, Build] = {
    "Quantize": _quantize,
    "Dequantize": _dequantize,
    "Softmax": _softmax,
    "Clip": _clip,
    "PRelu": _prelu,
    "MaxPool": pool,
    "AveragePool": pool,
    "Mean": mean,
    "Conv2D": conv,
    "FullyConnected": dense,
    "Resize": resize,
    **dict.fromkeys(_ACTIVATIONS, _activation),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    **dict.fromkeys(_REDUCTIONS, _reduce),
}
