"""Outputs of every kind: twice by the same command, never over another's file unless asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from models import conv_net, save, to_tflite
from npuscope.cli.main import main

COMMANDS = {
    "estimate {model} --html {out}": "page.html",
    "estimate {model} --json {out}": "figures.json",
    "profile {model} --csv {out}": "table.csv",
    "profile {model} --trace {out}": "run.perfetto-trace",
    "profile {model} --chrome {out}": "run.json",
    "profile {model} --save {out}": "profile.json",
    "explain {model} --sarif {out}": "findings.sarif",
    "explain {model} --junit {out}": "findings.xml",
    "export {model} --netron {out}": "annotated.onnx",
    "fix {model} -o {out}": "fixed.tflite",
}
MINE = b"years of work"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("models"), "net.tflite", to_tflite(conv_net()))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_same_command_twice_and_a_file_of_someone_else(
    command: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / COMMANDS[command]
    words = command.format(model=model, out=out).split()
    assert main(words) == main(words) == 0
    ours = out.read_bytes()
    out.write_bytes(MINE)
    capsys.readouterr()
    assert main(words) == 74
    assert capsys.readouterr().err.endswith(
        f"npuscope: {out}: already exists, and npuscope did not write it\n"
        "  hint: name another file, or replace this one with --force\n"
    )
    assert out.read_bytes() == MINE
    assert main([*words, "--force"]) == 0
    assert len(out.read_bytes()) == len(ours)


@pytest.mark.parametrize("option", ["-o", "--json", "--html"])
def test_what_is_read_is_never_replaced(
    option: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = model.read_bytes()
    link = tmp_path / "link.tflite"
    link.symlink_to(model)
    for place in (model, link):
        asked = [option, str(place)] if option == "-o" else [f"{option}={place}"]
        assert main(["fix", str(model), *asked, "--force"]) == 2
        assert "this is the input file" in capsys.readouterr().err
    assert model.read_bytes() == before
