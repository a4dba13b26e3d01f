"""Ops of a model file that nothing here can compute: they keep their place, their name and shapes.

Everything else of the network is compiled and timed; what such an op costs stays open. An op with
several outputs becomes one for each, of which only the first stands for its work.
"""

from __future__ import annotations

from npuscope.errors import TargetError
from npuscope.graph.model import Attrs, Graph, Op
from npuscope.ops.row import Kernel, Row, Shape, Shapes

UNKNOWN = "Unknown"


class UnknownAttrs(Attrs, frozen=True):
    name: str  # as the file has it: SVDF, com.microsoft.Attention
    shape: Shape  # of the output, as the file states it
    part: int = 0  # which output of the op
    form: str = ""  # why a known op is not computed: what of its form nothing here computes
    weights: int = 0  # numbers that it holds outside of the graph: operands, bodies of control flow


def _stated(graph: Graph, op: Op) -> Shapes:
    return (op.attrs_as(UnknownAttrs).shape,)


ROWS = (Row(UNKNOWN, UnknownAttrs, (0, None), _stated, Kernel("plain")),)


def word_of(op: Op) -> str:
    """What the op is called: its kind, or what the file says it is."""
    return op.attrs_as(UnknownAttrs).name or "nameless op" if op.kind == UNKNOWN else op.kind


def unknown_names(graph: Graph) -> tuple[str, ...]:
    """One name an op, in the order of the network."""
    unknown = (op.attrs_as(UnknownAttrs) for op in graph.ops if op.kind == UNKNOWN)
    return tuple(attrs.name for attrs in unknown if not attrs.part)


def unknown_weights(graph: Graph) -> tuple[int, int]:
    """Numbers that only such ops hold, in the graph and outside of it: how much of the network
    they are."""
    ops = [op for op in graph.ops if op.kind == UNKNOWN and not op.attrs_as(UnknownAttrs).part]
    names = {name for op in ops for name in op.inputs if graph.tensors[name].is_constant}
    computed_inputs = {name for op in graph.ops if op.kind != UNKNOWN for name in op.inputs}
    inside = sum(graph.tensors[name].elements for name in names - computed_inputs)
    return inside, sum(op.attrs_as(UnknownAttrs).weights for op in ops)


def named_form(attrs: UnknownAttrs) -> str:
    """The name of an op, with what is wrong with its form where the op itself is known."""
    return f"{attrs.name}: {attrs.form}" if attrs.form else attrs.name


def check_executable(graph: Graph, doing: str = "executed") -> None:
    """Refuse a network of which a part cannot be computed, with all its names."""
    unknown = (op.attrs_as(UnknownAttrs) for op in graph.ops if op.kind == UNKNOWN)
    listed = [attrs for attrs in unknown if not attrs.part]
    if listed:
        kinds = ", ".join(dict.fromkeys(map(named_form, listed)))
        one = len(listed) == 1
        ops = "an op" if one else f"{len(listed)} ops"
        if all(attrs.form for attrs in listed):
            ops += " in a form" if one else " in forms"
        verb = "compute" if any(attrs.form for attrs in listed) else "know"
        it = "it" if one else "them"
        raise TargetError(
            f"cannot be {doing}: it has {ops} that npuscope does not {verb} ({kinds})",
            hint=f"estimate and explain work without {it}; to run the network, cut the model "
            f"before {it}",
        )
