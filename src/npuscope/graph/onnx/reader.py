"""ONNX -> Graph: the steps in order, and the walk over the nodes."""

from __future__ import annotations

from functools import cache
from math import prod
from pathlib import Path

import numpy as np

from npuscope.errors import ModelError, NpuscopeError
from npuscope.graph.attrs import Attrs
from npuscope.graph.builder import Builder
from npuscope.graph.model import DType, Graph, Numerics, Quant, Tensor
from npuscope.graph.onnx.arrange import Arranger, Value
from npuscope.graph.onnx.batch_norm import fold_batch_norm
from npuscope.graph.onnx.binding import Binder, Plan
from npuscope.graph.onnx.constants import INTEGER_TYPES, PLAIN_TYPES, Const, QuantType
from npuscope.graph.onnx.convert_values import clamp_of
from npuscope.graph.onnx.converters import CONVERTERS
from npuscope.graph.onnx.expand import expand
from npuscope.graph.onnx.file import parse
from npuscope.graph.onnx.fold import FOLDERS, Computing
from npuscope.graph.onnx.integer import expand_integer
from npuscope.graph.onnx.layout import CHANNEL_LAST, Shape, plain
from npuscope.graph.onnx.nodes import Input, Node, Source, check_single_assignment
from npuscope.graph.onnx.outputs import finish_outputs
from npuscope.graph.onnx.qdq import DEQUANTIZE, QUANTIZE, fold_constants, node_type
from npuscope.graph.onnx.rewrite import rewrite
from npuscope.graph.onnx.task import Task
from npuscope.graph.onnx.tidy import tidy
from npuscope.graph.onnx.wishes import channel_first
from npuscope.graph.pinning import Pins, static_shape
from npuscope.graph.refusals import nearest_form, refuse_ops
from npuscope.text import safe_terminal

_FLOAT_TYPE = "float32"


def read_onnx(data: bytes, path: Path, pins: Pins) -> Graph:
    """The graph in an .onnx file."""
    source = parse(data, path)
    source = expand(source)
    source = expand_integer(source)
    computing = Computing(source.constants.values())
    source = fold_constants(source, computing)
    source = rewrite(source)
    source = tidy(source)
    source = fold_batch_norm(source)
    check_single_assignment(source)
    return OnnxReader(source, path.stem, pins, computing).run()


