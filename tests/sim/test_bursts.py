"""Bursts and cache lines against a walker that goes byte by byte."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from npuscope.program.units import Ref, Streng
from npuscope.sim.counters import Bursts, count_bursts, engine_runs, lines_touched

GEOMETRIES = 150


# The walker: the engine's definition, nothing else.


def places(engine: Streng, address: int) -> Iterator[list[int]]:
    """Addresses of a frame's elements, in order, frame by frame."""
    width = engine.element_bytes
    line = engine.line_offset or engine.fwidth * engine.batch_offset
    if engine.raw:
        inside = [n * width for n in range(engine.frame_elements)]
    else:
        inside = [
            y * line + x * engine.batch_offset + d * width
            for y in range(engine.fheight)
            for x in range(engine.fwidth)
            for d in range(engine.batch_depth)
        ]
    for frame in range(engine.frames):
        start = address + frame_offset(engine, frame, len(inside) * width, line * engine.fheight)
        yield [start + offset for offset in inside]


def frame_offset(engine: Streng, frame: int, raw_bytes: int, raster_bytes: int) -> int:
    step = engine.frame_offset
    if engine.continuous:
        step = raw_bytes if engine.raw else raster_bytes
    loop = engine.frame_loop_cnt
    if not loop:
        return frame * step
    return frame % loop * step + frame // loop * engine.loop_offset


def contiguous(engine: Streng, address: int) -> Iterator[list[int]]:
    """Runs of adjoining bytes; a new frame always starts a new one."""
    for frame in places(engine, address):
        run: list[int] = []
        for place in frame:
            if run and place != run[-1] + 1:
                yield run
                run = []
            run.extend(range(place, place + engine.element_bytes))
        yield run


def walked(engine: Streng, address: int) -> tuple[Bursts, int]:
    """(bursts of 1, 2, 4 and 8 beats, lines of 64 bytes)."""
    bursts = dict.fromkeys((1, 2, 4, 8), 0)
    lines = 0
    for run in contiguous(engine, address):
        lines += len({byte // 64 for byte in run})
        beats: dict[int, set[int]] = {}
        for byte in run:
            beats.setdefault(byte // 64, set()).add(byte // 8)
        for block in beats.values():
            left = len(block)
            for size in (8, 4, 2, 1):
                bursts[size] += left // size
                left %= size
    return tuple(bursts.values()), lines


def counted(engine: Streng, address: int) -> tuple[Bursts, int]:
    runs = engine_runs(engine, address)
    return count_bursts(runs), lines_touched(runs, 64)


# Random geometries of every kind.


def engine(nbits: int, **settings: int) -> Streng:
    return Streng(id=0, dir=0, addr_base=Ref("x"), nbits_in=nbits, nbits_out=nbits, **settings)


def raw(rng: random.Random, **more: int) -> Streng:
    frame = {"raw": 1, "frame_count": rng.randint(1, 150), "frame_offset": rng.randint(0, 300)}
    frame["frame_tot_cnt"] = rng.randint(1, 70)
    return engine(rng.choice((8, 16, 24)), **frame | more)


def raster(rng: random.Random, gap: int = 0, **more: int) -> Streng:
    """Pixels `gap` bytes apart; lines with or without a step of their own."""
    nbits, depth, width = rng.choice((8, 16, 24)), rng.randint(1, 20), rng.randint(1, 9)
    pixel = depth * nbits // 8 + gap
    line = width * pixel + rng.choice((0, rng.randint(1, 40)))
    frame = {
        "fwidth": width,
        "fheight": rng.randint(1, 6),
        "batch_depth": depth,
        "batch_offset": pixel,
        "line_offset": rng.choice((0, line)),
        "frame_offset": rng.randint(0, 300),
        "frame_tot_cnt": rng.randint(1, 5),
    }
    return engine(nbits, **frame | more)


def loop(rng: random.Random) -> dict[str, int]:
    count = rng.randint(1, 4)
    frames = count * rng.randint(1, 4)
    offset = rng.choice((0, rng.randint(1, 300)))
    return {"frame_loop_cnt": count, "frame_tot_cnt": frames, "loop_offset": offset}


KINDS = {
    "raw": raw,
    "raw, continuous": lambda rng: raw(rng, continuous=1),
    "raster": raster,
    "strided": lambda rng: raster(rng, gap=rng.randint(1, 70)),
    "single bytes": lambda rng: raster(rng, gap=rng.randint(1, 70), batch_depth=1),
    "loops": lambda rng: raster(rng, **loop(rng)),
    "strided loops": lambda rng: raster(rng, gap=rng.randint(1, 70), **loop(rng)),
}


def check(make, kind: str) -> None:
    rng = random.Random(kind)
    for _ in range(GEOMETRIES):
        made, address = make(rng), rng.randint(0, 500)
        assert counted(made, address) == walked(made, address), (made, address)


@pytest.mark.parametrize("kind", KINDS)
def test_random_geometries(kind):
    check(KINDS[kind], kind)


def test_a_loop_cut_short():
    check(lambda rng: raster(rng, frame_loop_cnt=4, frame_tot_cnt=6, loop_offset=50), "short")


def test_raw_loops():
    check(lambda rng: raw(rng, **loop(rng)), "raw loops")


def test_continuous_raster_frames():
    check(lambda rng: raster(rng, continuous=1), "continuous")


# By hand.


@pytest.mark.parametrize(
    ("address", "length", "bursts", "lines"),
    [
        (0, 64, (0, 0, 0, 1), 1),
        (0, 1, (1, 0, 0, 0), 1),
        (7, 2, (0, 1, 0, 0), 1),  # two beats touched by two bytes
        (63, 2, (2, 0, 0, 0), 2),  # a burst never crosses a block
        (8, 56, (1, 1, 1, 0), 1),
        (3, 61, (0, 0, 0, 1), 1),  # rounded to beats it is a whole block
        (0, 4608, (0, 0, 0, 72), 72),
        (16, 1764, (1, 2, 2, 26), 28),  # partial sums of a published profile
    ],
)
def test_one_run(address, length, bursts, lines):
    assert counted(engine(8, raw=1, frame_count=length), address) == (bursts, lines)


def test_strided_elements_are_single_beats():
    """What dominates a published keyword-spotting profile."""
    apart = engine(8, fwidth=100, fheight=10, batch_depth=1, batch_offset=10)
    assert counted(apart, 0)[0] == (1000, 0, 0, 0)


def test_big_frames_cost_no_more_than_small_ones():
    """Histogram of start offsets, not a list of runs: a million strided pixels are counted."""
    apart = engine(8, fwidth=1000, fheight=1000, batch_depth=3, batch_offset=16)
    runs = engine_runs(apart, 0)
    assert runs.count == 1_000_000 and runs.starts.shape == (64,)
    assert count_bursts(runs) == (1_000_000, 0, 0, 0)
