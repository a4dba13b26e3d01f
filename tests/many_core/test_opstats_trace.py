"""Timelines of stats buffers: the tables recomputed from the file, rows, arrows, alignment."""

from __future__ import annotations

import io
import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from many_core.samples import FIRST_TICK, UTC_NS, layout, program, stats, with_rows
from npuscope.errors import FileError, UsageError
from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.layout import Dependency
from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.opstats.host_trace import (
    check_inferences,
    of_inferences,
    read_host_trace,
)
from npuscope.families.many_core.opstats.model import Opstats
from npuscope.families.many_core.opstats.tables import opstats_of
from npuscope.families.many_core.opstats.trace import TraceOptions, trace_of, undrawn_note
from npuscope.families.many_core.records import SectionId
from npuscope.families.many_core.sim.conditions import RunOptions
from npuscope.families.many_core.sim.run import simulate
from npuscope.report.trace.chrome import write_chrome
from npuscope.structs import replace

Event = dict[str, Any]
EVERYTHING = TraceOptions(flows=True, barriers=True)
BY_THREAD = replace(EVERYTHING, merge_thread_groups=False)
ROW = re.compile(r"(?P<net>.+)_Core_(?P<core>\d+)(_(?P<engine>HVX|HMX|DMAIssue)(_t(?P<t>\d+))?)?")


@dataclass
class Timeline:
    """A Chrome file as its reader sees it."""

    events: list[Event]

    def __post_init__(self) -> None:
        named = [e for e in self.events if e["ph"] == "M" and e["name"] == "thread_name"]
        self.rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in named}
        self.slices = [e for e in self.events if e["ph"] == "X"]

    def row(self, event: Event) -> str:
        return self.rows[event["pid"], event["tid"]]

    def of(self, category: str) -> list[Event]:
        return [e for e in self.slices if e["cat"] == category]


def chrome(made: Sequence[Stats], options: TraceOptions = EVERYTHING) -> Timeline:
    file = io.BytesIO()
    write_chrome(trace_of(made, options), file)
    return Timeline(json.loads(file.getvalue())["traceEvents"])


def simulated() -> Stats:
    return simulate(program(), load_core_machine(), RunOptions()).stats[0]


SAMPLES = {"by hand": stats, "longer": lambda: stats(layout(repeat=20)), "simulated": simulated}


def ticks(event: Event) -> int:
    """Ends are whole nanoseconds, so a duration is at most one off."""
    return round(event["dur"] * 19.2)


def recomputed(line: Timeline, by_thread: bool) -> dict[tuple[int, str], tuple]:
    """The op table from the slices alone: (core, details) -> count, ucycles, pcycles, bytes."""
    runs: dict[tuple, list[Event]] = defaultdict(list)
    asynchronous = {
        (line.row(e).split("_Core_")[1].split("_")[0], e["args"]["oc"]) for e in line.of("dma")
    }
    for event in line.slices:
        match = ROW.match(line.row(event))
        if match is None or event["cat"] in ("core", "device", "p2p"):
            continue
        core, engine, args = int(match["core"]), match["engine"], event["args"]
        details = event["name"]
        if event["cat"] in ("aic", "dma"):
            if event["cat"] == "aic" and (match["core"], args["oc"]) in asynchronous:
                continue
            types = f" ({args['opTypes']})" if "opTypes" in args else ""
            details = f"{args['opKind']} {engine} {args['opMemory']}{types}"
        runs[core, details, args["oc"], args.get("sample", 0)].append(event)
    table: dict[tuple[int, str], list] = defaultdict(lambda: [0, 0, 0, 0])
    for (core, details, _, _), events in runs.items():
        longest = max(ticks(e) if by_thread else e["args"]["opUCycle"] for e in events)
        found = table[core, details]
        found[0] += 1
        found[1] += longest
        found[2] += max(e["args"].get("opPCycle", 0) for e in events)
        found[3] += events[0]["args"].get("opOutputSize", 0)
    return {key: tuple(value) for key, value in table.items()}


