"""Transposes, resizing, idle moves: lint rules, each with a network and its counterpart."""

from __future__ import annotations

import pytest

from npuscope.graph.model import Graph
from npuscope.ops.images import Coordinates, ResizeAttrs, ResizeMode
from rulebook.lint_case import IMAGE, Case, check, image_net


def permuted(*permutations: tuple[int, ...], shape: tuple[int, ...] = IMAGE) -> Graph:
    """Transposes between two functions, so that none is at the border."""
    net, x = image_net(shape)
    x = net.sigmoid(x)
    for permutation in permutations:
        x = net.transpose(x, permutation)
    net.sigmoid(x)
    return net.graph()


def around_functions(*permutations: tuple[int, ...]) -> Graph:
    """A function between each two Transposes."""
    net, x = image_net()
    x = net.sigmoid(x)
    for permutation in permutations:
        x = net.sigmoid(net.transpose(x, permutation))
    return net.graph()


def reshaped(*shapes: tuple[int, ...], functions: bool = False) -> Graph:
    net, x = image_net()
    x = net.sigmoid(x)
    for shape in shapes:
        x = net.reshape(x, shape)
        x = net.sigmoid(x) if functions else x
    net.sigmoid(x)
    return net.graph()


def nearest(coordinates: Coordinates, size: int = 16) -> Graph:
    net, x = image_net()
    attrs = ResizeAttrs((size, size), (size / 8, size / 8), NEAREST, coordinates)
    net.op("Resize", (x,), attrs, (1, size, size, 4), net.quant(x))
    return net.graph()


def twice(other: tuple[int, ...]) -> Graph:
    """Two transposes of one tensor, added."""
    net, x = image_net((1, 4, 4, 4))
    one, two = net.transpose(x, (0, 3, 1, 2)), net.transpose(x, other)
    net.add(one, two)
    return net.graph()


def resize(mode: ResizeMode, rows: int = 8, out: int = 16) -> Graph:
    net, x = image_net((1, rows, rows, 4))
    attrs = ResizeAttrs((out, out), (out / rows, out / rows), mode)
    net.op("Resize", (x,), attrs, (1, out, out, 4), net.quant(x))
    return net.graph()


LINEAR, NEAREST = ResizeMode.LINEAR, ResizeMode.NEAREST


CASES = [
    Case(
        "LINT-TRANSPOSE",
        "permutation (0, 2, 1, 3)",
        lambda: permuted((0, 2, 1, 3)),
        lambda: permuted((0, 3, 1, 2)),
    ),
    Case(
        "LINT-TRANSPOSE",
        "permutation (0, 2, 1, 3)",
        lambda: permuted((0, 2, 1, 3)),
        lambda: permuted((0, 2, 1, 3), shape=(1, 1, 8, 4)),
    ),
    Case(
        "LINT-CANCELLING-TRANSPOSES",
        "256 elements moved twice",
        lambda: permuted((0, 3, 1, 2), (0, 2, 3, 1)),
        lambda: permuted((0, 3, 1, 2), (0, 3, 1, 2)),
    ),
    Case(
        "LINT-CANCELLING-TRANSPOSES",
        "256 elements moved twice",
        lambda: around_functions((0, 3, 1, 2), (0, 2, 3, 1)),
        lambda: around_functions((0, 3, 1, 2), (0, 3, 1, 2)),
    ),
    Case(
        "LINT-CANCELLING-TRANSPOSES",
        "256 elements stay in order",
        lambda: permuted((0, 1, 2, 3)),
        lambda: permuted((0, 2, 1, 3)),
    ),
    Case(
        "LINT-DEAD-RESHAPE",
        "1x8x8x4 stays",
        lambda: reshaped(IMAGE),
        lambda: reshaped((1, 256)),
    ),
    Case(
        "LINT-DEAD-RESHAPE",
        "1x8x8x4 -> 1x256 -> 1x64x4",
        lambda: reshaped((1, 256), (1, 64, 4)),
        lambda: reshaped((1, 256), (1, 64, 4), functions=True),
    ),
    Case(
        "LINT-DEAD-RESHAPE",
        "1x8x8x4 -> 1x256 -> 1x8x8x4",
        lambda: reshaped((1, 256), IMAGE, functions=True),
        lambda: reshaped((1, 256), functions=True),
    ),
    Case(
        "LINT-RESIZE-FORM",
        "tf_half_pixel_for_nn, floor",
        lambda: nearest(Coordinates.TF_HALF_PIXEL_FOR_NN),
        lambda: nearest(Coordinates.ASYMMETRIC),
    ),
    Case(
        "LINT-RESIZE-FORM",
        "tf_half_pixel_for_nn, floor",
        lambda: nearest(Coordinates.TF_HALF_PIXEL_FOR_NN),
        lambda: nearest(Coordinates.ALIGN_CORNERS, 24),
    ),
    Case("LINT-RESIZE-LINEAR", "8x8x4 -> 16x16x4", lambda: resize(LINEAR), lambda: resize(NEAREST)),
    Case(
        "LINT-DUPLICATE",
        "Transpose, 64 elements",
        lambda: twice((0, 3, 1, 2)),
        lambda: twice((0, 2, 1, 3)),
    ),
    Case(
        "LINT-RESIZE-LINEAR", "8x8x4 -> 16x16x4", lambda: resize(LINEAR), lambda: resize(LINEAR, 1)
    ),
    Case(
        "LINT-RESIZE-NEAREST", "8x8x4 -> 16x16x4", lambda: resize(NEAREST), lambda: resize(LINEAR)
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.evidence}")
def test_rule(case: Case) -> None:
    check(case)
