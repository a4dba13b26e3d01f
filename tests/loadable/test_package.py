"""Build folders to images: they load and run, and what cannot is refused with its reason."""

from __future__ import annotations

import struct
from shutil import which

import pytest

import npuscope
from compiler.nets import Net, dilated, random_network, small_groups, uint8_network
from compiler.test_pipeline import squeeze_excite
from firmware.bare import (
    CLEAR,
    COPY,
    M33,
    M55,
    XIP,
    BareM33,
    BareM55,
    Code,
    Do,
    Install,
    build_firmware,
)
from loadable.hand_net import COUNT, INPUT, OUTPUT, POOL, WEIGHTS, write_net
from npuscope.demo_network import demo_graph
from npuscope.errors import FileError, NpuscopeError, TargetError
from npuscope.loadable.build import package
from npuscope.loadable.codes import PackageOptions
from npuscope.loadable.image import read_image, read_image_file
from npuscope.loadable.image_model import Seal

pytest.importorskip("ziglang")
pytest.importorskip("elftools")
SMALL = PackageOptions(cpu="cortex-m33")
FILE, PARAMS = 0x70000000, 0x70200000


def run_twice(image: bytes, mode: int, exec_ram: int, params: bytes = b"") -> list[bool]:
    """Load on the emulated CPU and infer two times: are the outputs right?"""
    board = BareM33(build_firmware(M33))
    board.command(Do.MEMORIES, 1, POOL, 0x1000)
    board.load(FILE, image)
    apart = {"params": PARAMS, "params_limit": len(params)} if params else {}
    board.load(PARAMS, params)
    places = Install(FILE, len(image), exec_ram, 0x10000, **apart, mode=mode | CLEAR)
    reply = board.install(places)
    assert (reply.status, reply.reason) == (Code.NONE, "")
    return [_infer(board, number) for number in (1, 2)]


INPUTS = tuple(range(-5, COUNT - 5))


def packed(numbers) -> bytes:
    return struct.pack(f"<{COUNT}i", *numbers)


def expected(number: int) -> bytes:
    """Each inference adds its own number."""
    return packed(a + b + number for a, b in zip(INPUTS, WEIGHTS, strict=True))


def _infer(board: BareM33, number: int) -> bool:
    board.load(POOL + INPUT, packed(INPUTS))
    assert board.command(Do.RUN, 1).status == Code.NONE
    return board.read(POOL + OUTPUT, 4 * COUNT) == expected(number)


@pytest.fixture(scope="module")
def hand(tmp_path_factory):
    return write_net(tmp_path_factory.mktemp("hand"))


@pytest.mark.parametrize("exec_ram", [0x34180000, 0x34190008, 0x90000000])
@pytest.mark.parametrize("mode", [XIP, COPY])
def test_an_image_runs_at_any_place(hand, mode, exec_ram):
    made = package(hand, SMALL)
    assert run_twice(made.files["network_rel.bin"], mode, exec_ram) == [True, True]


@pytest.mark.parametrize("mode", [XIP, COPY])
def test_a_cortex_m55_runs_its_image(tmp_path, mode):
    """The machine of QEMU has no RAM at the usual place; the loader would clear the input."""
    place = 0x21200000
    made = package(write_net(tmp_path, PLACE=f"{place:#x}"), PackageOptions(cpu="cortex-m55"))
    image = made.files["network_rel.bin"]
    script = BareM55(build_firmware(M55))
    script.load(FILE, image)
    script.load(place + INPUT, packed(INPUTS))
    script.command(Do.MEMORIES, 1, place, 0x1000)
    script.install(Install(FILE, len(image), 0x21000000, 0x10000, mode=mode))
    script.command(Do.RUN, 2)
    script.save(place + OUTPUT, 4 * COUNT)
    replies, (output,) = script.run()
    assert [reply.status for reply in replies] == [Code.NONE] * 3
    assert output == expected(2)


def test_an_image_for_the_non_secure_world(tmp_path):
    folder = write_net(tmp_path, PLACE="0x24100000")
    image = package(folder, PackageOptions(cpu="cortex-m33", secure=False)).image
    assert not image.flags.secure
    assert image.pools[-1].descriptor.dst == 0x24100000


