"""The register map: no field twice, no register twice, and the facts that others rely on."""

from __future__ import annotations

import pytest

from npuscope.errors import TargetError
from npuscope.program.ec_blob.register_file import UnitRegisters
from npuscope.program.ec_blob.registers import (
    PAGE_BY_NAME,
    UNIT_BY_NAME,
    UNIT_BY_PAGE,
    clock_gate,
    page_of,
    register_index,
    reset_value,
)


def test_pages_of_units_do_not_overlap() -> None:
    assert sum(unit.count for unit in UNIT_BY_NAME.values()) == len(UNIT_BY_PAGE) == 32
    assert len(PAGE_BY_NAME) == 64


@pytest.mark.parametrize("unit", UNIT_BY_NAME.values(), ids=lambda unit: unit.name)
def test_registers_and_fields_do_not_overlap(unit) -> None:
    assert len(unit.by_index) == len(unit.by_name) == len(unit.registers)
    for register in unit.registers:
        taken = 0
        for field in register.fields:
            assert not taken & field.mask, f"{register.name}.{field.name}"
            assert field.mask >> 32 == 0
            assert field.reset < 1 << field.width
            taken |= field.mask


@pytest.mark.parametrize(
    ("unit", "register", "index", "reset"),
    [
        ("STRENG", "POS", 9, 0x80024),
        ("STRENG", "LIMITEN", 12, 2),
        ("CONVACC", "DFORMAT", 4, 0x10B00808),
        ("CONVACC", "FHCROP", 6, 0xFFFF0000),
        ("ARITH", "CTRL", 0, 0x08000000),
        ("ARITH", "INSHIFTER", 13, 0x20422042),
        ("STRSWITCH", "DSTCONVACC00", 12, 0),
        ("STRSWITCH", "DSTARITH00", 30, 0),
        ("STRSWITCH", "DSTRECBUF02", 42, 0),
        ("CLKCTRL", "BGATES", 4, 0),
    ],
)
def test_places_and_reset_values(unit: str, register: str, index: int, reset: int) -> None:
    page = page_of(unit, 0)
    assert register_index(page, register) == index
    assert reset_value(page, index) == reset


def test_clock_gates_follow_the_pages() -> None:
    gates = UNIT_BY_NAME["CLKCTRL"].by_name["BGATES"].by_name
    for name, field in gates.items():
        page = PAGE_BY_NAME.get(name, PAGE_BY_NAME.get(name.rstrip("0")))
        assert clock_gate(page) == field.lsb, name


def test_a_field_keeps_its_range_and_its_neighbours() -> None:
    image = UnitRegisters("CONVACC")
    image.put("ZFBIAS.ZFBIAS", -128, signed=True)
    assert image.words["ZFBIAS"] == 0xFF80
    assert image.get("ZFBIAS.ZFBIAS", signed=True) == -128
    image.put("KFORMAT.NR", 255)
    assert image.words["KFORMAT"] == 0xFF010303
    with pytest.raises(TargetError, match=r"CONVACC register KFORMAT.NR holds 0 to 255, not 256"):
        image.put("KFORMAT.NR", 256)
