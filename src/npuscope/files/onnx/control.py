"""Control flow: the branch of an If, as nodes of the network itself.

Exporters write most conditions on sizes (is this axis 1?), which are known once shapes are. Where
the condition is computed at run time the branch with more weights stands for both, and a note says
so: time and memory are then those of the worse case.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npuscope.files.onnx.constants import TensorReader, text
from npuscope.files.onnx.file import Node, OnnxModel, sorted_nodes, to_nodes
from npuscope.files.onnx.fused import unfuse
from npuscope.files.onnx.rewrite import rewrite
from npuscope.files.onnx.stated import body_weights
from npuscope.files.onnx.walk import OnnxWalk
from npuscope.structs import replace


def walk_branch(walk: OnnxWalk, node: Node, visit: Callable[[Node], None]) -> bool:
    """Visit the nodes of one branch; False where there is none that can be walked."""
    proto = walk.node_protos().get(node.output) if node.kind == "If" else None
    bodies = {item.name: item.g for item in proto.attribute if item.HasField("g")} if proto else {}
    if not bodies.keys() >= {"then_branch", "else_branch"}:
        return False
    condition = walk.constants.get(node.input(0))
    if condition is None:
        branch = max(bodies, key=lambda name: (body_weights(bodies[name]), len(bodies[name].node)))
    else:
        branch = "then_branch" if condition.data.all() else "else_branch"
    # The body as a model of its own.
    graph = bodies[branch]
    constants_reader = TensorReader(walk.source.folder)
    constants = {text(entry.name): constants_reader.read(entry) for entry in graph.initializer}
    nodes = sorted_nodes(tuple(to_nodes(graph.node, constants_reader)))
    outputs = tuple(text(info.name) for info in graph.output)
    part = OnnxModel(
        walk.source.opset,
        nodes,
        constants,
        (),
        outputs,
        walk.source.folder,
        proto=walk.source.proto,
    )
    results = [name for inner in part.nodes for name in inner.outputs]
    if len(part.outputs) != len(node.outputs) or any(name in walk.shapes for name in results):
        return False  # a name of the network means something else in here
    if condition is None:
        walk.graph.notes.append(
            f"{node.origin}: its condition is unknown before run time: its {branch} is read, the "
            "one with more weights"
        )
    walk.protos.update((text(inner.output[0]), inner) for inner in bodies[branch].node)
    part = rewrite(unfuse(replace(part, constants={**walk.constants, **part.constants})))
    walk.constants.update(part.constants)
    walk.read.update((*part.outputs, *(name for inner in part.nodes for name in inner.inputs)))
    for inner in part.nodes:
        visit(inner)
    # The results of the branch under the names of the node's.
    tables: list[dict[str, Any]] = [
        walk.constants, walk.values, walk.integers, walk.shapes
    ]  # fmt: skip
    for name, result in zip(node.outputs, part.outputs, strict=True):
        for table in tables:
            if result in table:
                table[name] = table[result]
    return True
