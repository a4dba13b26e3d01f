"""Every quantized form of ONNX brought to one: DequantizeLinear, float op, QuantizeLinear."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from npuscope.errors import ModelError, NotComputed
from npuscope.files.onnx.constants import Const
from npuscope.files.onnx.file import Node, OnnxModel
from npuscope.structs import replace

# --- QLinear ops to DequantizeLinear, float op, QuantizeLinear ---
#
# QLinearConv and its relatives state the scales of their operands as inputs, so each is rewritten
# into the QDQ form it stands for. After this step the reader knows one form only.


class QLinear(Struct, frozen=True):
    """Positions of the inputs: (tensor, scale, zero point) triples, result (scale, zero point).

    `weights_axis` is the axis per-channel scales of the second operand run along.
    """

    kind: str
    operands: tuple[tuple[int, int, int], ...]
    result: tuple[int, int]
    bias: int | None = None
    weights_axis: int = 0


_ONE = ((0, 1, 2),)
_TWO = ((0, 1, 2), (3, 4, 5))

QLINEAR: dict[str, QLinear] = {
    "QLinearConv": QLinear("Conv", _TWO, (6, 7), bias=8),
    "QLinearMatMul": QLinear("MatMul", _TWO, (6, 7), weights_axis=-1),
    "com.microsoft.QLinearAdd": QLinear("Add", _TWO, (6, 7)),
    "com.microsoft.QLinearMul": QLinear("Mul", _TWO, (6, 7)),
    "com.microsoft.QLinearGlobalAveragePool": QLinear("GlobalAveragePool", _ONE, (3, 4)),
    "com.microsoft.QLinearAveragePool": QLinear("AveragePool", _ONE, (3, 4)),
    "com.microsoft.QLinearReduceMean": QLinear("ReduceMean", _ONE, (3, 4)),
    "com.microsoft.QLinearSigmoid": QLinear("Sigmoid", _ONE, (3, 4)),
    "com.microsoft.QLinearLeakyRelu": QLinear("LeakyRelu", _ONE, (3, 4)),
    "com.microsoft.QLinearSoftmax": QLinear("Softmax", _ONE, (3, 4)),
    "com.microsoft.QGemm": QLinear("Gemm", _TWO, (7, 8), bias=6, weights_axis=1),
}


def expand(source: OnnxModel) -> OnnxModel:
    """The same model with all QLinear* ops and known *Integer patterns in QDQ form."""
    return _Expander(source).run()


class _Expander:
    def __init__(self, source: OnnxModel) -> None:
        self.source = source
        self.constants = dict(source.constants)
        self.number = 0
        self.names = {name for node in source.nodes for name in (*node.inputs, *node.outputs)}

    def run(self) -> OnnxModel:
        nodes: list[Node] = []
        for node in self.source.nodes:
            nodes.extend(self._node(node))
        return replace(self.source, nodes=tuple(nodes), constants=self.constants)

    def _node(self, node: Node) -> Iterator[Node]:
        if node.kind == "com.microsoft.QLinearConcat":
            inputs: list[str] = []
            for first in range(2, len(node.inputs), 3):
                dequantize = self._dequantize(node, (first, first + 1, first + 2), 0)
                yield dequantize
                inputs.append(dequantize.output)
            yield from self._quantized(node, "Concat", inputs, (0, 1))
        elif node.kind in QLINEAR:
            yield from self._qlinear(node, QLINEAR[node.kind])
        else:
            yield node

    def _qlinear(self, node: Node, row: QLinear) -> Iterator[Node]:
        if node.integer("channels_last", 0):
            raise ModelError("channels_last is not supported", where=node.origin)
        axis = row.weights_axis
        if node.kind == "com.microsoft.QGemm" and node.integer("transB", 0):
            axis = 0
        inputs: list[str] = []
        for position, operand in enumerate(row.operands):
            dequantize = self._dequantize(node, operand, axis if position else 0)
            yield dequantize
            inputs.append(dequantize.output)
        if row.bias is not None and node.input(row.bias):
            bias = self._bias(node, row.bias)
            yield bias
            inputs.append(bias.output)
        if not node.input(row.result[0]):  # QGemm may leave its result in float
            yield replace(node, kind=row.kind, inputs=tuple(inputs))
            return
        yield from self._quantized(node, row.kind, inputs, row.result)

    def _quantized(
        self, node: Node, kind: str, inputs: list[str], result: tuple[int, int]
    ) -> Iterator[Node]:
        real = self._fresh(node.output)
        yield replace(node, kind=kind, inputs=tuple(inputs), outputs=(real,))
        scale, zero_point = (node.input(index) for index in result)
        yield Node("QuantizeLinear", node.origin, (real, scale, zero_point), node.outputs)

    def _dequantize(self, node: Node, operand: tuple[int, int, int], axis: int) -> Node:
        inputs = tuple(node.input(index) for index in operand)
        if not all(inputs[:2]):
            raise ModelError(f"inputs {operand} are missing", where=node.origin)
        output = self._fresh(f"{inputs[0]}_real")
        return Node("DequantizeLinear", node.origin, inputs, (output,), {"axis": axis})

    def _bias(self, node: Node, index: int) -> Node:
        """Its scale is, by definition, the product of the operands' scales."""
        scales = [self.constants.get(node.input(position)) for position in (1, 4)]
        if scales[0] is None or scales[1] is None or scales[0].data.size != 1:
            raise ModelError("the scales must be constants", where=node.origin)
        product = node.number("alpha", 1.0) * scales[0].real().ravel()[0] * scales[1].real()
        name = self._fresh(f"{node.input(index)}_scale")
        self.constants[name] = Const(np.asarray(product, np.float32), "float32")
        output = self._fresh(f"{node.input(index)}_real")
        inputs = (node.input(index), name)
        return Node("DequantizeLinear", node.origin, inputs, (output,), {"axis": 0})

    def _fresh(self, stem: str) -> str:
        name = stem
        while name in self.names or name in self.constants:
            self.number += 1
            name = f"{stem}_{self.number}"
        self.names.add(name)
        return name


