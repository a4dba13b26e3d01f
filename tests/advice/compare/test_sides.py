"""What may stand on either side: models, builds, profiles and results that were kept, logs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import npuscope
from advice.compared import network
from models import mobilenet_like, save, to_tflite
from npuscope.advice.compare.model import Comparison
from npuscope.advice.compare.sides import is_log, open_side, profile_from_result, result_schema
from npuscope.building import Options
from npuscope.cli.main import main
from npuscope.errors import FileError
from npuscope.report.json_report import estimate_json, profile_json


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One network as a model, a build, a saved profile, two results and a log."""
    folder = tmp_path_factory.mktemp("sides")
    model = str(save(folder, "net.tflite", to_tflite(mobilenet_like())))
    quiet = ("-q",)
    assert main(["compile", model, "-o", str(folder / "build"), *quiet]) == 0
    assert main(["profile", model, "--save", str(folder / "saved.json"), *quiet]) == 0
    assert main(["estimate", model, "--json", str(folder / "estimate.json"), *quiet]) == 0
    assert main(["profile", model, "--json", str(folder / "profile.json"), *quiet]) == 0
    log = str(folder / "board.log")
    assert main(["profile", model, "--batch", "3", "--log", log, *quiet]) == 0
    return folder


SOURCES = (
    "net.tflite",
    "build",
    "build/network.c",
    "build/program.json",
    "saved.json",
    "estimate.json",
    "profile.json",
    "board.log",
)


@pytest.mark.parametrize("source", SOURCES)
def test_the_same_network_does_not_differ_in_any_form(folder: Path, source: str) -> None:
    found: Comparison = npuscope.compare(folder / "net.tflite", folder / source)
    assert found.changed == ()
    assert npuscope.compare(folder / source, folder / "net.tflite").changed == ()


def test_a_log_is_named_after_the_other_sides_program(folder: Path) -> None:
    found = npuscope.compare(f"log:{folder / 'board.log'}", folder / "net.tflite")
    assert found.a.name == "board.log"
    assert all(row.ops for row in found.rows)
    assert found.moves == ()


def test_a_log_of_another_program_stays_without_ops(folder: Path) -> None:
    options: Options = {"epoch_controller": False}
    found = npuscope.compare(folder / "board.log", folder / "net.tflite", b_options=options)
    assert (
        "A: the log belongs to another program: its blocks are not the epochs of the other side"
        in found.notes
    )
    assert not any(epoch.origin for epoch in found.a.profile.epochs)


def test_two_logs(folder: Path) -> None:
    found = npuscope.compare(folder / "board.log", folder / "board.log")
    assert found.changed == ()


def test_one_source_with_other_options(folder: Path) -> None:
    found = npuscope.compare(folder / "net.tflite", b_options={"generation": "2.2"})
    assert found.a.profile.machine.generation == "4.0"
    assert found.b.profile.machine.generation == "2.2"


def test_a_log_by_its_name() -> None:
    assert is_log("log:anything") and is_log("run.log") and is_log(Path("RUN.LOG"))
    assert not is_log("net.tflite") and not is_log(network())


def test_results_are_known_by_their_schema(folder: Path) -> None:
    assert result_schema(folder / "estimate.json") == "npuscope/estimate/1"
    assert result_schema(folder / "profile.json") == "npuscope/profile/1"
    assert result_schema(folder / "saved.json") == ""
    assert result_schema(folder / "net.tflite") == ""
    assert result_schema(folder / "none.json") == ""


@pytest.mark.parametrize("write", [estimate_json, profile_json])
def test_a_result_read_back_is_the_profile_but_for_its_counters(
    write: Callable[..., dict[str, Any]],
) -> None:
    profile = npuscope.profile(network())
    found = profile_from_result(json.loads(json.dumps(write(profile))))
    assert (found.model, found.machine, found.memory) == (
        profile.model,
        profile.machine,
        profile.memory,
    )
    assert found.total_ms == pytest.approx(profile.total_ms, abs=1e-6)
    for one, other in zip(found.epochs, profile.epochs, strict=True):
        assert (one.name, one.kind, one.origin) == (other.name, other.kind, other.origin)
        assert one.operators == other.operators
        assert one.counters.traffic == other.counters.traffic
        assert one.ms == pytest.approx(other.ms, abs=1e-6)


BROKEN: dict[str, tuple[Callable[[dict[str, Any]], object], str, str]] = {
    "no epochs": (lambda d: d.pop("epochs"), "expected a list", "$.epochs"),
    "an epoch that is none": (
        lambda d: d["epochs"].__setitem__(1, 7),
        "expected an object",
        "$.epochs[1]",
    ),
    "a time that is text": (
        lambda d: d["epochs"][2].update(ms="1"),
        "expected a number, found '1'",
        "$.epochs[2].ms",
    ),
    "a time that is not a number": (
        lambda d: d["epochs"][2].update(ms={"float": "nan"}),
        "expected times of 0 ms or more",
        "$.epochs",
    ),
    "a negative total": (
        lambda d: d.update(total_ms=-1),
        "expected times of 0 ms or more",
        "$.epochs",
    ),
    "an unknown kind": (
        lambda d: d["epochs"][0].update(kind="GPU"),
        "expected one of HW, SW, HYBRID, EMPTY, found 'GPU'",
        "$.epochs[0].kind",
    ),
    "pools that are a list": (
        lambda d: d["epochs"][0].update(pools=[]),
        "expected an object of objects",
        "$.epochs[0].pools",
    ),
    "a clock of 0": (
        lambda d: d["machine"].update(npu_mhz=0),
        "expected clocks above 0 MHz",
        "$.runs",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_result_says_where(case: str, folder: Path, tmp_path: Path) -> None:
    breaks, message, where = BROKEN[case]
    data = json.loads((folder / "estimate.json").read_text())
    breaks(data)
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(data, indent=2))
    with pytest.raises(FileError) as caught:
        open_side(path, {})
    assert (caught.value.message, caught.value.where) == (message, f"{path}: {where}")


def test_a_result_that_was_cut_off(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_bytes((folder / "estimate.json").read_bytes()[:700])
    with pytest.raises(FileError, match="not JSON"):
        open_side(path, {})
