"""Which kernel of the vendor's software library does a call's work, and with which parameters."""

from __future__ import annotations

from math import prod

from npuscope.machine.npu_ops import support
from npuscope.ops.kernels.requantize import quantized_multipliers
from npuscope.ops.row import named
from npuscope.program.network_c.layout import COORDINATE_WORDS, NEAREST_WORDS, SOFTMAX_DIFF_BITS
from npuscope.program.network_c.writer_buffers import (
    NoLibraryKernel,
    SoftwareCall,
    both_quantized,
    is_float,
    only_float,
    onnx_axis,
)
from npuscope.program.network_c.writer_scope import FLOAT_MAX, array, float_text

# Software kernels with windows or weights: pools, convolution, matrix product, resize.
#
# They follow the library's declarations and have not been run against it.


def pool(call: SoftwareCall) -> str:
    node = "MAXPOOL" if call.call.kernel == "MaxPool" else "AVGPOOL"
    count_pads = bool(call.arg("count_pads"))
    return _window(call, node, call.pair("window"), call.pair("strides"), count_pads)


def mean(call: SoftwareCall) -> str:
    """A mean over the image is a pool with one window."""
    source = call.buffer(0)
    if call.pair("axes") != (1, 2) or len(source.shape) != 4:
        raise NoLibraryKernel("axes")
    return _window(call, "AVGPOOL", source.shape[1:3], (1, 1), False)


def _window(
    call: SoftwareCall,
    node: str,
    window: tuple[int, ...],
    steps: tuple[int, ...],
    count_pads: bool,
) -> str:
    call.general(node)
    pads = dict(call.call.args).get("pads", (0, 0, 0, 0))
    assert isinstance(pads, tuple)
    call.numbers("k_shape", window)
    call.numbers("strides", (*steps, 1, 1))
    call.numbers("pads", pads)
    call.set("ngroup", 1)
    call.set("count_include_pad", int(count_pads))
    if is_float(call):
        return "Pool"
    both_quantized(call)
    return "Pool_integer"


def conv(call: SoftwareCall) -> str:
    """Float only: how much scratch the integer one needs is not known."""
    only_float(call)
    call.general("CONV")
    call.tensor("weights", call.buffer(1))
    if len([name for name in call.call.inputs if name]) > 2:
        call.tensor("bias", call.buffer(2))
    groups = call.arg("groups")
    call.set("ngroup", groups)
    call.numbers("pads", call.pair("pads"))
    call.numbers("strides", (*call.pair("strides"), 1, 1))
    call.numbers("dilations", call.pair("dilations"))
    return "Conv"


def dense(call: SoftwareCall) -> str:
    """A product with weights (O, I): the second operand is transposed."""
    if len([name for name in call.call.inputs if name]) < 3:
        raise NoLibraryKernel("bias")
    weights, real = call.buffer(1), is_float(call)
    call.general("GEMM")
    call.tensor("operand_b" if real else "weights", weights)
    call.tensor("operand_c" if real else "bias", call.buffer(2))
    if not real:
        call.quantization("ws", "wzp", weights)
        both_quantized(call)
        if len(weights.shape) != 2:
            raise NoLibraryKernel("weights")
        outputs, inputs = weights.shape
        call.scratch("int8_t", 2 * inputs + 10 * outputs, 1)
    for name, value in (("alpha", "1.0f"), ("beta", "1.0f"), ("tA", "0"), ("tB", "1")):
        call.set(name, value)
    return "Gemm" if real else "Gemm_integer"


def resize(call: SoftwareCall) -> str:
    real = is_float(call)
    linear = call.arg("mode") == "linear"
    coordinates = COORDINATE_WORDS.get(str(call.arg("coordinates")))
    if coordinates is None:
        raise NoLibraryKernel("coordinates")
    call.general("RESIZE")
    ratios = dict(call.call.args).get("scales")
    assert isinstance(ratios, tuple)
    scales = [float_text(float(r)) for r in (1, 1, *ratios)]
    name = f"{call.prefix}_scales"
    call.values("scales", array("float", name, scales), name, 4, True)
    call.set("mode", "RESIZE_LINEAR" if linear else "RESIZE_NEAREST")
    call.set("nearest_mode", NEAREST_WORDS[str(call.arg("rounding"))])
    call.set("coord_transf_mode", coordinates)
    if real:
        return "Resize"
    both_quantized(call)
    return "Resize_integer"


