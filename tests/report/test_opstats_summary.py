"""The summary's text: shape and figures as the vendor's tool prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from many_core.samples import layout, stats
from npuscope.families.many_core.adapters.registry import read_sheet
from npuscope.families.many_core.layout import Pmu
from npuscope.families.many_core.opstats.model import (
    ActivationRow,
    CoreTables,
    DdrRow,
    OpLabel,
    OpRow,
    Opstats,
    PortRow,
    ThreadRow,
    Totals,
)
from npuscope.families.many_core.opstats.tables import opstats_of
from npuscope.families.many_core.report.opstats import summary_text

# Figures of a published run (BERT on 2 cores, batch 8), to check widths and formulas.
ORIGIN = 9803252406782
_UNTIMED = (
    "\nverdict: what bounds it is not known: ops were not timed\n"
    "lever: none is predicted: that takes ops with their times and dependencies\n"
)
CONVOLUTION = "aicconvolutiond32 HMX TCM (float16)"


def published() -> Opstats:
    core = CoreTables(
        core=0,
        total_uc=444672,
        total_pc=28559104,
        inference_pc=28559169,
        ops=(
            OpRow(0, OpLabel("sync", "DMAIssue"), 759, 424682),
            OpRow(
                0,
                OpLabel("aicconvolutiond32", "HMX", "TCM", ("float16",)),
                1081,
                244552,
                15612581,
                537726976,
                20.98,
            ),
            OpRow(0, OpLabel("aiccopytovtcm", "DMAIssue", "DDR"), 413, 67009, None, 85185659),
        ),
        threads=(
            ThreadRow(0, 4, "HMX", ORIGIN, ORIGIN + 444603, 28554502, 15639301, 1, 2),
            ThreadRow(0, 5, "DMAIssue", ORIGIN + 1, ORIGIN + 444673, 28559104, 211337, 1, 2),
        ),
        ports=(PortRow(0, 5, 100, "host", True, 1, 30711), PortRow(0, 5, 101, "host", False, 1, 2)),
        activations=(ActivationRow(0, 5, 1519),),
        pmu=(),
        active=(("HMXActivePct", 54.5),),
        ddr=DdrRow(0, 85 << 20, 1 << 20, 0, 0),
    )
    totals = Totals(ORIGIN - 4, ORIGIN - 4 + 444677, 8, 30711, 2)
    return Opstats("b", "QAicGraph", "QAicGraph", 70, 0, 100, (), "", (core,), (), totals, ("hm",))


def test_lines_are_as_published() -> None:
    text = summary_text(published())
    heading, sync, conv, copy = text.splitlines()[3:7]
    assert heading == (
        "core  ucycles  ucycles(%)     pcycles  pcycles(%)  count      out KB  ucycles/KB"
        "  pcycles/KB  stddev(pc/KB)  opdetails"
    )
    assert sync == (
        "c0     424682      95.50%         N/A         N/A    759         N/A         N/A"
        "         N/A            N/A  sync DMAIssue"
    )
    assert conv == (
        "c0     244552      55.00%    15612581      54.67%   1081   525124.00        0.47"
        "       29.73          20.98  aicconvolutiond32 HMX TCM (float16)"
    )
    assert copy == (
        "c0      67009      15.07%         N/A         N/A    413    83189.12        0.81"
        "         N/A            N/A  aiccopytovtcm DMAIssue DDR"
    )
    for line in (
        "c0 total:          444672 ucycles        28559104 pcycles (thread max)",
        "c0    t4 HMX               444603 ucycles [9803252406782, 9803252851385]"
        "        28554502 pcycles  54.77% utilization",
        "c0    t5 DMAIssue          444672 ucycles [9803252406783, 9803252851455]"
        "        28559104 pcycles   0.74% utilization",
        "c00t4 batch ucycles:           444603 [9803252406782,9803252851385]"
        "    pcycles:        28554502",
        "c0: Total inference pcycle is 28559169",
        "c0: Effective frequency is 1233.12MHz",
        "c00t5p100 Host_IO_Port ucycles:            30711",
        "c00t5p101 Host_IO_Port ucycles:                2",
        "c00t5 activate ucycles:              1519",
        "total batch ucycles:           444677 [9803252406778, 9803252851455]",
        "[QAicGraph] Device instance batch/s: (1/0.0231603): 43.1774",
        "[QAicGraph] Device instance inf/s: (8/0.0231603): 345.419",
        "max input wait ucycles:             30711",
        "max output wait ucycles:                2",
    ):
        assert line in text.splitlines()
    assert text.endswith(f"note: hm\n{_UNTIMED}")


def test_blocks_follow_each_other_as_published() -> None:
    text = summary_text(opstats_of(stats()))
    places = [
        text.index(words)
        for words in (
            "Specialization: QAicGraph",
            "core  ucycles",
            "c0 total:",
            "c0    t0 HVX",
            "c00t0 batch",
            "c0: Total inference pcycle",
            "c00t0p100 Host_IO_Port",
            "c00t0 activate",
            "c00t0 pmu 0x100 HVX_ACTIVE:",
            "c0: HVXActivePct",
            "c0 op pmu:",
            "c0: DDR read bytes:",
            "c1 total:",
            "total batch ucycles:",
            "DDR traffic: 2.621 MB",
            "max input wait",
        )
    ]
    assert places == sorted(places)


def test_a_low_level_prints_what_it_has_and_what_it_would_need() -> None:
    text = summary_text(opstats_of(stats(layout(level=40, pmu=Pmu(), ddr=False))))
    assert "opdetails" not in text
    assert "Host_IO_Port" not in text
    assert "utilization\n" not in text
    assert "max input wait" not in text
    assert "c01t5 batch ucycles:              519" in text
    assert text.endswith(
        "note: no PMU counters: compile with -aic-pmu-recipe or -aic-pmu-events "
        "(this buffer has level 40)\n"
        "note: no DDR traffic: compile with -ddr-stats (this buffer has level 40)\n"
        "note: no port waits, doorbells and semaphore ops: compile with -stats-level=50 or higher "
        "(this buffer has level 40)\n"
        "note: no ops, sync, barriers, utilization and transfers: compile with -stats-level=70 or "
        "higher (this buffer has level 40)\n" + _UNTIMED
    )


def test_devices_of_a_group_tell_of_transfers_between_them() -> None:
    text = summary_text(opstats_of(stats(layout(devices=2))))
    assert "P2P 0->1 p102: 1 transfers, 4096 bytes, 25 ucycles\n" in text
    assert "c00t0p102 P2P_Port ucycles:" in text


def test_the_text_is_read_back_by_the_reader_of_the_vendors(tmp_path: Path) -> None:
    tables = opstats_of(stats())
    path = tmp_path / "a.summary.txt"
    path.write_text(summary_text(tables))
    sheet = read_sheet(path, adapter="qaic-text")
    assert sheet.totals is not None
    assert (sheet.totals.ucycles, sheet.totals.batch) == (tables.totals.ucycles, 8)
    found = {(r.core, r.details): (r.count, r.ucycles, r.pcycles) for r in sheet.ops}
    assert found == {
        (r.core, r.details): (r.count, r.ucycles, r.pcycles)
        for core in tables.cores
        for r in core.ops
    }


@pytest.mark.parametrize("name", ["a\x1b[31mb", "two\nlines", "\u202eturned"])
def test_foreign_names_cannot_steer_a_terminal(name: str) -> None:
    made = published()
    made = Opstats("b", name, name, 70, 0, 0, (), "", made.cores, (), made.totals, (name,))
    text = summary_text(made)
    assert name not in text


def test_a_summary_says_what_holds_the_inference_up() -> None:
    """The sample's ops are short, one after the other, and threads wait for each other."""
    lines = summary_text(opstats_of(stats(layout(level=70)))).splitlines()
    verdict = next(n for n, line in enumerate(lines) if line.startswith("verdict: bound by "))
    assert lines[verdict - 1].startswith("critical path: ")
    assert all(line.startswith("lever: ") for line in lines[verdict + 1 :])
    assert len(lines) > verdict + 1
    heading = next(n for n, line in enumerate(lines) if line.endswith("  module, node"))
    assert lines[heading].split()[4:] == ["share", "DDR", "KB", "ops", "module,", "node"]
    shares = [float(line.split()[2].rstrip("%")) for line in lines[heading + 1 : verdict - 2]]
    assert sum(shares) == pytest.approx(100, abs=0.1)
