"""Values of networks on seeded data, each computed once: an edited network shares most of its ops
with the one before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from operator import is_

import numpy as np

from npuscope.graph.model import Graph, Op, Tensor
from npuscope.ops.run import run

_MOST_BYTES = 1 << 29  # of values kept; networks beyond that are run as a whole

_MOST_NETWORKS = 3  # whose constants need no new fingerprint: the first, the last and the tried one

Arrays = Mapping[str, np.ndarray]


class Results:
    """What tensors hold, found by what they are computed from: ops, constants and inputs."""

    def __init__(self) -> None:
        self._values: dict[bytes, np.ndarray] = {}
        self._bytes = 0
        self._networks: list[_Fixed] = []

    def run(self, graph: Graph, inputs: Arrays, keep: Iterable[str] = ()) -> dict[str, np.ndarray]:
        """One inference, as the reference executor's `run` gives it."""
        targets = tuple(dict.fromkeys((*keep, *graph.outputs)))
        # By tensor: a fingerprint of all that it is computed from.
        network = next((one for one in self._networks if one.fits(graph)), None)
        if network is None:
            network = _Fixed(graph)
            self._networks = [network, *self._networks[: _MOST_NETWORKS - 1]]
        keys = network.keys(inputs)
        self._values |= {keys[name]: values for name, values in inputs.items()}
        part = self._missing(graph, keys, targets)
        size_bytes = sum(part.tensor(n).size_bytes for op in part.ops for n in op.outputs)
        if self._bytes + size_bytes > _MOST_BYTES:
            return run(graph, inputs, targets)
        if part.ops:
            part_inputs = {name: self._values[keys[name]] for name in part.inputs}
            names = [name for op in part.ops for name in op.outputs]
            for name, values in run(part, part_inputs, names).items():
                self._values[keys[name]] = values
            self._bytes += size_bytes
        constants = {name: graph.tensor(name).data for name in targets}
        return {n: self._values[keys[n]] if c is None else c for n, c in constants.items()}

    def trace(self, graph: Graph, inputs: Arrays) -> dict[str, np.ndarray]:
        """Every tensor that an op makes."""
        return self.run(graph, inputs, [name for op in graph.ops for name in op.outputs])

    def _missing(self, graph: Graph, keys: dict[str, bytes], targets: tuple[str, ...]) -> Graph:
        """The ops whose results are not known yet, behind those that are."""
        needed, ops, names = set(targets), [], dict.fromkeys(targets)
        for op in reversed(graph.ops):
            if any(n in needed and keys[n] not in self._values for n in op.outputs):
                ops.append(op)
                needed.update(op.inputs)
                names |= dict.fromkeys((*op.inputs, *op.outputs))
        results = {name for op in ops for name in op.outputs}
        tensors = [graph.tensor(name) for name in names if name]
        inputs = [t.name for t in tensors if not (t.is_constant or t.name in results)]
        outputs = [name for name in targets if name in results]
        return Graph(graph.name, tensors, reversed(ops), inputs, outputs, graph.numerics)


class _Fixed:
    """A network's part of the fingerprints: constants, and what each op does."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.ops, self.tensors = list(graph.ops), list(graph.tensors.values())
        self.constants = {
            t.name: _digest(b"constant", _meaning(t), np.ascontiguousarray(t.data).data)
            for t in self.tensors
            if t.is_constant
        }
        self.rows = [(op, *_does(graph, op)) for op in self.ops]

    def fits(self, graph: Graph) -> bool:
        """The same network, not edited since: ops and tensors are frozen."""
        alike = graph is self.graph and len(graph.ops) == len(self.ops)
        same_tensors = len(graph.tensors) == len(self.tensors)
        return (
            alike
            and same_tensors
            and all(map(is_, graph.ops, self.ops))
            and all(map(is_, graph.tensors.values(), self.tensors))
        )

    def keys(self, inputs: Arrays) -> dict[str, bytes]:
        keys = dict(self.constants)
        for name, values in inputs.items():
            meaning = _meaning(self.graph.tensor(name))
            keys[name] = _digest(b"given", meaning, np.ascontiguousarray(values).data)
        for op, does, makes in self.rows:
            read = [keys[name] if name else b"absent" for name in op.inputs]
            whole = _digest(b"op", does, *read, *makes)
            keys |= {name: _digest(whole, str(n).encode()) for n, name in enumerate(op.outputs)}
        return keys


def _does(graph: Graph, op: Op) -> tuple[bytes, list[bytes]]:
    """Not its name and origin: edits leave the numbers of other ops behind."""
    does = repr((graph.numerics, op.kind, op.attrs)).encode()
    return does, [_meaning(graph.tensor(name)) for name in op.outputs]


def _meaning(tensor: Tensor) -> bytes:
    return repr((tensor.dtype, tensor.shape, tensor.quant)).encode()


def _digest(*parts: bytes | memoryview) -> bytes:
    digest = blake2b(digest_size=20)
    for part in parts:
        digest.update(b"%d:" % memoryview(part).nbytes)
        digest.update(part)
    return digest.digest()
