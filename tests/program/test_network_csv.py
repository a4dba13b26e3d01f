"""network.csv: every number of the public one, our own and back, damaged ones."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from msgspec import Struct
from msgspec.structs import astuple

from compiler.nets import compiled
from npuscope.demo_network import demo_graph
from npuscope.errors import FileError
from npuscope.machine.load import load_machine
from npuscope.program.model import EpochKind, Pool, Program
from npuscope.program.network_csv import (
    NetworkCsv,
    StatedPoolUse,
    network_csv_text,
    read_network_csv,
)
from npuscope.program.units import Streng
from npuscope.structs import replace
from program.c_info.small import ARTEFACTS
from program.sample import sample

MACHINE = load_machine()


def read_back(program: Program, folder: Path) -> NetworkCsv:
    path = folder / "network.csv"
    path.write_text(network_csv_text(program, MACHINE), encoding="utf-8")
    return read_network_csv(path)


def leaves(value: object) -> list[object]:
    if isinstance(value, Struct):
        value = astuple(value)
    if isinstance(value, tuple):
        return [leaf for entry in value for leaf in leaves(entry)]
    return [value]


def test_every_number_of_the_public_file() -> None:
    """Cells as often as they occur; numbers inside names ("npuRAM6") stay in the names."""
    files = sorted(ARTEFACTS.rglob("network.csv"))
    if not files:
        pytest.skip("the public builds are not on this machine")
    (file,) = files
    table = read_network_csv(file)
    cells = [cell.strip() for line in file.read_text().splitlines() for cell in line.split(",")]
    texts = [re.sub(r" (MB|KB|B)$", "", cell) for cell in cells]
    in_file = Counter(float(text) for text in texts if re.fullmatch(r"[-\d.e+]+", text))
    read = [leaf for leaf in leaves(table) if isinstance(leaf, int | float)]
    ports = len(table.epochs) * 2  # a port's number is in its header only
    assert in_file - Counter(map(float, read)) == Counter()
    assert sum(in_file.values()) == len(read) - ports
    keys = {leaf for leaf in leaves(table) if isinstance(leaf, str)}
    assert {"npuRAM6", "octoFlash", "Frames/sec(1000 MHz)", "TOPS/W"} <= keys


def test_the_public_file_adds_up() -> None:
    files = sorted(ARTEFACTS.rglob("network.csv"))
    if not files:
        pytest.skip("the public builds are not on this machine")
    table = read_network_csv(files[0])
    figures = dict(table.summary)
    # The vendor seems to add in single precision.
    for column, figure in (
        ("max_cycles", "Total cycles"),
        ("compute_cycles", "Total ideal cycles"),
        ("ops", "Total OPS"),
    ):
        total = sum(getattr(row, column) for row in table.epochs)
        assert total == pytest.approx(figures[figure], rel=1e-5)
    for place, total in enumerate(table.totals):
        assert sum(row.pools[place].total_bytes for row in table.epochs) == total.total_bytes


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
def test_claims_come_back(generation: str, tmp_path: Path) -> None:
    program = compiled(demo_graph(), generation)
    rows = {row.number: row for row in read_back(program, tmp_path).epochs}
    assert sorted(rows) == list(range(program.epochs[-1].number + 2))
    for epoch in program.epochs:
        row, claims = rows[epoch.number], epoch.claims
        assert (row.ops, row.compute_cycles, row.max_cycles) == (
            claims.ops,
            claims.compute_cycles,
            claims.max_cycles,
        )
        found = {p.pool: p for p in row.pools if p.total_bytes}
        assert set(found) == {access.pool for access in claims.accesses}
        for access in claims.accesses:
            pool = found[access.pool]
            assert (pool.read_bytes, pool.write_bytes) == (access.reads, access.writes)
            assert (pool.read_cycles, pool.write_cycles) == (
                access.read_cycles,
                access.write_cycles,
            )


def test_bus_ports_carry_what_their_engines_move(tmp_path: Path) -> None:
    program = compiled(demo_graph())
    rows = {row.number: row for row in read_back(program, tmp_path).epochs}
    for epoch in program.epochs:
        engines = [unit for unit in epoch.units if isinstance(unit, Streng)]
        for port in rows[epoch.number].ports:
            mine = [e for e in engines if e.id // 5 == port.port]
            assert port.read_bytes == sum(e.total_bytes for e in mine if not e.dir)
            assert port.write_bytes == sum(e.total_bytes for e in mine if e.dir)


def test_sums_and_shares(tmp_path: Path) -> None:
    program = compiled(demo_graph())
    table = read_back(program, tmp_path)
    total = sum(epoch.claims.max_cycles for epoch in program.epochs)
    figures = dict(table.summary)
    assert figures["Total cycles"] == total
    assert figures["Frames/sec(1000 MHz)"] == pytest.approx(1e9 / total, rel=1e-5)
    for share in ("ops_share", "compute_share", "max_share", "memory_power_share"):
        assert sum(getattr(row, share) for row in table.epochs) == pytest.approx(1, rel=1e-4)
    moved = {t.pool: t.total_bytes for t in table.totals}
    rates = {t.pool: t.total_bytes for t in table.bandwidths}
    assert rates["npuRAM5"] == pytest.approx(moved["npuRAM5"] * 1e9 / total, rel=1e-5)
    used = {use.pool: use for use in table.uses}
    assert used["npuRAM5"].unit == "KB" and used["npuRAM3"] == StatedPoolUse("npuRAM3")


def test_programs_without_registers_or_epochs(tmp_path: Path) -> None:
    epochs = tuple(replace(epoch, groups=None) for epoch in sample().epochs)
    table = read_back(replace(sample(), epochs=epochs), tmp_path)
    assert all(port.read_bytes == 0 for row in table.epochs for port in row.ports)
    empty = read_back(replace(sample(), epochs=()), tmp_path)
    assert [row.number for row in empty.epochs] == [0, 1]
    assert dict(empty.summary)["Frames/sec(1000 MHz)"] == 0


def test_software_epochs_have_no_memory_power(tmp_path: Path) -> None:
    program = compiled(demo_graph(), "4.0")
    rows = {row.number: row for row in read_back(program, tmp_path).epochs}
    software = [epoch for epoch in program.epochs if epoch.kind is EpochKind.SW]
    assert software and all(rows[e.number].memory_power_mw == 0 for e in software)


@pytest.mark.parametrize("name", ["a,b", "=1+1", "two\nlines", " x ", "@cmd"])
def test_names_of_pools_stay_in_their_cell(name: str, tmp_path: Path) -> None:
    pool = Pool(name, 0, 64, 8, 1.0, used_bytes=8)
    table = read_back(replace(sample(), pools=(*sample().pools, pool)), tmp_path)
    assert not table.uses[-1].pool.startswith(("=", "@")) and "," not in table.uses[-1].pool
    assert len(table.uses) == 3


@pytest.mark.parametrize(
    ("old", "new", "message", "line"),
    [
        ("epochs,", "epoch,", "column 1: expected 'epochs', found 'epoch'", 1),
        ("epoch OPS,", "", "column 18: expected 'epoch OPS', found 'epoch OPS vs total %'", 1),
        (",epoch average memory power vs Tot %", "", None, 1),
        ("\n1 ,128", "\n1 ,many", "expected a number, found 'many'", 3),
        ("\n1 ,128,", "\n1 ,", "expected 27 cells, found 26", 3),
        ("\n1 ,", "\n1.5,", "expected an epoch number, found '1.5'", 3),
        ("\nBW,", "\nBWX,", "expected the rows 'Total' and 'BW' after the epochs", None),
        ("total bytes r/w BW", "bytes", "expected a pool, its used bytes and its bandwidth", None),
        ("TOPS/W,", "TOPS/W,nan", "expected a number, found 'nan'", None),
        ("TOPS/W,", "TOPS/W,1e999", "1e999 is not a finite number", None),
        ("TOPS/W,", "TOPS/W", "expected a name and a number, found 1 cells", None),
    ],
)
def test_what_is_wrong_is_named(old, new, message, line, tmp_path: Path) -> None:
    path = tmp_path / "network.csv"
    text = network_csv_text(sample(), MACHINE)
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(FileError) as caught:
        read_network_csv(path)
    assert message in (None, caught.value.message)
    assert line is None or caught.value.where == f"{path}:{line}"


def test_damaged_files(tmp_path: Path) -> None:
    data = network_csv_text(sample(), MACHINE).encode()
    path = tmp_path / "network.csv"
    random = np.random.default_rng(4)
    outcomes = Counter()
    for end in range(0, len(data), 3):
        path.write_bytes(data[:end])
        outcomes[readable(path)] += 1
    for _ in range(500):
        broken = bytearray(data)
        broken[int(random.integers(len(data)))] ^= 1 << int(random.integers(8))
        path.write_bytes(broken)
        outcomes[readable(path)] += 1
    assert outcomes[True] and outcomes[False]


def readable(path: Path) -> bool:
    try:
        read_network_csv(path)
    except FileError:
        return False
    return True


@pytest.mark.parametrize("text", ["", "\n", ",", "epochs", "a (r)," * 5000, "9" * 5000])
def test_not_a_table(text: str, tmp_path: Path) -> None:
    path = tmp_path / "network.csv"
    path.write_text(text)
    with pytest.raises(FileError):
        read_network_csv(path)
