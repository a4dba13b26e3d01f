"""Why Vela's stream of an operator differs from LiteRT, and what it computes instead.

A cause says to which operators it applies, by attributes, types and scales, and which values the
stream gives then. A difference is explained if the network gives exactly the values that follow
from those of its causes (`unexplained`); those that depend on what a memory held are not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct, structs

from npuscope.families.ethos_u.faults import FAULTS, centres, stride_gaps
from npuscope.graph.model import Activation, Graph, Op
from npuscope.ops.kernels.requantize import (
    Multipliers,
    clamp_limits,
    quantize_real,
    quantized_multipliers,
    real_limits,
    scale_twice,
)
from npuscope.ops.kernels.step import quant_of
from npuscope.ops.layers import ConvAttrs
from npuscope.ops.reduce import ReduceAttrs
from npuscope.ops.run import disturbed, run_some

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = dict[str, Array]
Fill = Callable[[tuple[int, ...]], Array]
Values = Callable[[Graph, Op, Sequence[Array], Array], Array]
OPEN = -(1 << 31)  # depends on what the memory held before


class Cause(Struct, frozen=True):
    """`values` come from the operator, its inputs and the right result, which is not LiteRT's where
    the cause is LiteRT's own."""

    name: str
    machines: tuple[str, ...]
    applies: Callable[[Graph, Op], bool]
    values: Values
    on_cpu: bool = False
    of_litert: bool = False


_FILLS = (0, 0x7F, 0x80, 0xFF)  # what a memory may have held,
_RANDOM_FILLS = 12  # beside random bytes
REAL = 1e-6  # relative; functions of reals differ in their last bit


def unexplained(
    graph: Graph, machine: str, inputs: Mapping[str, Array], on_cpu: Container[str], results: Arrays
) -> tuple[list[str], int]:
    """Causes that changed a value, and how many results do not follow from them. `on_cpu` names
    the tensors that operators outside of the stream make."""
    names: set[str] = set()
    rng = np.random.default_rng(0)
    fills: list[Fill] = [lambda shape, byte=byte: np.full(shape, byte, np.uint8) for byte in _FILLS]
    fills += [lambda shape: rng.integers(0, 256, shape, np.uint8)] * _RANDOM_FILLS
    runs = [_as_compiled(graph, machine, inputs, on_cpu, names, fill) for fill in fills]
    left = 0
    for name, result in results.items():
        first, *others = (run[name].reshape(result.shape) for run in runs)
        fixed = np.all([first == other for other in others], axis=0)
        distance = np.abs(first.astype(np.float64) - result.astype(np.float64))
        allowed = REAL * np.abs(first) if result.dtype.kind == "f" else 0
        left += int((fixed & (distance > allowed)).sum())
    return sorted(names), left


def _as_compiled(
    graph: Graph,
    machine: str,
    inputs: Mapping[str, Array],
    on_cpu: Container[str],
    names: set[str],
    fill: Fill,
) -> Arrays:
    """The network's outputs, operator by operator, with what the causes make of each."""
    values = {name: t.data for name, t in graph.tensors.items() if t.data is not None}
    values |= inputs
    makers = {name: op for op in graph.ops for name in op.outputs}

    def change(name: str, result: Array) -> Array:
        op = makers[name]
        for cause in CAUSES:
            fits = cause.on_cpu == (name in on_cpu) and machine.startswith(cause.machines)
            if fits and cause.applies(graph, op):
                reads = [values[one] for one in op.inputs if one]
                changed = cause.values(graph, op, reads, result).reshape(result.shape)
                if cause.of_litert or (changed != result).any():
                    names.add(cause.name)
                memory = fill(result.shape).astype(result.dtype)
                result = np.where(changed == OPEN, memory, changed.astype(result.dtype))
        values[name] = result
        return result

    return disturbed(graph, inputs, change)


_ALL, _U85 = ("ethos-u",), ("ethos-u85",)


def _centred(graph: Graph, name: str, values: Array) -> Array:
    return values.astype(np.int64) - quant_of(graph.tensors[name]).zero_point


def _stored(graph: Graph, op: Op, values: Array) -> Array:
    output = graph.output_tensor(op)
    activation = getattr(op.attrs, "activation", Activation.NONE)
    shifted = values + quant_of(output).zero_point
    return np.clip(shifted, *clamp_limits(output, *real_limits(activation)))


