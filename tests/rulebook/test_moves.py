"""Joins, cuts and pads: lint rules, each with a network and its counterpart."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.nets import Net
from npuscope.graph.model import Graph
from npuscope.ops.moves import GatherAttrs, PadAttrs, SliceAttrs, SplitAttrs
from rulebook.lint_case import IMAGE, Case, check, image_net


def concat(axis: int) -> Graph:
    net = Net()
    net.concat((net.input(IMAGE), net.input(IMAGE)), axis=axis)
    return net.graph()


def cut(axis: int, size: int, step: int = 1) -> Graph:
    net, x = image_net()
    sizes = tuple(size if place == axis else full for place, full in enumerate(IMAGE))
    steps = tuple(step if place == axis else 1 for place in range(4))
    attrs = SliceAttrs((0, 0, 0, 0), sizes, steps)
    net.op("Slice", (x,), attrs, sizes, net.quant(x))
    return net.graph()


def split(axis: int) -> Graph:
    net, x = image_net()
    half = tuple(size // 2 if place == axis else size for place, size in enumerate(IMAGE))
    net.op("Split", (x,), SplitAttrs(axis, (half[axis],)), half, net.quant(x))
    graph = net.built
    graph.outputs = graph.ops[-1].outputs  # one of two parts: shapes are not verified
    return graph


def pad(channels: int, rows: int) -> Graph:
    net, x = image_net()
    attrs = PadAttrs(((0, 0), (rows, rows), (0, 0), (0, channels)))
    shape = (1, 8 + 2 * rows, 8, 4 + channels)
    net.op("Pad", (x,), attrs, shape, net.quant(x))
    return net.graph()


def gather() -> Graph:
    net, x = image_net()
    places = net.constant(np.array([3, 1], np.int32))
    net.op("Gather", (x, places), GatherAttrs(1), (1, 2, 8, 4), net.quant(x))
    return net.graph()


CASES = [
    Case("LINT-CONCAT-AXIS", "axis 1", lambda: concat(1), lambda: concat(3)),
    Case("LINT-SLICE-AXIS", "axis 2", lambda: cut(2, 3), lambda: cut(3, 3)),
    Case("LINT-SLICE-AXIS", "axis 1", lambda: cut(1, 4), lambda: cut(1, 4, 2)),
    Case("LINT-SLICE-STEP", "step 2", lambda: cut(1, 4, 2), lambda: cut(1, 4)),
    Case("LINT-SPLIT-AXIS", "axis 1", lambda: split(1), lambda: split(3)),
    Case("LINT-PAD-CHANNEL", "4 -> 8 channels", lambda: pad(4, 0), lambda: pad(0, 1)),
    Case("LINT-GATHER", "64 elements", gather, lambda: cut(1, 2)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.evidence}")
def test_rule(case: Case) -> None:
    check(case)
