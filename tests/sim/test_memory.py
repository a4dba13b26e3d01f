"""Memory images: layouts, overlapping pools, bounds."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.errors import TargetError
from npuscope.program.model import Buffer, Pool, Program
from npuscope.program.units import Ref
from npuscope.sim.memory import Memory
from npuscope.structs import replace


def pool(name="ram", address=0x1000, size=4096, **more):
    return Pool(name, address, size, 8, 1.0, **more)


def program(buffers, pools=(), constants=None):
    return Program(
        "m",
        "stm32n6",
        "open",
        True,
        tuple(pools or (pool(),)),
        tuple(buffers),
        (),
        (),
        (),
        constants or {},
    )


def buffer(name="b", shape=(1, 2, 3, 6), nbits=8, batch=6, size=None, **more):
    size = size or int(np.prod(shape)) * nbits // 8
    return Buffer(name, size, shape, nbits, batch, **({"pool": "ram"} | more))


@pytest.mark.parametrize("batch", [1, 2, 3, 6])
def test_blocks_of_channels(batch):
    """Stored as [C / batch][H][W][batch]."""
    memory = Memory(program([buffer(batch=batch)]))
    values = np.arange(36, dtype=np.int8).reshape(1, 2, 3, 6)
    memory.write("b", values)
    stored = memory.span(0x1000, 36)
    expected = [
        values[0, y, x, block * batch + c]
        for block in range(6 // batch)
        for y in range(2)
        for x in range(3)
        for c in range(batch)
    ]
    assert stored.tolist() == expected
    np.testing.assert_array_equal(memory.read("b"), values)


@pytest.mark.parametrize(
    ("nbits", "more", "values"),
    [
        (8, {"signed": False}, [0, 255]),
        (16, {}, [-32768, 7]),
        (32, {"is_float": True}, [1.5, -0.25]),
        (64, {}, [-1, 1 << 40]),
    ],
)
def test_element_types(nbits, more, values):
    memory = Memory(program([buffer(shape=(2,), nbits=nbits, batch=2, **more)]))
    memory.write("b", np.array(values))
    assert memory.read("b").tolist() == values


def test_reading_gives_a_copy():
    memory = Memory(program([buffer()]))
    before = memory.read("b")
    memory.write("b", np.ones((1, 2, 3, 6)))
    assert not before.any()


def test_a_virtual_pool_shares_bytes_with_its_subpools():
    pools = (
        pool("all", 0x1000, 128, subpools=("low", "high")),
        pool("low", 0x1000, 64),
        pool("high", 0x1040, 64),
    )
    wide = Buffer("wide", 128, (128,), 8, 128, "all")
    narrow = Buffer("narrow", 8, (8,), 8, 8, "high", 4)
    memory = Memory(program([wide, narrow], pools))
    memory.write("narrow", np.arange(1, 9))
    assert memory.read("wide")[68:76].tolist() == list(range(1, 9))


def test_constants_are_loaded():
    data = np.array([1, -2, 300], np.int16)
    memory = Memory(program([buffer("w", (6,), batch=6, offset=32)], constants={"w": data}))
    assert memory.span(memory.address(Ref("w")), 6).view("<i2").tolist() == [1, -2, 300]


def test_far_pools_cost_nothing():
    """A pool of a terabyte is only as large as what lies in it."""
    memory = Memory(program([buffer(offset=1 << 39)], [pool(size=1 << 40)]))
    memory.write("b", np.ones((1, 2, 3, 6)))
    assert memory.read("b").all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"offset": 4090}, "is outside of pool 'ram'"),
        ({"offset": -1}, "is outside of pool 'ram'"),
        ({"pool": "rom"}, "is in no pool"),
    ],
)
def test_misplaced_buffers(changes, message):
    with pytest.raises(TargetError, match=message):
        Memory(program([replace(buffer(), **changes)]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 4}, "6 channels in blocks of 4"),
        ({"nbits": 24}, "elements of 24 bits"),
        ({"size_bytes": 35}, "has only 35 bytes"),
    ],
)
def test_layouts_nobody_knows(changes, message):
    with pytest.raises(TargetError, match=message):
        Memory(program([replace(buffer(), **changes)])).read("b")


def test_windows_stay_inside():
    memory = Memory(program([buffer()]))
    with pytest.raises(TargetError, match="outside of every buffer"):
        memory.span(0x1000, 100)
    with pytest.raises(TargetError, match="outside of every buffer"):
        memory.window(0x1000, (4, 4), (-8, 1), np.dtype(np.uint8))