class OnnxReader:
    """State of the walk. Names on the left are ONNX's.

    `values` holds tensors as they are; `integers` holds float tensors that exist as the integers
    they were dequantized from, for as long as nobody needs the floats.
    """

    def __init__(self, source: Source, name: str, pins: Pins, computing: Computing) -> None:
        self.source = source
        self.computing = computing
        self.pins = pins
        self.builder = Builder(name, Numerics.QDQ)
        self.graph = self.builder.graph
        self.arranger = Arranger(self.builder)
        self.constants = dict(source.constants)
        self.values: dict[str, Value] = {}
        self.integers: dict[str, Value] = {}
        self.shapes: dict[str, Shape] = {}  # source shapes, also of floats that never exist
        self.dequantizers: dict[str, str] = {}  # float name -> origin of its DequantizeLinear
        self.stored: dict[tuple[str, object], str] = {}  # constant in some form -> graph tensor
        self.floats: dict[str, str] = {}  # integer tensor -> its Dequantize's output
        self.readers: dict[tuple[str, str], list[Node]] = {}  # (kind, first input) -> nodes
        for node in source.nodes:
            self.readers.setdefault((node.kind, node.input(0)), []).append(node)
        self.channel_first = channel_first(source)
        self.plan: Plan = Plan()

    def run(self) -> Graph:
        self._refuse_unknown()
        self.plan = self._bind()
        self.pins.check_names([entry.name for entry in self.source.inputs])
        self.graph.inputs = tuple(self._input(entry) for entry in self.source.inputs)
        for node in self.source.nodes:
            self._located(node)
        finish_outputs(self)
        return self.graph

    def _bind(self) -> Plan:
        @cache
        def type_of(output: str) -> QuantType:
            return node_type(nodes[output], self.constants)

        nodes = {node.output: node for node in self.source.nodes}
        binder = Binder(
            self.source,
            lambda node: type_of(node.output),
            lambda node: clamp_of(node, self.constants),
        )
        return binder.run()

    def _refuse_unknown(self) -> None:
        known = CONVERTERS.keys() | FOLDERS.keys() | {QUANTIZE, DEQUANTIZE, "Shape", "Size"}
        nodes = (node for node in self.source.nodes if node.kind not in known)
        refuse_ops([(node.kind, node.origin) for node in nodes], "op")

    def _input(self, entry: Input) -> str:
        shape = static_shape(entry.name, entry.dims, self.pins, self.graph.notes)
        dtype, quant = self._input_type(entry)
        tensor = self.builder.add(Tensor(entry.name, shape, dtype, quant))
        value = Value(tensor.name, plain(len(shape)))
        if entry.name in self.channel_first and len(shape) in CHANNEL_LAST:
            origin = f"input:{safe_terminal(entry.name)}"
            value = self.arranger.arrange(value, CHANNEL_LAST[len(shape)], origin)
        self.shapes[entry.name] = shape
        if entry.name in self.plan.inputs:
            for node in self.readers[QUANTIZE, entry.name]:
                self.define(node.output, value)
        else:
            self.values[entry.name] = value
        return tensor.name

    def _input_type(self, entry: Input) -> tuple[DType, Quant | None]:
        if entry.name in self.plan.inputs:
            return self.plan.inputs[entry.name].dtype, self.plan.inputs[entry.name].quant
        if entry.type == _FLOAT_TYPE:
            return DType.FLOAT32, None
        types = {**INTEGER_TYPES, **PLAIN_TYPES}
        if entry.type not in types:
            raise ModelError(
                f"{entry.type} inputs are not supported",
                where=f"input '{safe_terminal(entry.name)}'",
                hint="export the model with float32 or integer inputs",
            )
        for node in self.readers.get((DEQUANTIZE, entry.name), []):
            return types[entry.type], node_type(node, self.constants).quant
        return types[entry.type], None

    def _located(self, node: Node) -> None:
        try:
            self._node(node)
        except NpuscopeError as error:
            error.where = error.where or node.origin
            raise

    def _node(self, node: Node) -> None:
        if node.output in self.plan.absorbed:
            return
        if node.kind == DEQUANTIZE:
            self._dequantize(node)
        elif node.kind == QUANTIZE:
            self._quantize(node)
        elif node.kind in ("Shape", "Size"):
            self._shape(node)
        elif not self._fold(node):
            if node.kind not in CONVERTERS:
                raise ModelError(
                    f"{node.kind} is supported for constants only", hint=nearest_form(node.kind)
                )
            CONVERTERS[node.kind](Task(self, node))

    # tensors by ONNX name

    def define(self, name: str, value: Value) -> None:
        self.values[name] = value
        self.shapes[name] = self.arranger.source_shape(value)

    def real(self, name: str) -> Value:
        """A tensor as its readers outside of QDQ pairs see it."""
        if name in self.values:
            return self.values[name]
        if name not in self.integers:
            raise ModelError(f"tensor '{safe_terminal(name)}' is used before it is made")
        value = self.integers[name]
        if value.tensor not in self.floats:
            self.floats[value.tensor] = self._emit_dequantize(value, name)
        self.values[name] = Value(self.floats[value.tensor], value.layout)
        return self.values[name]

    def _emit_dequantize(self, value: Value, name: str) -> str:
        source = self.graph.tensors[value.tensor]
        tensor = self.builder.add(
            Tensor(name, source.shape, DType.FLOAT32, source_shape=source.source_shape)
        )
        origin = (*value.via, self.dequantizers.get(name, "DequantizeLinear:"))
        self.builder.emit("Dequantize", (source.name,), Attrs(), tensor, origin)
        return tensor.name

    # nodes that are not converted one to one

    def _dequantize(self, node: Node) -> None:
        value = self.values.get(node.input(0))
        if value is None:
            raise ModelError(f"tensor '{safe_terminal(node.input(0))}' is used before it is made")
        tensor = self.graph.tensors[value.tensor]
        wanted = node_type(node, self.constants)
        if tensor.quant != wanted.quant:
            raise ModelError(
                f"it reads {tensor.quant} as {wanted.quant}: scales must not change in between"
            )
        self.integers[node.output] = value
        self.dequantizers[node.output] = node.origin
        self.shapes[node.output] = self.arranger.source_shape(value)

    def _quantize(self, node: Node) -> None:
        wanted = node_type(node, self.constants)
        if wanted.quant.axis is not None:
            raise ModelError("an activation has one scale per channel, which is not supported")
        name = node.input(0)
        value = self.integers[name] if name in self.integers else self.real(name)
        self.define(node.output, self.quantize(value, wanted, node.output, node.origin))

    def quantize(self, value: Value, wanted: QuantType, name: str, origin: str) -> Value:
        """The value in an integer type: as it is when it has that type already."""
        source = self.graph.tensors[value.tensor]
        if (source.dtype, source.quant) == (wanted.dtype, wanted.quant):
            return value
        tensor = self.builder.add(
            Tensor(name, source.shape, wanted.dtype, wanted.quant, None, source.source_shape)
        )
        self.builder.emit("Quantize", (source.name,), Attrs(), tensor, (*value.via, origin))
        return Value(tensor.name, value.layout)

    def _shape(self, node: Node) -> None:
        shape = self.shapes.get(node.input(0))
        if shape is None:
            raise ModelError(f"tensor '{safe_terminal(node.input(0))}' is used before it is made")
        if node.kind == "Size":
            self.constants[node.output] = Const(np.array(prod(shape), np.int64), "int64")
            return
        end = node.integer("end", len(shape))
        part = shape[node.integer("start", 0) : end]
        self.constants[node.output] = Const(np.array(part, np.int64), "int64")

    def _fold(self, node: Node) -> bool:
        inputs = [self.constants.get(name) if name else None for name in node.inputs]
        complete = all(
            const is not None or not name for const, name in zip(inputs, node.inputs, strict=True)
        )
        if not complete or node.kind not in FOLDERS or len(node.outputs) > 1:
            return False
        self.constants[node.output] = self.computing.fold(node, inputs)
        return True
