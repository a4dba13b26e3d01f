"""Profiles that were kept: read back as they were, reported and exported without a run."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

import npuscope
from models import mobilenet_like, save, to_tflite
from npuscope.cli.main import main
from npuscope.demo_network import demo_graph
from npuscope.errors import FileError
from npuscope.profiling.model import SCHEMA, Profile, profile_to_json
from npuscope.profiling.saved import (
    is_saved_profile,
    profile_from_json,
    read_profile,
)
from sample_profile import sample_profile

PROFILES = {
    "estimate": lambda: npuscope.estimate(demo_graph()),
    "simulated": lambda: npuscope.profile(demo_graph(), batch=2),
    "blocks": lambda: npuscope.measure(demo_graph(), vendor_plan=True, batch=3).profile,
    "by hand": sample_profile,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("model"), "net.tflite", to_tflite(mobilenet_like()))


@pytest.fixture(scope="module")
def kept(model: Path) -> Path:
    path = model.with_name("kept.json")
    assert main(["profile", str(model), "--save", str(path), "-q"]) == 0
    return path


@pytest.mark.parametrize("name", PROFILES)
def test_what_is_read_equals_what_was_saved(name: str) -> None:
    profile: Profile = PROFILES[name]()
    assert profile_from_json(profile_to_json(profile)) == profile


def test_known_by_its_schema(kept: Path, model: Path, tmp_path: Path) -> None:
    assert is_saved_profile(kept)
    assert not is_saved_profile(model)
    assert not is_saved_profile(save(tmp_path, "c_info.json", b'{"schema": "another/1"}'))
    assert not is_saved_profile(tmp_path)


def test_reported_again_as_it_was(
    kept: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(model)]) == 0
    fresh = capsys.readouterr().out.splitlines()
    assert main(["profile", str(kept)]) == 0
    pairs = zip(fresh, capsys.readouterr().out.splitlines(), strict=True)
    assert [one.split()[0] for one, other in pairs if one != other] in ([], ["date"])
    assert main(["profile", str(kept), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["model"]["file"]) == ("npuscope/profile/1", "net.tflite")


def test_its_times_are_shown_on_the_model(kept: Path, model: Path, tmp_path: Path) -> None:
    shown = tmp_path / "shown.onnx"
    words = ["export", str(kept), "--model", str(model), "--netron", str(shown), "-q"]
    assert main(words) == 0
    node = onnx.load(shown).graph.node[0]
    told = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert told["provenance"] == b"simulation"


def test_it_is_not_run_again(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(kept), "--batch", "3"]) == 2
    assert "a saved profile cannot be run again" in capsys.readouterr().err


def test_it_is_not_overwritten(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = kept.read_bytes()
    assert main(["profile", str(kept), "--csv", str(kept)]) == 2
    assert "this is the input file" in capsys.readouterr().err
    assert kept.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda r: r.update(schema="npuscope/profiling/1"), "expected the schema"),
        (lambda r: r.pop("machine"), "$.machine: this key is missing"),
        (lambda r: r["counts"].update(HW="many"), "$.counts.HW: expected a whole number"),
        (lambda r: r["epochs"][0].update(kind="GPU"), "$.epochs[0].kind: expected one of HW, SW"),
        (lambda r: r.update(counts=[]), "$.counts: expected an object, found a list"),
        (lambda r: r["runs"][0]["clocks"].update(npu_mhz=0), "$.runs[0].clocks: expected clocks"),
        (lambda r: r["epochs"][0]["counters"].update(core_cycles=1e300), "expected counts from 0"),
        (lambda r: r["epochs"][0]["counters"].update(pre_cycles=-1), "expected counts from 0"),
        (lambda r: r.update(runs=[]), "$.runs: expected at least one run"),
        (lambda r: r.update({"new\nkey": 1}), "$.'new\\nkey': unknown key"),
    ],
)
def test_a_damaged_file_names_the_place(change: object, expected: str) -> None:
    record = json.loads(profile_to_json(sample_profile()))
    change(record)  # type: ignore[operator]
    with pytest.raises(FileError) as raised:
        profile_from_json(json.dumps(record).encode())
    assert expected in str(raised.value)


def test_no_prefix_of_a_file_is_a_profile() -> None:
    data = profile_to_json(sample_profile()).rstrip()
    for end in range(0, len(data), 97):
        with pytest.raises(FileError):
            profile_from_json(data[:end])


def test_an_error_names_the_file(tmp_path: Path) -> None:
    path = save(tmp_path, "kept.json", f'{{"schema": "{SCHEMA}"}}'.encode())
    with pytest.raises(FileError) as raised:
        read_profile(path)
    assert str(raised.value).startswith(f"{path}: $.program_hash: this key is missing")
    with pytest.raises(FileError):
        read_profile(tmp_path / "missing.json")