def _scale(graph: Graph, name: str) -> float:
    return quant_of(graph.tensors[name]).scale


# --- Rounding ---


def _dense(graph: Graph, op: Op, inputs: Sequence[Array], result: Array) -> Array:
    """Rounded twice, as the command says; LiteRT rounds once."""
    weights = graph.tensors[op.inputs[1]]
    zeros = np.array(quant_of(weights).zero_points, np.int64).reshape(-1, 1)
    columns = inputs[1].astype(np.int64).reshape(len(inputs[1]), -1) - zeros
    sums = _centred(graph, op.inputs[0], inputs[0]).reshape(-1, columns.shape[1]) @ columns.T
    if len(op.inputs) > 2 and op.inputs[2]:
        sums = sums + inputs[2].astype(np.int64)
    scales = np.array(quant_of(weights).scales) * _scale(graph, op.inputs[0])
    factors = quantized_multipliers(scales / _scale(graph, op.outputs[0]))
    return _stored(graph, op, scale_twice(sums, factors)).reshape(result.shape)


_COMPARISONS = {
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "Greater": np.greater,
    "GreaterEqual": np.greater_equal,
    "Less": np.less,
    "LessEqual": np.less_equal,
}
_COMPARED_BITS = 8  # LiteRT shifts both sides by so much before it scales them


def _compared(graph: Graph, op: Op, inputs: Sequence[Array], result: Array) -> Array:
    """Scaled by 256 at once; LiteRT shifts first, so that the first rounding is finer."""
    sides = []
    for name, values in zip(op.inputs, inputs, strict=True):
        factor = quantized_multipliers(_scale(graph, name))
        scaled = Multipliers(factor.mantissa, factor.shift + _COMPARED_BITS)
        sides.append(scale_twice(_centred(graph, name, values), scaled))
    return np.asarray(_COMPARISONS[op.kind](*sides))


# --- Other values ---


def _negated(graph: Graph, op: Op, inputs: Sequence[Array], result: Array) -> Array:
    """About the zero points; LiteRT negates what is stored. Neither looks at the scales."""
    return _stored(graph, op, -_centred(graph, op.inputs[0], inputs[0]))


def _divided(graph: Graph, op: Op, inputs: Sequence[Array], result: Array) -> Array:
    """What is stored, towards zero, without zero points and scales."""
    above, below = inputs[0].astype(np.int64), inputs[1].astype(np.int64)
    quotient = np.where(below == 0, 0, np.trunc(above / np.where(below == 0, 1, below)))
    return np.clip(quotient.astype(np.int64), *graph.output_tensor(op).dtype.limits)


def _zero_divided(graph: Graph, op: Op, inputs: Sequence[Array], result: Array) -> Array:
    """LiteRT shifts 0 / x by more bits than a number has, which C++ leaves open."""
    zero = _centred(graph, op.inputs[0], inputs[0]) == 0
    return np.where(zero, OPEN, result.astype(np.int64))


def _summed(graph: Graph, op: Op, inputs: Sequence[Array], result: Array) -> Array:
    """Over the first axis alone, of which the output takes as many as it has; rounded half up."""
    sums = _centred(graph, op.inputs[0], inputs[0]).sum(axis=op.attrs_as(ReduceAttrs).axes[0])
    ratio = _scale(graph, op.inputs[0]) / _scale(graph, op.outputs[0])
    factor = quantized_multipliers(ratio)
    bits = 31 - factor.shift
    scaled = sums.ravel() * factor.mantissa + (np.left_shift(1, bits) >> 1) >> bits
    return _stored(graph, op, scaled[: result.size]).reshape(result.shape)


def _sums_bytes(graph: Graph, op: Op) -> bool:
    """LiteRT's reference kernel of 8 bits is wrong; its default one is not."""
    return op.kind == "ReduceSum" and graph.tensors[op.inputs[0]].dtype.limits[1] < 256


