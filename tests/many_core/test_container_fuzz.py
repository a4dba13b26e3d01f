"""Two thousand damaged containers and buffers: an error with a sentence, or less of the same."""

from __future__ import annotations

import random
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import orjson
import pytest

from many_core import samples
from npuscope.errors import FileError
from npuscope.families.many_core.buffer import read_buffer, sums, write_buffer
from npuscope.families.many_core.buffer_format import ROW, Stats
from npuscope.families.many_core.container import read_program, write_program
from npuscope.families.many_core.networkdesc import decode_networkdesc
from npuscope.families.many_core.qpc import read_qpc, write_qpc
from npuscope.families.many_core.records import SECTIONS, SectionId

PROGRAM = samples.program(samples.layout(devices=2))
CONTAINER = write_program(PROGRAM)
STATS = samples.stats(PROGRAM.layout)
BUFFER = write_buffer(STATS)
EXTREMES = (0, 1, 0x7F, 0xFF, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 53, 1 << 63, (1 << 64) - 1)
ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1 << 40, (1 << 64) - 1, 1e300, "", "x" * 300, [], [[]], {}, {"name": 1},
)  # fmt: skip
# The largest reading may take, however the file lies: far above what these small ones need.
MOST_MEMORY = 48 << 20
_BATCH = 100


@contextmanager
def bounded_memory(batch: int) -> Iterator[None]:
    """Every fourth batch is measured: tracing makes reading six times as slow."""
    if batch % 4:
        yield
        return
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
    finally:
        tracemalloc.stop()


def flipped(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def overwritten(data: bytes, rng: random.Random) -> bytes:
    """An extreme number, most often where headers and tables are."""
    size = rng.choice((1, 2, 4, 8))
    at = rng.randrange(min(len(data), rng.choice((64, 256, 512, len(data)))) - size)
    value = rng.choice(EXTREMES) % (1 << 8 * size)
    return data[:at] + value.to_bytes(size, "little") + data[at + size :]


def shifted(data: bytes, rng: random.Random) -> bytes:
    """Some bytes moved, doubled or lost."""
    first, last = sorted(rng.randrange(len(data)) for _ in range(2))
    last = min(last, first + 300)
    return data[:first] + data[first:last] * rng.choice((0, 2, 3)) + data[last:]


BYTES = (flipped, cut, overwritten, shifted)


def odd_json(data: bytes, rng: random.Random) -> bytes:
    """One value anywhere in it replaced."""
    value = orjson.loads(data)
    node, key = value, rng.choice(list(value))
    while isinstance(node[key], (dict, list)) and node[key] and rng.random() < 0.85:
        node = node[key]
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
    node[key] = rng.choice(ODD_VALUES)
    return orjson.dumps(value)


def odd_segment(data: bytes, rng: random.Random) -> bytes:
    """A container that is whole around a segment that is not."""
    qpc = read_qpc(data)
    segments = {name: qpc.need(name) for name in qpc.names}
    name = rng.choice(list(segments))
    as_json = name in ("osb.layout", "osb.prog") and rng.random() < 0.8
    body = segments[name]
    segments[name] = (odd_json if as_json else rng.choice(BYTES))(body, rng)
    return write_qpc(segments)


def odd_records(data: bytes, rng: random.Random) -> bytes:
    """Records that are wrong though their CRC is right: numbers, doubles, cores that are gone."""
    sections = dict(STATS.sections)
    key = rng.choice(list(SectionId))
    rows = sections[key].copy()
    for _ in range(rng.choice((1, 3, 20)) if len(rows) else 0):
        name = rng.choice(rows.dtype.names)
        largest = (1 << 8 * rows.dtype[name].itemsize) - 1
        rows[name][rng.randrange(len(rows))] = rng.choice(EXTREMES) & largest
    if rng.random() < 0.3:
        rows = np.concatenate([rows, rows[: rng.randrange(len(rows) + 1)]])
    if rng.random() < 0.2 and "core" in rows.dtype.names:
        rows = rows[rows["core"] != 1]
    return write_buffer(samples.with_rows(STATS, key, rows))


def odd_contents(data: bytes, rng: random.Random) -> bytes:
    """A row of the table of contents with another number, its CRC made right where it can be."""
    rows = np.frombuffer(data, ROW, 11, 64).copy()
    row = rng.randrange(len(rows))
    name = rng.choice(("id", "record_bytes", "offset", "count", "flags"))
    largest = (1 << 8 * ROW[name].itemsize) - 1
    rows[name][row] = rng.choice((*EXTREMES, *range(12))) & largest
    start, size = int(rows["offset"][row]), int(rows["count"][row]) * int(rows["record_bytes"][row])
    rows["crc32"][row] = zlib.crc32(data[start : start + size])
    return data[:64] + rows.tobytes() + data[64 + rows.nbytes :]


def read_container(data: bytes) -> None:
    for read in (read_program, _descriptor):
        try:
            read(data)
        except FileError as error:
            assert error.message


def _descriptor(data: bytes) -> object:
    return decode_networkdesc(read_qpc(data).need("networkdesc.bin"))


def read_stats(data: bytes) -> None:
    for ignore in (False, True):
        try:
            stats = read_buffer(data, PROGRAM.layout, "x", ignore_uuid=ignore)
        except FileError as error:
            assert error.message
        else:
            _check_stats(stats)


def _check_stats(stats: Stats) -> None:
    """What is left keeps its promises, and what is gone was told."""
    found = sums(stats)
    assert (found.ucycles >= 0).all()
    for key, rows in stats.sections.items():
        assert rows.dtype == SECTIONS[key].dtype
        if "core" in rows.dtype.names and len(rows):
            assert int(rows["core"].max()) < PROGRAM.layout.cores
    absent = len(stats.sections) < len(STATS.sections)
    spans = stats.of(SectionId.THREAD_INF)
    assert absent or len(np.unique(spans["core"])) == PROGRAM.layout.cores or stats.notes


CONTAINER_DAMAGE: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *BYTES,
    *(odd_segment,) * 6,
)
BUFFER_DAMAGE = (*BYTES, *(odd_records,) * 3, *(odd_contents,) * 3)


@pytest.mark.parametrize("batch", range(1000 // _BATCH))
def test_damaged_containers(batch: int) -> None:
    with bounded_memory(batch):
        for seed in range(batch * _BATCH, (batch + 1) * _BATCH):
            rng = random.Random(seed)
            read_container(rng.choice(CONTAINER_DAMAGE)(CONTAINER, rng))


@pytest.mark.parametrize("batch", range(1000 // _BATCH))
def test_damaged_buffers(batch: int) -> None:
    with bounded_memory(batch):
        for seed in range(batch * _BATCH, (batch + 1) * _BATCH):
            rng = random.Random(10_000 + seed)
            read_stats(rng.choice(BUFFER_DAMAGE)(BUFFER, rng))
