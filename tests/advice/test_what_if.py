"""What-if values on models, compiled folders and Builds: timed again or compiled again."""

from __future__ import annotations

from pathlib import Path

import pytest

import npuscope
from models import mobilenet_like, save, to_tflite
from npuscope import building
from npuscope.errors import UsageError
from npuscope.machine.load import load_machine
from npuscope.machine.marks import KeyEffect
from npuscope.machine.set_keys import KeyChange
from npuscope.profiling.run import estimate
from npuscope.program.model import save as save_program
from npuscope.structs import replace

FASTER = {"clocks.npu_mhz": 2000}
FEWER = {"units.ARITH": 1}
NEEDS_MODEL = (
    "--set units.ARITH: units.ARITH is a mapping key: with another value the model has to be "
    "compiled again, and it was not found\n"
    "  hint: give it with --model (estimate, explain) or as SOURCE, or put it beside the program"
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    return save(tmp_path / "models", "net.tflite", to_tflite(mobilenet_like()))


@pytest.fixture
def folder(model: Path, tmp_path: Path) -> Path:
    """A compiled program away from its model."""
    npuscope.compile(model, tmp_path / "far" / "away" / "build")
    return tmp_path / "far" / "away" / "build"


def test_a_model_is_compiled_once_and_timed_twice(model: Path) -> None:
    found = npuscope.what_if(model, {"npu.clock_mhz": 2000})
    assert found.changes == (KeyChange("clocks.npu_mhz", 1000.0, 2000.0, KeyEffect.TIMING),)
    assert (found.recompiled, found.mapping_changed) == (False, False)
    assert found.baseline == npuscope.estimate(model)
    assert found.profile == npuscope.estimate(model, overrides=FASTER)
    assert found.delta_ms == found.profile.total_ms - found.baseline.total_ms < 0


def test_a_mapping_key_compiles_a_model_again(model: Path) -> None:
    found = npuscope.what_if(model, FEWER)
    assert (found.recompiled, found.mapping_changed) == (True, True)
    assert found.baseline == npuscope.estimate(model)
    assert found.profile == npuscope.estimate(model, overrides=FEWER)


def test_a_mapping_key_may_change_nothing(model: Path) -> None:
    found = npuscope.what_if(model, {"units.ARITH": 5})
    assert (found.recompiled, found.mapping_changed) == (True, False)


def test_other_options_hold_for_both_sides(model: Path) -> None:
    clocks = {"clocks.mcu_mhz": 400}
    found = npuscope.what_if(model, FEWER | FASTER, overrides=clocks, generation="2.2")
    assert found.baseline == npuscope.estimate(model, overrides=clocks, generation="2.2")
    both = {**clocks, **FEWER, **FASTER}
    assert found.profile == npuscope.estimate(model, overrides=both, generation="2.2")


def test_a_clock_mode_is_its_clocks(model: Path) -> None:
    found = npuscope.what_if(model, {"clock_mode": "nominal"})
    assert [change.key for change in found.changes if change.old != change.new] == [
        "clocks.mcu_mhz",
        "clocks.npu_mhz",
        "clocks.nic_mhz",
    ]


def test_a_compiled_program_is_timed_again(folder: Path) -> None:
    found = npuscope.what_if(folder, FASTER)
    assert (found.recompiled, found.mapping_changed) == (False, False)
    assert found.profile == npuscope.estimate(folder, overrides=FASTER)


def test_the_same_value_asks_for_nothing(folder: Path) -> None:
    units = load_machine().units["ARITH"]
    assert not npuscope.what_if(folder, {"units.ARITH": units}).recompiled


@pytest.mark.parametrize("verb", [npuscope.estimate, npuscope.profile, npuscope.explain])
def test_no_verb_times_a_program_with_a_mapping_key(folder: Path, verb) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError) as caught:
        verb(folder, overrides=FEWER)
    assert str(caught.value) == NEEDS_MODEL


