"""docs/sweep.md says what sweep files may say and what rows hold."""

from __future__ import annotations

import json
import re
from pathlib import Path

from msgspec.structs import fields

from advice.sweep.samples import row, runs_of, small_sweep, spec_file
from models import conv_net, save, to_tflite
from npuscope.advice.sweep import spec
from npuscope.advice.sweep.one_run import failed_row, run_json
from npuscope.advice.sweep.spec import read_spec
from npuscope.errors import ModelError

PAGE = (Path(__file__).parents[3] / "docs" / "sweep.md").read_text(encoding="utf-8")


def first_column(heading: str) -> set[str]:
    """Names in the first cells of the table under a heading line."""
    table = PAGE.partition(heading)[2].partition("\n\n")[0]
    cells = (line.split("|")[1] for line in table.splitlines()[2:])
    return {name for cell in cells for name in re.findall(r"`\[*(\w+)\]*`", cell)}


def test_the_example_is_a_sweep_file(tmp_path: Path) -> None:
    (tmp_path / "nets").mkdir()
    for name in ("kws.tflite", "open.onnx", "nets/a.onnx"):
        save(tmp_path, name, to_tflite(conv_net()))
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    found = read_spec(spec_file(tmp_path, example))
    assert found.size == 3 * 2 * 3 * 1
    assert [choice.name for choice in found.pools] == ["default", "no external RAM", "my_board"]


def test_every_key_is_on_the_page() -> None:
    assert first_column("| key | means | default |") == {
        key.name for key in fields(spec._SweepFile)
    }


def test_every_column_is_on_the_page(tmp_path: Path) -> None:
    (run, *_) = runs_of(small_sweep(tmp_path, "findings = true"))
    done = json.loads(run_json(run.task(with_path=True)))
    failed = failed_row(run.head(), ModelError("x"))
    assert first_column("| columns of a row | |") == {*done, *failed} - {"schema"}
    assert set(row("1")) <= set(done)
