"""One door for machines: names of all families, the verbs they share, and what they cannot do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import npuscope
from many_core.nets import EncoderShape, encoder
from npuscope import families
from npuscope.cli.main import main
from npuscope.errors import UsageError
from npuscope.families import Report, family_of

COMMON = {"schema", "model", "machine", "total_ms", "interval_ms", "unknown_ops", "model_error",
    "inferences_per_s", "memory", "findings", "notes"}  # fmt: skip


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").write_bytes(encoder(EncoderShape(batch=2)))
    return Path("net.onnx")


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_all_machines_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(answer(capsys, "machines", "--json"))["machines"]
    assert [one["name"] for one in found] == ["stm32n6", "cloudai100"]
    assert {key for one in found for key in one} - set(found[0]) == {"family"}
    assert "cloudai100: 16 cores" in answer(capsys, "machines")


def test_keys_of_all_machines_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "machines", "--keys", "ddr")
    assert "ddr.effective_gb_per_s" in text and "cores.count" not in text
    found = json.loads(answer(capsys, "machines", "--keys", "ddr", "--json"))["machines"]
    assert {row["key"] for row in found[1]["keys"]} >= {"ddr.peak_gb_per_s", "ddr.latency_us"}


def test_an_estimate_has_the_first_lines_and_keys_of_all(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = answer(capsys, "estimate", "--machine", "cloudai100", str(model)).splitlines()
    assert lines[0].startswith("activations stay in VTCM; ") and "inf/s (predicted" in lines[0]
    assert [line.split()[0] for line in lines[1:4]] == ["model", "machine", "range"]
    assert lines[2] == "machine  cloudai100, 16 of 16 cores, batch 2"
    found = json.loads(answer(capsys, "estimate", "--machine", "cloudai100", str(model), "--json"))
    assert set(found) >= COMMON | {"engines", "verdict"}
    assert "counts" not in found
    low, high = found["interval_ms"]
    assert 0 < low <= found["total_ms"] <= high
    assert found["inferences_per_s"] == pytest.approx(2e3 / found["total_ms"], rel=1e-3)


def test_values_of_the_machine_can_be_set(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("estimate", "--machine", "cloudai100", str(model), "--set", "cores.count=2")
    assert "machine  cloudai100, 2 of 2 cores" in answer(capsys, *words)


def test_python_refuses_in_the_same_sentence(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", str(model), "--machine", "cloudai100"]) == 2
    with pytest.raises(UsageError) as caught:
        npuscope.profile(model, machine="cloudai100")
    assert capsys.readouterr().err == f"npuscope: {caught.value}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("profile",), "profile is not made for cloudai100: many-core machines have estimate"),
        (("estimate", "--generation", "2.2"), "this option is not made for cloudai100"),
        (("estimate", "--html", "x.html"), "this option is not made for cloudai100"),
        (("estimate", "--npu-mhz", "500"), "--npu-mhz: this option is not made for cloudai100"),
        (("estimate", "--flash", "octo-dtr-50"), "--flash: this option is not made for cloudai"),
    ],
)
def test_what_a_family_cannot_do_is_said_in_one_sentence(
    model: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert main((*words, "--machine", "cloudai100", str(model))) == 2
    assert message in capsys.readouterr().err


class Third:
    """A family that nothing else knows."""

    name = "third"

    def machines(self) -> tuple[str, ...]:
        return ("abacus",)

    def described(self, machine: str) -> Report:
        return Report(f"{machine}: beads", {"name": machine})

    def keys(self, machine: str) -> tuple[tuple[str, object], ...]:
        return (("beads.count", 10),)

    def compile(self, source: str | Path, options: Any) -> str:
        return f"{source} on {options['machine']}"

    def time(self, program: str) -> str:
        return f"{program}: slow"

    def report(self, timed: str) -> Report:
        return Report(timed, {"schema": "npuscope/estimate/1"})


def test_another_family_needs_no_change_elsewhere(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = families.families()
    monkeypatch.setattr(families, "families", lambda: (*known, Third()))
    assert family_of("abacus") is not None
    assert answer(capsys, "estimate", "--machine", "abacus", str(model)).startswith(
        "net.onnx on abacus: slow"
    )
    assert "abacus: beads" in answer(capsys, "machines")


def test_machines_of_the_first_family_have_no_other() -> None:
    assert family_of("stm32n6") is None
    assert family_of("nothing") is None
    assert family_of(None) is None


def test_levers_are_tried_and_the_best_comes_first(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(answer(capsys, "estimate", "--machine", "cloudai100", str(model), "--json"))
    gains = [lever["gain"] for lever in found["levers"]]
    assert gains == sorted(gains, reverse=True) and min(gains) > 1.02
    names = {lever["name"] for lever in found["levers"]}
    assert "16 activations on 1 core each" in names
    text = answer(capsys, "estimate", "--machine", "cloudai100", str(model))
    assert f"lever    {found['levers'][0]['name']}: " in text


def test_what_the_second_half_of_the_cores_brings_is_told(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("estimate", "--machine", "cloudai100", str(model))
    half, every = json.loads(answer(capsys, *words, "--json"))["scaling"].values()
    assert (half["cores"], every["cores"]) == (8, 16)
    for side in (half, every):
        assert sum(side["path_us"].values()) == pytest.approx(1e3 * side["ms"], rel=0.3)
        assert side["unevenness"] >= 1
    lines = answer(capsys, *words).splitlines()
    (told,) = (line for line in lines if line.startswith("cores "))
    assert "8 -> 16 cores" in told and "synchronisation" in told


def test_the_same_in_python(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import npuscope

    timed = npuscope.estimate(model, machine="cloudai100")
    found = json.loads(answer(capsys, "estimate", "--machine", "cloudai100", str(model), "--json"))
    assert timed.total_ms == pytest.approx(found["total_ms"], abs=1e-6)
    assert timed.inferences_per_s == pytest.approx(found["inferences_per_s"], abs=1e-3)
