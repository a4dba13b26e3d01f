"""Edits that change numbers: what stays on the CPU, what the results say, ours and outside."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.nets import MACHINES
from edits.border_case import graph_of
from models import OnnxWriter
from npuscope.advice.fix.numeric import as_given, effects, real
from npuscope.compiler.pipeline import compile_graph
from npuscope.files.load import is_tflite
from npuscope.graph.model import Tensor
from npuscope.profiling.runtimes import litert_interpreter, onnxruntime_session
from npuscope.program.model import EpochKind

IN_SCALE, IN_ZERO = 1 / 64, -3


def on_cpu(data: bytes, generation: str = "2.2") -> int:
    """Epochs that the CPU runs."""
    program = compile_graph(graph_of(data), MACHINES[generation])
    return sum(epoch.kind in (EpochKind.SW, EpochKind.HYBRID) for epoch in program.epochs)


def largest_change(before: bytes, after: bytes) -> float:
    """Of the results, in steps, on our reference."""
    return max(effect.max_lsb for effect in effects(graph_of(before), graph_of(after), 3))


def least_sqnr(before: bytes, after: bytes) -> float:
    return min(effect.sqnr_db for effect in effects(graph_of(before), graph_of(after), 3))


def results(data: bytes, seed: int = 0) -> list[np.ndarray]:
    """Real results on seeded inputs, by LiteRT's reference kernels or by onnxruntime."""
    graph = graph_of(data)
    random = np.random.default_rng(seed)
    tensors = [graph.tensor(name) for name in graph.inputs]
    values = [random.uniform(-1, 1, tensor.shape) for tensor in tensors]
    made = (_litert if is_tflite(data) else _onnxruntime)(data, tensors, values)
    outputs = [graph.tensor(name) for name in graph.outputs]
    return [
        found.astype(np.float64) if found.dtype == np.float32 else real(tensor, found)
        for tensor, found in zip(outputs, made, strict=True)
    ]


def _fitting(tensor: Tensor, dtype: Any, values: np.ndarray) -> np.ndarray:
    return values.astype(np.float32) if dtype == np.float32 else as_given(tensor, values)


def _litert(data: bytes, tensors: list[Tensor], values: list[np.ndarray]) -> list[np.ndarray]:
    interpreter = litert_interpreter(data)
    for detail, tensor, value in zip(interpreter.get_input_details(), tensors, values, strict=True):
        interpreter.set_tensor(detail["index"], _fitting(tensor, detail["dtype"], value))
    interpreter.invoke()
    details = interpreter.get_output_details()
    return [np.array(interpreter.get_tensor(detail["index"])) for detail in details]


def _onnxruntime(data: bytes, tensors: list[Tensor], values: list[np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime_session(data)
    types = {entry.name: entry.type for entry in session.get_inputs()}
    feeds = {
        tensor.name: _fitting(
            tensor, np.float32 if "float" in types[tensor.name] else np.int8, value
        )
        for tensor, value in zip(tensors, values, strict=True)
    }
    return [np.asarray(found) for found in session.run(None, feeds)]


def furthest(before: bytes, after: bytes, seed: int = 0) -> float:
    """The largest difference of real results in the outside runtime."""
    pairs = zip(results(before, seed), results(after, seed), strict=True)
    return max(float(np.abs(a.reshape(-1) - b.reshape(-1)).max()) for a, b in pairs)


def input_pair(writer: OnnxWriter, shape: tuple[int, ...]) -> str:
    """A float input behind its Q and DQ."""
    return writer.qdq(writer.input("x", shape), IN_SCALE, IN_ZERO)


def conv(writer: OnnxWriter, x: str, weights: np.ndarray, name: str = "", **attrs: Any) -> str:
    """A QDQ convolution without the pair behind it; weights in steps of 1/128."""
    kernel = writer.dequantized_constant(weights, 1 / 128)
    bias = np.arange(len(weights), dtype=np.int32) * 50 - 100
    bias_name = writer.dequantize(writer.constant(bias), IN_SCALE / 128, dtype="int32")
    return writer.node("Conv", x, kernel, bias_name, name=name, **attrs)


def int8(shape: tuple[int, ...], seed: int = 1) -> np.ndarray:
    """Seeded weights."""
    return np.random.default_rng(seed).integers(-127, 127, shape, np.int8, endpoint=True)
