"""Cross-layer equalisation: channels of one tensor that differ by orders of magnitude are brought
together, by factors that one layer's weights take and the next one's give back.

The network computes the same. It is worth it where a depthwise layer leaves some channels a
hundred times larger than others: they all share one scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from npuscope.files.file_graph import FileNode
from npuscope.files.onnx.file_graph import OnnxFileGraph
from npuscope.quantizing.float_onnx import FloatNetwork
from npuscope.structs import replace

# Functions with f(s * x) = s * f(x) for s > 0, channel by channel.
_HOMOGENEOUS = ("Relu", "LeakyRelu", "PRelu", "MaxPool", "AveragePool", "GlobalAveragePool")
_MOST = 64.0  # a factor beyond this is an outlier's, not a channel's
_PASSES = 2


def equalised(network: FloatNetwork, peaks: Mapping[str, np.ndarray]) -> FloatNetwork | None:
    """`peaks` are the largest magnitudes by channel of what convolutions make; None where no pair
    of layers allows it."""
    work = _Work(replace(network, graph=network.graph.copy()))
    pairs = work.pairs()
    scaled_peaks = dict(peaks)
    for _ in range(_PASSES):
        for first, second in pairs:
            work.balance(first, second, scaled_peaks)
    for name, values in work.values.items():
        work.graph.set_values(name, values.astype(np.float32))
    return work.network if pairs else None


class _Work:
    def __init__(self, network: FloatNetwork) -> None:
        self.network, self.graph = network, network.graph
        _own_constants(self.graph)
        self.readers: dict[str, list[FileNode]] = {}
        for op in self.graph.nodes:
            for name in self.graph.inputs(op):
                self.readers.setdefault(name, []).append(op)
        self.values: dict[str, np.ndarray] = {}

    def pairs(self) -> list[tuple[FileNode, FileNode]]:
        """Convolutions that follow each other with nothing else reading what is between."""
        pairs = [(op, self._next(op)) for op in self.graph.nodes if self._is_conv(op)]
        return [(first, second) for first, second in pairs if second is not None]

    def _is_conv(self, op: FileNode) -> bool:
        inputs = self.graph.inputs(op)
        if self.graph.kind(op) != "Conv" or self._value(inputs[1]) is None:
            return False
        return len(inputs) < 3 or self._value(inputs[2]) is not None

    def _next(self, op: FileNode) -> FileNode | None:
        graph = self.graph
        while True:
            result = graph.outputs(op)[0]
            readers = self.readers.get(result, [])
            if result in graph.network_outputs or len(readers) != 1:
                return None
            op = readers[0]
            if graph.inputs(op)[0] != result:
                return None
            if self._is_conv(op):
                apart = self._value(graph.inputs(op)[1]).shape[0]
                return op if graph.attribute(op, "group", 1) in (1, apart) else None
            if graph.kind(op) not in _HOMOGENEOUS:
                return None

    def balance(self, first: FileNode, second: FileNode, all_peaks: dict[str, np.ndarray]) -> None:
        graph, result = self.graph, self.graph.outputs(first)[0]
        peaks = all_peaks.get(result)
        if peaks is None:
            return
        inputs, behind = graph.inputs(first), graph.inputs(second)[1]
        weights = self._value(behind)
        depthwise = graph.attribute(second, "group", 1) > 1
        axes = tuple(range(1, weights.ndim)) if depthwise else (0, *range(2, weights.ndim))
        sizes = np.abs(weights).max(axis=axes)
        if depthwise and len(sizes) != len(peaks):
            return
        alive = (peaks > 0) & (sizes > 0)
        factors = np.ones(len(peaks))
        factors[alive] = np.sqrt(peaks[alive] / sizes[alive])
        factors[alive] /= np.exp(np.mean(np.log(factors[alive]))) if alive.any() else 1.0
        factors = np.clip(factors, 1 / _MOST, _MOST)
        for name in filter(None, inputs[1:3]):
            self._scale(name, 1 / factors, 0)
        self._scale(behind, factors, 0 if depthwise else 1)
        all_peaks[result] = peaks / factors

    def _scale(self, name: str, factors: np.ndarray, axis: int) -> None:
        values = self._value(name)
        shape = [1] * values.ndim
        shape[axis] = -1
        self.values[name] = values * factors.reshape(shape)

    def _value(self, name: str) -> Any:
        if name not in self.values:
            values = self.network.constant(name)
            if values is None:
                return None
            self.values[name] = values.astype(np.float64)
        return self.values[name]


def _own_constants(graph: OnnxFileGraph) -> None:
    """Equal constants were merged when the network was folded; each layer gets its own again."""
    constants, owned = graph.constant_names, set[str]()
    for op in graph.nodes:
        for place, name in enumerate(graph.inputs(op)[1:], 1):
            if graph.kind(op) == "Conv" and name in constants and name in owned:
                values = graph.values(name)
                assert values is not None
                own = graph.add_constant(f"{name}/{graph.outputs(op)[0]}", values)
                graph.set_input(op, place, own)
            owned.add(name)
