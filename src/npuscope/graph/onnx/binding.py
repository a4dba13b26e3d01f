"""Which ops compute on integers.

Quantization is bound to an op only when a DequantizeLinear feeds its activations directly and a
QuantizeLinear directly follows it (or the clamps behind it). Ops that only move data stay integer
when they sit between the two, alone or in a chain. Everything else is a float island and keeps
explicit Dequantize and Quantize ops.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from npuscope.graph.onnx.constants import QuantType
from npuscope.graph.onnx.nodes import Node, Source
from npuscope.graph.onnx.qdq import DEQUANTIZE, QUANTIZE

Limits = tuple[float, float]

_MOVERS = {
    "Reshape": 1,
    "Flatten": 1,
    "Squeeze": 1,
    "Unsqueeze": 1,
    "Transpose": 1,
    "MaxPool": 1,
    "GlobalMaxPool": 1,
    "ReduceMax": 1,
    "ReduceMin": 1,
    "Pad": 1,
    "Identity": 1,
    "Slice": 1,
    "Split": 1,
    "Gather": 1,
    "Tile": 1,
    "Expand": 1,
    "DepthToSpace": 1,
    "SpaceToDepth": 1,
    "Resize": 1,
    "Upsample": 1,
    "Concat": None,
}
"""Ops whose outputs are values of their inputs -> number of data inputs (None: all)."""

# Inputs that carry weights, biases, statistics, axes or conditions instead of activations.
_PARAMETERS = {
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "Gemm": (2,),
    "MatMul": (2,),
    "BatchNormalization": (1, 2, 3, 4),
    "LayerNormalization": (1, 2),
    "InstanceNormalization": (1, 2),
    "GroupNormalization": (1, 2),
    "ReduceMean": (1,),
    "ReduceSum": (1,),
    "ReduceProd": (1,),
    "ReduceL2": (1,),
    "Clip": (1, 2),
    "Pow": (1,),
    "Resize": (1, 2, 3),
    "Upsample": (1,),
    "Where": (0,),
}
_MUST_BE_QUANTIZED = {"Conv": (1,), "ConvTranspose": (1,)}
_NO_VALUES = ("Shape", "Size")  # ask for no values


def moves(node: Node) -> bool:
    """The outputs are values of the inputs; a Resize only when it copies the nearest one."""
    if node.kind in ("Resize", "Upsample"):
        return node.text("mode", "nearest") == "nearest"
    return node.kind in _MOVERS


@dataclass(frozen=True, slots=True)
class Bound:
    """An integer op: what it makes, and the source nodes it takes with it."""

    type: QuantType
    clamp: Limits | None  # of the nodes between the op and its QuantizeLinear
    reals: tuple[str, ...]  # float tensors behind it that never exist
    outputs: tuple[str, ...]  # of the QuantizeLinear nodes
    origins: tuple[str, ...]


@dataclass(slots=True)
class Plan:
    """The outcome; nodes are named by their first output."""

    bound: dict[str, Bound] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)  # all outputs of movers
    absorbed: set[str] = field(default_factory=set)
    inputs: dict[str, QuantType] = field(default_factory=dict)


class Binder:
    """`type_of` gives what a Q or DQ node describes, `clamp_of` the limits of a Relu or Clip."""

    def __init__(
        self,
        source: Source,
        type_of: Callable[[Node], QuantType],
        clamp_of: Callable[[Node], Limits | None],
    ) -> None:
        self.source = source
        self.type_of = type_of
        self.clamp_of = clamp_of
        self.plan = Plan()
        self.outputs = set(source.outputs)
        self.producers = {name: node for node in source.nodes for name in node.outputs}
        self.readers: dict[str, list[Node]] = {}
        for node in source.nodes:
            if node.kind not in _NO_VALUES:
                for name in dict.fromkeys(node.inputs):
                    self.readers.setdefault(name, []).append(node)

    def run(self) -> Plan:
        self._bind_inputs()
        leads_to_q = self._movers_before_q()
        for node in self.source.nodes:
            if node.kind in (QUANTIZE, DEQUANTIZE) or node.output in self.plan.absorbed:
                continue
            if moves(node):
                self._move(node, leads_to_q)
            else:
                self._bind(node)
        return self.plan

    def _bind_inputs(self) -> None:
        """A QuantizeLinear right behind a float input makes it an integer input."""
        for entry in self.source.inputs:
            quantizers = self._quantizers(entry.name)
            if quantizers and entry.type == "float32":
                self.plan.inputs[entry.name] = self.type_of(quantizers[0])
                self.plan.absorbed.update(node.output for node in quantizers)

    def _quantizers(self, name: str) -> list[Node]:
        """The Q nodes that read `name`, if nothing else does and they agree; else none."""
        readers = self.readers.get(name, [])
        if not readers or name in self.outputs or any(node.kind != QUANTIZE for node in readers):
            return []
        if any(node.input(0) != name for node in readers):
            return []
        types = {self.type_of(node) for node in readers}
        return readers if len(types) == 1 and types.pop().quant.axis is None else []

    # movers

    def _movers_before_q(self) -> set[str]:
        """Movers whose every reader is a Q or such a mover."""
        found: set[str] = set()
        for node in reversed(self.source.nodes):
            names = [name for name in node.outputs if name]
            readers = [reader for name in names for reader in self.readers.get(name, [])]
            if not moves(node) or not readers or self.outputs.intersection(names):
                continue
            if all(reader.kind == QUANTIZE or reader.output in found for reader in readers):
                found.add(node.output)
        return found

    def _move(self, node: Node, leads_to_q: set[str]) -> None:
        inputs = node.inputs[: _MOVERS[node.kind]]
        if node.output in leads_to_q and all(self._is_integer(name) for name in inputs):
            self.plan.moved.update(name for name in node.outputs if name)

    def _is_integer(self, name: str) -> bool:
        producer = self.producers.get(name)
        if producer is None:
            constant = self.source.constants.get(name)
            return constant is not None and constant.quant is not None
        return producer.kind == DEQUANTIZE or name in self.plan.moved

    # ops that compute

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
        self.plan.bound[node.output] = Bound(
            self.type_of(quantizers[0]), limits, reals, names, origins
        )
        self.plan.absorbed.update(names, reals[1:])

    def _clamps(self, name: str) -> tuple[list[Node], Limits | None]:
        """The clamps behind a tensor, each the only reader of the one before, and their limits."""
        chain: list[Node] = []
        limits: Limits | None = None
        while name not in self.outputs and len(self.readers.get(name, [])) == 1:
            found = self.clamp_of(self.readers[name][0])
            if found is None:
                break
            limits = found if limits is None else _cut(limits, found)
            chain.append(self.readers[name][0])
            name = chain[-1].output
        return chain, limits

    def _inputs_quantized(self, node: Node) -> bool:
        parameters = _PARAMETERS.get(node.kind, ())
        strict = _MUST_BE_QUANTIZED.get(node.kind, ())
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
    """What two clamps in a row leave."""
    low, high = by
    return min(max(limits[0], low), high), min(max(limits[1], low), high)
