"""Programs from files and folders: which file wins, what is joined, what is missing."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npuscope
from compiler.nets import sample
from npuscope.demo_network import demo_graph
from npuscope.errors import FileError, TargetError, UsageError
from npuscope.program.code_files import hex_text
from npuscope.program.model import Claims, Program
from npuscope.program.sources import read_program
from npuscope.sim.run import execute


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("build")
    npuscope.compile(demo_graph(), folder)
    return folder


def copied(build: Path, folder: Path, *names: str) -> Path:
    for name in names:
        shutil.copy(build / name, folder / name)
    return folder


def outputs(program: Program) -> np.ndarray:
    (found,) = execute(program, sample(demo_graph(), 1)).outputs.values()
    return found.ravel()


def test_our_own_folder(build: Path) -> None:
    assert read_program(build).source == "npuscope"
    assert read_program(build / "program.json").source == "npuscope"


def test_a_vendor_folder(build: Path, tmp_path: Path) -> None:
    names = ("network.c", "network_ecblobs.h", "atonbuf.xSPI2.raw", "c_info.json")
    found = read_program(copied(build, tmp_path, *names))
    ours = read_program(build)
    assert found.source == "network.c"
    assert not found.notes
    assert [e.claims for e in found.executed] == [e.claims for e in ours.executed]
    assert {p.name: p.used_bytes for p in found.pools if p.name == "npuRAM5"} == {
        p.name: p.used_bytes for p in ours.pools if p.name == "npuRAM5"
    }
    assert np.array_equal(outputs(found), outputs(ours))


def test_without_images_it_can_be_timed_only(build: Path, tmp_path: Path) -> None:
    folder = copied(build, tmp_path, "network.c", "network_ecblobs.h")
    found = read_program(folder)
    size = (build / "atonbuf.xSPI2.raw").stat().st_size
    assert found.notes == (
        "the image of octoFlash is not in the folder: the program cannot be executed; looked for "
        f"*.xSPI2.raw (.bin, .c), a .hex or .elf file with {size:,} bytes at 0x71000000, and a "
        "file of that size",
    )
    whole = npuscope.estimate(demo_graph()).total_ms
    assert npuscope.estimate(folder).total_ms == pytest.approx(whole, rel=0.02)


def test_without_images_nothing_is_computed(build: Path, tmp_path: Path) -> None:
    found = read_program(copied(build, tmp_path, "network.c", "network_ecblobs.h"))
    with pytest.raises(TargetError) as caught:
        outputs(found)
    assert caught.value.message == ("cannot be executed: the weights in octoFlash are missing")
    assert "*.xSPI2.raw" in caught.value.hint
    with pytest.raises(TargetError, match="are missing"):
        npuscope.validate(tmp_path / "network.c", model=demo_graph())


@pytest.mark.parametrize("name", ["network_data.hex", "network_atonbuf.xSPI2.c"])
def test_weights_in_other_wrappings(build: Path, tmp_path: Path, name: str) -> None:
    image = (build / "atonbuf.xSPI2.raw").read_bytes()
    folder = copied(build, tmp_path, "network.c", "network_ecblobs.h")
    pool = read_program(build).pool("octoFlash")
    numbers = ",".join(map(str, image))
    array = f"const uint8_t _mem_pool_xSPI2_network[] = {{{numbers}}};"
    text = hex_text(image, pool.address) if name.endswith("hex") else array
    (folder / name).write_text(text)
    found = read_program(folder)
    assert not found.missing_weights()
    assert np.array_equal(outputs(found), outputs(read_program(build)))


def test_weights_of_another_network_are_not_taken(build: Path, tmp_path: Path) -> None:
    folder = copied(build, tmp_path, "network.c", "network_ecblobs.h")
    shutil.copy(build / "network.c", folder / "faces.c")
    shutil.copy(build / "atonbuf.xSPI2.raw", folder / "faces_atonbuf.xSPI2.raw")
    assert read_program(folder / "network.c").missing_weights()
    assert not read_program(folder / "faces.c").missing_weights()


def test_a_build_kept_under_another_ending(build: Path, tmp_path: Path) -> None:
    copied(build, tmp_path, "network_ecblobs.h", "atonbuf.xSPI2.raw")
    shutil.copy(build / "network.c", tmp_path / "network.c.old")
    found = read_program(tmp_path / "network.c.old")
    assert np.array_equal(outputs(found), outputs(read_program(build)))


def test_a_damaged_hex_file_leaves_the_times(build: Path, tmp_path: Path) -> None:
    folder = copied(build, tmp_path, "network.c", "network_ecblobs.h")
    (folder / "network_data.hex").write_text(":0400000001020304FF\n")
    found = read_program(folder)
    assert [pool.name for pool in found.missing_weights()] == ["octoFlash"]
    assert npuscope.estimate(folder).total_ms > 0


def test_c_info_alone(build: Path, tmp_path: Path) -> None:
    found = read_program(copied(build, tmp_path, "c_info.json"))
    assert found.source == "c_info"
    assert all(epoch.groups is None for epoch in found.executed if epoch.call is None)
    profile = npuscope.estimate(tmp_path)
    assert profile.counts["HW"] == read_program(build).count(found.executed[0].kind)
    with pytest.raises(UsageError, match="validated against its model"):
        npuscope.validate(tmp_path)


def test_a_c_info_of_another_compile_is_left_aside(build: Path, tmp_path: Path) -> None:
    """A folder may have one that an older compile left."""
    for name in ("network.c", "network_ecblobs.h", "c_info.json"):
        shutil.copy(build / name, tmp_path / name)
    assert not any("another compile" in note for note in read_program(tmp_path).notes)
    info = tmp_path / "c_info.json"
    report = json.loads(info.read_text(encoding="utf-8"))
    for buffer in report["buffers"]:
        buffer["name"] += "_old"
    info.write_text(json.dumps(report), encoding="utf-8")
    found = read_program(tmp_path)
    assert any("c_info.json is not read: it describes another compile" in n for n in found.notes)
    assert not any(buffer.name.endswith("_old") for buffer in found.buffers)


def test_a_c_info_that_is_named_after_the_model(build: Path, tmp_path: Path) -> None:
    copied(build, tmp_path, "network.c", "network_ecblobs.h")
    plain = read_program(tmp_path)
    shutil.copy(build / "c_info.json", tmp_path / "network_model_int8_c_info_generate.json")
    found = read_program(tmp_path)
    assert len(found.buffers) >= len(plain.buffers) and found.notes == plain.notes
    assert any(epoch.claims != Claims() for epoch in found.epochs)
    assert not any(epoch.claims != Claims() for epoch in plain.epochs)


def test_a_program_is_not_compiled_again(build: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="already a compiled program"):
        npuscope.compile(build, tmp_path / "out")


@pytest.mark.parametrize("name", ["none.c", "none.json"])
def test_missing_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileError, match="no such file"):
        read_program(tmp_path / name)


def test_a_folder_without_a_network(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text("int main(void) { return 0; }")
    with pytest.raises(FileError, match="holds no compiled network"):
        read_program(tmp_path)
    (tmp_path / "x.txt").write_text("x")
    with pytest.raises(FileError, match="is neither a model nor"):
        read_program(tmp_path / "x.txt")


def test_results_of_our_own_verbs_are_no_programs(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_text('{\n  "schema": "npuscope/estimate/1",\n  "total_ms": 1.0\n}\n')
    with pytest.raises(FileError, match=r"this is a result \(npuscope/estimate/1\), not"):
        read_program(path)


def edited(build: Path, folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    path = folder / "c_info.json"
    document = json.loads((build / "c_info.json").read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


def test_a_damaged_c_info_names_the_pool(build: Path, tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        for pool in document["memory_pools"]:
            pool["attributes"]["byte_width"] = 0

    path = edited(build, tmp_path, change)
    with pytest.raises(FileError) as caught:
        npuscope.estimate(path)
    assert caught.value.message == "$.memory_pools[0].attributes.byte_width: is 0"
    assert caught.value.where == str(path)


def test_a_buffer_without_a_pool_is_not_counted(build: Path, tmp_path: Path) -> None:
    """What no epoch touches may lie nowhere."""

    def change(document: dict[str, Any]) -> None:
        spare = dict(document["buffers"][0], name="spare", id=10**6)
        spare.pop("mpool_id", None)
        document["buffers"].append(spare)

    plain = npuscope.estimate(edited(build, tmp_path, lambda document: None))
    found = npuscope.estimate(edited(build, tmp_path, change))
    assert found.total_ms == plain.total_ms


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "", "no array of 64-bit words in this header"),
        (
            "const uint64_t b[] = { 08 };",
            ", character 22",
            "expected a 64-bit number, found '08 };'",
        ),
    ],
)
def test_a_damaged_header_of_blobs_is_named(
    build: Path, tmp_path: Path, text: str, place: str, message: str
) -> None:
    folder = copied(build, tmp_path, "network.c")
    header = folder / "network_ecblobs.h"
    header.write_text(text)
    with pytest.raises(FileError) as caught:
        read_program(folder)
    assert (caught.value.where, caught.value.message) == (f"{header}{place}", message)


def test_a_blob_without_the_epochs_of_its_item_is_named(build: Path, tmp_path: Path) -> None:
    folder = copied(build, tmp_path, "network.c", "network_ecblobs.h")
    source = folder / "network.c"
    text = source.read_text()
    source.write_text(re.sub(r"(\.(last_)?epoch_num = )\d+", r"\g<1>99999", text))
    with pytest.raises(FileError) as caught:
        read_program(folder)
    header = folder / "network_ecblobs.h"
    assert caught.value.message == "it holds none of the epochs of its item"
    assert caught.value.where.startswith(f"{header}, blob '_ec_blob_")
