"""Sums over several units and passes: series pipes, partial sums in memory, loops."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.program.modes import AfiltMode, ArithOp, Bcast
from npuscope.program.units import Arith, Convacc
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


SERIES = (
    link("STRENG0", "CONVACC0"),
    link("STRENG1", "CONVACC1"),
    link("STRENG2", "CONVACC0.1"),
    link("STRENG2", "CONVACC1.1"),
    link("CONVACC0", "CONVACC1.2"),
    link("CONVACC1", "STRENG3"),
)


# Partial sums go out and come back at one place.
SAME_PLACE = {"frame_loop_cnt": 1, "loop_offset": 0, "frame_offset": 0}


@pytest.mark.parametrize("deep", [False, True])
def test_series_pipe_shares_one_kernel_stream(rng, deep):
    """Two units, half of the channels each; only the last shifts and narrows."""
    x, w = bytes_of(rng, 4, 3, 10), bytes_of(rng, 6, 10)
    bench = Bench()
    source = bench.buffer("x", (1, *x.shape))
    target = bench.buffer("y", (1, 4, 3, 6), 16)
    halves = [w[:, :5], w[:, 5:]]
    stored = [deep_set(half) if deep else half.reshape(-1) for half in halves]
    weights = bench.constant("w", np.concatenate(stored))
    common = {
        "fWidth": 3,
        "fHeight": 4,
        "kernelWidth": 1,
        "kernelHeight": 1,
        "nKernels": 6,
        "batchDepth": 5,
        "kfilt_tot": 12,
        "deepmode": int(deep),
    }
    first = Convacc(id=0, outbytes_o=3, kfilt_first=0, kfilt_last=5, **common)
    last = Convacc(
        id=1, accumulate=1, accumulate_first=1, shift_o=4, kfilt_first=6, kfilt_last=11, **common
    )
    total = sum(len(half) for half in stored)
    units = (
        feature_reader(0, source, 5),
        feature_reader(1, source, 5, offset_start=5),
        kernel_reader(2, weights, total),
        first,
        last,
        writer(3, target, 6),
    )
    found = bench.run(units, SERIES, {"x": x[None]}).outputs["y"][0]
    np.testing.assert_array_equal(found, requantised(convolve(x, w[:, None, None]), 4))


def passes_expected(x, w, passes, depth, shift):
    """Each pass rounds and saturates to 16 bits, and enters the next one shifted back."""
    total = np.zeros((*x.shape[:2], len(w)), np.int64)
    for index in range(passes):
        part = slice(index * depth, (index + 1) * depth)
        sums = convolve(x[:, :, part], w[:, None, None, part]) + (total << shift)
        total = requantised(sums, shift)
    return total


@pytest.mark.parametrize("tiles", [1, 3])
def test_passes_through_memory(rng, tiles):
    """Partial sums go out and come back at one place; the last pass alone goes on."""
    passes, depth, kernels, shift = 4, 3, 2, 3
    x, w = bytes_of(rng, 3, 4, passes * depth), bytes_of(rng, tiles * kernels, passes * depth)
    bench = Bench()
    source = bench.buffer("x", (1, *x.shape))
    partial = bench.buffer("partial", (1, 3, 4, kernels), 16)
    target = bench.buffer("y", (1, 3, 4, tiles * kernels), 16)
    order = w.reshape(tiles, kernels, passes, depth).transpose(0, 2, 1, 3)
    weights = bench.constant("w", order)
    unit = Convacc(
        id=0,
        fWidth=4,
        fHeight=3,
        kernelWidth=1,
        kernelHeight=1,
        nKernels=kernels,
        batchDepth=depth,
        shift_o=shift,
        shift_a=shift,
        accumulate=1,
        accumulate_first=1,
        afilt_mode=AfiltMode.FRAMEZERO,
        afilt_tot=passes,
        afilt_first=1,
        afilt_last=passes - 1,
    )
    frames = tiles * passes
    units = (
        feature_reader(0, source, depth, frames, frame_loop_cnt=passes),
        kernel_reader(1, weights, kernels * depth, frames),
        unit,
        feature_reader(2, partial, kernels, frames, **SAME_PLACE),
        writer(3, partial, kernels, frames, **SAME_PLACE),
        writer(4, target, kernels, tiles),
    )
    links = (
        link("STRENG0", "CONVACC0"),
        link("STRENG1", "CONVACC0.1"),
        link("STRENG2", "CONVACC0.2"),
        link("CONVACC0", "STRENG3"),
        link("CONVACC0", "STRENG4", enable0=False, frames0=passes - 1, enable1=True, frames1=1),
    )
    found = bench.run(units, links, {"x": x[None]}).outputs["y"][0]
    np.testing.assert_array_equal(found, passes_expected(x, w, passes, depth, shift))


def pipe_of_two(passes, depth, kernels, shift):
    """Sums in memory enter the first unit and leave the last; each has half of the kernels."""
    common = {
        "fWidth": 3,
        "fHeight": 4,
        "kernelWidth": 1,
        "kernelHeight": 1,
        "nKernels": kernels,
        "batchDepth": depth,
        "kfilt_tot": 2 * kernels,
        "accumulate": 1,
        "accumulate_first": 1,
    }
    first = Convacc(
        id=0,
        outbytes_o=3,
        shift_a=shift,
        kfilt_last=kernels - 1,
        afilt_mode=AfiltMode.FRAMEZERO,
        afilt_tot=passes,
        afilt_first=1,
        afilt_last=passes - 1,
        **common,
    )
    last = Convacc(id=1, shift_o=shift, kfilt_first=kernels, kfilt_last=2 * kernels - 1, **common)
    return first, last


def scaling_tail(channels, kernels, scales):
    """One scale a channel, a tile of `kernels` channels at a time."""
    return Arith(
        id=0,
        operation=ArithOp.AFFINE,
        fWidth=3,
        fHeight=4,
        batchDepth=kernels,
        fChannels=channels,
        bcast=Bcast.CHAN,
        A_vector=scales,
        shift_o=16,
    )


def test_pipe_with_passes_and_a_requantising_tail(rng):
    """Two units in series, three passes, two tiles; sums enter the first unit of the pipe."""
    tiles, passes, depth, kernels, shift = 2, 3, 4, 3, 4
    channels = passes * 2 * depth
    x, w = bytes_of(rng, 4, 3, channels), bytes_of(rng, tiles * kernels, channels)
    bench = Bench()
    source = bench.buffer("x", (1, *x.shape))
    partial = bench.buffer("partial", (1, 4, 3, kernels), 16)
    target = bench.buffer("y", (1, 4, 3, tiles * kernels))
    order = w.reshape(tiles, kernels, passes, 2, depth).transpose(0, 2, 3, 1, 4)
    weights = bench.constant("w", order)
    scales = rng.integers(1, 2000, tiles * kernels, dtype=np.int16)
    frames = tiles * passes
    loop = {"frame_offset": 2 * depth, "frame_loop_cnt": passes}
    units = (
        feature_reader(0, source, depth, frames, **loop),
        feature_reader(1, source, depth, frames, offset_start=depth, **loop),
        kernel_reader(2, weights, 2 * kernels * depth, frames),
        feature_reader(3, partial, kernels, frames, **SAME_PLACE),
        writer(4, partial, kernels, frames, **SAME_PLACE),
        writer(5, target, kernels, tiles),
        *pipe_of_two(passes, depth, kernels, shift),
        scaling_tail(tiles * kernels, kernels, bench.constant("a", scales)),
    )
    last_pass = {"enable0": False, "frames0": passes - 1, "enable1": True, "frames1": 1}
    links = (
        *SERIES[:5],
        link("STRENG3", "CONVACC0.2"),
        link("CONVACC1", "STRENG4"),
        link("CONVACC1", "ARITH0", **last_pass),
        link("ARITH0", "STRENG5"),
    )
    found = bench.run(units, links, {"x": x[None]}).outputs["y"][0]
    sums = passes_expected(x, w, passes, 2 * depth, shift)
    np.testing.assert_array_equal(found, requantised(sums * scales, 16, 1))


@pytest.mark.parametrize(
    "first",
    [
        {"accumulate_first": 0},
        {"accumulate_first": 1, "accumulate_gen_first": 1},
    ],
)
def test_output_looped_back_to_its_own_port(rng, first):
    passes, depth, shift = 3, 2, 2
    x, w = bytes_of(rng, 2, 3, passes * depth), bytes_of(rng, 2, passes * depth)
    bench = Bench()
    source = bench.buffer("x", (1, *x.shape))
    target = bench.buffer("y", (1, 2, 3, 2), 16)
    weights = bench.constant("w", w.reshape(2, passes, depth).transpose(1, 0, 2))
    unit = Convacc(
        id=0,
        fWidth=3,
        fHeight=2,
        kernelWidth=1,
        kernelHeight=1,
        nKernels=2,
        batchDepth=depth,
        shift_o=shift,
        shift_a=shift,
        accumulate=1,
        **first,
    )
    units = (
        feature_reader(0, source, depth, passes),
        kernel_reader(1, weights, 4, passes),
        unit,
        writer(2, target, 2),
    )
    links = (
        link("STRENG0", "CONVACC0"),
        link("STRENG1", "CONVACC0.1"),
        link("CONVACC0", "CONVACC0.2"),
        link("CONVACC0", "STRENG2", enable0=False, frames0=passes - 1, enable1=True, frames1=1),
    )
    found = bench.run(units, links, {"x": x[None]}).outputs["y"][0]
    np.testing.assert_array_equal(found, passes_expected(x, w, passes, depth, shift))
