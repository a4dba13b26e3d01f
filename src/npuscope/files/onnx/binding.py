"""Which ops compute on integers.

Quantization is bound to an op only when a DequantizeLinear feeds its activations directly and a
QuantizeLinear directly follows it (or the clamps behind it). Ops that only move data stay integer
between the two, alone or in a chain. Everything else is a float island and keeps explicit
Dequantize and Quantize ops.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from npuscope.errors import ModelError, NpuscopeError
from npuscope.files.onnx.constants import (
    TYPE_NAMES,
    Const,
    QuantType,
    dequantized,
    quant_type,
    quantized,
)
from npuscope.files.onnx.file import Node, OnnxModel
from npuscope.files.onnx.fold import FOLDERS, Computing
from npuscope.ops.table import ONNX, ONNX_ROWS
from npuscope.ops.traits import Trait
from npuscope.structs import replace
from npuscope.text import safe_terminal

# --- QuantizeLinear and DequantizeLinear: their types, and folding them into constants ---

QUANTIZE, DEQUANTIZE = "QuantizeLinear", "DequantizeLinear"


def node_type(node: Node, constants: dict[str, Const]) -> QuantType:
    """The integer type a Q or DQ node converts to or from."""
    scale = constants.get(node.input(1))
    if scale is None:
        raise ModelError(
            f"its scale '{safe_terminal(node.input(1))}' is not a constant",
            where=node.origin,
            hint="quantize the model statically: onnxruntime.quantization.quantize_static",
        )
    if node.integer("block_size", 0):
        raise ModelError("blockwise quantization is not supported", where=node.origin)
    zero_point = constants.get(node.input(2)) if node.input(2) else None
    if node.input(2) and zero_point is None:
        raise ModelError("its zero point is not a constant", where=node.origin)
    data = constants.get(node.input(0))
    try:
        rank = data.data.ndim if data is not None else None
        return quant_type(
            scale, zero_point, _default_type(node, data), node.integer("axis", 1), rank
        )
    except NpuscopeError as error:
        error.where = error.where or node.origin
        raise


def _default_type(node: Node, data: Const | None) -> str:
    """Type without a zero point: that of the data, or the one that the node names."""
    if node.kind == DEQUANTIZE:
        return data.type if data is not None else "uint8"
    return TYPE_NAMES.get(node.integer("output_dtype", 0), "uint8")


def fold_constants(source: OnnxModel, computing: Computing) -> OnnxModel:
    """Compute what depends on no activation; constants after a DequantizeLinear stay quantized."""
    constants = dict(source.constants)
    nodes: list[Node] = []
    outputs = set(source.outputs)
    for node in source.nodes:
        inputs = [constants.get(name) for name in node.inputs]
        complete = all(const or not name for const, name in zip(inputs, node.inputs, strict=True))
        if not complete or node.output in outputs or len(node.outputs) > 1:
            nodes.append(node)
        elif node.kind in (QUANTIZE, DEQUANTIZE):
            constants[node.output] = _fold_qdq(node, constants, computing)
        elif node.kind in FOLDERS:
            constants[node.output] = computing.fold(node, inputs)
        else:
            nodes.append(node)
    return replace(source, nodes=tuple(nodes), constants=constants)


def _fold_qdq(node: Node, constants: dict[str, Const], computing: Computing) -> Const:
    data = constants.get(node.input(0))
    if data is None:
        raise ModelError("input 0 is missing", where=node.origin)
    convert = quantized if node.kind == QUANTIZE else dequantized
    try:
        computing.computed.check(data.data.shape, 1 if node.kind == QUANTIZE else 0)
        result = convert(data, node_type(node, constants))
        computing.take(result, (data,))
        return result
    except NpuscopeError as error:
        error.where = error.where or node.origin
        raise


Limits = tuple[float, float]

_NO_VALUES = ("Shape", "Size")  # these need no values


def moves(node: Node) -> bool:
    """The outputs are values of the inputs; a Resize only when it copies the nearest one."""
    if node.kind in ("Resize", "Upsample"):
        return node.text("mode", "nearest") == "nearest"
    return node.kind in ONNX_ROWS and ONNX_ROWS[node.kind].has(Trait.MOVES)


class BoundResult(Struct, frozen=True):
    """An integer op: the type of its result, and the source nodes that become part of it."""

    type: QuantType
    clamp: Limits | None  # of the nodes between the op and its QuantizeLinear
    reals: tuple[str, ...]  # float tensors after it that never exist
    outputs: tuple[str, ...]  # of the QuantizeLinear nodes
    origins: tuple[str, ...]


class BindingPlan(Struct):
    """The outcome; nodes are named by their first output."""

    bound: dict[str, BoundResult] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)  # all outputs of movers
    absorbed: set[str] = field(default_factory=set)
    inputs: dict[str, QuantType] = field(default_factory=dict)

    def release(self, output: str) -> None:
        """The node does not compute on integers after all: what it absorbed stands alone."""
        bound = self.bound.pop(output, None)
        if bound is not None:
            self.absorbed.difference_update(bound.outputs, bound.reals[1:])
        self.moved.discard(output)


class Binder:
    """`type_of` gives what a Q or DQ node describes, `clamp_of` the limits of a Relu or Clip."""

    def __init__(
        self,
        source: OnnxModel,
        type_of: Callable[[Node], QuantType],
        clamp_of: Callable[[Node], Limits | None],
    ) -> None:
        self.source = source
        self.type_of = type_of
        self.clamp_of = clamp_of
        self.plan = BindingPlan()
        self.outputs = set(source.outputs)
        self.producers = {name: node for node in source.nodes for name in node.outputs}
        self.readers: dict[str, list[Node]] = {}
        for node in source.nodes:
            if node.kind not in _NO_VALUES:
                for name in dict.fromkeys(node.inputs):
                    self.readers.setdefault(name, []).append(node)

    def run(self) -> BindingPlan:
        # A QuantizeLinear directly after a float input makes it an integer input.
        for entry in self.source.inputs:
            quantizers = self._quantizers(entry.name)
            if quantizers and entry.type == "float32":
                self.plan.inputs[entry.name] = self.type_of(quantizers[0])
                self.plan.absorbed.update(node.output for node in quantizers)
        leads_to_q = self._movers_before_q()
        for node in self.source.nodes:
            if node.kind in (QUANTIZE, DEQUANTIZE) or node.output in self.plan.absorbed:
                continue
            if moves(node):
                joins = ONNX_ROWS[node.kind].most is None
                inputs = node.inputs if joins else node.inputs[:1]
                if node.output in leads_to_q and all(self._is_integer(name) for name in inputs):
                    self.plan.moved.update(name for name in node.outputs if name)
            else:
                self._bind(node)
        return self.plan

    def _quantizers(self, name: str) -> list[Node]:
        """The Q nodes that read `name`, if nothing else does and they agree; else none."""
        readers = self.readers.get(name, [])
        if not readers or name in self.outputs or any(node.kind != QUANTIZE for node in readers):
            return []
        if any(node.input(0) != name for node in readers):
            return []
        types = {self.type_of(node) for node in readers}
        return readers if len(types) == 1 and types.pop().quant.axis is None else []

    # --- Ops that only move data ---

    def _movers_before_q(self) -> set[str]:
        """Movers whose every reader is a Q or such a mover."""
        movers: set[str] = set()
        for node in reversed(self.source.nodes):
            names = [name for name in node.outputs if name]
            readers = [reader for name in names for reader in self.readers.get(name, [])]
            if not moves(node) or not readers or self.outputs.intersection(names):
                continue
            if all(reader.kind == QUANTIZE or reader.output in movers for reader in readers):
                movers.add(node.output)
        return movers

    def _is_integer(self, name: str) -> bool:
        producer = self.producers.get(name)
        if producer is None:
            constant = self.source.constants.get(name)
            return constant is not None and constant.quant is not None
        return producer.kind == DEQUANTIZE or name in self.plan.moved

    # --- Ops that compute ---

    def _bind(self, node: Node) -> None:
        if not self._inputs_quantized(node) or any(node.outputs[1:]):
            return
        clamps, limits = self._clamps(node.output)
        reals = (node.output, *(clamp.output for clamp in clamps))
        quantizers = self._quantizers(reals[-1])
        if not quantizers:
            return
        names = tuple(quantizer.output for quantizer in quantizers)
        origins = (*node.origins, *(clamp.origin for clamp in clamps))
        self.plan.bound[node.output] = BoundResult(
            self.type_of(quantizers[0]), limits, reals, names, origins
        )
        self.plan.absorbed.update(names, reals[1:])

    def _clamps(self, name: str) -> tuple[list[Node], Limits | None]:
        """The clamps after a tensor, each the only reader of the one before, and their limits."""
        chain: list[Node] = []
        limits: Limits | None = None
        while name not in self.outputs and len(self.readers.get(name, [])) == 1:
            clamp = self.clamp_of(self.readers[name][0])
            if clamp is None:
                break
            limits = clamp if limits is None else _cut(limits, clamp)
            chain.append(self.readers[name][0])
            name = chain[-1].output
        return chain, limits

    def _inputs_quantized(self, node: Node) -> bool:
        row = ONNX.get(node.kind)
        parameters, strict = (row.parameters, row.quantized) if row else ((), ())
        dynamic = False
        for index, name in enumerate(node.inputs):
            if not name or (index in parameters and index not in strict):
                continue
            constant, producer = self.source.constants.get(name), self.producers.get(name)
            if constant is not None:
                if constant.quant is None:
                    return False
            elif producer is None or producer.kind != DEQUANTIZE:
                return False
            else:
                dynamic = True
        return dynamic


def _cut(limits: Limits, by: Limits) -> Limits:
    """The range that two clamps in a row keep."""
    low, high = by
    return min(max(limits[0], low), high), min(max(limits[1], low), high)
