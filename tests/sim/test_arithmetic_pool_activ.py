"""Pools and activation functions against loops."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.errors import TargetError
from npuscope.program.modes import ActivOp, PoolOp
from npuscope.program.units import Activ, Decun, PoolUnit
from npuscope.sim.arithmetic import pool
from npuscope.sim.arithmetic.streams import half_even_shift
from sim.bench import Bench, clip, feature_reader, half_away, link, writer

POOL = (link("STRENG0", "POOL0"), link("POOL0", "STRENG1"))
ACTIV = (link("STRENG0", "ACTIV0"), link("ACTIV0", "STRENG1"))


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def run_pool(x, out, nbits=8, **settings):
    height, width, channels = x.shape
    bench = Bench()
    source = bench.buffer("x", (1, *x.shape))
    target = bench.buffer("y", (1, *out, channels), nbits)
    unit = PoolUnit(
        id=0,
        inputX=width,
        inputY=height,
        outputX=out[1],
        outputY=out[0],
        batchSize=channels,
        outbytes_o=nbits // 8,
        **settings,
    )
    units = (feature_reader(0, source, channels), unit, writer(1, target, channels))
    return bench.run(units, POOL, {"x": x[None]}).outputs["y"][0]


def windows(x, out, window, strides, pads, fill):
    """Lists of the values under each window, by loops."""
    padded = np.pad(x.astype(np.int64), (*pads, (0, 0)), constant_values=fill)
    for row in range(out[0]):
        for column in range(out[1]):
            y, x0 = row * strides[0], column * strides[1]
            yield row, column, padded[y : y + window[0], x0 : x0 + window[1]]


@pytest.mark.parametrize("pads", [((0, 0), (0, 0)), ((1, 1), (0, 1))])
@pytest.mark.parametrize("operation", [PoolOp.MAX, PoolOp.MIN])
def test_window_extremes(rng, operation, pads):
    x = rng.integers(-128, 128, (7, 8, 3), dtype=np.int8)
    rows, columns = 7 + sum(pads[0]), 8 + sum(pads[1])
    out = (rows - 3) // 2 + 1, (columns - 2) // 1 + 1
    found = run_pool(
        x,
        out,
        operation=operation,
        poolWinY=3,
        poolWinX=2,
        strideY=2,
        strideX=1,
        topPad=pads[0][0],
        bottomPad=pads[0][1],
        leftPad=pads[1][0],
        rightPad=pads[1][1],
    )
    fill, best = (-128, np.max) if operation == PoolOp.MAX else (127, np.min)
    for row, column, values in windows(x, out, (3, 2), (2, 1), pads, fill):
        np.testing.assert_array_equal(found[row, column], best(values, axis=(0, 1)))


def test_own_padding_value(rng):
    x = np.full((2, 2, 1), -100, np.int8)
    found = run_pool(
        x,
        (2, 2),
        operation=PoolOp.MAX,
        poolWinX=2,
        poolWinY=2,
        bottomPad=1,
        rightPad=1,
        pad_val_en=1,
        pad_val=-5,
    )
    assert found[..., 0].tolist() == [[-100, -5], [-5, -5]]


def test_crop_bounds_are_inclusive(rng):
    x = rng.integers(-128, 128, (5, 6, 2), dtype=np.int8)
    found = run_pool(
        x, (3, 4), operation=PoolOp.MAX, topCrop=1, bottomCrop=3, leftCrop=2, rightCrop=5
    )
    np.testing.assert_array_equal(found, x[1:4, 2:6])


def test_window_average(rng):
    x = rng.integers(-128, 128, (6, 6, 4), dtype=np.int8)
    mulval = round(65536 / 9)
    found = run_pool(
        x,
        (2, 2),
        operation=PoolOp.AVG,
        poolWinX=3,
        poolWinY=3,
        strideX=3,
        strideY=3,
        mulval=mulval,
        shift_o=16,
        rounding_o=1,
        saturation_o=1,
        round_mode_o=1,
    )
    for row, column, values in windows(x, (2, 2), (3, 3), (3, 3), ((0, 0), (0, 0)), 0):
        sums = values.sum(axis=(0, 1))
        assert found[row, column].tolist() == [half_away(s * mulval, 16) for s in sums]


AVERAGE = {"operation": PoolOp.GAVG, "rounding_o": 1, "round_mode_o": 1, "saturation_o": 1}


def test_global_average(rng):
    """Two bytes out, eight fraction bits; outputX and outputY are not looked at."""
    x = rng.integers(-128, 128, (5, 3, 7), dtype=np.int8)
    mulval = round(2**18 / 15)
    found = run_pool(x, (1, 1), 16, mulval=mulval, shift_o=10, **AVERAGE)
    sums = x.astype(int).sum(axis=(0, 1))
    assert found.ravel().tolist() == [clip(half_away(s * mulval, 10), 2) for s in sums]


@pytest.mark.parametrize("operation", [PoolOp.GMAX, PoolOp.GMIN])
def test_global_extremes(rng, operation):
    x = rng.integers(-128, 128, (4, 3, 5), dtype=np.int8)
    best = x.max((0, 1)) if operation == PoolOp.GMAX else x.min((0, 1))
    np.testing.assert_array_equal(run_pool(x, (1, 1), operation=operation).ravel(), best)


def test_pool_rounding_can_be_swapped(monkeypatch):
    x = np.array([[[-1], [-4]]], np.int8)
    assert run_pool(x, (1, 1), 16, mulval=1, shift_o=1, **AVERAGE).item() == -3
    monkeypatch.setattr(pool, "round_shift", half_even_shift)
    assert run_pool(x, (1, 1), 16, mulval=1, shift_o=1, **AVERAGE).item() == -2


def test_outputs_beyond_the_input_are_told():
    with pytest.raises(TargetError, match="2x2 outputs need 4x4 inputs, found 3x3"):
        run_pool(
            np.zeros((3, 3, 1), np.int8),
            (2, 2),
            operation=PoolOp.MAX,
            poolWinX=2,
            poolWinY=2,
            strideX=2,
            strideY=2,
        )


def run_activ(x, bench=None, **settings):
    bench = bench or Bench()
    source = bench.buffer("x", (1, *x.shape))
    target = bench.buffer("y", (1, *x.shape))
    channels = x.shape[-1]
    units = (
        feature_reader(0, source, channels),
        Activ(id=0, **settings),
        writer(1, target, channels),
    )
    return bench.run(units, ACTIV, {"x": x[None]}).outputs["y"][0]


ALL = np.arange(-128, 128, dtype=np.int8).reshape(4, 8, 8)


def test_function_by_segments():
    """Four outer segments; the first has 1 part, then 2, 4 and 1."""
    parts = [0, 1, 2, 0]
    firsts = [0, 1, 3, 7]
    rom0 = np.array([bits << 6 | row for bits, row in zip(parts, firsts, strict=True)], np.uint8)
    rom1 = np.random.default_rng(5).integers(-300, 300, (8, 3), dtype=np.int16)
    bench = Bench()
    found = run_activ(
        ALL,
        bench,
        operation=ActivOp.FUNC,
        bwidth=2,
        shift_b=3,
        shift_c=5,
        shift_o=9,
        ROM0_vector=bench.constant("rom0", rom0),
        ROM0_nbytes=4,
        ROM1_vector=bench.constant("rom1", rom1),
        ROM1_nbytes=48,
    )

    def expected(x):
        outer, inner = divmod(x + 128, 64)
        a, b, c = map(int, rom1[firsts[outer] + (inner >> (6 - parts[outer]))])
        return clip(half_away(a * x * x + (b << 3) * x + (c << 5), 9), 1)

    assert found.ravel().tolist() == [expected(int(x)) for x in ALL.ravel()]


def test_a_damaged_function_names_rows_that_were_not_loaded():
    """Its values are wrong, which is for a comparison to find; they count as zeros."""
    bench = Bench()
    found = run_activ(
        ALL,
        bench,
        operation=ActivOp.FUNC,
        bwidth=1,
        ROM0_vector=bench.constant("rom0", np.array([0, 63], np.uint8)),
        ROM0_nbytes=2,
        ROM1_vector=bench.constant("rom1", np.array([[0, 1, 0]], np.int16)),
        ROM1_nbytes=6,
    )
    np.testing.assert_array_equal(found, np.minimum(ALL, 0))


def test_thresholded_relu():
    found = run_activ(ALL, operation=ActivOp.TRELU, parameter=-10, parameter_2=-50)
    np.testing.assert_array_equal(found, np.where(ALL > -10, ALL, -50))


def test_relu():
    np.testing.assert_array_equal(run_activ(ALL, operation=ActivOp.RELU), np.maximum(ALL, 0))


def test_unknown_activation_is_refused():
    with pytest.raises(TargetError, match="semantics of ACTIV PRELU are not known"):
        run_activ(ALL, operation=ActivOp.PRELU)


def test_decompression_is_refused():
    bench = Bench()
    source, target = bench.buffer("x", (1, 1, 1, 1)), bench.buffer("y", (1, 1, 1, 1))
    units = (feature_reader(0, source, 1), Decun(id=0), writer(1, target, 1))
    links = (link("STRENG0", "DECUN0"), link("DECUN0", "STRENG1"))
    with pytest.raises(TargetError, match="not executed: semantics of DECUN are not known"):
        bench.run(units, links, {"x": np.zeros((1, 1, 1, 1), np.int8)})
