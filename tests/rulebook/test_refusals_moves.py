"""Rules about moving data, each with a network it refuses and one it lets pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from compiler.nets import MACHINES, Net, compiled, per_tensor
from npuscope.graph.model import Attrs, DType, Graph
from npuscope.ops.images import Coordinates, ResizeAttrs, ResizeMode
from npuscope.ops.moves import PadAttrs, SliceAttrs, TransposeAttrs
from npuscope.ops.run import run
from npuscope.program.model import EpochKind
from npuscope.rulebook import refusals
from npuscope.sim.run import execute

IMAGE = (1, 6, 8, 16)


def one(kind: str, attrs: Attrs, shape: tuple[int, ...], source: tuple[int, ...] = IMAGE) -> Graph:
    net = Net()
    x = net.input(source, (0.02, 5))
    net.op(kind, (x,), attrs, shape, per_tensor(0.02, 5))
    return net.graph()


def slice_of(starts: tuple[int, ...], sizes: tuple[int, ...], steps: tuple[int, ...]) -> Graph:
    return one("Slice", SliceAttrs(starts, sizes, steps), sizes)


def resize(mode: ResizeMode, sizes: tuple[int, int]) -> Graph:
    scales = (sizes[0] / 6, sizes[1] / 8)
    attrs = ResizeAttrs(sizes, scales, mode, Coordinates.ASYMMETRIC)
    return one("Resize", attrs, (1, *sizes, 16))


def pad(*pads: tuple[int, int], value: float = 0.0) -> Graph:
    shape = tuple(size + sum(pair) for size, pair in zip(IMAGE, pads, strict=True))
    return one("Pad", PadAttrs(pads, value), shape)


ONES = (1, 1, 1, 1)
CASES: list[tuple[str, Callable[[], Graph], Callable[[], Graph]]] = [
    (
        "NA-SLICE-STEP",
        lambda: slice_of((0, 0, 0, 0), (1, 6, 8, 8), (1, 1, 1, 2)),
        lambda: slice_of((0, 0, 0, 4), (1, 6, 8, 8), ONES),
    ),
    (
        "NA-SLICE-AXIS",
        lambda: slice_of((0, 2, 0, 0), (1, 3, 8, 16), ONES),
        lambda: slice_of((0, 0, 0, 3), (1, 6, 8, 5), ONES),
    ),
    (
        "NA-TRANSPOSE",
        lambda: one("Transpose", TransposeAttrs((0, 2, 1, 3)), (1, 8, 6, 16)),
        lambda: one("Transpose", TransposeAttrs((0, 3, 1, 2)), (1, 16, 6, 8)),
    ),
    (
        "NA-PAD-CHANNEL",
        lambda: pad((0, 0), (0, 0), (0, 0), (0, 4)),
        lambda: pad((0, 0), (1, 2), (0, 1), (0, 0)),
    ),
    (
        "NA-PAD-VALUE",
        lambda: pad((0, 0), (1, 1), (1, 1), (0, 0), value=9.0),
        lambda: pad((0, 0), (1, 1), (1, 1), (0, 0), value=1.0),
    ),
]


@pytest.mark.parametrize(("rule", "refused", "allowed"), CASES, ids=[c[0] for c in CASES])
def test_a_rule(rule: str, refused: Callable[[], Graph], allowed: Callable[[], Graph]) -> None:
    bad, good = refused(), allowed()
    assert rule in {r.rule for r in refusals(bad, bad.ops[-1], MACHINES["4.0"])}
    assert refusals(good, good.ops[-1], MACHINES["4.0"]) == ()
    away = [epoch for epoch in compiled(bad, "4.0").executed if epoch.kind is not EpochKind.HW]
    # A pad of channels is carried out between two transposes, which the CPU does.
    assert len(away) == (2 if rule == "NA-PAD-CHANNEL" else 1)
    assert all(rule in {refused.rule for refused in epoch.trail} for epoch in away)
    assert {epoch.kind for epoch in compiled(good, "4.0").executed} == {EpochKind.HW}


def test_float_slices_stay_on_the_cpu() -> None:
    net = Net()
    x = net.dequantize(net.input(IMAGE))
    attrs = SliceAttrs((0, 0, 0, 4), (1, 6, 8, 8), ONES)
    net.op("Slice", (x,), attrs, (1, 6, 8, 8), None, DType.FLOAT32)
    graph = net.graph()
    assert "NA-SLICE-FORMAT" in {r.rule for r in refusals(graph, graph.ops[-1], MACHINES["4.0"])}


def test_a_nearest_resize_is_copies_and_a_library_call() -> None:
    graph = resize(ResizeMode.NEAREST, (12, 16))
    assert [r.rule for r in refusals(graph, graph.ops[-1], MACHINES["4.0"])] == ["NA-RESIZE-HYBRID"]
    kinds = [epoch.kind for epoch in compiled(graph, "4.0").executed]
    assert kinds == [EpochKind.HW, EpochKind.HYBRID]
    old = [epoch.kind for epoch in compiled(graph, "2.2").executed]
    assert old == [EpochKind.HW, EpochKind.SW]


@pytest.mark.parametrize(
    ("mode", "sizes"),
    [(ResizeMode.LINEAR, (12, 16)), (ResizeMode.NEAREST, (9, 12)), (ResizeMode.NEAREST, (12, 24))],
)
def test_other_resizes_run_on_the_cpu(mode: ResizeMode, sizes: tuple[int, int]) -> None:
    graph = resize(mode, sizes)
    found = refusals(graph, graph.ops[-1], MACHINES["4.0"])
    assert "NA-RESIZE-MODE" in {r.rule for r in found}
    assert [epoch.kind for epoch in compiled(graph, "4.0").executed] == [EpochKind.SW]


@pytest.mark.parametrize("number", range(len(CASES)))
@pytest.mark.parametrize("generation", ["2.2", "4.0", "open"])
@pytest.mark.parametrize("side", [1, 2])
def test_what_is_moved_is_what_the_reference_moves(number: int, generation: str, side: int) -> None:
    graph = CASES[number][side]()
    values = np.random.default_rng(3).integers(-128, 128, IMAGE).astype(np.int8)
    found = execute(compiled(graph, generation), {"input0": values}).outputs
    wanted = run(graph, {"input0": values})
    for name in graph.outputs:
        assert np.array_equal(found[name], wanted[name])


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
def test_a_resize_repeats_pixels(generation: str) -> None:
    graph = resize(ResizeMode.NEAREST, (18, 24))
    values = np.random.default_rng(3).integers(-128, 128, IMAGE).astype(np.int8)
    found = execute(compiled(graph, generation), {"input0": values}).outputs
    assert np.array_equal(found[graph.outputs[0]], values.repeat(3, axis=1).repeat(3, axis=2))
