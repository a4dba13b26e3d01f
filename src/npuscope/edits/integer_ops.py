"""Float ops as ops on integers: quantize-op, quantize-slope."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuscope.edits.document import Document
from npuscope.edits.numbers import (
    FUNCTIONS,
    common,
    ends,
    fast_quant,
    int8_quant,
    reached,
    seen,
)
from npuscope.edits.places import has_fused, ops_of, place
from npuscope.edits.records import (
    DEPTHWISE,
    HIGHEST,
    LAYERS,
    LOWEST,
    Interval,
    NotFitting,
    Op,
    QuantSteps,
    Value,
)
from npuscope.edits.registry import edit
from npuscope.edits.request import EditRequest, NetworkFacts
from npuscope.edits.steps import dequantizer, float_steps, quantizers, steps_behind
from npuscope.files.file_graph import KIND_ROWS, kinds_having
from npuscope.graph.model import Quant
from npuscope.machine.npu_ops import BINARY, SUPPORT
from npuscope.ops.traits import Trait
from npuscope.structs import replace

# --- Other quantization of the same values: symmetric-weights, zero-point ---


@edit("symmetric-weights")
def symmetric_weights(document: Document, request: EditRequest) -> None:
    """Zero point 0 for weights that stay within int8 when it is taken off."""
    op = place(document, request, *LAYERS, DEPTHWISE)
    layer = document.layer(op)
    if not document.mixes_signs:
        document.steps(document.inputs(op)[0])
    if layer is None or layer.weights.scale is None or layer.weights.zero_point is None:
        raise NotFitting("its weights are not constant integers")
    weights = layer.weights
    if not np.any(weights.zeros) and weights.values.dtype == np.int8:
        raise NotFitting(f"'{weights.name}' already has zero point 0")
    steps = weights.values.astype(np.int16) - weights.zeros
    low, high = int(steps.min()), int(steps.max())
    if low < LOWEST or high > HIGHEST:
        raise NotFitting(f"'{weights.name}' ranges from {low} to {high}, beyond int8")
    zeros = np.zeros_like(weights.zero_point, np.int8)
    centred = weights.changed(values=steps.astype(np.int8), zero_point=zeros)
    document.set_layer(replace(layer, weights=centred))


@edit("zero-point")
def zero_point(document: Document, request: EditRequest) -> None:
    """0 or -128 at a layer's input, which frees the fast mode of the convolution unit.

    At the network's input the application has to send the other integers; the real values are the
    same but for the ends of the range.
    """
    layer = place(document, request, *LAYERS, DEPTHWISE)
    group = document.tied(document.inputs(layer)[0])
    old = group.steps
    new = replace(old, quant=fast_quant(old.quant, old.unsigned_offset))
    if new.quant.scales != old.quant.scales:
        ratio = old.quant.scale / float(np.float32(new.quant.scale))
        for op in group.layers:
            _rescale_bias(document, op, ratio)
    document.set_steps(group.tensors, new)


def _rescale_bias(document: Document, op: Op, ratio: float) -> None:
    """The step of an int32 bias is the product of the input's and the weights'."""
    inputs, number = document.inputs(op), document.bias_place(op)
    if number is None or number >= len(inputs) or inputs[number] is None:
        return
    bias = document.constant(inputs[number])
    if bias is None or bias.values.dtype != np.int32:
        return  # a float bias has no steps
    if bias.scale is None and not document.steps_are_nodes:
        return
    values = np.rint(bias.values * ratio).astype(np.int32)
    scale = None if bias.scale is None else np.asarray(bias.scale / ratio, np.float32)
    document.set_input(op, number, document.store(bias.changed(values=values, scale=scale)))


_CLAMPS = ("Relu", "Clip")
_LOWERED = {kind for kind, row in KIND_ROWS.items() if SUPPORT[row.kind].lowering}
_JOINS = {kind for kind, row in KIND_ROWS.items() if row.kind == "Concat"}
# The result lies on the steps of the input: nothing but the mean of a pool is rounded.
_KEEPS = {
    *(_LOWERED & kinds_having(Trait.MOVES, Trait.POOL, Trait.REDUCES) - _JOINS),
    *("GlobalMaxPool", *_CLAMPS),
}
_INTEGER_FORMS = {*_KEEPS, *BINARY, *FUNCTIONS, "Concat"}
_RELU6 = Quant((6 / 255,), (LOWEST,))
# LiteRT's integer kernels of these copy or average steps, or have one form of result only.
_LITERT_FIXED = (
    *("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "PAD", "SLICE", "STRIDED_SLICE"),
    *("MAX_POOL_2D", "AVERAGE_POOL_2D", "LOGISTIC", "TANH"),
)
_LITERT_KERNELS = (
    *(*_LITERT_FIXED, "MEAN", "RELU", "RELU6", "HARD_SWISH", "LEAKY_RELU", "PRELU"),
    *("ADD", "SUB", "MUL"),
)
_TWO_OPERANDS = (*BINARY, "PRelu")


@edit("quantize-op")
def quantize_op(document: Document, request: EditRequest) -> None:
    """Every float op of the finding that the NPU has a form for."""
    named_ops = [op for name in request.ops if (op := document.op(name)) is not None]
    if document.steps_are_nodes:
        ops = [op for op in named_ops if document.kind(op) in _INTEGER_FORMS]
    else:
        ops = [op for op in named_ops if document.word(op) in _LITERT_KERNELS]
    if not ops:
        others = sorted({document.word(op) for op in named_ops})
        raise NotFitting(f"the NPU has no integer form of {', '.join(others) or 'this op'}")
    _quantize(document, ops, request.network)


@edit("quantize-slope")
def quantize_slope(document: Document, request: EditRequest) -> None:
    """The slopes of a PReLU as int8, so that it runs on the arithmetic unit."""
    ops = ops_of(document, request, ("PRelu",))
    if not ops:
        raise NotFitting(f"no {document.words('PRelu')[0]} here")
    for op in ops if document.steps_are_nodes else ():
        slopes = document.inputs(op)[1]
        if dequantizer(document, slopes) is not None:
            raise NotFitting(f"the slopes '{slopes}' are already quantized")
        if document.values(slopes) is None:
            raise NotFitting(f"the slopes '{slopes}' are computed")
    _quantize(document, ops, request.network)


def _quantize(document: Document, ops: Sequence[Op], network: NetworkFacts) -> None:
    """All of them at once: what one makes the next may read."""
    plan = _Plan(document, network)
    floats = [op for op in document.nodes if any(op is other for other in ops)]
    if not document.steps_are_nodes:  # else every op computes on floats
        floats = [op for op in floats if document.type(document.outputs(op)[0]) == "float32"]
        if not floats:
            raise NotFitting("the op already computes on integers")
    for op in floats:
        plan.add(op)
    if not plan.results and not plan.constants:
        raise NotFitting("the op is already quantized on all sides")
    for op, number in plan.constants:
        document.quantize_constant(op, number)
    document.quantize_results(plan.ops, plan.results)


class _Plan:
    """What will be quantized, before anything is changed."""

    def __init__(self, document: Document, network: NetworkFacts) -> None:
        self.document = document
        self.network = network
        self.ops: list[Op] = []
        self.results: dict[Value, QuantSteps] = {}  # float values that will be integers
        self.constants: list[tuple[Op, int]] = []
        self.reach: dict[Value, Interval] = {}  # of float results that a clamp takes over

    def add(self, op: Op) -> None:
        kind, inputs = self.document.kind(op), self.document.inputs(op)
        count = len(inputs) if kind == "Concat" else 2 if kind in _TWO_OPERANDS else 1
        operands = [self._operand(op, place) for place in range(count)]
        output = self.document.outputs(op)[0]
        self.ops.append(op)
        # Readers bind an op of floats and the clamps behind it to one quantization.
        users, document = self.document.readers(output), self.document
        alone = len(users) == 1 and output not in document.network_outputs
        clamp_follows = alone and document.steps_are_nodes and document.kind(users[0]) in _CLAMPS
        if clamp_follows:
            self.reach[output] = self._reached(op, operands)
        elif not self._is_stepped(output):
            self.results[output] = self._result(op, operands)

    def _operand(self, op: Op, place: int) -> Interval:
        """The range of an operand, which is quantized where it is not yet."""
        value = self.document.inputs(op)[place]
        numbers = self.document.values(value)
        if numbers is not None:
            self.constants.append((op, place))
            return ends(self.document.name(value), numbers)
        if value in self.reach:
            return self.reach[value]
        steps = self._steps(value)
        if steps is None:
            steps = self.results[value] = self._measured(value)
        return steps.covered

    def _steps(self, value: Value) -> QuantSteps | None:
        return self.results.get(value) or float_steps(self.document, value)

    def _measured(self, value: Value) -> QuantSteps:
        """Of a float value whose maker stays float."""
        behind, name = steps_behind(self.document, value), self.document.name(value)
        if behind is not None:
            return behind
        maker = self.document.producer(value)
        if maker is None:
            raise NotFitting(f"'{name}' is a float input of the network: its range is unknown")
        row = KIND_ROWS.get(self.document.kind(maker))
        interval = (row and row.fixed_range) or seen(self.network, name, {})
        if interval is None:
            raise NotFitting(f"the range of '{name}' is unknown: real data (--data) would show it")
        return QuantSteps(int8_quant(*interval))

    def _result(self, op: Op, operands: list[Interval]) -> QuantSteps:
        kind = self.document.kind(op)
        behind = steps_behind(self.document, self.document.outputs(op)[0])
        if behind is not None and self.document.word(op) not in _LITERT_FIXED:
            return behind
        source = self._steps(self.document.inputs(op)[0])
        if kind in _KEEPS and source is not None:
            return source
        fixed = _RELU6 if kind == "Relu6" else KIND_ROWS[kind].fixed_quant
        return QuantSteps(fixed or int8_quant(*self._reached(op, operands)))

    def _reached(self, op: Op, operands: list[Interval]) -> Interval:
        kind, inputs = self.document.kind(op), self.document.inputs(op)
        if kind == "Relu":
            return max(0.0, operands[0][0]), max(0.0, operands[0][1])
        interval = reached(kind, operands, self._numbers(op))
        if has_fused(self.document, op):  # ReLU and its like leave the upper part
            interval = max(0.0, interval[0]), max(0.0, interval[1])
        if kind not in BINARY:
            return interval
        document = self.document
        pairs = [p for p in zip(inputs, operands, strict=True) if document.values(p[0]) is None]
        computed = {document.name(value): interval for value, interval in pairs}
        output = document.name(document.outputs(op)[0])
        return common(interval, seen(self.network, output, computed))

    def _is_stepped(self, value: Value) -> bool:
        """All readers take it as integers."""
        document = self.document
        if not document.steps_are_nodes or value in document.network_outputs:
            return False
        count = len(document.readers(value))
        return 0 < count == len(quantizers(document, value))

    def _numbers(self, op: Op) -> dict[str, np.ndarray]:
        """The constants that the function of an op depends on."""
        kind, inputs = self.document.kind(op), self.document.inputs(op)
        if kind == "BatchNormalization":
            scale, offset, mean, variance = (self._constant(value) for value in inputs[1:5])
            gain = scale / np.sqrt(variance + self.document.attribute(op, "epsilon", 1e-5))
            return {"gain": gain, "offset": offset - mean * gain}
        if kind == "PRelu":
            return {"slope": self._constant(inputs[1])}
        if kind == "Clip":
            return {"low": self._bound(op, 1, -np.inf), "high": self._bound(op, 2, np.inf)}
        default = 0.01 if kind == "LeakyRelu" else 1.0
        return {"slope": np.array(self.document.attribute(op, "alpha", default))}

    def _bound(self, op: Op, place: int, none: float) -> np.ndarray:
        """Of a Clip: an input, an attribute in old opsets, else none."""
        inputs = self.document.inputs(op)
        if len(inputs) > place and inputs[place] is not None:
            return self._constant(inputs[place])
        old = self.document.attribute(op, ("min", "max")[place - 1])
        return np.array(none if old is None else old)

    def _constant(self, value: Value) -> np.ndarray:
        values = self.document.values(value)
        if values is None:
            raise NotFitting(f"'{self.document.name(value)}' is computed")
        return values.astype(np.float64)
