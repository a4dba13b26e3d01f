"""Graph -> .tflite: an int8 network of any source as LiteRT and compilers behind it read it.

Values keep their scales, but for results of kernels that insist on one; unsigned values move to the
signed type of the same width. What the two
formats express in other ways is written by `write_layers.py` and `write_moves.py`, every other op
as its row in ops/ names it. An op without an integer kernel in LiteRT computes on floats between
DEQUANTIZE and QUANTIZE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import fields as fields_of

from npuscope.errors import ModelError
from npuscope.files.tflite.file_graph import TfliteFileGraph
from npuscope.files.tflite.file_parts import FileOp, FileTensor
from npuscope.files.tflite.records import Record, TfliteFile
from npuscope.files.tflite.spelling import int8_version
from npuscope.graph.model import Activation, Attrs, DType, Graph, Op, Quant, Tensor
from npuscope.ops.elementwise import BinaryAttrs
from npuscope.ops.row import Row, named
from npuscope.ops.table import spec
from npuscope.ops.traits import Trait
from npuscope.text import safe_terminal

_SCHEMA_VERSION = 3
_SHOWN = 6  # ops that a refusal names
_SIGNED = {DType.UINT8: DType.INT8, DType.UINT16: DType.INT16, DType.INT4: DType.INT8}
ACTIVATIONS = {
    Activation.NONE: 0,
    Activation.RELU: 1,
    Activation.RELU_N1_TO_1: 2,
    Activation.RELU6: 3,
}
# Scales that LiteRT's int8 kernels insist on, beside those of rows with a fixed range.
_FIXED = {"L2Normalization": Quant((1 / 128,), (0,))}
# Kinds that need more than their row tells; functions of this package.
_WRITERS = {
    "Conv2D": "write_layers:conv",
    "TransposeConv": "write_layers:transpose_conv",
    "FullyConnected": "write_layers:fully_connected",
    "MatMul": "write_layers:matmul",
    "BatchNorm": "write_layers:batch_norm",
    "HardSigmoid": "write_layers:hard_sigmoid",
    "MaxPool": "write_layers:max_pool",
    "AveragePool": "write_layers:average_pool",
    "Mean": "write_moves:reduction",
    "ReduceSum": "write_moves:total",
    "Neg": "write_moves:negative",
    "ReduceProd": "write_moves:reduction",
    "ReduceMax": "write_moves:reduction",
    "ReduceMin": "write_moves:reduction",
    "ArgMax": "write_moves:place",
    "ArgMin": "write_moves:place",
    "Softmax": "write_moves:softmax",
    "LogSoftmax": "write_moves:softmax",
    "L2Normalization": "write_moves:l2_normalization",
    "Clip": "write_moves:clip",
    "LeakyRelu": "write_moves:leaky_relu",
    "Elu": "write_moves:elu",
    "Gelu": "write_moves:gelu",
    "Identity": "write_moves:reshape",
    "Reshape": "write_moves:reshape",
    "Transpose": "write_moves:transpose",
    "Concat": "write_moves:concat",
    "Split": "write_moves:split",
    "Slice": "write_moves:cut",
    "Pad": "write_moves:pad",
    "MirrorPad": "write_moves:mirror_pad",
    "Gather": "write_moves:gather",
    "Tile": "write_moves:tile",
    "BroadcastTo": "write_moves:broadcast_to",
    "DepthToSpace": "write_moves:depth_to_space",
    "SpaceToDepth": "write_moves:space_to_depth",
    "Resize": "write_moves:resize",
}


class NotWritten(Exception):
    """Why an op has no form in a .tflite file."""


class WrittenTflite(Struct, frozen=True):
    """A file, and the source ops of each of its operators in order."""

    data: bytes
    origins: tuple[tuple[str, ...], ...]


def write_tflite(graph: Graph) -> WrittenTflite:
    """Ops that cannot be written are named in one ModelError."""
    writer = GraphWriter(graph)
    refusals = []
    for op in graph.ops:
        try:
            writer.write(op)
        except NotWritten as reason:
            origin = op.origin[0] if op.origin else op.name
            refusals.append(f"{op.kind} '{safe_terminal(origin)}' ({reason})")
    if refusals:
        more = f", and {len(refusals) - _SHOWN} more" if len(refusals) > _SHOWN else ""
        raise ModelError(
            f"the network cannot be written as int8 TFLite: {', '.join(refusals[:_SHOWN])}{more}",
            hint="replace these operators, or end the model before them",
        )
    return writer.finish()


class GraphWriter:
    """A file under construction. Functions for an op ask it for tensors and add operators."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        parts = {"Subgraphs": [Record("SubGraph")], "Buffers": [Record("Buffer")]}
        model = Record("Model", {"Version": _SCHEMA_VERSION, **parts})
        self.file = TfliteFileGraph(TfliteFile(model, b"TFL3"))
        self._tensors: dict[str, FileTensor] = {}
        self._copies: dict[tuple[FileTensor, str, Quant | None], FileTensor] = {}
        self._origins: dict[FileOp, tuple[str, ...]] = {}
        self._op = Op("", "", (), (), Attrs())
        self._number = 0

    def write(self, op: Op) -> None:
        self._op = op
        if op.kind in _WRITERS:
            function: Callable[[GraphWriter, Op], None]
            function = named("npuscope.files.tflite", _WRITERS[op.kind])
            function(self, op)
        elif not _is_usual(op):
            raise NotWritten("it has no form in int8 TFLite")
        else:
            plain(self, op)

    def finish(self) -> WrittenTflite:
        self.file.network_inputs = [self.tensor(name) for name in self.graph.inputs]
        self.file.network_outputs = [self.tensor(name) for name in self.graph.outputs]
        data = self.file.written()
        return WrittenTflite(data, tuple(self._origins[op] for op in self.file.nodes))

    # --- Tensors ---

    def tensor(self, name: str) -> FileTensor:
        if name not in self._tensors:
            self._tensors[name] = self._new(self.graph.tensors[name])
        return self._tensors[name]

    def operands(self, op: Op) -> list[FileTensor]:
        return [self.tensor(name) for name in op.inputs if name]

    def target(self, op: Op) -> FileTensor:
        return self.tensor(op.outputs[0])

    def _new(self, tensor: Tensor) -> FileTensor:
        data, quant, dtype = tensor.data, tensor.quant, tensor.dtype
        if dtype in _SIGNED and (quant is not None or dtype is DType.INT4):
            if dtype is not DType.INT4:
                assert quant is not None
                half = 2 ** (dtype.bits - 1)
                points = tuple(point - half for point in quant.zero_points)
                quant = Quant(quant.scales, points, quant.axis)
                data = None if data is None else data.astype(np.int64) - half
            dtype = _SIGNED[dtype]
        if dtype is DType.INT16 and quant is not None and any(quant.zero_points):
            raise NotWritten("LiteRT's 16-bit kernels take no zero points")
        data = None if data is None else np.asarray(data, dtype.numpy)
        return self._add(tensor.name, dtype.value.upper(), tensor.shape, quant, data)

    def _add(
        self,
        name: str,
        type: str,
        shape: Sequence[int],
        quant: Quant | None,
        data: np.ndarray | None = None,
    ) -> FileTensor:
        tensor = FileTensor(name, type, tuple(shape), quant, data)
        self.file.tensors.append(tensor)
        return tensor

    def _fresh(self, word: str) -> str:
        while True:
            self._number += 1
            name = f"{self._op.outputs[0]}/{word}_{self._number}"
            if name not in self.graph.tensors:
                return name

    def aside(
        self, word: str, shape: Sequence[int], type: str, quant: Quant | None = None
    ) -> FileTensor:
        """A tensor that the source does not have."""
        return self._add(self._fresh(word), type, shape, quant)

    def constant(self, word: str, values: np.ndarray, quant: Quant | None = None) -> FileTensor:
        type = str(values.dtype).upper()
        return self._add(self._fresh(word), type, values.shape, quant, values)

    def numbers(self, word: str, values: Iterable[Any]) -> FileTensor:
        """Sizes, axes, places."""
        return self.constant(word, np.array([*values], np.int32))

    # --- The same values in another form ---

    def with_quant(self, tensor: FileTensor, quant: Quant | None) -> FileTensor:
        if tensor.quant == quant or quant is None or tensor.quant is None:
            return tensor
        key = (tensor, tensor.type, quant)
        if key not in self._copies:
            self._copies[key] = self.aside("quantized", tensor.shape, tensor.type, quant)
            self.add("QUANTIZE", [tensor], self._copies[key])
        return self._copies[key]

    def real(self, tensor: FileTensor) -> FileTensor:
        """As floats."""
        if tensor.quant is None:
            return tensor
        key = (tensor, "FLOAT32", None)
        if key not in self._copies:
            self._copies[key] = self.aside("real", tensor.shape, "FLOAT32")
            self.add("DEQUANTIZE", [tensor], self._copies[key])
        return self._copies[key]

    def result(self, name: str, quant: Quant | None, shape: Sequence[int] = ()) -> FileTensor:
        """For an operator to fill that gives values of this quantization, or floats where it is
        None: the tensor of the graph itself, or what is quantized to it."""
        target = self.tensor(name)
        if target.quant == quant:
            return target
        type = "FLOAT32" if quant is None else target.type
        between = self.aside("unscaled", shape or target.shape, type, quant)
        self.add("QUANTIZE" if target.quant else "DEQUANTIZE", [between], target)
        return between

    # --- Operators ---

    def add(
        self,
        word: str,
        inputs: Iterable[FileTensor | None],
        outputs: FileTensor | Sequence[FileTensor],
        table: str = "",
        **fields: Any,
    ) -> None:
        targets = [outputs] if isinstance(outputs, FileTensor) else [*outputs]
        options = Record(table, fields) if table else None
        op = FileOp(word, [*inputs], targets, options, int8_version(word))
        self.file.nodes.append(op)
        self._origins[op] = self._op.origin