# Which kernel of the vendor's software library does a call's work, and with which parameters.
#
# Seen in real files: quantize, dequantize, integer softmax. The others follow the library's
# declarations and have not been run against it.


def fill(call: SoftwareCall) -> str:
    """Fill the call's fields; the stem names struct and function. NoLibraryKernel: none fits."""
    build = support(call.call.kernel).library
    if not build or len(call.call.outputs) != 1:
        raise NoLibraryKernel(call.call.kernel)
    stem: str = named(__package__, build)(call)
    return stem


def quantize(call: SoftwareCall) -> str:
    if not call.buffer(0).is_float:
        call.general("REQUANTIZELINEAR")
        both_quantized(call)
        return "Requantizelinear"
    call.general("QUANTIZELINEAR")
    call.quantization("os", "ozp", call.output)
    return "Quantizelinear"


def dequantize(call: SoftwareCall) -> str:
    call.general("DEQUANTIZELINEAR")
    call.quantization("is", "izp", call.buffer(0))
    return "Dequantizelinear"


def softmax(call: SoftwareCall) -> str:
    call.general("SOFTMAX")
    source, beta = call.buffer(0), call.number("beta")
    call.set("axis", onnx_axis(int(call.number("axis")), source))
    if is_float(call):
        if beta != 1.0:
            raise NoLibraryKernel("beta")
        call.scratch("int32_t", prod(source.shape), 4)
        return "Softmax"
    both_quantized(call)
    assert source.quant is not None
    real = min(beta * source.quant.scale * 2.0 ** (31 - SOFTMAX_DIFF_BITS), 2.0**31 - 1)
    factor = quantized_multipliers(real)
    shift = int(factor.shift[0])
    below = (2**SOFTMAX_DIFF_BITS - 1) * 2 ** (31 - SOFTMAX_DIFF_BITS) >> shift
    call.set("quantized_multiplier", int(factor.mantissa[0]))
    call.set("left_shift", shift)
    call.set("diff_min", -below)
    call.scratch("int32_t", below + 1, 4)
    return "Softmax_integer"


def activation(call: SoftwareCall) -> str:
    only_float(call)
    row = support(call.call.kernel)
    call.general(row.word)
    for name in row.numbers:
        call.set(name, float_text(call.number(name)))
    return "Activ"


def clip(call: SoftwareCall) -> str:
    only_float(call)
    low, high = call.number("low"), call.number("high")
    relu = low == 0.0 and high >= FLOAT_MAX
    call.general("RELU" if relu else "CLIP")
    call.set("min", float_text(low))
    call.set("max", float_text(high))
    return "Activ"


def prelu(call: SoftwareCall) -> str:
    only_float(call)
    call.general("PRELU")
    call.operand()
    return "Activ"


def arithmetic(call: SoftwareCall) -> str:
    row, real = support(call.call.kernel), is_float(call)
    node = row.word if real else row.integer_word
    if not node:
        raise NoLibraryKernel(call.call.kernel)
    call.general(node)
    other = call.operand()
    if not real:
        call.quantization("operand_s", "operand_zp", other)
        both_quantized(call)
    call.set("num_of_inputs", 2)
    return "Arith" if real else "Eltwise_integer"


def reduction(call: SoftwareCall) -> str:
    """One axis only."""
    only_float(call)
    axes = call.pair("axes")
    if len(axes) != 1:
        raise NoLibraryKernel("axes")
    call.general(support(call.call.kernel).word)
    call.set("axis", onnx_axis(axes[0], call.buffer(0)))
    return "Reduce"
