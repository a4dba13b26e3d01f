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

from compiler.nets import sample
from npuscope import api
from npuscope.demo_network import demo_graph
from npuscope.errors import FileError, UsageError
from npuscope.program.model import Program
from npuscope.program.sources import read_program
from npuscope.sim.run import execute


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("build")
    api.compile(demo_graph(), folder)
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
    assert found.notes == (
        "the image of octoFlash is not in the folder: the program cannot be executed",
    )
    whole = api.estimate(demo_graph()).total_ms
    assert api.estimate(folder).total_ms == pytest.approx(whole, rel=0.02)


def test_c_info_alone(build: Path, tmp_path: Path) -> None:
    found = read_program(copied(build, tmp_path, "c_info.json"))
    assert found.source == "c_info"
    assert all(epoch.groups is None for epoch in found.executed if epoch.call is None)
    profile = api.estimate(tmp_path)
    assert profile.counts["HW"] == read_program(build).count(found.executed[0].kind)
    with pytest.raises(UsageError, match="validated against its model"):
        api.validate(tmp_path)


def test_a_program_is_not_compiled_again(build: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="compiled program already"):
        api.compile(build, tmp_path / "out")


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
        api.estimate(path)
    assert caught.value.message == "$.memory_pools[0].attributes.byte_width: is 0"
    assert caught.value.where == str(path)


def test_a_buffer_without_a_pool_is_not_counted(build: Path, tmp_path: Path) -> None:
    """What no epoch touches may lie nowhere."""

    def change(document: dict[str, Any]) -> None:
        spare = dict(document["buffers"][0], name="spare", id=10**6)
        spare.pop("mpool_id", None)
        document["buffers"].append(spare)

    plain = api.estimate(edited(build, tmp_path, lambda document: None))
    found = api.estimate(edited(build, tmp_path, change))
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
