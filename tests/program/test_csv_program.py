"""An estimate from network.csv alone, and what a generate report is good for."""

from __future__ import annotations

from pathlib import Path

import pytest

import npuscope
from npuscope.building import build
from npuscope.demo_network import demo_graph
from npuscope.errors import FileError
from npuscope.program.model import EpochKind
from npuscope.program.network_csv import network_csv_text
from npuscope.program.sources import read_program


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = build(demo_graph(), {})
    path = tmp_path_factory.mktemp("csv") / "network.csv"
    path.write_text(network_csv_text(made.program, made.machine))
    return path


def test_epochs_and_sizes_are_those_of_the_table(table: Path) -> None:
    made = build(demo_graph(), {})
    program = read_program(table)
    assert (program.source, program.generation) == ("network.csv", "4.0")
    stated = {e.number: e.claims.compute_cycles for e in program.executed}
    own = {e.number: e.claims.compute_cycles for e in made.program.executed}
    assert all(stated[number] == own[number] for number in stated)
    used = {pool.name: pool.used_bytes for pool in made.program.pools if not pool.virtual}
    for pool in program.pools:
        assert pool.used_bytes == pytest.approx(used[pool.name], rel=0.02, abs=16)


def test_the_time_is_near_that_of_the_registers(table: Path) -> None:
    """Operators, and with them the kernels of the CPU, are not in the table."""
    made = npuscope.estimate(demo_graph())
    found = npuscope.estimate(table)
    npu = made.total_ms - made.time.software_ms
    assert found.total_ms == pytest.approx(npu, rel=0.25)
    assert found.interval_ms[1] > 1.6 * found.total_ms
    weights = made.memory.weights_bytes  # the table counts biases and tables with them
    assert weights <= found.memory.weights_bytes <= 1.2 * weights
    assert any("network.csv alone" in note for note in found.notes)


def test_rows_without_figures_do_nothing(table: Path) -> None:
    program = read_program(table)
    idle = [e for e in program.epochs if e.kind is EpochKind.EMPTY]
    assert all(not e.claims.accesses and not e.claims.compute_cycles for e in idle)


def test_another_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(FileError, match="neither a model nor a compiled program"):
        npuscope.estimate(path)


def test_a_generate_report_gives_a_floor(tmp_path: Path) -> None:
    npuscope.compile(demo_graph(), tmp_path / "net")
    (report,) = (tmp_path / "net").glob("*_generate_report.txt")
    stated = r"states no times: \d+ epochs and [\d,]+ bytes of weights take .* at least"
    with pytest.raises(FileError, match=f"{stated} with flash octo-dtr-200"):
        npuscope.estimate(report)
    with pytest.raises(FileError, match=stated) as told:
        npuscope.estimate(report, board="nucleo-n657x0-q")
    assert "with flash" not in told.value.message
