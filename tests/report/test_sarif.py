"""SARIF: the shape that readers rely on, what a result says, and names that mean harm."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import npuscope
from models import mobilenet_like, save, to_tflite
from npuscope.advice.catalogue import catalogue
from npuscope.report.findings_files import FINGERPRINT, Checked, sarif_json, source_uri
from npuscope.rulebook.registry import RuleKind
from report.hostile import hostile_findings
from report.sarif_rules import Invalid, check_sarif


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("sarif"), "slow.tflite", to_tflite(mobilenet_like()))


@pytest.fixture
def log(slow: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.chdir(slow.parent)
    findings = npuscope.explain("slow.tflite").findings
    return sarif_json(Checked("explain", "slow.tflite", "4.0", findings))


def results(log: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = log["runs"][0]["results"]
    return found


def test_the_shape(log: dict[str, Any]) -> None:
    check_sarif(log)
    json.dumps(log, allow_nan=False)


@pytest.mark.parametrize("key", ["level", "ruleIndex", "message"])
def test_the_shape_check_can_fail(log: dict[str, Any], key: str) -> None:
    broken = copy.deepcopy(log)
    results(broken)[0][key] = {"level": "info", "ruleIndex": 0, "message": {}}[key]
    with pytest.raises(Invalid):
        check_sarif(broken)


def test_a_result_says_what_explain_says(log: dict[str, Any]) -> None:
    (softmax,) = (result for result in results(log) if result["ruleId"] == "NA-SOFTMAX")
    (place,) = softmax["locations"]
    assert softmax["level"] == "warning"
    assert softmax["message"]["text"].startswith("Softmax runs on the CPU: epoch 12: SOFTMAX:#10: ")
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "slow.tflite"
    assert place["logicalLocations"] == [
        {"fullyQualifiedName": "SOFTMAX:#10", "kind": "op"},
        {"name": "epoch 12", "kind": "epoch"},
    ]
    assert softmax["properties"]["fixes"][0]["id"] == "drop-softmax"
    assert softmax["properties"]["fixes"][0]["gain_ms"] > 0


def test_rules_carry_the_catalogues_help(log: dict[str, Any]) -> None:
    rules = {entry["id"]: entry for entry in log["runs"][0]["tool"]["driver"]["rules"]}
    known = catalogue()
    own = [info for info in known.values() if not info.family]
    assert set(rules) == {info.id for info in own if info.applies_to("4.0")}
    for name, entry in rules.items():
        assert entry["help"]["text"].startswith(known[name].cause.replace("{", "{{")[:20])
        assert known[name].docs in entry["help"]["text"]


def test_lint_asks_only_its_own_rules() -> None:
    asked = Checked("lint", "m.tflite", "4.0", ()).rules
    assert asked and {info.kind for info in asked} == {RuleKind.LINT}


def test_fingerprints_differ_and_do_not_move_with_epochs(slow: Path) -> None:
    findings = hostile_findings()
    prints = [
        [result["partialFingerprints"][FINGERPRINT] for result in results(sarif_json(checked))]
        for checked in (
            Checked("explain", "m", "4.0", (*findings, *findings)),
            Checked("explain", "m", "4.0", findings[3:]),
        )
    ]
    assert len(set(prints[0])) == 2 * len(findings)
    assert prints[0][3 : len(findings)] == prints[1]


def test_hostile_names_stay_text() -> None:
    log = sarif_json(Checked("explain", '../a b"\n%41\x1b.tflite', "4.0", hostile_findings()))
    check_sarif(log)
    for result in results(log):
        shown = [result["message"]["text"]]
        shown += [p["fullyQualifiedName"] for p in result["locations"][0]["logicalLocations"][:2]]
        assert all(text.isprintable() for text in shown)
        assert "[link](" not in shown[0]


def test_uris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert source_uri("a/b c#?.tflite") == "a/b%20c%23%3F.tflite"
    assert source_uri("x:y.onnx") == "x%3Ay.onnx"
    assert source_uri("bad\udcff.onnx") == "bad%FF.onnx"
    assert source_uri(str(tmp_path / "a.onnx")) == "a.onnx"
    assert source_uri("/elsewhere/a.onnx") == "file:///elsewhere/a.onnx"
    assert source_uri(".").startswith("file:///")
