"""Sheets as Profiles: epochs add up to the total, and the usual reports print them."""

from __future__ import annotations

from pathlib import Path

import pytest

from many_core import samples
from many_core.adapter_samples import (
    ETDUMP_RUNS,
    SUMMARY,
    etdump,
    newer_events,
    trace_text,
    written,
)
from npuscope.errors import UsageError
from npuscope.families.many_core.adapters.model import Sheet, SheetOp, SheetTotals
from npuscope.families.many_core.adapters.profile import profile_of
from npuscope.families.many_core.adapters.registry import read_sheet
from npuscope.families.many_core.adapters.tables import sheet_tables
from npuscope.families.many_core.container import write_program
from npuscope.profiling.model import Profile, Provenance
from npuscope.program.model import EpochKind
from npuscope.report.json_report import profile_json
from npuscope.report.profile import profile_text
from npuscope.report.profile_csv import profile_csv_text


def summary_sheet(folder: Path) -> Sheet:
    return read_sheet(written(folder / "a.txt", SUMMARY))


def host_sheet(folder: Path) -> Sheet:
    path = folder / "a.etdp"
    path.write_bytes(etdump(ETDUMP_RUNS))
    return read_sheet(path)


def trace_sheet(folder: Path) -> Sheet:
    return read_sheet(written(folder / "t.json", trace_text(newer_events())))


SHEETS = [summary_sheet, host_sheet, trace_sheet]


@pytest.mark.parametrize("made", SHEETS)
def test_epochs_add_up_to_the_run(tmp_path: Path, made) -> None:
    sheet = made(tmp_path)
    profile = profile_of(sheet)
    assert sheet.totals is not None
    assert profile.total_ms == pytest.approx(sheet.totals.us / 1000)
    assert sum(epoch.ms for epoch in profile.epochs) == pytest.approx(profile.total_ms)
    assert sum(ms for _, ms in profile.time.by_work) == pytest.approx(profile.total_ms)
    assert profile.runs[0].source is sheet.provenance


@pytest.mark.parametrize("made", SHEETS)
def test_the_usual_reports_print_it(tmp_path: Path, made) -> None:
    profile = profile_of(made(tmp_path))
    text = profile_text(profile)
    assert profile_text(profile, full=True)
    for note in profile.notes:
        assert f"note     {note}" in text
    rows = profile_csv_text(profile).splitlines()
    assert len(rows) == 1 + len(profile.epochs)
    found = profile_json(profile)
    assert [epoch["name"] for epoch in found["epochs"]] == [e.name for e in profile.epochs]
    assert found["runs"][0]["source"] == profile.runs[0].source.value


def by_name(profile: Profile) -> dict[str, float]:
    return {epoch.name: epoch.ms for epoch in profile.epochs}


def test_the_engine_that_computes_most_on_the_slowest_core(tmp_path: Path) -> None:
    profile = profile_of(summary_sheet(tmp_path))
    assert by_name(profile) == pytest.approx(
        {
            "aicsoftmax HVX TCM (float16, i8)": 0.5,
            "sync HVX": 0.25,
            "barrier HVX": 0.05,
            "between ops": 0.2,
        }
    )
    assert profile.time.npu_core_ms == pytest.approx(0.5)
    assert profile.epochs[0].counters.core_cycles == 600_000
    assert (profile.machine.mcu_mhz, profile.machine.npu_mhz) == (19.2, 1200.0)
    assert (
        profile.notes[-1] == "at the same time on core 0, of the whole: HMX 10.0 %, DMAIssue 20.0 %"
    )


def test_another_core_and_engine_may_be_chosen(tmp_path: Path) -> None:
    sheet = summary_sheet(tmp_path)
    assert list(by_name(profile_of(sheet, core=1))) == [
        "aicsoftmax HVX TCM (float16, i8)",
        "between ops",
    ]
    assert "aiccopytovtcm DMAIssue DDR" in by_name(profile_of(sheet, engine="DMAIssue"))
    with pytest.raises(UsageError, match="core 1 has no ops on 'HMX'"):
        profile_of(sheet, core=1, engine="HMX")


def test_spreads_are_those_of_the_inferences(tmp_path: Path) -> None:
    profile = profile_of(host_sheet(tmp_path))
    first = profile.epochs[0]
    assert (first.kind, first.origin) == (EpochKind.SW, ("add.out @0",))
    assert (first.spread.min, first.spread.median, first.spread.max) == (0.01, 0.015, 0.02)
    assert (first.spread.n, profile.runs[0].n) == (2, 2)
    assert profile.epochs[1].kind is EpochKind.HW  # of a delegate
    assert "the source does not state clocks: cycles are nanoseconds" in profile.notes


def test_ops_beside_each_other_are_said() -> None:
    rows = tuple(SheetOp(0, "CPU", "Add", "", (), f"a{i}", 1, 10.0) for i in range(3))
    sheet = Sheet("x", "x", "", Provenance.LOG, rows, totals=SheetTotals(20.0))
    profile = profile_of(sheet)
    assert profile.total_ms == pytest.approx(0.03)
    assert profile.notes[-1] == "ops ran beside each other: the run took 0.020 ms"


def test_an_inventory_makes_no_profile(tmp_path: Path) -> None:
    path = tmp_path / "programqpc.bin"
    path.write_bytes(write_program(samples.program()))
    with pytest.raises(UsageError, match="no profile can be made"):
        profile_of(read_sheet(path))


def test_tables_of_a_host_say_what_their_ticks_are(tmp_path: Path) -> None:
    tables = sheet_tables(host_sheet(tmp_path))
    assert tables.notes[-1] == (
        "the source has no timer ticks: ucycles are microseconds times 19.2"
    )
    (core,) = tables.cores
    assert [(row.ucycles, row.details) for row in core.ops] == [
        (576, "xnn mul delegate xnn mul delegate 4"),
        (288, "add.out CPU add.out @0"),
    ]
    assert core.total_uc == tables.totals.ucycles == round(110 * 19.2)
