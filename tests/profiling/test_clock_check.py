"""Pool attributes against clocks: who is warned, with which figures."""

from __future__ import annotations

import pytest

from npuscope.boards.device import BoardClocks as BoardClocks
from npuscope.machine.load import load_machine
from npuscope.machine.model import Clocks
from npuscope.profiling.clock_check import clock_misfits, clock_warnings
from npuscope.program.model import Access, Claims, Epoch, EpochKind, Pool, Program
from npuscope.structs import replace

OVERDRIVE = BoardClocks(800_000_000, 400_000_000, 1_000_000_000, 900_000_000)
FAST = Pool("npuRAM5", 0x342E0000, 448 << 10, 8, 1.11)
SLOW = Pool("cpuRAM2", 0x34100000, 1024 << 10, 8, 2.5)
FLASH = Pool("octoFlash", 0x71000000, 1 << 20, 1, 6.0, writable=False, cacheable=True)


def program(*pools: Pool, claims: Claims | None = None) -> Program:
    moved = tuple(Access(pool.name, 800, 0) for pool in pools)
    stated = claims or Claims(1000, 10, 10_000, moved)
    epoch = Epoch(1, 1, EpochKind.HW, claims=stated)
    return Program("net", "stm32n6", "2.1", False, pools, (), (epoch,), (), ())


def test_ratios_that_fit() -> None:
    assert clock_warnings(program(FAST, SLOW, FLASH), OVERDRIVE) == ()


def test_the_warning_says_value_expected_and_effect() -> None:
    pools = (replace(FAST, freq_ratio=1.25), replace(FAST, name="npuRAM4", freq_ratio=1.25))
    decided = Claims(1000, 10, 125, (Access("npuRAM5", 700, 100),))
    (text,) = clock_warnings(program(*pools, claims=decided), OVERDRIVE)
    assert text == (
        "npuRAM5: the compiler assumed freqRatio 1.25 and byteWidth 8, the clocks give 1.11 "
        "and 8 (NPU 1000 MHz by NIC 900 MHz): memory terms of max_cycles are 12.5% too high, "
        "which decides max_cycles in 1 of 1 epochs"
    )


def test_pools_of_one_road_share_a_sentence() -> None:
    pools = (replace(FAST, freq_ratio=1.25), replace(FAST, name="npuRAM4", freq_ratio=1.25))
    (text,) = clock_warnings(program(*pools), OVERDRIVE)
    assert text.startswith("npuRAM5, npuRAM4: ")
    assert text.endswith("which decides max_cycles in 0 of 1 epochs")


def test_a_slower_bus_makes_the_estimate_too_low() -> None:
    slow = replace(OVERDRIVE, noc_hz=200_000_000)
    (text,) = clock_warnings(program(SLOW), slow)
    assert "the clocks give 5 and 8 (NPU 1000 MHz by NOC 200 MHz)" in text
    assert "50.0% too low" in text


def test_a_byte_width_that_does_not_fit() -> None:
    (found,) = clock_misfits(program(replace(SLOW, byte_width=4)), OVERDRIVE)
    assert found.stated_by_right == pytest.approx(2.0)
    assert found.byte_width == 8


def test_machines_and_their_clocks_are_taken_too() -> None:
    machine = load_machine()
    nominal = Clocks(600, 800, 400, 800, 200)
    wrong = program(replace(FAST, freq_ratio=1.25))
    assert len(clock_warnings(wrong, machine)) == 1
    assert "25.0% too high" in clock_warnings(wrong, nominal)[0]
    assert clock_warnings(wrong, replace(machine, clocks=nominal)) == clock_warnings(wrong, nominal)


@pytest.mark.parametrize(
    ("address", "clock"),
    [
        (0x34200000, "nic_mhz"),  # a bank
        (0x24200000, "nic_mhz"),  # its other alias
        (0x34080000, "noc_mhz"),  # memory kept for firmware
        (0x343C0000, "noc_mhz"),  # the cache as plain memory
    ],
)
def test_pools_of_other_names_are_known_by_address(address: int, clock: str) -> None:
    pool = Pool("mine", address, 1024, 8, 9.0)
    (found,) = clock_misfits(program(pool), OVERDRIVE)
    assert found.clock == clock


def test_outside_the_chip_nothing_is_said() -> None:
    mine = Pool("mine", 0x90001000, 1024, 2, 50.0)
    far = Pool("far", 0x1000, 1024, 2, 50.0)
    assert clock_misfits(program(replace(FLASH, freq_ratio=60.0), mine, far), OVERDRIVE) == ()


def test_only_pools_in_use_count() -> None:
    wrong = replace(FAST, freq_ratio=1.25)
    unused = replace(program(SLOW), pools=(SLOW, wrong))
    assert clock_misfits(unused, OVERDRIVE) == ()
    both = Pool("all", 0x34100000, 2816 << 10, 8, 2.5, subpools=("cpuRAM2", "npuRAM5"))
    behind = replace(program(both), pools=(SLOW, wrong, both))
    (found,) = clock_misfits(behind, OVERDRIVE)
    assert found.pools == (wrong,)


def test_without_an_estimate_nothing_is_skewed() -> None:
    wrong = program(replace(FAST, freq_ratio=1.25), claims=Claims())
    assert clock_warnings(replace(wrong), OVERDRIVE) == ()


def test_clocks_and_ratios_that_were_left_out() -> None:
    unknown = replace(OVERDRIVE, nic_hz=0)
    assert clock_warnings(program(replace(FAST, freq_ratio=1.25)), unknown) == ()
    assert clock_warnings(program(replace(FAST, byte_width=0)), OVERDRIVE) == ()


def test_names_are_foreign() -> None:
    odd = Pool("a\x1b[2J", 0x34200000, 1024, 8, 9.0)
    assert clock_warnings(program(odd), OVERDRIVE)[0].startswith("a\\x1b[2J: ")
