"""Weights, their sums, and the scales of activations."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose

import numpy as np

from npuscope.geometry.sums import INT16_MAX, conv_shift, reach
from npuscope.graph.model import Activation, DType, Graph, Op, Tensor
from npuscope.machine.model import Machine
from npuscope.machine.npu_ops import LAYERS
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.rulebook import fixes
from npuscope.rulebook.conditions import holds_for
from npuscope.rulebook.finding import Confidence, Hit, Severity
from npuscope.rulebook.queries import (
    computed,
    hit,
    layers,
    of_kind,
    operands,
    scale,
    source,
    zero_point,
)
from npuscope.rulebook.registry import Refusal, foretells, lint, refusal, refuse

_FOUR_BITS = 16  # a channel whose largest weight is below this uses four of its eight bits
_NARROW_SHARE = 0.25  # share of the channels; fewer are outliers (our choice)
_DEAD_SHARE = 1 / 16  # share of the channels; fewer cost little (our choice)
_BYTE_SPREAD = 256 / 12**0.5  # standard deviation of bytes that fill their range
_RARE = 4  # standard deviations: one sum in about 16,000 is larger
_CLIPPED_SUM = 1.25  # sums this far beyond the limit clip visibly
_CLIPPED_SHARE = 0.25  # share of an operand's range that the result cannot hold
_LOST_BITS = 16.0  # operand scales this far apart: the finer one loses four bits
_CONCAT_RATIO = 8.0  # the narrowest part keeps 32 of its 256 steps
# Of a scale. Below, all bytes of a tensor span less than 3e-5: it was constant in calibration.
# Above, one step is 1000: it overflowed. Both limits are our choice, far outside of what real
# networks have.
_SMALLEST, _LARGEST = 1e-7, 1e3
_NOISE_WIDTH = (5.5, 9.5)  # what a few hundred values of a standard normal cover
_NOISE_ZERO = 8  # a normal is symmetric: the zero point is near the middle, but not on it
# Scales that people choose: bytes as they are, or pixels brought to 0..1 or -1..1.
_NICE = (1.0, 1 / 255, 1 / 256, 1 / 127, 1 / 128, 1 / 127.5, 1 / 64)


@refuse(
    "NA-WEIGHTS",
    "Weights that are not constant int8",
    ops=LAYERS,
    cause="The units multiply with constant, symmetric int8 weights and one scale per output "
    "channel; any other weights are computed on the CPU.",
    fixes=(fixes.SYMMETRIC_WEIGHTS,),
)
def weights_are_constant_int8(graph: Graph, op: Op, machine: Machine) -> Refusal | None:
    """Weights must be constant int8 or int4 with zero point 0."""
    weights = graph.tensor(op.inputs[1])
    if not weights.is_constant:
        return refusal("weights are computed at run time")
    if weights.dtype not in (DType.INT8, DType.INT4) or weights.quant is None:
        return refusal("weights are $type", type=weights.dtype.value)
    if any(weights.quant.zero_points):
        return refusal("weights have a zero point other than 0")
    if weights.quant.axis not in (None, 0):
        return refusal(
            "weight scales run along axis $axis", "output channels", axis=weights.quant.axis
        )
    return None


@lint(
    "LINT-PER-TENSOR",
    "One weight scale for very different channels",
    severity=Severity.INFO,
    confidence=Confidence.REPORTED,
    cause="Weights have one scale for all output channels, and the largest channel sets it. The "
    "others use only a few of their 256 steps, which costs accuracy.",
    fixes=(fixes.PER_CHANNEL,),
)
def one_scale_for_unlike_channels(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """All output channels share one scale, and many of them use only a few of its bits."""
    for op, weights in layers(graph):
        if weights.quant is None or weights.quant.per_channel or weights.dtype.bits != 8:
            continue
        peaks = _peaks(weights)
        narrow = int(((peaks > 0) & (peaks < _FOUR_BITS)).sum())
        if len(peaks) > 1 and narrow >= max(1, _NARROW_SHARE * len(peaks)):
            text = f"{narrow} of {len(peaks)} channels within {_FOUR_BITS} steps"
            yield hit(op, text, "one scale per channel")


@foretells(
    "NA-WEIGHTS",
    "LINT-ASYMMETRIC",
    title="Weights with a zero point",
    cause="The units multiply plain int8, so weights are shifted; where they no longer fit a byte "
    "they are rounded to a coarser scale.",
)
def weights_have_a_zero_point(graph: Graph, op: Op) -> Hit | None:
    """Weights have a zero point; the units multiply plain int8."""
    weights = graph.tensor(op.inputs[1])
    if not weights.is_constant or weights.quant is None or not any(weights.quant.zero_points):
        return None
    return hit(op, f"zero point {max(weights.quant.zero_points, key=abs)}", "0")


@lint(
    "LINT-DEAD-CHANNELS",
    "Output channels with no weights",
    severity=Severity.INFO,
    confidence=Confidence.VERIFIED,
    cause="Their kernels are all zero: the channels are constant, but cost as much as the others.",
    fixes=(fixes.PRUNE_CHANNELS,),
)
def channels_are_all_zero(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Output channels whose weights are all zero: they cost time and give constants."""
    for op, weights in layers(graph):
        if weights.dtype.is_float:
            continue
        peaks = _peaks(weights)
        dead = int((peaks == 0).sum())
        if dead and dead >= _DEAD_SHARE * len(peaks):
            yield hit(op, f"{dead} of {len(peaks)} channels", 0)


