"""nearest-resize in both formats: interpolation by copies and a small kernel, up to rounding."""

from __future__ import annotations

import pytest

from edits.border_case import graph_of, misfit
from edits.channel_nets import total_ms
from edits.moves_case import GENERATIONS, Lite, Qdq, check_same, findings, fixed, off_npu

RULE, FIX = "NA-RESIZE-MODE", "nearest-resize"
ROUNDING = 1.0  # LSB: halves go up or down


def lite(
    size: tuple[int, int], target: tuple[int, int], channels: int = 5, zero: int = -3, **form: bool
) -> bytes:
    net, shape = Lite(), (1, *size, channels)
    x = net.input(shape, zero=zero)
    large = (1, *target, channels)
    return net.finish(
        net.op("RESIZE_BILINEAR", [x, net.integers(*target)], large, zero=zero, **form)
    )


def qdq(
    size: tuple[int, int], factor: int, coordinates: str = "half_pixel", channels: int = 5
) -> bytes:
    net = Qdq()
    scales = net.writer.constant([1.0, 1.0, float(factor), float(factor)])
    y = net.writer.node(
        "Resize",
        net.depthwise(net.input((1, channels, *size)), channels),
        "",
        scales,
        name="Resize",
        mode="linear",
        coordinate_transformation_mode=coordinates,
    )
    return net.finish(net.writer.qdq(y, 0.05, -3))


@pytest.mark.parametrize("factor", [2, 3, 4])
@pytest.mark.parametrize("centred", [True, False])
def test_interpolation_keeps_its_values(factor: int, centred: bool) -> None:
    form = {"halfPixelCenters": True} if centred else {}
    before = lite((5, 4), (5 * factor, 4 * factor), **form)
    after = fixed(before, RULE, FIX)
    assert findings(after, RULE) == []
    # Places are whole 1024ths in LiteRT: a third is none of them.
    check_same(before, after, ROUNDING if factor != 3 else 2 * ROUNDING)


@pytest.mark.parametrize("zero", [-128, 0, 77])
def test_the_cpu_only_drives_the_copies(zero: int) -> None:
    before = lite((24, 28), (48, 56), 16, zero, halfPixelCenters=True)
    assert off_npu(before) == ["Resize"]
    for generation in GENERATIONS:
        after = fixed(before, RULE, FIX, generation)
        # Edges are narrower than the image between them: compilers of 2.x join columns, then rows,
        # in library calls.
        joins = ["Concat", "Concat"] if generation == "2.2" else []
        assert off_npu(after, generation) == [*joins, "DepthToSpace"]
        assert total_ms(graph_of(after), generation) < total_ms(graph_of(before), generation)
        check_same(before, after, ROUNDING)


@pytest.mark.parametrize("factor", [2, 3])
@pytest.mark.parametrize("coordinates", ["half_pixel", "pytorch_half_pixel", "asymmetric"])
def test_interpolation_in_an_onnx_file(factor: int, coordinates: str) -> None:
    before = qdq((4, 5), factor, coordinates)
    after = fixed(before, RULE, FIX)
    assert findings(after, RULE) == []
    assert off_npu(after) == ["DepthToSpace"]
    check_same(before, after, ROUNDING)


@pytest.mark.parametrize("before", [lite((64, 64), (128, 128), 16), qdq((64, 64), 2, channels=16)])
def test_large_images_get_their_edges_from_the_cpu(before: bytes) -> None:
    after = fixed(before, RULE, FIX)
    assert "MirrorPad" in off_npu(after)
    check_same(before, after, ROUNDING, seeds=1)


@pytest.mark.parametrize("before", [lite((1, 1), (7, 7), halfPixelCenters=True), qdq((1, 1), 6)])
def test_one_pixel_is_only_repeated(before: bytes) -> None:
    check_same(before, fixed(before, RULE, FIX))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (lite((4, 4), (10, 10)), "4x4 to 10x10 is not a factor of 2, 3 or 4"),
        (lite((4, 4), (8, 12)), "4x4 to 8x12 is not a factor of 2, 3 or 4"),
        (lite((2, 2), (16, 16)), "2x2 to 16x16 is not a factor of 2, 3 or 4"),
        (
            lite((4, 4), (8, 8), alignCorners=True),
            "coordinates 'align_corners' have no equivalent kernel",
        ),
    ],
)
def test_other_resizes_stay(data: bytes, sentence: str) -> None:
    assert misfit(data, FIX, "RESIZE_BILINEAR:#0") == sentence
