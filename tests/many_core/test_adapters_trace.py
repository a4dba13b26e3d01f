"""The vendor's traces of both generations, and the reader of events that never holds a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from many_core.adapter_samples import newer_events, older_events, trace_text, written
from npuscope.errors import FileError
from npuscope.families.many_core.adapters import columns as json_events
from npuscope.families.many_core.adapters.columns import EventReader
from npuscope.families.many_core.adapters.model import Sheet, SheetOp
from npuscope.families.many_core.adapters.registry import find_adapter, read_sheet
from npuscope.families.many_core.adapters.tables import sheet_tables, sheet_trace
from npuscope.trace_model import check


def sheet(folder: Path, events: list[dict], **how: bool) -> Sheet:
    return read_sheet(written(folder / "t.trace.json", trace_text(events, **how)))


def row(found: Sheet, kind: str, core: int = 1) -> SheetOp:
    (hit,) = [row for row in found.ops if (row.kind, row.core) == (kind, core)]
    return hit


def test_an_op_of_the_newer_trace(tmp_path: Path) -> None:
    found = row(sheet(tmp_path, newer_events()), "aicsoftmax")
    assert (found.engine, found.memory, found.dtypes) == ("HVX", "TCM", ("i8", "float16"))
    assert (found.us, found.ucycles, found.pcycles, found.out_bytes) == (20, 384, 24_000, 2048)


def test_a_wait_is_told_by_its_argument(tmp_path: Path) -> None:
    found = row(sheet(tmp_path, newer_events()), "sync")
    assert (found.engine, found.us, found.count) == ("HVX", 8, 1)
    barrier = row(sheet(tmp_path, newer_events()), "barrier")
    assert (barrier.engine, barrier.us) == ("HVX", 0.5)


def test_a_transfer_counts_once_and_as_long_as_it_is_in_flight(tmp_path: Path) -> None:
    found = row(sheet(tmp_path, newer_events()), "aiccopytovtcm")
    assert (found.engine, found.count, found.us) == ("DMAIssue", 1, 9)


def test_totals_are_those_of_the_execution(tmp_path: Path) -> None:
    found = sheet(tmp_path, newer_events())
    assert found.totals is not None
    assert (found.totals.us, found.totals.ucycles) == (50, 960)
    assert found.frequencies_mhz == ((1, pytest.approx(1200)),)
    assert found.network == "Net"


def test_threads_of_a_group_count_once_with_the_longest(tmp_path: Path) -> None:
    found = row(sheet(tmp_path, older_events()), "elementadd", 0)
    assert (found.engine, found.count, found.us, found.pcycles) == ("HVX", 1, 5, 7250)
    assert (found.out_bytes, found.dtypes) == (1024, ("float16",))
    assert row(sheet(tmp_path, older_events()), "sync", 0).count == 1


def test_the_older_trace_names_engines_by_thread(tmp_path: Path) -> None:
    found = sheet(tmp_path, older_events(), bare=True)
    assert row(found, "aicconvolutiond32", 0).engine == "HMX"
    assert {row.kind for row in found.ops} == {"aicconvolutiond32", "elementadd", "sync"}
    assert found.network == "QAicGraph"
    assert found.totals is not None
    assert found.totals.us == 15  # without the host


def test_flows_are_paired_in_the_order_of_the_file(tmp_path: Path) -> None:
    """The second device uses the id of the first one again."""
    found = sheet(tmp_path, [*newer_events(0), *newer_events(1)])
    line = found.timeline
    assert line is not None
    names = [
        (line.lanes[line.lane[a]].device, line.lanes[line.lane[b]].thread)
        for a, b in zip(line.flow_source, line.flow_target, strict=True)
    ]
    assert names == [(0, "Net_slice00_Core_1_HVX"), (1, "Net_slice01_Core_1_HVX")]
    assert line.flow_data.all()


def test_devices_are_told_apart(tmp_path: Path) -> None:
    found = sheet(tmp_path, [*newer_events(0), *newer_events(1)])
    assert found.cores == (1, 3)
    assert found.notes == ("2 devices: cores are numbered consecutively over the devices",)


def test_flows_that_do_not_fit_are_counted(tmp_path: Path) -> None:
    lost = {"ph": "f", "cat": "x", "id": 5, "pid": 10, "tid": 2, "ts": 1}
    begun = {"ph": "s", "cat": "x", "id": 6, "pid": 10, "tid": 2, "ts": 1}
    found = sheet(tmp_path, [*newer_events(), lost, begun])
    assert found.notes == ("1 flows end without a beginning", "1 flows have no end")


def test_names_of_threads_may_come_last(tmp_path: Path) -> None:
    events = newer_events()
    late = [e for e in events if e["ph"] != "M"] + [e for e in events if e["ph"] == "M"]
    assert sheet(tmp_path, late).ops == sheet(tmp_path, events).ops


def test_the_timeline_is_sound(tmp_path: Path) -> None:
    """Transfers in flight at the same time get rows of their own."""
    events = newer_events()
    events += [{**events[8], "ts": 4.0, "dur": 9.0, "args": {"oc": "9"}}]
    model = sheet_trace(sheet(tmp_path, events))
    assert check(model) == ()
    assert len(model.slices) == sum(event["ph"] == "X" for event in events)
    assert len(model.flows) == 1
    assert len(model.samples) == 1


def test_records_without_a_timeline_name_their_file(tmp_path: Path) -> None:
    events = newer_events()
    events += [{**events[8], "ts": -4.0}]
    found = sheet(tmp_path, events)
    with pytest.raises(FileError) as caught:
        sheet_trace(found)
    assert str(caught.value) == (
        f"{found.file}: the records do not form a timeline: an event starts before time 0"
    )


def test_tables_are_made_of_it(tmp_path: Path) -> None:
    tables = sheet_tables(sheet(tmp_path, newer_events()))
    (core,) = tables.cores
    assert core.total_uc == 960
    assert core.effective_mhz == pytest.approx(1200)
    assert {op.details for op in core.ops} >= {"aicsoftmax HVX TCM (i8, float16)", "sync HVX"}


@pytest.mark.parametrize("chunk", [1, 7, 100, 1 << 20])
def test_events_do_not_depend_on_how_the_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(json_events, "CHUNK", chunk)
    events = [*newer_events(), {"ph": "M", "name": "größe", "n": 12.5, "t": [True, None]}]
    text = json.dumps({"a": -12, "b": [1, {}], "traceEvents": events}, ensure_ascii=False)
    assert list(EventReader(written(tmp_path / "t.json", text))) == events


@pytest.mark.parametrize("ending", [",", "", ', {"ph": "X", "na', ', {"ph": tr'])
def test_an_array_left_open_is_read_up_to_its_end(tmp_path: Path, ending: str) -> None:
    text = trace_text(newer_events(), bare=True).rstrip("]\n") + ending
    found = read_sheet(written(tmp_path / "t.json", text))
    assert found.ops == sheet(tmp_path, newer_events()).ops
    assert found.notes[-1] == "the file ends inside its events: everything before that was read"


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("[1, 2]", "expected an event, {...}", "t.json"),
        (
            '[{"a": 1}, {"a": 1 "b": 2}, ' + '{"c": 3}, ' * 9 + "]",
            "not an event: ",
            "traceEvents[1]",
        ),
        ('[{"a": NaN}, {"c": 3}]', "not an event: NaN is not a number", "t.json"),
        ('{"other": 1}', "no array under traceEvents", "t.json"),
        ("hello", "expected an array of events, or an object with traceEvents", "t.json"),
        ('[{"a": ' + "[" * 100_000, "nested too deeply", "t.json"),
        ('[{"a": ' + "9" * 5000 + "}]", "not an event: ", "t.json"),
    ],
)
def test_what_is_no_trace_is_named(tmp_path: Path, text: str, message: str, place: str) -> None:
    with pytest.raises(FileError) as caught:
        list(EventReader(written(tmp_path / "t.json", text)))
    assert caught.value.message.startswith(message)
    assert caught.value.where.endswith(place)


def test_a_value_without_end_is_not_read_to_the_end_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_events, "CHUNK", 1000)
    monkeypatch.setattr(json_events, "LONGEST_VALUE", 5000)
    reader = EventReader(written(tmp_path / "t.json", '[{"a": "' + "x" * 1_000_000))
    with pytest.raises(FileError, match="Unterminated string"):
        list(reader)
    assert len(reader._text) < 20_000


def test_a_trace_of_another_tool_is_refused(tmp_path: Path) -> None:
    events = [{"ph": "X", "name": "work", "pid": 1, "tid": 1, "ts": 0, "dur": 1}]
    path = written(tmp_path / "t.json", trace_text(events))
    assert find_adapter(path).name == "qaic-trace"
    with pytest.raises(FileError, match="no op of a core is in this trace"):
        read_sheet(path)


def test_odd_values_are_left_out_and_counted(tmp_path: Path) -> None:
    odd = [
        {"ph": "X", "name": "a", "pid": 10, "tid": 2, "ts": "soon", "dur": 1},
        {"ph": "X", "name": "a", "pid": 10, "tid": 2, "ts": 1, "dur": -1},
        {"ph": "s", "pid": 10, "tid": 2, "id": {}, "ts": 1},
        {"ph": 3, "name": ["x"]},
    ]
    found = sheet(tmp_path, [*newer_events(), *odd])
    assert found.ops == sheet(tmp_path, newer_events()).ops
    assert found.notes == (
        "2 slices without a time were left out",
        "1 flows without a time or an id were left out",
    )
