"""After the walk: graph outputs in source order and under their own names."""

from __future__ import annotations

from npuscope.errors import ModelError
from npuscope.files.builder import drop_dead
from npuscope.files.onnx.constants import INTEGER_TYPES, PLAIN_TYPES
from npuscope.files.onnx.layout import plain
from npuscope.files.onnx.walk import OnnxWalk
from npuscope.graph.model import Attrs, DType, Graph, Tensor
from npuscope.structs import replace
from npuscope.text import safe_terminal


def finish_outputs(walk: OnnxWalk) -> None:
    """Graph outputs in source order and under their own names; then drop unused tensors."""
    names: dict[str, str] = {}
    for name in walk.source.outputs:
        origin = f"output:{safe_terminal(name)}"
        names[name] = _output(walk, name, origin, set(names.values()))
    walk.graph.outputs = tuple(names.values())
    drop_dead(walk.graph)
    _rename(walk.graph, {old: new for new, old in names.items() if old != new})


def _output(walk: OnnxWalk, name: str, origin: str, names: set[str]) -> str:
    if name in walk.constants:
        # A result that does not depend on the inputs, such as anchors that a network hands on.
        const = walk.constants[name]
        types = {**INTEGER_TYPES, **PLAIN_TYPES, "float32": DType.FLOAT32}
        if const.type not in types:
            raise ModelError(f"output '{safe_terminal(name)}' is a constant of {const.type}")
        walk.graph.notes.append(f"output '{safe_terminal(name)}' is a constant")
        dtype = types[const.type]
        data = const.data.astype(dtype.numpy, copy=False)
        return walk.builder.constant(name, data, dtype).name
    value = walk.integers[name] if name in walk.integers else walk.real(name)
    rank = len(walk.arranger.source_shape(value))
    value = walk.arranger.arrange(value, plain(rank), origin)
    tensor = walk.graph.tensors[value.tensor]
    if tensor.name not in names and tensor.name not in walk.graph.inputs:
        return tensor.name
    copy = walk.builder.add(Tensor(name, tensor.shape, tensor.dtype, tensor.quant))
    walk.builder.emit("Identity", (tensor.name,), Attrs(), copy, (*value.via, origin))
    return copy.name


def _rename(graph: Graph, names: dict[str, str]) -> None:
    """Give tensors the names of their graph outputs; another tensor with that name is renamed."""
    names = {old: new for old, new in names.items() if new not in graph.inputs}
    for new in list(names.values()):
        if new in graph.tensors and new not in names:
            names[new] = graph.fresh_name(f"{new}_inner")
    if not names:
        return
    swap = {name: names.get(name, name) for name in graph.tensors}
    graph.tensors = {
        swap[name]: replace(tensor, name=swap[name]) for name, tensor in graph.tensors.items()
    }
    graph.ops = [
        op.replace(
            name=swap[op.outputs[0]] if op.name == op.outputs[0] else op.name,
            inputs=tuple(swap.get(name, name) for name in op.inputs),
            outputs=tuple(swap[name] for name in op.outputs),
        )
        for op in graph.ops
    ]
    graph.inputs = tuple(swap[name] for name in graph.inputs)
    graph.outputs = tuple(swap[name] for name in graph.outputs)
