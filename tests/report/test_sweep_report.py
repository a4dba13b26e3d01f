"""A sweep as text, tables and page: the answer first, every run once, names that run nothing."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from advice.sweep.samples import failed, row
from npuscope.advice.sweep.drive import Sweep
from npuscope.advice.sweep.summary import summarise
from npuscope.errors import UsageError
from npuscope.profiling.ranges import coverage_of_all
from npuscope.report import sweep as sweep_table
from npuscope.report.html.sweep import sweep_page
from npuscope.report.sweep import (
    counts_json,
    flat,
    report_json,
    report_text,
    sweep_csv,
    sweep_parquet,
    sweep_text,
)

ROWS = [
    row("1", "nets/a.tflite", total_ms=2.0),
    row("2", "nets/a.tflite", total_ms=3.0, pools="small", internal_ram_bytes=1024),
    row("3", "nets/b.tflite", total_ms=12.5, low_ms=11.0, high_ms=14.0, internal_ram_bytes=1 << 21),
    failed("4", model="nets/b.tflite", pools="small"),
    failed("5", model="nets/c.tflite"),
    failed("6", model="nets/c.tflite", pools="small"),
]
TEXT = f"""\
6 runs of 3 models in 2 configurations: 3 done, 3 failed; 2 on the front of latency and RAM
store    s.jsonl
times    predicted, each with its range; {coverage_of_all()}

Best run of every model, the fastest first
  model          ms             range    internal    external       flash  with
  a.tflite    2.000    1.800 to 2.200     4.0 KiB         0 B      1000 B  stm32n6 4.0
  b.tflite    12.50    11.00 to 14.00    2.00 MiB         0 B      1000 B  stm32n6 4.0
  c.tflite        -  all 2 runs failed

Configurations; `to best` is the mean latency against the best run of the same model
  configuration              done  failed  to best
  stm32n6 4.0                   2       1   1.000x
  stm32n6 4.0, pools small      1       2   1.500x

Front: runs that no other beats in both latency and internal RAM
      1.0 KiB     3.000 ms  a.tflite
      4.0 KiB     2.000 ms  a.tflite

Models with a choice: less RAM or less time
  a.tflite
        1.0 KiB     3.000 ms  stm32n6 4.0, pools small
        4.0 KiB     2.000 ms  stm32n6 4.0

failed   3 runs
  b.tflite: no room
    with stm32n6 4.0, pools small
  c.tflite: no room
    with stm32n6 4.0; stm32n6 4.0, pools small
"""


def test_the_report_in_text() -> None:
    assert report_text(summarise(ROWS), "s.jsonl") == TEXT


def test_the_answer_of_a_sweep() -> None:
    rows = (ROWS[0], ROWS[4])
    found = Sweep(Path("s.jsonl"), 2, 1, 1, new=1, same=3, seconds=1.26, rows=rows)
    assert sweep_text(found).splitlines() == [
        "2 runs: 1 done, 1 failed; 1 new, in 1.3 s",
        "store    s.jsonl",
        "before   1 run found in the store and not repeated",
        "same     3 combinations left out, equal to another run",
        "failed   1 run",
        "  c.tflite: no room",
        "    with stm32n6 4.0",
        "next     npuscope sweep report s.jsonl",
    ]


def test_many_failures_are_counted() -> None:
    rows = [failed(str(n), f"fault {n}", model="m") for n in range(23)]
    assert report_text(summarise(rows), "s").splitlines()[-1] == "  and 3 more kinds"


def test_json_names_runs_by_key() -> None:
    found = report_json(summarise(ROWS), Path("s.jsonl"))
    head = {"schema": "npuscope/sweep/1", "runs": 6, "done": 3, "failed": 3, "store": "s.jsonl"}
    assert {name: found[name] for name in head} == head == counts_json(ROWS, Path("s.jsonl"))
    assert found["models"][0] == {
        "name": "nets/a.tflite", "runs": 2, "failed": 0, "best": "1", "front": ["2", "1"]
    }  # fmt: skip
    assert found["models"][-1]["best"] is None
    assert found["front"] == ["2", "1"]
    assert json.loads(json.dumps(found["rows"])) == ROWS


def test_csv_has_a_line_a_run_and_a_cell_a_figure() -> None:
    pinned = row(
        "7", "=evil()", shapes={"x": [1, 2]}, notes=["a", "b"], epochs_sw=1, optimization=1
    )
    lines = list(csv.DictReader(io.StringIO(sweep_csv([*ROWS, pinned]))))
    assert [line["key"] for line in lines] == list("1234567")
    assert lines[0]["epoch_controller"] == "true"
    assert (lines[0]["total_ms"], lines[3]["total_ms"]) == ("2.0", "")
    assert (lines[3]["error_kind"], lines[3]["error_message"]) == ("target", "no room")
    assert (lines[6]["epochs_sw"], lines[6]["optimization"]) == ("1", "1")
    assert lines[6]["model"] == "'=evil()"
    assert (lines[6]["shapes"], lines[6]["notes"]) == ("{'x': [1; 2]}".replace("'", '"'), "a; b")


def test_parquet_keeps_values_and_types() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    odd = row("7", "bad\udcff.tflite")
    table = parquet.read_table(pyarrow.BufferReader(sweep_parquet([*ROWS, odd])))
    assert table.num_rows == 7
    found = table.to_pylist()
    for line, one in zip(found, ROWS, strict=False):
        assert {name: line[name] for name in flat(one)} == flat(one)
    assert found[6]["model"] == "bad\\udcff.tflite"
    kinds = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert kinds["total_ms"] == "double"
    assert kinds["internal_ram_bytes"] == kinds["optimization"] == "int64"
    assert kinds["epoch_controller"] == "bool"
    assert kinds["input_data_type"] == "string"


def test_parquet_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_table, "find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        sweep_parquet(ROWS)
    assert str(caught.value) == (
        "--parquet: Parquet needs the package pyarrow\n  hint: pip install 'npuscope[sweep]'"
    )


def test_the_page_holds_every_run_and_no_foreign_markup() -> None:
    evil = "</script><img src=x onerror=alert(1)>.tflite"
    page = sweep_page(summarise([*ROWS, row("7", evil), failed("8", evil, model=evil)]), "s.jsonl")
    assert evil not in page and "<img" not in page
    assert page.count('"model":') == 4
