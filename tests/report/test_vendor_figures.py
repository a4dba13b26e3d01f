"""The vendor's report made again: its own figures, from its own samples."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from npuscope.boards.device import BoardClocks, Inference, NodeCounters
from npuscope.errors import FileError, UsageError
from npuscope.profiling.profiler_log import parse_profiler_log, read_profiler_log
from npuscope.program.generate_report.lines import split_lines
from npuscope.program.model import (
    Access,
    Buffer,
    Claims,
    Epoch,
    EpochKind,
    Group,
    Pool,
    Program,
)
from npuscope.program.units import Ref, Streng
from npuscope.report.vendor_figures import VendorReport, vendor_report
from npuscope.report.vendor_text import vendor_report_text
from npuscope.structs import replace

KWS_LOG = (
    Path(__file__).parents[2]
    / ".."
    / "shared/data/artefacts/SeongMin1000__N6_cusotm_validation/npu_profiler_kws.log"
).resolve()
FIGURES_OF_THE_LOG = 110
CLOCKS = BoardClocks(800_000_000, 400_000_000, 1_000_000_000, 900_000_000)


def inference(*nodes: NodeCounters) -> Inference:
    return Inference(nodes, (), (0, 0, 0), 0.0)


def row(report: VendorReport, name: str, nth: int = 0) -> str:
    """The value of the nth line of that name."""
    lines = [line.strip().partition(" : ") for line in vendor_report_text(report).splitlines()]
    return [value for key, _, value in lines if key.strip() == name][nth]


HARDWARE = NodeCounters(
    "EpochBlock_186", 186, 186, EpochKind.HW, flags=0x13, mcu_cycles=(18859, 10599, 5253)
)
ACTIVE = {1: 5845, 2: 5679, 3: 5618, 4: 15190, 5: 6788, 6: 6270}
BURSTS = {
    (0, "r"): (8, 12, 16, 208),
    (0, "w"): (0, 0, 0, 0),
    (1, "r"): (4, 12, 8, 152),
    (1, "w"): (5, 9, 9, 117),
}


def published_samples() -> list[Inference]:
    """Counters behind epoch 186 of the vendor's published example, one sample a pass."""
    timed = replace(HARDWARE, npu_cycles=(23600, 13300, 6613))
    inputs = replace(timed, engines={(n, "i"): c for n, c in ACTIVE.items()})
    outputs = replace(timed, engines={(7, "o"): 13935, (8, "o"): 13785})
    cached = {"cache_read": (0, 80, 0, 0), "cache_write": (0, 0, 0, 0)}
    counted = [replace(node, **cached) for node in (inputs, outputs)]  # type: ignore[arg-type]
    return [inference(node) for node in (*counted, replace(HARDWARE, bursts=BURSTS))]


def published_program() -> Program:
    weights = Streng(id=4, dir=0, addr_base=Ref("weights"))
    epoch = Epoch(
        186,
        186,
        EpochKind.HW,
        ("Conv", "Mul", "Add", "Add", "Sigmoid"),
        groups=(Group((weights,), ()),),
        claims=Claims(
            453348, 4608, 27648, (Access("octoFlash", 4608, 0), Access("npuRAM5", 19600, 8820))
        ),
    )
    pools = (Pool("octoFlash", 0x71000000, 1 << 20, 1, 6.0, cacheable=True),)
    buffer = Buffer("weights", 4608, (4608,), 8, 1, pool="octoFlash", is_param=True)
    return Program("net", "stm32n6", "2.1", False, pools, (buffer,), (epoch,), (), ())


