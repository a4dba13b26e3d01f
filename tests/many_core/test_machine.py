"""The many-core machine: its TOML, what-if values, and what it says of an op."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import npuscope.families.many_core
from npuscope.errors import FileError, UsageError
from npuscope.families.many_core.layout import Engine
from npuscope.families.many_core.machine import known_core_machines, load_core_machine

TOML = Path(npuscope.families.many_core.__file__).parent / "cloudai100.toml"


def test_the_packaged_machine_has_the_known_engines() -> None:
    machine = load_core_machine()
    assert known_core_machines() == ("cloudai100",)
    assert machine.cores.count == 16 and machine.memory.vtcm_bytes == 8 << 20
    assert [thread.engine for thread in machine.threads()] == [Engine.HVX] * 4 + [
        Engine.HMX,
        Engine.DMA,
    ]
    assert [group.threads for group in machine.groups()] == [(0, 1, 2, 3), (4,), (5,)]


def test_every_number_has_its_source() -> None:
    lines = TOML.read_text(encoding="utf-8").splitlines()
    source = re.compile(r"\[(docs|seen|fit|derived|guess)(; \w+)?\]")
    for number, line in enumerate(lines):
        if not re.match(r"\w+ = [\d\[]", line):
            continue
        near = " ".join(lines[max(number - 3, 0) : number + 1])
        table = next(one for one in reversed(lines[:number]) if one.startswith("["))
        assert source.search(line) or source.search(near) or source.search(table), line


def test_products_cost_their_multiplications_other_ops_their_output() -> None:
    machine = load_core_machine()
    assert machine.pcycles("aicconvolutiond32", 128 * 3, 4096 * 10, "float16") == 10 + 3
    assert machine.pcycles("aicconvolutiond32", 128 * 3, 8192 * 10, "int8") == 10 + 3
    # One row takes as long as 64, 65 rows as long as 128.
    assert machine.pcycles("aicconvolutiond32", 0, 4096, "float16", (1, 32)) == 64
    assert machine.pcycles("aicconvolutiond32", 0, 4096 * 65, "float16", (5, 13, 32)) == 128
    assert machine.pcycles("aicconvolutiond32", 2048) == pytest.approx(59.4)
    assert machine.pcycles("aicsoftmax", 2048) == pytest.approx(491.8)
    assert machine.rate("aicunheardof") == machine.pcycles_per_kb["default"]


def test_rates_of_transfers_come_from_ticks_a_kb() -> None:
    machine = load_core_machine()
    assert machine.ddr_bytes_per_s() == pytest.approx(19_200_000 * 1024 / 0.753)
    assert machine.multicast_bytes_per_s() == pytest.approx(19_200_000 * 1024 / 0.20)


def test_single_values_can_be_replaced() -> None:
    machine = load_core_machine(overrides={"clocks.core_mhz": 1000, "machine.cores.count": 14})
    assert machine.core_hz == 1_000_000_000
    assert machine.cores.count == 14
    assert load_core_machine().cores.count == 16


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        ({"clocks.core_mhzz": 1}, "--set: the machine has no key 'clocks.core_mhzz'"),
        ({"cores.count": 0}, "--set cores.count: must be above 0, found 0"),
        ({"cores.count": 33}, "--set cores.count: must be at most 32, found 33"),
        ({"clocks.core_mhz": "fast"}, "--set clocks.core_mhz: expected a number, found 'fast'"),
        (
            {"cores.hmx_thread": 3},
            "--set cores.hvx_threads: expected different thread numbers, 0 or higher",
        ),
        ({"clocks.dvfs_steps": []}, "--set clocks.dvfs_steps: needs at least one step"),
        ({"name": "x"}, "--set: the machine has no key 'name'"),
    ],
)
def test_wrong_what_ifs_are_usage_errors(overrides: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_core_machine(overrides=overrides)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("core_mhz = 1284.0", "core_mhz = true", "clocks.core_mhz: expected a number, found true"),
        ("core_mhz = 1284.0", "clock = 1284.0", "clocks.clock: unknown key"),
        ("l2_bytes = 1048576", "", "memory.l2_bytes: this key is missing"),
        ("default = 40.0", "", "pcycles_per_kb.default: this key is missing"),
        ("sigmoid = ", "elementsigmoid = ", "pcycles_per_kb.elementsigmoid: no op has this name"),
        ("vtcm_bytes = 8388608", "vtcm_bytes = -1", "memory.vtcm_bytes: must be above 0"),
        ("[cores]", "[cores", "is not valid TOML"),
    ],
)
def test_faults_of_a_file_name_their_place(tmp_path: Path, old: str, new: str, text: str) -> None:
    path = tmp_path / "my.toml"
    path.write_text(TOML.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(FileError) as caught:
        load_core_machine(machine_file=path)
    assert str(caught.value).startswith(f"{path}: {text}")


def test_names_that_nobody_knows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown machine 'x'"):
        load_core_machine("x")
    with pytest.raises(FileError, match="cannot be read"):
        load_core_machine(machine_file=tmp_path / "none.toml")
