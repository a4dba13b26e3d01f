"""Reading images: what is in them, and no damage that is not noticed or that breaks the reader."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from loadable import samples
from loadable.samples import Pool, Sample, build, image, resealed, with_word
from npuscope.errors import FileError
from npuscope.loadable.image import Image, Seal, read_image, read_image_file
from npuscope.loadable.image_model import find_blobs
from npuscope.loadable.layout import ENTRY_POINTS, Context, Header, PoolDescriptor, Trailer

WHOLE = image()
HEADER = Header.unpack(WHOLE)
EXTREMES = (0, 1, 3, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x20000000, 0x2FFFFFFF, 0x40000000)
EXTREMES += (0x4FFFFFFF, 0x4FFFFFFC, 0x90000000, len(WHOLE), len(WHOLE) + 1)


def place(name: str) -> int:
    """Byte of a word of the context."""
    base = (HEADER.data_data & 0xFFFFFFF) + (HEADER.context & 0xFFFFFFF)
    return base + Context.offset(name)


def pool_place(index: int, name: str) -> int:
    base = (HEADER.data_data & 0xFFFFFFF) + (HEADER.params_start & 0xFFFFFFF)
    return base + index * PoolDescriptor.BYTES + PoolDescriptor.offset(name)


def refused(data: bytes, params: bytes | None = None) -> FileError:
    with pytest.raises(FileError) as raised:
        read_image(data, params)
    assert raised.value.where.startswith("byte ")
    assert raised.value.hint
    return raised.value


def test_what_is_in_it() -> None:
    found = read_image(WHOLE)
    assert (found.name, found.runtime, found.context.version) == (
        "network",
        "atonn-v1.1.1-14",
        (1, 1, 1),
    )
    assert [(p.name, p.flags.text) for p in found.pools] == [
        ("xSPI2", "RELOC.PARAM.0.RCACHED"),
        ("AXISRAM5", "RESET.ACTIV.WRITE"),
        ("AXISRAM4", "COPY.MIXED.WRITE"),
        ("xSPI1", "RELOC.ACTIV.1.WCACHED"),
    ]
    assert [p.descriptor.dst for p in found.fixed_pools] == [0x342E0000, 0x34270000]
    assert (found.params_bytes, found.split, found.whole) == (1072, False, True)
    assert (found.trailer, found.params_crc) == (Seal.OK, Seal.OK)
    assert found.entry_points == dict.fromkeys(ENTRY_POINTS, 96)
    assert found.ext_ram_bytes == 4096


def test_sections_cover_the_file() -> None:
    found = read_image(WHOLE)
    names = ["text+rodata", "data", "GOT", "bss", "REL", "params"]
    assert [section.name for section in found.sections] == names
    stored = [s for s in found.sections if s.offset is not None and s.size_bytes]
    for before, after in pairwise(stored):
        assert 0 <= after.offset - before.offset - before.size_bytes < 8
    assert stored[-1].offset + stored[-1].size_bytes + Trailer.BYTES == len(WHOLE)
    assert found.section("bss").size_bytes == 100


def test_relocations() -> None:
    found = read_image(WHOLE).relocations
    assert found.got[:4] == (0x20000061, 0x40000004, 0x80000010, 0x90000020)
    assert (len(found.ram), found.flash, found.count) == (6, (), 10)
    moved = read_image(image(flash_relocation=True))
    assert moved.relocations.flash == (100,)
    assert not moved.xip_possible
    assert read_image(WHOLE).xip_possible


def test_an_image_without_a_got() -> None:
    assert read_image(image(got=())).relocations.got == ()


def test_blobs_are_found_and_the_number_alone_is_none() -> None:
    magic = samples.BLOB[:4]
    found = read_image(
        image(code=magic + b"\xff\xff\xff\x7f" + magic + b"\x02\0\0\0\xff\xff\xff\xff")
    )
    assert [(b.offset, b.size_bytes, b.epochs) for b in found.blobs] == [(104, 16, (3,))]
    assert find_blobs(magic * 1000) == ()
    assert [b.offset for b in find_blobs(b"\0" * 4 + samples.BLOB * 3)] == [4, 20, 36]


def test_blobs_in_containers() -> None:
    from npuscope.program.ec_blob.binary import CONTAINERS, EcBinary, Relocation, write_binary
    from npuscope.program.ec_blob.instructions import Irq, Label, Write

    code = (Label(7), Write(5, 2, 0x100), Irq(0))
    for magic in CONTAINERS:
        made = write_binary(EcBinary(code, magic, (Relocation("_mem_pool_xSPI2", (2,)),)))
        blob = read_image(image(code=made)).blobs[1]
        assert (blob.container, blob.relocations, blob.epochs) == (
            magic,
            ("_mem_pool_xSPI2",),
            (7,),
        )


def test_a_split_image() -> None:
    data, params = build(Sample(split=True))
    alone, both = read_image(data), read_image(data, params)
    assert alone.split
    assert (alone.params_bytes, alone.params_crc) == (None, Seal.ABSENT)
    assert (both.params_bytes, both.params_crc, both.params_trailer) == (1072, Seal.OK, Seal.OK)
    assert "has 1071 bytes" in refused(data, params[:1071]).message
    wrong = read_image(data, b"\x01" + params[1:])
    assert (wrong.params_crc, wrong.params_trailer, wrong.whole) == (Seal.WRONG, Seal.WRONG, False)


def test_the_second_file_is_found_beside_the_first(tmp_path: Path) -> None:
    data, params = build(Sample(split=True))
    (tmp_path / "net_rel.bin").write_bytes(data)
    assert read_image_file(tmp_path / "net_rel.bin").params_bytes is None
    (tmp_path / "net_rel_params.bin").write_bytes(params)
    assert read_image_file(tmp_path / "net_rel.bin").params_bytes == 1072


def test_an_image_without_a_trailer_may_have_blobs_before_its_parameters() -> None:
    plain = image(trailer=False)
    assert read_image(plain).trailer is Seal.ABSENT
    start = HEADER.params_offset
    before = plain[:start] + samples.BLOB + plain[start:]
    found = read_image(before)
    assert (found.params_bytes, found.params_crc) == (1072 + 16, Seal.OK)
    assert [blob.offset for blob in found.blobs] == [104, start]


def test_no_parameters_at_all() -> None:
    found = read_image(
        image(params=b"", split=True, got=(), pools=(Pool("a", samples.RESET_ACTIV, 0, 0, 8),))
    )
    assert (found.split, found.params_bytes, found.params_crc) == (False, 0, Seal.ABSENT)


@pytest.mark.parametrize("at", [97, HEADER.params_offset + 5, len(WHOLE) - 1, len(WHOLE) - 9])
def test_a_flipped_bit_shows_in_the_checksum(at: int) -> None:
    damaged = WHOLE[:at] + bytes([WHOLE[at] ^ 4]) + WHOLE[at + 1 :]
    assert read_image(damaged).trailer is Seal.WRONG
    assert not read_image(damaged).whole


def test_truncation_at_every_offset() -> None:
    end = len(WHOLE) - Trailer.BYTES
    for size in range(end):
        refused(WHOLE[:size])
    assert read_image(WHOLE[:end]).trailer is Seal.ABSENT
    for size in range(end + 1, len(WHOLE)):
        assert read_image(WHOLE[:size]).trailer is Seal.WRONG
    data, _ = build(Sample(split=True))
    for size in range(len(data) - Trailer.BYTES):
        refused(data[:size])


# What a single word may be without a contradiction in the file; the trailer tells it all the same.
ALLOWED = {("flags", 0x80000000), ("data_start", 0x40000000), ("data_end", 0x40000000)}
ALLOWED |= {("bss_end", 0x4FFFFFFF), ("bss_end", 0x4FFFFFFC)}


@pytest.mark.parametrize("index", range(Header.BYTES // 4))
def test_every_word_of_the_header_at_its_extremes(index: int) -> None:
    name = Header.__struct_fields__[index]
    for value in EXTREMES:
        data = with_word(WHOLE, 4 * index, value)
        if (name, value) in ALLOWED:
            assert read_image(data).trailer is (Seal.OK if data == WHOLE else Seal.WRONG)
        else:
            refused(data)


@pytest.mark.parametrize(
    ("at", "value", "sentence"),
    [
        (0, 0x464C457F, "expected 0x4e49424e (NBIN), found 0x464c457f"),
        (4, 0x90385D22, "has API version 9.0, expected 8.x"),
        (8, 0x40000008, "data_start is 0x40000008, not 0x40000000"),
        (16, 0x40000000, "data_data is 0x40000000, in segment RAM, expected FLASH"),
        (16, 0x20000008, "data starts at byte 8, inside the header"),
        (24, 0x40000000, "bss_end 0x40000000 is before bss_start 0x400000f8"),
        (36, 0x200000B0, "the relocations start at byte 176, inside the data that ends at 420"),
        (40, 0x20010000, "rel_end reaches byte 65536, the file ends at 1536"),
        (48, 100, "the parameters start at byte 100, the relocations end at 448"),
        (52, 0x20000060, "ec_network_init is 0x20000060, an even address"),
        (56, 0x20000001, "ec_inference_init is at byte 1, the code from 96 to 176"),
        (92, 0x400000F4, "context is at offset 0xf4 of the data, which ends at 0xf8"),
    ],
)
def test_sentences_about_the_header(at: int, value: int, sentence: str) -> None:
    error = refused(with_word(WHOLE, at, value))
    assert error.message == sentence
    assert error.where == f"byte {at}"


@pytest.mark.parametrize(
    ("at", "value", "sentence"),
    [
        (place("c_name"), 0, "the runtime context names no network or no version of the runtime"),
        (
            place("c_name"),
            0x20FFFFFF,
            "the pointer 0x20ffffff does not point to a text in code or data",
        ),
        (
            place("c_name"),
            0x20000004,
            "the pointer 0x20000004 does not point to a text in code or data",
        ),
        (place("params_bin_sz"), 5000, "5000 bytes of parameters start at 448, "),
        (pool_place(0, "flags"), 0x09010500, "pool flags 0x09010500 (0x9.PARAM.RCACHED) are not"),
        (pool_place(0, "flags"), 0x01010502, "a relocated pool has number 2, expected 0 or 1"),
        (pool_place(0, "flags"), 0x01030600, "relocated pool 0 is RELOC.MIXED.0.WCACHED; it may"),
        (pool_place(3, "flags"), 0x01010500, "two pools are relocated as PARAM_0"),
        (pool_place(0, "size"), 5000, "pool 0 is filled up to byte 5000 of the parameters, which"),
        (pool_place(1, "dst"), 0xFFFFFFF0, "352800 bytes at 0xfffffff0 do not fit into 32 address"),
        (pool_place(4, "name"), 0x20000090, "pool flags 0x40000004 (0x40.UNDEF.UNDEF) are not"),
    ],
)
def test_sentences_about_context_and_pools(at: int, value: int, sentence: str) -> None:
    assert refused(with_word(WHOLE, at, value)).message.startswith(sentence)


def test_sentences_about_relocations() -> None:
    first = HEADER.rel_start & 0xFFFFFFF
    message = refused(with_word(WHOLE, first, 0x80000000)).message
    assert message == "a relocation names 0x80000000, neither in RAM nor in FLASH"
    for wrong in (0x40000001, 0x400000F8, 0x20000000, 0x200000B0):
        assert refused(with_word(WHOLE, first, wrong)).where == f"byte {first}"
    # A place that is there, but holds no address.
    error = refused(with_word(WHOLE, first, 0x40000000))
    assert error.message.startswith("the word that relocation 0 names holds 0x00000000")
    got = (HEADER.data_data & 0xFFFFFFF) + (HEADER.got_start & 0xFFFFFFF)
    assert "GOT word 0 holds 0x60000000" in refused(with_word(WHOLE, got, 0x60000000)).message
    assert "GOT word 0 holds 0x2fffffff" in refused(with_word(WHOLE, got, 0x2FFFFFFF)).message


def test_a_pool_table_without_an_end() -> None:
    pools = tuple(Pool(f"p{i}", samples.RESET_ACTIV, 0, 0x34000000, 8) for i in range(11))
    assert "more than 10 pool descriptors" in refused(image(pools=pools, got=())).message
    ten = read_image(image(pools=pools[:10], got=()))
    assert len(ten.pools) == 10


def test_bytes_that_belong_to_nothing() -> None:
    data, _ = build(Sample(split=True, trailer=False))
    assert "but 8 bytes follow the relocations" in refused(data + bytes(8)).message
    assert read_image(WHOLE + bytes(8)).notes == ("8 bytes follow the trailer",)


def test_random_damage_only_raises_file_errors() -> None:
    seeded = random.Random(7)
    values = (0, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF)
    read = 0
    for _ in range(4000):
        data = WHOLE
        for _ in range(seeded.randint(1, 4)):
            value = seeded.choice([*values, seeded.getrandbits(32), seeded.getrandbits(10)])
            segment = seeded.choice((0, 0, 0x20000000, 0x40000000))
            data = with_word(data, seeded.randrange(0, 700, 4), segment | value)
        try:
            found = read_image(resealed(data))
        except FileError:
            continue
        assert isinstance(found, Image)
        read += 1
    assert read
