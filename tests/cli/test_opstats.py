"""`npuscope opstats`: files in, files out, and clear words where that cannot be."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from many_core.samples import UTC_NS, layout, program, stats
from npuscope.cli.drive import perform
from npuscope.cli.parser import build_parser
from npuscope.errors import FileError, OutputError, UsageError
from npuscope.families.many_core.buffer import write_buffer
from npuscope.families.many_core.buffer_format import SIMULATED
from npuscope.families.many_core.container import write_program
from npuscope.families.many_core.layout import Layout
from npuscope.families.many_core.opstats.tables import opstats_of
from npuscope.families.many_core.report.opstats import summary_text
from npuscope.structs import replace
from npuscope.verbs.table import record

STEM = "aic-profiling-program-0-activation-0-inf-{}-{}"


def call(*words: object) -> int:
    words = ("opstats", *words)
    return perform(build_parser("opstats").parse_args([str(word) for word in words]))


class Folder:
    """A program, buffers of it, and a place for results."""

    def __init__(self, path: Path, made: Layout) -> None:
        self.path = path
        self.program = program(made)
        self.layout = self.program.layout
        self.qpc = path / "programqpc.bin"
        self.qpc.write_bytes(write_program(self.program))
        self.stats = path / "stats"
        self.stats.mkdir()
        self.out = path / "new" / "out"
        for device, part in enumerate(self.layout.specializations):
            for inference in (3, 12):
                self.add(device, inference, part.name)

    def add(self, device: int, inference: int, network: str) -> Path:
        made = stats(self.layout, device=device, inference=inference)
        path = self.stats / f"{STEM.format(inference, network)}-aiccyclecounts.bin"
        path.write_bytes(write_buffer(made))
        return path

    def call(self, *words: object) -> int:
        return call("-q", self.qpc, "-i", self.stats, "-o", self.out, *words)

    def written(self) -> list[str]:
        assert not list(self.out.glob(".*"))
        return sorted(path.name for path in self.out.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path, layout())


@pytest.fixture
def devices(tmp_path: Path) -> Folder:
    return Folder(tmp_path, layout(devices=2))


def events(path: Path) -> list[dict]:
    return json.loads(path.read_text())["traceEvents"]


def test_summary_and_trace_are_called_after_their_buffer(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert folder.call("--summary", "--trace", "--perfetto") == 0
    ends = ("perfetto-trace", "summary.txt", "trace.json")
    assert folder.written() == [
        f"{STEM.format(number, 'QAicGraph')}.qaic-opstats.{end}"
        for number in (12, 3)
        for end in ends
    ]
    text = capsys.readouterr().out.splitlines()
    assert text[0] == "2 buffers (level 100, 2 cores): 6 files"
    assert "inf-3-QAicGraph-aiccyclecounts: device 0, 0.027 ms, 295385 inf/s" in text[1]
    summary = folder.out / f"{STEM.format(3, 'QAicGraph')}.qaic-opstats.summary.txt"
    tables = opstats_of(stats(folder.layout, inference=3))
    assert summary.read_text() == summary_text(tables, SIMULATED)
    assert f"note: {SIMULATED}" in summary.read_text()


def test_long_options_of_the_seed_are_taken(folder: Folder) -> None:
    assert (
        call(
            "--qpc",
            folder.qpc,
            "--input-dir",
            folder.stats,
            "--output-dir",
            folder.out,
            "--summary",
            "--trace",
            "--flow-events",
            "full",
            "--select-cores",
            "0",
            "--select-devices",
            "0",
            "--merge-mq-traces",
            "true",
            "--merge-thread-groups",
            "false",
            "--show-barrier-events",
            "--verbose",
        )
        == 0
    )
    found = events(folder.out / f"{STEM.format(3, 'QAicGraph')}.qaic-opstats.trace.json")
    rows = {e["args"]["name"] for e in found if e["name"] == "thread_name"}
    assert {"QAicGraph_Core_0_HVX_t3", "QAicGraph_Core_0_HVX_t3_Barrier"} <= rows
    assert not any("_Core_1" in row for row in rows)
    assert sum(e["ph"] == "s" for e in found) == 10


def test_results_go_to_the_current_folder(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.path)
    assert call("--qpc", "programqpc.bin", "--input-dir", "stats", "--summary") == 0
    assert len(list(folder.path.glob("*.qaic-opstats.summary.txt"))) == 2


def test_devices_of_an_inference_share_a_trace(devices: Folder) -> None:
    assert devices.call("--summary", "--trace") == 0
    merged = [name for name in devices.written() if "merged" in name]
    assert merged == [
        f"{STEM.format(number, 'QAicGraph-merged')}.qaic-opstats.trace.json" for number in (12, 3)
    ]
    assert len(devices.written()) == 2 + 4
    names = {e["name"] for e in events(devices.out / merged[0]) if e["ph"] == "X"}
    assert {"Device_0_Execution", "Device_1_Execution"} <= names


def test_devices_can_stay_apart(devices: Folder) -> None:
    assert devices.call("--trace", "--merge-mq-traces", "false", "-d", "1") == 0
    assert devices.written() == [
        f"{STEM.format(number, 'QAicGraph_slice01')}.qaic-opstats.trace.json" for number in (12, 3)
    ]


def test_a_host_trace_is_merged(folder: Folder) -> None:
    host = folder.path / "host.json"
    event = {"ph": "X", "name": "enqueue", "pid": 18, "tid": 1, "ts": 52000, "dur": 3}
    host.write_text(json.dumps({"traceEvents": [event], "otherData": {"utc_ns": UTC_NS}}))
    assert folder.call("--trace", "--host-trace", host) == 0
    found = events(folder.out / f"{STEM.format(3, 'QAicGraph')}.qaic-opstats.trace.json")
    (enqueue,) = (e for e in found if e["name"] == "enqueue")
    assert enqueue["ts"] == 0
    (device,) = (e for e in found if e["name"] == "Device_0_Execution")
    assert device["ts"] == pytest.approx(1_030_000 / 19.2 - 52000, abs=0.001)


def test_json_has_tables_and_files(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert folder.call("--summary", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["schema"], result["level"]) == ("npuscope/opstats/1", 100)
    assert [len(buffer["files"]) for buffer in result["buffers"]] == [1, 1]
    target = folder.path / "tables.json"
    assert folder.call("--json", target, "--quiet") == 0
    assert capsys.readouterr().out == "2 buffers (level 100, 2 cores)\n"
    assert len(json.loads(target.read_text())["buffers"]) == 2


def test_nothing_to_make_is_a_usage_error(folder: Folder) -> None:
    with pytest.raises(UsageError, match="nothing to make"):
        folder.call()


def test_a_folder_without_buffers_is_told_how_they_are_called(folder: Folder) -> None:
    empty = folder.path / "empty"
    empty.mkdir()
    with pytest.raises(FileError, match="no stats buffer found here") as caught:
        call("--qpc", folder.qpc, "--input-dir", empty, "--summary")
    assert "aiccyclecounts.bin" in caught.value.hint
    with pytest.raises(FileError, match="does not exist"):
        call("--qpc", folder.qpc, "--input-dir", folder.path / "nowhere", "--summary")


def test_buffers_need_their_program(folder: Folder) -> None:
    with pytest.raises(UsageError, match="read with the program that wrote them"):
        call("--input-dir", folder.stats, "--summary")
    folder.qpc.write_bytes(b"\x7c\xcd\xa1\x00rest")
    with pytest.raises(FileError, match=r"programqpc\.bin"):
        folder.call("--summary")


def test_a_buffer_of_another_program_is_refused_unless_told(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    other = replace(folder.layout, program_uuid="f" * 32)
    path = folder.stats / f"{STEM.format(3, 'QAicGraph')}-aiccyclecounts.bin"
    path.write_bytes(write_buffer(stats(other, inference=3)))
    assert folder.call("--summary") == 3
    told = capsys.readouterr().err
    assert f"was written by the program {'f' * 32}" in told
    assert path.name in told and "--ignore-uuid" in told
    assert folder.call("--summary", "--ignore-uuid") == 0
    assert "note     decoded with the layout of another program" in capsys.readouterr().out


def test_buffers_of_other_networks_are_left_out(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder.add(0, 7, "Other")
    assert folder.call("--summary") == 0
    note = f"{path.name}: left out, its network is not part of the program"
    assert note in capsys.readouterr().out
    assert len(folder.written()) == 2
    for mine in folder.stats.glob("*QAicGraph*"):
        mine.unlink()
    with pytest.raises(FileError, match="the first is of network 'Other'"):
        folder.call("--summary")


def test_a_vendors_raw_buffer_gets_one_clear_sentence(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder.stats / f"{STEM.format(1, 'QAicGraph')}-aiccyclecounts.bin"
    path.write_bytes(bytes(4096))
    assert folder.call("--summary") == 3
    assert "layout of the vendor's raw stats buffer is not public" in capsys.readouterr().err
    assert len(folder.written()) == 2
    for mine in folder.stats.glob("*.bin"):
        if mine != path:
            mine.unlink()
    with pytest.raises(FileError, match="layout of the vendor's raw stats buffer is not public"):
        folder.call("--summary")


def test_a_truncated_buffer_names_its_file(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder.stats / f"{STEM.format(3, 'QAicGraph')}-aiccyclecounts.bin"
    path.write_bytes(path.read_bytes()[:50])
    assert folder.call("--summary") == 3
    assert path.name in capsys.readouterr().err


def test_a_low_level_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Folder(tmp_path, layout(level=40))
    assert made.call("--trace") == 0
    assert "compile with -stats-level=70 or higher" in capsys.readouterr().out
    found = events(made.out / f"{STEM.format(3, 'QAicGraph')}.qaic-opstats.trace.json")
    assert {e["cat"] for e in found if e["ph"] == "X"} == {"core", "device"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-c", "0,9"), "the run has no core 9"),
        (("-d", "4"), "the run has no device 4"),
        (("-c", "0;1"), "expected numbers with commas between"),
        (("--merge-mq-traces", "maybe"), "expected true or false"),
        (("--flow-events", "some"), "invalid choice"),
    ],
)
def test_wrong_choices_are_usage_errors(
    folder: Folder, words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        folder.call("--trace", *words)
    assert not folder.out.exists()


def test_a_vendors_summary_is_found_and_printed_the_same_way(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = folder.path / "texts"
    texts.mkdir()
    text = summary_text(opstats_of(stats(level=70)))
    (texts / "decode.summary.txt").write_text(text)
    (texts / "notes.txt").write_text("nothing of interest")
    assert call("-i", texts, "-o", folder.out, "--summary", "--trace") == 0
    assert "no trace, this source has sums only" in capsys.readouterr().out
    assert folder.written() == ["decode.summary.qaic-opstats.summary.txt"]
    again = (folder.out / folder.written()[0]).read_text()
    ops = [line for line in text.splitlines() if "aicsoftmax" in line]
    assert [line for line in again.splitlines() if "aicsoftmax" in line] == ops


def test_an_adapter_can_be_named(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("-i", folder.path, "-o", folder.out, "--adapter", "qaic-desc", "--summary") == 0
    assert folder.written() == ["programqpc.qaic-opstats.summary.txt"]
    assert "aicsoftmax" in (folder.out / folder.written()[0]).read_text()
    capsys.readouterr()
    with pytest.raises(UsageError, match="no adapter is called 'nobody'"):
        call("-i", folder.path, "--adapter", "nobody", "--summary")
    with pytest.raises(FileError, match="no file that the adapter 'etdump' knows"):
        call("-i", folder.path, "--adapter", "etdump", "--summary")


def test_a_folder_that_cannot_be_written_is_told(folder: Folder) -> None:
    folder.out.parent.write_text("a file")
    with pytest.raises(OutputError, match="cannot be written"):
        folder.call("--summary")


def test_the_page_has_every_option_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "opstats.md").read_text(encoding="utf-8")
    known = {name for option in record("opstats").options for name in option.spellings}
    table = page.partition("\n## ")[0].splitlines()
    rows = [line.split("|")[1] for line in table if line.startswith("| `-")]
    shown = set(re.findall(r"`(-{1,2}[a-z-]+)", " ".join(rows)))
    assert shown == known
