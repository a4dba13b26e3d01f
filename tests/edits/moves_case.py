"""Small networks of moves, and the checks that every edit of one must pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.nets import MACHINES
from edits.border_case import edited, graph_of, outside
from models_onnx import OnnxWriter
from models_tflite import TfliteWriter
from npuscope.advice.explain import explain
from npuscope.advice.fix.numeric import effects
from npuscope.building import Build
from npuscope.compiler.pipeline import compile_graph
from npuscope.edits import open_document
from npuscope.edits.onnx.document import OnnxDocument
from npuscope.files.load import is_tflite
from npuscope.graph.model import Graph
from npuscope.profiling.run import estimate
from npuscope.profiling.validate import validate
from npuscope.program.model import EpochKind
from npuscope.rulebook.finding import Finding
from ops.litert_ops import references

SCALE, ZERO = 0.05, -3
GENERATIONS = ("2.2", "4.0")


class Lite:
    """An int8 .tflite network: every tensor has the same steps unless told."""

    def __init__(self) -> None:
        self.writer = TfliteWriter()
        self.inputs: list[int] = []

    def input(self, shape: tuple[int, ...], scale: float = SCALE, zero: int = ZERO) -> int:
        name = f"input{len(self.inputs)}"
        self.inputs.append(self.writer.tensor(name, shape, scale=scale, zero_point=zero))
        return self.inputs[-1]

    def integers(self, *values: Any) -> int:
        data = np.array(values, np.int32)
        return self.writer.constant(f"numbers{len(self.writer.tensors)}", data)

    def constant(self, data: np.ndarray, scale: float = 1.0, **quant: Any) -> int:
        name = f"constant{len(self.writer.tensors)}"
        return self.writer.constant(name, data, scale=scale, **quant)

    def op(
        self,
        kind: str,
        inputs: list[int],
        shape: tuple[int, ...],
        scale: float = SCALE,
        zero: int = ZERO,
        **options: Any,
    ) -> int:
        name = f"t{len(self.writer.tensors)}"
        made = self.writer.tensor(name, shape, scale=scale, zero_point=zero)
        self.writer.op(kind, inputs, [made], **options)
        return made

    def logistic(self, x: int, shape: tuple[int, ...]) -> int:
        """A function, so that moves do not stand at the border."""
        return self.op("LOGISTIC", [x], shape, 1 / 256, -128)

    def finish(self, *outputs: int) -> bytes:
        return self.writer.finish(self.inputs, [*outputs])


class Qdq:
    """An int8 QDQ .onnx network; tensors given and taken are behind DequantizeLinear."""

    def __init__(self, opset: int = 17) -> None:
        self.writer = OnnxWriter(opset)

    def input(
        self, shape: tuple[int, ...], scale: float = SCALE, zero: int = ZERO, dtype: str = "int8"
    ) -> str:
        name = f"input{len(self.writer.inputs)}"
        return self.writer.qdq(self.writer.input(name, shape), scale, zero, dtype)

    def op(
        self, kind: str, *inputs: str, scale: float = SCALE, zero: int = ZERO, **attrs: Any
    ) -> str:
        made = self.writer.node(kind, *inputs, name=f"{kind}{len(self.writer.nodes)}", **attrs)
        return self.writer.qdq(made, scale, zero)

    def depthwise(self, x: str, channels: int) -> str:
        """A layer of images: then the reader lays the data out channel-last."""
        ones = self.writer.dequantized_constant(np.ones((channels, 1, 1, 1), np.int8), 0.9)
        return self.op("Conv", x, ones, group=channels)

    def sigmoid(self, x: str) -> str:
        return self.op("Sigmoid", x, scale=1 / 256, zero=-128)

    def finish(self, *outputs: str) -> bytes:
        return self.writer.finish(dict.fromkeys(outputs))


def findings(data: bytes, rule: str, generation: str = "4.0") -> list[Finding]:
    graph, machine = graph_of(data), MACHINES[generation]
    build = Build(graph, machine, compile_graph(graph, machine))
    found = explain(build, estimate(build.program, machine, graph)).findings
    return [finding for finding in found if finding.rule == rule]


def fixed(data: bytes, rule: str, fix: str, generation: str = "4.0") -> bytes:
    """The file after the edit at the first place that a rule names."""
    place = findings(data, rule, generation)[0]
    assert fix in {offered.id for offered in place.fixes}
    return edited(data, fix, *place.ops)


def off_npu(data: bytes, generation: str = "4.0") -> list[str]:
    """Kernels of the epochs that need the CPU."""
    program = compile_graph(graph_of(data), MACHINES[generation])
    away = [epoch for epoch in program.executed if epoch.kind is not EpochKind.HW]
    return [epoch.call.kernel for epoch in away if epoch.call is not None]


def nodes(data: bytes) -> list[str]:
    """Of an .onnx file, as findings name them."""
    document = open_document("net.onnx", data)
    assert isinstance(document, OnnxDocument)
    named = enumerate(document.nodes)
    return [f"{node.op_type}:{node.name or f'#{n}'}" for n, node in named]


def kinds(data: bytes) -> list[str]:
    return [op.kind for op in graph_of(data).ops]


def check_same(before: bytes, after: bytes, lsb: float = 0.0, seeds: int = 3) -> None:
    """The NPU computes it, and the results are the same for us and for the outside runtime."""
    graph, changed = graph_of(before), graph_of(after)
    for generation in GENERATIONS:
        assert _npu_error(changed, generation) <= _npu_error(graph, generation) + max(1.0, lsb)
    found = effects(graph, changed, seeds)
    assert found
    assert all(effect.reference is not None and effect.max_lsb <= lsb for effect in found), found
    one, other = _outside(before), _outside(after)
    assert one.keys() == other.keys()
    for name, values in one.items():
        quant = graph.tensor(name).quant if values.dtype == np.float32 else None
        step = quant.scale if quant is not None else 1.0
        apart = np.abs(values.astype(np.float64) - other[name].astype(np.float64)).max() / step
        assert apart <= lsb + 1e-3, (name, apart)


def _npu_error(graph: Graph, generation: str) -> float:
    """Steps that the NPU's arithmetic is off the reference executor."""
    machine = MACHINES[generation]
    found = validate(compile_graph(graph, machine), graph, machine)
    return max(output.max_lsb for output in found.outputs)


def _outside(data: bytes) -> dict[str, np.ndarray]:
    """LiteRT's own choice of kernels: its reference kernel for SUM is wrong."""
    if not is_tflite(data):
        return outside(data)
    graph, random = graph_of(data), np.random.default_rng(0)
    shapes = [graph.tensor(name).shape for name in graph.inputs]
    values = [random.integers(-128, 127, s, endpoint=True).astype(np.int8) for s in shapes]
    return dict(zip(graph.outputs, references(data, values, plain=True), strict=True))
