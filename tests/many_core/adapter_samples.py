# ruff: noqa: E501, W291
"""Small files of other tools, written here in their form: summary text, traces, ETDump."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import flatbuffers

HEADING = (
    "core  ucycles  ucycles(%)     pcycles  pcycles(%)  count      out KB  ucycles/KB"
    "  pcycles/KB  stddev(pc/KB)  opdetails"
)
SUMMARY = f"""Specialization: TinyGraph


{HEADING}
c0       9600      50.00%      600000      50.00%     10      100.00       96.00     6000.00          12.50  aicsoftmax HVX TCM (float16, i8)
c0       4800      25.00%         N/A         N/A      4         N/A         N/A         N/A            N/A  sync HVX
c0       3840      20.00%         N/A         N/A      3        1.00     3840.00         N/A            N/A  aiccopytovtcm DMAIssue DDR 
c0       1920      10.00%      120000      10.00%      2        0.00   983040.00 61440000.00           0.00  elementmul  HMX TCM (float16)
c0        960       5.00%         N/A         N/A      4         N/A         N/A         N/A            N/A  barrier HVX

c0 total:           19200 ucycles         1200000 pcycles (thread max)
c0    t0 HVX                19200 ucycles [1000, 20200]         1200000 pcycles  50.00% utilization
c0    t4 HMX                19000 ucycles [1000, 20000]         1187500 pcycles  10.11% utilization


c00t0 batch ucycles:            19200 [1000,20200]    pcycles:         1200000 
c00t4 batch ucycles:            19000 [1000,20000]    pcycles:         1187500 
c0: Total inference pcycle is 1200010
c0: Effective frequency is 1200.00MHz
c00t0p100 Host_IO_Port ucycles:              311
c00t0p101 Host_IO_Port ucycles:                2
c00t0 activate ucycles:             1500
c00t4 activate ucycles:             1600

{HEADING}
c1       9000      50.00%      562500      50.00%     10      100.00       90.00     5625.00           1.25  aicsoftmax HVX TCM (float16, i8)

c1 total:           18000 ucycles         1125000 pcycles (thread max)
c1    t0 HVX                18000 ucycles [1002, 19002]         1125000 pcycles  50.00% utilization


