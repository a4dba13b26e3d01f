"""What an edit is asked to do, and what is known of the network that the file describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

import numpy as np
from msgspec import Struct

from npuscope.edits.records import NotFitting
from npuscope.graph.model import Attrs, Graph, Op
from npuscope.machine.model import Machine
from npuscope.rulebook.finding import Value

A = TypeVar("A", bound=Attrs)


class NetworkFacts(Protocol):
    """The network as it stands before the edit. Edits stand below compilers and profiles, so
    whoever asks for an edit brings what only those can tell."""

    @property
    def graph(self) -> Graph: ...
    @property
    def machine(self) -> Machine: ...

    def values(self, tensor: str) -> np.ndarray | None:
        """Real values of a tensor of the graph in one inference."""

    def range(self, tensor: str) -> tuple[float, float] | None:
        """Least and largest real value on real data, zero always among them; None without data."""

    def ends(self) -> list[str]:
        """Tensors at which the NPU's work ends; NotFitting where there is nothing to cut."""


class EditRequest(Struct, frozen=True):
    """`ops` are the source ops of a finding; one or more of them are the place of the edit."""

    ops: tuple[str, ...]
    parameters: Mapping[str, Value]
    network: NetworkFacts


def network_op(request: EditRequest, *kinds: str) -> Op:
    """The op of the graph that a finding is about: its numbers are resolved there, in one
    layout for all formats."""
    for op in request.network.graph.ops:
        if op.kind in kinds and set(op.origin) & set(request.ops):
            return op
    raise NotFitting(f"none of its ops is a {' or '.join(kinds)} of the network")


def attrs_of(request: EditRequest, kind: str, record: type[A]) -> A:
    return network_op(request, kind).attrs_as(record)
