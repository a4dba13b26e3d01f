"""Shapes and types that an ONNX file states of its tensors, for ops that nothing here computes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from npuscope.files.load import Pins
from npuscope.files.onnx.constants import TYPE_NAMES, text
from npuscope.graph.limits import MAX_RANK

_MOST_BYTES = 256 << 20  # of a model that is handed to onnx's own shape inference
# Ops of other domains whose first result has the shape of their first input: quantizers of training
# frameworks, and what onnxruntime fuses.
SAME_SHAPE = (
    *("Quant", "BipolarQuant", "Trunc", "SkipLayerNormalization", "SimplifiedLayerNormalization"),
    *("SkipSimplifiedLayerNormalization", "BiasGelu", "FastGelu", "QuickGelu", "RotaryEmbedding"),
)
Stated = tuple[str, tuple[int, ...]]  # element type, shape


def stated_tensors(proto: Any, names: Iterable[str], pins: Pins) -> dict[str, Stated]:
    """What the file says of the tensors; what it leaves out is inferred by the onnx package."""
    wanted = set(names)
    symbols = _symbols(proto.graph, pins)
    found = _read(proto.graph, wanted, symbols)
    if wanted - found.keys() and proto.ByteSize() <= _MOST_BYTES:
        found = {**_read(_inferred(proto, symbols), wanted, symbols), **found}
    return found


def _symbols(graph: Any, pins: Pins) -> dict[str, int]:
    """Sizes of symbols: those that the user pinned; that of a batch is 1."""
    found: dict[str, int] = {}
    for info in graph.input:
        pinned = pins.shapes.get(text(info.name), ())
        dims = info.type.tensor_type.shape.dim
        for axis, dim in enumerate(dims):
            if axis < len(pinned):
                found.setdefault(text(dim.dim_param), pinned[axis])
            elif axis == 0:
                found.setdefault(text(dim.dim_param), 1)
    return {name: size for name, size in found.items() if name}


def _read(graph: Any, wanted: set[str], symbols: dict[str, int]) -> dict[str, Stated]:
    infos = (info for infos in (graph.value_info, graph.output) for info in infos)
    found: dict[str, Stated] = {}
    for info in infos:
        name = text(info.name)
        tensor = info.type.tensor_type
        if name not in wanted or not tensor.HasField("shape") or len(tensor.shape.dim) > MAX_RANK:
            continue
        dims = [dim.dim_value or symbols.get(text(dim.dim_param), 0) for dim in tensor.shape.dim]
        if all(size > 0 for size in dims):
            found[name] = (TYPE_NAMES.get(tensor.elem_type, ""), tuple(map(int, dims)))
    return found


def _inferred(proto: Any, symbols: dict[str, int]) -> Any:
    """The graph with inferred shapes; what onnx cannot follow stays as it is."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for info in copy.graph.input:
        for dim in info.type.tensor_type.shape.dim:
            size = symbols.get(text(dim.dim_param), 0)
            if size:
                dim.dim_value = size
    try:
        return onnx.shape_inference.infer_shapes(copy, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return proto.graph
