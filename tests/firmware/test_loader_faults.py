"""Damaged images: every header word, the context, the checksum, cut files."""

from __future__ import annotations

import pytest

from firmware.bare import Code, Do
from firmware.loading import (
    FLASH,
    HERE,
    RAM,
    accepts,
    arguments,
    installed,
    new_board,
    refuses,
    refuses_sample,
)
from firmware.sample_image import HEADER, Sample, build_sample, seal

BAD = Code.INVALID_BIN
CODE = "code is not inside the file"
REL = "relocations are not inside the file"
ORDER = "data and bss are not in order"
GOT = "the GOT is not inside the data"
ENTRY = "an entry point is not code"
CONTEXT = "the context is not inside the data"
POOLS = "pool descriptors are not inside the data"
PARAMS = "parameters are not inside the file"
FAR = 0x0FFFFFF8


@pytest.fixture(scope="module")
def sample() -> Sample:
    return build_sample(HERE)


def header_faults() -> list[tuple[str, int, str]]:
    """Values that are wrong wherever the parts of an image lie."""
    faults = [("magic", value, "this is not an image: wrong magic") for value in (0, 0x4E49424F)]
    faults += [("data_data", value, CODE) for value in (0, RAM, FLASH, FLASH | FAR, FLASH | 97)]
    faults += [("rel_start", value, REL) for value in (0, RAM, FLASH, FLASH | FAR, FLASH | 0x7FA)]
    faults += [("rel_end", value, REL) for value in (0, RAM, FLASH, FLASH | FAR, FLASH | 0x7FA)]
    faults += [("data_start", value, ORDER) for value in (0, FLASH, RAM | 4)]
    faults += [("data_end", value, ORDER) for value in (0, FLASH, RAM | FAR)]
    faults += [("bss_start", value, ORDER) for value in (0, FLASH, RAM, RAM | FAR)]
    faults += [("bss_end", value, ORDER) for value in (0, FLASH, RAM)]
    faults += [("got_start", value, GOT) for value in (0, FLASH, RAM | FAR, RAM | 2)]
    faults += [("got_end", value, GOT) for value in (0, FLASH, RAM, RAM | FAR, RAM | 2)]
    faults += [("ctx", value, CONTEXT) for value in (0, FLASH, RAM | FAR, RAM | 2)]
    faults += [("params_start", value, POOLS) for value in (0, FLASH, RAM | FAR, RAM | 2)]
    faults += [("params_offset", value, PARAMS) for value in (8, 0x7FC, FAR, 0xFFFFFFF8)]
    entries = [(name, value) for name in HEADER[13:23] for value in (0, FLASH, RAM | 0x101)]
    places = (1, 0x59, 0x100, FAR | 1)
    entries += [(name, FLASH | at) for name in HEADER[13:23] for at in places]
    return faults + [(name, value, ENTRY) for name, value in entries]


@pytest.mark.parametrize(("name", "value", "reason"), header_faults())
def test_header_word(sample: Sample, name: str, value: int, reason: str) -> None:
    refuses_sample(sample.with_header(name, value), BAD, reason)


@pytest.mark.parametrize("name", HEADER[2:12] + HEADER[13:])
def test_header_word_of_ones(sample: Sample, name: str) -> None:
    _, reply = installed(sample.with_header(name, 0xFFFFFFFF).sealed)
    assert reply.status == BAD


def test_exec_ram_must_hold_bss(sample: Sample) -> None:
    image = sample.with_header("bss_end", RAM | FAR)
    refuses_sample(image, Code.MEMORY, "the exec RAM is too small")


def test_last_bytes_of_ram_segment_are_not_the_context(sample: Sample) -> None:
    last = (sample.word("bss_start") - 64) & ~3
    refuses_sample(sample.with_header("ctx", last), BAD, CONTEXT)


def test_pools_without_end(sample: Sample) -> None:
    table = sample.word("params_start")
    image = sample.with_pool(4, "flags", 0x01010500).with_header("params_start", table)
    refuses_sample(image, BAD, "pool descriptors have no end")


def test_pools_end_behind_the_data(sample: Sample) -> None:
    """The closing zero would be found, but among the relocations."""
    last = sample.word("bss_start") - 20
    image = sample.with_header("params_start", last)
    image = image.patched(image.stored(last) + 4, 0x01010500)
    image = image.patched(image.word("rel_start") - FLASH + 4, 0)
    refuses_sample(image, BAD, "pool descriptors have no end")


def test_no_parameters_where_some_are_needed(sample: Sample) -> None:
    image = sample.with_header("params_offset", 0)
    _, reply = installed(image.body)
    assert (reply.status, reply.reason) == (
        Code.PARAM_ADDR,
        "parameters are in a file of their own",
    )


@pytest.mark.parametrize("name", ["c_name", "rt_version_desc"])
@pytest.mark.parametrize("value", [1, FLASH | FAR, RAM | FAR, 0x80000000])
def test_text_out_of_the_image(sample: Sample, name: str, value: int) -> None:
    image = sample.with_context(name, value)
    refuses_sample(image, BAD, "the context points out of the image")


def test_interface_out_of_the_image(sample: Sample) -> None:
    image = sample.with_context("interface", RAM | FAR)
    refuses_sample(image, BAD, "the context points out of the image")


@pytest.mark.parametrize("part", range(40))
def test_one_changed_byte_breaks_the_checksum(sample: Sample, part: int) -> None:
    data = bytearray(sample.sealed)
    at = 96 + (len(sample.body) - 97) * part // 39
    data[at] ^= 0x10
    emulated, reply = installed(bytes(data))
    assert reply.status in (BAD, Code.NOT_SUPPORTED)
    assert (emulated.writes, emulated.executed) == ([], [])


def test_checksum(sample: Sample) -> None:
    data = bytearray(sample.sealed)
    data[-1] ^= 1
    refuses(bytes(data), BAD, "the checksum is wrong: the file is damaged")


@pytest.mark.parametrize("word", [1, 2])
def test_trailer_of_another_file(sample: Sample, word: int) -> None:
    data = bytearray(sample.sealed)
    data[4 * word - 16] ^= 2
    refuses(bytes(data), BAD, "the trailer belongs to another file")


def test_cut_files(sample: Sample) -> None:
    """At 200 places; the bytes behind are not the file's and must not be looked at."""
    whole = len(sample.sealed)
    places = sorted({(whole - 1) * i // 199 for i in range(200)} - {0, len(sample.body)})
    assert len(places) >= 198
    emulated = new_board()
    emulated.load(HERE.file, sample.sealed)
    for limit in places:
        emulated.reads.clear()
        reply = emulated.install(arguments(HERE, limit))
        assert reply.status == BAD, (limit, reply)
        assert all(at + size <= HERE.file + limit for at, size in emulated.reads), limit
    assert (emulated.writes, emulated.executed) == ([], [])


@pytest.mark.parametrize("shift", [1, 2, 4])
def test_misaligned_file(sample: Sample, shift: int) -> None:
    refuses_sample(sample, BAD, "the address is not aligned", file=HERE.file + shift)


def test_file_at_zero(sample: Sample) -> None:
    emulated = new_board()
    assert emulated.command(Do.INFO, 0, 4096).status == BAD


def test_trailer_behind_parameters_of_odd_length(sample: Sample) -> None:
    image = sample.with_context("params_bin_sz", 67)
    accepts(seal(image.body + b"abc"))
