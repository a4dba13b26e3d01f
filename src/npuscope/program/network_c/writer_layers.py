"""Software kernels with windows or weights: pools, convolution, matrix product, resize.

They follow the library's declarations and have not been run against it.
"""

from __future__ import annotations

from npuscope.program.model import Buffer
from npuscope.program.network_c.writer_scope import array, float_text
from npuscope.program.network_c.writer_software import (
    NoKernel,
    SoftwareCall,
    both_quantized,
    is_float,
    only_float,
)

_COORDINATES = {
    "asymmetric": "ASYMMETRIC",
    "half_pixel": "HALF_PIXEL",
    "pytorch_half_pixel": "PYTORCH_HALF_PIXEL",
    "align_corners": "ALIGN_CORNERS",
    "tf_half_pixel_for_nn": "TF_HALF_PIXEL_FOR_NN",
}
_ROUNDINGS = {
    "floor": "FLOOR",
    "ceil": "CEIL",
    "round_prefer_floor": "ROUND_PREFER_FLOOR",
    "round_prefer_ceil": "ROUND_PREFER_CEIL",
}


def pool(call: SoftwareCall) -> str:
    node = "MAXPOOL" if call.call.kernel == "MaxPool" else "AVGPOOL"
    count_pads = bool(call.arg("count_pads"))
    return _window(call, node, call.pair("window"), call.pair("strides"), count_pads)


def mean(call: SoftwareCall) -> str:
    """A mean over the image is a pool with one window."""
    source = call.buffer(0)
    if call.pair("axes") != (1, 2) or len(source.shape) != 4:
        raise NoKernel("axes")
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
    present = len([name for name in call.call.inputs if name])
    if present < 3 or call.buffer(0).is_float is False:
        return _integer_dense(call, present)
    only_float(call)
    call.general("GEMM")
    call.tensor("operand_b", call.buffer(1))
    call.tensor("operand_c", call.buffer(2))
    for name, value in (("alpha", "1.0f"), ("beta", "1.0f"), ("tA", "0"), ("tB", "1")):
        call.set(name, value)
    return "Gemm"


def _integer_dense(call: SoftwareCall, present: int) -> str:
    if present < 3 or is_float(call):
        raise NoKernel("bias")
    call.general("GEMM")
    weights = call.buffer(1)
    call.tensor("weights", weights)
    call.tensor("bias", call.buffer(2))
    call.quantization("ws", "wzp", weights)
    both_quantized(call)
    outputs, inputs = _matrix(weights)
    call.scratch("int8_t", 2 * inputs + 10 * outputs, 1)
    for name, value in (("alpha", "1.0f"), ("beta", "1.0f"), ("tA", "0"), ("tB", "1")):
        call.set(name, value)
    return "Gemm_integer"


def _matrix(weights: Buffer) -> tuple[int, int]:
    if len(weights.shape) != 2:
        raise NoKernel("weights")
    return weights.shape[0], weights.shape[1]


def resize(call: SoftwareCall) -> str:
    real = is_float(call)
    linear = call.arg("mode") == "linear"
    coordinates = _COORDINATES.get(str(call.arg("coordinates")))
    if coordinates is None:
        raise NoKernel("coordinates")
    call.general("RESIZE")
    ratios = dict(call.call.args).get("scales")
    assert isinstance(ratios, tuple)
    scales = [float_text(float(r)) for r in (1, 1, *ratios)]
    name = f"{call.prefix}_scales"
    call.values("scales", array("float", name, scales), name, 4, True)
    call.set("mode", "RESIZE_LINEAR" if linear else "RESIZE_NEAREST")
    call.set("nearest_mode", _ROUNDINGS[str(call.arg("rounding"))])
    call.set("coord_transf_mode", coordinates)
    if real:
        return "Resize"
    both_quantized(call)
    return "Resize_integer"
