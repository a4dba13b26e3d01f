"""What directly follows a layer and scales or shifts its channels, as part of weights and bias.

y = gain * (layer + bias) + offset, per output channel. The gain of quantized weights goes into
their scales and its sign into the weights, so no weight is rounded again, and the layer can be
bound to the QuantizeLinear behind both. Float weights are multiplied.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from npuscope.files.onnx.constants import INTEGER_TYPES, Const
from npuscope.files.onnx.file import Node, OnnxModel
from npuscope.graph.model import Quant
from npuscope.structs import replace

Constants = dict[str, Const]


class ChannelAffine(Struct, frozen=True):
    """One number per output channel, or one for all."""

    gain: np.ndarray
    offset: np.ndarray


def fold_batch_norm(source: OnnxModel) -> OnnxModel:
    """The same model without the normalizations that quantized layers can take over: a file that
    is quantized is what its compiler gets, so nothing else of it is folded."""
    return _Folds(source, lambda node: node.kind == "BatchNormalization", quantized=True).run()


def fold_into_layers(source: OnnxModel) -> OnnxModel:
    """The same float model without normalizations and constant products and sums that layers can
    take over."""
    return _Folds(source, lambda node: node.kind in _AFFINE, quantized=False).run()


class _Folds:
    """`takes` says which followers to take over, by layers with quantized or with float weights."""

    def __init__(
        self, source: OnnxModel, takes: Callable[[Node], bool], *, quantized: bool
    ) -> None:
        self.source = source
        self.takes = takes
        self.quantized = quantized
        self.constants = dict(source.constants)
        self.readers = readers_of(source)

    def run(self) -> OnnxModel:
        nodes: list[Node] = []
        merged: dict[str, Node] = {}  # output of a follower -> the layer that makes it
        for node in self.source.nodes:
            node = merged.get(node.output, node)
            # The only reader of a layer, if it is one to take over.
            following = self.readers.get(node.output, [])
            if node.output in self.source.outputs or len(following) != 1:
                follower = None
            else:
                trained = not following[0].integer("training_mode", 0)
                follower = following[0] if trained and self.takes(following[0]) else None
            layer = None if follower is None else self._folded(node, follower)
            if follower is None or layer is None:
                nodes.append(node)
            else:
                merged[follower.output] = layer
        return replace(self.source, nodes=tuple(nodes), constants=self.constants)

    def _folded(self, node: Node, follower: Node) -> Node | None:
        weights = self.constants.get(node.input(1))
        if weights is None or (weights.quant is not None) is not self.quantized:
            return None
        axis = _channel_axis(node, weights.data.ndim)
        bias = _bias(node, self.constants)
        if axis is None or bias is None or axis >= weights.data.ndim:
            return None
        channels = weights.data.shape[axis]
        affine = _AFFINE[follower.kind](follower, node, self.constants, channels)
        fits = weights.quant is None or weights.quant.axis in (None, axis)
        if affine is None or not fits or bias.size not in (1, channels):
            return None
        names = f"{follower.output}/weights", f"{follower.output}/bias"
        self.constants[names[0]] = replace(_scaled(weights, affine.gain, axis), name=names[0])
        shifted = np.asarray(bias * affine.gain + affine.offset, np.float32)
        self.constants[names[1]] = Const(shifted, "float32", name=names[1])
        inputs = (node.input(0), *names)
        merged = (*node.merged, follower.origin)
        return replace(node, inputs=inputs, outputs=follower.outputs[:1], merged=merged)


def readers_of(source: OnnxModel) -> dict[str, list[Node]]:
    readers: dict[str, list[Node]] = {}
    for node in source.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    return readers


def _channel_axis(node: Node, rank: int) -> int | None:
    """The axis of the weights that counts output channels."""
    if node.kind == "Conv":
        return 0
    if node.kind == "ConvTranspose" and node.integer("group", 1) == 1:
        return 1
    if node.kind == "Gemm":
        return 0 if node.integer("transB", 0) else 1
    return rank - 1 if node.kind == "MatMul" and rank == 2 else None


def _bias(node: Node, constants: Constants) -> np.ndarray | None:
    """The layer's bias in double; None when it is not a constant row."""
    if not node.input(2):
        return np.zeros(1)
    const = constants.get(node.input(2))
    plain = node.number("alpha", 1.0) == node.number("beta", 1.0) == 1.0
    if const is None or not plain or const.data.ndim > 2:
        return None
    return const.real().ravel().astype(np.float64)


# --- Followers as a gain and an offset per channel ---