@pytest.mark.parametrize("options", [EVERYTHING, BY_THREAD], ids=["groups", "threads"])
@pytest.mark.parametrize("sample", SAMPLES)
def test_the_op_table_recomputed_from_the_trace_is_the_summary(
    sample: str, options: TraceOptions
) -> None:
    made = SAMPLES[sample]()
    found = recomputed(chrome([made], options), not options.merge_thread_groups)
    expected = {
        (row.core, row.details): (row.count, row.ucycles, row.pcycles or 0, row.out_bytes or 0)
        for core in opstats_of(made).cores
        for row in core.ops
    }
    assert found == expected


@pytest.mark.parametrize("sample", SAMPLES)
def test_threads_and_totals_recomputed_from_the_trace_are_the_summary(sample: str) -> None:
    made = SAMPLES[sample]()
    line, tables = chrome([made], BY_THREAD), opstats_of(made)
    busy: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for event in line.slices:
        match = ROW.match(line.row(event))
        if match is None or match["t"] is None or event["cat"] == "dma":
            continue
        sums = busy[int(match["core"]), int(match["t"])]
        sums[0 if event["cat"] == "aic" else 1] += ticks(event)
        sums[2] += event["args"].get("opPCycle", 0)
    for row in (row for core in tables.cores for row in core.threads):
        assert busy[row.core, row.thread] == [row.busy_uc, row.wait_uc, row.busy_pcycles]
    check_totals(line, tables)


def check_totals(line: Timeline, tables: Opstats) -> None:
    (device,) = line.of("device")
    assert ticks(device) == tables.totals.ucycles
    assert device["name"] == "Device_0_Execution"
    cores = {event["name"]: event["args"] for event in line.of("core")}
    for core in tables.cores:
        args = cores[f"Core-{core.core}-Execution"]
        assert (args["ucycles"], args["pcycles"]) == (core.total_uc, core.total_pc)
        assert args["effectiveFreq"] == core.effective_mhz
    waits = [args["maxInputWaitUCycle"] for args in cores.values()]
    assert max(waits) == tables.totals.max_input_wait_uc


@pytest.mark.parametrize("options", [EVERYTHING, BY_THREAD], ids=["groups", "threads"])
@pytest.mark.parametrize("sample", SAMPLES)
def test_no_slice_overlaps_another_of_its_row(sample: str, options: TraceOptions) -> None:
    line = chrome([SAMPLES[sample]()], options)
    by_row: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for event in line.slices:
        start = round(event["ts"] * 1000)
        by_row[event["pid"], event["tid"]].append((start, start + round(event["dur"] * 1000)))
    for spans in by_row.values():
        spans.sort()
        assert all(b[0] >= a[1] for a, b in pairwise(spans))


def test_rows_are_named_as_the_vendors() -> None:
    line = chrome([stats()])
    names = [name for name in line.rows.values() if "_Core_1" in name]
    assert sorted(names) == [
        "QAicGraph_Core_1",
        "QAicGraph_Core_1_DMAIssue",
        "QAicGraph_Core_1_DMAIssue_Barrier",
        "QAicGraph_Core_1_DMAIssue_DMA",
        "QAicGraph_Core_1_HMX",
        "QAicGraph_Core_1_HMX_Barrier",
        "QAicGraph_Core_1_HVX",
        "QAicGraph_Core_1_HVX_Barrier",
    ]
    assert "QAicGraph_Host_IO_Port_100" in line.rows.values()
    assert min(tid for _, tid in line.rows) >= 1


def test_an_op_says_what_it_is_in_numbers() -> None:
    (event,) = (
        e
        for e in chrome([stats()]).slices
        if e["args"].get("oc") == 7 and e["pid"] == 2000 and e["cat"] == "aic"
    )
    args = event["args"]
    assert event["name"] == args["opKind"] == "aicsoftmax"
    assert (args["opMemory"], args["opShape"], args["opOutputSize"]) == ("TCM", "1x16x512", 16384)
    assert args["opName"] == "layer7/aicsoftmax__0"
    assert args["opOperand0"].startswith("out TCM Output t7")
    assert (args["opUCycle"], args["opPCycle"]) == (123, 7687)
    assert args["effectiveFreq"] == 7687 * 19.2 / 123
    assert (args["UCyclesPerKB"], args["PCyclesPerKB"]) == (123 / 16, 7687 / 16)
    assert args["pmu 0x100 HVX_ACTIVE"] == 4 * 70


