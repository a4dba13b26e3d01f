"""Logs of the NPU profiler: the board's lines, and the report for people."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from npuscope.errors import FileError
from npuscope.profiling.profiler_events import Busiest, EngineCount, PortBursts
from npuscope.profiling.profiler_log import ProfilerLog, parse_profiler_log, read_profiler_log
from npuscope.program.generate_report.lines import split_lines
from report_texts import EPOCH_TEXT, EVENTS, PROFILER_LOG, RESULTS


def parse(text: str) -> ProfilerLog:
    return parse_profiler_log(split_lines(text, "log"))


def test_the_configuration() -> None:
    log = parse(PROFILER_LOG)
    assert log.version == "1.0"
    assert (log.clock_hz("mcu"), log.clock_hz("npu"), log.clock_hz("nic")) == (
        800_000_000,
        1_000_000_000,
        None,
    )


def test_nodes_of_the_board() -> None:
    first, second = parse(EVENTS).nodes
    assert (first.index, first.first, first.last, first.kind) == (0, 1, 22, "EC")
    assert (first.flags, first.type, first.end) == (0x17, 0x05000004, (0, 1, 1, 22, 3))
    assert first.mcu_cycles == (393, 817152, 372)
    assert first.npu_cycles == (547, 1021650, 629)
    assert first.engines[1] == EngineCount("streng_active", "o", 4, 228262, 793388)
    assert first.busiest == (Busiest("streng_active", "o", 4, 228262),)
    assert (first.cache_read, first.cache_write) == ((7, 1920, 3, 2), (0, 5, 0, 1))
    assert (second.kind, second.mcu_cycles, second.npu_cycles) == ("SW", (45, 30, 91702), ())
    assert second.bursts[0] == PortBursts("port0", "r", (72679, 4216, 4218, 10459))


def test_lines_of_a_later_firmware_are_kept() -> None:
    (event,) = parse(EVENTS).other_events
    assert (event.key, event.values) == ("something_new", ("5", "6"))


def test_a_raw_capture_without_the_tools_prefix() -> None:
    bare = "\n".join(line.partition("] ")[2] for line in EVENTS.split("\n") if "s:" in line)
    assert len(parse(bare).nodes) == 2


def test_inferences() -> None:
    node, whole = parse(EVENTS).inferences
    assert (node.counters, node.ms, node.id) == ((393, 817152, 372), 1.022, "1.22")
    assert (whole.name, whole.counters[3]) == ("tiny", 824122)


def test_the_report_for_people() -> None:
    (epoch,) = parse(PROFILER_LOG).epochs
    assert (epoch.title.first, epoch.title.last, epoch.title.kind) == (1, 22, "EC")
    assert epoch.duration_ms == 1.022
    assert epoch.mcu_cycles == (395, 817199, 368)
    assert epoch.npu_core_cycles == 1021580
    bus, both = epoch.bus
    assert (bus.id, bus.read_bytes, bus.rate, bus.unit) == (0, 1453240, 2.09, "GB/s")
    read, write = bus.bursts
    assert sum(n * c * read.beat_bytes for n, c in zip(read.lengths, read.counts, strict=True)) == (
        bus.read_bytes
    )
    assert write.direction == "w"
    assert (both.id, both.write_bytes) == (None, 1648488)
    assert (epoch.engines[0].active_cycles, epoch.engines[0].percent) == (48172, 5)
    assert epoch.cache is not None
    assert dict(epoch.cache.write)["through"] == 3


def test_the_table_in_the_log_is_read_too() -> None:
    log = parse(PROFILER_LOG)
    assert (log.results.network, len(log.results.nodes)) == ("tiny", 5)


def test_what_the_tool_said_is_kept_as_text() -> None:
    assert [entry.value for entry in parse(EVENTS).messages] == ["-> collecting statistics (b=10)"]


def test_truncation_and_noise_read_or_refuse(tmp_path: Path) -> None:
    path = tmp_path / "log"
    data = PROFILER_LOG.encode()
    noise = random.Random(4)
    inputs = [data[:end] for end in range(0, len(data), 53)]
    inputs += [noise.randbytes(size) for size in (3, 300, 30000)]
    for content in inputs:
        path.write_bytes(content)
        try:
            assert read_profiler_log(path).results is not None
        except FileError:
            continue


@pytest.mark.parametrize(
    "line",
    [
        "s:node:evt_pre_start:" + ":".join(["9" * 3000] * 7),
        "s:node:evt_pre_start:0:1:1:1:zz:0:EC",
        "s:node:npu_cache:",
        "s:node:streng_active:",
        "s:node:streng_active:i",
        "s:node:port0:",
        "s:node:mcu_cycles:" + "1:" * 20000,
        "s:config:mcu_freq:" + "9" * 5000,
        "s:::::",
        "EpochBlock_1 (c_idx=" + "9" * 5000,
        "busif 0 : r=1 w=2 " + "rburst[1]x1=" * 4000,
        "NPU cache cnts : R[" + "[" * 60000,
    ],
)
def test_hostile_lines_are_harmless(line: str) -> None:
    log = parse(EVENTS + line + "\n" + EPOCH_TEXT + RESULTS)
    assert len(log.nodes) == 2
    assert log.clock_hz("mcu") in (800_000_000, None)


def test_another_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(RESULTS)
    with pytest.raises(FileError, match="this is not a profiler log"):
        read_profiler_log(path)
