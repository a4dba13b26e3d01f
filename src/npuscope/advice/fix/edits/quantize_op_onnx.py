"""quantize-op for .onnx: pairs of Q and DQ behind float ops make them ops on integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.advice.fix.edits import onnx_edit
from npuscope.advice.fix.parts.pairs_onnx import (
    activation_quant,
    as_onnx,
    as_quant,
    dequantizer,
    insert_pair,
    quantizers,
    store_slopes,
    store_steps,
)
from npuscope.advice.fix.parts.steps import (
    FIXED,
    Interval,
    common,
    covered,
    ends,
    int8_quant,
    reached,
    seen,
    symmetric_steps,
)
from npuscope.advice.fix.request import Network, Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.edit.onnx_document import QUANTIZE, Node, OnnxDocument, OnnxQuant

_MOVES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Slice", "Pad")
_POOLS = ("MaxPool", "GlobalMaxPool", "AveragePool", "GlobalAveragePool", "ReduceMean")
_CLAMPS = ("Relu", "Clip")
# The result lies on the steps of the input: nothing but the mean of a pool is rounded.
_KEEPS = (*_MOVES, *_POOLS, *_CLAMPS)
_BINARY = ("Add", "Sub", "Mul")
_FUNCTIONS = (*FIXED, "HardSwish", "LeakyRelu", "PRelu", "Elu", "Abs", "Neg")
_KNOWN = (*_KEEPS, *_BINARY, *_FUNCTIONS, "BatchNormalization", "Concat")
_TWO_OPERANDS = (*_BINARY, "PRelu")


@onnx_edit("quantize-op")
def quantize_op(document: OnnxDocument, request: Request) -> None:
    """Every float op of the finding that the NPU has a form for."""
    found = [node for name in request.ops if (node := document.op(name)) is not None]
    nodes = [node for node in found if node.op_type in _KNOWN]
    if not nodes:
        others = sorted({node.op_type for node in found})
        raise NotFitting(f"the NPU has no integer form of {', '.join(others) or 'this op'}")
    quantize_nodes(document, nodes, request.network)


def quantize_nodes(document: OnnxDocument, nodes: Sequence[Node], network: Network) -> None:
    """All of them at once: what one makes the next may read."""
    order = {id(node): n for n, node in enumerate(document.nodes)}
    plan = _Plan(document, network)
    for node in sorted(nodes, key=lambda node: order[id(node)]):
        plan.add(node)
    if not plan.pairs and not plan.constants:
        raise NotFitting("the op is quantized on all sides already")
    plan.apply()


class _Plan:
    """What will be quantized, before anything is changed."""

    def __init__(self, document: OnnxDocument, network: Network) -> None:
        self.document = document
        self.network = network
        self.pairs: dict[str, OnnxQuant] = {}
        self.constants: list[tuple[Node, int, np.ndarray]] = []
        self.reach: dict[str, Interval] = {}  # of float results that a clamp takes over

    def add(self, node: Node) -> None:
        count = 2 if node.op_type in _TWO_OPERANDS else 1
        count = len(node.input) if node.op_type == "Concat" else count
        operands = [self._operand(node, place) for place in range(count)]
        output = node.output[0]
        if self._clamp_follows(output):
            self.reach[output] = self._reached(node, operands)
        elif not self._is_quantized(output):
            self.pairs[output] = self._result(node, operands)

    def _operand(self, node: Node, place: int) -> Interval:
        """The range of an operand, which is quantized where it is not yet."""
        name = node.input[place]
        values = self.document.constant(name)
        if values is not None:
            self.constants.append((node, place, values))
            return ends(name, values)
        if name in self.reach:
            return self.reach[name]
        quant = self._quant(name)
        if quant is None:
            quant = self.pairs[name] = self._measured(name)
        return _covered(quant)

    def _quant(self, name: str) -> OnnxQuant | None:
        if name in self.pairs:
            return self.pairs[name]
        maker = dequantizer(self.document, name)
        return activation_quant(self.document, maker) if maker is not None else None

    def _measured(self, name: str) -> OnnxQuant:
        """Of a float tensor whose maker stays float."""
        present = quantizers(self.document, name)
        if present:
            return activation_quant(self.document, present[0])
        if self.document.producer(name) is None:
            raise NotFitting(f"'{name}' is a float input of the network: its range is not known")
        found = seen(self.network, name, {})
        if found is None:
            raise NotFitting(f"the range of '{name}' is not known")
        return as_onnx(int8_quant(*found))

    def _result(self, node: Node, operands: list[Interval]) -> OnnxQuant:
        present = quantizers(self.document, node.output[0])
        if present:
            return activation_quant(self.document, present[0])
        source = self._quant(node.input[0])
        if node.op_type in _KEEPS and source is not None:
            return source
        if node.op_type in FIXED:
            return as_onnx(FIXED[node.op_type])
        return as_onnx(int8_quant(*self._reached(node, operands)))

    def _reached(self, node: Node, operands: list[Interval]) -> Interval:
        kind = "Affine" if node.op_type == "BatchNormalization" else node.op_type
        if kind == "Relu":
            return max(0.0, operands[0][0]), max(0.0, operands[0][1])
        found = reached(kind, operands, _numbers(self.document, node))
        if kind not in _BINARY:
            return found
        computed = {
            name: interval
            for name, interval in zip(node.input, operands, strict=True)
            if self.document.constant(name) is None
        }
        return common(found, seen(self.network, node.output[0], computed))

    def _clamp_follows(self, tensor: str) -> bool:
        """The reader binds an op and the clamps behind it to one QuantizeLinear."""
        readers = self.document.readers(tensor)
        alone = len(readers) == 1 and not self.document.is_output(tensor)
        return alone and readers[0].op_type in _CLAMPS

    def _is_quantized(self, tensor: str) -> bool:
        readers = self.document.readers(tensor)
        integers = bool(readers) and all(node.op_type == QUANTIZE for node in readers)
        return integers and not self.document.is_output(tensor)

    def apply(self) -> None:
        for node, place, values in self.constants:
            if node.op_type == "PRelu":
                store_slopes(self.document, node, values)
                continue
            steps, scale = symmetric_steps(values)
            store_steps(self.document, node, place, steps, np.array(scale))
        for tensor, quant in self.pairs.items():
            insert_pair(self.document, tensor, quant)


def _covered(quant: OnnxQuant) -> Interval:
    limits = np.iinfo(quant.zero_point.dtype)
    return covered(as_quant(quant), int(limits.min), int(limits.max))


def _numbers(document: OnnxDocument, node: Node) -> dict[str, np.ndarray]:
    """The constants that the function of a node depends on."""
    if node.op_type == "BatchNormalization":
        return _gain_and_offset(document, node)
    if node.op_type == "PRelu":
        return {"slope": _constant(document, node.input[1])}
    if node.op_type == "Clip":
        low, high = (_bound(document, node, place) for place in (1, 2))
        return {"low": low, "high": high}
    default = 0.01 if node.op_type == "LeakyRelu" else 1.0
    return {"slope": np.array(document.attribute(node, "alpha", default))}


def _gain_and_offset(document: OnnxDocument, node: Node) -> dict[str, np.ndarray]:
    scale, offset, mean, variance = (_constant(document, name) for name in node.input[1:5])
    gain = scale / np.sqrt(variance + document.attribute(node, "epsilon", 1e-5))
    return {"gain": gain, "offset": offset - mean * gain}


def _bound(document: OnnxDocument, node: Node, place: int) -> np.ndarray:
    """Of a Clip: an input, an attribute in old opsets, else none."""
    name = node.input[place] if len(node.input) > place else ""
    if name:
        return _constant(document, name)
    old = document.attribute(node, ("min", "max")[place - 1])
    return np.array((-np.inf, np.inf)[place - 1] if old is None else old)


def _constant(document: OnnxDocument, name: str) -> np.ndarray:
    values = document.constant(name)
    if values is None:
        raise NotFitting(f"'{name}' is computed")
    return values.astype(np.float64)
