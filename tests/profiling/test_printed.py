"""The profiler's printed report as input: every figure of a block comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuscope import inspect, measure
from npuscope.cli.main import main
from npuscope.profiling.measure import Measurement
from npuscope.program.model import Access
from npuscope.report.vendor_figures import measured_vendor_report
from npuscope.report.vendor_text import vendor_report_text

# Our own network; the layout is the vendor's.
HEAD = """\
Summary 'small' - ['small']
I[1/1] 'in' : int8[1,4,4,8], 128 Bytes, QLinear(0.500000000,3,int8), activations
O[1/1] 'out' : int8[1,4,4,8], 128 Bytes, QLinear(0.250000000,-1,int8), user
n_nodes : 5
activations : 4096
compile_datetime : Jan 2 2026 03:04:05
protocol : Proto-buffer driver v2.0 (msg v3.1)
tools : ST Neural ART (LL_ATON api) v1.1.1
runtime lib : atonn-v1.1.1-14 (optimized SW lib v10.2.0-abcdef01 GCC)
capabilities : IO_ONLY, PER_LAYER
device.desc : stm32 family - 0x486 - STM32N6xx @800/400MHz
device.attrs : fpu,core_icache,core_dcache,npu_cache=1,mcu_freq=800MHz,
noc_freq=400MHz,npu_freq=1000MHz,nic_freq=900MHz
"""
HARDWARE = """\
EpochBlock_3 (c_idx=7, num=3:3, c_type=HW, extra=0)
[compiler]
epoch type : EpochType.HW
operations : {'hw.conv': 2, 'hw.add': 1, 'hw.dmain': 2, 'hw.dmaout': 1}
processor units : {'CONV_ACC': 2, 'ARITH_ACC': 1, 'STR_ENG': 3}
ops : 90000
compute cycles : 1000 (max_cycles=4000)
ops/cycle : 22.5 GOPS (ideal=90.0)
mem accesses : [octoFlash: r=512, w=0] [npuRAM5: r=2048, w=1024]
[target]
duration : 0.010ms (50.0%) total=0.020ms
mcu cycles : [4000, 1600, 2400] -> 0.005,0.002,0.003 ms (mcu_freq=800MHz), 0.010ms
core npu cycles : 2000 -> 0.002 ms (npu_freq=1000MHz) \
diff. vs max_cycles from compiler: -2000 (-100.00%)
compute cycles ratio : 10.00% (core only: 50.00%)
busif 0 : r=640 w=0 rburst[1,2,4,8]x8=(4,2,2,8) wburst[1,2,4,8]x8=(0,0,0,0) -> 320.00 MB/s
busif 1 : r=2048 w=1024 rburst[1,2,4,8]x8=(0,0,0,32) wburst[1,2,4,8]x8=(0,0,0,16) -> 1.54 GB/s
busif (total) : r=2688 w=1024 -> 1.86 GB/s
ops/cycle : 9.0 GOPS (core only: 45.0)
strg engines : 101.00% (id=4)
active : STRENG.4.i: busif=0, 2020 cycles, [octoFlash:512], 101%
active : STRENG.6.i: busif=1, 900 cycles, [npuRAM5:2048], 45%
active : STRENG.7.o: busif=1, 1700 cycles, [npuRAM5:1024], 85%
NPU cache cnts : R[hit=1, miss=2, alloc-miss=3, evict=4], W[hit=5, miss=6, alloc-miss=7, through=8]
octoFlash : r=512 w=0 -> 256.00 MB/s
npuRAM5 : r=2048 w=1024 -> 1.54 GB/s
total : r=2560 w=1024 -> 1.79 GB/s
"""
HYBRID = """\
EpochBlock_4 (c_idx=8, num=4:4, c_type=HYBRID, extra=2)
[target]
duration : 0.010ms (50.0%) total=0.020ms
mcu cycles : [100, 200, 300] -> 0.000,0.000,0.000 ms (mcu_freq=800MHz), 0.001ms
extra mcu : [1, 2, 3] -> 0.000,0.000,0.000 ms (mcu_freq=800MHz), 0.000ms
total mcu : [101, 202, 303] -> 0.000,0.000,0.000 ms (mcu_freq=800MHz), 0.001ms
npu cycles : n.a.
"""


# As the published page has it: one epoch of 199, a total beside it, another of the whole model.
OPENING = """\
NPU Utility - AiRunner Profiler (version 0.2)
Creating date : Tue Mar 4 22:27:25 2025
Creating AiRunner session with `serial:921600` descriptor
"""
TOTALS = """\
Final part (entire model)
Compiler
cycles : 15424817 (total max_cycles)
ideal cycles : 7485802 (total compute_cycles)
ops : 510646150
ops/cycle : 33
inf/s : 64.8 (based on estimated total max_cycles)
ideal ops/cycle : 68
ideal inf/s : 133.6
Measured
total duration : 13.649ms, npu_core:13.159ms (96.41%), mcu_cycles=[1.17, 96.31, 2.53]%
mcu cycles : 10919340 (core only = 10515928)
npu cycles : 13692714 (core only = 13159399)
ops/cycle : 37.3 GOPS / including SW epochs (core only = 38.8)
inf/s : 73.3 (13.649ms)
compute cycles ratio : 54.67% (core only: 56.89%)
Memory bandwidth / inference
npuRAM5 : r=20572262 w=11045878 -> 2.40 GB/s (peak), 2.32 GB/s (average)
total r/w : r=24939604 w=11949046 -> 2.80 GB/s (peak), 2.70 GB/s (average)
Compiler Section
cycles | Total number of estimated cycles (including memory accesses) |
"""
PAGE = (OPENING + HEAD + HARDWARE + TOTALS).replace("total=0.020ms", "total=16.431ms")


def told(text: str) -> list[str]:
    """Lines with their blanks made equal, without rulers."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [line.replace(" :", ":") for line in lines if line and set(line) != {"-"}]


