# ruff: noqa: E501
"""What a file is, told by its content; no number of a text file is lost."""

from __future__ import annotations

import contextlib
import json
import random
import struct
from pathlib import Path

import pytest

import npuscope
from identify.edge_tpu import edge_tpu_file
from models import mobilenet_like, to_onnx, to_tflite
from npuscope.errors import FileError, NpuscopeError
from npuscope.families.ethos_u.family import FAMILY as ETHOS_U
from npuscope.identify.path import identify
from npuscope.identify.sample import Sample
from npuscope.identify.table import Identity, format_of, formats
from npuscope.program.model import to_json
from number_proof import lost_numbers, numbers, numbers_in
from program.sample import sample
from report_texts import (
    CONSOLE,
    EVENTS,
    NEW_REPORT,
    OLD_REPORT,
    PROFILER_LOG,
    RESULTS,
    VALIDATE_REPORT,
    as_ide_log,
)

MD5 = "00112233445566778899aabbccddeeff"
C_INFO = {
    "json_schema_version": "2.0",
    "environment": {
        "tools": [{"version": "4.0.0", "input_model": {"model_files": [{"signature": f"0x{MD5}"}]}}]
    },
    "graphs": [
        {
            "nodes": [
                {"name": "epoch_0", "mapping": "NODE_NO_X"},
                {"name": "epoch_1", "mapping": "NODE_EC"},
                {"name": "epoch_2", "mapping": "NODE_SW"},
                {"name": "epoch_3", "mapping": "NODE_SW_HW"},
                {"name": "epoch_4", "mapping": "NODE_NO_X"},
                {"name": "epoch_5", "mapping": "NODE_NO_X"},
            ]
        }
    ],
    "buffers": [{"id": 1}, {"id": 2}],
    "memory_pools": [{"id": 1}],
    "power_estimates": [{"max_cycles": 30, "compute_cycles": 20, "ops": 7}, {"max_cycles": 12}],
    "ec_blobs_info": [{"name": "_ec_blob_1"}],
}
QUANT = {"version": "4.0", "tensors": {"a": {}, "b": {}}, "nodes": {"n": {}}, "environment": {}}
MPOOL = {
    "memory": {
        "mempools": [
            {
                "fname": "AXISRAM5",
                "name": "npuRAM5",
                "prop": {"rights": "ACC_WRITE", "byteWidth": 8, "freqRatio": 1.25},
                "offset": {"value": "0x342E0000", "magnitude": "BYTES"},
                "size": {"value": 448, "magnitude": "KBYTES"},
            }
        ]
    }
}
MDESC = {
    "machine": {"name": "m", "version": "1.0", "accelerators": [{"type": "CONVACC", "num": 4}]}
}
ART = {"Globals": {}, "Profiles": {"fast": {"options": "-O3"}}}
CSV = (
    "epochs,ram (r),ram (w),ram (r+w),max (cycles)\n0 ,0,0,0,0\n1 ,5,6,11,3.5e-05\n2 ,1,1,2,40\n"
    "3 ,0,0,0,0\n\nTotal,6,7,13,0\n\nram , 9.73 KB , total bytes r/w BW,1.5e+08\nflash , ?\n\n"
    "Total cycles,77\nTotal ideal cycles,66\nTotal OPS,55\n"
)
BLOBS = (
    "#define VERSION 7\nstatic const uint64_t _ec_blob_net_1[] __attribute__((aligned(64))) = {\n"
    "  0x00000005ca057a7aULL, 0x12ULL,\n};\nstatic const uint64_t _ec_blob_net_2[2] = {0x1, 0xFF};\n"
)
NETWORK_C = """/* GIT_DESCRIPTION "tool-v1.1.0-31" */
static void LL_ATON_Start_EpochBlock_1(const void *epoch_block) { init(0x342e0000UL, 12, -1.5f); }
static void LL_ATON_End_EpochBlock_2(const void *epoch_block) { }
const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_tiny(void) {
  static const EpochBlock_ItemTypeDef ll_atonn_rt_epoch_block_array[] = {
    { .start_epoch_block = LL_ATON_Start_EpochBlock_1, .end_epoch_block = NULL, .wait_mask = 0x10,
      .flags = EpochBlock_Flags_epoch_start | EpochBlock_Flags_epoch_end | EpochBlock_Flags_pure_hw },
    { .end_epoch_block = LL_ATON_End_EpochBlock_2,
      .flags = EpochBlock_Flags_epoch_start | EpochBlock_Flags_epoch_end | EpochBlock_Flags_pure_sw },
    { .flags = EpochBlock_Flags_last_eb },
  };
}
"""
WEIGHTS_C = "const uint64_t _mem_pool_xSPI2_net[2] = {\n0x0102030405060708ULL, 7,\n};\n"
NETWORK_H = (
    '#define LL_ATON_NET_C_MODEL_NAME "net"\n#define LL_ATON_NET_ORIGIN_MODEL_NAME "m"\n'
    "#define LL_ATON_NET_IN_NUM (1)\n#define LL_ATON_NET_OUT_NUM (2)\n"
)
OPTIONS = (
    '# Tool: /atonn\n# Version atonn.1.1.0-31\n\nonnx-input="C:/a/m.onnx"\nc-output="network"\n'
)
CPU_REPORT = (
    "ST Edge AI Core v2.1.0-20194\n\nExec/report summary (generate)\n---\n"
    f"c_name   :   network\nmodel_hash   :   0x{MD5}\nmacc   :   122,722\n"
)
REPORT_JSON = {"cli_parameters": "generate", "exec_cmd": "generate", "layers": [{}, {}]}
C_GRAPH = {"c_layers": [{}], "c_arrays": [], "memory_pools": {}, "c_name": "net"}
VALUES_CSV = "# file created : today\n# dtype=int8\n# c-model features\n1.0\n2.0\n"
SUMMARY = (
    "Specialization: net\n\n\ncore  ucycles  ucycles(%)     pcycles  pcycles(%)  count      out KB  "
    "ucycles/KB  pcycles/KB  stddev(pc/KB)  opdetails\n"
    "c0        103      81.97%         N/A         N/A      3      360.00        0.29         N/A"
    "            N/A  aiccopytovtcm DMAIssue DDR \n\n"
    "c0 total:             125 ucycles            6832 pcycles (thread max)\n"
    "c0    t0 HVX                  125 ucycles [1000, 1125]            6831 pcycles  46.73% "
    "utilization\n"
)
TEXTS = {
    "opstats_summary": SUMMARY,
    "specializations": '{"specializations": [{"batch_size": "1", "seq_len": "128"}]}',
    "opstats": '{"schema": "npuscope/opstats/1", "buffers": [], "totals": {}}',
    "weights_c": WEIGHTS_C,
    "network_h": NETWORK_H,
    "atonn_options": OPTIONS,
    "cpu_report": CPU_REPORT,
    "report_json": json.dumps(REPORT_JSON),
    "c_graph": json.dumps(C_GRAPH),
    "validation_csv": VALUES_CSV,
    "runtime_source": "/**\n * @file    ll_aton_lib.c\n */\n#include <stdint.h>\n",
    "ec_listing": "; _ec_blob_1\n; epoch-controller blob: 12 words, 3 epochs\n",
    "blob_trace": '#include "ll_aton_ec_trace.h"\nint main(void) { return 0; }\n',
    "stai_api": "/* AUTOGENERATED */\n/**\n * @file    stai_net.c\n */\n",
    "intel_hex": ":020000047100" + "89\n:0400000001020304F2\n:00000001FF\n",
    "generate_report": OLD_REPORT,
    "validate_report": VALIDATE_REPORT,
    "profiler_log": PROFILER_LOG,
    "network_csv": CSV,
    "ec_blob": BLOBS,
    "network_c": NETWORK_C,
    "c_info": json.dumps(C_INFO),
    "quant_json": json.dumps(QUANT),
    "mpool": json.dumps(MPOOL),
    "mdesc": json.dumps(MDESC),
    "art_profile": "// ours\n" + json.dumps(ART),
    "program": to_json(sample()).decode(),
}
BINARIES = {
    "elf": b"\x7fELF\x01\x01".ljust(16, b"\0")
    + struct.pack("<2H5I6H", 1, 40, 1, 0, 0, 52, 0, 52, 0, 0, 40, 0, 0),
    "edgetpu_tflite": edge_tpu_file(),
    "tflite": to_tflite(mobilenet_like()),
    "onnx": to_onnx(mobilenet_like()),
    "ec_blob": struct.pack("<4I", 0xCA057A7A, 2, 7, 8),
    "loadable": b"NBIN" + struct.pack("<23I", *range(23)),
    "qpc": struct.pack("<IBBHQQQQ", 0x00A1CD7C, 0, 1, 1, 40, 0, 0, 40),
    "stats_buffer": b"OSBSTAT1" + struct.pack("<HHI16s4H2I2Q", 1, 2, 0x01020304, b"", *range(8)),
    "raw_image": bytes(range(256)) * 4,
}


