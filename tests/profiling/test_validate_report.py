"""Reports of a validation on a board."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from npuscope.errors import FileError
from npuscope.profiling.validate_report import (
    ReportClocks,
    ValidateReport,
    parse_validate_report,
    read_validate_report,
)
from npuscope.program.generate_report.lines import split_lines
from npuscope.program.model import EpochKind
from report_texts import OLD_REPORT, RESULTS, VALIDATE_REPORT, as_ide_log, without_blank_lines


def parse(text: str) -> ValidateReport:
    return parse_validate_report(split_lines(text, "report"))


def test_the_run() -> None:
    report = parse(VALIDATE_REPORT)
    assert (report.network, report.results_version, report.samples) == ("tiny", "2.0", 10)
    assert report.duration is not None
    assert (report.duration.mean_ms, report.duration.std_ms) == (2.147, 0.003)
    assert report.cycles == (8412, 1106920, 602599)
    assert report.clocks == ReportClocks(800.0, 400.0, 1000.0, 900.0)
    assert report.rate is not None
    assert (report.rate.inferences_per_s, report.rate.percents) == (465.77, (0.5, 64.4, 35.1))


def test_nodes_add_up_to_the_total_line() -> None:
    report = parse(VALIDATE_REPORT)
    assert [node.type for node in report.nodes] == [
        "epoch",
        "epoch - Conv2D_PW",
        "epoch (HYBRID)",
        "epoch (extra HW.7)",
        "epoch (SW)",
    ]
    assert report.total is not None
    sums = tuple(sum(node.cycles[phase] for node in report.nodes) for phase in range(3))
    assert sums == report.total.cycles
    assert sum(node.ms for node in report.nodes) == pytest.approx(report.total.ms)


def test_internal_transfers_belong_to_their_hybrid() -> None:
    report = parse(VALIDATE_REPORT)
    assert [(epoch.first, epoch.last, epoch.nodes) for epoch in report.epochs] == [
        (1, 1, 1),
        (2, 53, 1),
        (55, 55, 2),
        (56, 56, 1),
    ]
    hybrid = report.epochs[2]
    assert hybrid.kind is EpochKind.HYBRID
    assert hybrid.ms == pytest.approx(0.547)
    assert hybrid.cycles == (167, 8900, 428533)
    assert (report.count(EpochKind.SW), report.count(EpochKind.HW)) == (1, 2)


def test_tensors_and_metrics() -> None:
    report = parse(VALIDATE_REPORT)
    assert [(row.id, row.name, row.min) for row in report.tensors] == [
        ("I.0", "Input_0_out_0", -128.0),
        ("O.0", "Quantize_9_out_0", 37.0),
    ]
    plain, row = report.metrics
    assert dict(plain.values) == dict(row.values)
    assert (dict(row.values)["rmse"], dict(row.values)["acc"]) == (0.00006293, None)
    assert (row.output, row.tensor) == ("X-cross #1", "'conv2d_0', 10 x int8(1x32), m_id=[1]")


@pytest.mark.parametrize("change", [as_ide_log, without_blank_lines])
def test_copies_read_the_same(change) -> None:
    first, second = parse(VALIDATE_REPORT), parse(change(VALIDATE_REPORT))
    assert (first.nodes, first.epochs, first.metrics) == (
        second.nodes,
        second.epochs,
        second.metrics,
    )


def test_a_log_of_build_and_run_has_both() -> None:
    report = parse(OLD_REPORT + RESULTS)
    assert report.report.counts is not None
    assert (report.report.counts.total, len(report.nodes)) == (5, 5)


def test_truncation_and_noise_read_or_refuse(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    data = VALIDATE_REPORT.encode()
    noise = random.Random(3)
    inputs = [data[:end] for end in range(0, len(data), 47)]
    inputs += [noise.randbytes(size) for size in (3, 300, 30000)]
    for content in inputs:
        path.write_bytes(content)
        try:
            assert read_validate_report(path).report is not None
        except FileError:
            continue


def test_hostile_lines_are_harmless(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    rows = [
        f"0 - epoch {'9' * 4000} 1% 1% [1 2 3] EpochBlock_1",
        f"0 - epoch 1 1% 1% [{'1 ' * 20000}] EpochBlock_1",
        f"0 - {'epoch ' * 9000} 1 1% 1% [1 2 3] EpochBlock_1",
        f"total 1 [{'[' * 60000}",
        f"acc=1 {'a=' * 30000}",
        f"X-cross {'1 ' * 30000}",
    ]
    path.write_text(RESULTS + "\n".join(rows))
    assert len(read_validate_report(path).nodes) == 5


def test_another_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(OLD_REPORT)
    with pytest.raises(FileError, match="this is not a validate report"):
        read_validate_report(path)