def test_several_mapping_keys_are_all_named(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"^--set units.ARITH: units.ARITH, pool.max_window are "):
        npuscope.what_if(folder, {**FEWER, **FASTER, "pool.max_window": 2})


def test_the_model_is_given(folder: Path, model: Path) -> None:
    found = npuscope.what_if(folder, FEWER, compiled_from=model)
    assert (found.recompiled, found.mapping_changed, found.vendor) == (True, True, None)
    assert found.profile.total_ms == npuscope.estimate(model, overrides=FEWER).total_ms
    assert "recompiled from net.tflite: the compiler reads units.ARITH" in found.profile.notes
    explained = npuscope.explain(folder, model=model, overrides=FEWER)
    assert set(found.profile.notes) <= set(explained.profile.notes)


def test_the_model_is_found_beside(folder: Path, model: Path) -> None:
    save(folder.parent, "copy.tflite", model.read_bytes())
    found = npuscope.profile(folder, overrides=FEWER)
    assert found.notes[0] == "recompiled from copy.tflite: the compiler reads units.ARITH"


def test_another_model_is_named(folder: Path, tmp_path: Path) -> None:
    other = save(tmp_path, "other.tflite", to_tflite(mobilenet_like(seed=1)))
    assert npuscope.what_if(folder, FEWER, compiled_from=other).profile.notes[1] == (
        "other.tflite is not the file that the program names as its model"
    )


def test_a_vendor_program_is_compared_by_our_compiler(model: Path, tmp_path: Path) -> None:
    made = building.build(model, {"generation": "2.2"})
    save_program(replace(made.program, source="network.c"), tmp_path / "vendor")
    found = npuscope.what_if(tmp_path / "vendor", FEWER, compiled_from=model)
    assert found.vendor is not None
    assert found.vendor.total_ms == npuscope.estimate(model, generation="2.2").total_ms
    assert found.baseline.total_ms == found.vendor.total_ms  # it was ours in truth
    assert found.profile.notes[-1] == (
        "recompiled by npuscope's compiler, not the vendor's, from net.tflite: "
        "the compiler reads units.ARITH"
    )


def test_a_build_is_taken_as_it_is(model: Path) -> None:
    made = building.build(model, {"generation": "3.0"})
    timed = npuscope.what_if(made, FASTER)
    assert timed.build.program is made.program
    assert timed.profile == estimate(made.program, timed.build.machine, made.graph)
    mapped = npuscope.what_if(made, FEWER)
    assert mapped.profile == npuscope.estimate(model, generation="3.0", overrides=FEWER)
    with pytest.raises(UsageError) as caught:
        npuscope.what_if(replace(made, graph=None), FEWER)
    assert str(caught.value) == NEEDS_MODEL


def test_a_machine_of_ones_own_takes_values_too(model: Path) -> None:
    machine = load_machine(generation="2.2")
    slow = npuscope.estimate(model, machine=machine, overrides={"clocks.npu_mhz": 100})
    assert slow.machine.npu_mhz == 100


def test_sensitivity_names_what_saves_most(model: Path) -> None:
    rows = npuscope.sensitivity(model)
    saved = [row.saved_ms for row in rows]
    assert saved == sorted(saved, reverse=True)
    assert min(saved) > 0
    best = rows[0]
    total = npuscope.estimate(model).total_ms
    better = npuscope.estimate(model, overrides={best.key: best.better}).total_ms
    assert best.saved_ms == total - better
    assert {round(row.better / row.value, 9) for row in rows} == {0.9, 1.1}


def test_sensitivity_finds_the_clock_that_matters(model: Path) -> None:
    """With a flash that hardly moves, its road is what helps."""
    rows = npuscope.sensitivity(model, overrides={"paths.xspi2.bytes_per_cycle": 0.001})
    assert {rows[0].key, rows[1].key} == {"clocks.xspi_mhz", "paths.xspi2.bytes_per_cycle"}
