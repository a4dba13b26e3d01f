from __future__ import annotations

import pytest

from npuscope.profiling.model import Fit, Provenance
from npuscope.report.estimate import estimate_text
from npuscope.report.profile import profile_text
from npuscope.structs import replace
from sample_profile import sample_profile


def test_estimate_is_one_screen() -> None:
    lines = estimate_text(sample_profile()).splitlines()
    assert len(lines) < 50
    assert max(map(len, lines)) <= 110


def test_full_block_agrees_with_the_published_figures() -> None:
    """The sample's first epoch, as the vendor's profiler printed it."""
    text = profile_text(sample_profile(), full=True, epochs=frozenset({186}))
    for figure in (
        "{'hw.conv': 4, 'hw.mul': 1, 'hw.add': 2, 'hw.sigmoid': 1, 'hw.dmain': 6, 'hw.dmaout': 2}",
        "{'CONV_ACC': 4, 'ARITH_ACC': 3, 'ACTIV_ACC': 1, 'STR_ENG': 8}",
        "4608 (max_cycles=27648)",
        "  spread               : min=0.043 median=0.043 max=0.044 ms (3 runs)",
        "16.4 (ideal=98.4)",
        "[octoFlash: r=4608, w=0] [npuRAM5: r=19600, w=8820]",
        "-> 0.024,0.013,0.007 ms (mcu_freq=800MHz)",
        "diff. vs max_cycles from compiler: -14348 (-107.9%)",
        "(core only: 34.6%)",
        "r=14080 w=0 rburst[1,2,4,8]x8=(8,12,16,208) wburst[1,2,4,8]x8=(0,0,0,0) -> 1.06 GB/s",
        "r=24288 w=7960 -> 2.42 GB/s",
        "10.4 (core only: 34.1)",
        "114.2% (id=4)",
        "STRENG.7.o: busif=1, 13935 cycles, [npuRAM5:882], 104.8%",
        "R[hit=0, miss=80, alloc-miss=0, evict=0]",
        "r=4608 w=0 -> 346.47 MB/s",
        "r=19600 w=8820 -> 2.14 GB/s",
        "r=24208 w=8820 -> 2.48 GB/s",
    ):
        assert figure in text


@pytest.mark.parametrize("source", [Provenance.ESTIMATE, Provenance.SIMULATION])
def test_a_prediction_is_never_called_measured(source: Provenance) -> None:
    profile = sample_profile(source)
    for text in (estimate_text(profile), profile_text(profile, full=True)):
        assert "measured" not in text.lower()
        assert "known error: median 9 %" in text


def test_a_board_run_carries_no_model_error() -> None:
    text = profile_text(sample_profile(Provenance.BOARD), full=True)
    assert "measured on a board" in text
    assert "known error" not in text
    assert "range" not in text


def test_epochs_are_picked_by_number() -> None:
    text = profile_text(sample_profile(), epochs=frozenset({187}))
    assert " 187  SW" in text
    assert " 186  HW" not in text


def test_foreign_names_reach_the_terminal_harmless() -> None:
    profile = sample_profile()
    text = estimate_text(profile) + profile_text(profile) + profile_text(profile, full=True)
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (Fit(True, True, True, ""), "fits; weights in octoFlash (all could fit on chip); "),
        (Fit(False, True, True, ""), "fits; weights in flash; "),
        (Fit(False, False, True, ""), "fits with external RAM; "),
        (Fit(False, False, False, "too large"), "does not fit; "),
    ],
)
def test_the_first_line_is_the_answer(fit: Fit, words: str) -> None:
    assert estimate_text(sample_profile(fit=fit)).startswith(words)


def test_weights_in_ram_are_on_chip() -> None:
    profile = sample_profile(fit=Fit(True, True, True, ""))
    ram = replace(profile.memory.pools[0], weights_bytes=4_608)
    profile = replace(profile, memory=replace(profile.memory, pools=(ram,)))
    assert estimate_text(profile).startswith("fits on chip, weights included; ")


def test_an_empty_profile_prints() -> None:
    empty = replace(sample_profile(), epochs=(), total_ms=0.0, runs=(), interval_ms=(0.0, 0.0))
    assert estimate_text(empty).startswith("nothing to compute")
    assert "total r/w" in profile_text(empty, full=True)