def read(folder: Path, text: str) -> Measurement:
    path = folder / "page.txt"
    path.write_text(text, encoding="utf-8")
    return measure(connect=f"log:{path}")


def test_what_a_block_says_comes_back(tmp_path: Path) -> None:
    measured = read(tmp_path, "About the profiler.\n" + HEAD + "Per epoch\n" + HARDWARE)
    (epoch,) = measured.profile.epochs
    assert epoch.claims.accesses == (Access("octoFlash", 512, 0), Access("npuRAM5", 2048, 1024))
    assert epoch.units == {"CONVACC": 2, "ARITH": 1, "STRENG": 3}
    assert epoch.operators == ("conv", "conv", "add")
    assert [(e.id, e.pool, e.bytes) for e in epoch.counters.engines] == [
        (4, "octoFlash", 512),
        (6, "npuRAM5", 2048),
        (7, "npuRAM5", 1024),
    ]
    assert epoch.counters.cache.read_evict == 4
    assert measured.profile.notes == (
        "read from a printed report with 1 of 5 epochs; 4 epochs are missing",
        "the report's own total is 0.020ms",
    )


def test_the_vendors_layout_is_reprinted(tmp_path: Path) -> None:
    """All lines but the share of the time: the page shows one epoch of five."""
    measured = read(tmp_path, HEAD + HARDWARE)
    printed = told(vendor_report_text(measured_vendor_report(measured), measured))
    wanted = told(HEAD.replace("800MHz,\nnoc", "800MHz,noc") + HARDWARE)
    missing = [line for line in wanted if line not in printed]
    assert missing == ["duration: 0.010ms (50.0%) total=0.020ms"]


def test_internal_blocks_of_a_hybrid(tmp_path: Path) -> None:
    measured = read(tmp_path, HEAD + HYBRID)
    (epoch,) = measured_vendor_report(measured).epochs
    assert (epoch.extra, epoch.own_mcu_cycles, epoch.mcu_cycles) == (
        2,
        (100, 200, 300),
        (101, 202, 303),
    )


