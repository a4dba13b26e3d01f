"""Scales of activations: operands that do not go together, ranges that look wrong."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose

from npuscope.graph.attrs import Activation, BinaryAttrs
from npuscope.graph.model import Graph, Op, Tensor
from npuscope.machine.model import Machine
from npuscope.rules.finding import Hit
from npuscope.rules.lint import lint
from npuscope.rules.queries import computed, hit, of_kind, operands, scale, source, zero_point

_CLIPS = 0.25  # share of an operand's range that the result cannot hold
_LOST_BITS = 16.0  # operand scales this far apart: the finer one drops four bits
_CONCAT_RATIO = 8.0
_SMALLEST, _LARGEST = 1e-7, 1e3
_NOISE_WIDTH = (5.5, 9.5)  # what a few hundred values of a standard normal cover
_NOISE_ZERO = 8
_NICE = (1.0, 1 / 255, 1 / 256, 1 / 127, 1 / 128, 1 / 127.5, 1 / 64)


@lint("LINT-ADD-SCALES")
def operands_have_unlike_scales(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """The scales of an addition do not go together: it clips, or one operand loses bits."""
    for op in of_kind(graph, "Add", "Sub"):
        tensors, out = operands(graph, op), graph.output_tensor(op)
        scales = [value for value in map(scale, tensors) if value]
        if len(scales) < 2 or not scale(out):
            continue
        if _clips(op, tensors, out) or max(scales) > _LOST_BITS * min(scales):
            text = " and ".join(f"{value:.4g}" for value in scales)
            yield hit(op, f"{text} -> {scale(out):.4g}", "a result that holds both operands")


def _clips(op: Op, tensors: list[Tensor], out: Tensor) -> bool:
    """Does the result cut off much of an operand's range? A fused ReLU does it on purpose."""
    free = op.attrs_as(BinaryAttrs).activation is Activation.NONE
    return free and any(_clipped_share(_range(t), _range(out)) > _CLIPS for t in tensors)


def _clipped_share(operand: tuple[float, float], out: tuple[float, float]) -> float:
    lost = max(0.0, operand[1] - out[1]) + max(0.0, out[0] - operand[0])
    return lost / (operand[1] - operand[0])


def _range(tensor: Tensor) -> tuple[float, float]:
    """Smallest and largest real value of a tensor with one scale."""
    assert tensor.quant is not None
    low, high = tensor.dtype.limits
    step, zero = tensor.quant.scale, tensor.quant.zero_point
    return step * (low - zero), step * (high - zero)


@lint("LINT-CONCAT-SCALES")
def parts_have_unlike_scales(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Parts of a Concat have very different ranges; the small ones lose most of their bits."""
    producers = graph.producers()
    for op in of_kind(graph, "Concat"):
        scales = [scale(_before_requantize(graph, producers, name)) for name in op.inputs]
        out = scale(graph.output_tensor(op))
        known = [value for value in scales if value]
        if len(known) > 1 and out and out > _CONCAT_RATIO * min(known):
            yield hit(op, round(out / min(known), 1), _CONCAT_RATIO)


def _before_requantize(graph: Graph, producers: dict[str, Op], name: str) -> Tensor:
    maker = producers.get(name)
    return graph.tensor(maker.inputs[0] if maker and maker.kind == "Quantize" else name)


@lint("LINT-DEGENERATE-SCALE")
def scales_are_out_of_range(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A scale is so small or so large that the tensor holds constants or overflows."""
    makers = graph.producers()
    for tensor in computed(graph):
        value = scale(tensor)
        if value is not None and not _SMALLEST <= value <= _LARGEST:
            ops = source(makers[tensor.name]) if tensor.name in makers else (tensor.name,)
            yield Hit(ops, f"scale {value:.4g}", f"{_SMALLEST:g} to {_LARGEST:g}")


@lint("LINT-CALIBRATION")
def ranges_look_like_noise(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """Input ranges look like random numbers: the network was not calibrated with real data."""
    tensors = [graph.tensor(name) for name in graph.inputs]
    noisy = [tensor for tensor in tensors if _is_noise(tensor)]
    if noisy:
        text = ", ".join(f"{255 * (scale(t) or 0):.3g} wide" for t in noisy)
        yield Hit(tuple(t.name for t in noisy), text, "the range of real data")
    shared = [t for t in tensors if _is_odd(t) and sum(t.quant == o.quant for o in tensors) > 1]
    if shared:
        yield Hit(tuple(t.name for t in shared), "same scale and zero point", "ranges of their own")


def _is_noise(tensor: Tensor) -> bool:
    value, zero = scale(tensor), zero_point(tensor)
    if not _is_odd(tensor) or value is None or not zero:
        return False
    return _NOISE_WIDTH[0] <= 255 * value <= _NOISE_WIDTH[1] and abs(zero) <= _NOISE_ZERO


def _is_odd(tensor: Tensor) -> bool:
    """A scale that nobody chose by hand."""
    value = scale(tensor)
    return value is not None and not any(isclose(value, nice, rel_tol=1e-3) for nice in _NICE)
