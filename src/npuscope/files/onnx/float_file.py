"""The float form of a network as a file of its own; what stays is as the file has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from npuscope.files.onnx.binding import fold_constants
from npuscope.files.onnx.file import Node, OnnxModel, parse
from npuscope.files.onnx.float_form import float_form
from npuscope.files.onnx.fold import Computing
from npuscope.files.onnx.fused import unfuse
from npuscope.files.onnx.layer_folds import fold_into_layers
from npuscope.files.onnx.patterns import norms_as_layers
from npuscope.files.onnx.rewrite import tidy

_FUSED = ("Gelu", "HardSigmoid", "HardSwish", "LayerNormalization")


def folded_file(proto: Any, path: Path, notes: list[str]) -> Any:
    """In an opset that has all ops of the form; without new ops where no such opset can be had."""
    source = parse(proto.SerializeToString(), path)
    form = unfuse(source)
    form = tidy(fold_constants(form, Computing(form.constants.values())))
    folded = float_form(form)
    # The first that has all standard ops of the model
    from onnx import defs

    kinds = {node.kind for node in folded.nodes if defs.has(node.kind)}
    opset = folded.opset
    while opset < defs.onnx_opset_version() and not all(defs.has(k, opset, "") for k in kinds):
        opset += 1
    if opset > source.opset:
        from onnx import version_converter

        try:
            newer = version_converter.convert_version(source.proto, opset)
        except Exception:  # the converter raises what it likes
            newer = None
        if newer is not None:
            notes.append(f"opset {source.opset} became {opset}")
            return folded_file(newer, path, notes)
        folded = norms_as_layers(fold_into_layers(form))
    notes.extend(_notes(source, folded))
    return _written(folded, source)


def _notes(source: OnnxModel, folded: OnnxModel) -> Iterator[str]:
    was, now = (Counter(node.kind for node in model.nodes) for model in (source, folded))
    if foreign := sorted(kind for kind in was - now if "." in kind):
        yield f"{', '.join(foreign)} became standard ops"
    norms = {node.output for node in source.nodes if node.kind == "BatchNormalization"}
    layers = (node for node in folded.nodes if node.kind == "Conv" and not node.merged)
    alone = sum(node.output in norms for node in layers)
    folded_norms = len(norms) - now["BatchNormalization"] - alone
    if folded_norms:
        yield f"{folded_norms} BatchNormalization folded into the layers before them"
    if alone:
        yield f"{alone} BatchNormalization became depthwise 1x1 convolutions"
    for kind, count in (now - was).items():
        if kind in _FUSED:
            yield f"{count} chains of small ops became {kind}"


def _written(form: OnnxModel, source: OnnxModel) -> Any:
    import onnx
    from onnx import numpy_helper

    proto = onnx.ModelProto()
    proto.CopyFrom(source.proto)
    graph = proto.graph
    del graph.node[:], graph.initializer[:]
    protos = {node.output[0]: node for node in source.proto.graph.node}
    nodes = {node.output: node for node in source.nodes}
    for node in form.nodes:
        was = nodes.get(node.output)
        same = was is not None and was.kind == node.kind and was.attributes is node.attributes
        graph.node.extend(_nodes(node, protos.get(node.output) if same else None))
    read = {name for node in graph.node for name in node.input} | set(form.outputs)
    stored = {entry.name: entry for entry in source.proto.graph.initializer}
    for name, const in form.constants.items():
        if name in read and name in stored and source.constants[name] is const:
            graph.initializer.append(stored[name])
        elif name in read:
            graph.initializer.append(numpy_helper.from_array(const.data, name))
    return proto


def _nodes(node: Node, proto: Any) -> list[Any]:
    """`proto` is the node of the file where it stays what it was, with other operands maybe."""
    import onnx
    from onnx import helper

    domain, _, kind = node.kind.rpartition(".")
    inputs, outputs = list(node.inputs), list(node.outputs)
    if proto is None:
        new_node = helper.make_node(kind, inputs, outputs, domain=domain)
        attributes = {name: value for name, value in node.attributes.items() if value is not None}
        new_node.attribute.extend(
            helper.make_attribute(name, value) for name, value in attributes.items()
        )
    else:
        new_node = onnx.NodeProto()
        new_node.CopyFrom(proto)
        if any(item.HasField("g") for item in proto.attribute):
            inputs = inputs[: len(proto.input)]  # what bodies read is not among a node's operands
        del new_node.input[:], new_node.output[:]
        new_node.input.extend(inputs)
        new_node.output.extend(outputs)
    if kind != "MatMul" or len(inputs) < 3:
        return [new_node]
    del new_node.input[2:]  # a bias is a sum of its own in ONNX
    new_node.output[0] = f"{node.output}/product"
    return [new_node, helper.make_node("Add", [new_node.output[0], inputs[2]], outputs)]