def test_both_ends_of_slices_are_ticks_rounded_to_nanoseconds() -> None:
    for event in chrome([stats()], BY_THREAD).slices:
        for us in (event["ts"], event["ts"] + event["dur"]):
            ns = round(us * 1000)
            tick = round(ns * 0.0192)
            assert ns == (tick * 10**9 + 9_600_000) // 19_200_000


def test_barriers_are_shown_on_request_only() -> None:
    line = chrome([stats()], TraceOptions())
    assert not line.of("barrier")
    assert not any(name.endswith("_Barrier") for name in line.rows.values())
    assert {e["name"] for e in line.of("sync")} == {"sync HVX", "sync HMX", "sync DMAIssue"}
    (wait,) = (e for e in line.of("sync") if e["pid"] == 2000 and e["args"]["oc"] == 4)
    assert wait["args"]["opSyncDurUs"] == pytest.approx(wait["dur"], abs=0.001)


def test_the_clock_doorbells_and_ports_are_shown() -> None:
    line = chrome([stats()])
    clocks = [e for e in line.events if e["ph"] == "C" and e["name"] == "Freq"]
    assert {e["pid"] for e in clocks} == {2000, 2001}
    assert all(1190 < e["args"]["FreqMHz"] < 1210 for e in clocks)
    bells = [e for e in line.events if e["ph"] == "i"]
    assert [e["args"]["core"] for e in bells] == [0, 1]
    assert [e["args"]["cores"] for e in bells] == [1, 1]
    assert {line.row(e) for e in bells} == {"QAicGraph_Host_IO_Port_100"}


def test_doorbells_of_one_moment_are_one_mark() -> None:
    made = stats()
    rings = made.of(SectionId.PORT_RING).copy()
    rings["uc"] = rings["uc"][0]
    line = chrome([replace(made, sections={**made.sections, SectionId.PORT_RING: rings})])
    (bell,) = (e for e in line.events if e["ph"] == "i")
    assert bell["args"]["cores"] == 2


def test_counters_show_ddr_and_the_engines_at_work() -> None:
    made = stats()
    line = chrome([made])
    found: dict[str, list[tuple[float, float]]] = {}
    for event in line.events:
        if event["ph"] == "C" and event["name"] != "Freq":
            (value,) = event["args"].values()
            found.setdefault(event["name"], []).append((event["ts"], value))
    assert set(found) == {"DDR", "HVX at work", "HMX at work", "DMAIssue at work"}
    for samples_ in found.values():
        assert samples_ == sorted(samples_) and samples_[-1][1] == 0
        assert max(value for _, value in samples_) > 0
    moves = made.of(SectionId.DMA_REC)
    outside = moves[(moves["src"] == 0) | (moves["dst"] == 0)]
    steps = found["DDR"]
    moved = sum((b[0] - a[0]) * a[1] for a, b in pairwise(steps)) * 1e3  # us * GB/s
    assert moved == pytest.approx(int(outside["bytes"].sum()), rel=0.01)
    assert max(value for _, value in found["HVX at work"]) <= 2


def test_short_ops_say_nothing_of_the_clock() -> None:
    told = [e["args"] for e in chrome([stats()]).of("aic")]
    assert {args["opUCycle"] >= 100 for args in told if "effectiveFreq" in args} == {True}
    assert any(args["opUCycle"] < 100 for args in told)
    assert all(1000 < args.get("effectiveFreq", 1200) < 1500 for args in told)


def test_arrows_lead_from_producers_to_consumers() -> None:
    made = stats()
    line = chrome([made])
    starts = {e["id"]: e for e in line.events if e["ph"] == "s"}
    ends = {e["id"]: e for e in line.events if e["ph"] == "f"}
    assert len(starts) == len(made.network.dependencies) == 21
    assert starts.keys() == ends.keys()
    assert all(e["bp"] == "e" for e in ends.values())
    assert sum(e["cat"] == "false" for e in starts.values()) == 1
    for number, start in starts.items():
        assert start["ts"] <= ends[number]["ts"]
        for end in (start, ends[number]):
            place = (end["pid"], end["tid"])
            assert any((e["pid"], e["tid"]) == place and e["ts"] == end["ts"] for e in line.slices)
    # What waits for a transfer hangs on the transfer, not on the op that issued it.
    assert any(line.row(e).endswith("_DMA") for e in starts.values())
    assert not [e for e in chrome([made], TraceOptions()).events if e["ph"] in "sf"]


