"""Rewrites before binding: equivalent ops, aliases, biases, dead nodes, batch norms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuscope.files.onnx.constants import INTEGER_TYPES, Const
from npuscope.files.onnx.file import Node, OnnxModel
from npuscope.graph.model import Quant
from npuscope.lean_dataclass import dataclass, replace

# --- Ops that equal other ops, rewritten so that binding sees one form ---

Constants = dict[str, Const]
Rewrite = Callable[[Node, Constants], list[Node]]


def rewrite(source: OnnxModel) -> OnnxModel:
    nodes: list[Node] = []
    constants = dict(source.constants)
    for node in source.nodes:
        nodes.extend(_rewritten(node, constants))
    return replace(source, nodes=tuple(nodes), constants=constants)


def _rewritten(node: Node, constants: Constants) -> list[Node]:
    change = REWRITES.get(node.kind)
    if change is None:
        return [node]
    made = change(node, constants)
    if len(made) == 1 and made[0].kind == node.kind:
        return made
    return [new for one in made for new in _rewritten(one, constants)]


def _extreme(node: Node, constants: Constants) -> list[Node]:
    """Min or Max with a constant number is a Clip; of many operands it is a chain."""
    if len(node.inputs) != 2:
        return _chain(node, constants)
    numbers = [name for name in node.inputs if _is_number(constants.get(name))]
    others = [name for name in node.inputs if name not in constants]
    if len(numbers) != 1 or len(others) != 1:
        return [node]
    limits = (numbers[0], "") if node.kind == "Max" else ("", numbers[0])
    return [replace(node, kind="Clip", inputs=(others[0], *limits), attributes={})]


def _is_number(const: Const | None) -> bool:
    return const is not None and const.data.size == 1 and const.data.ndim <= 1


def _chain(node: Node, constants: Constants, kind: str = "") -> list[Node]:
    """f(a, b, c) as f(f(a, b), c)."""
    kind = kind or node.kind
    if len(node.inputs) == 1:
        return [replace(node, kind="Identity")]
    made: list[Node] = []
    first = node.inputs[0]
    for place, second in enumerate(node.inputs[1:], 1):
        last = place == len(node.inputs) - 1
        output = node.output if last else f"{node.output}/{place}"
        made.append(replace(node, kind=kind, inputs=(first, second), outputs=(output,)))
        first = output
    return made


def _sum(node: Node, constants: Constants) -> list[Node]:
    return _chain(node, constants, "Add")


def _before(kind: str, then: str, both: bool = False) -> Rewrite:
    """`then` of `kind`(x), or of kind(x, x)."""

    def change(node: Node, constants: Constants) -> list[Node]:
        inner = f"{node.output}/{kind}"
        operands = (node.input(0),) * (2 if both else 1)
        first = Node(kind, node.origin, operands, (inner,))
        return [first, replace(node, kind=then, inputs=(inner, *node.inputs[1:]))]

    return change


def _gemm(node: Node, constants: Constants) -> list[Node]:
    """A layer takes constant weights, a positive alpha and a constant row as bias; what else a
    Gemm may have becomes Mul and Add behind it."""
    weights, alpha = constants.get(node.input(1)), node.number("alpha", 1.0)
    first = weights is not None and alpha > 0
    before, bias = _times(node, node.input(2), node.number("beta", 1.0), constants)
    plain = replace(node, attributes={**node.attributes, "beta": 1.0})
    if first and not before and (not bias or _is_row(constants.get(bias), weights, node)):
        return [replace(plain, inputs=(*node.inputs[:2], *([bias] if bias else [])))]
    if alpha == 1.0 and not bias:
        return [node]
    product = replace(plain, inputs=node.inputs[:2], outputs=(f"{node.output}/product",))
    if not first:
        product = replace(product, attributes={**plain.attributes, "alpha": 1.0})
    scaling, result = _times(product, product.output, 1.0 if first else alpha, constants)
    nodes = [*before, product, *scaling]
    if bias:
        return [*nodes, Node("Add", node.origin, (result, bias), node.outputs)]
    return [*nodes[:-1], replace(nodes[-1], outputs=node.outputs)]


def _times(node: Node, name: str, factor: float, constants: Constants) -> tuple[list[Node], str]:
    """A tensor times a number: what computes it, and its name. Constants are scaled at once."""
    if factor == 1.0 or not name:
        return [], name
    scaled = f"{node.output}/{name}"
    if name in constants:
        with np.errstate(all="ignore"):  # damaged files may hold any value
            values = constants[name].real() * np.float32(factor)
        constants[scaled] = Const(values, "float32", name=scaled)
        return [], scaled
    constants[f"{scaled}/factor"] = Const(np.asarray(factor, np.float32), "float32")
    return [Node("Mul", node.origin, (name, f"{scaled}/factor"), (scaled,))], scaled


def _is_row(bias: Const | None, weights: Const | None, node: Node) -> bool:
    """One number for every column, the same in all rows."""
    if bias is None or weights is None or weights.data.ndim != 2:
        return False
    columns = weights.data.shape[0 if node.integer("transB", 0) else 1]
    return bias.data.size == columns and bias.data.shape[-1:] == (columns,)


REWRITES: dict[str, Rewrite] = {
    "Min": _extreme,
    "Max": _extreme,
    "Sum": _sum,
    "Gemm": _gemm,
    "ReduceL1": _before("Abs", "ReduceSum"),
    "ReduceSumSquare": _before("Mul", "ReduceSum", both=True),
}


# --- Aliases resolved, biases joined, dead nodes dropped ---

_ALIASES = ("Identity", "Dropout")


def tidy(source: OnnxModel) -> OnnxModel:
    """The same model without identities, unused nodes and separate MatMul biases.

    Constants are folded before, so a weight or a bias behind DequantizeLinear is a constant here.
    """
    return drop_dead(join_bias(resolve_aliases(source)))


def resolve_aliases(source: OnnxModel) -> OnnxModel:
    """Readers of an Identity read its input; graph outputs keep their names."""
    alias: dict[str, str] = {}
    nodes: list[Node] = []
    kept = set(source.outputs)
    for node in source.nodes:
        node = replace(node, inputs=tuple(alias.get(name, name) for name in node.inputs))
        if node.kind in _ALIASES and node.output not in kept:
            alias[node.output] = node.input(0)
        else:
            nodes.append(node)
    return replace(source, nodes=tuple(nodes))


def drop_dead(source: OnnxModel) -> OnnxModel:
    needed = set(source.outputs)
    live: list[Node] = []
    for node in reversed(source.nodes):
        if needed.intersection(node.outputs):
            live.append(node)
            needed.update(node.inputs)
    return replace(source, nodes=tuple(reversed(live)))


def join_bias(source: OnnxModel) -> OnnxModel:
    """MatMul(x, W) -> Add(constant row) is one Gemm-like op: Keras exporters write it so."""
    readers: dict[str, list[Node]] = {}
    for node in source.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    constants = {name: const.data.ndim for name, const in source.constants.items()}
    joined: dict[str, Node] = {}
    nodes: list[Node] = []
    for node in source.nodes:
        if node.output in joined:
            nodes.append(joined[node.output])
            continue
        add = _bias_add(node, readers, constants, source)
        if add is None:
            nodes.append(node)
        else:
            bias = next(name for name in add.inputs if name != node.output)
            joined[add.output] = replace(
                node, inputs=(*node.inputs, bias), outputs=add.outputs, merged=(add.origin,)
            )
    return replace(source, nodes=tuple(nodes))


def _bias_add(
    node: Node, readers: dict[str, list[Node]], constants: dict[str, int], source: OnnxModel
) -> Node | None:
    if node.kind != "MatMul" or node.input(1) not in constants or node.output in source.outputs:
        return None
    following = readers.get(node.output, [])
    if len(following) != 1 or following[0].kind != "Add":
        return None
    others = [name for name in following[0].inputs if name != node.output]
    row = len(others) == 1 and constants.get(others[0]) == 1
    return following[0] if row and constants[node.input(1)] == 2 else None


# --- BatchNormalization directly after a layer becomes part of its scales and bias ---
#
# y = gain * (layer + bias) + offset, per output channel. The gain goes into the scales of
# quantized weights and its sign into the weights, so no weight is rounded again, and the layer can
# be bound to the QuantizeLinear behind both.


@dataclass(frozen=True, slots=True)
class _Norm:
    gain: np.ndarray
    offset: np.ndarray


def fold_batch_norm(source: OnnxModel) -> OnnxModel:
    """The same model without the normalizations that layers can take over."""
    constants = dict(source.constants)
    readers: dict[str, list[Node]] = {}
    for node in source.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    nodes: list[Node] = []
    merged: dict[str, Node] = {}  # output of a normalization -> the layer that makes it
    for node in source.nodes:
        if node.output in merged:
            nodes.append(merged[node.output])
            continue
        norm = _norm_behind(node, readers, source)
        layer = _folded(node, norm, constants) if norm is not None else None
        if norm is None or layer is None:
            nodes.append(node)
        else:
            merged[norm.output] = layer
    return replace(source, nodes=tuple(nodes), constants=constants)


def _norm_behind(node: Node, readers: dict[str, list[Node]], source: OnnxModel) -> Node | None:
    """The normalization that is the only reader of a layer."""
    following = readers.get(node.output, [])
    if node.output in source.outputs or len(following) != 1:
        return None
    norm = following[0]
    plain = norm.kind == "BatchNormalization" and norm.input(0) == node.output
    return norm if plain and not norm.integer("training_mode", 0) else None


def _channel_axis(node: Node, rank: int) -> int | None:
    """The axis of the weights that counts output channels."""
    if node.kind == "Conv":
        return 0
    if node.kind == "ConvTranspose" and node.integer("group", 1) == 1:
        return 1
    if node.kind == "Gemm":
        return 0 if node.integer("transB", 0) else 1
    return rank - 1 if node.kind == "MatMul" and rank == 2 else None


def _folded(node: Node, norm: Node, constants: dict[str, Const]) -> Node | None:
    weights = constants.get(node.input(1))
    if weights is None or weights.quant is None:
        return None
    axis = _channel_axis(node, weights.data.ndim)
    bias = _bias(node, constants)
    parts = _parts(norm, constants)
    if axis is None or bias is None or parts is None:
        return None
    if axis >= weights.data.ndim or weights.quant.axis not in (None, axis):
        return None
    if parts.gain.shape != (weights.data.shape[axis],) or bias.size not in (1, parts.gain.size):
        return None
    names = f"{norm.output}/weights", f"{norm.output}/bias"
    constants[names[0]] = replace(_scaled(weights, parts.gain, axis), name=names[0])
    shifted = np.asarray(bias * parts.gain + parts.offset, np.float32)
    constants[names[1]] = Const(shifted, "float32", name=names[1])
    inputs = (node.input(0), *names)
    merged = (*node.merged, norm.origin)
    return replace(node, inputs=inputs, outputs=norm.outputs[:1], merged=merged)


def _bias(node: Node, constants: dict[str, Const]) -> np.ndarray | None:
    """The layer's bias in double; None when it is not a constant row."""
    if not node.input(2):
        return np.zeros(1)
    const = constants.get(node.input(2))
    plain = node.number("alpha", 1.0) == node.number("beta", 1.0) == 1.0
    if const is None or not plain or const.data.ndim > 2:
        return None
    return const.real().ravel().astype(np.float64)


