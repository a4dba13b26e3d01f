"""Profiles of runtimes on a host: onnxruntime's, made here for real, and ExecuTorch's ETDump."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from many_core.adapter_samples import ETDUMP_RUNS, etdump, trace_text, written
from npuscope.errors import FileError
from npuscope.families.many_core.adapters.model import Sheet
from npuscope.families.many_core.adapters.onnxruntime import KernelEvent, own_times
from npuscope.families.many_core.adapters.registry import find_adapter, read_sheet
from npuscope.families.many_core.adapters.tables import sheet_trace
from npuscope.profiling.model import Provenance
from npuscope.profiling.runtimes import onnxruntime_session
from npuscope.trace_model import check

RUNS = 3
NODES = ("conv1", "relu1", "pool", "probabilities")


def network() -> bytes:
    weights = np.random.default_rng(0).normal(size=(8, 3, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu1"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Softmax", ["p"], ["y"], name="probabilities", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 64, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 1, 1])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model.SerializeToString()


@pytest.fixture(scope="module")
def profile_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile that onnxruntime has written."""
    pytest.importorskip("onnxruntime")
    session = onnxruntime_session(network(), str(tmp_path_factory.mktemp("ort") / "profile"))
    for _ in range(RUNS):
        session.run(None, {"x": np.ones((1, 3, 64, 64), np.float32)})
    return Path(session.end_profiling())


def test_a_real_profile_of_onnxruntime(profile_path: Path) -> None:
    assert find_adapter(profile_path).name == "onnxruntime"
    sheet = read_sheet(profile_path)
    assert tuple(row.name for row in sheet.ops) == NODES
    assert [row.kind for row in sheet.ops] == ["Conv", "Relu", "GlobalAveragePool", "Softmax"]
    assert {row.engine for row in sheet.ops} == {"CPU"}
    assert sheet.ops[0].dtypes == ("float",)
    assert sheet.ops[0].out_bytes == 4 * 8 * 64 * 64
    assert [row.count for row in sheet.ops] == [1] * 4
    assert sheet.provenance is Provenance.LOG


def test_its_times_are_means_over_the_inferences(profile_path: Path) -> None:
    sheet = read_sheet(profile_path)
    assert sheet.totals is not None
    assert sheet.totals.inferences == RUNS
    for row in sheet.ops:
        assert row.us is not None
        assert row.spread_us is not None
        low, middle, high = row.spread_us
        assert low <= middle <= high
        assert low <= row.us <= high
        assert row.us * RUNS == pytest.approx(low + middle + high)
    assert sum(row.us or 0 for row in sheet.ops) <= sheet.totals.us


def test_its_timeline_is_sound(profile_path: Path) -> None:
    model = sheet_trace(read_sheet(profile_path))
    assert check(model) == ()
    assert len(model.slices) == RUNS * len(NODES)


def _node(name: str, ts: int, dur: int, tid: int = 1) -> dict:
    args = {"op_name": name.rstrip("0123456789"), "provider": "CPUExecutionProvider"}
    event = {"cat": "Node", "pid": 1, "tid": tid, "ts": ts, "dur": dur, "ph": "X"}
    return {**event, "name": f"{name}_kernel_time", "args": args}


def _run(ts: int, dur: int, tid: int = 1) -> dict:
    event = {"cat": "Session", "pid": 1, "tid": tid, "ts": ts, "dur": dur, "ph": "X"}
    return {**event, "name": "model_run"}


def ort(folder: Path, events: list[dict]) -> Sheet:
    return read_sheet(written(folder / "p.json", trace_text(events, bare=True)))


def test_a_branch_does_not_count_its_body_twice(tmp_path: Path) -> None:
    sheet = ort(tmp_path, [_node("Add1", 12, 5), _node("If1", 10, 20), _run(0, 50)])
    assert {row.name: row.us for row in sheet.ops} == {"Add1": 5, "If1": 15}


def test_an_op_that_a_run_does_not_reach_took_no_time_there(tmp_path: Path) -> None:
    events = [_node("A1", 1, 4), _run(0, 10), _run(20, 10), _node("B", 100, 5)]
    sheet = ort(tmp_path, events)
    assert [(row.name, row.us, row.spread_us) for row in sheet.ops] == [("A1", 2, (0, 2, 4))]


