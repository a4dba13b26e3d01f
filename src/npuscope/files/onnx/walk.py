"""What the walk over an ONNX model knows so far: tensors, shapes and constants by ONNX's names."""

from __future__ import annotations

from typing import Any

from npuscope.errors import ModelError
from npuscope.files.builder import Builder
from npuscope.files.onnx.binding import BindingPlan
from npuscope.files.onnx.constants import QuantType, text
from npuscope.files.onnx.file import Node, OnnxModel
from npuscope.files.onnx.fold import Computing
from npuscope.files.onnx.layout import Arranger, LayoutValue, Shape
from npuscope.files.sizes import Pins
from npuscope.graph.model import Attrs, DType, Numerics, Tensor
from npuscope.text import safe_terminal

Stated = tuple[str, Shape]  # element type, shape


class OnnxWalk:
    """State of the walk. Names on the left are ONNX's.

    `values` holds tensors as they are; `integers` holds float tensors that exist as the integers
    they were dequantized from, until an op needs the floats.
    """

    def __init__(self, source: OnnxModel, name: str, pins: Pins, computing: Computing) -> None:
        self.source = source
        self.computing = computing
        self.pins = pins
        self.builder = Builder(name, Numerics.QDQ)
        self.graph = self.builder.graph
        self.graph.notes.extend(source.notes)
        self.arranger = Arranger(self.builder)
        self.constants = dict(source.constants)
        self.values: dict[str, LayoutValue] = {}
        self.integers: dict[str, LayoutValue] = {}
        self.shapes: dict[str, Shape] = {}  # source shapes, also of floats that never exist
        self.dequantizers: dict[str, str] = {}  # float name -> origin of its DequantizeLinear
        self.stored: dict[tuple[str, object], str] = {}  # constant in some form -> graph tensor
        self.floats: dict[str, str] = {}  # integer tensor -> its Dequantize's output
        self.readers: dict[tuple[str, str], list[Node]] = {}  # (kind, first input) -> nodes
        for node in source.nodes:
            self.readers.setdefault((node.kind, node.input(0)), []).append(node)
        self.plan: BindingPlan = BindingPlan()
        self.stated: dict[str, Stated] = {}  # of nodes that nothing here computes
        self.protos: dict[str, Any] = {}
        self.guessed = False  # whether a shape is not what the file says
        self.read = {name for node in source.nodes for name in node.inputs} | set(source.outputs)

    def node_protos(self) -> dict[str, Any]:
        """Nodes of the file by their first output."""
        if not self.protos:
            self.protos = {text(node.output[0]): node for node in self.source.proto.graph.node}
        return self.protos

    def missing(self, name: str) -> ModelError:
        """Nothing was computed under this name: it comes later, or never."""
        tensor = f"tensor '{safe_terminal(name)}'"
        if any(name in map(text, node.output) for node in self.source.proto.graph.node):
            return ModelError(f"{tensor} is used before it is computed")
        return ModelError(
            f"{tensor} does not exist: no op computes it, and it is no input and no constant",
            hint="the export lost an op or renamed a tensor: export the model again",
        )

    def define(self, name: str, value: LayoutValue) -> None:
        self.values[name] = value
        self.shapes[name] = self.arranger.source_shape(value)

    def real(self, name: str) -> LayoutValue:
        """A tensor as ops outside of QDQ pairs see it."""
        if name in self.values:
            return self.values[name]
        if name not in self.integers:
            raise self.missing(name)
        value = self.integers[name]
        if value.tensor not in self.floats:
            source = self.graph.tensors[value.tensor]
            tensor = self.builder.add(
                Tensor(name, source.shape, DType.FLOAT32, source_shape=source.source_shape)
            )
            origin = (*value.via, self.dequantizers.get(name, "DequantizeLinear:"))
            self.builder.emit("Dequantize", (source.name,), Attrs(), tensor, origin)
            self.floats[value.tensor] = tensor.name
        self.values[name] = LayoutValue(self.floats[value.tensor], value.layout)
        return self.values[name]

    def quantize(
        self, value: LayoutValue, target: QuantType, name: str, origin: str
    ) -> LayoutValue:
        """The value in an integer type; unchanged if it has that type already."""
        source = self.graph.tensors[value.tensor]
        if (source.dtype, source.quant) == (target.dtype, target.quant):
            return value
        tensor = self.builder.add(
            Tensor(name, source.shape, target.dtype, target.quant, None, source.source_shape)
        )
        self.builder.emit("Quantize", (source.name,), Attrs(), tensor, (*value.via, origin))
        return LayoutValue(tensor.name, value.layout)
