from __future__ import annotations

from pathlib import Path

import pytest

from npuscope.errors import FileError, UsageError
from npuscope.machine import load
from npuscope.machine.load import (
    MachineReader,
    generations,
    load_machine,
    machine_text,
    packaged,
    set_ups,
)
from npuscope.machine.model import Machine
from npuscope.machine.set_keys import with_overrides

TOML = packaged("stm32n6").read_text(encoding="utf-8")


def from_text(tmp_path: Path, text: str) -> Machine:
    path = tmp_path / "m.toml"
    path.write_text(text, encoding="utf-8")
    return load_machine(machine_file=path)


def test_default_machine() -> None:
    machine = load_machine()
    assert (machine.name, machine.generation.name) == ("stm32n6", "4.0")
    assert machine.epoch_controller
    assert machine.memory("npuRAM5").size_bytes == 448 * 1024
    assert machine.units["CONVACC"] == 4
    # 8 bytes a clock at 900 MHz, seen from 1000 MHz
    assert machine.cycles_per_byte("nic") == pytest.approx(1000 / 7200)


def test_generations_are_ordered_by_the_file() -> None:
    assert generations() == ("2.2", "3.0", "4.0", "open")


def test_generations_take_over_what_they_are_like() -> None:
    three, four, own = (load_machine(generation=name).generation for name in ("3.0", "4.0", "open"))
    assert four.control == three.control
    assert four.requantize == "affine"
    assert own.requantize == "mul_add"
    assert own.depthwise == three.depthwise
    assert load_machine(generation="2.2").generation.depthwise == "inflated"


def test_a_generation_has_kernels_of_its_own_library() -> None:
    older, newer = (load_machine(generation=name).software for name in ("2.2", "4.0"))
    assert older["Resize"].per_element > 2 * newer["Resize"].per_element
    assert older["Resize"].fixed == newer["Resize"].fixed
    assert older["Softmax"] == newer["Softmax"]
    assert load_machine(generation="2.0").software == older


@pytest.mark.parametrize("key", ["machine.npu.clock_mhz", "npu.clock_mhz", "clocks.npu_mhz"])
def test_one_value_by_any_of_its_names(key: str) -> None:
    machine = load_machine(overrides={key: 800})
    assert machine.clocks.npu_mhz == 800.0
    assert machine.clocks.mcu_mhz == load_machine().clocks.mcu_mhz


def test_pools_generation_and_lists_can_be_set() -> None:
    machine = load_machine(
        overrides={
            "pools.npuRAM5.size_kib": 0,
            "pools.hyperRAM.constants_preferred": True,
            "generation.control.pre_fixed": 3.5,
            "placement.bank_order": ["npuRAM3"],
        }
    )
    assert machine.memory("npuRAM5").size_bytes == 0
    assert machine.memory("hyperRAM").constants_preferred
    assert machine.generation.control.pre_fixed == 3.5
    assert machine.placement.bank_order == ("npuRAM3",)


def test_clock_mode_then_single_clock() -> None:
    clocks = load_machine(overrides={"npu.clock_mhz": 700, "clock_mode": "nominal"}).clocks
    assert (clocks.mcu_mhz, clocks.npu_mhz) == (600.0, 700.0)


@pytest.mark.parametrize(
    ("overrides", "road", "cycles_per_byte", "wait"),
    [
        ({"flash": "octo-dtr-200"}, "xspi2", 2.5, 1.0),
        ({"flash": "octo-dtr-50"}, "xspi2", 10.0, 4.0),
        ({"flash": "octo-dtr-50", "clock_mode": "nominal"}, "xspi2", 8.0, 4.0),
        ({"flash": "octo-dtr-50", "clocks.xspi_mhz": 100}, "xspi2", 10.0, 4.0),
        ({"flash": "octo-dtr-50", "paths.xspi2.wait": 2}, "xspi2", 10.0, 2.0),
        ({"psram": "octo-dtr-200"}, "xspi1", 2.5, 1.0),
        ({"psram": "hexa-dtr-50"}, "xspi1", 5.0, 4.0),
    ],
)
def test_a_set_up_is_the_rate_of_its_road(overrides, road, cycles_per_byte, wait) -> None:
    machine = load_machine(overrides=overrides)
    assert machine.cycles_per_byte(road) == pytest.approx(cycles_per_byte)
    assert machine.paths[road].wait == wait


