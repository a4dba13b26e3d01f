"""quantize-op for .tflite: float ops between conversions become ops on int8 tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.advice.fix.edits import tflite_edit
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
from npuscope.graph.edit.tflite_document import EditOp, EditTensor, TfliteDocument
from npuscope.graph.model import Quant

_FLOAT, _INT8 = "FLOAT32", "INT8"
_RELU6 = Quant((6 / 255,), (-128,))
# LiteRT's integer kernels of these copy or average steps: both sides must have the same.
_KEEPS = (
    "RESHAPE",
    "SQUEEZE",
    "EXPAND_DIMS",
    "TRANSPOSE",
    "PAD",
    "SLICE",
    "STRIDED_SLICE",
    "MAX_POOL_2D",
    "AVERAGE_POOL_2D",
)
_LIKE_INPUT = (*_KEEPS, "MEAN", "RELU")
_FUNCTIONS = {
    "LOGISTIC": "Sigmoid",
    "TANH": "Tanh",
    "HARD_SWISH": "HardSwish",
    "LEAKY_RELU": "LeakyRelu",
    "PRELU": "PRelu",
    "ADD": "Add",
    "SUB": "Sub",
    "MUL": "Mul",
}
_KNOWN = (*_LIKE_INPUT, "RELU6", *_FUNCTIONS)
_BINARY = ("ADD", "SUB", "MUL")
# Of kernels that take int8 from the first version on; the others do from 2.
_FIRST = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "PRELU", "HARD_SWISH")


@tflite_edit("quantize-op")
def quantize_op(document: TfliteDocument, request: Request) -> None:
    """Every float op of the finding that the NPU has a form for."""
    found = [op for name in request.ops if (op := document.op(name)) is not None]
    ops = [op for op in found if op.kind in _KNOWN]
    if not ops:
        others = sorted({op.kind for op in found})
        raise NotFitting(f"the NPU has no integer form of {', '.join(others) or 'this op'}")
    quantize_ops(document, ops, request.network)


def quantize_ops(document: TfliteDocument, ops: Sequence[EditOp], network: Network) -> None:
    """All of them at once: what one makes the next may read."""
    floats = [op for op in document.ops if op in ops and op.outputs[0].type == _FLOAT]
    if not floats:
        raise NotFitting("the op computes on integers already")
    plan = _Plan(document, network)
    for op in floats:
        plan.add(op)
    plan.apply()


def drop_unread(document: TfliteDocument, kind: str) -> None:
    """Conversions that nobody needs any more; the document keeps what it is not told to drop."""
    for op in [op for op in document.ops if op.kind == kind]:
        result = op.outputs[0]
        if not document.readers(result) and not document.is_output(result):
            document.remove(op)


class _Plan:
    """What will be quantized, before anything is changed."""

    def __init__(self, document: TfliteDocument, network: Network) -> None:
        self.document = document
        self.network = network
        self.results: dict[EditTensor, Quant] = {}  # float tensors that will be int8
        self.constants: list[tuple[EditOp, int]] = []
        self.ops: list[EditOp] = []

    def add(self, op: EditOp) -> None:
        count = 2 if op.kind in (*_BINARY, "PRELU") else 1
        operands = [self._operand(op, place) for place in range(count)]
        self.ops.append(op)
        self.results[op.outputs[0]] = self._result(op, operands)

    def _operand(self, op: EditOp, place: int) -> Interval:
        tensor = op.inputs[place]
        assert tensor is not None
        if tensor.data is not None:
            self.constants.append((op, place))
            return ends(tensor.name, tensor.data)
        return covered(self._quant(tensor))

    def _quant(self, tensor: EditTensor) -> Quant:
        if tensor in self.results:
            return self.results[tensor]
        maker = self.document.producer(tensor)
        if maker is None:
            name = tensor.name
            raise NotFitting(f"'{name}' is a float input of the network: its range is not known")
        source = maker.inputs[0]
        if maker.kind != "DEQUANTIZE" or source is None or source.type != _INT8:
            raise NotFitting(f"'{tensor.name}' is made by a float {maker.kind}")
        if source.quant is None or source.quant.per_channel:
            raise NotFitting(f"'{source.name}' has not one scale")
        return source.quant

    def _result(self, op: EditOp, operands: list[Interval]) -> Quant:
        source = op.inputs[0]
        assert source is not None
        if op.kind in _KEEPS:
            return self._quant(source)
        function = _FUNCTIONS.get(op.kind, op.kind)
        if function in FIXED:
            return FIXED[function]
        following = self._following(op.outputs[0])
        if following is not None and following.quant is not None:
            return following.quant
        if op.kind in _LIKE_INPUT:
            return self._quant(source)
        return _RELU6 if op.kind == "RELU6" else int8_quant(*self._reached(op, operands))

    def _following(self, tensor: EditTensor) -> EditTensor | None:
        """What the first QUANTIZE behind it makes."""
        readers = self.document.readers(tensor)
        made = (op.outputs[0] for op in readers if op.kind == "QUANTIZE")
        return next((found for found in made if found.type == _INT8), None)

    def _reached(self, op: EditOp, operands: list[Interval]) -> Interval:
        slopes = op.inputs[1].data if op.kind == "PRELU" and op.inputs[1] is not None else None
        slope = np.array(op.option("Alpha", 0.0)) if slopes is None else slopes
        found = reached(_FUNCTIONS[op.kind], operands, {"slope": slope})
        if op.option("FusedActivationFunction"):  # ReLU and its like leave the upper part
            found = max(0.0, found[0]), max(0.0, found[1])
        if op.kind not in _BINARY:
            return found
        pairs = zip(op.inputs, operands, strict=True)
        computed = {t.name: span for t, span in pairs if t is not None and t.data is None}
        return common(found, seen(self.network, op.outputs[0].name, computed))

    def apply(self) -> None:
        for op, place in self.constants:
            op.inputs[place] = self._steps(op.inputs[place])
        for op in self.ops:
            self._make_integer(op)
        drop_unread(self.document, "DEQUANTIZE")

    def _steps(self, tensor: EditTensor | None) -> EditTensor:
        assert tensor is not None and tensor.data is not None
        steps, scale = symmetric_steps(tensor.data)
        quant = Quant((scale,), (0,))
        return self.document.add_tensor(
            f"{tensor.name}_quantized", _INT8, tensor.shape, quant, steps
        )

    def _make_integer(self, op: EditOp) -> None:
        document, result = self.document, op.outputs[0]
        op.inputs = [self._integer(tensor) for tensor in op.inputs]
        op.version = max(op.version, 1 if op.kind in _FIRST else 2)
        quant = self.results[result]
        made = document.add_tensor(f"{result.name}_int8", _INT8, result.shape, quant)
        op.outputs = [made]
        for reader in document.readers(result):
            if reader.kind == "QUANTIZE":
                self._requantize(reader, made)
        if document.readers(result) or document.is_output(result):
            document.add_op("DEQUANTIZE", [made], [result], version=2)

    def _integer(self, tensor: EditTensor | None) -> EditTensor | None:
        """The int8 tensor that a float one was made of; weights and axes as they are."""
        if tensor is None or tensor.data is not None or tensor.type != _FLOAT:
            return tensor
        maker = self.document.producer(tensor)
        return maker.inputs[0] if maker is not None else tensor

    def _requantize(self, reader: EditOp, made: EditTensor) -> None:
        """A QUANTIZE of the float result reads integers now, or is not needed any more."""
        document, target = self.document, reader.outputs[0]
        if (target.type, target.quant) != (made.type, made.quant):
            reader.inputs = [made]
            reader.version = max(reader.version, 2)
        elif document.is_output(target):
            maker = document.producer(made)
            assert maker is not None
            document.remove(reader)
            maker.outputs = [target]
            document.rewire(made, target)
        else:
            document.remove(reader)
            document.rewire(target, made)
