"""Every verb on a machine of every family: it answers, or says in one sentence that it does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models import mobilenet_like, save, to_onnx, to_tflite
from npuscope.cli.main import main
from quantizing.float_nets import small_net

MACHINES = ("stm32n6", "cloudai100", "ethos-u55-128")
# A verb with its words. {net} is an int8 network, {float} one of floats, {out} the folder that
# `compile` wrote. What follows says which of the machines answer; the others refuse.
ALL, NOT_CORES, HOUSE = "sce", "se", "s"
CELLS = {
    "estimate {net}": ALL,
    "estimate {net} {net}": ALL,
    "estimate {net} --together": HOUSE,
    "estimate {net} --sensitivity": NOT_CORES,
    "estimate {float} --as-int8": NOT_CORES,
    "estimate {out}": ALL,
    "estimate {net} --html page.html": ALL,
    "compile {net} -o made": ALL,
    "profile {net}": ALL,
    "profile {net} --full": NOT_CORES,
    "explain {net}": ALL,
    "lint {net}": ALL,
    "fix {net} -o {fixed} --integer-io": ALL,
    "validate {net}": ALL,
    "bisect {net}": NOT_CORES,
    "disasm {out}": ALL,
    "inspect {out}": ALL,
    "compare {net} {net}": ALL,
    "gate {net} --max total_ms=1000": ALL,
    "export {net} --model-explorer graph.json": ALL,
    "quantize {float} -o int8.onnx --data random": NOT_CORES,
    "tune {net} --max ms=1000 --evaluations 2 --jobs 1": ALL,
    "demo -o made": ALL,
    "checklist {out}": HOUSE,
    "deploy {out} --board stm32n6570-dk": HOUSE,
    "package -i {out}": HOUSE,
    "run {out}": HOUSE,
    "plan app.toml": HOUSE,
    "triage {net}": HOUSE,
    "board serve {net} --pty": HOUSE,
}
# Cells whose answers are tried elsewhere: they need a device, a build of a tool chain or an
# application; here only their refusal is.
ELSEWHERE = ("checklist", "deploy", "package", "run", "plan", "triage", "board")
# No --machine: the file says what it is.
WITHOUT = ("disasm", "inspect")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verbs")
    save(folder, "net.tflite", to_tflite(mobilenet_like()))
    save(folder, "cores.onnx", to_onnx(mobilenet_like()))
    small_net(folder).rename(folder / "float.onnx")
    return folder


def _words(cell: str, machine: str, folder: Path) -> list[str]:
    net = "cores.onnx" if machine == "cloudai100" else "net.tflite"
    fixed = f"fixed{Path(net).suffix}"
    places = {"{fixed}": fixed, "{net}": net, "{float}": "float.onnx", "{out}": f"{machine}_out"}
    words = [str(folder / places[word]) if word in places else word for word in cell.split()]
    if machine != "stm32n6" and words[0] not in WITHOUT:
        words += ["--machine", machine]
    return words


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_answers_or_refuses(
    cell: str,
    machine: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = machine[0] in CELLS[cell]
    if machine.startswith("ethos"):
        pytest.importorskip("ethosu.vela", reason="Vela is not installed")
    if answers and cell.startswith(ELSEWHERE):
        pytest.skip("tried with a device")
    monkeypatch.chdir(tmp_path)
    out = folder / f"{machine}_out"
    if "{out}" in cell and not out.exists():
        assert main(_words(f"compile {{net}} -o {out}", machine, folder)) == 0
        capsys.readouterr()
    words = _words(cell, machine, folder)
    code = main(words)
    text = capsys.readouterr()
    if answers:
        assert code == 0 or (code == 1 and words[0] == "lint"), text.err
        assert text.out.strip()
    else:
        assert code in (2, 3), text
        verb = words[0]
        said = (
            f"do not support {verb}",
            "does not apply to",
            "cannot be compared",
            "no file with",
            "alone, and has",
            "was made for",
            "expected a .tflite",
        )
        assert any(one in text.err for one in said), text.err
        assert "stm32n6570-dk" not in text.out


@pytest.mark.parametrize(("machine", "near"), [("ethos-u55-128", "clock_mhz"), ("cloudai100", "")])
def test_hints_name_keys_of_the_machine(
    machine: str, near: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["machines", "--keys", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["machines"]
    known = {row["key"] for one in rows if one["name"] == machine for row in one["keys"]}
    if machine.startswith("ethos"):
        pytest.importorskip("ethosu.vela", reason="Vela is not installed")
    assert main(_words("estimate {net} --set npu_mhz=250", machine, folder)) == 2
    hint = capsys.readouterr().err.partition("nearest: ")[2].strip()
    assert near in hint
    assert set(hint.split(", ")) <= known | {""}
