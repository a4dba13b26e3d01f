"""Every key of a machine can be set, says what it asks for, and is found by its TOML path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest
from msgspec import Struct

from npuscope.machine.load import load_machine, packaged, read_table
from npuscope.machine.marks import KeyEffect
from npuscope.machine.model import Machine
from npuscope.machine.set_keys import (
    Key,
    KeyChange,
    changes_of,
    key_notes,
    leaves,
    machine_keys,
    with_overrides,
    with_value,
)

MACHINE = load_machine()
KEYS = machine_keys(MACHINE)
# What a machine and a generation are called, and an option of its own.
NOT_SETTABLE = {
    *("name", "description", "chip", "board"),
    *("epoch_controller", "generation.name", "assumed"),
}


def unmarked(kind: Any, place: str = "") -> Iterator[str]:
    """Leaves of the records that carry no mark."""
    hints = get_type_hints(kind, include_extras=True)
    for name in kind.__struct_fields__:
        hint, here = hints[name], f"{place}{name}"
        inner = [part for part in (hint, *get_args(hint)) if _is_record(part)]
        if inner:
            yield from unmarked(inner[0], f"{here}.")
        elif not any(isinstance(note, KeyEffect) for note in get_args(hint)):
            yield here


def _is_record(part: Any) -> bool:
    """A class, not the range that an annotation holds."""
    return isinstance(part, type) and issubclass(part, Struct)


def test_every_field_is_marked() -> None:
    assert set(unmarked(Machine)) == NOT_SETTABLE


def test_every_value_of_the_toml_is_a_key() -> None:
    table = read_table(packaged("stm32n6"))
    for apart in ("generations", "clock_modes", "flash", "psram", "name", "description", "chip"):
        table.pop(apart)
    assert set(leaves(table)) <= set(KEYS)
    assert {key for key in KEYS if key.startswith("generation.control.")}


def another(key: Key) -> Any:
    """A different value of the same type."""
    if isinstance(key.value, bool):
        return not key.value
    if isinstance(key.value, tuple):
        return key.value[:1]
    return f"{key.value}x" if isinstance(key.value, str) else key.value + 1


@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_a_new_value_changes_its_key_alone(key: Key) -> None:
    changed = with_value(MACHINE, key, another(key))
    after = machine_keys(changed)
    if key.place[0] == "pools" and key.place[-1] == "name":
        return  # the other keys of the pool go by its new name
    assert after[key.name].value == another(key)
    assert {n: k for n, k in after.items() if n != key.name} == {
        n: k for n, k in KEYS.items() if n != key.name
    }


@pytest.mark.parametrize(
    ("name", "effect"),
    [
        ("clocks.npu_mhz", KeyEffect.TIMING),
        ("paths.nic.bytes_per_cycle", KeyEffect.TIMING),
        ("pools.npuRAM3.path", KeyEffect.TIMING),
        ("software.Softmax.fixed", KeyEffect.TIMING),
        ("generation.control.controller_cycles", KeyEffect.TIMING),
        ("units.CONVACC", KeyEffect.MAPPING),
        ("convacc.tiles.deep1x1.depth", KeyEffect.MAPPING),
        ("pools.npuRAM3.size_kib", KeyEffect.MAPPING),
        ("placement.bank_order", KeyEffect.MAPPING),
        ("generation.depthwise", KeyEffect.MAPPING),
    ],
)
def test_marks(name: str, effect: KeyEffect) -> None:
    assert KEYS[name].effect is effect


def test_a_pool_that_is_no_whole_number_of_kib() -> None:
    pools = machine_keys(with_value(MACHINE, KEYS["pools.npuRAM3.size_kib"], 1.5))
    assert pools["pools.npuRAM3.size_kib"].value == 1.5


def test_changes_by_any_name() -> None:
    found = changes_of(MACHINE, {"machine.npu.clock_mhz": 800, "units.ARITH": 4})
    assert found == (
        KeyChange("clocks.npu_mhz", 1000.0, 800.0, KeyEffect.TIMING),
        KeyChange("units.ARITH", 4, 4, KeyEffect.MAPPING),
    )
    assert [change.remaps for change in found] == [False, False]
    assert changes_of(MACHINE, {"units.ARITH": 2})[0].remaps


def test_the_last_of_two_names_wins() -> None:
    values = {"clocks.npu_mhz": 500, "npu.clock_mhz": 700}
    assert with_overrides(MACHINE, values).clocks.npu_mhz == 700.0
    assert changes_of(MACHINE, values) == (
        KeyChange("clocks.npu_mhz", 1000.0, 700.0, KeyEffect.TIMING),
    )


def test_notes_are_the_comments_of_the_toml() -> None:
    notes = key_notes(packaged("stm32n6"), MACHINE)
    assert set(notes) == set(KEYS)
    assert notes["stream.busif_bytes"] == "64-bit AXI masters [docs]"
    assert notes["units.POOL"] == "counts [mdesc]"
    assert notes["paths.xspi1.access"] == "16-bit DTR PSRAM [docs]"
    assert notes["pools.octoFlash.size_kib"] == "112 MiB after the application [docs]"
    assert notes["pools.npuRAM3.score"] == ""
    assert notes["generation.vector_in_frames"] == "the whole vector [code: a public build]"
    assert notes["generation.requantize"] == "one ARITH stage [code]"
    assert "units stay in series until -O3" in notes["generation.default_optimization"]
