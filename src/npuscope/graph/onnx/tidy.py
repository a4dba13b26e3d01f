"""Small rewrites before binding: aliases resolved, biases joined, dead nodes dropped."""

from __future__ import annotations

from dataclasses import replace

from npuscope.graph.onnx.nodes import Node, Source

_ALIASES = ("Identity", "Dropout")


def tidy(source: Source) -> Source:
    """The same model without identities, unused nodes and separate MatMul biases.

    Constants are folded before, so a weight or a bias behind DequantizeLinear is a constant here.
    """
    return drop_dead(join_bias(resolve_aliases(source)))


def resolve_aliases(source: Source) -> Source:
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


def drop_dead(source: Source) -> Source:
    needed = set(source.outputs)
    live: list[Node] = []
    for node in reversed(source.nodes):
        if needed.intersection(node.outputs):
            live.append(node)
            needed.update(node.inputs)
    return replace(source, nodes=tuple(reversed(live)))


def join_bias(source: Source) -> Source:
    """MatMul(x, W) -> Add(constant row) is one Gemm-like op, as Keras exporters mean it."""
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
    node: Node, readers: dict[str, list[Node]], constants: dict[str, int], source: Source
) -> Node | None:
    if node.kind != "MatMul" or node.input(1) not in constants or node.output in source.outputs:
        return None
    following = readers.get(node.output, [])
    if len(following) != 1 or following[0].kind != "Add":
        return None
    others = [name for name in following[0].inputs if name != node.output]
    row = len(others) == 1 and constants.get(others[0]) == 1
    return following[0] if row and constants[node.input(1)] == 2 else None
