"""`estimate --set` and --sensitivity, `machines --keys`: as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import npuscope
from models import mobilenet_like, save, to_tflite
from npuscope.cli.main import main

OURS = {"what_if", "baseline_ms", "recompiled", "mapping_changed", "sensitivity"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path, "net.tflite", to_tflite(mobilenet_like()))


@pytest.fixture
def build(model: Path, tmp_path: Path) -> Path:
    npuscope.compile(model, tmp_path / "a" / "b")
    return tmp_path / "a" / "b"


def output(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def test_an_estimate_without_set_has_no_what_if(model: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    words = ("estimate", model, "--npu-mhz", "800")
    assert "what-if" not in output(capsys, *words)
    assert not OURS & set(json.loads(output(capsys, *words, "--json")))


def test_a_timing_key_on_a_build(build: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    words = ("estimate", build, "--npu-mhz", "900", "--set", "npu.clock_mhz=450")
    lines = output(capsys, *words).splitlines()
    line = next(line for line in lines if line.startswith("what-if"))
    assert line.startswith("what-if  clocks.npu_mhz 900 -> 450: ")
    assert line.endswith(", re-timed, not recompiled")
    found = json.loads(output(capsys, *words, "--json"))
    assert found["what_if"] == [
        {"key": "clocks.npu_mhz", "old": 900.0, "new": 450.0, "kind": "timing"}
    ]
    assert found["recompiled"] is False
    assert found["total_ms"] > found["baseline_ms"]
    assert found["machine"]["npu_mhz"] == 450.0


def test_a_mapping_key_on_a_build(build: Path, model: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    words = ["estimate", str(build), "--set", "units.ARITH=1"]
    assert main([*words, "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["kind"], error["where"]) == ("usage", "--set units.ARITH")
    found = json.loads(output(capsys, *words, "--model", model, "--json"))
    assert found["what_if"][0]["kind"] == "mapping"
    assert (found["recompiled"], found["mapping_changed"]) == (True, True)
    assert found["notes"][0] == "recompiled from net.tflite: the compiler reads units.ARITH"


def test_json_must_not_cost_the_model(build: Path, model: Path) -> None:
    before = model.read_bytes()
    assert main(["estimate", str(build), "--model", str(model), "--json", str(model)]) == 2
    assert model.read_bytes() == before


def test_sensitivity(model: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    text = output(capsys, "estimate", model, "--sensitivity")
    assert "\nSensitivity  one timing key 10% better at a time" in text
    rows = json.loads(output(capsys, "estimate", model, "--sensitivity", "--json"))["sensitivity"]
    assert rows[0].keys() == {"key", "value", "tried", "saved_ms"}
    assert rows[0]["key"] in text


def test_machines_keys(capsys) -> None:  # type: ignore[no-untyped-def]
    everything = output(capsys, "machines", "--keys")
    some = output(capsys, "machines", "--keys", "clocks").splitlines()
    assert some[0] == (
        "stm32n6: 5 keys for --set: 5 timing (a program is timed again), "
        "0 mapping (the model is compiled again)"
    )
    own = some[1 : some.index("")]  # behind it come those of other machines
    assert set(own) < set(everything.splitlines())
    words = ("machines", "--keys", "units.POOL", "--json")
    machine, other, *_ = json.loads(output(capsys, *words))["machines"]
    assert other == {"name": "cloudai100", "keys": []}
    assert machine == {
        "name": "stm32n6",
        "keys": [
            {
                "key": "units.POOL",
                "value": 2,
                "kind": "mapping",
                "unit": "",
                "note": "counts [mdesc]",
            }
        ],
    }
