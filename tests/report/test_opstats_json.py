"""Tables of stats buffers as JSON."""

from __future__ import annotations

import json

from many_core.samples import layout, stats
from npuscope.families.many_core.adapters.model import Sheet, SheetOp
from npuscope.families.many_core.opstats.tables import opstats_of
from npuscope.families.many_core.report.opstats_json import opstats_json
from npuscope.profiling.model import Provenance


def test_the_keys_that_others_rely_on() -> None:
    tables = [opstats_of(stats(inference=number)) for number in (3, 4)]
    result = opstats_json(tables, {tables[0].name: ["a.txt"]})
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["schema"] == "npuscope/opstats/1"
    assert (result["level"], result["cores"]) == (100, [0, 1])
    assert [b["inference"] for b in result["buffers"]] == [3, 4]
    assert result["buffers"][0]["files"] == ["a.txt"]
    assert result["totals"]["ucycles_mean"] == tables[0].totals.ucycles


def test_ops_are_added_up_over_cores_and_buffers() -> None:
    tables = [opstats_of(stats(inference=number)) for number in (3, 4)]
    result = opstats_json(tables)
    (softmax,) = (op for op in result["ops"] if op["details"].startswith("aicsoftmax"))
    assert (softmax["count"], softmax["ucycles"]) == (4, 4 * 123)
    assert softmax["ucycles_per_kb"] == 123 / 16
    single = [op for op in result["buffers"][0]["ops"] if op["details"].startswith("aicsoftmax")]
    assert [(op["core"], op["ucycles"]) for op in single] == [(0, 123), (1, 123)]
    assert single[0]["ucycles_share"] == 123 / 519
    ticks = [op["ucycles"] for op in result["ops"]]
    assert ticks == sorted(ticks, reverse=True)


def test_threads_say_where_their_time_went() -> None:
    result = opstats_json([opstats_of(stats())])
    for thread in result["buffers"][0]["cores"][1]["threads"]:
        parts = (thread["busy_ucycles"], thread["wait_ucycles"], thread["idle_ucycles"])
        assert sum(parts) == thread["ucycles"]


def test_what_was_not_collected_is_null_or_empty() -> None:
    result = opstats_json([opstats_of(stats(layout(level=40, ddr=False)))])
    (buffer,) = result["buffers"]
    assert (buffer["ops"], buffer["cores"][0]["ports"], buffer["cores"][0]["ddr"]) == ([], [], None)
    assert buffer["cores"][0]["threads"][0]["utilization"] is None
    assert buffer["totals"]["max_input_wait_ucycles"] is None
    assert any("-stats-level=70" in note for note in buffer["notes"])


def test_programs_without_times_are_inventories() -> None:
    row = SheetOp(2, "HVX", "elementadd", "TCM", ("i8",), "", 7, None, out_bytes=64)
    sheet = Sheet("qaic-desc", "p.bin", "net", Provenance.VENDOR_FILE, (row,))
    result = opstats_json([], None, [sheet])
    assert (result["level"], result["buffers"]) == (None, [])
    (found,) = result["inventories"][0]["ops"]
    assert found == {
        "core": 2,
        "details": "elementadd HVX TCM (i8)",
        "count": 7,
        "out_bytes": 64,
    }
