"""Data movement along axes that the stream engines cannot walk."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.graph.attrs import ConcatAttrs, PadAttrs
from npuscope.graph.attrs_moves import SliceAttrs, SplitAttrs
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.rules.finding import Hit
from npuscope.rules.lint import lint
from npuscope.rules.queries import hit, of_kind


@lint("LINT-CONCAT-AXIS")
def parts_follow_each_other(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A Concat along another axis than the channels."""
    for op in of_kind(graph, "Concat"):
        axis, rank = op.attrs_as(ConcatAttrs).axis, len(graph.output_tensor(op).shape)
        if axis != rank - 1 and len(op.inputs) > 1:
            yield hit(op, f"axis {axis}", f"axis {rank - 1}", bytes=_bytes(graph, op))


@lint("LINT-SLICE-AXIS")
def slice_of_rows(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A Slice along another axis than the channels."""
    for op in of_kind(graph, "Slice"):
        last = len(graph.output_tensor(op).shape) - 1
        cut = [axis for axis in _cut_axes(graph, op) if axis != last]
        if cut and not _steps(op):
            yield hit(op, f"axis {cut[0]}", f"axis {last}", bytes=_bytes(graph, op))


@lint("LINT-SLICE-STEP")
def slice_with_a_step(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A Slice that leaves elements out."""
    for op in of_kind(graph, "Slice"):
        if _steps(op):
            yield hit(op, f"step {_steps(op)[0]}", 1, bytes=_bytes(graph, op))


@lint("LINT-SPLIT-AXIS")
def split_of_rows(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A Split along another axis than the channels."""
    for op in of_kind(graph, "Split"):
        axis, last = op.attrs_as(SplitAttrs).axis, len(graph.first_input(op).shape) - 1
        if axis != last:
            yield hit(op, f"axis {axis}", f"axis {last}", bytes=_bytes(graph, op))


@lint("LINT-PAD-CHANNEL")
def channels_are_padded(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A Pad that adds channels."""
    for op in of_kind(graph, "Pad"):
        if any(op.attrs_as(PadAttrs).pads[-1]):
            before, after = (t.shape[-1] for t in (graph.first_input(op), graph.output_tensor(op)))
            yield hit(op, f"{before} -> {after} channels", before)


@lint("LINT-GATHER")
def elements_are_gathered(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A Gather: the CPU picks the elements."""
    for op in of_kind(graph, "Gather"):
        yield hit(op, f"{graph.output_tensor(op).elements} elements", 0)


def _cut_axes(graph: Graph, op: Op) -> list[int]:
    shapes = zip(graph.first_input(op).shape, graph.output_tensor(op).shape, strict=True)
    return [axis for axis, (before, after) in enumerate(shapes) if before != after]


def _steps(op: Op) -> list[int]:
    attrs = op.attrs_as(SliceAttrs)
    pairs = zip(attrs.steps, attrs.sizes, strict=True)
    return [step for step, size in pairs if step != 1 and size > 1]


def _bytes(graph: Graph, op: Op) -> int:
    return sum(graph.tensor(name).size_bytes for name in op.outputs)
