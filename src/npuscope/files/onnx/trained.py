"""Quantizers of training frameworks, as the standard nodes and quantized constants they stand for.

QONNX (Brevitas, QKeras) and Sony's Model Compression Toolkit export a float network with ops of
their own around every tensor that they round. One on an activation becomes QuantizeLinear and
DequantizeLinear; one on weights makes them a quantized constant.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from npuscope.files.onnx.binding import fold_constants
from npuscope.files.onnx.constants import Const
from npuscope.files.onnx.file import Node, OnnxModel
from npuscope.files.onnx.fold import Computing
from npuscope.graph.model import Quant
from npuscope.structs import replace

_BYTE = 8
_MCT = "mct_quantizers."
Constants = dict[str, Const]


class Steps(Struct, frozen=True):
    """real = scale * (step - zero), of steps from `low` to `high`; one scale, or some per channel
    along `axis`."""

    scale: np.ndarray
    zero: np.ndarray
    low: float
    high: float
    axis: int | None = None


def undo_training(source: OnnxModel) -> OnnxModel:
    """The same model without such ops; what does not fit stays, as work of unknown cost."""
    if not any(_steps_of(node) for node in source.nodes):
        return source
    source = fold_constants(source, Computing(source.constants.values()))
    constants = dict(source.constants)
    nodes = [new for node in source.nodes for new in _quantizer(node, constants)]
    return replace(source, nodes=tuple(nodes), constants=constants)


def _quantizer(node: Node, constants: Constants) -> list[Node]:
    steps_of = _steps_of(node)
    if steps_of is None:
        return [node]
    const = constants.get(node.input(0))
    table = _TABLES.get(node.kind.rpartition(".")[2])
    if table is not None and const is not None:
        stored = table(node, const, constants)
    else:
        steps = steps_of(node, constants)
        if steps is None or steps.high - steps.low > 2**_BYTE - 1:
            return [node]
        if const is None:
            return _pair(node, constants, steps) if steps.scale.size == 1 else [node]
        stored = _stored(const, steps)
    if stored is None:
        return [node]
    constants[node.output] = stored
    return []


def _stored(const: Const, steps: Steps) -> Const:
    """A constant in integers of one byte; real where its scales run along several axes."""
    if steps.axis is None and steps.scale.size > 1:
        values = np.clip(np.rint(const.real() / steps.scale + steps.zero), steps.low, steps.high)
        return Const(((values - steps.zero) * steps.scale).astype(np.float32), "float32")
    shape = [1] * const.data.ndim
    if steps.axis is not None:
        shape[steps.axis] = -1
    scale, zero = steps.scale.reshape(shape), steps.zero.reshape(shape)
    values = np.clip(np.rint(const.real() / scale + zero), steps.low, steps.high)
    kind = "int8" if steps.low < 0 else "uint8"
    scales = steps.scale.ravel()
    zeros = np.broadcast_to(steps.zero.ravel(), scales.shape)
    axis = steps.axis if scales.size > 1 else None
    return Const(
        values.astype(kind), kind, Quant(tuple(map(float, scales)), tuple(map(int, zeros)), axis)
    )


def _pair(node: Node, constants: Constants, steps: Steps) -> list[Node]:
    """A clamp where the range is narrower than a byte, then the standard pair."""
    scale, zero = float(steps.scale.ravel()[0]), int(steps.zero.ravel()[0])
    kind = "int8" if steps.low < 0 else "uint8"
    stem = node.output
    for name, value, dtype in (
        ("scale", scale, "float32"),
        ("zero", zero, kind),
        ("low", (steps.low - zero) * scale, "float32"),
        ("high", (steps.high - zero) * scale, "float32"),
    ):
        constants[f"{stem}/{name}"] = Const(np.asarray(value, dtype), dtype)
    parameters = f"{stem}/scale", f"{stem}/zero"
    source, nodes = node.input(0), []
    if steps.high - steps.low < 2**_BYTE - 1:
        clamp = (source, f"{stem}/low", f"{stem}/high")
        nodes.append(Node("Clip", node.origin, clamp, (f"{stem}/clamped",)))
        source = f"{stem}/clamped"
    whole = f"{stem}/integers"
    nodes.append(Node("QuantizeLinear", node.origin, (source, *parameters), (whole,)))
    nodes.append(Node("DequantizeLinear", node.origin, (whole, *parameters), node.outputs))
    return nodes


# --- How each op states its steps ---


def _limits(bits: float, signed: bool, narrow: int = 0) -> tuple[float, float]:
    if signed:
        return -(2.0 ** (bits - 1)) + narrow, 2.0 ** (bits - 1) - 1
    return 0.0, 2.0**bits - 1 - narrow


def _qonnx(node: Node, constants: Constants) -> Steps | None:
    numbers = [constants.get(name) for name in node.inputs[1:]]
    values = [number.real() for number in numbers if number is not None]
    plain = node.text("rounding_mode", "ROUND").upper() == "ROUND"
    if len(values) != 3 or len(numbers) != 3 or not plain:
        return None
    scale, zero, bits = values
    wide = [axis for axis, size in enumerate(scale.shape) if size > 1]
    limits = _limits(
        float(bits.ravel()[0]), bool(node.integer("signed", 1)), node.integer("narrow", 0)
    )
    whole = zero.size == 1 or zero.shape == scale.shape
    axis = wide[0] if len(wide) == 1 and whole else None
    return Steps(scale, zero, *limits, axis)


def _activation(node: Node, constants: Constants) -> Steps | None:
    """ActivationSymmetricQuantizer and ActivationPOTQuantizer: up to a threshold."""
    bits, signed = node.integer("num_bits", _BYTE), bool(node.integer("signed", 1))
    scale = node.number("threshold", 0.0) / 2.0 ** (bits - signed)
    return Steps(np.asarray(scale), np.zeros(()), *_limits(bits, signed)) if scale > 0 else None


def _activation_range(node: Node, constants: Constants) -> Steps | None:
    low, high = (np.asarray(node.number(name, 0.0)) for name in ("min_range", "max_range"))
    return _between(low, high, node.integer("num_bits", _BYTE))


def _between(low: np.ndarray, high: np.ndarray, bits: int, axis: int | None = None) -> Steps | None:
    """Even steps over a range that is moved so that one of them is zero."""
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    scale = (high - low) / (2.0**bits - 1)
    if not np.all(scale > 0):
        return None
    return Steps(scale, -np.rint(low / scale), *_limits(bits, False), axis)


def _weights(node: Node, constants: Constants) -> Steps | None:
    """WeightsSymmetricQuantizer and WeightsPOTQuantizer: up to a threshold per channel."""
    threshold = constants.get(node.input(1))
    if threshold is None or not np.all(threshold.real() > 0):
        return None
    bits, axis = node.integer("num_bits", _BYTE), _axis(node)
    scale = threshold.real().ravel().astype(np.float64) / 2.0 ** (bits - 1)
    return Steps(scale, np.zeros(()), *_limits(bits, True), axis)


def _weights_range(node: Node, constants: Constants) -> Steps | None:
    low, high = (constants.get(node.input(place)) for place in (1, 2))
    if low is None or high is None:
        return None
    first, last = (end.real().ravel().astype(np.float64) for end in (low, high))
    return _between(first, last, node.integer("num_bits", _BYTE), _axis(node))


def _axis(node: Node) -> int | None:
    return node.integer("channel_axis", 0) if node.integer("per_channel", 0) else None


def _table_of_weights(node: Node, const: Const, constants: Constants) -> Const | None:
    """WeightsLUT*Quantizer: the nearest of a few integers, times a threshold per channel."""
    table, threshold = (constants.get(name) for name in node.inputs[1:3])
    bits = node.integer("lut_values_bitwidth", _BYTE)
    if table is None or threshold is None or bits > _BYTE:
        return None
    scale = threshold.real().ravel().astype(np.float64) / 2.0 ** (bits - 1)
    shape = [1] * const.data.ndim
    axis = _axis(node)
    if axis is not None:
        shape[axis] = -1
    values = np.sort(table.real().ravel())
    middles = (values[1:] + values[:-1]) / 2
    steps = values[np.searchsorted(middles, const.real() / scale.reshape(shape))]
    zeros = (0,) * scale.size
    return Const(steps.astype(np.int8), "int8", Quant(tuple(map(float, scale)), zeros, axis))


def _bipolar(node: Node, const: Const, constants: Constants) -> Const | None:
    scale = constants.get(node.input(1))
    if scale is None:
        return None
    signs = np.where(const.real() >= 0, 1, -1).astype(np.int8)
    if scale.data.size == 1:
        return Const(signs, "int8", Quant((float(scale.real().ravel()[0]),), (0,)))
    return Const((signs * scale.real()).astype(np.float32), "float32")


_QONNX: dict[str, Callable[[Node, Constants], Steps | None]] = {
    "Quant": _qonnx,
    "BipolarQuant": lambda node, constants: None,
}
_MCT_STEPS: dict[str, Callable[[Node, Constants], Steps | None]] = {
    "ActivationSymmetricQuantizer": _activation,
    "ActivationPOTQuantizer": _activation,
    "ActivationUniformQuantizer": _activation_range,
    "WeightsSymmetricQuantizer": _weights,
    "WeightsPOTQuantizer": _weights,
    "WeightsUniformQuantizer": _weights_range,
    "WeightsLUTSymmetricQuantizer": lambda node, constants: None,
    "WeightsLUTPOTQuantizer": lambda node, constants: None,
}
# Quantizers of weights that are no even steps.
_TABLES: dict[str, Callable[[Node, Const, Constants], Const | None]] = {
    "BipolarQuant": _bipolar,
    "WeightsLUTSymmetricQuantizer": _table_of_weights,
    "WeightsLUTPOTQuantizer": _table_of_weights,
}


def _steps_of(node: Node) -> Callable[[Node, Constants], Steps | None] | None:
    domain, _, kind = node.kind.rpartition(".")
    if f"{domain}." == _MCT:
        return _MCT_STEPS.get(kind)
    return _QONNX.get(kind) if domain else None
