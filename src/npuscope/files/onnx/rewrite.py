"""Rewrites before binding: equivalent ops, aliases, biases, dead nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuscope.files.onnx.constants import Const
from npuscope.files.onnx.file import Node, OnnxModel
from npuscope.structs import replace

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
    nodes = change(node, constants)
    if len(nodes) == 1 and nodes[0].kind == node.kind:
        return nodes
    return [new for one in nodes for new in _rewritten(one, constants)]


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
    chain: list[Node] = []
    first = node.inputs[0]
    for place, second in enumerate(node.inputs[1:], 1):
        last = place == len(node.inputs) - 1
        output = node.output if last else f"{node.output}/{place}"
        chain.append(replace(node, kind=kind, inputs=(first, second), outputs=(output,)))
        first = output
    return chain


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
    outputs = set(source.outputs)
    for node in source.nodes:
        node = replace(node, inputs=tuple(alias.get(name, name) for name in node.inputs))
        if node.kind in _ALIASES and node.output not in outputs:
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
