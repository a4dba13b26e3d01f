"""Control flow: the branch of an If whose condition is known, as nodes of the network itself.

Exporters write such conditions on sizes (is this axis 1?), which are known once shapes are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npuscope.files.onnx.constants import TensorReader, text
from npuscope.files.onnx.file import Node, OnnxModel, sorted_nodes, to_nodes
from npuscope.files.onnx.fused import unfuse
from npuscope.files.onnx.rewrite import rewrite
from npuscope.lean_dataclass import replace

if TYPE_CHECKING:
    from npuscope.files.onnx.reader import OnnxReader


def walk_branch(reader: OnnxReader, node: Node) -> bool:
    """Walk over the branch that is taken; False where that is not known, or nothing to walk."""
    if node.kind != "If" or node.input(0) not in reader.constants:
        return False
    wanted = "then_branch" if reader.constants[node.input(0)].data.all() else "else_branch"
    proto = reader.node_protos().get(node.output)
    bodies = [item.g for item in proto.attribute if item.name == wanted] if proto else []
    if len(bodies) != 1:
        return False
    part = _part(bodies[0], reader.source)
    made = [name for inner in part.nodes for name in inner.outputs]
    if len(part.outputs) != len(node.outputs) or any(name in reader.shapes for name in made):
        return False  # a name of the network means something else in here
    reader.protos.update((text(inner.output[0]), inner) for inner in bodies[0].node)
    part = rewrite(unfuse(replace(part, constants={**reader.constants, **part.constants})))
    reader.constants.update(part.constants)
    reader.read.update((*part.outputs, *(name for inner in part.nodes for name in inner.inputs)))
    for inner in part.nodes:
        reader.located(inner)
    _hand_out(reader, node, part)
    return True


def _hand_out(reader: OnnxReader, node: Node, part: OnnxModel) -> None:
    """The results of the branch under the names of the node's."""
    tables: list[dict[str, Any]] = [
        reader.constants, reader.values, reader.integers, reader.shapes
    ]  # fmt: skip
    for name, result in zip(node.outputs, part.outputs, strict=True):
        for table in tables:
            if result in table:
                table[name] = table[result]


def _part(graph: Any, outer: OnnxModel) -> OnnxModel:
    """A body as a model of its own."""
    constants_reader = TensorReader(outer.folder)
    constants = {text(entry.name): constants_reader.read(entry) for entry in graph.initializer}
    nodes = sorted_nodes(tuple(to_nodes(graph.node, constants_reader)))
    outputs = tuple(text(info.name) for info in graph.output)
    return OnnxModel(outer.opset, nodes, constants, (), outputs, outer.folder, proto=outer.proto)
