"""The what-if line and the sensitivity table, word by word."""

from __future__ import annotations

import pytest

from npuscope.advice.what_if import Sensitivity, WhatIf
from npuscope.building import Build
from npuscope.machine.load import load_machine
from npuscope.machine.marks import KeyEffect
from npuscope.machine.set_keys import KeyChange
from npuscope.program.model import Program
from npuscope.report.estimate import (
    estimate_text,
    keys_text,
    known_keys,
    sensitivity_json,
    sensitivity_lines,
    what_if_json,
    what_if_line,
)
from npuscope.structs import replace
from sample_profile import sample_profile

CLOCK = KeyChange("clocks.npu_mhz", 1000.0, 800.0, KeyEffect.TIMING)
ORDER = KeyChange("placement.bank_order", ("npuRAM5", "npuRAM4"), ("npuRAM3",), KeyEffect.MAPPING)
FLAG = KeyChange("pools.hyperRAM.writable", True, False, KeyEffect.MAPPING)
BEFORE = replace(sample_profile(), total_ms=10.0)
AFTER = replace(BEFORE, total_ms=12.5)
BUILD = Build(None, load_machine(), Program("p", "m", "4.0", True, (), (), (), (), ()))


def found(*changes: KeyChange, after=AFTER, recompiled=False, vendor=None) -> WhatIf:  # type: ignore[no-untyped-def]
    return WhatIf(changes, BEFORE, after, recompiled, BUILD, vendor)


def test_timed_again() -> None:
    assert what_if_line(found(CLOCK)) == (
        "what-if  clocks.npu_mhz 1000 -> 800: 10.00 -> 12.50 ms (+2.500 ms, +25.0%), "
        "re-timed, not recompiled"
    )


def test_faster() -> None:
    line = what_if_line(found(CLOCK, after=replace(BEFORE, total_ms=9.5)))
    assert "10.00 -> 9.500 ms (-0.500 ms, -5.0%)" in line


@pytest.mark.parametrize(
    ("after", "how"),
    [
        (AFTER, "recompiled, the mapping stays the same"),
        (
            replace(AFTER, program_hash="other", counts={"HW": 1, "SW": 0, "HYBRID": 0}),
            f"recompiled, the mapping changed ({len(BEFORE.epochs)} -> 1 epochs)",
        ),
    ],
)
def test_compiled_again(after, how: str) -> None:  # type: ignore[no-untyped-def]
    assert what_if_line(found(ORDER, FLAG, after=after, recompiled=True)) == (
        "what-if  placement.bank_order [npuRAM5, npuRAM4] -> [npuRAM3], "
        "pools.hyperRAM.writable true -> false: 10.00 -> 12.50 ms (+2.500 ms, +25.0%), " + how
    )


def test_a_vendor_program_compiled_again() -> None:
    vendor = replace(BEFORE, total_ms=11.0)
    changed = found(FLAG, recompiled=True, vendor=vendor)
    line = what_if_line(changed)
    assert line.endswith("both compiled by npuscope; the vendor's program takes 11.00 ms")
    assert what_if_json(changed)["vendor_ms"] == 11.0


def test_a_hostile_value_moves_no_cursor() -> None:
    line = what_if_line(found(KeyChange("generation.title", "a", "\x1b[2J", KeyEffect.TIMING)))
    assert "\x1b" not in line


def test_it_is_the_third_line_of_an_estimate() -> None:
    lines = estimate_text(AFTER, found(CLOCK)).splitlines()
    assert lines[2] == what_if_line(found(CLOCK))
    assert [*lines[:2], *lines[3:]] == estimate_text(AFTER).splitlines()


def test_keys_of_the_json() -> None:
    assert what_if_json(found(CLOCK)) == {
        "what_if": [{"key": "clocks.npu_mhz", "old": 1000.0, "new": 800.0, "kind": "timing"}],
        "baseline_ms": 10.0,
        "recompiled": False,
        "mapping_changed": False,
    }


ROWS = tuple(Sensitivity(f"timing.k{n}_cycles", 10.0, 9.0, 1.0 / n) for n in range(1, 15))


def test_sensitivity_table() -> None:
    lines = sensitivity_lines(ROWS, 10.0)
    assert lines[0] == "Sensitivity  one timing key 10% better at a time; the largest savings:"
    assert lines[2] == (
        "  timing.k1_cycles                                  10         9     1.000  10.0%"
    )
    assert lines[-1] == "  and 2 more that save less (--json lists them)"
    assert len(lines) == 2 + 12 + 1
    assert len(sensitivity_json(ROWS)["sensitivity"]) == 14
    assert sensitivity_json(ROWS[:1]) == {
        "sensitivity": [{"key": "timing.k1_cycles", "value": 10.0, "tried": 9.0, "saved_ms": 1.0}]
    }


def test_list_of_keys() -> None:
    assert keys_text("stm32n6", known_keys("stm32n6", "npuRAM3.")).splitlines()[:5] == [
        "stm32n6: 14 keys for --set: 3 timing (a program is timed again), "
        "11 mapping (the model is compiled again)",
        "  pools.npuRAM3.name                                    npuRAM3  mapping",
        "  pools.npuRAM3.file                                   AXISRAM3  mapping",
        "  pools.npuRAM3.address                              0x34200000  mapping",
        "  pools.npuRAM3.size_kib                                    448  mapping",
    ]
    assert {row.key.effect for row in known_keys("stm32n6", "timing")} >= {KeyEffect.TIMING}
    (clock,) = known_keys("stm32n6", "clocks.npu")
    assert (clock.unit, clock.note) == ("MHz", "overdrive defaults, MHz [docs]")