def told(tmp_path: Path, content: str | bytes) -> Identity:
    path = tmp_path / "file"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return identify(path)


@pytest.mark.parametrize("kind", TEXTS)
def test_texts_are_told_by_content(kind: str, tmp_path: Path) -> None:
    assert told(tmp_path, TEXTS[kind]).kind == kind


@pytest.mark.parametrize("kind", BINARIES)
def test_binaries_are_told_by_content(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(BINARIES[kind])
    assert format_of(Sample(path)).kind == kind


@pytest.mark.parametrize("kind", ["loadable", "stats_buffer"])
def test_a_header_without_the_rest_is_refused_with_its_place(kind: str, tmp_path: Path) -> None:
    with pytest.raises(FileError) as error:
        told(tmp_path, BINARIES[kind])
    assert "byte" in str(error.value.where)


@pytest.mark.parametrize("kind", sorted(set(BINARIES) - {"loadable", "stats_buffer"}))
def test_binaries_are_measured(kind: str, tmp_path: Path) -> None:
    found = told(tmp_path, BINARIES[kind])
    assert found.summary["bytes"] == len(BINARIES[kind])


def test_every_row_of_the_table_is_reached() -> None:
    own = {row.kind for row in ETHOS_U.formats()}  # tests/ethos_u/test_family.py
    known = {row.kind for row in formats()} - own
    assert known - {"profile", "estimate"} == set(TEXTS) | set(BINARIES)


def test_an_empty_file_is_an_empty_image(tmp_path: Path) -> None:
    assert told(tmp_path, b"").summary["bytes"] == 0


@pytest.mark.parametrize(
    "text",
    [
        OLD_REPORT,
        CONSOLE + NEW_REPORT,
        as_ide_log(OLD_REPORT + RESULTS),
        VALIDATE_REPORT,
        PROFILER_LOG,
        EVENTS,
        CSV,
        BLOBS,
        *(TEXTS[kind] for kind in ("c_info", "mpool", "mdesc", "program")),
    ],
)
def test_no_number_of_a_text_is_lost(text: str, tmp_path: Path) -> None:
    told(tmp_path, text)
    assert not lost_numbers(tmp_path / "file")


def test_the_proof_notices_a_loss(tmp_path: Path) -> None:
    found = told(tmp_path, OLD_REPORT).summary
    del found["values"]["used_ranges"]
    assert (numbers(OLD_REPORT) - numbers_in(found))[float(0x710003F0)] == 1


def test_counts_of_a_description(tmp_path: Path) -> None:
    summary = told(tmp_path, TEXTS["c_info"]).summary
    expected = {
        "epochs": 3,
        "sw_epochs": 1,
        "hybrid_epochs": 1,
        "hw_epochs": 1,
        "buffers": 2,
        "pools": 1,
        "blobs": 1,
        "total_max_cycles": 42,
        "total_compute_cycles": 20,
        "model_md5": MD5,
        "flavour": "compiler",
    }
    assert {key: summary[key] for key in expected} == expected


def test_counts_of_a_table(tmp_path: Path) -> None:
    summary = told(tmp_path, CSV).summary
    assert (summary["rows"], summary["epochs"], summary["pools"]) == (4, 2, 1)
    assert (summary["total_max_cycles"], summary["total_ops"]) == (77, 55)


def test_counts_of_sources(tmp_path: Path) -> None:
    source = told(tmp_path, NETWORK_C)
    assert source.version == "tool-v1.1.0-31"
    assert source.summary["network"] == "tiny"
    # A piece of a source that cannot be read whole: what its table states.
    assert [source.summary[k] for k in ("items", "epochs", "sw_epochs")] == [2, 2, 1]
    assert source.ignored
    blobs = told(tmp_path, BLOBS).summary
    assert (blobs["blobs"], blobs["words"], blobs["magic"]) == (2, 4, ["0x1", "0xca057a7a"])


def test_a_network_is_counted_as_it_is_timed(tmp_path: Path) -> None:
    model = tmp_path / "net.tflite"
    model.write_bytes(to_tflite(mobilenet_like()))
    program = npuscope.compile(model, tmp_path / "build")
    summary = identify(tmp_path / "build" / "network.c").summary
    profile = npuscope.estimate(tmp_path / "build" / "network.c")
    assert summary["epochs"] == len(profile.epochs) == len(program.executed)
    assert summary["inputs"] == ["input int8[1,12,12,3]"]
    assert (summary["macs"], summary["params"]) == (profile.model.macs, profile.model.params)
    assert "numbers_by_line" not in summary["values"]


RECORDED = """;; Start Blob '_ec_blob_1'
label 0x1
writefield 0 4 [18] 0x1
burstwriteinc 8 2 _user_io_input_0(0x40) 0x30000
write 9 2 0x342e0000
poll 4 0 [1] 0x0 100
irq 0x0
"""


def test_the_recorders_text_is_a_listing(tmp_path: Path) -> None:
    listing = told(tmp_path, RECORDED)
    assert listing.kind == "ec_listing"
    assert (listing.summary["epochs"], listing.summary["words"]) == (1, 11)
    assert listing.summary["set_when_loaded"] == ["_user_io_input_0"]


def test_pools_are_listed(tmp_path: Path) -> None:
    (pool,) = told(tmp_path, json.dumps(MPOOL)).summary["memories"]
    assert (pool["name"], pool["address"], pool["size_bytes"]) == ("npuRAM5", "0x342e0000", 458752)


def test_counts_of_a_program(tmp_path: Path) -> None:
    found = told(tmp_path, TEXTS["program"])
    assert (found.version, found.summary["epochs"], found.summary["sw_epochs"]) == ("1", 3, 1)


def test_counts_of_models(tmp_path: Path) -> None:
    for kind in ("tflite", "onnx"):
        summary = told(tmp_path, BINARIES[kind]).summary
        assert summary["ops"] > 0
        assert len(summary["model_md5"]) == 32


def test_a_log_of_build_and_run_keeps_both_counts(tmp_path: Path) -> None:
    found = told(tmp_path, as_ide_log(CONSOLE + OLD_REPORT + RESULTS))
    assert found.kind == "validate_report"
    assert (found.summary["epochs"], found.summary["measured_epochs"]) == (5, 4)
    assert found.summary["model_md5"] == "0123456789abcdef0123456789abcdef"


def test_a_mended_file_says_so(tmp_path: Path) -> None:
    text = json.dumps(MPOOL).replace('"magnitude": "K', 'magnitude": "K')
    assert "lacks a quote" in told(tmp_path, text).summary["notes"][0]


@pytest.mark.parametrize("text", ["Dear reader,\n", "{}", "[1]", '{"a": 1}', "\x7fEL and more"])
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        told(tmp_path, text)
    assert "unrecognised file type" in caught.value.message
    assert "generate_report" in caught.value.hint


@pytest.mark.parametrize("kind", [*TEXTS, *BINARIES])
def test_truncation_anywhere_reads_or_refuses(kind: str, tmp_path: Path) -> None:
    data = BINARIES.get(kind) or TEXTS[kind].encode()
    for end in range(0, len(data), max(1, len(data) // 60)):
        try:
            assert told(tmp_path, data[:end]).kind
        except NpuscopeError as error:
            assert error.exit_code == 3


@pytest.mark.parametrize("kind", [*TEXTS, *BINARIES])
def test_damage_anywhere_reads_or_refuses(kind: str, tmp_path: Path) -> None:
    source = random.Random(kind)
    for _ in range(40):
        data = bytearray(BINARIES.get(kind) or TEXTS[kind].encode())
        for _ in range(source.randint(1, 8)):
            data[source.randrange(len(data))] = source.randrange(256)
        try:
            assert told(tmp_path, bytes(data)).kind
        except NpuscopeError as error:
            assert error.exit_code == 3


@pytest.mark.parametrize(
    "text",
    [
        '{"json_schema_version": "2.0", "graphs": [], "buffers": ' + "9" * 5000 + "}",
        '{"json_schema_version": "2.0", "graphs": [], "power_estimates": [{"max_cycles": 1e308},'
        ' {"max_cycles": NaN}, {"max_cycles": "x"}, 5]}',
        '{"json_schema_version": 2, "graphs": {"nodes": 5}, "environment": [], "buffers": 3}',
        "[" * 100_000,
        '{"a":' * 100_000,
        "uint64_t _ec_blob_a[] = {" * 20_000,
        "epochs," + "9" * 60_000,
        "epochs," + "1," * 30_000,
        "LL_ATON_EpochBlockItems_" * 20_000,
        "GIT_DESCRIPTION " * 20_000,
    ],
    ids=range(10),
)
def test_hostile_texts_are_quick_and_harmless(text: str, tmp_path: Path) -> None:
    with contextlib.suppress(FileError):
        json.dumps(told(tmp_path, text).summary, allow_nan=False)


def test_random_bytes_are_an_image(tmp_path: Path) -> None:
    found = told(tmp_path, random.Random(1).randbytes(5000))
    assert (found.kind, found.ignored) == ("raw_image", ("bytes 0-5000",))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", Path("/dev/zero"), "a\0b"):
        with pytest.raises(FileError):
            identify(path)


def test_what_is_around_a_network_is_counted(tmp_path: Path) -> None:
    counts = {kind: told(tmp_path, TEXTS[kind]).summary for kind in TEXTS}
    assert counts["intel_hex"]["addresses"] == ["0x71000000-0x71000004"]
    assert counts["weights_c"]["data_bytes"] == 16
    assert (counts["network_h"]["inputs"], counts["network_h"]["outputs"]) == (1, 2)
    assert counts["atonn_options"]["input"] == "m.onnx"
    assert counts["cpu_report"]["model_md5"] == MD5
    assert counts["cpu_report"]["macc"] == "122,722"
    assert counts["report_json"]["layers"] == 2
    assert counts["c_graph"]["target"] == "CPU"
    assert counts["validation_csv"]["rows"] == 2
    assert counts["stai_api"]["network"] == "net"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89HDF\r\n\x1a\n\0\0", "is a Keras model in HDF5"),
        (b"#!/bin/sh\n", "is a script, not a network"),
        (
            b"#include <stdint.h>\nint main(void);\n",
            "is C code of a runtime or an application, not of a network",
        ),
        (
            b"const ai_u64 s_network_weights_array_u64[1] = {0};\n",
            "holds the data of a network for the CPU, not for the NPU",
        ),
    ],
)
def test_what_holds_no_network_is_told(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        told(tmp_path, content)
    assert caught.value.message == message


def test_epochs_inside_of_blobs_are_counted(tmp_path: Path) -> None:
    inner = [
        {"name": f"epoch_{n}", "mapping": kind}
        for n, kind in enumerate(("NODE_HW", "NODE_HW", "NODE_NO_X"), 1)
    ]
    nodes = [{"name": "epoch_0"}, {"name": "b", "id": 6, "subgraph_nodes": inner}]
    value = C_INFO | {"graphs": [{"nodes": nodes}], "ec_blobs_info": [{"blob_id": 6}]}
    counts = told(tmp_path, json.dumps(value)).summary
    assert (counts["epochs"], counts["hw_epochs"]) == (2, 2)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("ocr_det_atonbuf.xSPI2.raw", b"\x80" * 4096, "raw_image"),  # no control characters
        ("atonbuf.xSPI2.raw", b"plain words\n" * 9, "raw_image"),
        ("some.bin", b"\x80" * 4096, "raw_image"),
    ],
)
def test_weights_are_an_image_whatever_they_look_like(
    name: str, content: bytes, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert format_of(Sample(path)).kind == kind
