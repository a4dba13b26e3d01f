"""Kernels larger than the unit's: they are cut into pieces with 16-bit partial sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from npuscope.graph.attrs import ConvAttrs
from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.rules.finding import Hit, Severity
from npuscope.rules.lint import lint
from npuscope.rules.queries import convolutions, hit

_PARTIAL_BYTES = 2
_JOINED = 2  # so many pieces run in one epoch and leave no partial sums


@lint("LINT-LARGE-KERNEL")
def kernel_is_cut(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A large kernel leaves one 16-bit buffer of partial sums per piece; on a wide output they
    do not fit the internal RAM."""
    room = internal_ram_bytes(machine)
    for op, attrs, weights in convolutions(graph):
        pieces = _pieces(attrs, weights, machine)
        if pieces <= _JOINED or attrs.dilations != (1, 1):
            continue
        size = pieces * _PARTIAL_BYTES * graph.output_tensor(op).elements
        found = hit(op, size, room, pieces=pieces, kernel=f"{weights[1]}x{weights[2]}")
        yield replace(found, severity=Severity.WARNING) if size > room else found


@lint("LINT-DILATED")
def kernel_is_dilated(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A dilated kernel is filled with zeros to its full reach and cut into pieces, an epoch
    each."""
    for op, attrs, weights in convolutions(graph):
        pieces = _pieces(attrs, weights, machine)
        if attrs.dilations != (1, 1) and pieces > 1:
            yield hit(op, f"dilation {attrs.dilations[0]}x{attrs.dilations[1]}", 1, pieces=pieces)


@lint("LINT-FULL-HEIGHT")
def kernel_covers_the_height(graph: Graph, machine: Machine) -> Iterator[Hit]:
    """A kernel of one column covers the whole height: reported to hang after its rewrite."""
    limit = machine.convacc.max_kernel_height
    for op, attrs, weights in convolutions(graph):
        height = graph.first_input(op).shape[1]
        if weights[2] == 1 and weights[1] == height > limit and not any(attrs.pads):
            yield hit(op, f"{height}x1", limit)


def internal_ram_bytes(machine: Machine) -> int:
    return sum(p.size_bytes for p in machine.pools if p.writable and not p.cacheable)


def _pieces(attrs: ConvAttrs, weights: tuple[int, ...], machine: Machine) -> int:
    """Rows in threes, columns in sixes (twelves with a stride)."""
    limits = machine.convacc
    rows, columns = (
        (size - 1) * step + 1 for size, step in zip(weights[1:3], attrs.dilations, strict=True)
    )
    strided = attrs.strides[1] > 1
    widest = limits.max_kernel_width_strided if strided else limits.max_kernel_width
    return -(-rows // limits.max_kernel_height) * -(-columns // widest)
