"""How values travel between a network and a program: inputs, outputs, reference tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from npuscope.graph.model import Graph
from npuscope.program.model import Buffer, Program

Array = np.ndarray
Values = Mapping[str, Array]


class Bridge(Protocol):
    def inputs(self, sample: Values) -> dict[str, Array]:
        """A sample of the network as values of the program's input buffers."""
        ...

    def outputs(self, found: Values) -> dict[str, Array]:
        """The program's outputs under the network's names and shapes."""
        ...

    def forced(self, expected: Values) -> dict[str, Array]:
        """Reference values for the buffers that carry a tensor of the network."""
        ...


@dataclass(frozen=True, slots=True)
class OwnBridge:
    """Our own compiler keeps the network's names."""

    program: Program
    graph: Graph

    def inputs(self, sample: Values) -> dict[str, Array]:
        return dict(sample)

    def outputs(self, found: Values) -> dict[str, Array]:
        return {name: found[name] for name in self.graph.outputs}

    def forced(self, expected: Values) -> dict[str, Array]:
        return dict(_forced(self.program.buffers, expected))


def _forced(buffers: Iterable[Buffer], expected: Values) -> Iterator[tuple[str, Array]]:
    """All buffers that carry a tensor of the graph, or its bytes with the zero point shifted
    out."""
    for buffer in buffers:
        shifted = buffer.name.endswith(".sub") and not buffer.signed
        value = expected.get(buffer.name.removesuffix(".sub") if shifted else buffer.tensor)
        if value is None or buffer.is_param or value.size * value.itemsize != buffer.size_bytes:
            continue
        if shifted:
            value = (value.astype(np.int16) + 128).astype(np.uint8)
        yield buffer.name, value.reshape(buffer.shape)
