"""What an installation asks of memory: exec RAM, external RAM, pools, relocated words."""

from __future__ import annotations

import struct

import pytest

from firmware.bare import CLEAR, COPY, XIP, Code, Do
from firmware.loading import (
    EXEC_BYTES,
    FLASH,
    HERE,
    RAM,
    accepts,
    arguments,
    new_board,
    refuses_sample,
)
from firmware.sample_image import Sample, build_sample

BAD = Code.INVALID_BIN
FAR = 0x0FFFFFF8


@pytest.fixture(scope="module")
def sample() -> Sample:
    return build_sample(HERE)


@pytest.mark.parametrize("mode", [0, CLEAR, 8, COPY | 16])
def test_mode(sample: Sample, mode: int) -> None:
    refuses_sample(sample, Code.ARG, "the mode is XIP or COPY, CLEAR besides", mode=mode)


@pytest.mark.parametrize("mode", [XIP, COPY])
def test_exec_ram_to_the_byte(sample: Sample, mode: int) -> None:
    emulated = accepts(sample.sealed)
    found = emulated.command(Do.INFO, HERE.file, len(sample.sealed)).results
    needed = found[7] if mode == XIP else found[8]
    accepts(sample.sealed, mode=mode, exec_ram_bytes=needed)
    why = "the exec RAM is too small"
    refuses_sample(sample, Code.MEMORY, why, mode=mode, exec_ram_bytes=needed - 1)


@pytest.mark.parametrize("exec_ram", [0, HERE.exec_ram + 4])
def test_exec_ram_address(sample: Sample, exec_ram: int) -> None:
    why = "the exec RAM is missing or not aligned"
    refuses_sample(sample, Code.MEMORY, why, exec_ram=exec_ram)


def test_exec_ram_over_the_file(sample: Sample) -> None:
    image = sample.with_pool(0, "flags", 0x01010100)
    near = HERE.exec_ram + EXEC_BYTES
    why = "the exec RAM overlaps the file"
    refuses_sample(image, Code.MEMORY, why, file=near, exec_ram=near - 64)
    refuses_sample(image, Code.MEMORY, why, file=near, exec_ram=near + 64)


def test_external_ram(sample: Sample) -> None:
    missing = "the external RAM is missing or too small"
    refuses_sample(sample, Code.PARAM_ADDR, missing, ext_ram=0)
    refuses_sample(sample, Code.PARAM_ADDR, missing, ext_ram_bytes=31)
    unaligned = "external RAM or parameters not aligned"
    refuses_sample(sample, Code.PARAM_ADDR, unaligned, ext_ram=HERE.ext_ram + 4)
    cached = "a cached pool must lie in external memory"
    refuses_sample(sample, Code.PARAM_ADDR, cached, ext_ram=0x34300000)
    over = "the external RAM overlaps what is loaded"
    plain = sample.with_pool(1, "flags", 0x01020201)
    refuses_sample(plain, Code.MEMORY, over, ext_ram=HERE.exec_ram + 64)


NO_ROOM = "a pool does not fit the memories on offer"
POOL_FAULTS = [
    (0, "flags", 0x04010500, Code.PARAM_DESC, "a pool of an unknown kind"),
    (0, "flags", 0xFF010500, Code.PARAM_DESC, "a pool of an unknown kind"),
    (0, "name", 0, Code.PARAM_DESC, "a pool of an unknown kind"),
    (0, "flags", 0x01040500, Code.PARAM_DESC, "a pool with data of an unknown kind"),
    (0, "flags", 0x01010700, Code.PARAM_DESC, "relocated parameters must be read-only"),
    (0, "flags", 0x01010502, Code.PARAM_DESC, "a relocated pool has the number 0 or 1"),
    (0, "foff", 40, Code.PARAM_DESC, "a pool's bytes are not inside the parameters"),
    (0, "size", 0xFFFFFFFF, Code.PARAM_DESC, "a pool's bytes are not inside the parameters"),
    (1, "flags", 0x01010601, Code.PARAM_DESC, "external RAM holds activations, parameters beside"),
    (1, "flags", 0x01010500, Code.PARAM_DESC, "two relocated pools have one number"),
    (2, "flags", 0x02020200, Code.PARAM_DESC, "a pool whose kind and data do not fit together"),
    (3, "flags", 0x03030200, Code.PARAM_DESC, "a pool whose kind and data do not fit together"),
    (2, "flags", 0x02030600, Code.PARAM_ADDR, "a cached pool must lie in external memory"),
    (2, "dst", 0x34000000, Code.MEMORY, NO_ROOM),
    (2, "dst", HERE.copy_pool - 4, Code.MEMORY, NO_ROOM),
    (2, "dst", HERE.copy_pool + 0xFF0, Code.MEMORY, NO_ROOM),
    (3, "dst", 0xFFFFFFF0, Code.MEMORY, NO_ROOM),
    (3, "size", 0x1001, Code.MEMORY, NO_ROOM),
    (3, "size", 0xFFFFFFFF, Code.MEMORY, NO_ROOM),
]