def _is_usual(op: Op) -> bool:
    """Nothing but a fused activation is asked for."""
    if isinstance(op.attrs, BinaryAttrs) or type(op.attrs) is Attrs:
        return True
    required = any(field.required for field in fields_of(type(op.attrs)))
    return not required and op.attrs == type(op.attrs)()


def plain(writer: GraphWriter, op: Op, **fields: Any) -> None:
    """By its row: one operator on the same operands."""
    row = spec(op)
    if not row.tflite:
        raise NotWritten("TFLite has no such operator")
    word, form = next(iter(row.tflite.items()))
    activation = getattr(op.attrs, "activation", None)
    if activation is not None and form.options:
        fields["FusedActivationFunction"] = ACTIVATIONS[activation]
    elif activation not in (None, Activation.NONE):
        raise NotWritten(f"TFLite's {word} has no fused activation")
    operands, target = writer.operands(op), writer.target(op)
    if target.quant is not None and not _has_integers(row):
        operands = [writer.real(operand) for operand in operands]
        target = writer.result(op.outputs[0], None)
    elif row.has(Trait.PICKS) or row.kind == "Where":
        operands = [writer.with_quant(operand, target.quant) for operand in operands]
    else:
        target = writer.result(op.outputs[0], made_quant(writer, op))
    writer.add(word, operands, target, form.options[0] if form.options else "", **fields)


def made_quant(writer: GraphWriter, op: Op) -> Quant | None:
    """What LiteRT's kernel gives: the operand's where it only moves values, else what is asked."""
    row, target = spec(op), writer.target(op)
    if target.quant is None or target.type != "INT8":
        return target.quant
    if row.has(Trait.MOVES) or row.has(Trait.PICKS):
        return writer.tensor(op.inputs[0]).quant
    fixed = _FIXED.get(op.kind) or row.fixed_quant
    if fixed is None or target.quant is None:
        return target.quant
    if op.outputs[0] not in writer.graph.outputs and _covers(target.quant, fixed):
        target.quant = fixed  # readers take it as it is: one rounding less
    return fixed


def _covers(quant: Quant, other: Quant) -> bool:
    """Nothing is cut from int8 values of the other scale."""
    (low, high), (least, most) = (
        [(end - q.zero_point) * q.scale for end in DType.INT8.limits] for q in (quant, other)
    )
    return low <= least and most <= high


def _has_integers(row: Row) -> bool:
    """LiteRT's reference kernel of this op takes int8."""
    computes = row.kernel.form in ("function", "values", "whole")
    return not computes or bool(row.kernel.litert)
