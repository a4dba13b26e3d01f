"""repeat-by-joining in both formats: nearest resizing without the CPU, exactly."""

from __future__ import annotations

import pytest

from edits.border_case import misfit
from edits.moves_case import GENERATIONS, Lite, Qdq, check_same, fixed, off_npu

RULE, FIX = "NA-RESIZE-HYBRID", "repeat-by-joining"


def lite(size: tuple[int, int], target: tuple[int, int], channels: int = 5, **form: bool) -> bytes:
    net, large = Lite(), (1, *target, channels)
    x = net.input((1, *size, channels))
    x = net.op("RESIZE_NEAREST_NEIGHBOR", [x, net.integers(*target)], large, **form)
    return net.finish(net.logistic(x, large))


def qdq(factor: float, size: tuple[int, int] = (6, 4)) -> bytes:
    net = Qdq()
    x = net.depthwise(net.input((1, 5, *size)), 5)
    y = net.writer.node(
        "Resize",
        x,
        "",
        net.writer.constant([1.0, 1.0, factor, factor]),
        name="Resize",
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    return net.finish(net.sigmoid(net.writer.qdq(y, 0.05, -3)))


@pytest.mark.parametrize(
    "before",
    [
        lite((6, 4), (12, 8)),
        lite((5, 7), (15, 21), halfPixelCenters=True),
        lite((1, 3), (2, 6), 1),
        qdq(2.0),
        qdq(3.0, (3, 5)),
    ],
)
def test_the_npu_repeats(before: bytes) -> None:
    for generation in GENERATIONS:
        assert off_npu(before, generation) == ["DepthToSpace"]
        after = fixed(before, RULE, FIX, generation)
        assert off_npu(after, generation) == []
        check_same(before, after)


def test_other_resizes_stay() -> None:
    op = "RESIZE_NEAREST_NEIGHBOR:#0"
    expected = "the Resize does not repeat pixels by a whole factor"
    assert misfit(lite((4, 4), (6, 6)), FIX, op) == expected
    assert misfit(lite((4, 4), (12, 12), alignCorners=True), FIX, op) == expected
    assert misfit(qdq(1.5), FIX, "Resize:Resize") == expected
    expected = "65536 elements do not fit an axis of the NPU"
    assert misfit(lite((1, 128), (2, 256), 128), FIX, op) == expected
