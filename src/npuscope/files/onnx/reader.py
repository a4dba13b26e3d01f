"""ONNX -> Graph: the steps in order, and the walk over the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import prod
from pathlib import Path

import numpy as np

from npuscope.errors import ModelError, NotComputed, NpuscopeError
from npuscope.files.onnx.binding import (
    DEQUANTIZE,
    QUANTIZE,
    Binder,
    BindingPlan,
    fold_constants,
    node_type,
)
from npuscope.files.onnx.constants import (
    INTEGER_TYPES,
    PLAIN_TYPES,
    REAL_TYPES,
    TYPE_NUMBERS,
    Const,
    QuantType,
)
from npuscope.files.onnx.control import walk_branch
from npuscope.files.onnx.convert_values import Convert, clamp_of
from npuscope.files.onnx.dynamic import undo_dynamic
from npuscope.files.onnx.expand import expand, expand_integer
from npuscope.files.onnx.file import (
    Input,
    Node,
    OnnxModel,
    check_single_assignment,
    parse,
)
from npuscope.files.onnx.float_form import float_form
from npuscope.files.onnx.fold import FOLDERS, Computing
from npuscope.files.onnx.front_end import with_numbers
from npuscope.files.onnx.fused import unfuse
from npuscope.files.onnx.layer_folds import fold_batch_norm
from npuscope.files.onnx.layout import CHANNEL_LAST, LayoutValue, plain
from npuscope.files.onnx.outputs import finish_outputs
from npuscope.files.onnx.rewrite import rewrite, tidy
from npuscope.files.onnx.stated import known_form, stated_of, unknown
from npuscope.files.onnx.task import NodeTask
from npuscope.files.onnx.trained import undo_training
from npuscope.files.onnx.walk import OnnxWalk
from npuscope.files.sizes import Dims, Pins, static_shape
from npuscope.graph.model import Attrs, DType, Graph, Quant, Tensor
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.row import named
from npuscope.ops.table import ONNX, ONNX_ROWS
from npuscope.ops.traits import Trait
from npuscope.text import safe_terminal

# --- Which graph inputs are channel-first images and signals ---
#
# ONNX does not say what an axis means. An input whose values reach a windowed op through ops that
# do not depend on the order of axes is transposed directly at the input: then all of these ops work
# with channels last.

_ORDERLESS = ("QuantizeLinear", "DequantizeLinear")


def channel_first(source: OnnxModel) -> set[str]:
    """Names of tensors that a windowed op reads, directly or through ops of any axis order."""
    names: set[str] = set()
    for node in reversed(source.nodes):
        row = ONNX.get(node.kind)
        if row is not None and row.windowed:
            names.add(node.input(0))
        elif names.intersection(node.outputs) and (
            node.kind in _ORDERLESS or (row is not None and row.any_order)
        ):
            names.update(node.inputs)
    return names


@cache
def converter(kind: str) -> Convert:
    """The function that converts a node to ops."""
    row = ONNX[kind]
    function = named("npuscope.files.onnx", row.converter)
    convert: Convert = function(*row.arguments) if row.arguments else function
    return convert


def read_onnx(data: bytes, path: Path, pins: Pins, to_quantize: bool = False) -> Graph:
    """The graph in an .onnx file; `to_quantize`: a float network as quantizers take it."""
    source = parse(data, path)
    source = with_numbers(source, path)
    source = unfuse(source)
    source = undo_dynamic(undo_training(source))
    source = expand(source)
    source = expand_integer(source)
    computing = Computing(source.constants.values())
    source = fold_constants(source, computing)
    source = rewrite(source)
    source = tidy(source)
    source = fold_batch_norm(source)
    if to_quantize:
        source = float_form(source)
    check_single_assignment(source)
    return OnnxReader(source, path.stem, pins, computing).run()


class OnnxReader(OnnxWalk):
    def __init__(self, source: OnnxModel, name: str, pins: Pins, computing: Computing) -> None:
        super().__init__(source, name, pins, computing)
        self.channel_first = channel_first(source)

    def run(self) -> Graph:
        dims = {entry.name: self._dims(entry) for entry in self.source.inputs}
        results = {name for node in self.source.nodes for name in node.outputs}
        self.pins.check_names(dims, results)
        for entry in self.source.inputs:
            real = entry.type in REAL_TYPES
            self.shapes[entry.name] = static_shape(
                entry.name, dims[entry.name], self.pins, self.graph.notes, real=real
            )
        self.stated = stated_of(self)
        self.plan = self._bind()
        self.graph.inputs = tuple(self._input(entry) for entry in self.source.inputs)
        for node in self.source.nodes:
            self.located(node)
        finish_outputs(self)
        return self.graph

    def _bind(self) -> BindingPlan:
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

    def _dims(self, entry: Input) -> Dims:
        """Sizes as the file has them; a convolution that reads the input knows its channels."""
        for node in self.readers.get(("Conv", entry.name), []):
            weights = self.constants.get(node.input(1))
            if weights is not None and len(entry.dims) == weights.data.ndim > 2:
                channels = weights.data.shape[1] * node.integer("group", 1)
                return (entry.dims[0], entry.dims[1] or channels, *entry.dims[2:])
        return entry.dims

    def _input(self, entry: Input) -> str:
        shape = self.shapes[entry.name]
        dtype, quant = self._input_type(entry)
        tensor = self.builder.add(Tensor(entry.name, shape, dtype, quant))
        value = LayoutValue(tensor.name, plain(len(shape)))
        if entry.name in self.channel_first and len(shape) in CHANNEL_LAST:
            origin = f"input:{safe_terminal(entry.name)}"
            value = self.arranger.arrange(value, CHANNEL_LAST[len(shape)], origin)
        if entry.name in self.plan.inputs:
            for node in self.readers[QUANTIZE, entry.name]:
                self.define(node.output, value)
        else:
            self.values[entry.name] = value
        return tensor.name

    def _input_type(self, entry: Input) -> tuple[DType, Quant | None]:
        if entry.name in self.plan.inputs:
            return self.plan.inputs[entry.name].dtype, self.plan.inputs[entry.name].quant
        if entry.type in REAL_TYPES:
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
            elif node.kind in ONNX_ROWS and ONNX_ROWS[node.kind].has(Trait.MOVES):
                moved.update(node.outputs)

    def located(self, node: Node) -> None:
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
            target = node_type(node, self.constants)
            if target.quant.axis is not None:
                raise ModelError("an activation has one scale per channel, which is not supported")
            name = node.input(0)
            value = self.integers[name] if name in self.integers else self.real(name)
            self.define(node.output, self.quantize(value, target, node.output, node.origin))
        elif node.kind in ("Shape", "Size"):
            self._shape(node)
        elif node.kind == "CastLike":
            number = TYPE_NUMBERS.get(known_form(self, node.input(1))[0], 1)
            self._node(Node("Cast", node.origin, node.inputs[:1], node.outputs, {"to": number}))
        elif not self._fold(node):
            self._convert(node)

    def _convert(self, node: Node) -> None:
        if node.kind not in ONNX:
            if not walk_branch(self, node, self.located):
                self.plan.release(node.output)
                unknown(self, node)
            return
        try:
            converter(node.kind)(NodeTask(self, node))
        except ModelError as refusal:
            # Behind a guessed shape the file may be right and the guess wrong.
            if not isinstance(refusal, NotComputed) and not self.guessed:
                raise
            self.plan.release(node.output)
            unknown(self, node, refusal)

    # --- Nodes that are not converted one to one ---

    def _dequantize(self, node: Node) -> None:
        value = self.values.get(node.input(0))
        if value is None:
            raise self.missing(node.input(0))
        tensor = self.graph.tensors[value.tensor]
        stated = node_type(node, self.constants)
        if tensor.quant is None and stated.quant.axis is None:
            # Plain integers, as an op computed them, as real numbers: (x - zero point) * scale.
            scaled = self._step(node, value, "Cast", Attrs())
            if stated.quant.zero_point:
                scaled = self._step(
                    node, scaled, "Sub", BinaryAttrs(), float(stated.quant.zero_point)
                )
            self.define(
                node.output, self._step(node, scaled, "Mul", BinaryAttrs(), stated.quant.scale)
            )
            return
        if tensor.quant != stated.quant:
            raise ModelError(
                f"the tensor has {tensor.quant}, but it is read as {stated.quant}: scales must "
                f"not change in between"
            )
        self.integers[node.output] = value
        self.dequantizers[node.output] = node.origin
        self.shapes[node.output] = self.arranger.source_shape(value)

    def _step(
        self, node: Node, value: LayoutValue, kind: str, attrs: Attrs, number: float | None = None
    ) -> LayoutValue:
        """A float op on a value and maybe a number."""
        source = self.graph.tensors[value.tensor]
        inputs = [value.tensor]
        if number is not None:
            data = np.asarray(number, np.float32)
            stored = self.builder.constant(f"{node.output}_{kind}", data, DType.FLOAT32)
            inputs.append(stored.name)
        shape, source_shape = source.shape, source.source_shape
        tensor = self.builder.add(
            Tensor(node.output, shape, DType.FLOAT32, source_shape=source_shape)
        )
        self.builder.emit(kind, tuple(inputs), attrs, tensor, (*value.via, node.origin))
        return LayoutValue(tensor.name, value.layout)

    def _shape(self, node: Node) -> None:
        const = self.constants.get(node.input(0))
        shape = self.shapes.get(node.input(0)) if const is None else const.data.shape
        if shape is None:
            raise self.missing(node.input(0))
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
