"""Stats buffers: bytes, levels, damage, records that cannot be right, and sums."""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise

import numpy as np
import pytest

from many_core import samples
from npuscope.errors import FileError, InternalError
from npuscope.families.many_core.buffer import read_buffer, write_buffer
from npuscope.families.many_core.buffer_format import ROW, Stats, collected
from npuscope.families.many_core.layout import Layout, Pmu
from npuscope.families.many_core.records import LEVELS, SECTIONS, SectionId
from npuscope.structs import replace

LAYOUT = samples.layout()
STATS = samples.stats()
DATA = write_buffer(STATS)


def read(data: bytes, layout: Layout = LAYOUT, *, ignore_uuid: bool = False) -> Stats:
    return read_buffer(data, layout, STATS.name, ignore_uuid=ignore_uuid)


def refused(data: bytes, layout: Layout = LAYOUT) -> str:
    with pytest.raises(FileError) as caught:
        read(data, layout)
    return str(caught.value)


def contents(data: bytes) -> np.ndarray:
    return np.frombuffer(data, ROW, struct.unpack_from("<I", data, 44)[0], 64)


def section_bytes(data: bytes) -> dict[int, bytes]:
    return {
        int(row["id"]): data[row["offset"] : row["offset"] + row["count"] * row["record_bytes"]]
        for row in contents(data)
    }


def same(one: Stats, other: Stats) -> bool:
    if replace(one, sections={}) != replace(other, sections={}):
        return False
    keys = list(one.sections) == list(other.sections)
    return keys and all(np.array_equal(one.of(key), other.of(key)) for key in one.sections)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("devices", [1, 2])
def test_what_is_written_reads_the_same(level: int, devices: int) -> None:
    layout = samples.layout(level=level, devices=devices)
    stats = samples.stats(layout, device=devices - 1, inference=213)
    assert same(read_buffer(write_buffer(stats), layout, stats.name), stats)


def test_the_header_byte_by_byte() -> None:
    stats = replace(samples.stats(level=70, inference=5), device=3)
    data = write_buffer(stats)
    assert data[:8] == b"OSBSTAT1"
    assert struct.unpack_from("<HHI", data, 8) == (1, 1, 0x01020304)
    assert data[16:32].hex() == samples.UUID
    assert struct.unpack_from("<4H2I2Q", data, 32) == (70, 2, 6, 3, 0, 10, 5, samples.UTC_NS)


def test_sections_are_aligned_and_sealed() -> None:
    bodies = section_bytes(DATA)
    for row in contents(DATA):
        section = SECTIONS[SectionId(row["id"])]
        assert row["offset"] % 64 == 0
        assert (row["record_bytes"], row["min_level"]) == (
            section.dtype.itemsize,
            section.min_level,
        )
        assert row["crc32"] == zlib.crc32(bodies[int(row["id"])])
    assert list(contents(DATA)["id"]) == list(range(1, 12))
    sizes = {SectionId(row["id"]).name: int(row["record_bytes"]) for row in contents(DATA)}
    assert [sizes[name] for name in ("THREAD_INF", "PMU_THREAD", "OP_REC", "OP_PMU")] == [
        40,
        72,
        56,
        40,
    ]


@pytest.mark.parametrize("seed", range(12))
def test_a_level_holds_all_that_lower_ones_do(seed: int) -> None:
    """The property that makes levels additive: whole sections are added, none is changed."""
    random = np.random.default_rng(seed)
    layout = samples.layout(
        cores=int(random.integers(1, 6)),
        pmu=samples.RECIPE if random.integers(2) else Pmu(),
        ddr=bool(random.integers(2)),
        repeat=int(random.integers(1, 4)),
    )
    found = [section_bytes(write_buffer(samples.stats(layout, level=level))) for level in LEVELS]
    for lower, higher in pairwise(found):
        assert lower.items() <= higher.items()
    # Level 100 adds counters of ops only where there are counters.
    assert [len(one) for one in found[:3]] == sorted({len(one) for one in found[:3]})
    assert (len(found[3]) > len(found[2])) == bool(layout.pmu.events)


