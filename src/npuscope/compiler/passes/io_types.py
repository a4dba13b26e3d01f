"""The element type of graph inputs and outputs, as the user wants to deliver them."""

from __future__ import annotations

from dataclasses import replace

from npuscope.errors import ModelError, UsageError
from npuscope.graph.model import Attrs, DType, Graph, Op, Quant, Tensor

_TYPES = {"float32": DType.FLOAT32, "int8": DType.INT8, "uint8": DType.UINT8}
_OFFSET = 128


def with_io_types(graph: Graph, input_type: str | None, output_type: str | None) -> Graph:
    """A graph with a conversion between the wanted types and its own, where they differ."""
    if input_type is None and output_type is None:
        return graph
    graph = graph.copy()
    if input_type:
        wanted = _wanted(input_type, "--input-data-type")
        graph.inputs = tuple(_convert_input(graph, name, wanted) for name in graph.inputs)
    if output_type:
        wanted = _wanted(output_type, "--output-data-type")
        graph.outputs = tuple(_convert_output(graph, name, wanted) for name in graph.outputs)
    return graph


def _wanted(text: str, option: str) -> DType:
    if text not in _TYPES:
        raise UsageError(
            f"unknown data type '{text}'", where=option, hint=f"known: {', '.join(_TYPES)}"
        )
    return _TYPES[text]


def _convert_input(graph: Graph, name: str, wanted: DType) -> str:
    tensor = graph.tensor(name)
    if tensor.dtype is wanted:
        return name
    outer = graph.add(_retyped(graph, tensor, wanted, f"{name}.{wanted.value}"))
    kind = "Dequantize" if tensor.dtype is DType.FLOAT32 else "Quantize"
    graph.ops.insert(0, Op(kind, f"{name}.convert", (outer.name,), (name,), Attrs()))
    return outer.name


def _convert_output(graph: Graph, name: str, wanted: DType) -> str:
    tensor = graph.tensor(name)
    if tensor.dtype is wanted:
        return name
    outer = graph.add(_retyped(graph, tensor, wanted, f"{name}.{wanted.value}"))
    kind = "Dequantize" if wanted is DType.FLOAT32 else "Quantize"
    graph.ops.append(Op(kind, f"{name}.convert", (name,), (outer.name,), Attrs()))
    return outer.name


def _retyped(graph: Graph, tensor: Tensor, wanted: DType, name: str) -> Tensor:
    quant = _quant(graph, tensor, wanted)
    return replace(tensor, name=graph.fresh_name(name), dtype=wanted, quant=quant)


def _quant(graph: Graph, tensor: Tensor, wanted: DType) -> Quant | None:
    if wanted is DType.FLOAT32:
        return None
    known = tensor.quant or _neighbour_quant(graph, tensor)
    zero = known.zero_point
    source = tensor.dtype if tensor.quant else DType.INT8
    if source is not wanted:
        zero += _OFFSET if wanted is DType.UINT8 else -_OFFSET
    return Quant((known.scale,), (zero,))


def _neighbour_quant(graph: Graph, tensor: Tensor) -> Quant:
    """The quantization on the other side of the border's Quantize or Dequantize."""
    for op in graph.ops:
        if tensor.name in (*op.inputs, *op.outputs) and op.kind in ("Quantize", "Dequantize"):
            other = graph.tensor(op.outputs[0] if tensor.name in op.inputs else op.inputs[0])
            if other.quant is not None and other.dtype is DType.INT8:
                return other.quant
    raise ModelError(
        f"'{tensor.name}' is float and no quantization is known for it",
        hint="leave its data type as it is",
    )