def test_the_published_epoch() -> None:
    report = vendor_report(published_samples(), CLOCKS, published_program())
    expected = {
        "ops": "453348",
        "compute cycles": "4608 (max_cycles=27648)",
        "ops/cycle": "16.4 GOPS (ideal=98.4)",
        "mem accesses": "[octoFlash: r=4608, w=0] [npuRAM5: r=19600, w=8820]",
        "mcu cycles": "[18859, 10599, 5253] -> 0.024,0.013,0.007 ms (mcu_freq=800MHz), 0.043ms",
        "core npu cycles": "13300 -> 0.013 ms (npu_freq=1000MHz) "
        "diff. vs max_cycles from compiler: -14348 (-107.88%)",
        "compute cycles ratio": "10.59% (core only: 34.65%)",
        "busif 0": "r=14080    w=0        rburst[1,2,4,8]x8=(8,12,16,208) "
        "wburst[1,2,4,8]x8=(0,0,0,0) -> 1.06 GB/s",
        "busif (total)": "r=24288      w=7960       -> 2.42 GB/s",
        "strg engines": "114.21% (id=4)",
        "NPU cache cnts": "R[hit=0, miss=80, alloc-miss=0, evict=0], "
        "W[hit=0, miss=0, alloc-miss=0, through=0]",
        "octoFlash": "r=4608       w=0          -> 346.47 MB/s",
        "npuRAM5": "r=19600      w=8820       -> 2.14 GB/s",
        "total": "r=24208      w=8820       -> 2.48 GB/s",
    }
    assert {name: row(report, name) for name in expected} == expected
    assert row(report, "ops/cycle", 1) == "10.4 GOPS (core only: 34.1)"
    assert row(report, "active") == ("STRENG.1.i: busif=0, 5845 cycles, <no-data-size info>, 44%")
    assert row(report, "active", 3) == "STRENG.4.i: busif=0, 15190 cycles, [octoFlash:4608], 114%"
    assert row(report, "active", 7).startswith("STRENG.8.o: busif=1, 13785 cycles")


PUBLISHED_SUMMARY = """cycles : 15424817 (total max_cycles)
ideal cycles : 7485802 (total compute_cycles)
ops : 510646150
ops/cycle : 33
inf/s : 64.8 (based on estimated total max_cycles)
ideal ops/cycle : 68
ideal inf/s : 133.6
total duration : 13.649ms, npu_core:13.159ms (96.41%), mcu_cycles=[1.17, 96.31, 2.53]%
mcu cycles : 10919340 (core only = 10515928)
npu cycles : 13692714 (core only = 13159399)
ops/cycle : 37.3 GOPS / including SW epochs (core only = 38.8)
inf/s : 73.3 (13.649ms)
compute cycles ratio : 54.67% (core only: 56.89%)
npuRAM5 : r=20572262 w=11045878 -> 2.40 GB/s (peak), 2.32 GB/s (average)
octoFlash : r=1758190 w=0 -> 133.60 MB/s (peak), 128.80 MB/s (average)
cpuRAM2 : r=802816 w=602112 -> 106.75 MB/s (peak), 102.92 MB/s (average)
npuRAM4 : r=1806336 w=301056 -> 160.13 MB/s (peak), 154.38 MB/s (average)
total r/w : r=24939604 w=11949046 -> 2.80 GB/s (peak), 2.70 GB/s (average)"""


def published_summary() -> VendorReport:
    """The totals of the vendor's published example as if they were one epoch."""
    node = NodeCounters(
        "EpochBlock_1",
        1,
        1,
        EpochKind.HW,
        mcu_cycles=(127500, 10515928, 275912),
        npu_cycles=(200000, 13159399, 333315),
    )
    accesses = (
        Access("npuRAM5", 20572262, 11045878),
        Access("octoFlash", 1758190, 0),
        Access("cpuRAM2", 802816, 602112),
        Access("npuRAM4", 1806336, 301056),
    )
    claims = Claims(510646150, 7485802, 15424817, accesses)
    epochs = (Epoch(1, 1, EpochKind.HW, claims=claims),)
    program = replace(published_program(), epochs=epochs, buffers=())
    return vendor_report([inference(node)], CLOCKS, program)


def figures(text: str) -> list[float]:
    """Numbers of a report line, without those that are part of its wording."""
    worded = re.sub(r"burst\[1,2,4,8\]x8|_\d+", "", text)
    return [float(word) for word in re.findall(r"-?\d+(?:\.\d+)?", worded)]


def test_the_published_summary() -> None:
    text = vendor_report_text(published_summary()).partition("Summary")[2]
    ours = [" ".join(line.split()) for line in text.splitlines() if " : " in line]
    theirs = PUBLISHED_SUMMARY.splitlines()
    # The rates of its three smaller pools are those of 0.01 % more cycles than the example prints,
    # peak and average alike; the formula is the one that holds for a board's log (below).
    apart = [i for i, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]]
    assert [theirs[i].split()[0] for i in apart] == ["octoFlash", "cpuRAM2", "npuRAM4"]
    for i in apart:
        assert figures(ours[i]) == pytest.approx(figures(theirs[i]), rel=2e-4)


