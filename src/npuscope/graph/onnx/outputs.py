"""The end of the walk: graph outputs in source order and under their own names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from npuscope.errors import ModelError
from npuscope.graph.attrs import Attrs
from npuscope.graph.model import Graph, Tensor
from npuscope.graph.onnx.layout import plain
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.graph.onnx.reader import OnnxReader


def finish_outputs(reader: OnnxReader) -> None:
    """Graph outputs in source order and under their own names; then drop what nobody reads."""
    names: dict[str, str] = {}
    for name in reader.source.outputs:
        origin = f"output:{safe_terminal(name)}"
        names[name] = _output(reader, name, origin, set(names.values()))
    reader.graph.outputs = tuple(names.values())
    _drop_dead(reader.graph)
    _rename(reader.graph, {old: new for new, old in names.items() if old != new})


def _output(reader: OnnxReader, name: str, origin: str, taken: set[str]) -> str:
    if name in reader.constants:
        raise ModelError(f"output '{safe_terminal(name)}' is a constant")
    value = reader.integers[name] if name in reader.integers else reader.real(name)
    rank = len(reader.arranger.source_shape(value))
    value = reader.arranger.arrange(value, plain(rank), origin)
    tensor = reader.graph.tensors[value.tensor]
    if tensor.name not in taken and tensor.name not in reader.graph.inputs:
        return tensor.name
    copy = reader.builder.add(Tensor(name, tensor.shape, tensor.dtype, tensor.quant))
    reader.builder.emit("Identity", (tensor.name,), Attrs(), copy, (*value.via, origin))
    return copy.name


def _drop_dead(graph: Graph) -> None:
    needed = set(graph.outputs)
    live = []
    for op in reversed(graph.ops):
        if needed.intersection(op.outputs):
            live.append(op)
            needed.update(op.inputs)
    graph.ops = live[::-1]
    graph.drop_unused()


def _rename(graph: Graph, names: dict[str, str]) -> None:
    """Give tensors the names of the graph outputs they are; a clash moves the other aside."""
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