def test_the_writer_leaves_out_what_was_not_asked_for() -> None:
    plain = samples.layout(level=50, pmu=Pmu(), ddr=False)
    everything = replace(STATS, layout=plain, level=50)
    kept = read(write_buffer(everything), plain)
    assert {key.name for key in kept.sections} == {
        "THREAD_INF",
        "THREAD_ACT",
        "PORT_WAIT",
        "PORT_RING",
        "SEM_OP",
    }
    assert set(collected(40, LAYOUT)) - set(collected(40, plain)) == {
        SectionId.PMU_THREAD,
        SectionId.DDR_CORE,
    }


def test_records_of_another_type_are_our_own_mistake() -> None:
    wrong = samples.with_rows(STATS, SectionId.OP_REC, STATS.of(SectionId.DMA_REC))
    with pytest.raises(InternalError, match="records of OP_REC have another type"):
        write_buffer(wrong)


def test_records_are_views_of_the_file() -> None:
    assert np.shares_memory(read(DATA).of(SectionId.OP_REC), np.frombuffer(DATA, np.uint8))


def test_a_buffer_of_another_program() -> None:
    other = replace(LAYOUT, program_uuid="f" * 32)
    text = refused(DATA, other)
    assert samples.UUID in text
    assert "f" * 32 in text
    assert "--ignore-uuid" in text
    stats = read(DATA, other, ignore_uuid=True)
    assert stats.notes[0].startswith("decoded with the layout of another program")
    assert len(stats.of(SectionId.OP_REC)) == len(STATS.of(SectionId.OP_REC))


def test_another_program_with_fewer_cores_leaves_its_own() -> None:
    small = replace(samples.layout(cores=1), program_uuid="f" * 32)
    stats = read(DATA, small, ignore_uuid=True)
    assert set(stats.of(SectionId.OP_REC)["core"]) == {0}
    assert "the buffer says 2 cores of 6 threads, the program has 1 of 6" in stats.notes
    assert "OP_REC: 28 of 56 records dropped: op not in the program (28)" in stats.notes


@pytest.mark.parametrize("end", range(0, len(DATA), 61))
def test_cut_off_leaves_whole_sections(end: int) -> None:
    rows = contents(DATA)
    whole = [
        SectionId(row["id"])
        for row in rows
        if row["offset"] + row["count"] * row["record_bytes"] <= end
    ]
    # Empty sections have no bytes to lose, but a file in which only they are left is not whole.
    if end < 64 + rows.nbytes or not whole:
        refused(DATA[:end])
        return
    stats = read(DATA[:end])
    assert list(stats.sections) == whole
    for row in rows:
        name = SectionId(row["id"]).name
        lost = f"{name}: the file ends inside its {int(row['count']):,} records"
        assert (lost in stats.notes) == (SectionId[name] not in whole)


def test_a_damaged_section_is_left_out() -> None:
    row = contents(DATA)[7]
    at = int(row["offset"]) + 100
    damaged = DATA[:at] + bytes([DATA[at] ^ 1]) + DATA[at + 1 :]
    stats = read(damaged)
    assert stats.notes == ("OP_REC: its 56 records are damaged (wrong CRC)",)
    assert not stats.has(SectionId.OP_REC)
    assert stats.has(SectionId.DMA_REC)


def with_row(index: int, **values: int) -> bytes:
    """The file with another row in its table of contents, which has no CRC, as before 1.1."""
    rows = contents(DATA).copy()
    rows["flags"] = 0
    for name, value in values.items():
        rows[name][index] = value
    return DATA[:64] + rows.tobytes() + DATA[64 + rows.nbytes :]