def test_parameters_apart(hand):
    made = package(hand, PackageOptions(cpu="cortex-m33", split=True, name="Face"))
    names = ["Face_rel.bin", "Face_rel_params.bin", "Face_rel.program.json"]
    assert list(made.files) == names
    image, params, _ = made.files.values()
    assert made.image.split
    assert made.image.name == "face"
    assert run_twice(image, COPY, 0x34180000, params) == [True, True]


def test_what_an_image_tells(hand):
    image = package(hand, SMALL).image
    assert image.runtime == "atonn-v1.1.3-262 (RELOC.CLANG)"
    assert image.context.version == (1, 1, 3)
    assert image.context.rt_version_extra == 262
    assert (image.context.buffer_info_bytes, image.context.epoch_item_bytes) == (56, 48)
    assert (image.context.acts_sz, image.context.params_sz) == (128, 64)
    assert (image.trailer, image.params_crc) == (Seal.OK, Seal.OK)
    assert [(pool.name, pool.flags.text) for pool in image.pools] == [
        ("xSPI2", "RELOC.PARAM.0.RCACHED"),
        ("AXISRAM2", "RESET.ACTIV.WRITE"),
    ]


def test_constant_tables_must_be_copied(tmp_path):
    made = package(write_net(tmp_path, CONST="const"), SMALL)
    assert made.obstacle.endswith("the image must be copied to RAM")
    assert "ll_atonn_rt_epoch_block_array" in made.obstacle
    assert not made.image.xip_possible
    assert run_twice(made.files["network_rel.bin"], COPY, 0x34180000) == [True, True]


def test_the_same_folder_gives_the_same_image(hand):
    assert package(hand, SMALL).files == package(hand, SMALL).files


def message(folder, options=SMALL, error=NpuscopeError):
    with pytest.raises(error) as caught:
        package(folder, options)
    return str(caught.value)


def test_code_that_refers_to_a_pool_directly(tmp_path):
    folder = write_net(tmp_path, WEIGHTS="((int32_t *)_mem_pool_xSPI2_hand)")
    assert message(folder, error=TargetError).startswith(
        "code refers directly to '_mem_pool_xSPI2_hand', whose distance is not known"
    )


@pytest.mark.skipif(which("arm-none-eabi-gcc") is None, reason="arm-none-eabi-gcc is missing")
@pytest.mark.parametrize("mode", [XIP, COPY])
def test_gcc_reaches_pools_through_its_table(tmp_path, mode):
    folder = write_net(tmp_path, WEIGHTS="((int32_t *)_mem_pool_xSPI2_hand)", CONST="const")
    made = package(folder, PackageOptions(cpu="cortex-m33", toolchain="gcc"))
    assert made.image.relocations.got
    assert made.image.runtime.endswith("(RELOC.GCC)")
    assert run_twice(made.files["network_rel.bin"], mode, 0x34180000) == [True, True]


def test_kernels_that_nobody_has(tmp_path):
    declared = "extern void helper_one(int32_t *data);\nextern void helper_two(int32_t *data);"
    folder = write_net(
        tmp_path,
        GLOBAL=declared,
        FIRST="helper_one(out);",
        SECOND="helper_one(out);helper_two(out);",
    )
    assert message(folder, error=TargetError).startswith(
        "this build has no code for helper_one (epochs 1, 2), helper_two (epoch 2)\n"
    )


def test_a_name_of_ours(tmp_path):
    folder = write_net(tmp_path, GLOBAL="void __ll_lib_error(int code) { (void)code; }")
    assert message(folder, error=TargetError).startswith(
        "the source defines '__ll_lib_error', a name of npuscope's own code"
    )


def test_a_source_that_does_not_compile(tmp_path):
    text = message(write_net(tmp_path, FIRST="undeclared = 3;"), error=FileError)
    assert text.startswith("network.c: does not compile: network.c:")
    assert "undeclared identifier" in text
    assert ".cache" not in text


def test_a_section_of_its_own(tmp_path):
    folder = write_net(
        tmp_path,
        GLOBAL='__attribute__((section(".odd"))) int odd = 3;',
        FIRST="out[0] += odd; odd++;",
    )
    assert "section '.odd', which images do not have" in message(folder, error=TargetError)


def test_fixed_addresses_need_epochs_that_can_be_written_anew(tmp_path):
    folder = write_net(tmp_path, MODE="absolute", SYMBOL="", WEIGHTS_BASE="0x71000000UL")
    text = message(folder, error=TargetError)
    assert "no network.c was written: EpochBlock_1 has no kernel call" in text
    assert "npuscope compile MODEL --relocatable -o DIR" in text