def test_arrows_of_loops_connect_the_same_round() -> None:
    made = stats(level=70)
    ops = made.of(SectionId.OP_REC)
    again = ops.copy()
    again["sample"] = 1
    for name in ("sync_uc", "start_uc", "end_uc", "barrier_uc"):
        again[name] += 1000
    made = with_rows(made, SectionId.OP_REC, np.concatenate([ops, again]))
    model = trace_of([made], TraceOptions(flows=True))
    start = model.slices.start_ns
    assert len(model.flows) == 42
    rounds = (start - start.min()) > 1000 * 10**9 / 19.2e6 - 1
    assert (rounds[model.flows.source] == rounds[model.flows.target]).all()
    assert undrawn_note(model) is None


def test_arrows_against_time_are_counted() -> None:
    made = stats()
    (spec,) = made.layout.specializations
    back = Dependency((0, 7), (0, 1))
    turned = replace(spec, dependencies=(*spec.dependencies, back))
    made = replace(made, layout=replace(made.layout, specializations=(turned,)))
    model = trace_of([made], TraceOptions(flows=True))
    assert (len(model.flows), model.undrawn_flows) == (21, 1)
    assert undrawn_note(model) == (
        "1 of the flows (5%) are not drawn: their target does not come after their source"
    )


@pytest.mark.parametrize("level", [40, 50, 70])
def test_what_a_level_lacks_is_absent_from_the_trace(level: int) -> None:
    line = chrome([stats(level=level)])
    assert len(line.of("core")) == 2
    assert (
        bool(line.of("sync")) == bool(line.of("barrier")) == bool(line.of("dma")) == (level >= 70)
    )
    assert {e["name"] for e in line.of("aic")} >= (
        {"aicinputsemaphoreinc", "aicoutputsemaphoreinc"} if level >= 50 else set()
    )
    assert bool(line.of("aic")) == any(e["ph"] == "i" for e in line.events) == (level >= 50)
    assert not any("pmu" in key for e in line.of("aic") for key in e["args"])


def test_cores_and_devices_can_be_chosen() -> None:
    made = layout(devices=2)
    both = [stats(made, device=device) for device in (0, 1)]
    line = chrome(both, TraceOptions(cores=frozenset({1}), devices=frozenset({1})))
    assert {line.row(e).split("_Core_")[0] for e in line.of("aic")} == {"QAicGraph_slice01"}
    assert {line.row(e).split("_Core_")[1][0] for e in line.of("aic")} == {"1"}
    with pytest.raises(UsageError, match="no core 9 in these buffers"):
        trace_of(both, TraceOptions(cores=frozenset({9})))
    with pytest.raises(UsageError, match="no device 2 in these buffers"):
        trace_of(both, TraceOptions(devices=frozenset({2})))


def peers() -> list[Stats]:
    """Two devices; the second one's timer started 50 us later. Both tell of one transfer."""
    made = layout(devices=2)
    first, second = (stats(made, device=device) for device in (0, 1))
    sent = first.of(SectionId.P2P_REC)
    received = sent.copy()
    received["start_uc"] += 3
    received["end_uc"] += 9
    second = with_rows(second, SectionId.P2P_REC, received)
    return [first, replace(second, utc_ns=UTC_NS + 50_000)]


def test_devices_stand_beside_each_other_by_time_of_day() -> None:
    line = chrome(peers())
    first, second = line.of("device")
    assert (first["name"], first["ts"]) == ("Device_0_Execution", 0)
    assert (second["name"], second["ts"]) == ("Device_1_Execution", 50)
    assert len({e["id"] for e in line.events if e["ph"] == "s"}) == 2 * 21 + 1


