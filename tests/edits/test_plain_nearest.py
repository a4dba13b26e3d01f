"""plain-nearest in both formats, and that other picks are not taken for it."""

from __future__ import annotations

import pytest

from edits.border_case import graph_of, misfit
from edits.moves_case import Lite, Qdq, check_same, findings, fixed, off_npu
from npuscope.ops.images import Coordinates, NearestRounding, ResizeAttrs

RULE, FIX = "LINT-RESIZE-FORM", "plain-nearest"


def lite(target: int, **form: bool) -> bytes:
    net, shape, large = Lite(), (1, 4, 4, 3), (1, target, target, 3)
    x = net.op(
        "RESIZE_NEAREST_NEIGHBOR",
        [net.input(shape), net.integers(target, target)],
        large,
        **form,
    )
    return net.finish(net.logistic(x, large))


def qdq(coordinates: str, rounding: str, factor: float = 2.0) -> bytes:
    net = Qdq()
    y = net.writer.node(
        "Resize",
        net.input((1, 3, 4, 4)),
        "",
        net.writer.constant([1.0, 1.0, factor, factor]),
        name="Resize",
        mode="nearest",
        coordinate_transformation_mode=coordinates,
        nearest_mode=rounding,
    )
    return net.finish(net.sigmoid(net.writer.qdq(y, 0.05, -3)))


@pytest.mark.parametrize(
    "before",
    [
        lite(8, halfPixelCenters=True),
        lite(12, halfPixelCenters=True),
        lite(8, alignCorners=True),
        qdq("half_pixel", "round_prefer_floor"),
        qdq("half_pixel", "round_prefer_ceil", 3.0),
        qdq("asymmetric", "round_prefer_floor"),
    ],
)
def test_another_form_of_the_same(before: bytes) -> None:
    after = fixed(before, RULE, FIX)
    assert findings(after, RULE) == []
    check_same(before, after)
    form = next(op for op in graph_of(after).ops if op.kind == "Resize").attrs_as(ResizeAttrs)
    expected = Coordinates.ASYMMETRIC, NearestRounding.FLOOR
    assert (form.coordinates, form.rounding) == expected


def test_older_files_have_no_such_form() -> None:
    net = Qdq(opset=10)
    scales = net.writer.constant([1.0, 1.0, 2.0, 2.0])
    y = net.writer.node("Resize", net.input((1, 3, 4, 4)), scales, name="Resize", mode="nearest")
    data = net.finish(net.sigmoid(net.writer.qdq(y, 0.05, -3)))
    assert misfit(data, FIX, "Resize:Resize") == "the file's opset 10 is older than 11"


@pytest.mark.parametrize(
    ("data", "op", "name"),
    [
        (lite(12, alignCorners=True), "RESIZE_NEAREST_NEIGHBOR:#0", "align_corners"),
        (qdq("asymmetric", "ceil"), "Resize:Resize", "asymmetric"),
        (qdq("align_corners", "floor"), "Resize:Resize", "align_corners"),
    ],
)
def test_other_picks_stay_and_are_no_copies_for_the_npu(data: bytes, op: str, name: str) -> None:
    assert findings(data, RULE) == []
    assert misfit(data, FIX, op) == f"'{name}' picks other pixels than 'asymmetric' here"
    assert off_npu(data) == ["Resize"]
