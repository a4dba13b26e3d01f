"""`npuscope inspect` of containers and stats buffers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from many_core import samples
from npuscope.cli.main import main
from npuscope.families.many_core.buffer import write_buffer
from npuscope.families.many_core.container import write_program
from npuscope.families.many_core.qpc import read_qpc, write_qpc

PROGRAM = samples.program()
BUFFER_NAME = "aic-profiling-program-0-activation-0-inf-3-QAicGraph-aiccyclecounts.bin"


def told(path: Path, data: bytes, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    path.write_bytes(data)
    assert main(["inspect", str(path), "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_our_container(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(tmp_path / "programqpc.bin", write_program(PROGRAM), capsys)
    summary = found["summary"]
    assert (found["kind"], found["version"]) == ("qpc", "0.1")
    assert summary["program_uuid"] == PROGRAM.layout.program_uuid
    assert (summary["cores"], summary["threads"], summary["level"]) == (2, 6, 100)
    assert (summary["ops"], summary["op_kinds"]["elementadd"]) == (26, 4)
    assert summary["segments"][0].startswith("networkdesc.bin ")
    assert found["ignored"] == ["constants.bin: the bytes of constants"]


def test_a_container_of_the_vendor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    desc = read_qpc(write_program(PROGRAM)).need("networkdesc.bin")
    segments = {"network.elf": b"\x7fELF", "networkdesc.bin": desc, "opstatsdesc.bin": b"?"}
    found = told(tmp_path / "programqpc.bin", write_qpc(segments), capsys)
    summary = found["summary"]
    assert summary["written_by"] == "another compiler: no osb.layout"
    assert (summary["ops"], summary["op_kinds"]["aicconvolutiond32"]) == (26, 4)
    assert summary["outputs"] == ["output", "aiccyclecounts"]
    assert summary["values"]["networkdesc"]["stats"]["utimer_freq_ms"] == 19200
    assert (
        "opstatsdesc.bin: the field numbers of this descriptor are not public" in (found["ignored"])
    )


@pytest.mark.parametrize("desc", [None, b"\xff", b""])
def test_a_container_whose_descriptor_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], desc: bytes | None
) -> None:
    segments = {"network.elf": b"\x7fELF"} | ({} if desc is None else {"networkdesc.bin": desc})
    found = told(tmp_path / "programqpc.bin", write_qpc(segments), capsys)
    notes = found["summary"]["notes"]
    assert len(notes) == (desc is not None)
    assert all(note.startswith("networkdesc.bin") for note in notes)


def test_a_stats_buffer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_buffer(samples.stats(PROGRAM.layout, inference=3, level=70))
    found = told(tmp_path / BUFFER_NAME, data, capsys)
    summary = found["summary"]
    assert (found["kind"], found["version"]) == ("stats_buffer", "1.1")
    assert (summary["level"], summary["inference"], summary["notes"]) == (70, 3, [])
    assert summary["records"]["OP_REC"] == 56
    assert summary["values"]["contents"][0]["record_bytes"] == 40


def test_a_damaged_stats_buffer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_buffer(samples.stats(PROGRAM.layout))
    found = told(tmp_path / BUFFER_NAME, data[:-200], capsys)
    assert found["summary"]["notes"] == ["OP_PMU: the file ends inside its 56 records"]
    (tmp_path / BUFFER_NAME).write_bytes(data[:100])
    assert main(["inspect", str(tmp_path / BUFFER_NAME)]) == 3
    assert "ends inside its table of 11 sections" in capsys.readouterr().err


@pytest.mark.parametrize("name", [BUFFER_NAME, "QAicGraph-aiccyclecounts_2.bin"])
def test_a_raw_buffer_of_the_vendor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / name).write_bytes(bytes(range(256)))
    assert main(["inspect", str(tmp_path / name)]) == 0
    assert "a raw stats buffer of the vendor's runtime: its layout is not public" in (
        capsys.readouterr().out
    )


def test_other_raw_bytes_get_no_such_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(tmp_path / "memory.bin", bytes(range(256)), capsys)
    assert found["kind"] == "raw_image"
    assert "notes" not in found["summary"]


def test_tables_of_stats_buffers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from npuscope.families.many_core.opstats.tables import opstats_of
    from npuscope.families.many_core.report.opstats_json import opstats_json

    tables = opstats_of(samples.stats(PROGRAM.layout, inference=3))
    data = json.dumps(opstats_json([tables])).encode()
    found = told(tmp_path / "tables.json", data, capsys)
    assert (found["kind"], found["version"]) == ("opstats", "1")
    summary = found["summary"]
    assert (summary["buffers"], summary["networks"]) == (1, ["QAicGraph"])
    assert summary["bound_by"] == [tables.verdict.bound.name]
