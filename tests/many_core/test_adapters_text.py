"""The vendor's summary text: every block is read, and printed again it is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from many_core.adapter_samples import SUMMARY, written
from npuscope.errors import FileError
from npuscope.families.many_core.adapters.model import Sheet
from npuscope.families.many_core.adapters.registry import find_adapter, read_sheet
from npuscope.families.many_core.adapters.tables import sheet_tables
from npuscope.families.many_core.report.opstats import summary_text
from npuscope.profiling.model import Provenance


def sheet(folder: Path, text: str = SUMMARY) -> Sheet:
    return read_sheet(written(folder / "a.qaic-opstats.summary.txt", text))


def test_op_rows_have_all_columns(tmp_path: Path) -> None:
    found = sheet(tmp_path)
    first = found.ops[0]
    assert (first.core, first.kind, first.engine, first.memory) == (0, "aicsoftmax", "HVX", "TCM")
    assert first.dtypes == ("float16", "i8")
    assert (first.count, first.ucycles, first.pcycles) == (10, 9600, 600_000)
    assert first.us == pytest.approx(500)
    assert first.out_bytes == 102_400
    assert first.stddev_pcycles_per_kb == 12.5


def test_waits_and_missing_cells(tmp_path: Path) -> None:
    sync = sheet(tmp_path).ops[1]
    assert sync.is_wait
    assert (sync.kind, sync.engine, sync.memory, sync.dtypes) == ("sync", "HVX", "", ())
    assert sync.pcycles is None
    assert sync.out_bytes is None


def test_a_size_rounded_to_nothing_follows_from_cycles_by_kb(tmp_path: Path) -> None:
    row = next(row for row in sheet(tmp_path).ops if row.kind == "elementmul")
    assert row.out_bytes == 2  # "0.00" KB, 61,440,000 cycles a KB for 120,000 cycles


def test_threads_ports_and_totals(tmp_path: Path) -> None:
    found = sheet(tmp_path)
    first = found.threads[0]
    assert (first.core, first.thread, first.engine, first.ucycles) == (0, 0, "HVX", 19_200)
    assert (first.utilization, first.activate_uc) == (0.5, 1500)
    assert [(row.port, row.wait_uc) for row in found.port_waits] == [(100, 311), (101, 2)]
    assert found.totals is not None
    assert (found.totals.ucycles, found.totals.batch) == (19_200, 8)
    assert found.frequencies_mhz == ((0, 1200.0), (1, 1200.0))
    assert found.provenance is Provenance.VENDOR_FILE
    assert found.network == "TinyGraph"
    assert found.notes == ()


def test_printed_again_it_is_the_same(tmp_path: Path) -> None:
    printed = summary_text(sheet_tables(sheet(tmp_path)))
    *vendors, said, lever = printed.rstrip("\n").splitlines()
    # What the vendor's tool does not print: cycles of one inference of a batch.
    assert plain("\n".join(vendors)) - plain(SUMMARY) == {
        "[TinyGraph]Deviceinstanceucycles/inf:(19200/8):2400"
    }
    assert plain(SUMMARY) <= plain("\n".join(vendors))
    # What is ours: 50 % of the time HVX is at work, and no other engine is more.
    assert said.startswith("verdict: bound by synchronisation: no engine is busy 60 %")
    assert lever.startswith("lever: none is predicted: ")


def test_mappings_of_memory_are_read_and_printed(tmp_path: Path) -> None:
    """As newer tools have them: of the DMA thread, in cached DDR."""
    row = (
        "c0  384  2.00%  20669  1.72%  2  0.02  24576.00  1322816.00  5379.25"
        "  aicmmap DMAIssue CacheableDDR (index32)"
    )
    text = SUMMARY.replace("c0        960 ", f"{row}\nc0        960 ", 1)
    found = sheet(tmp_path, text)
    mapping = next(one for one in found.ops if one.kind == "aicmmap")
    assert (mapping.engine, mapping.memory) == ("DMAIssue", "CacheableDDR")
    assert (mapping.dtypes, mapping.count, mapping.pcycles) == (("index32",), 2, 20_669)
    printed = plain(summary_text(sheet_tables(found)))
    assert any(line.endswith("aicmmapDMAIssueCacheableDDR(index32)") for line in printed)


def plain(text: str) -> set[str]:
    """Lines without regard to spaces."""
    return {"".join(line.split()) for line in text.splitlines()}


def test_a_level_without_ops_is_read_and_said(tmp_path: Path) -> None:
    lines = [line for line in SUMMARY.splitlines() if "batch ucycles" in line]
    found = sheet(tmp_path, "\n".join(lines))
    assert not found.ops
    assert [span.ucycles for span in found.threads] == [19_200, 19_000, 18_000]
    assert found.notes[0].startswith("no table of ops: it needs")


def test_a_file_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    for end, whole in (("HMX TCM", 3), ("aiccopytovtcm", 2), ("100.00       96.00", 0)):
        text = SUMMARY[: SUMMARY.index(end)]
        if not whole:
            with pytest.raises(FileError, match="neither a table of ops"):
                sheet(tmp_path, text)
            continue
        cut = sheet(tmp_path, text)
        assert len(cut.ops) == whole
        assert cut.notes[-1].endswith("the last one, is cut off")


def test_a_broken_row_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        sheet(tmp_path, SUMMARY.replace("3840      20.00%", "38x0      20.00%"))
    assert (
        caught.value.message
        == "a row of the op table that is not understood: '38x0' is not a number"
    )
    assert caught.value.where.endswith("line 7")


def test_lines_that_are_not_known_are_counted(tmp_path: Path) -> None:
    found = sheet(tmp_path, SUMMARY.replace("max output", "DMAActivePct 3.5\nmax output"))
    assert found.notes == ("1 lines are not understood, first: line 40: DMAActivePct 3.5",)


def test_further_specializations_are_named(tmp_path: Path) -> None:
    found = sheet(tmp_path, SUMMARY + SUMMARY.replace("TinyGraph", "Second"))
    assert len(found.ops) == 6
    assert found.notes == ("only the first specialization is read; the file also has Second",)


def test_it_is_recognised(tmp_path: Path) -> None:
    assert find_adapter(written(tmp_path / "x.txt", SUMMARY)).name == "qaic-text"


def test_another_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no adapter knows this file"):
        find_adapter(written(tmp_path / "x.txt", "hello\n"))
    with pytest.raises(FileError, match="neither a table of ops nor a line of a thread"):
        read_sheet(tmp_path / "x.txt", adapter="qaic-text")
