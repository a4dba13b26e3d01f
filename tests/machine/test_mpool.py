from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from npuscope.errors import FileError
from npuscope.machine.load import load_machine
from npuscope.machine.model import MemoryPool, secure_alias
from npuscope.machine.mpool import (
    apply_mpool,
    mpool_text,
    read_mpool,
    read_mpool_file,
    with_non_secure_pools,
)
from npuscope.structs import replace

MACHINE = load_machine()


def entry(pool: MemoryPool, *, saved: bool = False, **changes: Any) -> dict[str, Any]:
    """A pool in the spelling people write, or in that of the compiler's own copy."""
    power = ("readPower", "writePower") if saved else ("read_power", "write_power")
    preferred: dict[str, Any] = {"constants_preferred": "true"} if pool.constants_preferred else {}
    if saved:
        preferred = {"constantsPreferred": pool.constants_preferred}
    whole_kib = saved and pool.address % 1024 == 0
    offset = (
        {"value": str(pool.address // 1024), "magnitude": "KBYTES"}
        if whole_kib
        else {"value": hex(pool.address), "magnitude": "BYTES"}
    )
    return {
        "fname": pool.file,
        "name": pool.name,
        "fformat": "FORMAT_RAW",
        "prop": {
            "rights": "ACC_WRITE" if pool.writable else "ACC_READ",
            "byteWidth": pool.byte_width,
            "freqRatio": pool.freq_ratio,
            "cacheable": "CACHEABLE_ON" if pool.cacheable else "CACHEABLE_OFF",
            power[0]: pool.read_power_mw,
            power[1]: pool.write_power_mw,
            **preferred,
        },
        "offset": offset,
        "size": {"value": str(pool.size_bytes // 1024), "magnitude": "KBYTES"},
    } | changes


def write(path: Path, entries: list[dict[str, Any]], **memory: Any) -> Path:
    path.write_text(json.dumps({"memory": {"mempools": entries, **memory}}), encoding="utf-8")
    return path


@pytest.mark.parametrize("saved", [False, True])
def test_the_machines_own_pools_come_back(tmp_path: Path, saved: bool) -> None:
    entries = [entry(pool, saved=saved) for pool in MACHINE.pools]
    path = write(tmp_path / "a.mpool", entries)
    assert read_mpool(path) == MACHINE.pools
    assert apply_mpool(MACHINE, path) == MACHINE


def test_the_compilers_pseudo_pool_is_no_memory(tmp_path: Path) -> None:
    huge = entry(
        replace(MACHINE.pools[0], name="ec params pool"),
        size={"value": "9223372036854775776", "magnitude": "BYTES"},
    )
    path = write(tmp_path / "a.mpool", [entry(MACHINE.pools[2]), huge])
    assert [pool.name for pool in read_mpool(path)] == ["cpuRAM2"]


@pytest.mark.parametrize(
    ("address", "road", "score"),
    [
        (0x34000000, "noc", 84),
        (0x340F0000, "noc", 84),
        (0x341FFFFF, "noc", 84),
        (0x34200000, "nic", 94),
        (0x343BFFFF, "nic", 94),
        (0x343C0000, "noc", 84),
        (0x70180000, "xspi2", 50),
        (0x90000000, "xspi1", 82),
    ],
)
def test_the_address_says_how_a_pool_is_reached(
    tmp_path: Path, address: int, road: str, score: int
) -> None:
    pool = replace(MACHINE.pools[2], name="mine", address=address)
    (read,) = read_mpool(write(tmp_path / "a.mpool", [entry(pool)]))
    assert (read.path, read.score) == (road, score)


def test_the_name_decides_the_score_first(tmp_path: Path) -> None:
    moved = replace(MACHINE.memory("hyperRAM"), address=0x34200000)
    (read,) = read_mpool(write(tmp_path / "a.mpool", [entry(moved)]))
    assert (read.path, read.score) == ("nic", 82)


def test_an_unknown_window_is_noted(tmp_path: Path) -> None:
    pool = replace(MACHINE.pools[2], name="sdram", address=0xC0000000)
    path = write(tmp_path / "a.mpool", [entry(pool)])
    (note,) = read_mpool_file(path, MACHINE).notes
    assert "pool 'sdram' at 0xc0000000 is not in any memory window of stm32n6" in note


def test_initialisers_that_are_not_raw_are_noted(tmp_path: Path) -> None:
    entries = [entry(MACHINE.pools[n]) | {"fformat": "FORMAT_IHEX"} for n in (2, 3)]
    (note,) = read_mpool_file(write(tmp_path / "a.mpool", entries), MACHINE).notes
    assert f"FORMAT_IHEX of {MACHINE.pools[2].name}, {MACHINE.pools[3].name}:" in note
    assert '"fformat": "FORMAT_RAW"' in note


def test_merged_banks_take_part_in_placement(tmp_path: Path) -> None:
    merged = replace(MACHINE.memory("npuRAM3"), name="npuRAMs", size_bytes=1792 * 1024)
    path = write(tmp_path / "a.mpool", [entry(MACHINE.memory("cpuRAM2")), entry(merged)])
    placement = apply_mpool(MACHINE, path).placement
    assert placement.bank_order == ("npuRAMs",)
    assert placement.virtual_pool == ("cpuRAM2", "npuRAMs")


def test_cache_size(tmp_path: Path) -> None:
    cache = [{"nlines": 256, "linesize": 64, "associativity": 8}]
    path = write(tmp_path / "a.mpool", [entry(MACHINE.pools[2])], cacheinfo=cache)
    assert apply_mpool(MACHINE, path).cache.size_bytes == 128 * 1024


def test_slips_are_mended_and_noted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = json.dumps({"memory": {"mempools": [entry(MACHINE.memory("cpuRAM2"))]}}, indent=1)
    text = whole.replace('"magnitude": "KBYTES"', ' magnitude": "KBYTES",', 1)
    text = text.replace('"fname"', '// the bank\n "fname"', 1)
    path = tmp_path / "a.mpool"
    path.write_text(text, encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert read_mpool(path) == (MACHINE.memory("cpuRAM2"),)
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "a comment is not JSON; repaired while reading",
        "the key 'magnitude' lacks a quote; repaired while reading",
        "a comma before a closing bracket; repaired while reading",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"memory": {"mempools": [}', "is not valid JSON: Expecting value at offset 25"),
        ("", "is not valid JSON: Expecting value at offset 0"),
        ("[]", "$: expected an object, found a list"),
        ('{"memory": {"mempools": []}}', "$.memory: 'mempools' has no pool"),
        ('{"memory": {"mempools": [3]}}', "$.memory.mempools[0]: expected an object, found 3"),
        ("[" * 100_000, "is not valid JSON: "),
    ],
)
def test_unusable_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.mpool"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileError) as caught:
        read_mpool(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": {"value": "x", "magnitude": "BYTES"}}, ".size.value: expected a whole number"),
        ({"size": {"value": "1", "magnitude": "PAGES"}}, ".size: unknown magnitude 'PAGES'"),
        ({"size": {"magnitude": "BYTES"}}, ".size.value: this key is missing"),
        ({"name": 3}, ".name: expected text, found 3"),
        ({"prop": {"rights": "ACC_WRITE"}}, ".prop.byteWidth: this key is missing"),
    ],
)
def test_a_wrong_value_names_its_path(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = write(tmp_path / "a.mpool", [entry(MACHINE.pools[2], **changes)])
    with pytest.raises(FileError) as caught:
        read_mpool(path)
    assert f"$.memory.mempools[0]{message}" in str(caught.value)


def test_values_that_no_machine_can_have(tmp_path: Path) -> None:
    pool = replace(MACHINE.pools[2], byte_width=0)
    path = write(tmp_path / "a.mpool", [entry(pool)])
    with pytest.raises(FileError, match=r"pools\.cpuRAM2\.byte_width: must be above 0"):
        apply_mpool(MACHINE, path)
    twice = write(tmp_path / "b.mpool", [entry(MACHINE.pools[2])] * 2)
    with pytest.raises(FileError, match="two pools have this name"):
        apply_mpool(MACHINE, twice)


def test_every_truncation_is_a_file_error(tmp_path: Path) -> None:
    text = write(tmp_path / "a.mpool", [entry(MACHINE.pools[2])]).read_text(encoding="utf-8")
    for end in range(len(text) - 1):
        (tmp_path / "cut.mpool").write_text(text[:end], encoding="utf-8")
        with pytest.raises(FileError):
            read_mpool(tmp_path / "cut.mpool", MACHINE)


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
def test_pools_are_written_as_they_are_read(generation: str, tmp_path: Path) -> None:
    machine = load_machine(generation=generation)
    path = tmp_path / "own.mpool"
    path.write_text(mpool_text(machine), encoding="utf-8")
    assert apply_mpool(machine, path) == machine
    odd = replace(machine.pools[2], size_bytes=1000)
    changed = machine.with_pools((odd, *machine.pools[3:]))
    path.write_text(mpool_text(changed), encoding="utf-8")
    assert read_mpool(path, machine) == changed.pools


def test_non_secure_addresses_are_the_same_memories(tmp_path: Path) -> None:
    """0x24... is 0x34... for code that is not secure: banks, roads and scores are the same."""
    machine = load_machine()
    moved = with_non_secure_pools(machine)
    path = tmp_path / "ns.mpool"
    path.write_text(mpool_text(moved), encoding="utf-8")
    read = apply_mpool(machine, path)
    assert [p.address >> 28 for p in read.pools if not p.cacheable] == [2] * sum(
        not p.cacheable for p in machine.pools
    )
    assert [(p.name, p.path, p.score) for p in read.pools] == [
        (p.name, p.path, p.score) for p in machine.pools
    ]
    # Under names of one's own the address alone tells the bank.
    renamed = mpool_text(moved).replace('"name": "npuRAM', '"name": "mine')
    path.write_text(renamed, encoding="utf-8")
    own = {p.address: p.path for p in machine.pools}
    for pool in apply_mpool(machine, path).pools:
        assert pool.path == own[secure_alias(pool.address)]
