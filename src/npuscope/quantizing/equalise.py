"""Cross-layer equalisation: channels of one tensor that differ by orders of magnitude are brought
together, by factors that one layer's weights take and the next one's give back.

The network computes the same. It is worth it where a depthwise layer leaves some channels a
hundred times larger than others: they all share one scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from npuscope.lean_dataclass import replace
from npuscope.quantizing.float_onnx import FloatNetwork

# Functions with f(s * x) = s * f(x) for s > 0, channel by channel.
_HOMOGENEOUS = ("Relu", "LeakyRelu", "PRelu", "MaxPool", "AveragePool", "GlobalAveragePool")
_MOST = 64.0  # a factor beyond this is an outlier's, not a channel's
_PASSES = 2


def equalised(network: FloatNetwork, peaks: Mapping[str, np.ndarray]) -> FloatNetwork | None:
    """`peaks` are the largest magnitudes by channel of what convolutions make; None where no pair
    of layers allows it."""
    import onnx

    proto = onnx.ModelProto()
    proto.CopyFrom(network.proto)
    work = _Work(replace(network, proto=proto))
    pairs = work.pairs()
    seen = dict(peaks)
    for _ in range(_PASSES):
        for first, second in pairs:
            work.balance(first, second, seen)
    work.store()
    return work.network if pairs else None


class _Work:
    def __init__(self, network: FloatNetwork) -> None:
        self.network = network
        _own_constants(network.proto)
        self.nodes = list(network.proto.graph.node)
        self.outputs = {entry.name for entry in network.proto.graph.output}
        self.readers: dict[str, list[Any]] = {}
        for node in self.nodes:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
        self.values: dict[str, np.ndarray] = {}

    def pairs(self) -> list[tuple[Any, Any]]:
        """Convolutions that follow each other with nothing else reading what is between."""
        found = [(node, self._next(node)) for node in self.nodes if self._is_conv(node)]
        return [(first, second) for first, second in found if second is not None]

    def _is_conv(self, node: Any) -> bool:
        if node.op_type != "Conv" or self._value(node.input[1]) is None:
            return False
        return len(node.input) < 3 or self._value(node.input[2]) is not None

    def _next(self, node: Any) -> Any:
        while True:
            readers = self.readers.get(node.output[0], [])
            if node.output[0] in self.outputs or len(readers) != 1:
                return None
            after = readers[0]
            if self._is_conv(after) and after.input[0] == node.output[0]:
                return (
                    after if _groups(after) in (1, self._value(after.input[1]).shape[0]) else None
                )
            if after.op_type not in _HOMOGENEOUS or after.input[0] != node.output[0]:
                return None
            node = after

    def balance(self, first: Any, second: Any, seen: dict[str, np.ndarray]) -> None:
        peaks = seen.get(first.output[0])
        if peaks is None:
            return
        weights = self._value(second.input[1])
        depthwise = _groups(second) > 1
        axes = tuple(range(1, weights.ndim)) if depthwise else (0, *range(2, weights.ndim))
        taken = np.abs(weights).max(axis=axes)
        if depthwise and len(taken) != len(peaks):
            return
        alive = (peaks > 0) & (taken > 0)
        factors = np.ones(len(peaks))
        factors[alive] = np.sqrt(peaks[alive] / taken[alive])
        factors[alive] /= np.exp(np.mean(np.log(factors[alive]))) if alive.any() else 1.0
        factors = np.clip(factors, 1 / _MOST, _MOST)
        self._scale(first.input[1], 1 / factors, 0)
        if len(first.input) > 2 and first.input[2]:
            self._scale(first.input[2], 1 / factors, 0)
        self._scale(second.input[1], factors, 0 if depthwise else 1)
        seen[first.output[0]] = peaks / factors

    def _scale(self, name: str, factors: np.ndarray, axis: int) -> None:
        values = self._value(name)
        shape = [1] * values.ndim
        shape[axis] = -1
        self.values[name] = values * factors.reshape(shape)

    def _value(self, name: str) -> Any:
        if name not in self.values:
            found = self.network.constant(name)
            if found is None:
                return None
            self.values[name] = found.astype(np.float64)
        return self.values[name]

    def store(self) -> None:
        from onnx import numpy_helper

        for entry in self.network.proto.graph.initializer:
            if entry.name in self.values:
                values = self.values[entry.name].astype(np.float32)
                entry.CopyFrom(numpy_helper.from_array(values, entry.name))


def _own_constants(proto: Any) -> None:
    """Equal constants were merged when the network was folded; each layer gets its own again."""
    held = {entry.name: entry for entry in proto.graph.initializer}
    taken: set[str] = set()
    for node in proto.graph.node:
        for place in range(1, len(node.input)):
            name = node.input[place]
            if node.op_type == "Conv" and name in held and name in taken:
                copy = proto.graph.initializer.add()
                copy.CopyFrom(held[name])
                copy.name = node.input[place] = f"{name}/{node.output[0]}"
            taken.add(name)


def _groups(node: Any) -> int:
    return next((int(a.i) for a in node.attribute if a.name == "group"), 1)