def test_both_sides_of_a_transfer_between_devices_are_connected() -> None:
    line = chrome(peers())
    sent, received = line.of("p2p")
    assert (sent["args"]["PortDescription"], received["args"]["PortDescription"]) == (
        "0->1",
        "1<-0",
    )
    assert sent["args"]["TransactionId"] == received["args"]["TransactionId"] == 7
    assert sent["args"]["bytes"] == 4096
    assert "_Core_" not in line.row(sent)
    (start,) = (e for e in line.events if e["ph"] == "s" and e["cat"] == "p2p")
    assert (start["pid"], start["ts"]) == (sent["pid"], sent["ts"])


def test_threads_of_a_group_that_drift_apart_do_not_overlap() -> None:
    made = stats(level=70)
    ops = made.of(SectionId.OP_REC).copy()
    hvx = (ops["core"] == 0) & (ops["thread"] == 1) & (ops["oc"] == 5)
    ops["sync_uc"][hvx] -= 30
    ops["start_uc"][hvx] -= 30
    line = chrome([with_rows(made, SectionId.OP_REC, ops)])
    assert "QAicGraph_Core_0_HVX 2" in line.rows.values()


def host_file(folder: Path, **other: Any) -> Path:
    """Microseconds after the devices' timer started."""
    start = FIRST_TICK / 19.2
    events = [
        {"ph": "M", "name": "process_name", "pid": 18, "args": {"name": "HOST_PROC"}},
        {"ph": "M", "name": "thread_name", "pid": 18, "tid": 3, "args": {"name": "Enqueue"}},
        {"ph": "X", "name": "enqueue-Inf-0", "pid": 18, "tid": 3, "ts": start - 20, "dur": 5.5,
         "args": {"inference": 0, "queueDepth": 2, "note": "first"}},
        {"ph": "X", "name": "enqueue-Inf-1", "pid": 18, "tid": 3, "ts": start - 18, "dur": 5,
         "args": {"inference": 1}},
        {"ph": "i", "name": "interrupt", "pid": 18, "tid": 3, "ts": start + 1.25},
        {"ph": "X", "name": "broken", "pid": 18, "tid": 3, "ts": "nonsense", "dur": 1},
    ]  # fmt: skip
    path = folder / "host.json"
    path.write_text(json.dumps({"traceEvents": events, "otherData": other}))
    return path


def test_the_host_is_laid_beside_the_device_by_utc(tmp_path: Path) -> None:
    host = of_inferences(read_host_trace(host_file(tmp_path, utc_ns=UTC_NS)), {0})
    line = chrome([stats()], replace(EVERYTHING, host=host))
    (enqueue,) = line.of("host")
    assert (enqueue["name"], enqueue["ts"], enqueue["dur"]) == ("enqueue-Inf-0", 0, 5.5)
    assert enqueue["args"] == {"inference": 0, "queueDepth": 2, "note": "first"}
    assert line.row(enqueue) == "Enqueue"
    (device,) = line.of("device")
    assert device["ts"] == pytest.approx(20, abs=0.001)
    (bell,) = (e for e in line.events if e["ph"] == "i" and e["name"] == "interrupt")
    assert bell["ts"] == pytest.approx(21.25, abs=0.001)


def test_a_host_trace_of_other_inferences_is_refused(tmp_path: Path) -> None:
    host = read_host_trace(host_file(tmp_path, utc_ns=UTC_NS))
    with pytest.raises(FileError) as caught:
        check_inferences(host, {7, 8})
    assert caught.value.message == (
        "the host trace is of inferences 0 to 1, the stats buffers of inferences 7 to 8"
    )
    check_inferences(host, {1, 2})
    assert of_inferences(host, {1}) is not None


def test_a_host_trace_without_time_of_day_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="are not UTC"):
        read_host_trace(host_file(tmp_path))
    host = read_host_trace(host_file(tmp_path, utc_ns=UTC_NS))
    with pytest.raises(FileError, match="which time of day its timer started"):
        trace_of([replace(stats(), utc_ns=0)], TraceOptions(host=host))


@pytest.mark.parametrize("text", ["", "7", '{"traceEvents": 3}', "[1, 2]", "[", '{"a": ' * 9999])
def test_what_is_no_host_trace_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "host.json"
    path.write_text(text)
    with pytest.raises(FileError, match=re.escape(str(path))):
        read_host_trace(path)
