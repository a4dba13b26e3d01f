"""The words of an image: packed and unpacked without loss, at the places other tools expect."""

from __future__ import annotations

import random
import zlib

import pytest

from loadable import samples
from npuscope.errors import FileError
from npuscope.loadable.codes import AddressBase, Cpu, ToolchainCode, address_in, aligned
from npuscope.loadable.layout import (
    ENTRY_POINTS,
    Context,
    Flags,
    Header,
    PoolDescriptor,
    PoolFlags,
    Trailer,
    struct_sizes_word,
    version_word,
)


@pytest.mark.parametrize("record", [Header, Context, PoolDescriptor, Trailer])
def test_records_keep_every_word(record: type[Header]) -> None:
    words = [3 * i + 0x80000001 for i in range(record.BYTES // 4)]
    made = record(*words)
    assert record.unpack(made.pack()) == made
    assert made.pack()[:8].hex() == "0100008004000080"
    assert record.unpack(b"\xff" * 5 + made.pack(), 5) == made


@pytest.mark.parametrize("record", [Header, Context, PoolDescriptor, Trailer])
def test_a_record_that_is_cut_off(record: type[Header]) -> None:
    for size in range(record.BYTES):
        with pytest.raises(FileError) as raised:
            record.unpack(bytes(size))
        assert raised.value.where == "byte 0"


def test_places_of_words() -> None:
    assert Header.BYTES == 96
    assert [Header.offset(n) for n in ("magic", "params_offset", "context")] == [0, 48, 92]
    assert (ENTRY_POINTS[0], ENTRY_POINTS[-1]) == ("ec_network_init", "get_internal_buffers_info")
    assert len(ENTRY_POINTS) == 10
    assert (Context.BYTES, Context.offset("params_bin_sz")) == (68, 48)
    assert (PoolDescriptor.BYTES, PoolDescriptor.offset("dst")) == (20, 12)


def test_flags_are_a_word_bit_for_bit() -> None:
    seeded = random.Random(1)
    for _ in range(2000):
        word = seeded.getrandbits(32)
        assert Flags.unpack(word).pack() == word
    made = Flags(secure=True, debug_info=True, toolchain=ToolchainCode.GCC, cpu=Cpu.CORTEX_M55)
    assert made.pack() == 0x80385D22
    assert Flags(fpu=False, float_abi=0, cpu=Cpu.CORTEX_M33, asynchronous=True).pack() == 0x80490D21


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (0x01010500, "RELOC.PARAM.0.RCACHED"),
        (0x01020601, "RELOC.ACTIV.1.WCACHED"),
        (0x02030200, "COPY.MIXED.WRITE"),
        (0x02010100, "COPY.PARAM.READ"),
        (0x03020200, "RESET.ACTIV.WRITE"),
        (0x00000000, "UNUSED"),
        (0xFF000000, "UNSUPPORTED"),
        (0x07090300, "0x7.0x9.0x3"),
    ],
)
def test_pool_flags_in_words(word: int, text: str) -> None:
    assert PoolFlags.unpack(word).text == text
    assert PoolFlags.unpack(word).pack() == word


def test_sizes_of_loading() -> None:
    header = Header.unpack(samples.image())
    end, code = header.bss_end & 0xFFFFFFF, header.data_data & 0xFFFFFFF
    assert header.xip_bytes == -(-end // 8) * 8 != end
    assert header.copy_bytes == header.xip_bytes + code


def test_words_of_the_context() -> None:
    context = Context(
        rt_version=version_word(1, 2, 3) | 0xFF, struct_sizes=struct_sizes_word(56, 48)
    )
    assert context.version == (1, 2, 3)
    assert (context.buffer_info_bytes, context.epoch_item_bytes) == (56, 48)


def test_the_trailer() -> None:
    made = Trailer.of(b"abc")
    assert made.pack()[:8] == b"NPTR\x01\0\0\0"
    assert (made.length, made.crc32) == (3, zlib.crc32(b"abc"))


def test_addresses() -> None:
    assert address_in(AddressBase.RAM, 0x12) == 0x40000012
    assert [aligned(n) for n in (0, 1, 8, 9)] == [0, 8, 8, 16]
