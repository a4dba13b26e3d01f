"""The loader of images: good ones run, and those for other firmware are refused."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest

from firmware.bare import CLEAR, COPY, M33, M55, XIP, BareM33, BareM55, Code, Do, build_firmware
from firmware.loading import (
    FLASH,
    HERE,
    INPUTS,
    RAM,
    THERE,
    accepts,
    arguments,
    infer,
    installed,
    memories,
    new_board,
    refuses,
    refuses_sample,
)
from firmware.sample_image import COUNT, Sample, build_sample, expected, parameters, seal


@pytest.fixture(scope="module")
def sample() -> Sample:
    return build_sample(HERE)


@pytest.mark.parametrize("mode", [XIP, COPY])
@pytest.mark.parametrize("file", [0x70000000, 0x70012348, 0x34150040])
@pytest.mark.parametrize("exec_ram", [0x34100000, 0x34180008, 0x90200000])
def test_good_images_run(sample: Sample, mode: int, file: int, exec_ram: int) -> None:
    # Cached parameters may not lie in internal memory: there the pool is an uncached one.
    image = sample.with_pool(0, "flags", 0x01010100) if file < 0x60000000 else sample
    emulated = accepts(image.sealed, mode=mode | CLEAR, file=file, exec_ram=exec_ram)
    assert infer(emulated, 1) == expected(INPUTS, 1)
    assert infer(emulated, 2) == expected(INPUTS, 3)


@pytest.mark.parametrize("mode", [XIP, COPY])
def test_image_with_a_got(mode: int) -> None:
    image = build_sample(HERE, defines=("GOT",))
    assert image.word("got_end") - image.word("got_start") == 8
    assert infer(accepts(image.sealed, mode=mode | CLEAR), 1) == expected(INPUTS, 1)


def test_both_dialects_of_the_runtime(sample: Sample) -> None:
    older = build_sample(HERE, defines=("NPUSCOPE_DIALECT=2",))
    refuses_sample(older, Code.NOT_SUPPORTED, "the image is for another version of the runtime")
    emulated = BareM33(build_firmware(M33, defines=("NPUSCOPE_DIALECT=2",)))
    emulated.command(Do.MEMORIES, *memories(HERE))
    emulated.load(HERE.file, older.sealed)
    assert emulated.install(arguments(HERE, len(older.sealed))).status == Code.NONE
    assert infer(emulated, 1) == expected(INPUTS, 1)


def test_words_in_flash_need_a_copy() -> None:
    image = build_sample(HERE, defines=("FLASH_WORD",))
    assert any(place < RAM for place in image.relocations())
    assert infer(accepts(image.sealed), 1) == expected(INPUTS, 1)
    why = "code with relocations cannot run in place: copy it"
    refuses_sample(image, Code.NOT_SUPPORTED, why, mode=XIP)


def test_parameters_in_a_file_of_their_own() -> None:
    image = build_sample(HERE, split=True)
    emulated = new_board()
    emulated.load(HERE.file, image.sealed)
    emulated.load(HERE.params, seal(image.params))
    assert emulated.install(arguments(HERE, len(image.sealed), split=True)).status == Code.NONE
    assert infer(emulated, 1) == expected(INPUTS, 1)


def test_parameter_file_is_checked() -> None:
    image = build_sample(HERE, split=True)
    emulated = new_board()
    config = arguments(HERE, len(image.sealed), split=True)
    emulated.load(HERE.file, image.sealed)
    emulated.load(HERE.params, b"\x01" + seal(image.params)[1:])
    assert emulated.install(config).reason == "the checksum is wrong: the file is damaged"
    reply = emulated.install(replace(config, params_limit=len(image.params) - 1))
    assert (reply.status, reply.reason) == (Code.PARAM_ADDR, "the parameter file is too short")
    reply = emulated.install(replace(config, params=0))
    assert (reply.status, reply.reason) == (
        Code.PARAM_ADDR,
        "parameters are in a file of their own",
    )
    assert emulated.writes == []


def test_parameters_from_elsewhere_are_checked_too(sample: Sample) -> None:
    """The application's address comes before the image's own parameters."""
    emulated = new_board()
    emulated.load(HERE.file, sample.sealed)
    config = arguments(HERE, len(sample.sealed), split=True)
    emulated.load(HERE.params, seal(parameters()))
    assert emulated.install(config).log == ""
    emulated.load(HERE.params, parameters() + bytes(16))
    reply = emulated.install(config)
    assert reply.log == "no trailer: the parameters' bytes were not checked\n"
    emulated.load(HERE.params, b"\x01" + seal(parameters())[1:])
    assert emulated.install(config).status == Code.INVALID_BIN


def test_only_exec_ram_and_pools_are_written(sample: Sample) -> None:
    emulated = accepts(sample.sealed)
    size = emulated.command(Do.INFO, HERE.file, len(sample.sealed)).results[8]
    spans = [(HERE.exec_ram, size)]
    spans += [(pool, 4 * COUNT) for pool in (HERE.ext_ram, HERE.copy_pool, HERE.reset_pool)]
    for address, count in emulated.writes:
        assert any(start <= address and address + count <= start + room for start, room in spans)
    assert emulated.executed == []


def test_activations_are_cleared_on_request_only(sample: Sample) -> None:
    emulated = new_board()
    emulated.load(HERE.file, sample.sealed)
    config = arguments(HERE, len(sample.sealed))
    for mode, left in ((COPY, b"\xff"), (COPY | CLEAR, b"\0")):
        emulated.load(HERE.reset_pool, b"\xff" * 4 * COUNT)
        emulated.load(HERE.ext_ram, b"\xff" * 4 * COUNT)
        emulated.install(replace(config, mode=mode))
        assert emulated.read(HERE.reset_pool, 4 * COUNT) == left * 4 * COUNT
        assert emulated.read(HERE.ext_ram, 4 * COUNT) == left * 4 * COUNT


def test_parts_may_be_empty_or_touch(sample: Sample) -> None:
    bss, rel = sample.word("bss_start"), sample.word("rel_start")
    accepts(sample.with_header("bss_end", bss).with_context("interface", 0).sealed)
    accepts(sample.with_header("data_end", bss).sealed)
    accepts(sample.with_header("rel_end", rel).sealed)
    got = sample.with_header("got_start", bss).with_header("got_end", bss)
    accepts(got.sealed)


def test_pointer_to_the_end_of_a_segment(sample: Sample) -> None:
    """One past the last value is a pointer that C allows."""
    place = sample.relocations()[0]
    for end in (sample.word("data_data"), sample.word("bss_end"), 0x80000020, 0x90000020, 0):
        emulated = accepts(sample.patched(sample.stored(place), end).sealed, mode=XIP)
        (value,) = struct.unpack("<I", emulated.read(HERE.exec_ram + place - RAM, 4))
        bases = {2: HERE.file, 4: HERE.exec_ram, 9: HERE.ext_ram, 0: 0}
        bases[8] = HERE.file + sample.word("params_offset")
        assert value == bases[end >> 28] + (end & 0xFFFFFFF)


def test_bss_starts_at_zero_again(sample: Sample) -> None:
    emulated = accepts(sample.sealed)
    infer(emulated, 3)
    emulated.install(arguments(HERE, len(sample.sealed)))
    assert infer(emulated, 1) == expected(INPUTS, 1)


def test_file_without_trailer_is_said_to_be(sample: Sample) -> None:
    _, reply = installed(sample.body)
    assert reply.status == Code.NONE
    assert reply.log == "no trailer: the file's bytes were not checked\n"
    refuses(sample.body, Code.INVALID_BIN, "the file has no trailer", requires_trailer=1)
    for data, flag in ((sample.body, 0), (sample.sealed, 1)):
        emulated = accepts(data)
        assert emulated.command(Do.INFO, HERE.file, len(data)).results[12] == flag


def test_info(sample: Sample) -> None:
    emulated = new_board()
    emulated.load(HERE.file, sample.sealed)
    found = emulated.command(Do.INFO, HERE.file, len(sample.sealed)).results
    xip = (sample.word("bss_end") - RAM + 7) // 8 * 8
    code = sample.word("data_data") - FLASH
    assert emulated.read(found[0], 7) == b"sample\0"
    assert found[1] == sample.word("flags")
    assert found[2:7] == (sample.word("rel_end") - FLASH, sample.word("params_offset"), 64, 64, 32)
    assert found[7:9] == (xip, xip + code)
    assert emulated.read(found[9], 14) == b"sample runtime"
    assert found[10:13] == (0x01010300, 262, 1)


def test_info_of_an_image_for_another_cpu(sample: Sample) -> None:
    other = sample.with_header("flags", sample.word("flags") ^ 3).sealed
    emulated = new_board()
    emulated.load(HERE.file, other)
    assert emulated.command(Do.INFO, HERE.file, len(other)).status == Code.NONE


def test_pool_descriptors(sample: Sample) -> None:
    emulated = new_board()
    emulated.load(HERE.file, sample.sealed)
    asked = [emulated.command(Do.POOL, HERE.file, len(sample.sealed), i) for i in (0, 3, 4, -1)]
    assert asked[0].results[1:5] == (0x01010500, 0, 0, 4 * COUNT)
    assert asked[1].results[1:5] == (0x03020200, 0, HERE.reset_pool, 4 * COUNT)
    assert [reply.status for reply in asked] == [0, 0, Code.UNKNOWN, Code.UNKNOWN]


FLAGS = {
    0xFFF: "the image is for another CPU",
    1 << 13: "the image passes floats another way",
    1 << 20: "secure and non-secure do not mix",
    1 << 21: "debug info of epochs differs",
    1 << 22: "the asynchronous mode differs",
    1 << 24: "the image has another version of the loader API",
    1 << 28: "the image has another version of the loader API",
}


@pytest.mark.parametrize("bits", FLAGS)
def test_image_for_other_firmware(sample: Sample, bits: int) -> None:
    image = sample.with_header("flags", sample.word("flags") ^ bits)
    refuses_sample(image, Code.NOT_SUPPORTED, FLAGS[bits])


def test_fpu_is_off(sample: Sample) -> None:
    emulated = new_board()
    emulated.load(HERE.file, sample.sealed)
    emulated.load(0xE000ED88, bytes(4))
    reply = emulated.install(arguments(HERE, len(sample.sealed)))
    assert (reply.status, reply.reason) == (
        Code.NOT_SUPPORTED,
        "the image needs the FPU, which is off",
    )


@pytest.mark.parametrize("version", [0, 0x02010300, 0x01020300, 0x01010400, 0x01010100])
def test_other_runtime(sample: Sample, version: int) -> None:
    why = "the image is for another version of the runtime"
    refuses_sample(sample.with_context("rt_version", version), Code.NOT_SUPPORTED, why)


@pytest.mark.parametrize("sizes", [0, 48 << 8 | 64, 20 << 8 | 56, 56 << 8 | 48])
def test_other_structures(sample: Sample, sizes: int) -> None:
    why = "the image was compiled with other structures"
    refuses_sample(sample.with_context("struct_sizes", sizes), Code.NOT_SUPPORTED, why)


def test_both_cpus_take_their_own_image_only(sample: Sample) -> None:
    refuses_sample(build_sample(THERE), Code.NOT_SUPPORTED, "the image is for another CPU")
    script = BareM55(build_firmware(M55))
    script.load(THERE.file, sample.sealed)
    script.install(arguments(THERE, len(sample.sealed)))
    (reply,), _ = script.run()
    assert (reply.status, reply.reason) == (Code.NOT_SUPPORTED, "the image is for another CPU")


@pytest.mark.parametrize("mode", [XIP, COPY])
def test_cortex_m55_runs_images(mode: int) -> None:
    image = build_sample(THERE)
    script = BareM55(build_firmware(M55))
    script.load(THERE.file, image.sealed)
    script.load(THERE.buffers, struct.pack(f"<{COUNT}i", *INPUTS))
    script.command(Do.MEMORIES, *memories(THERE))
    script.install(replace(arguments(THERE, len(image.sealed)), mode=mode | CLEAR))
    script.command(Do.SET_INPUT, 0, THERE.buffers, 4 * COUNT)
    script.command(Do.SET_OUTPUT, 0, THERE.buffers + 64, 4 * COUNT + 8)
    script.command(Do.RUN, 2)
    script.save(THERE.buffers + 64, 4 * COUNT)
    replies, (output,) = script.run()
    assert [reply.status for reply in replies] == [Code.NONE] * 5
    assert struct.unpack(f"<{COUNT}i", output) == expected(INPUTS, 2)


def test_words_changed_at_random_do_no_harm(sample: Sample) -> None:
    """Accepted or not: nothing is executed, nothing read behind the file or written elsewhere."""
    chance = random.Random(5)
    emulated = new_board()
    room = (HERE.exec_ram, HERE.ext_ram, HERE.copy_pool, HERE.reset_pool)
    for _ in range(400):
        image = sample
        for _ in range(chance.randint(1, 3)):
            value = chance.choice((chance.getrandbits(32), chance.getrandbits(12), FLASH, RAM))
            image = image.patched(4 * chance.randrange(len(sample.body) // 4), value)
        emulated.load(HERE.file, image.sealed)
        emulated.install(arguments(HERE, len(image.sealed)))
    end = HERE.file + len(sample.sealed)
    outside = [at for at, _ in emulated.reads if HERE.file <= at < 0x71000000 and at >= end]
    assert outside == []
    assert all(any(0 <= at - base < 0x10000 for base in room) for at, _ in emulated.writes)
    assert emulated.executed == []
