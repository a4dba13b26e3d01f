"""Weights of a build that lie elsewhere, or bear another name than the compiler's."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import npuscope
from npuscope.demo_network import demo_graph
from npuscope.errors import FileError, NpuscopeError, UsageError
from npuscope.machine.load import load_machine
from npuscope.program.code_files import code_files, data_files, hex_text, pool_images
from npuscope.program.model import Program
from npuscope.program.sources import read_program
from npuscope.structs import replace

ADDRESS = 0x71000000
NAME = "atonbuf.xSPI2.raw"


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("build")
    npuscope.compile(demo_graph(), folder)
    return folder


@pytest.fixture
def bare(build: Path, tmp_path: Path) -> Path:
    """A source and its blobs, deep inside a project; no weights."""
    folder = tmp_path / "project" / "Appli" / "X-CUBE-AI" / "App"
    folder.mkdir(parents=True)
    for name in ("network.c", "network_ecblobs.h"):
        shutil.copy(build / name, folder / name)
    return folder


def check(found: Program, build: Path) -> None:
    assert not found.missing_weights()
    whole = read_program(build)
    for name, data in found.constants.items():
        if name in whole.constants:
            own = np.ascontiguousarray(whole.constants[name]).view(np.uint8).ravel()
            assert np.array_equal(data, own), name


@pytest.mark.parametrize("name", ["network_data.bin", "aed_weights.bin", "anything.raw"])
def test_any_name_beside_the_source_if_the_size_fits(name: str, bare: Path, build: Path) -> None:
    shutil.copy(build / NAME, bare / name)
    found = read_program(bare)
    check(found, build)
    size = (build / NAME).stat().st_size
    assert found.notes == (f"weights of octoFlash: {name}, the file of {size:,} bytes",)


@pytest.mark.parametrize("folder", ["Binary", "Binaries"])
def test_an_image_to_be_flashed_that_has_the_size(folder: str, bare: Path, build: Path) -> None:
    flashed = bare.parents[2] / folder
    flashed.mkdir()
    shutil.copy(build / NAME, flashed / "aed_weights.bin")
    (flashed / "se_weights.bin").write_bytes(b"\1" * 100)
    check(read_program(bare), build)


def test_a_file_of_another_size_is_not_taken(bare: Path, build: Path) -> None:
    (bare / "network_data.bin").write_bytes((build / NAME).read_bytes() + b"\1")
    assert read_program(bare).missing_weights()


def test_an_image_that_ends_early_is_another_networks(bare: Path, build: Path) -> None:
    image = (build / NAME).read_bytes()
    (bare / "network_atonbuf.xSPI2.bin").write_bytes(image[: len(image) // 2])
    (bare / "network_data.hex").write_text(hex_text(image[:100], ADDRESS), encoding="utf-8")
    assert read_program(bare).missing_weights()
    (bare / "aed_weights.bin").write_bytes(image)
    check(read_program(bare), build)


def test_the_image_that_ends_with_the_last_parameter_goes_first(bare: Path, build: Path) -> None:
    """A longer one under the compiler's own name was left by an older compile."""
    image = (build / NAME).read_bytes()
    (bare / "network_atonbuf.xSPI2.bin").write_bytes(b"\1" * (len(image) + 100))
    (bare / "network_data.xSPI2.bin").write_bytes(image)
    check(read_program(bare), build)


def test_banks_hold_what_a_virtual_pool_over_them_has(build: Path, tmp_path: Path) -> None:
    """Each bank has a file, the pool that is made of them has none."""
    program = npuscope.load(build / "program.json")
    flash = program.pool_map()["octoFlash"]
    image = (build / NAME).read_bytes()
    half = len(image) // 64 * 32
    banks = [
        replace(flash, name="low", file_name="LOW", size_bytes=half),
        replace(
            flash,
            name="high",
            file_name="HIGH",
            address=ADDRESS + half,
            size_bytes=flash.size_bytes - half,
        ),
    ]
    whole = replace(flash, name="low_high", file_name="LOW_HIGH", subpools=("low", "high"))
    others = [pool for pool in program.pools if pool.name != flash.name]
    buffers = [replace(b, pool=whole.name) if b.pool == flash.name else b for b in program.buffers]
    split = replace(program, pools=(*others, *banks, whole), buffers=tuple(buffers))
    files = pool_images(split)
    assert files["atonbuf.LOW.raw"] + files["atonbuf.HIGH.raw"] == image
    assert "atonbuf.LOW_HIGH.raw" not in files
    _, sources = code_files(split, load_machine(), "network")
    for name, content in (sources | files).items():
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(data)
    check(read_program(tmp_path), build)
    (tmp_path / "atonbuf.HIGH.raw").unlink()
    missing = [pool.name for pool in read_program(tmp_path).missing_weights()]
    assert whole.name in missing


