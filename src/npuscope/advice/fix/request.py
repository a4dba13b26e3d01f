"""What an edit is asked to do: where, with which parameters, and what is known of the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.rules.finding import Value


@dataclass(frozen=True, slots=True)
class Request:
    """`ops` are the source ops of a finding; one or more of them are the place of the edit."""

    ops: tuple[str, ...]
    parameters: Mapping[str, Value]
    network: Network


@dataclass(slots=True)
class Network:
    """The network as it stands before the edit, and what its tensors hold on seeded data."""

    graph: Graph
    machine: Machine
    seed: int = 0
    _values: dict[str, np.ndarray] | None = field(default=None, repr=False)
    _unrest_db: float | None = field(default=None, repr=False)

    def values(self, tensor: str) -> np.ndarray | None:
        """Real values of a tensor of the graph in one inference on seeded data."""
        if self._values is None:
            from npuscope.advice.fix.seeded import all_values

            self._values = all_values(self.graph, self.seed)
        return self._values.get(tensor)

    def range(self, tensor: str) -> tuple[float, float] | None:
        """Least and largest real value on seeded data, zero always among them."""
        values = self.values(tensor)
        if values is None or not values.size:
            return None
        return min(0.0, float(values.min())), max(0.0, float(values.max()))

    @property
    def unrest_db(self) -> float:
        """SQNR of the worst output when every 256th input value moves by one step: no edit can be
        asked to disturb a network less than that."""
        if self._unrest_db is None:
            from npuscope.advice.fix.numeric import unrest_db

            self._unrest_db = unrest_db(self.graph, self.seed)
        return self._unrest_db
