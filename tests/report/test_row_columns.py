"""One network in the tables of four verbs: the same figures, in columns of one meaning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import npuscope
from models import mobilenet_like, save, to_tflite
from npuscope.advice.compare.machines import MachineRow, of_models, on_machines
from npuscope.advice.network_row import NetworkRow, stored_row
from npuscope.cli.main import main
from npuscope.report.row_columns import COLUMNS, extent, row_cells

SHIPPED = (
    *("machine", "family", "total_ms", "interval_ms", "ram_bytes", "flash_bytes", "off_npu"),
    *("reason", "change", "gain_ms", "is_bound", "error", "model"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows")
    save(path, "a.tflite", to_tflite(mobilenet_like()))
    save(path, "b.tflite", to_tflite(mobilenet_like(seed=1, size=20)))
    (path / "s.toml").write_text('models = ["a.tflite"]\n')
    return path


def printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_four_verbs_have_the_same_figures(folder: Path) -> None:
    model = str(folder / "a.tflite")
    several = of_models([model, str(folder / "b.tflite")], {"machine": "stm32n6"})
    (swept,) = npuscope.sweep(folder / "s.toml", jobs=1).rows
    tuned = npuscope.tune(model, jobs=1).start
    assert tuned is not None
    rows = [several.rows[0], *on_machines(model, ["stm32n6"], {}, "a").rows]
    rows += [stored_row(swept), tuned]
    assert all(isinstance(row, NetworkRow) for row in rows)
    assert {row.machine for row in rows} == {"stm32n6"}
    cells = {tuple(row_cells(row, tuple(COLUMNS)[:-1])) for row in rows}
    assert len(cells) == 1
    assert rows[0].off_npu == 1
    assert rows[0].ram_bytes == rows[0].internal_ram_bytes != 0


def test_keys_that_were_shipped_stay(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(folder / "a.tflite")
    several = printed(["estimate", model, str(folder / "b.tflite")], capsys)["models"]
    machines = printed(["compare", model, "--machines", "stm32n6"], capsys)["machines"]
    for row in (*several, *machines):
        assert {*SHIPPED} <= {*row}
        assert row["ram_bytes"] == row["internal_ram_bytes"] + row["external_ram_bytes"]
        assert row["flash_bytes"] == row["weights_bytes"] > 0


def test_what_is_not_known_is_a_dash() -> None:
    row = MachineRow(machine="m", family="f")
    assert row_cells(row, tuple(COLUMNS)) == ["not known", *["-"] * (len(COLUMNS) - 1)]
    assert extent(NetworkRow(interval_ms=(1.5, None))) == "at least 1.500"
