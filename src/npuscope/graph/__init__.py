"""The quantized network as typed values, and its readers (.tflite, QDQ .onnx)."""

from __future__ import annotations

from npuscope.graph.load import load_model
from npuscope.graph.model import DType, Graph, Op, Quant, Tensor

__all__ = ["DType", "Graph", "Op", "Quant", "Tensor", "load_model"]
