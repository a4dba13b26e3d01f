"""Convolutions: plain, padded, strided, piped, in passes, packed; against loops."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.errors import TargetError
from npuscope.program.modes import Simd
from npuscope.program.units import Convacc, Ref, Streng
from npuscope.sim.arithmetic import convacc
from npuscope.sim.arithmetic.streams import floor_shift
from sim.bench import (
    Bench,
    bytes_of,
    convolve,
    deep_set,
    feature_reader,
    kernel_reader,
    link,
    requantised,
    writer,
)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


PLAIN = (link("STRENG0", "CONVACC0"), link("STRENG1", "CONVACC0.1"), link("CONVACC0", "STRENG2"))


def run_plain(rng, x, w, simd=Simd.S8X8, shift=3, **settings):
    """One unit, one frame. Returns the execution; the output buffer has 16 bits."""
    height, width, depth = x.shape
    kernels, kh, kw, _ = w.shape
    unit = Convacc(
        id=0,
        fWidth=width,
        fHeight=height,
        kernelWidth=kw,
        kernelHeight=kh,
        nKernels=kernels,
        batchDepth=depth,
        simd=simd,
        shift_o=shift,
        inbytes_f=1 if simd == Simd.S8X8 else 2,
        **settings,
    )
    bench = Bench()
    source = bench.buffer("x", (1, *x.shape))
    target = bench.buffer("y", (1, *unit.out_size, kernels), 16)
    weights = bench.constant("w", w)
    widen = {"nbits_out": 16, "align_right": 1} if simd == Simd.S16X8 else {}
    units = (
        feature_reader(0, source, depth, **widen),
        kernel_reader(1, weights, w.size),
        unit,
        writer(2, target, kernels),
    )
    return bench.run(units, PLAIN, {"x": x[None]})


def test_one_by_one(rng):
    x, w = bytes_of(rng, 5, 7, 6), bytes_of(rng, 4, 1, 1, 6)
    found = run_plain(rng, x, w)
    np.testing.assert_array_equal(found.outputs["y"][0], requantised(convolve(x, w), 3))


@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (2, 1)])
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 1, 1, 1), (0, 2, 1, 0)])
def test_three_by_three(rng, strides, pads):
    x, w = bytes_of(rng, 9, 8, 5), bytes_of(rng, 3, 3, 3, 5)
    top, left, bottom, right = pads
    found = run_plain(
        rng,
        x,
        w,
        simd=Simd.S16X8,
        shift=5,
        fsub=-17,
        vstride=strides[0],
        hstride=strides[1],
        top_padding=top,
        left_padding=left,
        bot_padding=bottom,
        right_padding=right,
    )
    expected = requantised(convolve(x, w, strides, pads, zero_point=-17), 5)
    np.testing.assert_array_equal(found.outputs["y"][0], expected)


def test_unsigned_features(rng):
    x, w = bytes_of(rng, 4, 4, 3), bytes_of(rng, 2, 3, 3, 3)
    found = run_plain(rng, x, w, f_unsigned=1, shift=4)
    expected = requantised(convolve(x.view(np.uint8), w), 4)
    np.testing.assert_array_equal(found.outputs["y"][0], expected)


def test_crop_comes_before_padding(rng):
    x, w = bytes_of(rng, 8, 9, 2), bytes_of(rng, 2, 3, 3, 2)
    found = run_plain(
        rng, x, w, top_crop=1, bot_crop=5, left_crop=2, right_crop=7, top_padding=1, left_padding=1
    )
    expected = requantised(convolve(x[1:6, 2:8], w, pads=(1, 1, 0, 0)), 3)
    np.testing.assert_array_equal(found.outputs["y"][0], expected)


def test_zfbias_fills_the_padding(rng):
    """Pad with a value: a 1x1 identity kernel and a biased zero frame."""
    x = bytes_of(rng, 3, 4, 2)
    w = np.eye(2, dtype=np.int8).reshape(2, 1, 1, 2)
    pads = {"top_padding": 1, "bot_padding": 2, "left_padding": 3, "right_padding": 1}
    found = run_plain(rng, x, w, shift=0, zfbias=-128, **pads)
    expected = np.pad(x, ((1, 2), (3, 1), (0, 0)), constant_values=-128)
    np.testing.assert_array_equal(found.outputs["y"][0], expected)


def test_large_sums_stay_exact(rng):
    """Beyond 2^24 float32 would lose bits: 24-bit output shows every one of them."""
    x, w = np.full((2, 2, 128), 127, np.int8), np.full((1, 3, 3, 128), 127, np.int8)
    x[0, 0, 0] = 126
    found = run_plain(
        rng,
        x,
        w,
        shift=8,
        fsub=0,
        top_padding=1,
        left_padding=1,
        bot_padding=1,
        right_padding=1,
        simd=Simd.S16X8,
    )
    expected = requantised(convolve(x, w, pads=(1, 1, 1, 1)), 8)
    np.testing.assert_array_equal(found.outputs["y"][0], expected)


def test_saturation_is_counted(rng):
    x, w = np.full((1, 4, 8), 127, np.int8), np.full((2, 1, 1, 8), 127, np.int8)
    w[1] = 1
    found = run_plain(rng, x, w, shift=0)
    assert found.outputs["y"][0, 0, 0].tolist() == [32767, 1016]
    assert found.saturated_share == {1: 0.5}


def test_saturation_off_wraps(rng):
    x, w = np.full((1, 1, 8), 127, np.int8), np.full((1, 1, 1, 8), 127, np.int8)
    found = run_plain(rng, x, w, shift=0, saturation_o=0)
    assert found.outputs["y"].item() == 8 * 127 * 127 - 65536 * 2


def test_the_rounding_rule_can_be_swapped(rng, monkeypatch):
    x, w = np.array([[[1], [-1]]], np.int8), np.ones((1, 1, 1, 1), np.int8)
    assert run_plain(rng, x, w, shift=1).outputs["y"].ravel().tolist() == [1, -1]
    monkeypatch.setattr(convacc, "round_shift", floor_shift)
    assert run_plain(rng, x, w, shift=1).outputs["y"].ravel().tolist() == [0, -1]


def test_tiles_of_output_channels_reread_the_features(rng):
    x, w = bytes_of(rng, 4, 5, 3), bytes_of(rng, 6, 3, 3, 3)
    bench = Bench()
    source = bench.buffer("x", (1, *x.shape))
    target = bench.buffer("y", (1, 2, 3, 6), 16)
    weights = bench.constant("w", w)
    unit = Convacc(
        id=0,
        fWidth=5,
        fHeight=4,
        kernelWidth=3,
        kernelHeight=3,
        nKernels=2,
        batchDepth=3,
        shift_o=4,
    )
    units = (
        feature_reader(0, source, 3, 3, frame_offset=0),
        kernel_reader(1, weights, 2 * 27, 3),
        unit,
        writer(2, target, 2, 3),
    )
    found = bench.run(units, PLAIN, {"x": x[None]})
    np.testing.assert_array_equal(found.outputs["y"][0], requantised(convolve(x, w), 4))


def test_feature_stationary(rng):
    """Two frames of features, each kept for three kernel tiles."""
    x, w = bytes_of(rng, 2, 2, 2 * 4), bytes_of(rng, 2, 3, 2, 1, 1, 4)
    bench = Bench()
    source = bench.buffer("x", (1, *x.shape))
    target = bench.buffer("y", (1, 2, 2, 12), 16)
    weights = bench.constant("w", w)
    unit = Convacc(
        id=0,
        fWidth=2,
        fHeight=2,
        kernelWidth=1,
        kernelHeight=1,
        nKernels=2,
        batchDepth=4,
        shift_o=2,
        fstat=1,
        fstatcnt=3,
    )
    units = (
        feature_reader(0, source, 4, 2),
        kernel_reader(1, weights, 8, 6),
        unit,
        writer(2, target, 2, 6),
    )
    found = bench.run(units, PLAIN, {"x": x[None]}).outputs["y"][0]
    for frame in range(2):
        half = x[:, :, 4 * frame : 4 * frame + 4]
        expected = requantised(convolve(half, w[frame].reshape(6, 1, 1, 4)), 2)
        np.testing.assert_array_equal(found[:, :, 6 * frame : 6 * frame + 6], expected)


def inflate(w, group):
    """Depthwise kernels (C, kh, kw) as groups of `group` dense kernels with zeros between."""
    channels, kh, kw = w.shape
    dense = np.zeros((channels, kh, kw, group), np.int8)
    for c in range(channels):
        dense[c, :, :, c % group] = w[c]
    return dense


@pytest.mark.parametrize("group", [1, 4])
def test_depthwise(rng, group):
    x, w = bytes_of(rng, 6, 6, 8), bytes_of(rng, 8, 3, 3)
    frames = 8 // group
    bench = Bench()
    source = bench.buffer("x", (1, *x.shape))
    target = bench.buffer("y", (1, 6, 6, 8), 16)
    weights = bench.constant("w", inflate(w, group))
    unit = Convacc(
        id=0,
        fWidth=6,
        fHeight=6,
        kernelWidth=3,
        kernelHeight=3,
        nKernels=group,
        batchDepth=group,
        shift_o=2,
        top_padding=1,
        bot_padding=1,
        left_padding=1,
        right_padding=1,
    )
    units = (
        feature_reader(0, source, group, frames),
        kernel_reader(1, weights, group * group * 9, frames),
        unit,
        writer(2, target, group, frames),
    )
    found = bench.run(units, PLAIN, {"x": x[None]}).outputs["y"][0]
    for c in range(8):
        sums = convolve(x[:, :, c : c + 1], w[c][None, :, :, None], pads=(1, 1, 1, 1))
        np.testing.assert_array_equal(found[:, :, c : c + 1], requantised(sums, 2))


def test_dss2_words_carry_two_channels(rng):
    """3x3 stride 2 depthwise, two channels a frame, low byte first."""
    x, w = bytes_of(rng, 7, 7, 4), bytes_of(rng, 4, 3, 3)
    bench = Bench()
    source = bench.buffer("x", (1, *x.shape))
    target = bench.buffer("y", (1, 3, 3, 4), 16)
    weights = bench.constant("w", inflate(w, 2))
    unit = Convacc(
        id=0,
        fWidth=7,
        fHeight=7,
        kernelWidth=3,
        kernelHeight=3,
        nKernels=2,
        batchDepth=2,
        hstride=2,
        vstride=2,
        shift_o=1,
        dss2mode=1,
        inbytes_f=2,
    )
    reader = feature_reader(0, source, 1, 2, nbits_in=16, nbits_out=16, frame_offset=2)
    units = (reader, kernel_reader(1, weights, 36, 2), unit, writer(2, target, 2, 2))
    found = bench.run(units, PLAIN, {"x": x[None]}).outputs["y"][0]
    for c in range(4):
        sums = convolve(x[:, :, c : c + 1], w[c][None, :, :, None], strides=(2, 2))
        np.testing.assert_array_equal(found[:, :, c : c + 1], requantised(sums, 1))


@pytest.mark.parametrize("kernel_bits", [8, 24])
@pytest.mark.parametrize("packed", ["straddle", "aligned", "bytes"])
@pytest.mark.parametrize("kernels", [4, 14])
def test_deep(rng, kernels, packed, kernel_bits):
    """Seven channels: not a multiple of the three bytes a word carries."""
    x, w = bytes_of(rng, 3, 5, 7), bytes_of(rng, kernels, 7)
    bench = Bench()
    source = bench.buffer("x", (1, *x.shape))
    target = bench.buffer("y", (1, 3, 5, kernels), 16)
    layout = deep_set(w)
    weights = bench.constant("w", layout)
    unit = Convacc(
        id=0,
        fWidth=5,
        fHeight=3,
        kernelWidth=1,
        kernelHeight=1,
        nKernels=kernels,
        batchDepth=7,
        shift_o=3,
        deepmode=1,
        kseten=3,
        inbytes_f=3 if packed == "straddle" else 1,
    )
    readers = {
        "straddle": Streng(
            id=0,
            dir=0,
            addr_base=Ref("x"),
            raw=1,
            frame_count=35,
            nbits_in=24,
            nbits_out=24,
            frame_tot_cnt=1,
        ),
        "aligned": feature_reader(0, source, 3, nbits_in=24, nbits_out=24),
        "bytes": feature_reader(0, source, 7),
    }
    units = (
        readers[packed],
        kernel_reader(1, weights, len(layout) * 8 // kernel_bits, nbits=kernel_bits),
        unit,
        writer(2, target, kernels),
    )
    found = bench.run(units, PLAIN, {"x": x[None]}).outputs["y"][0]
    np.testing.assert_array_equal(found, requantised(convolve(x, w[:, None, None]), 3))


def test_a_dry_source_is_told(rng):
    x = bytes_of(rng, 2, 2, 2)
    bench = Bench()
    source = bench.buffer("x", (1, *x.shape))
    target = bench.buffer("y", (1, 2, 2, 2))
    units = (feature_reader(0, source, 2), writer(1, target, 2, 3, frame_offset=0))
    with pytest.raises(TargetError, match="STRENG 1 stored 1 of 3 frames") as caught:
        bench.run(units, (link("STRENG0", "STRENG1"),), {"x": x[None]})
    assert caught.value.where == "EpochBlock_1"


@pytest.mark.parametrize("field", ["shift_f", "kt1_mode", "relu_mode_o"])
def test_unknown_fields_are_refused(rng, field):
    with pytest.raises(TargetError, match=f"semantics of CONVACC {field} 1 are not known"):
        run_plain(rng, bytes_of(rng, 1, 1, 1), bytes_of(rng, 1, 1, 1, 1), **{field: 1})