def test_means_are_rounded_up_over_the_samples_that_have_them() -> None:
    node = NodeCounters("EpochBlock_3", 3, 3, EpochKind.HW, flags=0x13, bursts=BURSTS)
    rows = [
        replace(node, mcu_cycles=(10, 100, 1), npu_cycles=(7, 1000, 3), cache_read=(1, 2, 0, 0)),
        replace(node, mcu_cycles=(11, 101, 1), npu_cycles=(8, 1001, 3), cache_read=(2, 2, 0, 0)),
        replace(node, mcu_cycles=(10, 100, 1)),
    ]
    (epoch,) = vendor_report([inference(row) for row in rows], CLOCKS).epochs
    assert epoch.mcu_cycles == (11, 101, 1)
    assert epoch.npu_cycles == (8, 1001, 3)
    assert (epoch.cache_read, epoch.cache_write) == ((2, 2, 0, 0), ())


def test_an_engine_used_both_ways_has_one_line() -> None:
    node = replace(HARDWARE, npu_cycles=(0, 1000, 0), bursts=BURSTS)
    runs = [
        inference(replace(node, engines={(0, "i"): 150, (9, "i"): 40})),
        inference(replace(node, engines={(0, "o"): 71, (6, "o"): 500})),
    ]
    report = vendor_report(runs, CLOCKS)
    found = [(e.id, e.direction, e.busif, e.active_cycles) for e in report.epochs[0].engines]
    assert found == [(0, "i", 0, 111), (6, "o", 1, 500), (9, "i", 1, 40)]
    assert row(report, "strg engines") == "50.00% (id=6)"


def test_bursts_are_those_of_the_first_sample() -> None:
    later = dict.fromkeys(BURSTS, (9, 9, 9, 9))
    node = replace(HARDWARE, npu_cycles=(0, 1000, 0))
    rows = [node, replace(node, bursts=BURSTS), replace(node, bursts=later)]
    (epoch,) = vendor_report([inference(row) for row in rows], CLOCKS).epochs
    assert (epoch.read_bytes, epoch.write_bytes) == (24288, 7960)


def test_extra_epochs_belong_to_the_hybrid_before_them() -> None:
    hybrid = NodeCounters("EpochBlock_4", 4, 4, EpochKind.HYBRID, flags=0x43)
    hybrid = replace(hybrid, mcu_cycles=(1, 2, 3), npu_cycles=(1, 10, 1), bursts=BURSTS)
    extra = replace(hybrid, extra=True, kind=EpochKind.HW, mcu_cycles=(10, 20, 30))
    last = replace(HARDWARE, npu_cycles=(1, 1, 1))
    report = vendor_report([inference(hybrid, extra, extra, last)], CLOCKS)
    first, second = report.epochs
    assert (first.index, first.extra, second.index, second.extra) == (0, 2, 3, 0)
    assert (first.own_mcu_cycles, first.extra_mcu_cycles) == ((1, 2, 3), (20, 40, 60))
    assert (first.npu_cycles, first.read_bytes) == ((3, 30, 3), 3 * 24288)
    assert row(report, "total mcu").startswith("[21, 42, 63] -> ")
    assert report.mcu_cycles == (21 + 18859, 42 + 10599, 63 + 5253)


def test_software_has_no_npu_figures() -> None:
    soft = NodeCounters("EpochBlock_9", 9, 9, EpochKind.SW, flags=0x23, mcu_cycles=(44, 32, 117354))
    report = vendor_report([inference(replace(soft, npu_cycles=(70, 150, 146000)))], CLOCKS)
    text = vendor_report_text(report)
    assert "c_type=SW, extra=0)" in text
    assert row(report, "npu cycles") == "n.a."
    assert row(report, "duration") == "0.147ms (100.0%) total=0.147ms"
    assert "busif" not in text
    assert row(report, "npu cycles", 1) == "146220 (core only = 150)"


