"""Profiles of the vendor's neural_art.json and the option strings in them."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import npuscope
from models import mobilenet_like, save, to_tflite
from npuscope import building
from npuscope.errors import FileError, UsageError
from npuscope.machine.load import load_machine
from npuscope.machine.vendor_options import (
    VendorOptions,
    apply_art_profile,
    parse_options,
    read_art_profile,
)
from npuscope.program.model import EpochKind

MACHINE = load_machine()
USUAL = (
    "-O3 --all-buffers-info --mvei --cache-maintenance --Oauto-sched --native-float "
    "--enable-virtual-mem-pools --Omax-ca-pipe 4 --Ocache-opt --Os --csv-file a.csv"
)


def write(path: Path, **profiles: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"Globals": {}, "Profiles": profiles}), encoding="utf-8")
    return path


def pool_file(path: Path) -> Path:
    entry = {
        "name": "only",
        "fname": "AXISRAM2",
        "prop": {"rights": "ACC_WRITE", "byteWidth": 8, "freqRatio": 2.5},
        "offset": {"value": "0x34100000", "magnitude": "BYTES"},
        "size": {"value": "1024", "magnitude": "KBYTES"},
    }
    path.write_text(json.dumps({"memory": {"mempools": [entry]}}), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (USUAL, VendorOptions(3, virtual_pools=True, max_pipe=4, csv_file="a.csv")),
        (
            "--ec-single-epoch --output-info-file info.json",
            VendorOptions(single_epoch=True, info_file="info.json"),
        ),
        ("--optimization 1", VendorOptions(1)),
        ("--optimization=2 --enable-epoch-controller", VendorOptions(2, True)),
        (
            "--load-mpool a.mpool --load-mdesc b.mdesc",
            VendorOptions(mpool="a.mpool", mdesc="b.mdesc"),
        ),
        ("", VendorOptions()),
    ],
)
def test_options_are_understood(text: str, found: VendorOptions) -> None:
    assert parse_options(text, "here") == found


@pytest.mark.parametrize(
    ("text", "option"),
    [("--Oauto --Os", "--Oauto"), ("--new-thing 7 -O1", "--new-thing"), ("--odd -O1", "--odd")],
)
def test_what_is_not_followed_is_said(text: str, option: str) -> None:
    found = parse_options(text, "here")
    assert found.notes[0].startswith(f"here: option {option} is ignored: ")
    assert found.optimization == (1 if "-O1" in text else None)


@pytest.mark.parametrize(
    "text", ["--optimization", "-O9", "--optimization x", "--Omax-ca-pipe many", '"open']
)
def test_broken_options(text: str) -> None:
    with pytest.raises(UsageError):
        parse_options(text, "here")


def test_a_profile_changes_the_machine(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pool_file(tmp_path / "a.mpool")
    options = "-O0 --Omax-ca-pipe 2 --enable-epoch-controller"
    file = write(
        tmp_path / "art.json",
        small={"memory_pool": "./a.mpool", "memory_desc": "gone.mdesc", "options": options},
    )
    profile = read_art_profile(f"small@{file}")
    assert read_art_profile(str(file)) == profile  # the only one
    with caplog.at_level(logging.WARNING):
        machine = apply_art_profile(MACHINE, profile)
    assert [pool.name for pool in machine.pools] == ["only"]
    assert machine.convacc.max_pipe == 2
    assert machine.placement.virtual_pool == ()
    assert profile.options.optimization == 0
    assert caplog.messages == [
        f"{file}: profile small: keys memory_desc are ignored; "
        "'memory_desc' was renamed, use 'machine_desc'"
    ]


def test_the_profile_decides_who_starts_epochs(tmp_path: Path) -> None:
    file = write(tmp_path / "art.json", on={"options": "--enable-epoch-controller"}, off={})
    on, off = (building.machine_for({"art_profile": f"{name}@{file}"}) for name in ("on", "off"))
    assert (on.epoch_controller, off.epoch_controller) == (True, False)
    asked = building.machine_for({"art_profile": f"off@{file}", "epoch_controller": True})
    assert asked.epoch_controller and building.machine_for({}).epoch_controller


def test_the_virtual_pool_needs_its_option(tmp_path: Path) -> None:
    file = write(tmp_path / "art.json", on={"options": USUAL}, off={"options": "-O3"})
    on, off = (building.machine_for({"art_profile": f"{name}@{file}"}) for name in ("on", "off"))
    assert on.placement.virtual_pool == MACHINE.placement.virtual_pool
    assert off.placement.virtual_pool == ()


def test_an_unknown_profile_lists_the_known(tmp_path: Path) -> None:
    file = write(tmp_path / "art.json", a={}, b={})
    for text in (f"c@{file}", str(file)):
        with pytest.raises(UsageError, match="it has a, b"):
            read_art_profile(text)


@pytest.mark.parametrize(
    "content", ["", "[]", '{"Profiles": []}', '{"Profiles": {"a": 3}}', "\x00"]
)
def test_broken_files(tmp_path: Path, content: str) -> None:
    file = tmp_path / "art.json"
    file.write_text(content)
    with pytest.raises(FileError):
        read_art_profile(f"a@{file}")


def test_a_missing_pool_file(tmp_path: Path) -> None:
    file = write(tmp_path / "art.json", a={"memory_pool": "none.mpool"})
    with pytest.raises(FileError, match="cannot be read"):
        building.machine_for({"art_profile": f"a@{file}"})


def test_options_of_a_profile_have_effect(tmp_path: Path) -> None:
    """One blob per epoch, and the names of the tables."""
    options = (
        "--enable-epoch-controller --ec-single-epoch --csv-file t.csv --output-info-file i.json"
    )
    file = tmp_path / "neural_art.json"
    file.write_text(json.dumps({"Profiles": {"mine": {"options": options}}}), encoding="utf-8")
    model = save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))
    program = npuscope.compile(model, tmp_path / "net", art_profile=f"mine@{file}")
    blobs = {epoch.blob for epoch in program.executed} - {None}
    assert len(blobs) == program.count(EpochKind.HW) == 10
    assert (tmp_path / "net" / "t.csv").exists() and (tmp_path / "net" / "i.json").exists()


@pytest.mark.parametrize(
    ("name", "level", "controller", "off"),
    [
        ("default", None, True, []),
        ("n6-allmems-O3", 3, True, []),
        ("n6-noextmem", 3, False, ["octoFlash", "hyperRAM"]),
        ("n6-extflash", 3, False, ["hyperRAM"]),
    ],
)
def test_usual_profiles_need_no_file(
    name: str, level: int | None, controller: bool, off: list[str]
) -> None:
    profile = read_art_profile(name)
    assert (profile.options.optimization, profile.options.epoch_controller) == (level, controller)
    machine = apply_art_profile(load_machine(), profile)
    pools = {pool.name: pool.size_bytes for pool in machine.pools}
    usual = {pool.name: pool.size_bytes for pool in MACHINE.pools}
    assert pools == usual | dict.fromkeys(off, 0)
