"""The many-core side: programs, stats buffers in every dialect, traces, machines."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np

from fuzz.engine import Command, Target
from fuzz.mutate import (
    BINARY,
    JSON,
    LARGE,
    PROTOBUF,
    TEXT,
    TOML,
    Mutator,
    json_tree,
    protobuf,
)
from identify.test_identify import TEXTS
from many_core import adapter_samples, samples
from many_core.test_adapters_device import (
    RAW_NAME,
    descriptor_file,
    field,
    opstatsdesc,
    raw_with_layout,
)
from npuscope.cli.main import main
from npuscope.errors import FileError
from npuscope.families.many_core import machine as machines
from npuscope.families.many_core.buffer import write_buffer
from npuscope.families.many_core.buffer_format import ROW, Stats
from npuscope.families.many_core.container import with_program_id, write_program
from npuscope.families.many_core.networkdesc import NetworkDesc, encode_networkdesc
from npuscope.families.many_core.qpc import read_qpc, write_qpc
from npuscope.structs import replace

MACHINE = Path(machines.__file__).parent / "cloudai100.toml"
STEM = "aic-profiling-program-0-activation-0-inf-3-QAicGraph"
_HEADER_BYTES = 64
_JSON_SEGMENTS = ("osb.layout", "osb.prog", "osb.deps")


def _commands(*rows: str) -> tuple[Command, ...]:
    return tuple(Command(words) for words in rows)


def _program(devices: int = 1) -> bytes:
    return write_program(samples.program(samples.layout(devices=devices)))


def _stats() -> Stats:
    program = with_program_id(samples.program())
    return replace(samples.stats(), layout=program.layout)


def _programs(side: Path) -> list[bytes]:
    return [_program(), _program(2), (side / "compiled" / "programqpc.bin").read_bytes()]


def _odd_segment(data: bytes, rng: Random) -> bytes:
    """A container that is whole around a segment that is not."""
    try:
        qpc = read_qpc(data)
        segments = {name: qpc.need(name) for name in qpc.names}
    except FileError:
        segments = {}
    if not segments:  # an earlier change broke the container, or left an empty one
        return rng.choice(BINARY)(data, rng)
    name = rng.choice(list(segments))
    edit = rng.random()
    if edit < 0.1:
        del segments[name]
    elif edit < 0.8 and name in _JSON_SEGMENTS:
        segments[name] = json_tree(segments[name], rng)
    elif edit < 0.8 and name.endswith("desc.bin"):
        segments[name] = protobuf(segments[name], rng)
    else:
        segments[name] = rng.choice(BINARY)(segments[name], rng)
    return write_qpc(segments)


def _buffers(side: Path) -> list[bytes]:
    return [write_buffer(_stats())]


def _opstats_tables(side: Path) -> list[bytes]:
    """As `opstats --json` writes them."""
    file = side / "tables.json"
    words = ["opstats", "-q", side / "qpc" / "programqpc.bin", "-i", side / "stats"]
    assert main([*map(str, words), "-o", str(side / "tables"), "--json", str(file)]) == 0
    return [file.read_bytes()]


def _odd_contents(data: bytes, rng: Random) -> bytes:
    """A row of the table of contents, or the records of one, under a CRC that fits again."""
    count = min(11, max(0, len(data) - _HEADER_BYTES) // ROW.itemsize)
    if not count:
        return data
    rows = np.frombuffer(data, ROW, count, _HEADER_BYTES).copy()
    at = rng.randrange(count)
    if rng.random() < 0.5:
        name = rng.choice(("id", "record_bytes", "offset", "count", "flags"))
        rows[name][at] = rng.choice((*LARGE, *range(12))) & ((1 << 8 * ROW[name].itemsize) - 1)
    start = int(rows["offset"][at])
    size = int(rows["count"][at]) * int(rows["record_bytes"][at])
    body = data[start : start + size]
    if body and len(body) == size and start >= _HEADER_BYTES + rows.nbytes:
        body = rng.choice(BINARY)(body, rng)[:size].ljust(size, b"\0")
        data = data[:start] + body + data[start + size :]
    rows["crc32"][at] = zlib.crc32(body)
    return data[:_HEADER_BYTES] + rows.tobytes() + data[_HEADER_BYTES + rows.nbytes :]


def _descs(side: Path) -> list[bytes]:
    return [read_qpc(_program(2)).need("networkdesc.bin")]


def _lay_descriptor(folder: Path, data: bytes) -> None:
    (folder / "programqpc.bin").write_bytes(write_qpc({"networkdesc.bin": data}))


def _opstats_descs(side: Path) -> list[bytes]:
    return [field(1, descriptor_file()), descriptor_file()]


def _host_traces(side: Path) -> list[bytes]:
    events = [
        {"ph": "M", "name": "process_name", "pid": 18, "tid": 1, "args": {"name": "host"}},
        {"ph": "X", "name": "enqueue", "pid": 18, "tid": 1, "ts": 52000, "dur": 3},
        {"ph": "X", "name": "wait", "pid": 18, "tid": 2, "ts": 52010.5, "dur": 30,
         "args": {"inference": 3}},
    ]  # fmt: skip
    tree = {"traceEvents": events, "otherData": {"utc_ns": samples.UTC_NS}}
    written = sorted((side / "host").glob("*.json"))
    return [json.dumps(tree).encode(), *(path.read_bytes() for path in written)]


def _ort_profile(side: Path) -> list[bytes]:
    events = [
        {"cat": "Session", "pid": 1, "tid": 1, "dur": 90, "ts": 1, "ph": "X",
         "name": "session_initialization", "args": {}},
        *(
            {"cat": "Node", "pid": 1, "tid": 1, "dur": 20 + i, "ts": 100 + 60 * run + 25 * i,
             "ph": "X", "name": f"n{i}_kernel_time",
             "args": {"op_name": op, "provider": "CPUExecutionProvider", "node_index": str(i),
                      "output_size": "4096", "output_type_shape": [{"float": [1, 8, 4, 4]}]}}
            for run in range(2) for i, op in enumerate(("Conv", "Relu"))
        ),
        *({"cat": "Session", "pid": 1, "tid": 1, "dur": 55, "ts": 98 + 60 * run, "ph": "X",
           "name": "model_run", "args": {}} for run in range(2)),
    ]  # fmt: skip
    return [json.dumps(events, indent=1).encode()]


def _traces(side: Path) -> list[bytes]:
    events = (adapter_samples.newer_events(), adapter_samples.older_events())
    return [adapter_samples.trace_text(row).encode() for row in events]


def _etdumps(side: Path) -> list[bytes]:
    runs = adapter_samples.ETDUMP_RUNS
    return [adapter_samples.etdump(runs), adapter_samples.etdump(runs, prefixed=True)]


def _from(name: str) -> Callable[[Path], list[bytes]]:
    return lambda side: [(side / "raw" / name).read_bytes()]


def prepare_manycore(side: Path) -> None:
    from npuscope.cli.main import main

    for name in ("qpc", "stats", "host", "raw", "described", "around/out_stats"):
        (side / name).mkdir(parents=True)
    (side / "qpc" / "programqpc.bin").write_bytes(_program())
    (side / "stats" / "programqpc.bin").write_bytes(_program())
    (side / "stats" / f"{STEM}-aiccyclecounts.bin").write_bytes(write_buffer(_stats()))
    raw_with_layout(side / "raw")
    desc = NetworkDesc(major_version=9, network_name="N", thread_group_names=("HVX", "HMX"))
    segments = {"networkdesc.bin": encode_networkdesc(desc), "opstatsdesc.bin": opstatsdesc()}
    (side / "described" / "programqpc.bin").write_bytes(write_qpc(segments))
    for words in (
        f"manycore compile -model {side}/conv.onnx -o {side}/compiled -stats-level 70 -q",
        f"manycore run -t {side}/compiled --aic-profiling-type trace "
        f"--aic-profiling-out-dir {side}/host -q",
    ):
        if main(words.split()):
            raise RuntimeError(words)


SHEET_COMMANDS = _commands(
    "opstats -i {dir} -o {out} --summary", "opstats -i {dir} -o {out} --trace --perfetto",
    "opstats -i {dir} -o {out} --json", "opstats -i {dir} -o {out} --summary --html {out}.html",
    "inspect {file} --json",
)  # fmt: skip
_BUFFER = "-q {side}/qpc/programqpc.bin -i {dir} -o {out}"
BUFFER_COMMANDS = _commands(
    f"opstats {_BUFFER} --summary", f"opstats {_BUFFER} --trace --flow-events full",
    f"opstats {_BUFFER} --perfetto --show-barrier-events", f"opstats {_BUFFER} --json",
    f"opstats {_BUFFER} --summary --ignore-uuid --html {{out}}.html", "inspect {file} --json",
    f"opstats {_BUFFER} --trace --merge-thread-groups false --ignore-uuid",
)  # fmt: skip
QPC_COMMANDS = _commands(
    "inspect {file}", "inspect {file} --json", "manycore run -t {dir}",
    "manycore run -t {dir} --aic-profiling-type trace --aic-profiling-out-dir {dir}/out_stats",
    "opstats -q {file} -i {side}/stats -o {out} --summary",
    "opstats -q {file} -i {side}/stats -o {out} --trace --ignore-uuid",
    "opstats -i {dir} -o {out} --summary --adapter qaic-desc", "manycore run -t {dir} --json",
)  # fmt: skip
DESC_COMMANDS = _commands(
    "inspect {dir}/programqpc.bin", "inspect {dir}/programqpc.bin --json",
    "opstats -i {dir} -o {out} --summary --adapter qaic-desc",
    "opstats -i {dir} -o {out} --json --adapter qaic-desc",
)  # fmt: skip
RAW_COMMANDS = _commands(
    "opstats -i {dir} -o {out} --summary --raw-layout {dir}/mine.json --adapter qaic-raw",
    "opstats -i {dir} -o {out} --trace --raw-layout {dir}/mine.json --adapter qaic-raw",
    "opstats -i {dir} -o {out} --json --raw-layout {dir}/mine.json --adapter qaic-raw",
)  # fmt: skip
_SEGMENTS: tuple[Mutator, ...] = (*BINARY, *(_odd_segment,) * 18)

MANYCORE: tuple[Target, ...] = (
    Target("core_machine", lambda side: [MACHINE.read_bytes()], TOML, _commands(
        "manycore compile -model {side}/conv.onnx -o {out} --machine-file {file}",
        "manycore compile -model {side}/conv.onnx -o {out} --machine-file {file} --json",
        "manycore run -t {side}/compiled --machine-file {file}",
        "manycore run -t {side}/compiled --machine-file {file} --json"), "own.toml"),
    Target("opstats_summary", lambda side: [TEXTS["opstats_summary"].encode()], TEXT, _commands(
        "inspect {file}", "inspect {file} --json", "explain {file}", "explain {file} --json"),
        "summary.txt"),
    Target("specializations", lambda side: [
        b'{"specializations": [{"name": "a", "symbols": {"n": "1"}}]}'],
        JSON, _commands("inspect {file}", "inspect {file} --json",
        "manycore compile -model {side}/conv.onnx -o {out} -network-specialization-config {file}"),
        "specializations.json"),
    Target("qpc", _programs, _SEGMENTS, QPC_COMMANDS, "programqpc.bin", "around"),
    Target("networkdesc", _descs, PROTOBUF, DESC_COMMANDS, lay=_lay_descriptor),
    Target("opstatsdesc", _opstats_descs, PROTOBUF, _commands(
        "opstats -i {dir} -o {out} --summary --adapter qaic-desc --descriptors {file}",
        "opstats -i {dir} -o {out} --json --adapter qaic-desc --descriptors {file}"),
        "desc.pb", "described"),
    Target("stats_buffer", _buffers, (*BINARY, *(_odd_contents,) * 12), BUFFER_COMMANDS,
           f"{STEM}-aiccyclecounts.bin", keeps=True),
    Target("opstats", _opstats_tables, JSON, _commands(
        "inspect {file}", "inspect {file} --json", "gate {file} --max total_ms=1",
        "compare {file} {file}"), "opstats.json"),
    Target("qaic_text", lambda side: [adapter_samples.SUMMARY.encode()], TEXT, SHEET_COMMANDS,
           "summary.txt"),
    Target("qaic_trace", _traces, JSON, SHEET_COMMANDS, "trace.json"),
    Target("onnxruntime", _ort_profile, JSON, SHEET_COMMANDS, "profile.json"),
    Target("etdump", _etdumps, BINARY, SHEET_COMMANDS, "run.etdp"),
    Target("qaic_raw", _from(RAW_NAME), BINARY, RAW_COMMANDS, RAW_NAME, "raw"),
    Target("raw_layout", _from("mine.json"), JSON, RAW_COMMANDS, "mine.json", "raw"),
    Target("host_trace", _host_traces, JSON, _commands(
        "opstats -q {side}/qpc/programqpc.bin -i {side}/stats -o {out} --trace --host-trace {file}",
        "opstats -q {side}/qpc/programqpc.bin -i {side}/stats -o {out} --perfetto "
        "--host-trace {file}"), "host.json"),
)  # fmt: skip
