"""network.c with relative pools: it reads back, and as image code it needs no address in flash."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from compiler.nets import MACHINES
from npuscope.compiler.pipeline import compile_graph
from npuscope.errors import FileError
from npuscope.graph.model import Graph
from npuscope.machine.mpool import mpool_text, read_mpool, with_relative_pools
from npuscope.program.code_files import blob_arrays, code_files, pool_images
from npuscope.program.ec_blob.binary import read_binary, relocated
from npuscope.program.ec_blob.lower import binary_of, lower
from npuscope.program.model import Program
from npuscope.program.network_c.reader import read_network_c
from npuscope.program.network_c.with_blobs import with_blobs
from npuscope.program.network_c.writer import network_c_text
from npuscope.program.sources import read_program
from npuscope.sim.run import execute
from npuscope.structs import replace
from processes import LIMIT_S
from program.network_c.nets import HEADERS, kernels, layers, moves

NETS = {"moves": moves, "kernels": kernels, "layers": layers}
_ABS32 = 2


def relocatable(graph: Graph, generation: str, controller: bool) -> Program:
    machine = replace(MACHINES[generation], epoch_controller=controller)
    return compile_graph(graph, with_relative_pools(machine))


def written(folder: Path, program: Program) -> Path:
    _, files = code_files(program, MACHINES[program.generation], "network")
    for name, content in (files | pool_images(program)).items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("controller", [True, False])
@pytest.mark.parametrize("generation", ["2.2", "4.0"])
def test_it_reads_back_and_computes_the_same(generation, controller, tmp_path):
    program = relocatable(moves(), generation, controller)
    back = read_program(written(tmp_path, program))
    assert [p.name for p in back.pools if p.relative] == ["octoFlash", "hyperRAM"]
    rng = np.random.default_rng(1)
    buffers = program.buffer_map()
    feeds = [rng.integers(-128, 128, buffers[n].shape).astype(np.int8) for n in program.inputs]
    ours = execute(program, dict(zip(program.inputs, feeds, strict=True))).outputs
    theirs = execute(back, dict(zip(back.inputs, feeds, strict=True))).outputs
    for name, other in zip(program.outputs, back.outputs, strict=True):
        assert np.array_equal(ours[name].ravel(), theirs[other].ravel())


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
def test_blobs_become_containers_that_relocate_to_the_plain_blob(generation):
    program = relocatable(moves(), generation, True)
    for number in sorted({e.blob for e in program.executed if e.blob is not None}):
        binary = binary_of(program, number, "net")
        assert binary.container is not None
        assert [row.identifier for row in binary.relocations] == ["_mem_pool_xSPI2_net"]
        base = program.pool("octoFlash").address
        there = relocated(binary, {"_mem_pool_xSPI2_net": base})
        assert there.instructions == lower(program, number)


def renamed_base(blob: bytes, name: bytes) -> bytes:
    """The base of a container under another name that is no longer."""
    old = b"_mem_pool_xSPI2_network"
    assert blob.count(old) == 1
    return blob.replace(old, name.ljust(len(old), b"\0"))


def test_a_relocation_may_have_the_short_name_of_a_pool(tmp_path):
    program = relocatable(moves(), "4.0", True)
    written(tmp_path, program)
    network = read_network_c(tmp_path / "network.c")
    blobs = blob_arrays(program, "network")
    wanted = with_blobs(network, blobs).epochs
    short = {name: renamed_base(blob, b"xSPI2") for name, blob in blobs.items()}
    assert with_blobs(network, short).epochs == wanted
    wrong = {name: renamed_base(blob, b"xSPI7") for name, blob in blobs.items()}
    with pytest.raises(FileError, match="relative to the base 'xSPI7', but no pool of") as caught:
        with_blobs(network, wrong)
    assert caught.value.where.startswith("blob '_ec_blob_network_")


@pytest.mark.parametrize("ending", ["_binary", "_reloc"])
def test_a_container_is_found_under_its_older_names(ending, tmp_path):
    program = compile_graph(moves(), MACHINES["4.0"])
    written(tmp_path, program)
    network = read_network_c(tmp_path / "network.c")
    blobs = blob_arrays(program, "network")
    older = {name + ending: blob for name, blob in blobs.items()}
    assert with_blobs(network, older).epochs == with_blobs(network, blobs).epochs


def test_an_encrypted_blob_is_told_and_the_others_are_read(tmp_path):
    program = compile_graph(moves(), MACHINES["4.0"])
    written(tmp_path, program)
    header = tmp_path / "network_ecblobs.h"
    name = sorted(blob_arrays(program, "network"))[0]
    line = f"#define LL_ATON_EC_MustDecryptBlob_network_{name} true\n"
    header.write_text(header.read_text() + line)
    found = read_program(tmp_path / "network.c")
    assert f"blobs {name} are encrypted and cannot be read here" in found.notes
    assert sum(epoch.groups is None for epoch in found.epochs) == 1


def test_a_source_takes_the_blobs_that_it_includes(tmp_path):
    program = compile_graph(moves(), MACHINES["4.0"])
    written(tmp_path, program)
    (tmp_path / "another_ecblobs.h").write_text("damaged")
    source = tmp_path / "network.c"
    assert '#include "network_ecblobs.h"' in source.read_text()
    assert read_program(source).epoch_controller


def test_an_image_may_be_an_array_in_c(tmp_path):
    program = relocatable(moves(), "4.0", True)
    written(tmp_path, program)
    wanted = read_program(tmp_path / "network.c")
    raw = tmp_path / "atonbuf.xSPI2.raw"
    data = raw.read_bytes() + bytes(-len(raw.read_bytes()) % 8)
    words = ", ".join(f"{word}ULL" for (word,) in struct.iter_unpack("<Q", data))
    (tmp_path / "atonbuf.xSPI2.c").write_text(
        f"const uint64_t _mem_pool_xSPI2_network[{len(data) // 8}] = {{ {words} }};"
    )
    raw.unlink()
    found = read_program(tmp_path / "network.c")
    assert found.constants.keys() == wanted.constants.keys()
    assert all(np.array_equal(found.constants[n], wanted.constants[n]) for n in wanted.constants)


def test_blobs_without_relative_pools_stay_plain():
    program = compile_graph(moves(), MACHINES["4.0"])
    blobs = blob_arrays(program, "net")
    assert blobs and all(read_binary(data).container is None for data in blobs.values())


@pytest.mark.parametrize("controller", [True, False])
@pytest.mark.parametrize("net", sorted(NETS))
def test_image_code_has_no_address_in_flash(net, controller, tmp_path):
    elffile = pytest.importorskip("elftools.elf.elffile")
    pytest.importorskip("ziglang")
    program = relocatable(NETS[net](), "4.0", controller)
    folder = written(tmp_path, program)
    flags = ["-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m33"]
    flags += ["-ffreestanding", "-fropi", "-frwpi", "-fshort-enums"]
    flags += ["-Os", "-Wall", "-Wextra", "-Werror", "-c"]
    flags += ["-DNPUSCOPE_DIALECT=3", "-DNPUSCOPE_KERNELS", "-DNPUSCOPE_RELOCATABLE"]
    flags += [f"-I{HEADERS}", f"-I{HEADERS.parent / 'kernels'}", f"-I{folder}"]
    command = [sys.executable, "-m", "ziglang", "cc", *flags, "network.c", "-o", "network.o"]
    made = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert made.returncode == 0, made.stderr
    with (folder / "network.o").open("rb") as file:
        elf = elffile.ELFFile(file)
        relocations = [s for s in elf.iter_sections() if s["sh_type"] in ("SHT_REL", "SHT_RELA")]
        addressed = [s for s in relocations if any(map(_is_address, s.iter_relocations()))]
        targets = [elf.get_section(s["sh_info"]) for s in addressed]
        flags = {target.name: target["sh_flags"] for target in targets}
    assert flags
    assert all(flag & 1 for flag in flags.values()), flags  # 1: writable


def _is_address(relocation) -> bool:
    return relocation["r_info_type"] == _ABS32


def test_the_text_names_each_relative_pool_once():
    program = relocatable(moves(), "4.0", True)
    text = network_c_text(program, MACHINES["4.0"])
    assert text.count("extern unsigned char _mem_pool_xSPI2_network[];") == 1
    assert text.count("extern unsigned char _mem_pool_xSPI1_network[];") == 1
    assert "name=octoFlash offset=0x71000000  relative_mode" in text
    assert "name=npuRAM5 offset=0x342e0000  absolute_mode" in text


def test_pool_files_keep_the_mode(tmp_path):
    machine = with_relative_pools(MACHINES["4.0"])
    path = tmp_path / "x.mpool"
    path.write_text(mpool_text(machine))
    assert '"mode": "USEMODE_RELATIVE"' in path.read_text()
    assert read_mpool(path, machine) == machine.pools