def _first_row(graph: Graph, op: Op, inputs: Sequence[Array], result: Array) -> Array:
    shape = graph.tensors[op.inputs[0]].shape
    row = int(np.prod(shape[max(op.attrs_as(ReduceAttrs).axes) + 1 :], dtype=int))
    values = np.full(result.size, OPEN)
    values[:row] = result.ravel()[:row]
    return values.reshape(result.shape)


def _by_centres(graph: Graph, op: Op, inputs: Sequence[Array], result: Array) -> Array:
    image = inputs[0]
    for axis in (1, 2):
        size, target = image.shape[axis], result.shape[axis]
        image = image.take(centres(size, target), axis)
    return image


def _clipped_as_signed(graph: Graph, op: Op, inputs: Sequence[Array], result: Array) -> Array:
    """Bytes above 127 are negative to the kernel that copies them and clips."""
    low, high = graph.output_tensor(op).dtype.limits
    if op.kind == "Conv2D":
        bounds = real_limits(op.attrs_as(ConvAttrs).activation)
        quant = quant_of(graph.output_tensor(op))
        low, high = (quantize_real(bound, quant) for bound in bounds)
    signed = result.astype(np.uint8).view(np.int8)
    return np.clip(signed, max(low, -128), min(high, 127)).astype(np.int8).view(np.uint8)


def _masked_by_one(graph: Graph, op: Op, inputs: Sequence[Array], result: Array) -> Array:
    """A condition that is an output of the network is stored as 0 or 1, and taken for a mask."""
    mask = np.broadcast_to(inputs[0], result.shape).astype(np.int64)
    a, b = (_centred(graph, op.outputs[0], values) for values in inputs[1:])
    return _stored(graph, op, a & mask | b & ~mask)


def _padded_behind(graph: Graph, op: Op, inputs: Sequence[Array], result: Array) -> Array:
    """The image's beginning is lost: all of the padding comes after it."""
    attrs = op.attrs_as(ConvAttrs)
    top, left, bottom, right = attrs.pads
    shifted = structs.replace(attrs, pads=(0, 0, top + bottom, left + right))
    values = dict(zip((name for name in op.inputs if name), inputs, strict=True))
    return run_some(graph, [structs.replace(op, attrs=shifted)], values)[op.outputs[0]]


def _centred_in_gaps(graph: Graph, op: Op, inputs: Sequence[Array], result: Array) -> Array:
    down, right = stride_gaps(graph, op)
    return np.roll(result, (down // 2, right // 2), (1, 2))


_OF_FAULTS: dict[str, Values] = {
    "divides stored values": _divided,
    "sums one axis": _summed,
    "reduces the first row": _first_row,
    "resizes by centres": _by_centres,
    "clips bytes as signed": _clipped_as_signed,
    "looks along the other axis": lambda graph, op, inputs, result: np.zeros_like(result),
    "selects by one bit": _masked_by_one,
    "centres in a stride": _centred_in_gaps,
}


def _of_fault(graph: Graph, op: Op, inputs: Sequence[Array], result: Array, name: str) -> Array:
    if name == "pads after the image" and op.kind == "Conv2D":
        return _padded_behind(graph, op, inputs, result)
    values = _OF_FAULTS.get(name)
    return np.full(result.shape, OPEN) if values is None else values(graph, op, inputs, result)


CAUSES = (
    Cause("rounds twice", _ALL, lambda g, op: op.kind == "FullyConnected", _dense),
    Cause("compares rounded", _U85, lambda g, op: op.kind in _COMPARISONS, _compared),
    Cause("negates about zero points", _ALL, lambda g, op: op.kind == "Neg", _negated),
    Cause("0 / x in LiteRT", _ALL, lambda g, op: op.kind == "Div", _zero_divided, on_cpu=True),
    Cause(
        "rounds sums half up",
        _ALL,
        lambda g, op: _sums_bytes(g, op) and len(op.attrs_as(ReduceAttrs).axes) == 1,
        _summed,
    ),
    Cause("sum of LiteRT", _ALL, _sums_bytes, lambda g, op, x, y: y, of_litert=True),
    Cause("sum of LiteRT", _ALL, _sums_bytes, lambda g, op, x, y: y, on_cpu=True, of_litert=True),
    *(
        Cause(fault.name, fault.machines, fault.applies, partial(_of_fault, name=fault.name))
        for fault in FAULTS
    ),
)
