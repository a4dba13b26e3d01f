"""`npuscope package`: what it prints and leaves behind."""

from __future__ import annotations

import json
import re

import pytest

from loadable.hand_net import write_net
from npuscope.cli.main import main

pytest.importorskip("ziglang")
pytest.importorskip("elftools")
CPU = ("--cpu", "cortex-m33")


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    return write_net(tmp_path_factory.mktemp("package") / "net")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words):
    return main(["package", *map(str, words)])


def result(capsys, *words):
    assert run(*words, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_text_as_the_vendors_tool_prints_it(net, capsys, folder):
    assert run(net, *CPU) == 0
    text = capsys.readouterr().out
    size = (folder / "build" / "network_rel.bin").stat().st_size
    assert text.splitlines()[0] == (
        f"build/network_rel.bin: {size:,} bytes, runs in place (XIP) or from RAM"
    )
    assert re.search(
        r"^   XIP size      = [\d,]+ +\(0x[0-9a-f]+\) data\+got\+bss sections$", text, re.M
    )
    assert re.search(r"^   PARAMS size   = 64 +\(0x40\)$", text, re.M)
    assert "│ 01010500 RELOC.PARAM.0.RCACHED │" in text
    assert "│ <undefined> (00000000) │ 00000000 UNUSED " in text
    assert f'   Generating files...\n    creating "build/network_rel.bin" (size={size:,})' in text


def test_json(net, capsys, folder):
    found = result(capsys, "-i", net / "network.c", "-o", "out", "-n", "face", *CPU)
    file = folder / "out" / "face_rel.bin"
    program = file.with_name("face_rel.program.json")
    assert found["files"] == ["out/face_rel.bin", f"out/{program.name}"]
    assert list(found["file_bytes"].values()) == [file.stat().st_size, program.stat().st_size]
    assert found["params_bytes"] == 64
    assert found["params_offset"] + 64 + 16 == file.stat().st_size
    assert found["copy_bytes"] > found["xip_bytes"] > 0
    assert found["pools"][0] == {
        "name": "xSPI2",
        "flags": 0x01010500,
        "flags_text": "RELOC.PARAM.0.RCACHED",
        "foff": 0,
        "dst": 0,
        "size": 64,
    }
    assert (found["xip"], found["xip_reason"]) == (True, "")
    assert (found["cpu"], found["secure"], found["split"]) == ("cortex-m33", True, False)


def test_no_execution_in_place(tmp_path, capsys):
    net = write_net(tmp_path / "net", CONST="const")
    assert run(net, *CPU) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[0].endswith("runs from RAM only")
    assert "\nno XIP   " in text
    found = result(capsys, net, *CPU)
    assert found["xip"] is False
    assert found["xip_reason"].endswith("the image must be copied to RAM")


def test_all_that_can_be_left_behind(net, capsys, folder):
    (folder / "build").mkdir()
    (folder / "build" / "mine.txt").write_text("stays")
    words = (*CPU, "--split", "--gen-c-file", "--no-clean", "--log", "my.log", "--pack-dir", "x")
    assert run(net, *words, "--no-color") == 0
    assert "note     --pack-dir is not needed" in capsys.readouterr().out
    names = {path.name for path in (folder / "build").iterdir()}
    assert names == {
        "mine.txt",
        "network_build",
        "network_img_rel.c",
        "network_img_rel.h",
        "network_rel.bin",
        "network_rel.program.json",
        "network_rel_params.bin",
    }
    kept = {path.name for path in (folder / "build" / "network_build").iterdir()}
    assert {"network.elf", "image.c", "image.ld", "network.o"} <= kept
    log = (folder / "my.log").read_text()
    assert "compiling network.c with ziglang" in log
    assert "Generating files..." in log


def test_parse_only_builds_nothing(net, capsys, folder):
    assert run(net, "--parse-only") == 0
    text = capsys.readouterr().out
    assert text.startswith("network can be packaged: 2 pools, 64 bytes of parameters\n")
    assert "│ 03020200 RESET.ACTIV.WRITE     │" in text
    found = result(capsys, net, "--parse-only")
    assert (found["files"], found["parse_only"]) == ([], True)
    assert not (folder / "build").exists()


def test_verbosity(net, capsys):
    texts = []
    for words in (["-v", 0], ["-q"], ["-v", 1], ["--verbosity"], ["-v", 2]):
        assert run(net, *CPU, *words) == 0
        texts.append(capsys.readouterr().out)
    brief, quiet, usual, default, full = texts
    assert brief == quiet
    assert brief.count("\n") == 1
    assert usual == default
    assert "runtime " not in usual
    assert "runtime " in full


def test_debug_shows_the_inner_log(net, capsys):
    assert run(net, *CPU, "--debug") == 0
    assert "npuscope: compiling network.c with ziglang" in capsys.readouterr().err


def test_the_vendors_default_folder(folder, capsys):
    write_net(folder / "st_ai_output")
    assert run(*CPU) == 0


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["NET", "-i", "NET"], 2, "the folder is given twice"),
        (["NET", "--cpu", "z80"], 2, "invalid choice: 'z80'"),
        (["nothing"], 3, "no such folder, and no .c file"),
        (["NET", "--no-secure"], 3, "0x34100000 is a secure address"),
    ],
)
def test_errors(net, capsys, folder, words, code, text):
    assert run(*[net if word == "NET" else word for word in words]) == code
    assert text in capsys.readouterr().err
    assert list(folder.iterdir()) == []


def test_a_failed_build_leaves_the_old_files(net, tmp_path, capsys, folder):
    assert run(net, *CPU) == 0
    before = (folder / "build" / "network_rel.bin").read_bytes()
    bad = write_net(tmp_path / "bad", FIRST="undeclared = 1;")
    assert run(bad, *CPU) == 3
    assert (folder / "build" / "network_rel.bin").read_bytes() == before
    names = {path.name for path in (folder / "build").iterdir()}
    assert names == {"network_rel.bin", "network_rel.program.json"}


def test_an_error_as_json(capsys):
    assert run("nothing", "--json") == 3
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "file"


def test_results_replace_no_folder(net, capsys, folder):
    (folder / "build" / "network_rel.bin").mkdir(parents=True)
    assert run(net, *CPU) == 74
    assert "cannot be written: this is a folder, expected a file name" in capsys.readouterr().err
