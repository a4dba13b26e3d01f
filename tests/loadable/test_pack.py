"""From a linked ELF file and pools to the words of an image."""

from __future__ import annotations

import struct

import pytest

from npuscope.errors import InternalError, TargetError
from npuscope.loadable.codes import CPUS, Cpu
from npuscope.loadable.codes import ToolchainCode as ToolchainCode
from npuscope.loadable.layout import Flags, Header, Trailer
from npuscope.loadable.link import (
    CONTEXT,
    GOT_END,
    GOT_START,
    POOLS,
    callers_by_epoch,
    entry_functions,
    linker_script,
)
from npuscope.loadable.pack import ElfRelocation, Linked, pack_image, places_to_rebase, xip_obstacle
from npuscope.loadable.toolchain import Toolchain

FLASH, RAM, PARAM_0, PARAM_1 = 0x20000000, 0x40000000, 0x80000000, 0x90000000


# Linked code: 96 bytes of header, 32 of code; 24 of data, of which the last 8 are the GOT.
SYMBOLS = {
    GOT_START: RAM + 16,
    GOT_END: RAM + 24,
    CONTEXT: RAM,
    POOLS: RAM + 8,
    "table": FLASH + 120,
    **dict.fromkeys(entry_functions("net").values(), FLASH + 97),
}


def linked(*relocations, words=(), alignment=8, got=(FLASH + 100, PARAM_0 + 4)):
    flash, data = bytearray(128), bytearray(24)
    for place, word in words:
        block = flash if place < RAM else data
        struct.pack_into("<I", block, place & 0xFFFFFF, word)
    struct.pack_into("<2I", data, 16, *got)
    relocations = tuple(ElfRelocation(*relocation) for relocation in relocations)
    return Linked(bytes(flash), bytes(data), RAM + 40, dict(SYMBOLS), relocations, alignment)


@pytest.mark.parametrize(
    ("kind", "place", "target"),
    [
        ("R_ARM_THM_CALL", FLASH + 100, FLASH + 96),
        ("R_ARM_THM_JUMP24", FLASH + 100, FLASH + 96),
        ("R_ARM_REL32", FLASH + 100, FLASH + 96),
        ("R_ARM_THM_MOVW_PREL_NC", FLASH + 100, FLASH + 96),
        ("R_ARM_THM_MOVT_BREL", FLASH + 100, RAM + 4),
        ("R_ARM_THM_MOVW_BREL_NC", FLASH + 100, RAM + 4),
        ("R_ARM_GOT_BREL", FLASH + 100, PARAM_0),
        ("R_ARM_NONE", FLASH + 100, 0),
    ],
)
def test_relocations_that_are_settled(kind, place, target):
    places = places_to_rebase(linked((kind, place, "x", target)))
    assert places.listed == b""


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("R_ARM_THM_MOVW_BREL_NC", PARAM_0),
        ("R_ARM_THM_MOVT_BREL", FLASH + 96),
        ("R_ARM_THM_MOVW_PREL_NC", RAM),
        ("R_ARM_THM_CALL", RAM),
        ("R_ARM_REL32", PARAM_1),
    ],
)
def test_distances_that_nobody_knows(kind, target):
    with pytest.raises(TargetError) as error:
        places_to_rebase(linked((kind, FLASH + 100, "_mem_pool_x", target)))
    assert error.value.message == (
        "code refers directly to '_mem_pool_x', whose distance is not known before the image is "
        "loaded"
    )
    assert "--toolchain gcc" in error.value.hint


@pytest.mark.parametrize("kind", ["R_ARM_THM_MOVW_ABS_NC", "R_ARM_THM_MOVT_ABS", "R_ARM_PREL31"])
def test_code_that_cannot_be_moved(kind):
    with pytest.raises(TargetError, match=f"in a way that cannot be moved \\({kind}\\)"):
        places_to_rebase(linked((kind, FLASH + 100, "x", FLASH)))


def test_absolute_words_are_listed_by_segment():
    made = linked(
        ("R_ARM_ABS32", FLASH + 120, "x", FLASH),
        ("R_ARM_ABS32", RAM + 4, "y", RAM),
        ("R_ARM_ABS32", RAM + 8, "weak", 0),
        ("R_ARM_ABS32", RAM + 4, "y", RAM),
        words=[(FLASH + 120, PARAM_1 + 8), (RAM + 4, FLASH + 97)],
    )
    places = places_to_rebase(made)
    assert (places.ram, places.flash) == ((RAM + 4,), (FLASH + 120,))
    assert places.listed == struct.pack("<2I", RAM + 4, FLASH + 120)
    assert xip_obstacle(made, places) == (
        "1 words between the code hold addresses (table): the image must be copied to RAM"
    )


