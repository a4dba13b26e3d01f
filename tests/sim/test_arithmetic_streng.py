"""Stream engines and the switch: addresses, widths, signs, contexts, re-chunking."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.errors import TargetError
from npuscope.program.addresses import frame_start, reach
from npuscope.program.modes import ArithOp
from npuscope.program.units import Arith, Link, Port, Ref, Streng
from npuscope.sim.arithmetic.streams import Contexts, Inbox
from sim.bench import Bench, feature_reader, link, writer

COPY = (link("STRENG0", "STRENG1"),)


@pytest.fixture
def rng():
    return np.random.default_rng(23)


@pytest.mark.parametrize("nbits", [8, 16])
def test_raster_copy_of_a_block_of_channels(rng, nbits):
    """Channels 2 and 3 of 6 into a dense buffer."""
    x = rng.integers(-100, 100, (1, 3, 4, 6)).astype(f"i{nbits // 8}")
    bench = Bench()
    source, target = bench.buffer("x", x.shape, nbits), bench.buffer("y", (1, 3, 4, 2), nbits)
    reader = feature_reader(0, source, 2, offset_start=2 * nbits // 8)
    found = bench.run((reader, writer(1, target, 2)), COPY, {"x": x})
    np.testing.assert_array_equal(found.outputs["y"], x[..., 2:4])


def test_copy_of_24_bit_elements(rng):
    x = rng.integers(-128, 128, (1, 1, 1, 24), dtype=np.int8)
    bench = Bench()
    bench.buffer("x", x.shape), bench.buffer("y", x.shape)
    raw = {"raw": 1, "frame_count": 8, "nbits_in": 24, "nbits_out": 24}
    units = (
        Streng(id=0, dir=0, addr_base=Ref("x"), **raw),
        Streng(id=1, dir=1, addr_base=Ref("y"), **raw),
    )
    np.testing.assert_array_equal(bench.run(units, COPY, {"x": x}).outputs["y"], x)


def test_frames_are_cut_anew_by_the_consumer(rng):
    """Two frames of 12 into three of 8: the words keep their order."""
    x = rng.integers(-128, 128, (1, 1, 1, 24), dtype=np.int8)
    bench = Bench()
    bench.buffer("x", x.shape), bench.buffer("y", x.shape)
    units = (
        Streng(
            id=0, dir=0, addr_base=Ref("x"), raw=1, frame_count=12, continuous=1, frame_tot_cnt=2
        ),
        Streng(
            id=1, dir=1, addr_base=Ref("y"), raw=1, frame_count=8, continuous=1, frame_tot_cnt=3
        ),
    )
    np.testing.assert_array_equal(bench.run(units, COPY, {"x": x}).outputs["y"], x)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [250, 3]),  # zero fill: an 8-bit engine at a 16-bit port delivers 0..255
        ({"align_right": 1, "nbits_out": 16}, [-6, 3]),
        ({"align_right": 1, "nbits_out": 16, "nbits_unsigned": 1}, [250, 3]),
    ],
)
def test_sign_extension(settings, expected):
    bench = Bench()
    source, target = bench.buffer("x", (1, 1, 1, 2)), bench.buffer("y", (1, 1, 1, 2), 16)
    unit = Arith(
        id=0,
        operation=ArithOp.AFFINE,
        fWidth=1,
        fHeight=1,
        fChannels=2,
        batchDepth=2,
        scalar=1,
        A_scalar=1,
        outbytes_o=2,
    )
    units = (feature_reader(0, source, 2, **settings), unit, writer(1, target, 2))
    links = (link("STRENG0", "ARITH0"), link("ARITH0", "STRENG1"))
    found = bench.run(units, links, {"x": np.array([-6, 3], np.int8).reshape(1, 1, 1, 2)})
    assert found.outputs["y"].ravel().tolist() == expected


def test_left_placement_is_refused():
    bench = Bench()
    source, target = bench.buffer("x", (1, 1, 1, 1)), bench.buffer("y", (1, 1, 1, 1), 16)
    units = (feature_reader(0, source, 1, nbits_out=16), writer(1, target, 1))
    with pytest.raises(TargetError, match="8 bits in memory and 16 bits on the link"):
        bench.run(units, COPY, {"x": np.zeros((1, 1, 1, 1), np.int8)})


def by_loops(engine):
    """All bytes an engine touches, one element at a time."""
    line = engine.line_offset or engine.fwidth * engine.batch_offset
    for frame in range(engine.frames):
        loop = engine.frame_loop_cnt
        start = frame * engine.frame_offset
        if loop:
            start = frame % loop * engine.frame_offset + frame // loop * engine.loop_offset
        assert frame_start(engine, frame) == start
        for y in range(engine.fheight):
            for x in range(engine.fwidth):
                for d in range(engine.batch_depth):
                    place = y * line + x * engine.batch_offset + d * engine.element_bytes
                    yield from range(start + place, start + place + engine.element_bytes)


def test_reach_is_the_extent_of_all_bytes(rng):
    for _ in range(200):
        loop, frames, loop_offset, frame_offset, line = (
            int(rng.integers(low, high))
            for low, high in ((0, 5), (1, 12), (-40, 40), (-9, 30), (0, 40))
        )
        engine = Streng(
            id=0,
            dir=0,
            addr_base=Ref("x"),
            fwidth=3,
            fheight=2,
            batch_depth=2,
            batch_offset=4,
            line_offset=line,
            frame_offset=frame_offset,
            frame_loop_cnt=loop,
            loop_offset=loop_offset,
            frame_tot_cnt=frames,
            nbits_in=16,
            nbits_out=16,
        )
        touched = list(by_loops(engine))
        assert reach(engine) == (min(touched), max(touched) + 1)


def passed(frames, **contexts):
    link = Link(Port("STRENG", 0), Port("STRENG", 1), **contexts)
    state = Contexts(link)
    return [state.let_pass() for _ in range(frames)]


@pytest.mark.parametrize(
    ("contexts", "expected"),
    [
        ({}, "11111111"),
        ({"enable0": False}, "00000000"),
        ({"enable0": False, "frames0": 3, "enable1": True, "frames1": 1}, "00010001"),
        ({"enable0": True, "frames0": 2, "enable1": False, "frames1": 255}, "11000000"),
        ({"enable0": False, "frames0": 2, "enable1": True, "frames1": 0}, "00111111"),
    ],
)
def test_contexts_alternate(contexts, expected):
    assert "".join(str(int(one)) for one in passed(8, **contexts)) == expected


def test_inbox_keeps_the_order_of_words(rng):
    inbox = Inbox(Link(Port("STRENG", 0), Port("STRENG", 1)))
    words = np.arange(60, dtype=np.int32)
    for piece in np.split(words, [7, 8, 20, 33, 50]):
        inbox.put(piece)
    taken = [inbox.take(size) for size in (3, 4, 20, 1, 30, 2)]
    np.testing.assert_array_equal(np.concatenate(taken), words)
    assert inbox.words == 0 and not inbox.holds(1)
