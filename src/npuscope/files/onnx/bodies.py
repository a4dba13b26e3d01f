"""What an .onnx file holds besides the nodes of its main graph: bodies of control flow, which read
tensors of the graph around them by name, and constants anywhere in the file."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any

from npuscope.files.order import in_order

# protobuf messages of onnx: the package is imported late
Node = Any
Graph = Any
Message = Any


def bodies(node: Node) -> list[Graph]:
    """The graphs that a node holds itself, not those inside of them."""
    single = [item.g for item in node.attribute if item.HasField("g")]
    return [*single, *(graph for item in node.attribute for graph in item.graphs)]


def all_bodies(nodes: Any) -> Iterator[Graph]:
    for node in nodes:
        for graph in bodies(node):
            yield graph
            yield from all_bodies(graph.node)


def captured(node: Node) -> frozenset[str]:
    """Tensors of the graph around it that the bodies of a node read."""
    names: set[str] = set()
    for graph in bodies(node):
        names |= outer_names(graph)
    return frozenset(names)


def outer_names(graph: Graph) -> set[str]:
    """Names that a graph reads and does not define."""
    own = {name for node in graph.node for name in node.output}
    own |= {entry.name for entry in (*graph.input, *graph.initializer)}
    own |= {entry.values.name for entry in graph.sparse_initializer}
    read = {name for node in graph.node for name in (*node.input, *captured(node))}
    read |= {entry.name for entry in graph.output}
    return read - own - {""}


def nodes_in_order(nodes: Sequence[Node], fixed: Container[int] = ()) -> list[Node]:
    """Each behind the nodes that it needs, except those whose ids are `fixed`."""
    makers = {
        name: place
        for place, node in enumerate(nodes)
        for name in node.output
        if name and id(node) not in fixed
    }
    needs = {
        place: [makers[n] for n in (*node.input, *captured(node)) if n in makers]
        for place, node in enumerate(nodes)
    }
    return [nodes[place] for place in in_order(range(len(nodes)), needs)]


def names_inside(nodes: Any) -> set[str]:
    """All names of tensors in bodies: those of the graph around them must differ."""
    return {
        name
        for graph in all_bodies(nodes)
        for node in graph.node
        for name in (*node.input, *node.output)
    } | {e.name for graph in all_bodies(nodes) for e in (*graph.input, *graph.initializer)}


def constants(message: Message) -> Iterator[Message]:
    """Every TensorProto below a message: initializers, attributes, functions, bodies."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if hasattr(value, "__len__") else [value]:
                yield from constants(item)