# --- ConvInteger and MatMulInteger with static scales to QDQ ---
#
# The pattern is QuantizeLinear -> ConvInteger -> Cast -> Mul(scale) [-> Add(bias)]. Dynamic
# quantization (DynamicQuantizeLinear) has no scale before the network runs, so it cannot be
# compiled.

_FLOAT_OPS = {"ConvInteger": "Conv", "MatMulInteger": "MatMul"}
_HINT = "quantize the model statically: onnxruntime.quantization.quantize_static, format QDQ"


def expand_integer(source: OnnxModel) -> OnnxModel:
    """The same model with the static *Integer patterns in QDQ form."""
    if not any(node.kind in _FLOAT_OPS for node in source.nodes):
        return source
    rewriter = _Rewriter(source)
    nodes = [new for node in source.nodes for new in rewriter.node(node)]
    notes = (*source.notes, *rewriter.notes)
    return replace(source, nodes=tuple(nodes), constants=rewriter.constants, notes=notes)


class _Pattern(Struct, frozen=True):
    """What follows an integer product: its real scale, its bias, the name of the result."""

    scale: np.ndarray
    bias: np.ndarray | None
    output: str


class _Rewriter:
    def __init__(self, source: OnnxModel) -> None:
        self.constants = dict(source.constants)
        self.producers = {name: node for node in source.nodes for name in node.outputs}
        self.readers: dict[str, list[Node]] = {}
        for node in source.nodes:
            for name in node.inputs:
                self.readers.setdefault(name, []).append(node)
        self.outputs = set(source.outputs)
        self.swallowed: set[str] = set()
        self.notes: list[str] = []

    def node(self, node: Node) -> list[Node]:
        if node.output in self.swallowed:
            return []
        if node.kind not in _FLOAT_OPS:
            return [node]
        try:
            return self._product(node)
        except NotComputed as refusal:
            self.notes.append(f"{node.origin}: {refusal.message}: work of unknown cost; {_HINT}")
            return [node]

    def _product(self, node: Node) -> list[Node]:
        pattern = self._follow(node)
        producer = self.producers.get(node.input(0))
        scale = None
        if producer is not None and producer.kind == "QuantizeLinear":
            scale = self.constants.get(producer.input(1))
        x_scale = float(scale.real().ravel()[0]) if scale and scale.data.size == 1 else 0.0
        if not x_scale > 0.0:
            raise self._unsupported(node, "its input has no static scale")
        weights_scale = pattern.scale / x_scale
        stem = node.output
        self._add(f"{stem}/x_scale", np.float32(x_scale))
        self._add(f"{stem}/w_scale", np.squeeze(weights_scale))
        x = (node.input(0), f"{stem}/x_scale", node.input(2))
        weights = (node.input(1), f"{stem}/w_scale", self._weights_zero_point(node, weights_scale))
        axis = {"axis": 0 if node.kind == "ConvInteger" else -1}
        operands = [
            Node("DequantizeLinear", node.origin, x, (f"{stem}/x",)),
            Node("DequantizeLinear", node.origin, weights, (f"{stem}/w",), dict(axis)),
        ]
        return [*operands, *self._float_op(node, pattern, stem)]

    def _float_op(self, node: Node, pattern: _Pattern, stem: str) -> list[Node]:
        kind = _FLOAT_OPS[node.kind]
        inputs = (f"{stem}/x", f"{stem}/w")
        if pattern.bias is None:
            return [replace(node, kind=kind, inputs=inputs, outputs=(pattern.output,))]
        self._add(f"{stem}/bias", pattern.bias)
        if kind == "Conv":
            with_bias = (*inputs, f"{stem}/bias")
            return [replace(node, kind=kind, inputs=with_bias, outputs=(pattern.output,))]
        product = replace(node, kind=kind, inputs=inputs, outputs=(f"{stem}/product",))
        add = (f"{stem}/product", f"{stem}/bias")
        return [product, Node("Add", node.origin, add, (pattern.output,))]

    def _weights_zero_point(self, node: Node, scale: np.ndarray) -> str:
        """One zero point is given for all channels; DequantizeLinear needs one for each."""
        stated = self.constants.get(node.input(3))
        weights = self.constants.get(node.input(1))
        if weights is None:
            raise self._unsupported(node, "the weights are not constant")
        point = stated.data if stated is not None else np.zeros((), weights.data.dtype)
        channels = np.squeeze(scale).shape
        if point.size > 1 and point.shape != channels:
            raise self._unsupported(node, "the numbers of zero points and scales differ")
        points = np.broadcast_to(point if point.size > 1 else point.ravel()[0], channels)
        name = f"{node.output}/w_zero_point"
        self.constants[name] = Const(np.ascontiguousarray(points), weights.type)
        return name

    def _follow(self, node: Node) -> _Pattern:
        cast = self._only_reader(node.output, ("Cast",), node)
        scaling = self._only_reader(cast.output, ("Mul",), node)
        scale = self._other_constant(scaling, cast.output)
        if scale is None:
            raise self._unsupported(node, "its scale is not a constant")
        readers = self.readers.get(scaling.output, [])
        bias = None
        if len(readers) == 1 and readers[0].kind == "Add" and scaling.output not in self.outputs:
            bias = self._other_constant(readers[0], scaling.output)
        self.swallowed.update((cast.output, scaling.output))
        if bias is None:
            return _Pattern(scale, None, scaling.output)
        self.swallowed.add(readers[0].output)
        return _Pattern(scale, np.atleast_1d(np.squeeze(bias)), readers[0].output)

    def _only_reader(self, name: str, kinds: tuple[str, ...], node: Node) -> Node:
        readers = self.readers.get(name, [])
        if len(readers) != 1 or readers[0].kind not in kinds or name in self.outputs:
            raise self._unsupported(node, f"it is not followed by exactly one {kinds[0]}")
        return readers[0]

    def _other_constant(self, node: Node, dynamic: str) -> np.ndarray | None:
        others = [self.constants.get(name) for name in node.inputs if name != dynamic]
        return others[0].real() if len(others) == 1 and others[0] is not None else None

    def _unsupported(self, node: Node, reason: str) -> NotComputed:
        return NotComputed(f"{node.kind} cannot be read: {reason}")

    def _add(self, name: str, data: np.ndarray | np.float32) -> None:
        self.constants[name] = Const(np.asarray(data, np.float32), "float32")