def test_words_that_are_no_place():
    made = linked(("R_ARM_ABS32", FLASH + 120, "far", 0), words=[(FLASH + 120, 0x12345678)])
    with pytest.raises(TargetError, match="0x12345678 as address of 'far'") as error:
        places_to_rebase(made)
    assert error.value.where == "table"


def toolchain(tmp_path):
    return Toolchain("zig", "CLANG", ToolchainCode.CLANG, "1", (), (), CPUS["cortex-m33"], tmp_path)


def pack(tmp_path, made, parameters=b"\7" * 16, **options):
    options = {"secure": True, "split": False, **options}
    return pack_image(made, parameters, "net", toolchain(tmp_path), **options)


def test_words_of_the_header(tmp_path):
    made = linked(("R_ARM_ABS32", RAM + 4, "y", RAM), words=[(RAM + 4, FLASH + 97)])
    packed = pack(tmp_path, made)
    header = Header.unpack(packed.image)
    assert Flags.unpack(header.flags) == Flags(
        secure=True, debug_info=True, asynchronous=True, cpu=Cpu.CORTEX_M33
    )
    assert header.data_data == FLASH + 128
    assert (header.data_start, header.data_end) == (RAM, RAM + 16)
    assert (header.got_start, header.got_end) == (RAM + 16, RAM + 24)
    assert (header.bss_start, header.bss_end) == (RAM + 24, RAM + 40)
    assert (header.rel_start, header.rel_end) == (FLASH + 152, FLASH + 156)
    assert header.params_offset == 192
    assert (header.context, header.params_start) == (RAM, RAM + 8)
    assert header.ec_network_init == header.get_internal_buffers_info == FLASH + 97
    assert packed.image[192:208] == b"\7" * 16
    assert packed.image[208:] == Trailer.of(packed.image[:208]).pack()
    assert packed.params is None


def test_split_files_have_a_trailer_each(tmp_path):
    packed = pack(tmp_path, linked(), split=True, secure=False)
    header = Header.unpack(packed.image)
    assert header.params_offset == 0
    assert not Flags.unpack(header.flags).secure
    assert packed.image[152:] == Trailer.of(packed.image[:152]).pack()
    assert packed.params == b"\7" * 16 + Trailer.of(b"\7" * 16).pack()


def test_data_keeps_its_alignment_behind_the_code(tmp_path):
    packed = pack(tmp_path, linked(alignment=64))
    assert Header.unpack(packed.image).data_data == FLASH + 128
    packed = pack(tmp_path, linked(alignment=256))
    assert Header.unpack(packed.image).data_data == FLASH + 256
    assert packed.notes == (
        "data needs an alignment of 256 bytes: give the loader RAM with that alignment, it "
        "guarantees only 8",
    )


def test_words_of_the_got_are_places(tmp_path):
    assert pack(tmp_path, linked(got=(0, 0))).image
    with pytest.raises(TargetError, match="the GOT holds 0x1234"):
        pack(tmp_path, linked(got=(0x1234, 0)))


def test_a_symbol_that_the_linker_lost(tmp_path):
    made = linked()
    made.symbols.pop(CONTEXT)
    with pytest.raises(InternalError, match=CONTEXT):
        pack(tmp_path, made)


def test_script_has_the_pools_that_are_there():
    plain = linker_script({})
    assert ".params_" not in plain
    assert ". = . + 96;" in plain
    script = linker_script({1: "_mem_pool_b", 0: "_mem_pool_a"})
    assert ".params_0 0x80000000 (NOLOAD) : { _mem_pool_a = .;" in script
    assert ".params_1 0x90000000 (NOLOAD) : { _mem_pool_b = .;" in script


def test_callers_are_told_by_epoch():
    text = """
static void LL_ATON_Start_EpochBlock_3(const void *epoch_block) {
  one(two_more);
}
static void LL_ATON_End_EpochBlock_-2(const void *epoch_block) { one(); one(); two(); }
"""
    assert callers_by_epoch(text, ["one", "two", "none"]) == {
        "one": [3, -2],
        "two": [-2],
        "none": [],
    }