def test_of_two_different_files_neither_is_taken(bare: Path, build: Path) -> None:
    image = (build / NAME).read_bytes()
    (bare / "a.bin").write_bytes(image)
    (bare / "b.bin").write_bytes(image)
    check(read_program(bare), build)
    (bare / "b.bin").write_bytes(image[::-1])
    assert read_program(bare).missing_weights()


@pytest.mark.parametrize("padding", [0, 7])
def test_the_folders_of_the_project_above(padding: int, bare: Path, build: Path) -> None:
    place = bare.parents[2] / "network_atonbuf.xSPI2.raw"
    place.write_bytes((build / NAME).read_bytes() + bytes(padding))
    check(read_program(bare / "network.c"), build)
    place.rename(place.with_name("other_atonbuf.xSPI2.raw"))
    assert read_program(bare).missing_weights()


def test_arrays_in_c_under_another_name(bare: Path, build: Path) -> None:
    text = data_files(read_program(build), "network")["network_data_params.c"]
    (bare / "weights.c").write_text(text, encoding="utf-8")
    check(read_program(bare / "network.c"), build)


def test_files_that_are_named(bare: Path, build: Path, tmp_path: Path) -> None:
    image = (build / NAME).read_bytes()
    plain, records, c = tmp_path / "w.dat", tmp_path / "w.hex", tmp_path / "w.c"
    plain.write_bytes(image)
    records.write_text(hex_text(image, ADDRESS), encoding="utf-8")
    c.write_text(data_files(read_program(build), "network")["network_data_params.c"])
    for words in (
        [f"{plain}"],
        [f"{plain}@{ADDRESS:#x}"],
        [f"{records}"],
        [f"{c}"],
        [f"{c}@{ADDRESS:#x}"],
    ):
        check(read_program(bare, words), build)
    half = len(image) // 2
    parts = [(0, image[:half]), (half, image[half:])]
    for number, (start, data) in enumerate(parts):
        (tmp_path / f"{number}.hex").write_text(hex_text(data, ADDRESS + start), encoding="utf-8")
    words = [str(tmp_path / f"{number}.hex") for number in range(2)]
    check(read_program(bare, words), build)
    assert read_program(bare, words[:1]).missing_weights()  # a part is not enough


def test_what_is_named_wins(bare: Path, build: Path, tmp_path: Path) -> None:
    (bare / NAME).write_bytes(bytes((build / NAME).stat().st_size))
    other = tmp_path / "right.bin"
    shutil.copy(build / NAME, other)
    check(read_program(bare, [str(other)]), build)


@pytest.mark.parametrize(
    ("word", "error", "message"),
    [
        ("none.bin", FileError, "no such file"),
        ("w.bin@nowhere", UsageError, "expected FILE or FILE@ADDRESS"),
        ("w.bin@0x100000000", UsageError, "expected FILE or FILE@ADDRESS"),
        ("w.bin@0x20000000", UsageError, "no weights of this network"),
        ("pointer.bin", FileError, "a Git LFS pointer"),
    ],
)
def test_words_that_mean_nothing(
    word: str,
    error: type[NpuscopeError],
    message: str,
    bare: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("w.bin").write_bytes(b"weights")
    Path("pointer.bin").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(error, match=message):
        read_program(bare, [word])


def test_verbs_take_them(bare: Path, build: Path, tmp_path: Path) -> None:
    image = tmp_path / "far.bin"
    shutil.copy(build / NAME, image)
    with pytest.raises(NpuscopeError, match="the weights in octoFlash are missing"):
        npuscope.validate(bare, model=demo_graph())
    assert npuscope.validate(bare, model=demo_graph(), weights=[str(image)]).passed
    with pytest.raises(UsageError, match="a model brings its weights"):
        npuscope.estimate(demo_graph(), weights=[str(image)])
