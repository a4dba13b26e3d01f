"""The op of the compiled network that a finding is about: its numbers are resolved there."""

from __future__ import annotations

from typing import TypeVar

from npuscope.advice.fix.request import Request
from npuscope.graph.edit import NotFitting
from npuscope.graph.model import Attrs, Op

A = TypeVar("A", bound=Attrs)


def network_op(request: Request, kind: str) -> Op:
    ops = (op for op in request.network.graph.ops if op.kind == kind)
    found = next((op for op in ops if set(op.origin) & set(request.ops)), None)
    if found is None:
        raise NotFitting(f"none of its ops is a {kind} of the network")
    return found


def attrs_of(request: Request, kind: str, record: type[A]) -> A:
    return network_op(request, kind).attrs_as(record)