def test_the_initial_part_in_our_layout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.txt"
    path.write_text(HEAD + HARDWARE, encoding="utf-8")
    assert main(["profile", "--connect", f"log:{path}"]) == 0
    text = told(capsys.readouterr().out)
    for line in told(HEAD.replace("800MHz,\nnoc", "800MHz,noc"))[3:]:
        assert line in text


def test_a_page_with_code_and_a_report_is_a_log(tmp_path: Path) -> None:
    code = (
        "const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_Default(void) {\n"
        ".end_epoch_block = LL_ATON_End_EpochBlock_1,\n"
    )
    path = tmp_path / "page.txt"
    path.write_text(HEAD + HARDWARE + code, encoding="utf-8")
    found = inspect(str(path)).identity
    assert (found.kind, found.summary["epoch_reports"]) == ("profiler_log", 1)
    assert (found.summary["network"], found.summary["npu_hz"]) == ("small", 1_000_000_000)
    path.write_text(code, encoding="utf-8")
    assert inspect(str(path)).identity.kind == "network_c"


def test_the_page_of_the_profiler(vendor_documents: Path) -> None:
    """Every line of the block of its epoch is printed again from what was read."""
    page = vendor_documents / "000_profile_a_deployed_model.txt"
    text = page.read_text(encoding="utf-8")
    block = text[text.index("EpochBlock_186 (") : text.index("Compiler Section")]
    measured = measure(connect=f"log:{page}")
    printed = told(vendor_report_text(measured_vendor_report(measured), measured))
    missing = [line for line in told(block) if line not in printed]
    assert missing == []
    assert measured.profile.total_ms == 13.649
    assert measured.profile.device is not None
    assert measured.profile.device.n_nodes == 199
    assert inspect(str(page)).identity.kind == "profiler_log"


def test_printed_totals_are_the_runs(tmp_path: Path) -> None:
    measured = read(tmp_path, PAGE.replace("n_nodes : 5", "n_nodes : 199"))
    profile = measured.profile
    assert (profile.total_ms, round(profile.inferences_per_s, 1)) == (13.649, 73.3)
    assert profile.time.npu_core_ms == 13.159
    assert sum(value for _, value in profile.time.by_work) == pytest.approx(13.649)
    assert profile.notes == (
        "read from a printed report with 1 of 199 epochs; 198 epochs are missing",
        "the report has two totals: 16.431 ms beside its epochs and 13.649 ms for the whole model, "
        "likely a second run with the epoch controller: pre and post phases are all but gone there",
    )
    assert profile.device is not None
    assert profile.device.banner == "NPU Utility - AiRunner Profiler (version 0.2)"
    assert profile.device.created == "Tue Mar 4 22:27:25 2025"
    assert profile.device.session == "serial:921600"


@pytest.mark.parametrize("layout", [["--full"], ["--vendor-figures"]])
def test_no_printed_figure_is_changed(
    layout: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """MCU cycles of the core phase and the index of the block among them."""
    path = tmp_path / "page.txt"
    path.write_text(PAGE, encoding="utf-8")
    assert main(["profile", "-d", f"log:{path}", *layout]) == 0
    text = told(capsys.readouterr().out)
    wanted = told(TOTALS.partition("Compiler\n")[2].partition("Compiler Section")[0])
    assert [line for line in wanted if ":" in line and line not in text] == []
    block = " ".join(text)
    assert "EpochBlock_3 (c_idx=7, num=3:3" in block
    assert "mcu cycles: [4000, 1600, 2400] -> 0.005,0.002,0.003 ms" in block
    assert "total=16.43" in block


def test_the_core_as_the_mcu_counted_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """10599 of the page, not the 10640 that 13300 NPU cycles would be."""
    path = tmp_path / "page.txt"
    text = PAGE.replace("[4000, 1600, 2400]", "[18859, 10599, 5253]")
    text = text.replace("core npu cycles : 2000", "core npu cycles : 13300")
    path.write_text(text, encoding="utf-8")
    assert main(["profile", "--desc", f"log:{path}", "--verbosity", "2", "--no-color"]) == 0
    out = capsys.readouterr().out
    assert "[18859, 10599, 5253]" in out and "10640" not in out