def _peaks(weights: Tensor) -> np.ndarray:
    """Largest magnitude of each output channel, in steps."""
    assert weights.data is not None
    data = weights.data.reshape(weights.shape[0], -1).astype(np.int64)
    zeros = np.array(weights.quant.zero_points if weights.quant else (0,))
    if len(zeros) not in (1, len(data)):
        return np.asarray(np.abs(data).max(axis=1))
    return np.asarray(np.abs(data - zeros[:, None]).max(axis=1))


@lint(
    "LINT-SATURATING-SUM",
    "Sums may saturate before they are rescaled",
    severity=Severity.WARNING,
    confidence=Confidence.VERIFIED,
    cause="Sums leave the convolution with 16 bits after a shift. The vendor's rule takes the "
    "shift from the plain sum of a kernel's weights; where positive and negative weights "
    "cancel it is too small, and outputs clip before their range ends.",
    fixes=(fixes.SAFE_SHIFT,),
    until="4.0",
)
def balanced_weights_overflow(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Weights nearly cancel in sum: the shift chosen for them lets real sums saturate.

    The vendor's compiler shifts sums so that a constant input fits 16 bits. A kernel of balanced
    weights has a small gain for constants and a large one for edges.
    """
    for op, weights in layers(graph):
        needed = _largest_sum_that_matters(graph, op, weights)
        if needed is None:
            continue
        assert weights.data is not None
        shift = conv_shift(weights.data)
        if needed > _CLIPPED_SUM * INT16_MAX * 2**shift:
            yield hit(
                op,
                f"sums up to {round(needed)}",
                INT16_MAX * 2**shift,
                shift=shift,
                reachable_share=round(INT16_MAX * 2**shift / needed, 3),
            )


def _largest_sum_that_matters(graph: Graph, op: Op, weights: Tensor) -> float | None:
    """Over all channels: the largest sum that is likely and still changes the output.

    None where the layer is not plain int8.
    """
    source, target = graph.first_input(op), graph.output_tensor(op)
    plain = all(t.dtype is DType.INT8 and t.quant is not None for t in (source, target))
    if not plain or weights.quant is None or any(weights.quant.zero_points):
        return None
    assert source.quant is not None and target.quant is not None
    assert weights.data is not None
    rows = weights.data.reshape(weights.shape[0], -1).astype(np.float64)
    unit = source.quant.scale * np.broadcast_to(np.array(weights.quant.scales), len(rows))
    # Per channel: the sum that independent bytes rarely exceed, at most the largest possible
    zero = source.quant.zero_point
    mean = np.abs(rows.sum(axis=1) * (zero + 0.5))
    spread = _BYTE_SPREAD * np.sqrt((rows**2).sum(axis=1))
    highest, lowest = reach(rows, (-128 - zero, 127 - zero))
    likely = np.asarray(np.minimum(mean + _RARE * spread, np.maximum(highest, -lowest)[:, 0]))
    clamping = _clamping_sum(target, unit, _bias(graph, op, unit))
    return float(np.minimum(likely, clamping).max())


def _clamping_sum(target: Tensor, unit: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The sum at the far end of the output's range; beyond it the output clamps anyway."""
    assert target.quant is not None
    scale, zero = target.quant.scale, target.quant.zero_point
    with np.errstate(divide="ignore", invalid="ignore"):
        above = ((127 - zero) * scale - bias) / unit
        below = ((128 + zero) * scale + bias) / unit
    return np.asarray(np.nan_to_num(np.maximum(above, below), nan=0.0))


def _bias(graph: Graph, op: Op, unit: np.ndarray) -> np.ndarray:
    """The bias in real values."""
    tensor = graph.tensor(op.inputs[2]) if len(op.inputs) > 2 and op.inputs[2] else None
    if tensor is None or tensor.data is None:
        return np.zeros(len(unit))
    data = tensor.data.reshape(-1).astype(np.float64)
    return data if tensor.dtype.is_float else np.asarray(data * unit)


@lint(
    "LINT-ADD-SCALES",
    "Operands of an addition have very different scales",
    severity=Severity.WARNING,
    confidence=Confidence.REPORTED,
    cause="The result's scale cannot hold the range of an operand, or one operand is so much "
    "finer that its steps vanish. Low-biased results were seen on a board with such a "
    "residual Add.",
    fixes=(fixes.TIE_SCALES,),
)
def operands_have_unlike_scales(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """The scales of an addition do not fit together: it clips, or one operand loses bits."""
    for op in of_kind(graph, "Add", "Sub"):
        tensors, out = operands(graph, op), graph.output_tensor(op)
        scales = [value for value in map(scale, tensors) if value]
        if len(scales) < 2 or not scale(out):
            continue
        # Does the result cut off much of an operand's range? A fused ReLU does it on purpose.
        free = op.attrs_as(BinaryAttrs).activation is Activation.NONE
        clips = free and any(
            _clipped_share(_range(t), _range(out)) > _CLIPPED_SHARE for t in tensors
        )
        if clips or max(scales) > _LOST_BITS * min(scales):
            text = " and ".join(f"{value:.4g}" for value in scales)
            yield hit(op, f"{text} -> {scale(out):.4g}", "a result that holds both operands")


def _clipped_share(operand: tuple[float, float], out: tuple[float, float]) -> float:
    lost = max(0.0, operand[1] - out[1]) + max(0.0, out[0] - operand[0])
    return lost / (operand[1] - operand[0])


def _range(tensor: Tensor) -> tuple[float, float]:
    """Smallest and largest real value of a tensor with one scale."""
    assert tensor.quant is not None
    low, high = tensor.dtype.limits
    step, zero = tensor.quant.scale, tensor.quant.zero_point
    return step * (low - zero), step * (high - zero)


@lint(
    "LINT-CONCAT-SCALES",
    "Parts of a Concat have very different ranges",
    severity=Severity.INFO,
    confidence=Confidence.REPORTED,
    cause="All parts get the scale of the widest; the narrow ones keep a few steps only.",
    fixes=(fixes.TIE_SCALES,),
)
def parts_have_unlike_scales(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Parts of a Concat have very different ranges; the small ones lose most of their bits."""
    producers = graph.producers()
    for op in of_kind(graph, "Concat"):
        parts = [scale(_before_requantize(graph, producers, name)) for name in op.inputs]
        scales, out = [value for value in parts if value], scale(graph.output_tensor(op))
        if len(scales) > 1 and out and out > _CONCAT_RATIO * min(scales):
            yield hit(op, round(out / min(scales), 1), _CONCAT_RATIO)


def _before_requantize(graph: Graph, producers: dict[str, Op], name: str) -> Tensor:
    maker = producers.get(name)
    return graph.tensor(maker.inputs[0] if maker and maker.kind == "Quantize" else name)


@lint(
    "LINT-DEGENERATE-SCALE",
    "An extreme scale",
    severity=Severity.WARNING,
    confidence=Confidence.VERIFIED,
    cause="A tensor that was always the same in calibration gets a scale near 0; one that "
    "overflowed gets a huge one. Either way its values carry no information.",
    fixes=(fixes.CALIBRATE,),
)
def scales_are_out_of_range(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A scale is so small or so large that the tensor holds constants or overflows."""
    makers = graph.producers()
    for tensor in computed(graph):
        value = scale(tensor)
        if value is not None and not _SMALLEST <= value <= _LARGEST:
            ops = source(makers[tensor.name]) if tensor.name in makers else (tensor.name,)
            yield Hit(ops, f"scale {value:.4g}", f"{_SMALLEST:g} to {_LARGEST:g}")


@lint(
    "LINT-CALIBRATION",
    "Calibrated with random numbers",
    severity=Severity.INFO,
    confidence=Confidence.REPORTED,
    cause="The input range is what a standard normal gives, or several inputs share one odd "
    "scale: quantizer examples use random arrays. Ranges of the whole network then mean little.",
    fixes=(fixes.CALIBRATE,),
)
def ranges_look_like_noise(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Input ranges look like random numbers: the network was not calibrated with real data."""
    tensors = [graph.tensor(name) for name in graph.inputs]
    noisy = [tensor for tensor in tensors if _is_noise(tensor)]
    if noisy:
        text = ", ".join(f"{255 * (scale(t) or 0):.3g} wide" for t in noisy)
        yield Hit(tuple(t.name for t in noisy), text, "the range of real data")
    # What a Concat joins, such as a frame and the network's state, must have one scale.
    joined = {name for op in of_kind(graph, "Concat") for name in op.inputs}
    free = [t for t in tensors if _is_odd(t) and t.name not in joined]
    shared = [t for t in free if sum(t.quant == other.quant for other in free) > 1]
    if shared:
        yield Hit(tuple(t.name for t in shared), "same scale and zero point", "ranges of their own")


def _is_noise(tensor: Tensor) -> bool:
    value, zero = scale(tensor), zero_point(tensor)
    if not _is_odd(tensor) or value is None or not zero:
        return False
    return _NOISE_WIDTH[0] <= 255 * value <= _NOISE_WIDTH[1] and abs(zero) <= _NOISE_ZERO


def _is_odd(tensor: Tensor) -> bool:
    """A scale that is not one of those chosen by hand."""
    value = scale(tensor)
    return value is not None and not any(isclose(value, nice, rel_tol=1e-3) for nice in _NICE)


# --- When fixes are true ---


@holds_for("symmetric-weights", *LAYERS)
def weights_are_constant(graph: Graph, op: Op) -> bool:
    """Quantized weights that are shifted, or have a scale along another axis."""
    weights = graph.tensor(op.inputs[1])
    return weights.is_constant and weights.quant is not None