def _parts(norm: Node, constants: dict[str, Const]) -> _Norm | None:
    found = [constants.get(norm.input(index)) for index in (1, 2, 3, 4)]
    values = [const.real().astype(np.float64) for const in found if const is not None]
    if len(values) != 4 or len({value.shape for value in values}) != 1 or values[0].ndim != 1:
        return None
    scale, offset, mean, variance = values
    with np.errstate(all="ignore"):  # damaged files may hold any value
        gain = scale / np.sqrt(variance + norm.number("epsilon", 1e-5))
    finite = bool(np.all(np.isfinite(gain)))
    return _Norm(gain, offset - mean * gain) if finite else None


def _scaled(weights: Const, gain: np.ndarray, axis: int) -> Const:
    """|gain| goes into the scales; a negative one mirrors its channel."""
    assert weights.quant is not None
    scales = np.broadcast_to(np.asarray(weights.quant.scales), gain.shape) * np.abs(gain)
    points = np.broadcast_to(np.asarray(weights.quant.zero_points), gain.shape)
    middle = _middles(weights, axis)
    along = [-1 if place == axis else 1 for place in range(weights.data.ndim)]
    mirrored = middle.reshape(along) - weights.data.astype(np.int64)
    data = np.where((gain < 0).reshape(along), mirrored, weights.data).astype(weights.data.dtype)
    quant = Quant(
        tuple(np.asarray(scales, np.float32).astype(float).tolist()),
        tuple(int(zero) for zero in np.where(gain < 0, middle - points, points)),
        axis,
    )
    return replace(weights, data=np.ascontiguousarray(data), quant=quant)


def _middles(weights: Const, axis: int) -> np.ndarray:
    """q becomes middle - q: about 0, or about the middle of the type's range for channels that
    hold its smallest value, which has no negative."""
    low, high = INTEGER_TYPES[weights.type].limits
    channels = np.moveaxis(weights.data, axis, 0).reshape(weights.data.shape[axis], -1)
    fits = (low < 0) & (channels.min(axis=1) > low)
    return np.where(fits, 0, low + high)
