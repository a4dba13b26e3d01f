"""`disasm` and `asm`: files in, files out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npuscope.cli.drive import perform
from npuscope.cli.parser import build_parser
from npuscope.errors import FileError, UsageError
from npuscope.program.ec_blob.binary import EcBinary, read_header, write_binary, write_header
from npuscope.program.ec_blob.instructions import Irq, Label, Write

BLOB = write_binary(EcBinary((Label(3), Write(5, 2, 0x34200000), Irq(0))))
OTHER = write_binary(EcBinary((Label(4), Irq(0))))


def call(verb: str, *words: object) -> int:
    return perform(build_parser(verb).parse_args([verb, *map(str, words)]))


@pytest.fixture
def header(tmp_path: Path) -> Path:
    path = tmp_path / "net_ecblobs.h"
    path.write_text(write_header({"_ec_blob_net_3": BLOB, "_ec_blob_net_4": OTHER}))
    return path


def test_a_header_as_text(header: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("disasm", header) == 0
    text = capsys.readouterr().out
    assert text.startswith("; _ec_blob_net_3\n; epoch-controller blob: 4 words, 1 epoch\n")
    assert "write STRENG0.ADDR 0x34200000\n" in text
    assert "; _ec_blob_net_4\n" in text


def test_one_blob_to_text_and_back(header: Path, tmp_path: Path) -> None:
    text, raw, again = tmp_path / "b.s", tmp_path / "b.bin", tmp_path / "b.h"
    assert call("disasm", header, "--blob", "_ec_blob_net_3", "-o", text) == 0
    assert call("asm", text, "-o", raw) == 0
    assert raw.read_bytes() == BLOB
    assert call("asm", text, "-o", again, "--name", "net 3") == 0
    assert read_header(again.read_text()) == {"_ec_blob_net_3": BLOB}
    assert not list(tmp_path.glob(".*"))


def test_raw_bytes_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "b.bin"
    path.write_bytes(BLOB)
    assert call("disasm", path, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    (blob,) = result["blobs"]
    assert (result["schema"], blob["name"]) == ("npuscope/disasm/1", "b.bin")
    assert (blob["words"], blob["epochs"]) == (4, [3])
    assert blob["instructions"][1] == {
        "word": 3,
        "op": "write",
        "unit": "STRENG0",
        "register": "ADDR",
        "value": 0x34200000,
        "lsb": 0,
        "msb": 31,
    }


def test_a_damaged_blob_is_named(header: Path, tmp_path: Path) -> None:
    header.write_text(header.read_text().replace("0x00000004ca05", "0x00000009ca05"))
    with pytest.raises(FileError) as caught:
        call("disasm", header)
    assert caught.value.where == f"{header}, _ec_blob_net_3, word 1"
    assert caught.value.message == "the header states 9 words of code, but there are 4"


def test_wrong_words_on_the_command_line(header: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no blob 'x'") as caught:
        call("disasm", header, "--blob", "x")
    assert caught.value.hint == "blobs: _ec_blob_net_3, _ec_blob_net_4"
    with pytest.raises(UsageError, match="2 blobs do not go into one file that `asm` can read"):
        call("disasm", header, "-o", tmp_path / "all.s")
    with pytest.raises(UsageError, match="this is the input file"):
        call("asm", header, "-o", header)


def test_a_wrong_line_leaves_no_file(tmp_path: Path) -> None:
    source = tmp_path / "b.s"
    source.write_text("label 1\nwrite NOWHERE 3\n")
    with pytest.raises(FileError) as caught:
        call("asm", source, "-o", tmp_path / "b.bin")
    assert caught.value.where == f"{source}, line 2"
    assert list(tmp_path.iterdir()) == [source]
