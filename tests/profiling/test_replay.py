"""A log as a device: grouping into inferences and passes, what it says of itself, its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from npuscope.boards.device import NOTHING, BoardClocks, CounterOption, Device, Request
from npuscope.errors import DeviceError, FileError
from npuscope.profiling.profiler_log import parse_profiler_log
from npuscope.profiling.recorded import LogDevice, recorded_clocks
from npuscope.profiling.validate_report import read_validate_report
from npuscope.program.generate_report.lines import split_lines
from npuscope.program.model import EpochKind
from npuscope.structs import replace
from report_texts import VALIDATE_REPORT

KWS_LOG = (
    Path(__file__).parents[2]
    / ".."
    / "shared/data/artefacts/SeongMin1000__N6_cusotm_validation/npu_profiler_kws.log"
).resolve()
INPUTS, OUTPUTS, BUSES = CounterOption(0x31), CounterOption(0x51), CounterOption(0x08)

CONFIG = """s:config:version:1.0
s:config:dev_id:0x486
s:config:mcu_freq:600000000
s:config:noc_freq:400000000
s:config:npu_freq:800000000
s:config:nic_freq:750000000
s:config:npu_cache:1
"""
SUMMARY = """I[1/1] 'serving:0'  :   int8[1,4,5,1], 20 Bytes, QLinear(0.25,-5,int8), activations
O[1/2] 'left'       :   uint8[1,3], 3 Bytes, QLinear(0.5,0,uint8), activations
O[2/2] 'right'      :   float32[1,2], 8 Bytes, activations
n_nodes             :   2
activations         :   4096
compile_datetime    :   Jan 1 2030 00:00:00
protocol            :   Made-up driver v1
tools               :   Tools v9
runtime lib         :   lib-v9
capabilities        :   IO_ONLY, PER_LAYER
device.desc         :   stm32 family - 0x486 - test
"""
COUNTERS = {
    INPUTS: "s:node:npu_cycles:10:{core}:12\ns:node:streng_active:i:4:{core}:0\n"
    "s:node:streng_active:max:i:4:{core}\ns:node:npu_cache:r:1:2:3:4\ns:node:npu_cache:w:5:6:7:8\n",
    OUTPUTS: "s:node:npu_cycles:10:{core}:12\ns:node:streng_active:o:7:{core}:0\n"
    "s:node:streng_active:max:o:7:{core}\ns:node:npu_cache:r:1:2:3:4\ns:node:npu_cache:w:5:6:7:8\n",
    BUSES: "s:node:port0:burst:w:1:0:0:2\ns:node:port0:burst:r:3:1:1:1\n"
    "s:node:port1:burst:w:0:0:0:0\ns:node:port1:burst:r:4:0:0:0\n"
    "s:node:portx:burst:rw:144:136:280:0\n",
}
SOFTWARE = {
    option: "s:node:npu_cycles:1:2:900\ns:node:streng_active:max:i:-1:0\n"
    if option is not BUSES
    else "s:node:port0:burst:r:0:0:0:0\n"
    for option in COUNTERS
}


def node(index: int, span: str, kind: str, cycles: tuple[int, int, int], counters: str) -> str:
    pre, core, post = cycles
    flags = {"EC": "00000017", "SW": "00000023"}[kind]
    first, last = span.split(":")
    return (
        f"s:node:evt_pre_start:{index}:{first}:{span}:{flags}:05000004:{kind}\n"
        f"s:node:evt_post_end:{index}:{first}:{span}:1\n"
        f"s:node:mcu_cycles:{pre}:{core}:{post}\n"
        + counters.format(core=core + 100)
        + f'[D]  name="" counters="CPU cycles"[{pre}, {core}, {post}] dur=0.001ms '
        f'id={first}.{last} type=0x1000004/INTERNAL,"epoch ({kind})"\n'
    )


def inference(options: CounterOption, core: int, sample: int, network: str = "tiny") -> str:
    mark = int(options) << 8 | (sample == 0)
    mode = "PERF_ONLY|PER_LAYER" if options else "PERF_ONLY"
    head = f"[D]    -> Requested RUN mode: Mode.{mode} (param=0b1, option={mark:#x})\n"
    end = f'[D] name="{network}" counters="CPU cycles"[0, 0, 0, {core + 2000}, 0] '
    end += 'dur=0.010ms id=0.0 type=0x0/NONE,"epoch"\n'
    if not options:
        return head + end
    hardware = node(0, "1:6", "EC", (40, core, 60), COUNTERS[options])
    return head + hardware + node(1, "7:7", "SW", (4, 3, 800), SOFTWARE[options]) + end


def whole_log(samples: int = 2) -> str:
    passes = (NOTHING, INPUTS, OUTPUTS, BUSES)
    runs = [inference(o, 5000 + 10 * s, s) for o in passes for s in range(samples)]
    return CONFIG + SUMMARY + "".join(runs)


def device(text: str) -> LogDevice:
    return LogDevice(parse_profiler_log(split_lines(text, "log")))


def bare(text: str) -> str:
    """Only what the board itself sent."""
    return "".join(line + "\n" for line in text.splitlines() if line.startswith("s:"))


def test_info_from_configuration_and_header() -> None:
    info = device(whole_log()).info()
    assert info.clocks == BoardClocks(600_000_000, 400_000_000, 800_000_000, 750_000_000)
    assert (info.device_id, info.npu_cache) == (0x486, True)
    assert info.protocol == "Made-up driver v1"
    assert info.description == "stm32 family - 0x486 - test"
    assert info.capabilities == ("IO_ONLY", "PER_LAYER")
    (network,) = info.networks
    assert (network.name, network.nodes, network.activations_bytes) == ("tiny", 2, 4096)
    assert (network.compiled, network.tools) == ("Jan 1 2030 00:00:00", "Tools v9")
    (image,) = network.inputs
    assert (image.name, image.shape, image.dtype) == ("serving:0", (1, 4, 5, 1), "int8")
    assert (image.scale, image.zero_point) == (0.25, -5)
    assert [t.name for t in network.outputs] == ["left", "right"]
    assert (network.outputs[1].scale, network.outputs[1].size_bytes) == (0.0, 8)


def test_passes_are_told_apart() -> None:
    log = device(whole_log(3))
    assert [len(log.inferences(o)) for o in (INPUTS, OUTPUTS, BUSES, CounterOption(2))] == [
        3,
        3,
        3,
        0,
    ]
    assert len(log.inferences(NOTHING, per_layer=False)) == 3


def test_the_counters_of_a_node() -> None:
    log = device(whole_log())
    hardware, software = log.inferences(INPUTS)[1].nodes
    assert (hardware.name, hardware.number, hardware.last) == ("EpochBlock_1 -> 6", 1, 6)
    assert (hardware.kind, hardware.flags, hardware.extra) == (EpochKind.HW, 0x17, False)
    assert (hardware.mcu_cycles, hardware.npu_cycles) == ((40, 5010, 60), (10, 5110, 12))
    assert hardware.engines == {(4, "i"): 5110}
    assert (hardware.cache_read, hardware.cache_write) == ((1, 2, 3, 4), (5, 6, 7, 8))
    assert (software.name, software.kind, software.engines) == ("EpochBlock_7", EpochKind.SW, {})
    bus = log.inferences(BUSES)[0].nodes[0]
    assert (bus.npu_cycles, bus.cache_read) == (None, None)
    assert bus.bursts == {
        (0, "w"): (1, 0, 0, 2),
        (0, "r"): (3, 1, 1, 1),
        (1, "w"): (0, 0, 0, 0),
        (1, "r"): (4, 0, 0, 0),
    }


def test_an_inference_has_the_time_of_its_own_counter() -> None:
    log = device(whole_log())
    found = log.inferences(INPUTS)[0]
    assert found.mcu_cycles == (44, 5003, 860)
    assert found.duration_ms == pytest.approx(7000 / 600_000)
    (warm_up, _) = log.inferences(NOTHING, per_layer=False)
    assert (warm_up.nodes, warm_up.outputs) == ((), ())
    assert warm_up.duration_ms == pytest.approx(7000 / 600_000)


def test_run_hands_out_in_order_and_says_when_it_ends() -> None:
    log: Device = device(whole_log())
    request = Request("tiny", options=OUTPUTS)
    cores = [log.run(request).nodes[0].mcu_cycles[1] for _ in range(2)]
    assert cores == [5000, 5010]
    with pytest.raises(DeviceError) as error:
        log.run(request)
    assert error.value.message == "no more inferences with options 0x51 for 'tiny': the log has 2"
    assert log.run(Request("tiny", options=INPUTS)).nodes[0].engines == {(4, "i"): 5100}
    log.close()
    assert log.run(request).nodes[0].mcu_cycles[1] == 5000


def test_a_pass_that_was_not_recorded() -> None:
    with pytest.raises(DeviceError) as error:
        device(whole_log()).run(Request("tiny", options=CounterOption.STRG_HENV))
    assert error.value.message == "the log has no inference with options 0x4 for 'tiny'"
    assert error.value.hint == (
        "per-layer passes in it, with their inferences: 0x31 (2), 0x51 (2), 0x8 (2)"
    )


def test_another_network_is_not_handed_out() -> None:
    text = whole_log() + inference(INPUTS, 9000, 0, "second")
    log = device(text)
    assert [n.name for n in log.info().networks] == ["tiny", "second"]
    assert log.run(Request("second", options=INPUTS)).nodes[0].mcu_cycles[1] == 9000
    with pytest.raises(DeviceError, match="no more"):
        log.run(Request("second", options=INPUTS))


def test_a_bare_capture_is_grouped_by_index_and_counters() -> None:
    log = device(bare(whole_log()))
    assert [int(row.options) for row in log.recorded] == [0x31, 0x31, 0x51, 0x51, 8, 8]
    assert [len(row.inference.nodes) for row in log.recorded] == [2] * 6
    assert log.run(Request("any name", options=BUSES)).nodes[0].bursts[0, "r"] == (3, 1, 1, 1)
    assert log.inferences(INPUTS)[0].duration_ms == pytest.approx((44 + 5003 + 860) / 600_000)


def test_a_capture_cut_off_at_any_line() -> None:
    lines = bare(whole_log()).splitlines()
    start = len(CONFIG.splitlines())
    seen = []
    for end in range(start + 20, len(lines) + 1):
        found = device("\n".join(lines[:end])).recorded
        assert all(len(row.inference.nodes) == 2 for row in found)
        seen.append(len(found))
    assert seen == sorted(seen)
    assert seen[-1] == 6


def test_a_log_cut_off_keeps_the_finished_inferences() -> None:
    text = whole_log().rpartition("[D] name=")[0]
    assert len(device(text).inferences(BUSES)) == 1


def test_a_log_without_clocks() -> None:
    text = whole_log().replace("s:config:nic_freq:750000000\n", "")
    with pytest.raises(FileError, match="the log lacks nic_freq"):
        device(text)
    stated = "device.attrs : fpu,mcu_freq=600MHz,noc_freq=400MHz,npu_freq=800MHz,nic_freq=700MHz\n"
    assert device(text + stated).clocks.nic_hz == 700_000_000


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("evt_pre_start:1:7:7:7:", "evt_pre_start:1:7:7:x:"),
        ("streng_active:i:4:5100:0", "streng_active:i:4:x:0"),
    ],
)
def test_a_line_that_is_not_understood_is_refused(line: str, wrong: str) -> None:
    with pytest.raises(
        FileError, match=f"1 lines of the board hold values that cannot be read, first: {wrong}"
    ):
        device(whole_log().replace(line, wrong, 1))


@pytest.mark.parametrize(
    ("line", "wrong", "message"),
    [
        ("mcu_cycles:40:5000:60", "mcu_cycles:40:5000", "pre, core, post, found 2"),
        ("npu_cache:r:1:2:3:4", "npu_cache:r:1:2:3", "four counts, found 3"),
        (":00000017:05000004:EC", ":00000017:05000004:XY", "unknown kind of node 'XY'"),
    ],
)
def test_lines_of_the_wrong_length(line: str, wrong: str, message: str) -> None:
    with pytest.raises(FileError, match=message):
        device(whole_log().replace(line, wrong))


def test_a_failed_run_does_not_shift_the_options() -> None:
    """Its request stands in the log without an inference."""
    head = inference(OUTPUTS, 1, 0).partition("\n")[0] + "\n"
    text = whole_log()
    at = text.index(inference(INPUTS, 5000, 0))
    log = device(text[:at] + head + text[at:])
    assert [len(log.inferences(o)) for o in (INPUTS, OUTPUTS, BUSES)] == [2, 2, 2]


def test_software_alone_keeps_the_options_asked_for() -> None:
    text = CONFIG + inference(INPUTS, 5000, 0).replace("s:node:streng_active", "s:node:later")
    assert len(device(text).inferences(INPUTS)) == 1


def test_a_block_inside_a_hybrid_has_the_hybrids_number() -> None:
    log = parse_profiler_log(split_lines(whole_log(), "log"))
    inner = [
        replace(run, first=-3, last=-3, current=7, kind="EXTRA") if run.index else run
        for run in log.nodes
    ]
    found = LogDevice(replace(log, nodes=tuple(inner))).inferences(INPUTS)[0].nodes[1]
    assert (found.name, found.number, found.last, found.extra) == ("EpochBlock_7 (3)", 7, -3, True)


def test_extra_blocks_are_marked() -> None:
    text = whole_log().replace(":00000023:05000004:SW", ":000000c3:05000004:EXTRA")
    assert [n.extra for n in device(text).inferences(INPUTS)[0].nodes] == [False, True]


@pytest.mark.skipif(not KWS_LOG.is_file(), reason="the shared files are not on this machine")
def test_the_log_of_a_board() -> None:
    log = LogDevice.open(KWS_LOG)
    assert [len(log.inferences(o, "kws")) for o in (INPUTS, OUTPUTS, BUSES)] == [10, 10, 10]
    assert len(log.inferences(NOTHING, "kws", per_layer=False)) == 10
    (network,) = log.info().networks
    assert (network.name, network.inputs[0].shape) == ("kws", (1, 49, 10, 1))
    first = log.run(Request("kws", options=INPUTS))
    assert first.mcu_cycles == (393, 817152, 372)
    assert first.duration_ms == pytest.approx(818416 / 800_000)
    assert recorded_clocks(parse_profiler_log(split_lines(CONFIG, "log"))).npu_hz == 800_000_000


@pytest.mark.parametrize(
    "tensor",
    ["int255[1,64,64,3]", "int8[99999999999,99999999999]", "object[1]", "int8[" + "1," * 20 + "1]"],
)
def test_a_tensor_that_cannot_be(tensor: str) -> None:
    with pytest.raises(FileError) as caught:
        device(whole_log().replace("int8[1,4,5,1]", tensor))
    assert caught.value.message == f"tensor 'serving:0' has an impossible type or size: {tensor}"
    assert caught.value.where == "log"


def test_the_table_of_a_validation_is_one_inference(tmp_path: Path) -> None:
    path = tmp_path / "network_validate_report.txt"
    path.write_text(VALIDATE_REPORT)
    device = LogDevice.open(path)
    (row,) = device.recorded
    rows = read_validate_report(path).epochs
    assert [node.mcu_cycles for node in row.inference.nodes] == [epoch.cycles for epoch in rows]
    assert [node.kind for node in row.inference.nodes] == [epoch.kind for epoch in rows]
    assert len(rows) > 1
