"""Reports of both styles, as files and inside logs."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from npuscope.errors import FileError
from npuscope.program.generate_report import read_generate_report
from npuscope.program.generate_report.lines import split_lines
from npuscope.program.generate_report.model import GenerateReport
from npuscope.program.generate_report.reader import parse_generate_report
from npuscope.program.model import EpochKind
from report_texts import CONSOLE, NEW_REPORT, OLD_REPORT, as_ide_log, without_blank_lines


def parse(text: str) -> GenerateReport:
    return parse_generate_report(split_lines(text, "report"))


def same(first: GenerateReport, second: GenerateReport) -> bool:
    keys = ("layers", "pools", "total", "used_ranges", "counts", "epochs", "sections", "summary")
    return all(getattr(first, key) == getattr(second, key) for key in keys)


def test_the_tool_and_its_compiler() -> None:
    report = parse(OLD_REPORT)
    assert (report.tools[0].name, report.version) == ("Some Tool", "2.2.0-77")
    assert report.tools[0].build == "abcdef012"
    assert report.created == "2026-01-02 03:04:05"
    assert report.parameters.startswith("generate -m tiny.tflite")
    assert report.compiler_version == "1.1.1-14"
    assert report.compiler_arguments.endswith("--optimization 3")
    assert report.ignored == ()


def test_the_layers_add_up() -> None:
    report = parse(OLD_REPORT)
    assert [layer.m_id for layer in report.layers] == [0, 0, 1, 2]
    first = report.layers[1]
    assert (first.name, first.original, first.params, first.size_bytes) == (
        "first",
        "CONV_2D",
        896,
        1024,
    )
    assert report.layers[2].inputs == ("first", "image")
    assert (report.layers[3].name, report.layers[3].inputs) == ("77", ("sum",))
    totals = dict(report.model_totals)
    assert sum(layer.macc or 0 for layer in report.layers) == totals["macc"] == 3_670_048
    assert totals["io"] is None


def test_pools_and_ranges() -> None:
    report = parse(OLD_REPORT)
    ram, flash = report.pools
    assert (ram.name, ram.start, ram.end) == ("npuRAM5", 0x342E0000, 0x34350000)
    assert (ram.used.amount.bytes, ram.used.percent) == (12320, 2.69)
    assert (flash.used.amount.bytes, flash.size.bytes) == (993, 112 << 20)
    assert report.total is not None
    assert report.total.used.bytes == 13313
    assert report.used_ranges[1].ranges == ((0x71000000, 0x710003F0),)


def test_epochs_of_the_old_style() -> None:
    report = parse(OLD_REPORT)
    assert report.counts is not None
    assert (report.counts.total, report.counts.software, report.counts.hybrid) == (5, 2, None)
    assert [row.mark for row in report.epochs] == ["HW", "-SW-", "EC", "??", "-SW-"]
    assert [row.details for row in report.epochs if row.details] == ["QuantizeLinear", "Sub(float)"]
    assert report.count(EpochKind.SW) == 2
    assert report.count(EpochKind.HYBRID) == 1


def test_epochs_of_the_new_style() -> None:
    report = parse(NEW_REPORT)
    assert report.counts is not None
    assert (report.counts.total, report.counts.hardware, report.counts.blobs) == (56, 53, 1)
    assert report.count(EpochKind.HW) == 53
    assert report.count(EpochKind.SW) == report.counts.software == 2
    assert report.count(EpochKind.HYBRID) == report.counts.hybrid == 1
    assert (report.epochs[0].first, report.epochs[0].last) == (1, 53)
    assert report.epochs[1].details == "Sub(float)"


def test_sections_and_summary() -> None:
    report = parse(OLD_REPORT)
    assert [row.module for row in report.sections] == ["network.o", "lib (toolchain)*", "TOTAL"]
    assert report.sections[2].bss == 12349
    assert [row.name for row in report.summary] == ["RT total", "TOTAL"]
    assert (report.summary[0].flash_percent, report.summary[1].flash_percent) == (93.8, None)


@pytest.mark.parametrize("text", [OLD_REPORT, NEW_REPORT], ids=["old", "new"])
@pytest.mark.parametrize(
    "change",
    [as_ide_log, without_blank_lines, lambda text: text.replace("\n", "\r\n"), lambda t: t * 2],
    ids=["ide log", "no blank lines", "windows", "twice in one log"],
)
def test_copies_read_the_same(text: str, change) -> None:
    assert same(parse(change(text)), parse(text))


def test_an_earlier_report_in_the_same_log_is_named() -> None:
    report = parse(OLD_REPORT + NEW_REPORT)
    assert report.counts is not None
    assert report.counts.total == 56
    assert any("epoch" in line for line in report.ignored)


def test_strangers_in_a_log_are_named() -> None:
    report = parse(as_ide_log(OLD_REPORT))
    assert report.ignored[0].startswith("time stamps, loggers and targets before ")
    assert report.ignored[1:] == ("line 4: flashing 4 files",)


def test_the_fingerprint_in_console_output() -> None:
    assert parse(CONSOLE + NEW_REPORT).model_hash == "0x0123456789abcdef0123456789abcdef"


def test_utf16_of_a_redirected_console(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(OLD_REPORT, encoding="utf-16")
    assert same(read_generate_report(path), parse(OLD_REPORT))


def test_another_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader,\n")
    with pytest.raises(FileError) as caught:
        read_generate_report(path)
    assert str(caught.value) == (
        f"{path}: no memory pools and no epochs: this is not a generate report\n"
        "  hint: give the network_generate_report.txt of st_ai_output/, or the tool's output"
    )


def test_truncation_anywhere_reads_or_refuses(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    data = (NEW_REPORT + OLD_REPORT).encode()
    for end in range(0, len(data), 61):
        path.write_bytes(data[:end])
        try:
            report = read_generate_report(path)
        except FileError:
            continue
        assert report.pools or report.epochs or report.counts


@pytest.mark.parametrize(
    "text",
    [
        "epoch " + "9" * 5000 + " HW",
        "Total number of epochs: " + "9" * 5000,
        "epoch 1 -SW- (" + "(" * 60000,
        " " * 60000 + "x",
        "pool" + " " * 60000 + "[0x1 - 0x2]: 1 B",
        "\tpool [0x1 - 0x2]: " + "0x1-0x2," * 7000,
        "m_id   layer   oshape   param   macc   connected to\n0  a ()  [b:1] " + "x " * 30000,
        "| epochs 1 -> " + "1" * 60000 + " | HW | |",
        "a" * 70000,
    ],
    ids=range(9),
)
def test_hostile_lines_are_quick_and_harmless(text: str, tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    path.write_text(f"{text}\nTotal number of epochs: 1 of which 0 implemented in software\n" * 3)
    try:
        assert read_generate_report(path).counts is not None
    except FileError as error:
        assert "line of" in error.message


def test_random_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "noise"
    source = random.Random(5)
    for size in (1, 10, 1000, 100_000):
        path.write_bytes(source.randbytes(size))
        with pytest.raises(FileError):
            read_generate_report(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing", Path("/dev/null"), "a\0b"):
        with pytest.raises(FileError):
            read_generate_report(path)
