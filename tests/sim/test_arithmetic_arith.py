"""Arithmetic unit: affine with scalars and vectors, pairs of coefficients, two streams."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.errors import TargetError
from npuscope.program.modes import ArithOp, Bcast
from npuscope.program.units import Arith
from npuscope.sim.arithmetic import units as arith
from npuscope.sim.arithmetic.streams import floor_shift, half_even_shift
from sim.bench import Bench, clip, feature_reader, half_away, link, writer

ONE = (link("STRENG0", "ARITH0"), link("ARITH0", "STRENG1"))
TWO = (link("STRENG0", "ARITH0"), link("STRENG2", "ARITH0.1"), link("ARITH0", "STRENG1"))


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def run_one(x, bench=None, batch=None, **settings):
    """x (H, W, C) of 16 bits through one ARITH, batch channels a frame, into 8 bits."""
    bench = bench or Bench()
    height, width, channels = x.shape
    batch = batch or channels
    source = bench.buffer("x", (1, *x.shape), 16)
    target = bench.buffer("y", (1, *x.shape), 8)
    unit = Arith(
        id=0,
        fWidth=width,
        fHeight=height,
        fChannels=channels,
        batchDepth=batch,
        **({"operation": ArithOp.AFFINE} | settings),
    )
    frames = channels // batch
    units = (feature_reader(0, source, batch, frames), unit, writer(1, target, batch, frames))
    return bench.run(units, ONE, {"x": x[None]}).outputs["y"][0]


def run_two(x, y, nbits=8, **settings):
    return two_streams(x, y, nbits, 8, **settings).outputs["y"][0]


def two_streams(x, y, nbits, output_bits, **settings):
    bench = Bench()
    first = bench.buffer("x", (1, *x.shape), nbits)
    second = bench.buffer("second", (1, *y.shape), nbits)
    target = bench.buffer("y", (1, *x.shape), output_bits)
    height, width, channels = x.shape
    unit = Arith(
        id=0,
        fWidth=width,
        fHeight=height,
        fChannels=channels,
        batchDepth=channels,
        inbytes_x=nbits // 8,
        inbytes_y=nbits // 8,
        scalar=1,
        dualinput=1,
        **({"operation": ArithOp.AFFINE} | settings),
    )
    units = (
        feature_reader(0, first, channels),
        unit,
        writer(1, target, channels),
        feature_reader(2, second, channels),
    )
    return bench.run(units, TWO, {"x": x[None], "second": y[None]}, ("y",))


def elementwise(function, *arrays):
    return np.vectorize(function, otypes=[np.int64])(*arrays)


def test_scalar_affine(rng):
    x = rng.integers(-2000, 2000, (3, 4, 5), dtype=np.int16)
    found = run_one(x, scalar=1, A_scalar=1500, C_scalar=-700, C_shift=6, shift_o=15)
    expected = elementwise(lambda v: clip(half_away(1500 * v - (700 << 6), 15), 1), x)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("batch", [2, 3, 6])
def test_vectors_follow_the_channels_over_frames(rng, batch):
    x = rng.integers(-3000, 3000, (3, 2, 6), dtype=np.int16)
    a = rng.integers(-32768, 32768, 6, dtype=np.int16)
    c = rng.integers(-(1 << 28), 1 << 28, 6, dtype=np.int32)
    bench = Bench()
    found = run_one(
        x,
        bench,
        batch,
        combinebc=1,
        bcast=Bcast.CHAN,
        shift_o=21,
        vec_precision=(16, 16, 32),
        A_vector=bench.constant("a", a),
        C_vector=bench.constant("c", c),
    )
    product = x.astype(np.int64) * a + c
    np.testing.assert_array_equal(found, elementwise(lambda v: clip(half_away(v, 21), 1), product))


def test_combined_scalars_form_one_number(rng):
    """The zero-point shift: adds 128 exactly, and wraps on purpose into uint8."""
    x = np.arange(-128, 128, dtype=np.int16).reshape(1, 16, 16)
    constant = 128 * 16384
    found = run_one(
        x,
        scalar=1,
        A_scalar=16384,
        combinebc=1,
        B_scalar=constant >> 16,
        C_scalar=0,
        shift_o=14,
        rounding_o=0,
        saturation_o=0,
    )
    np.testing.assert_array_equal(found.view(np.uint8), x + 128)


def test_combined_scalars_may_be_negative():
    value = -123456
    low = value & 0xFFFF
    found = run_one(
        np.zeros((1, 1, 1), np.int16),
        scalar=1,
        combinebc=1,
        B_scalar=value >> 16,
        C_scalar=low - 65536 if low > 32767 else low,
        shift_o=11,
    )
    assert found.item() == half_away(value, 11)


def test_missing_vector_is_its_scalar_and_minus_one_negates(rng):
    x = rng.integers(-100, 100, (2, 2, 3), dtype=np.int16)
    c = np.array([5, -6, 7], np.int16)
    bench = Bench()
    found = run_one(
        x, bench, bcast=Bcast.CHAN, A_scalar=1, C_scalar=-1, C_vector=bench.constant("c", c)
    )
    np.testing.assert_array_equal(found, x - c)


@pytest.mark.parametrize(
    ("bcast", "shape"),
    [(Bcast.HEIGHT, (3, 1, 1)), (Bcast.WIDTH, (1, 4, 1)), (Bcast.HEIGHT_WIDTH, (3, 4, 1))],
)
def test_other_broadcasts(rng, bcast, shape):
    x = rng.integers(-50, 50, (3, 4, 2), dtype=np.int16)
    c = rng.integers(-50, 50, shape, dtype=np.int16)
    bench = Bench()
    found = run_one(x, bench, bcast=bcast, A_scalar=1, C_vector=bench.constant("c", c))
    np.testing.assert_array_equal(found, x + c)


def test_residual_add(rng):
    x, y = (rng.integers(-128, 128, (5, 3, 4), dtype=np.int8) for _ in range(2))
    settings = {
        "A_scalar": 21000,
        "B_scalar": 30001,
        "C_scalar": -900,
        "C_shift": 4,
        "Ax_shift": 2,
        "By_shift": 1,
        "shift_o": 14,
    }

    def expected(v, w):
        total = half_away(21000 * v, 2) + half_away(30001 * w, 1) - (900 << 4)
        return clip(half_away(total, 14), 1)

    found = run_two(x, y, **settings)
    np.testing.assert_array_equal(found, elementwise(expected, x.astype(int), y.astype(int)))


def test_sums_that_the_clamp_changes_are_counted():
    x = np.array([[[30000, 30000, -5, -30000]]], np.int16)
    y = np.array([[[2767, 2768, 5, -2769]]], np.int16)
    sums = {"A_scalar": 1, "B_scalar": 1, "outbytes_o": 2, "saturation_o": 1, "rounding_o": 0}
    run = two_streams(x, y, 16, 16, shift_o=0, **sums)
    assert run.outputs["y"].ravel().tolist() == [32767, 32767, 0, -32768]
    assert run.saturated_share == {1: 0.5}


@pytest.mark.parametrize(
    ("operation", "rule"),
    [
        (ArithOp.MUL, lambda v, w: clip(half_away(v * w, 8), 1)),
        (ArithOp.MIN, lambda v, w: clip(half_away(min(v, w), 8), 1)),
        (ArithOp.MAX, lambda v, w: clip(half_away(max(v, w), 8), 1)),
    ],
)
def test_two_stream_operations(rng, operation, rule):
    x, y = (rng.integers(-30000, 30000, (2, 3, 4), dtype=np.int16) for _ in range(2))
    found = run_two(x, y, nbits=16, operation=operation, shift_o=8)
    np.testing.assert_array_equal(found, elementwise(rule, x.astype(int), y.astype(int)))


def test_clip_operation_and_clipped_output(rng):
    """The operation takes its bounds from the coefficients, the output stage from its registers."""
    x = rng.integers(-200, 200, (2, 3, 4), dtype=np.int16)
    clipped = run_one(x, operation=ArithOp.CLIP, scalar=1, A_scalar=-20, C_scalar=90)
    np.testing.assert_array_equal(clipped, np.clip(x, -20, 90))
    bounds = {"scalar": 1, "clipmin": -20, "clipmax": 90, "clipout": 1}
    np.testing.assert_array_equal(run_one(x, A_scalar=1, **bounds), np.clip(x, -20, 90))


def test_the_consumer_reads_its_own_width(rng):
    """A 16-bit word read with inbytes 1 keeps its low byte only."""
    x = rng.integers(-32768, 32768, (2, 3, 4), dtype=np.int16)
    found = run_one(x, scalar=1, A_scalar=1, inbytes_x=1)
    np.testing.assert_array_equal(found, x.astype(np.int8))


@pytest.mark.parametrize(
    ("rule", "expected"), [(None, [2, -2]), (half_even_shift, [2, -2]), (floor_shift, [1, -2])]
)
def test_ax_rounding_can_be_swapped(monkeypatch, rule, expected):
    x = np.array([[[3, -3]]], np.int16)
    if rule:
        monkeypatch.setattr(arith, "round_ax", rule)
    found = run_one(x, scalar=1, A_scalar=1, Ax_shift=1)
    assert found.ravel().tolist() == expected


def test_unknown_operation_is_refused():
    with pytest.raises(TargetError, match="semantics of ARITH X_AND_Y are not known"):
        run_one(np.zeros((1, 1, 1), np.int16), operation=ArithOp.X_AND_Y, scalar=1)


def test_dualinput_needs_a_second_stream():
    with pytest.raises(TargetError, match="nothing feeds port 1"):
        run_one(np.zeros((1, 1, 1), np.int16), scalar=1, dualinput=1)


@pytest.mark.parametrize("saturation", [0, 1])
@pytest.mark.parametrize("rounding", [0, 1])
@pytest.mark.parametrize(("factor", "constant"), [(1 << 6, 128), (1 << 6, 130), (63, 128)])
def test_a_factor_that_the_shift_undoes(rng, factor, constant, saturation, rounding):
    """Whole steps are only added; a rest or another factor is rounded as ever."""
    x = rng.integers(-300, 300, (3, 4, 5), dtype=np.int16)
    more = {"saturation_o": saturation, "rounding_o": rounding, "shift_o": 6, "scalar": 1}
    found = run_one(x, A_scalar=factor, C_scalar=constant, **more)

    def expected(value):
        total = factor * int(value) + constant
        shifted = half_away(total, 6) if rounding else total >> 6
        return clip(shifted, 1) if saturation else (shifted + 128) % 256 - 128

    np.testing.assert_array_equal(found, elementwise(expected, x))