def test_hex_initialisers(hand, tmp_path):
    folder = write_net(tmp_path)
    (folder / "network_atonbuf.xSPI2.raw").rename(folder / "network_atonbuf.xSPI2.hex")
    assert "FORMAT_RAW" in message(folder, error=FileError)


def test_no_initialiser(tmp_path):
    folder = write_net(tmp_path)
    (folder / "network_atonbuf.xSPI2.raw").unlink()
    assert "no initialiser *.xSPI2.raw beside the source" in message(folder, error=FileError)


def test_secure_pools_in_a_non_secure_image(hand):
    options = PackageOptions(cpu="cortex-m33", secure=False)
    assert "0x34100000 is a secure address" in message(hand, options, TargetError)


def test_folders_that_hold_no_network(tmp_path):
    assert "no such folder" in message(tmp_path / "nothing")
    assert "holds no network.c" in message(tmp_path)
    (tmp_path / "a.c").write_text("int a;")
    assert "it has no epochs" in message(tmp_path)
    (tmp_path / "b.c").write_text("int b;")
    assert "holds several .c files" in message(tmp_path)


def test_the_image_as_c(hand, tmp_path):
    made = package(hand, PackageOptions(cpu="cortex-m33", c_file=True))
    text = made.files["network_img_rel.c"].decode()
    numbers = text.split("{\n", 1)[1].split("}")[0].split(",")
    assert bytes(int(number, 0) for number in numbers) == made.files["network_rel.bin"]
    size = len(made.files["network_rel.bin"])
    assert f"#define NETWORK_IMG_REL_SIZE ({size})" in made.files["network_img_rel.h"].decode()


NETS = {
    "demo": demo_graph,
    "random": lambda: random_network(2),
    "uint8": uint8_network,
    "groups": small_groups,
    "dilated": dilated,
}


@pytest.mark.parametrize("controller", [False, True], ids=["start_end", "blobs"])
@pytest.mark.parametrize("generation", ["2.2", "4.0"])
@pytest.mark.parametrize("net", NETS)
def test_compiled_networks(tmp_path, net, generation, controller):
    """Our own network.c has no addresses between the code, on either CPU."""
    program = npuscope.compile(
        NETS[net](),
        tmp_path,
        relocatable=True,
        generation=generation,
        epoch_controller=controller,
    )
    cpu = "cortex-m55" if controller else "cortex-m33"
    made = package(tmp_path, PackageOptions(cpu=cpu))
    assert made.obstacle == ""
    weights = (tmp_path / "atonbuf.xSPI2.raw").read_bytes()
    image = made.image
    start = image.header.params_offset
    assert made.files["network_rel.bin"][start : start + len(weights)] == weights
    version = (1, 1, 1) if generation == "2.2" else (1, 1, 3)
    assert image.context.version == version
    used = {pool.file_name for pool in program.pools if pool.used_bytes and not pool.virtual}
    assert {pool.name for pool in image.pools} == used
    assert bool(image.blobs) == controller


def test_what_the_drivers_cannot_start_is_refused(tmp_path):
    """A gate that arrives as data: the image would wait for engines that never run."""
    npuscope.compile(squeeze_excite(), tmp_path, relocatable=True, epoch_controller=False)
    told = message(tmp_path, error=TargetError)
    assert "cannot be started by the image's drivers: ARITH 0: the registers that hold" in told


def test_sizes_beyond_a_register_are_refused(tmp_path):
    """As a machine file or another compiler may ask for them."""
    net = Net()
    net.max_pool(net.input((1, 1, 648, 8)), (1, 2), (1, 2))
    wide = {"pool.line_buffer_elements": 8192}
    npuscope.compile(net.graph(), tmp_path, relocatable=True, overrides=wide)
    told = message(tmp_path, error=TargetError)
    assert "POOL register FDIMS.FEATX holds 0 to 4095, not 5184" in told


def test_the_api_writes_the_files(hand, tmp_path):
    made = npuscope.package(hand, tmp_path / "out", SMALL)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"network_rel.bin", "network_rel.program.json"}
    assert read_image_file(tmp_path / "out" / "network_rel.bin") == made.image
    assert read_image(made.files["network_rel.bin"]) == made.image