def test_runs_at_the_same_time_are_told_apart_by_thread(tmp_path: Path) -> None:
    events = [_node("A1", 1, 4, 1), _node("A1", 2, 6, 2), _run(0, 10, 1), _run(1, 10, 2)]
    (row,) = ort(tmp_path, events).ops
    assert row.spread_us == (4, 5, 6)


def test_a_profile_without_runs_is_one(tmp_path: Path) -> None:
    sheet = ort(tmp_path, [_node("A1", 1, 4), _node("B1", 5, 2)])
    assert sheet.totals is not None
    assert sheet.totals.us == 6
    assert "no model_run was recorded" in sheet.notes[-1]


def test_a_profile_without_nodes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no node was timed in this profile"):
        ort(tmp_path, [_run(0, 10)])


def test_of_equal_times_the_later_entry_is_the_outer() -> None:
    inner, outer = (KernelEvent(0, 1, 5, kind, kind, "CPU") for kind in ("in", "out"))
    assert own_times([inner, outer]) == [4, 0]


@pytest.mark.parametrize("prefixed", [False, True])
def test_an_etdump(tmp_path: Path, prefixed: bool) -> None:
    path = tmp_path / "a.etdp"
    path.write_bytes(etdump(ETDUMP_RUNS, prefixed=prefixed))
    assert find_adapter(path).name == "etdump"
    sheet = read_sheet(path)
    rows = {row.name: row for row in sheet.ops}
    assert list(rows) == ["add.out @0", "xnn mul delegate 4"]
    assert (rows["add.out @0"].us, rows["add.out @0"].engine) == (15, "CPU")
    assert rows["add.out @0"].spread_us == (10, 15, 20)
    assert (rows["xnn mul delegate 4"].us, rows["xnn mul delegate 4"].engine) == (30, "delegate")
    assert sheet.totals is not None
    assert (sheet.totals.us, sheet.totals.inferences) == (110, 2)
    assert sheet.network == "forward"
    assert check(sheet_trace(sheet)) == ()


def test_a_call_without_timed_ops_stands_for_its_op(tmp_path: Path) -> None:
    path = tmp_path / "a.etdp"
    events = [("DELEGATE_CALL", 10_000, 40_000, 1), ("Method::execute", 0, 50_000)]
    path.write_bytes(etdump([events]))
    assert [(row.name, row.us) for row in read_sheet(path).ops] == [("DELEGATE_CALL @1", 30)]


def test_an_unknown_version_and_the_unit_are_said(tmp_path: Path) -> None:
    path = tmp_path / "a.etdp"
    path.write_bytes(etdump(ETDUMP_RUNS, version=3))
    assert read_sheet(path).notes == (
        "time stamps are assumed to be nanoseconds: the file does not state their unit",
        "schema version 3 is newer than the one known (0)",
    )


def test_a_vector_larger_than_the_file_is_refused(tmp_path: Path) -> None:
    """The vector of runs lies where the root's second field leads."""
    data = bytearray(etdump(ETDUMP_RUNS))
    (root,) = struct.unpack_from("<I", data, 0)
    vtable = root - struct.unpack_from("<i", data, root)[0]
    field = root + struct.unpack_from("<H", data, vtable + 6)[0]
    vector = field + struct.unpack_from("<I", data, field)[0]
    struct.pack_into("<I", data, vector, 0x4000_0000)
    path = tmp_path / "a.etdp"
    path.write_bytes(bytes(data))
    with pytest.raises(FileError) as caught:
        read_sheet(path)
    assert caught.value.message == "a vector of 1073741824 entries, more than the file holds"
    assert caught.value.where.endswith(f"byte {vector}")


def test_an_event_that_ends_before_it_starts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.etdp"
    path.write_bytes(etdump([[("native_call_a", 5, 3)]]))
    with pytest.raises(FileError, match="'native_call_a' ends before it starts"):
        read_sheet(path)


def test_an_etdump_without_events_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.etdp"
    path.write_bytes(etdump([[]]))
    with pytest.raises(FileError, match="no timed event is in this ETDump"):
        read_sheet(path)


def test_times_that_no_clock_has_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.etdp"
    path.write_bytes(etdump([[("native_call_a", 5, (1 << 64) - 1)]]))
    with pytest.raises(FileError, match="'native_call_a' ends after a 64-bit clock overflows"):
        read_sheet(path)
    with pytest.raises(FileError, match="no node was timed"):
        ort(tmp_path, [_node("A1", 10**17, 4), _run(0, 10)])
