"""Ops that are other ops in disguise, rewritten before binding looks at them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from npuscope.graph.onnx.constants import Const
from npuscope.graph.onnx.nodes import Node, Source

Constants = dict[str, Const]
Rewrite = Callable[[Node, Constants], list[Node]]


def rewrite(source: Source) -> Source:
    nodes: list[Node] = []
    for node in source.nodes:
        nodes.extend(_rewritten(node, source.constants))
    return replace(source, nodes=tuple(nodes))


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
    """An activation as third operand is an Add: a Gemm takes a constant bias."""
    bias = node.input(2)
    if not bias or bias in constants or node.number("beta", 1.0) != 1.0:
        return [node]
    product = f"{node.output}/product"
    add = Node("Add", node.origin, (product, bias), node.outputs)
    return [replace(node, inputs=node.inputs[:2], outputs=(product,)), add]


REWRITES: dict[str, Rewrite] = {
    "Min": _extreme,
    "Max": _extreme,
    "Sum": _sum,
    "Gemm": _gemm,
    "ReduceL1": _before("Abs", "ReduceSum"),
    "ReduceSumSquare": _before("Mul", "ReduceSum", both=True),
}