@pytest.mark.parametrize(("index", "name", "value", "code", "reason"), POOL_FAULTS)
def test_pool(sample: Sample, index: int, name: str, value: int, code: Code, reason: str) -> None:
    refuses_sample(sample.with_pool(index, name, value), code, reason)


def test_cached_parameters_in_internal_memory(sample: Sample) -> None:
    why = "cached parameters must lie in external memory"
    refuses_sample(sample, Code.PARAM_ADDR, why, file=0x34180000)


def test_pool_over_exec_ram(sample: Sample) -> None:
    why = "a pool overlaps what is loaded"
    refuses_sample(sample, Code.MEMORY, why, exec_ram=HERE.copy_pool + 0x10)


def test_pool_over_external_ram(sample: Sample) -> None:
    image = sample.with_pool(1, "flags", 0x01020201)
    why = "a pool overlaps the external RAM"
    refuses_sample(image, Code.MEMORY, why, ext_ram=HERE.copy_pool + 0x10)


def test_no_memories_on_offer(sample: Sample) -> None:
    emulated = new_board()
    emulated.load(HERE.file, sample.sealed)
    emulated.command(Do.MEMORIES, 0)
    reply = emulated.install(arguments(HERE, len(sample.sealed)))
    assert (reply.status, reply.reason) == (Code.MEMORY, NO_ROOM)


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (0, "a relocation lies outside the image"),
        (RAM | FAR, "a relocation lies outside the image"),
        (FLASH | FAR, "a relocation lies outside the image"),
        (0x80000000, "a relocation lies outside the image"),
        (RAM | 2, "a relocation lies outside the image"),
        (FLASH | 4, "a relocation lies in the header"),
    ],
)
def test_relocation_place(sample: Sample, place: int, reason: str) -> None:
    at = sample.word("rel_start") - FLASH
    refuses_sample(sample.patched(at, place), BAD, reason)


def test_relocation_in_bss(sample: Sample) -> None:
    image = sample.patched(sample.word("rel_start") - FLASH, sample.word("bss_start"))
    refuses_sample(image, BAD, "a relocation lies outside the image")


@pytest.mark.parametrize(
    "word", [1, 0x34100000, 0xA0000000, FLASH | FAR, RAM | FAR, 0x80000021, 0x90000021]
)
def test_relocated_word(sample: Sample, word: int) -> None:
    image = sample.patched(sample.stored(sample.relocations()[0]), word)
    refuses_sample(image, BAD, "a relocated word points out of the image")


def test_word_in_got() -> None:
    image = build_sample(HERE, defines=("GOT",))
    broken = image.patched(image.stored(image.word("got_start")), 0x10000000)
    refuses_sample(broken, BAD, "a relocated word points out of the image")


def test_place_listed_twice_is_harmless(sample: Sample) -> None:
    first, second = sample.relocations()[:2]
    assert first != second
    image = sample.patched(sample.word("rel_start") - FLASH + 4, first)
    whole = image.stored(second)
    emulated = accepts(image.sealed, mode=XIP)
    got = emulated.read(HERE.exec_ram + first - RAM, 4)
    assert struct.unpack("<I", got)[0] == HERE.file + sample.word("params_offset")
    assert image.body[whole : whole + 4] == emulated.read(HERE.exec_ram + second - RAM, 4)


def test_spaces_may_touch(sample: Sample) -> None:
    image = sample.with_pool(0, "flags", 0x01010100)
    emulated = accepts(sample.sealed, ext_ram_bytes=32)
    needed = emulated.command(Do.INFO, HERE.file, len(sample.sealed)).results[8]
    near = HERE.exec_ram + needed
    accepts(image.sealed, file=near, exec_ram=HERE.exec_ram)
    size = (len(image.body) + 7) // 8 * 8
    accepts(image.sealed, file=near, exec_ram=near + size)
    accepts(sample.with_pool(2, "dst", HERE.copy_pool + 0x1000 - 32).sealed)


def test_exec_ram_at_the_end_of_all_addresses(sample: Sample) -> None:
    why = "the exec RAM is too small"
    refuses_sample(sample, Code.MEMORY, why, exec_ram=0xFFFFFFF8, exec_ram_bytes=0xFFFFFFFF)


def test_word_of_a_segment_without_a_pool(sample: Sample) -> None:
    image = sample.with_pool(1, "flags", 0x03020200).with_pool(1, "dst", HERE.reset_pool + 64)
    refuses_sample(image, BAD, "a relocated word points out of the image")