def test_sections_of_unknown_kinds_are_skipped() -> None:
    stats = read(with_row(7, id=77))
    assert stats.notes == ("section 77 is not a known kind and was skipped",)
    assert not stats.has(SectionId.OP_REC)


def test_a_section_twice_is_taken_once() -> None:
    stats = read(with_row(7, id=1))
    assert stats.notes == ("a second section THREAD_INF was skipped",)
    assert np.array_equal(stats.of(SectionId.THREAD_INF), STATS.of(SectionId.THREAD_INF))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"count": 1 << 63}, "the file ends inside its 9,223,372,036,854,775,808 records"),
        ({"offset": (1 << 64) - 1}, "the file ends inside its 56 records"),
        ({"record_bytes": 8}, "records of 8 bytes, expected 56"),
        ({"record_bytes": 0}, "records of 0 bytes, expected 56"),
        ({"crc32": 5}, "damaged (wrong CRC)"),
    ],
)
def test_rows_that_lie(values: dict[str, int], words: str) -> None:
    stats = read(with_row(7, **values))
    assert words in stats.notes[0]
    assert not stats.has(SectionId.OP_REC)


@pytest.mark.parametrize("at", [*range(32, 44, 2), 56, 64, 72, 80, 88, 64 + 32 * 10])
def test_a_flipped_bit_in_the_head_is_found(at: int) -> None:
    data = DATA[:at] + bytes([DATA[at] ^ 1]) + DATA[at + 1 :]
    assert any(
        words in refused(data)
        for words in ("header or its table of sections is damaged", "is of specialization")
    )


def test_newer_writers_may_make_records_longer() -> None:
    rows = STATS.of(SectionId.OP_REC)
    longer = np.zeros((len(rows), 64), np.uint8)
    longer[:, :56] = rows.view(np.uint8).reshape(len(rows), 56)
    longer[:, 56:] = 0xEE
    body = longer.tobytes()
    made = with_row(7, record_bytes=64, offset=len(DATA), crc32=zlib.crc32(body)) + body
    stats = read(made[:10] + b"\5" + made[11:])
    assert stats.notes == ()
    assert np.array_equal(stats.of(SectionId.OP_REC), rows)


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        (0, b"x", "does not begin with OSBSTAT1"),
        (0, b"x", "the layout of the vendor's raw stats buffers is not public"),
        (8, b"\2", "has version 2.1, expected 1.x"),
        (12, b"\1\2\3\4", "byte-order mark"),
        (40, b"\7", "is of specialization 7, the program has 1"),
        (44, b"\xff\xff\xff\xff", "says 4,294,967,295 sections, at most 1,024"),
        (44, b"\xff\3", "ends inside its table of 1023 sections"),
    ],
)
def test_headers_that_lie(at: int, value: bytes, words: str) -> None:
    assert words in refused(DATA[:at] + value + DATA[at + len(value) :])


def test_no_section_at_all() -> None:
    nothing = write_buffer(replace(STATS, sections={}))
    assert read(nothing).sections == {}
    broken = with_row(0, id=99)
    for index in range(1, 11):
        broken = broken[: 64 + 32 * index] + b"\x63\0\0\0" + broken[68 + 32 * index :]
    assert "no section is whole" in refused(broken)


def test_a_level_below_the_programs() -> None:
    stats = read(write_buffer(samples.stats(level=40)))
    assert stats.notes == ("collected at level 40, the program is compiled for 100",)
    odd = write_buffer(replace(STATS, level=60))
    assert "the buffer's level 60 is not one of 40, 50, 70, 100" in read(odd).notes


@pytest.mark.parametrize(("offset", "what"), [(48, "inference"), (56, "UTC")])
def test_numbers_beyond_63_bits(offset: int, what: str) -> None:
    data = DATA[:offset] + struct.pack("<Q", 2**63) + DATA[offset + 8 :]
    wanted = f"has 9,223,372,036,854,775,808 as its {what}, at most 9,223,372,036,854,775,807"
    assert wanted in refused(data)
