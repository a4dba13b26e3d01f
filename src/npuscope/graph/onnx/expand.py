"""Bring every quantized form of ONNX to one: DequantizeLinear, float op, QuantizeLinear.

QLinearConv and its relatives state the scales of their operands as inputs, so each is rewritten
into the QDQ form it stands for. After this step the reader knows one form only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from npuscope.errors import ModelError
from npuscope.graph.onnx.constants import Const
from npuscope.graph.onnx.nodes import Node, Source


@dataclass(frozen=True, slots=True)
class QLinear:
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


def expand(source: Source) -> Source:
    """The same model with all QLinear* ops and known *Integer patterns in QDQ form."""
    return _Expander(source).run()


class _Expander:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.constants = dict(source.constants)
        self.number = 0
        self.names = {name for node in source.nodes for name in (*node.inputs, *node.outputs)}

    def run(self) -> Source:
        nodes: list[Node] = []
        for node in self.source.nodes:
            nodes.extend(self._node(node))
        return replace(self.source, nodes=tuple(nodes), constants=self.constants)

    def _node(self, node: Node) -> Iterator[Node]:
        if node.kind == "com.microsoft.QLinearConcat":
            yield from self._concat(node)
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

    def _concat(self, node: Node) -> Iterator[Node]:
        inputs: list[str] = []
        for first in range(2, len(node.inputs), 3):
            dequantize = self._dequantize(node, (first, first + 1, first + 2), 0)
            yield dequantize
            inputs.append(dequantize.output)
        yield from self._quantized(node, "Concat", inputs, (0, 1))

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