def batch_norm(norm: Node, constants: Constants) -> ChannelAffine | None:
    """A normalization with constant statistics, as a gain and an offset."""
    parameters = [constants.get(norm.input(index)) for index in (1, 2, 3, 4)]
    values = [const.real().astype(np.float64) for const in parameters if const is not None]
    if len(values) != 4 or len({value.shape for value in values}) != 1 or values[0].ndim != 1:
        return None
    scale, offset, mean, variance = values
    with np.errstate(all="ignore"):  # damaged files may hold any value
        gain = scale / np.sqrt(variance + norm.number("epsilon", 1e-5))
    finite = bool(np.all(np.isfinite(gain)))
    return ChannelAffine(gain, offset - mean * gain) if finite else None


def _norm(follower: Node, layer: Node, constants: Constants, channels: int) -> ChannelAffine | None:
    affine = batch_norm(follower, constants)
    same = follower.input(0) == layer.output and affine is not None
    return affine if same and affine is not None and affine.gain.shape == (channels,) else None


def _row(follower: Node, layer: Node, constants: Constants, channels: int) -> np.ndarray | None:
    """The constant operand as one finite number for every channel."""
    others = [name for name in follower.inputs if name != layer.output]
    const = constants.get(others[0]) if len(others) == 1 else None
    if const is None or const.quant is not None or const.data.dtype.kind != "f":
        return None
    weights = constants[layer.input(1)].data
    axes = weights.ndim - 1 if layer.kind in ("Conv", "ConvTranspose") else 1  # behind the first
    shape = const.data.shape[-axes:]
    wide = len(const.data.shape) > axes + 1 or any(size != 1 for size in const.data.shape[:-axes])
    by_channel = len(shape) == axes and shape[0] == channels and set(shape[1:]) <= {1}
    row = const.data.ravel().astype(np.float64)
    if wide or not (row.size == 1 or by_channel) or not np.all(np.isfinite(row)):
        return None
    return np.asarray(np.broadcast_to(row, (channels,)))


def _sum(follower: Node, layer: Node, constants: Constants, channels: int) -> ChannelAffine | None:
    row = _row(follower, layer, constants, channels)
    if row is None:
        return None
    if follower.kind == "Add":
        return ChannelAffine(np.ones(channels), row)
    first = follower.input(0) == layer.output
    return (
        ChannelAffine(np.ones(channels), -row) if first else ChannelAffine(-np.ones(channels), row)
    )


def _product(
    follower: Node, layer: Node, constants: Constants, channels: int
) -> ChannelAffine | None:
    row = _row(follower, layer, constants, channels)
    divides = follower.kind == "Div"
    if row is None or (divides and (follower.input(0) != layer.output or not row.all())):
        return None
    return ChannelAffine(1 / row if divides else row, np.zeros(channels))


_AFFINE: dict[str, Callable[[Node, Node, Constants, int], ChannelAffine | None]] = {
    "BatchNormalization": _norm,
    "Add": _sum,
    "Sub": _sum,
    "Mul": _product,
    "Div": _product,
}


# --- Weights times a gain ---


def _scaled(weights: Const, gain: np.ndarray, axis: int) -> Const:
    """|gain| goes into the scales of quantized weights; a negative one mirrors its channel."""
    along = [-1 if place == axis else 1 for place in range(weights.data.ndim)]
    if weights.quant is None:
        product = weights.data.astype(np.float64) * gain.reshape(along)
        return Const(product.astype(np.float32), "float32")
    scales = np.broadcast_to(np.asarray(weights.quant.scales), gain.shape) * np.abs(gain)
    points = np.broadcast_to(np.asarray(weights.quant.zero_points), gain.shape)
    # q becomes middle - q: about 0, or about the middle of the type's range for channels that
    # hold its smallest value, which has no negative.
    low, high = INTEGER_TYPES[weights.type].limits
    channels = np.moveaxis(weights.data, axis, 0).reshape(weights.data.shape[axis], -1)
    fits = (low < 0) & (channels.min(axis=1) > low)
    middle = np.where(fits, 0, low + high)
    mirrored = middle.reshape(along) - weights.data.astype(np.int64)
    data = np.where((gain < 0).reshape(along), mirrored, weights.data).astype(weights.data.dtype)
    quant = Quant(
        tuple(np.asarray(scales, np.float32).astype(float).tolist()),
        tuple(int(zero) for zero in np.where(gain < 0, middle - points, points)),
        axis,
    )
    return replace(weights, data=np.ascontiguousarray(data), quant=quant)
