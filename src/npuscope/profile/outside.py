"""Outside runtimes that check our reference executor, where they are installed (extra
`reference`): LiteRT's reference kernels for .tflite, onnxruntime without optimisation for .onnx."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from npuscope.graph.model import Graph, Numerics

Arrays = Mapping[str, np.ndarray]
Runtime = Callable[[Arrays], list[np.ndarray]]


def outside_runtime(model: Path | None, graph: Graph) -> tuple[str, Runtime] | None:
    """(name, function from inputs to outputs in graph order), or None."""
    if model is None:
        return None
    try:
        if graph.numerics is Numerics.LITERT:
            return "litert", _litert(model, graph)
        return "onnxruntime", _onnxruntime(model, graph)
    except ImportError:
        return None


def _litert(model: Path, graph: Graph) -> Runtime:
    from ai_edge_litert.interpreter import (
        Interpreter,
        OpResolverType,
    )

    interpreter = Interpreter(
        model_path=str(model), experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()

    def run(inputs: Arrays) -> list[np.ndarray]:
        for name, detail in zip(graph.inputs, details, strict=True):
            interpreter.set_tensor(detail["index"], inputs[name])
        interpreter.invoke()
        return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]

    return run


def _onnxruntime(model: Path, graph: Graph) -> Runtime:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])

    def run(inputs: Arrays) -> list[np.ndarray]:
        feeds = {
            node.name: _as_type(inputs[name], graph, name, node.type)
            for name, node in zip(graph.inputs, session.get_inputs(), strict=True)
        }
        results = session.run(None, feeds)
        return [
            _quantized(np.asarray(result), graph, name)
            for name, result in zip(graph.outputs, results, strict=True)
        ]

    return run


def _as_type(values: np.ndarray, graph: Graph, name: str, wanted: str) -> np.ndarray:
    """The graph's border tensor is the integer behind a boundary Q: the model wants float."""
    quant = graph.tensor(name).quant
    if wanted != "tensor(float)" or quant is None:
        return values
    real = (values.astype(np.float32) - quant.zero_point) * np.float32(quant.scale)
    return np.asarray(real, np.float32)


def _quantized(values: np.ndarray, graph: Graph, name: str) -> np.ndarray:
    tensor = graph.tensor(name)
    if tensor.quant is None or values.dtype.kind != "f":
        return values
    low, high = tensor.dtype.limits
    steps = np.rint(values / np.float32(tensor.quant.scale)) + tensor.quant.zero_point
    return np.asarray(np.clip(steps, low, high), tensor.dtype.numpy)