@pytest.mark.parametrize("memory", ["flash", "psram"])
def test_the_first_set_up_is_the_machine_as_it_is(memory: str) -> None:
    usual = set_ups("stm32n6", memory)[0]
    assert load_machine(overrides={memory: usual}) == load_machine()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"npu.clok_mhz": 1},
            "--set: the machine has no key 'npu.clok_mhz'\n"
            "  hint: nearest: npu.clock_mhz, noc.clock_mhz, nic.clock_mhz",
        ),
        ({"npu.clock_mhz": "fast"}, "--set npu.clock_mhz: expected a number, found 'fast'"),
        ({"npu.clock_mhz": 0}, "--set clocks.npu_mhz: must be above 0, found 0"),
        ({"npu.clock_mhz": float("nan")}, "--set npu.clock_mhz: nan is not a finite number"),
        ({"units.CONVACC": 2.5}, "--set units.CONVACC: expected a whole number, found 2.5"),
        ({"units.CONVACC": True}, "--set units.CONVACC: expected a whole number, found true"),
        ({"units.ARITH": -1}, "--set units.ARITH: must not be negative, found -1"),
        (
            {"software.Mean.fixed": -0.5},
            "--set software.Mean.fixed: must not be negative, found -0.5",
        ),
        (
            {"generation.control.pre_fixed": -1},
            "--set generation.control.pre_fixed: must not be negative, found -1",
        ),
        (
            {"pools.npuRAM3.path": "road"},
            "--set pools.npuRAM3.path: 'road' is unknown; known: nic, noc, xspi1, xspi2",
        ),
        (
            {"placement.bank_order": "npuRAM3"},
            "--set placement.bank_order: expected a list, each text, found 'npuRAM3'",
        ),
        (
            {"clock_mode": "turbo"},
            "--set clock_mode: unknown clock mode 'turbo'\n  hint: known: nominal",
        ),
        (
            {"psram": "quad"},
            "--psram: unknown set-up of the psram 'quad'\n"
            "  hint: known: hexa-dtr-200, octo-dtr-200, hexa-dtr-50",
        ),
    ],
)
def test_wrong_overrides(overrides: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_machine(overrides=overrides)
    assert str(caught.value) == message


def test_unknown_names() -> None:
    with pytest.raises(UsageError, match=r"unknown machine 'stm32n7'\n  hint: known: stm32n6"):
        load_machine("stm32n7")
    with pytest.raises(UsageError, match=r"known: 2\.0, 2\.1, 2\.2, 3\.0, 4\.0, open"):
        load_machine(generation="5.0")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mcu_mhz = 800", 'mcu_mhz = "x"', "clocks.mcu_mhz: expected a number, found 'x'"),
        ("max_vector = 512", "", "arith.max_vector: this key is missing"),
        ("max_vector = 512", "max_vectors = 512", "arith.max_vectors: unknown key"),
        ("size_kib = 1024", "size_kib = -1", "pools.cpuRAM2.size_kib: must not be negative"),
        ("size_kib = 1024", 'size_kib = "1"', "pools[2].size_kib: unknown key"),
        ('like = "3.0"', 'like = "open"', "'4.0' is not another generation of this machine"),
        ('like = "3.0"', "like = []", "'[]' is not another generation of this machine"),
        ('like = "3.0"', "like = {a = 1}", "is not another generation of this machine"),
        ('path = "noc"\nscore = 84', "path = 3\nscore = 84", "pools[0].path: expected text"),
        ("[software.default]", "[software.other]", "software.default: this key is missing"),
        (
            '[generations."2.2".software.Resize]',
            '[generations."4.0".software.Resize]\nper_elements = 1.0',
            "software.Resize.per_elements: unknown key",
        ),
        (
            'like = "3.0"',
            'like = "3.0"\nsoftware = 3',
            "generations.4.0.software: expected a table",
        ),
        ("[clocks]", "[clocks", "is not valid TOML"),
    ],
)
def test_a_faulty_file_names_the_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TOML
    with pytest.raises(FileError) as caught:
        from_text(tmp_path, TOML.replace(old, new, 1))
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "m.toml"))


@pytest.mark.parametrize("text", ["", "generations = 3", "pools = 3\n[generations]"])
def test_a_file_that_is_no_machine(tmp_path: Path, text: str) -> None:
    with pytest.raises(FileError):
        from_text(tmp_path, text)


def test_missing_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read"):
        load_machine(machine_file=tmp_path / "none.toml")
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="is not valid TOML"):
        load_machine(machine_file=tmp_path / "b.toml")


def test_machines_in_a_row_share_what_is_equal() -> None:
    machine = load_machine()
    faster = with_overrides(machine, {"clocks.npu_mhz": 900.0})
    reader = MachineReader()
    found = [reader.read(machine_text(one)) for one in (machine, faster, faster, machine)]
    assert found == [machine, faster, faster, machine]
    assert found[1].timing is found[0].timing
    assert found[1].clocks is not found[0].clocks


def test_versions_with_rows_of_their_own() -> None:
    rows = {name: load_machine(generation=name).generation for name in ("2.0", "2.1", "2.2")}

    def differ(one: str, other: str) -> set[str]:
        fields = rows[one].__struct_fields__
        return {f for f in fields if getattr(rows[one], f) != getattr(rows[other], f)}

    own = {"inflated_depth_16x8", "deep_from", "deep_weight_words", "relu_on_unit"}
    assert differ("2.1", "2.2") == {"name", "title"} | own
    assert differ("2.0", "2.1") == {"name", "title", "fuses_swish", "cut_keeps_units"}


def test_a_packaged_machine_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []
    read_table = load.read_table
    monkeypatch.setattr(load, "read_table", lambda path: reads.append(path) or read_table(path))
    for kept in (load._packaged_table, load._packaged_machine, generations):
        kept.cache_clear()
    for generation in ("2.2", "4.0"):
        load_machine(generation=generation, overrides={"clock_mode": "nominal"})
    assert generations() and set_ups("stm32n6", "flash")
    assert reads == [packaged("stm32n6")]