c01t0 batch ucycles:            18000 [1002,19002]    pcycles:         1125000 
c1: Total inference pcycle is 1125000
c1: Effective frequency is 1200.00MHz
c01t0 activate ucycles:             1400
total batch ucycles:            19200 [1000, 20200]
[TinyGraph] Device instance batch/s: (1/0.001): 1000
[TinyGraph] Device instance inf/s: (8/0.001): 8000
max input wait ucycles: 311
max output wait ucycles: 2
"""


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def name_event(kind: str, pid: int, tid: int, name: str) -> dict:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}


def _op(pid: int, tid: int, kind: str, ts: float, dur: float, **args: object) -> dict:
    return {
        "ph": "X",
        "cat": "aic",
        "name": kind,
        "pid": pid,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def newer_events(device: int = 0) -> list[dict]:
    """One core: an HVX op behind its wait, a transfer with its issue, the host; one flow."""
    pid = 10 + device
    base = f"Net_slice{device:02}_Core_1"
    soft = {"oc": "7", "opKind": "aicsoftmax ", "opMemory": "TCM", "opName": "/a/Softmax/__1"}
    load = {"oc": "3", "opKind": "aiccopytovtcm", "opMemory": "DDR", "opName": "/a/w"}
    return [
        name_event("process_name", pid, 0, f"Device {device}"),
        name_event("thread_name", pid, 1, base),
        name_event("thread_name", pid, 2, f"{base}_HVX"),
        name_event("thread_name", pid, 3, f"{base}_DMAIssue"),
        name_event("thread_name", pid, 4, f"{base}_DMAIssue_DMA"),
        name_event("thread_name", pid, 5, f"{base}_HVX_Barrier"),
        _op(pid, 1, "Core-1-Execution", 0, 50),
        _op(pid, 3, "aiccopytovtcm", 1, 1, **load, opOutputSize="4096"),
        _op(pid, 4, "aiccopytovtcm", 1, 9, **load, opOutputSize="4096"),
        _op(pid, 2, "sync HVX", 2, 0, **soft, opSyncDurUs="8"),
        _op(
            pid, 2, "aicsoftmax", 10, 20, **soft,
            opUCycle="384", opPCycle="24000", opOutputSize="2048",
            opOperand0="in TCM Input /a/x float16 <1x4> 4KB",
            opOperand1="out TCM Output /a/y i8 <1x4> 2KB",
        ),
        _op(pid, 5, "barrier HVX", 30, 0.5, **soft),
        {"ph": "s", "cat": "true", "id": 1, "pid": pid, "tid": 4, "ts": 1, "args": {"oc": "3"}},
        {"ph": "f", "cat": "true", "id": 1, "pid": pid, "tid": 2, "ts": 10, "args": {"oc": "7"}},
        {"ph": "C", "name": "Freq", "pid": pid, "tid": 0, "ts": 0, "args": {"FreqMHz": 1200}},
    ]  # fmt: skip


def older_events() -> list[dict]:
    """One process a core, threads by number; the four HVX threads each show the op."""
    conv = {"opKind": "aicconvolutiond32", "opMemory": "TCM", "opName": "/c/Conv"}
    add = {"opKind": "elementadd", "opMemory": "TCM", "opName": "/c/Add"}
    size = "out TCM Result /c/y float16 <1x512> 1KB"
    return [
        name_event("process_name", 18, 3, "HOST_PROC"),
        name_event("process_name", 2000, 0, "Program:0 [QAicGraph_Core_0]"),
        _op(18, 3, "enqueue", 0, 5),
        _op(2000, 4, "aicconvolutiond32-Inf-3", 10, 5, **conv, opUCycle="96", opPCycle="7200"),
        *(
            _op(
                2000, tid, "elementadd-Inf-3", 20, 2 + tid, **add,
                opUCycle=str(38 + 19 * tid), opPCycle=str(2900 + 1450 * tid), opOperand=size,
            )
            for tid in range(4)
        ),
        *(_op(2000, tid, "sync HVX", 15, 5) for tid in range(4)),
    ]  # fmt: skip


def trace_text(events: Sequence[dict], *, bare: bool = False) -> str:
    lines = ",\n".join(json.dumps(event) for event in events)
    return f"[\n{lines}\n]" if bare else f'{{"otherData": {{}}, "traceEvents": [\n{lines}\n]}}'


def etdump(runs: Sequence[Sequence[tuple]], *, prefixed: bool = False, version: int = 0) -> bytes:
    """Events are (name, start, end, instruction, delegate number, delegate name), in ns."""
    builder = flatbuffers.Builder(1024)
    blocks = [_run(builder, i, events) for i, events in enumerate(runs)]
    vector = _vector(builder, blocks)
    builder.StartObject(2)
    builder.PrependUint32Slot(0, version, 0)
    builder.PrependUOffsetTRelativeSlot(1, vector, 0)
    root = builder.EndObject()
    finish = builder.FinishSizePrefixed if prefixed else builder.Finish
    finish(root, file_identifier=b"ED00")
    return bytes(builder.Output())


def _run(builder: flatbuffers.Builder, number: int, events: Sequence[tuple]) -> int:
    name = builder.CreateString("forward" if number == 0 else "")
    made = _vector(builder, [_event(builder, *event) for event in events])
    builder.StartObject(4)
    builder.PrependUOffsetTRelativeSlot(0, name, 0)
    builder.PrependInt32Slot(1, -1, -1)
    builder.PrependUOffsetTRelativeSlot(3, made, 0)
    return builder.EndObject()


def _event(
    builder: flatbuffers.Builder,
    name: str,
    start: int,
    end: int,
    instruction: int = -1,
    number: int = -1,
    label: str = "",
) -> int:
    text, other = builder.CreateString(name), builder.CreateString(label) if label else 0
    builder.StartObject(8)
    builder.PrependUOffsetTRelativeSlot(0, text, 0)
    builder.PrependInt32Slot(2, instruction, -1)
    builder.PrependInt32Slot(3, number, -1)
    if label:
        builder.PrependUOffsetTRelativeSlot(4, other, 0)
    builder.PrependUint64Slot(6, start, 0)
    builder.PrependUint64Slot(7, end, 0)
    profiled = builder.EndObject()
    builder.StartObject(3)
    builder.PrependUOffsetTRelativeSlot(0, profiled, 0)
    return builder.EndObject()


def _vector(builder: flatbuffers.Builder, items: Sequence[int]) -> int:
    builder.StartVector(4, len(items), 4)
    for item in reversed(items):
        builder.PrependUOffsetTRelative(item)
    return builder.EndVector()


ETDUMP_RUNS = [
    [
        ("Program::load_method", 0, 900_000),
        ("native_call_add.out", 1_010_000, 1_030_000, 0),
        ("OPERATOR_CALL", 1_005_000, 1_035_000, 0),
        ("xnn mul", 1_045_000, 1_070_000, -1, 4),
        ("DELEGATE_CALL", 1_040_000, 1_080_000, 1),
        ("Method::execute", 1_000_000, 1_100_000),
    ],
    [
        ("native_call_add.out", 2_010_000, 2_020_000, 0),
        ("OPERATOR_CALL", 2_005_000, 2_025_000, 0),
        ("xnn mul", 2_045_000, 2_080_000, -1, 4),
        ("DELEGATE_CALL", 2_040_000, 2_090_000, 1),
        ("Method::execute", 2_000_000, 2_120_000),
    ],
]