def test_more_cycles_than_the_compiler_said_have_a_sign() -> None:
    node = replace(HARDWARE, npu_cycles=(0, 40000, 0), bursts=BURSTS)
    report = vendor_report([inference(node)], CLOCKS, published_program())
    assert row(report, "core npu cycles").endswith("from compiler: +12352 (30.88%)")


def test_a_blob_has_the_sum_of_its_epochs() -> None:
    one = replace(published_program().epochs[0], number=1, last_number=1, blob=0)
    two = replace(one, number=2, last_number=2)
    program = replace(published_program(), epochs=(one, two))
    node = replace(HARDWARE, number=1, last=2, flags=0x17, npu_cycles=(0, 1000, 0), bursts=BURSTS)
    node = replace(node, engines={(4, "i"): 10})
    report = vendor_report([inference(node)], CLOCKS, program)
    assert (report.epochs[0].kind, report.claims.ops) == ("EC", 2 * 453348)
    assert row(report, "epoch type") == "EpochType.BLOB"
    assert row(report, "operations").startswith("{'hw.conv': 2, 'hw.mul': 2, 'hw.add': 4")
    assert row(report, "active").split(", ")[2] == "<no-data-size info>"


def test_the_text_is_read_back() -> None:
    report = vendor_report(published_samples(), CLOCKS, published_program())
    log = parse_profiler_log(split_lines(vendor_report_text(report), "text"))
    (epoch,) = log.epochs
    assert (epoch.title.c_idx, epoch.title.first, epoch.mcu_cycles) == (0, 186, HARDWARE.mcu_cycles)
    assert epoch.npu_core_cycles == 13300
    assert [bus.read_bytes for bus in epoch.bus] == [14080, 10208, 24288]
    assert len(epoch.engines) == 8


def test_what_cannot_be_reported() -> None:
    with pytest.raises(FileError, match="no inference with counters"):
        vendor_report([inference()], CLOCKS)
    with pytest.raises(FileError, match="do not have the same nodes"):
        other = replace(HARDWARE, name="EpochBlock_5", number=5)
        vendor_report([inference(HARDWARE), inference(other)], CLOCKS)
    with pytest.raises(UsageError, match="the clocks cannot be derived from inferences"):
        vendor_report([inference(HARDWARE)])


def network_lines(name: str, core: int) -> str:
    return (
        "s:node:evt_pre_start:0:1:1:1:00000013:05000001:HW\n"
        f"s:node:mcu_cycles:1:{core}:1\ns:node:npu_cycles:1:{core}:1\n"
        f'name="" counters="CPU cycles"[1, {core}, 1] dur=0.1ms id=1.1 type=0x1000001/X\n'
        f'name="{name}" counters="CPU cycles"[1, {core}, 1, 0, 0] dur=0.1ms id=0.0 type=0x0/N\n'
    )


def test_a_log_of_two_networks() -> None:
    config = "".join(f"s:config:{n}_freq:1000000\n" for n in ("mcu", "noc", "npu", "nic"))
    text = config + network_lines("one", 500) + network_lines("two", 700)
    log = parse_profiler_log(split_lines(text, "log"))
    with pytest.raises(UsageError, match="several networks: one, two"):
        vendor_report(log)
    assert vendor_report(log, network="two").mcu_cycles == (1, 700, 1)
    assert vendor_report(log, CLOCKS, network="one").clocks == CLOCKS


@pytest.mark.skipif(not KWS_LOG.is_file(), reason="the shared files are not on this machine")
def test_every_figure_of_a_boards_log() -> None:
    log = read_profiler_log(KWS_LOG)
    printed = [line[3:].strip() for line in KWS_LOG.read_text(encoding="utf-8").splitlines()]
    start = next(i for i, line in enumerate(printed) if line.startswith("EpochBlock_1 (c_idx="))
    theirs = [line for line in printed[start - 1 :] if line]
    text = vendor_report_text(vendor_report(log))
    ours = [line.strip() for line in text.splitlines() if line.strip()]
    assert len(ours) == len(theirs) == 39
    pairs = [
        (mine, other)
        for a, b in zip(ours, theirs, strict=True)
        for mine, other in zip(figures(a), figures(b), strict=True)
    ]
    assert len(pairs) == FIGURES_OF_THE_LOG
    assert [pair for pair in pairs if pair[0] != pair[1]] == []
    assert ours == theirs
