"""ONNX -> Graph: the steps in order, and the walk over the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from math import prod
from pathlib import Path

import numpy as np

from npuscope.errors import ModelError, NpuscopeError
from npuscope.files.builder import Builder, drop_dead
from npuscope.files.load import Pins, nearest_form, refuse_other_npus, static_shape
from npuscope.files.onnx.binding import (
    DEQUANTIZE,
    QUANTIZE,
    Binder,
    Plan,
    fold_constants,
    node_type,
)
from npuscope.files.onnx.constants import INTEGER_TYPES, PLAIN_TYPES, Const, QuantType
from npuscope.files.onnx.convert_values import Convert, clamp_of
from npuscope.files.onnx.expand import expand, expand_integer
from npuscope.files.onnx.file import Input, Node, OnnxModel, check_single_assignment, parse
from npuscope.files.onnx.fold import FOLDERS, Computing
from npuscope.files.onnx.front_end import with_numbers
from npuscope.files.onnx.layout import CHANNEL_LAST, Arranger, Shape, Value, plain
from npuscope.files.onnx.rewrite import fold_batch_norm, rewrite, tidy
from npuscope.files.onnx.stated import SAME_SHAPE, Stated, stated_tensors
from npuscope.files.onnx.task import Task
from npuscope.graph.model import Attrs, DType, Graph, Numerics, Quant, Tensor
from npuscope.ops.row import named
from npuscope.ops.table import ONNX, ONNX_ROWS
from npuscope.ops.unknown import UNKNOWN, UnknownAttrs
from npuscope.text import safe_terminal

# --- Which graph inputs are channel-first images and signals ---
#
# ONNX does not say what an axis means. An input whose values reach a windowed op through ops that
# do not depend on the order of axes is transposed directly at the input: then all of these ops work
# with channels last.

_ORDERLESS = ("QuantizeLinear", "DequantizeLinear")


def _any_order(node: Node) -> bool:
    return node.kind in _ORDERLESS or (node.kind in ONNX and ONNX[node.kind].any_order)


def channel_first(source: OnnxModel) -> set[str]:
    """Names of tensors that a windowed op reads, directly or through ops of any axis order."""
    found: set[str] = set()
    for node in reversed(source.nodes):
        row = ONNX.get(node.kind)
        if row is not None and row.windowed:
            found.add(node.input(0))
        elif _any_order(node) and found.intersection(node.outputs):
            found.update(node.inputs)
    return found


# --- After the walk: graph outputs in source order and under their own names ---


def finish_outputs(reader: OnnxReader) -> None:
    """Graph outputs in source order and under their own names; then drop unused tensors."""
    names: dict[str, str] = {}
    for name in reader.source.outputs:
        origin = f"output:{safe_terminal(name)}"
        names[name] = _output(reader, name, origin, set(names.values()))
    reader.graph.outputs = tuple(names.values())
    drop_dead(reader.graph)
    _rename(reader.graph, {old: new for new, old in names.items() if old != new})


def _output(reader: OnnxReader, name: str, origin: str, taken: set[str]) -> str:
    if name in reader.constants:
        return _constant_output(reader, name)
    value = reader.integers[name] if name in reader.integers else reader.real(name)
    rank = len(reader.arranger.source_shape(value))
    value = reader.arranger.arrange(value, plain(rank), origin)
    tensor = reader.graph.tensors[value.tensor]
    if tensor.name not in taken and tensor.name not in reader.graph.inputs:
        return tensor.name
    copy = reader.builder.add(Tensor(name, tensor.shape, tensor.dtype, tensor.quant))
    reader.builder.emit("Identity", (tensor.name,), Attrs(), copy, (*value.via, origin))
    return copy.name


def _constant_output(reader: OnnxReader, name: str) -> str:
    """A result that does not depend on the inputs, such as anchors that a network hands on."""
    const = reader.constants[name]
    types = {**INTEGER_TYPES, **PLAIN_TYPES, _FLOAT_TYPE: DType.FLOAT32}
    if const.type not in types:
        raise ModelError(f"output '{safe_terminal(name)}' is a constant of {const.type}")
    reader.graph.notes.append(f"output '{safe_terminal(name)}' is a constant")
    dtype = types[const.type]
    data = const.data.astype(dtype.numpy, copy=False)
    return reader.builder.constant(name, data, dtype).name


def _rename(graph: Graph, names: dict[str, str]) -> None:
    """Give tensors the names of their graph outputs; another tensor with that name is renamed."""
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


_FLOAT_TYPE = "float32"


@cache
def converter(kind: str) -> Convert:
    """The function that converts a node to ops."""
    row = ONNX[kind]
    found = named("npuscope.files.onnx", row.converter)
    convert: Convert = found(*row.arguments) if row.arguments else found
    return convert


def read_onnx(data: bytes, path: Path, pins: Pins) -> Graph:
    """The graph in an .onnx file."""
    source = parse(data, path)
    source = with_numbers(source, path)
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
    they were dequantized from, until an op needs the floats.
    """

    def __init__(self, source: OnnxModel, name: str, pins: Pins, computing: Computing) -> None:
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
        self.stated: dict[str, Stated] = {}  # of nodes that nothing here computes
        self.read = {name for node in source.nodes for name in node.inputs} | set(source.outputs)

    def run(self) -> Graph:
        self.stated = self._stated()
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

    def _stated(self) -> dict[str, Stated]:
        """What the file says of the results of nodes that nothing here computes."""
        known = ONNX.keys() | {QUANTIZE, DEQUANTIZE, "Shape", "Size"}
        nodes = [node for node in self.source.nodes if node.kind not in known]
        refuse_other_npus((node.kind, node.origin) for node in nodes)
        names = [name for node in nodes for name in node.outputs if name]
        return stated_tensors(self.source.proto, names, self.pins) if names else {}

    def _unknown(self, node: Node) -> None:
        """A node that nothing here computes: one op for every output that somebody reads."""
        inputs = tuple(self._plain(name, node.origin) for name in node.inputs if name)
        held = tuple(name for name in inputs if name) or self.graph.inputs[:1]
        outputs = [name for name in node.outputs if name in self.read]
        for part, name in enumerate(outputs):
            if name not in self.stated and node.kind.rpartition(".")[2] in SAME_SHAPE and held:
                self.stated[name] = ("float32", self.graph.tensors[held[0]].shape)
            if name not in self.stated:
                raise ModelError(
                    f"{node.kind} is not known here, and the file does not state the shape of "
                    f"'{safe_terminal(name)}'",
                    hint="pin open sizes with --shape, or run onnx.shape_inference on the model; "
                    f"{nearest_form(node.kind)}",
                )
            type_name, shape = self.stated[name]
            dtype = {**INTEGER_TYPES, **PLAIN_TYPES}.get(type_name, DType.FLOAT32)
            tensor = self.builder.add(Tensor(name, shape, dtype))
            attrs = UnknownAttrs(node.kind, shape, part)
            self.builder.emit(UNKNOWN, held, attrs, tensor, (node.origin,))
            self.define(name, Value(tensor.name, plain(len(shape))))

    def _plain(self, name: str, origin: str) -> str:
        """The tensor in the file's own order of axes; constants stay outside of the graph."""
        if name in self.constants:
            return ""
        value = self.real(name)
        rank = len(self.arranger.source_shape(value))
        return self.arranger.arrange(value, plain(rank), origin).tensor

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
        for node in self._dequantizers(entry.name):
            return types[entry.type], node_type(node, self.constants).quant
        return types[entry.type], None

    def _dequantizers(self, name: str) -> Iterator[Node]:
        """Nodes that read integers as real numbers, at once or behind ops that only move them."""
        moved = {name}
        for node in self.source.nodes:
            if node.input(0) not in moved:
                continue
            if node.kind == DEQUANTIZE:
                yield node
            elif node.kind in ONNX_ROWS and ONNX_ROWS[node.kind].moves_data:
                moved.update(node.outputs)

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
            if node.kind in ONNX:
                converter(node.kind)(Task(self, node))
            else:
                self._unknown(node)

    # --- Tensors by ONNX name ---

    def define(self, name: str, value: Value) -> None:
        self.values[name] = value
        self.shapes[name] = self.arranger.source_shape(value)

    def real(self, name: str) -> Value:
        """A tensor as ops outside of QDQ pairs see it."""
        if name in self.values:
            return self.values[name]
        if name not in self.integers:
            raise ModelError(f"tensor '{safe_terminal(name)}' is used before it is computed")
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

    # --- Nodes that are not converted one to one ---

    def _dequantize(self, node: Node) -> None:
        value = self.values.get(node.input(0))
        if value is None:
            raise ModelError(
                f"tensor '{safe_terminal(node.input(0))}' is used before it is computed"
            )
        tensor = self.graph.tensors[value.tensor]
        wanted = node_type(node, self.constants)
        if tensor.quant != wanted.quant:
            raise ModelError(
                f"the tensor has {tensor.quant}, but it is read as {wanted.quant}: scales must "
                f"not change in between"
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
        """The value in an integer type; unchanged if it has that type already."""
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
            raise ModelError(
                f"tensor '{safe_terminal(node.input(0))}' is used before it is computed"
            )
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
