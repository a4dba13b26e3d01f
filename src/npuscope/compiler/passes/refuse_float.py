"""A network without any quantized layer has nothing for this machine."""

from __future__ import annotations

from npuscope.errors import ModelError
from npuscope.graph.model import DType, Graph, Op

_LAYERS = ("Conv2D", "FullyConnected", "MatMul")


def refuse_float_network(graph: Graph) -> None:
    """Raise if all layers compute in float32."""
    layers = [op for op in graph.ops if op.kind in _LAYERS]
    if not layers or any(not _is_float(graph, op) for op in layers):
        return
    raise ModelError(
        f"the network is float32: none of its {len(layers)} layers is quantized, and the NPU has "
        "no float unit",
        where=layers[0].name,
        hint="quantize it to int8 first: weights symmetric per channel, activations asymmetric "
        "(TFLite full-integer conversion, or onnxruntime quantize_static with QDQ format)",
    )


def _is_float(graph: Graph, op: Op) -> bool:
    return graph.first_input(op).dtype is DType.FLOAT32
