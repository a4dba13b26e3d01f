"""Buffers and containers: our own buffer, the vendor's raw one, inventories of ops."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from many_core import samples
from npuscope.errors import FileError, UsageError
from npuscope.families.many_core.adapters.model import Companions
from npuscope.families.many_core.adapters.registry import find_adapter, read_sheet
from npuscope.families.many_core.adapters.tables import sheet_tables, sheet_text
from npuscope.families.many_core.buffer import write_buffer
from npuscope.families.many_core.buffer_format import Stats
from npuscope.families.many_core.container import with_program_id, write_program
from npuscope.families.many_core.layout_json import layout_json
from npuscope.families.many_core.networkdesc import NetworkDesc, encode_networkdesc
from npuscope.families.many_core.opstats.tables import opstats_of
from npuscope.families.many_core.qpc import write_qpc
from npuscope.families.many_core.records import SectionId
from npuscope.profiling.model import Provenance
from npuscope.structs import replace
from protobuf_samples import described, field

RAW_NAME = "aic-profiling-program-0-activation-0-inf-213-QAicGraph-aiccyclecounts.bin"
# Fields of a record that is none of ours: other order, other sizes, a gap.
THEIRS = (
    ("end_uc", ">u4"),
    ("skip", "V3"),
    ("start_uc", ">u4"),
    ("thread", "u1"),
    ("core", "u1"),
    ("end_pc", "<u8"),
)


@pytest.fixture
def run(tmp_path: Path) -> tuple[Path, Path, Stats]:
    """A buffer, its program and what was written into it."""
    program = with_program_id(samples.program())
    stats = replace(samples.stats(), layout=program.layout)
    buffer, container = tmp_path / RAW_NAME, tmp_path / "p" / "programqpc.bin"
    container.parent.mkdir()
    buffer.write_bytes(write_buffer(stats))
    container.write_bytes(write_program(program))
    return buffer, container, stats


def test_our_buffer_has_the_figures_of_opstats(run: tuple[Path, Path, Stats]) -> None:
    buffer, container, stats = run
    assert find_adapter(buffer).name == "osb"
    sheet = read_sheet(buffer, Companions(qpc=container))
    expected, found = opstats_of(stats), sheet_tables(sheet)
    assert found.totals == expected.totals
    assert [core.total_pc for core in found.cores] == [core.total_pc for core in expected.cores]
    for mine, theirs in zip(found.cores, expected.cores, strict=True):
        assert [(r.details, r.ucycles, r.pcycles, r.count) for r in mine.ops] == [
            (r.details, r.ucycles, r.pcycles, r.count) for r in theirs.ops
        ]
    assert sheet.provenance is Provenance.SIMULATION


def test_the_program_may_lie_beside_the_buffer(run: tuple[Path, Path, Stats]) -> None:
    buffer, container, _ = run
    with pytest.raises(FileError, match="read with the program that wrote it"):
        read_sheet(buffer)
    container.rename(buffer.parent / "programqpc.bin")
    assert read_sheet(buffer).ops


def test_the_raw_buffer_is_refused_with_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / RAW_NAME
    path.write_bytes(bytes(range(256)))
    assert find_adapter(path).name == "qaic-raw"
    with pytest.raises(FileError) as caught:
        read_sheet(path)
    assert caught.value.message == (
        "this is not one of our buffers, "
        "and the layout of the vendor's raw stats buffer is not public"
    )
    assert "describe the records yourself" in caught.value.hint


def raw_with_layout(folder: Path, **changes: object) -> tuple[Path, Path]:
    """Records of another form than ours, and the description of them."""
    stats = samples.stats()
    spans = stats.of(SectionId.THREAD_INF)
    theirs = np.zeros(len(spans), list(THEIRS))
    for name in ("end_uc", "start_uc", "thread", "core"):
        theirs[name] = spans[name]
    theirs["end_pc"] = spans["end_pc"] - spans["start_pc"]
    raw, description = folder / RAW_NAME, folder / "mine.json"
    raw.write_bytes(bytes(100) + theirs.tobytes())
    layout = json.loads(layout_json(stats.layout))
    section = {
        "id": 1,
        "offset": 100,
        "count": len(spans),
        "record": [{"name": name, "type": kind} for name, kind in THEIRS],
    }
    layout["sections"] = [{**section, **changes}]
    description.write_text(json.dumps(layout))
    return raw, description


def test_a_layout_of_the_user_opens_the_raw_buffer(tmp_path: Path) -> None:
    raw, description = raw_with_layout(tmp_path)
    sheet = read_sheet(raw, Companions(layout=description))
    spans = samples.stats().of(SectionId.THREAD_INF)
    assert [span.ucycles for span in sheet.threads] == [
        int(row["end_uc"] - row["start_uc"]) for row in spans
    ]
    assert sheet.notes[0].startswith("decoded with a layout that the user supplied")
    assert sheet.provenance is Provenance.VENDOR_FILE


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 1_000_000}, "1000000 records of 21 bytes at byte 100 are more than its"),
        ({"record": [{"name": "core", "type": "O"}]}, "has the type 'O', expected such as '<u4'"),
        ({"record": []}, "has no fields"),
        ({"record": [{"name": "a", "type": "u1"}] * 2}, "needs a name of its own"),
        ({"id": 9, "count": 0}, "the layout does not say where the spans of the threads"),
        ({"id": 0}, "section 0 is unknown"),
        ({"offset": -1}, f"expected a number from 0 to {2**63 - 1}, found -1"),
    ],
)
def test_a_wrong_layout_is_named(tmp_path: Path, changes: dict, message: str) -> None:
    raw, description = raw_with_layout(tmp_path, **changes)
    with pytest.raises(FileError) as caught:
        read_sheet(raw, Companions(layout=description))
    assert caught.value.message.startswith(message)


def test_a_section_that_is_nothing(tmp_path: Path) -> None:
    raw, description = raw_with_layout(tmp_path)
    layout = json.loads(description.read_text())
    layout["sections"] = [None]
    description.write_text(json.dumps(layout))
    with pytest.raises(FileError) as caught:
        read_sheet(raw, Companions(layout=description))
    assert str(caught.value) == f"{description}.sections[0]: expected an object, found null"


def test_the_ops_of_a_container(tmp_path: Path) -> None:
    path = tmp_path / "programqpc.bin"
    path.write_bytes(write_program(samples.program()))
    assert find_adapter(path).name == "qaic-desc"
    sheet = read_sheet(path)
    layout = samples.layout()
    listed = [op for groups in layout.specializations[0].ops for ops in groups for op in ops]
    assert sum(row.count for row in sheet.ops) == len(listed)
    assert sum(row.out_bytes or 0 for row in sheet.ops) == sum(op.out_bytes for op in listed)
    adds = next(row for row in sheet.ops if row.kind == "elementadd")
    assert (adds.engine, adds.memory, adds.dtypes, adds.count) == ("HVX", "TCM", ("float16",), 2)
    assert not sheet.timed


def test_an_inventory_is_printed_but_makes_no_tables(tmp_path: Path) -> None:
    path = tmp_path / "programqpc.bin"
    path.write_bytes(write_program(samples.program()))
    sheet = read_sheet(path)
    with pytest.raises(UsageError, match="nothing was timed"):
        sheet_tables(sheet)
    text = sheet_text(sheet)
    assert "note     an inventory of ops: nothing was timed" in text
    assert any(line.endswith("elementadd HVX TCM (float16)") for line in text.splitlines())


def descriptor_file() -> bytes:
    """The messages of the newer descriptor with numbers of our own: theirs are not public."""
    pairs = (2, "id", "i"), (4, "str", "s")
    messages = [
        described("OpstatsDescriptor", (1, "major_version", "i"), (9, "opstats_metadata", "Meta")),
        described("Meta", (1, "common_metadata", "Common"),
                  (3, "specialization_metadata", "*Part")),
        described("Common", (5, "op_details", "Details")),
        described("Details", (1, "op_kind_id_str_pairs", "*Pair"),
                  (2, "op_memory_id_str_pairs", "*Pair")),
        described("Pair", *pairs),
        described("Part", (1, "name", "s"), (2, "core_op_name_kinds", "*Core")),
        described("Core", (1, "tg_op_name_kinds", "*Group")),
        described("Group", (1, "op_name_kinds", "*Op")),
        described("Op", (1, "name", "s"), (2, "oc", "i"), (3, "kind_id", "i"),
                  (4, "memory_id", "i"), (5, "output_size", "i")),
    ]  # fmt: skip
    body = b"".join(field(4, message) for message in messages)
    return field(1, "AICOpstatsDesc.proto") + field(2, "aicopstatsdesc") + body


def opstatsdesc() -> bytes:
    op = field(1, "/a") + field(2, 1) + field(3, 7) + field(4, 2) + field(5, 4096)
    group = field(1, field(1, op) * 3)
    spec = field(1, "QAicGraph") + field(2, group)
    kinds = field(1, field(2, 7) + field(4, "aicsoftmax "))
    memories = field(2, field(2, 2) + field(4, "TCM"))
    return field(9, field(1, field(5, kinds + memories)) + field(3, spec))


@pytest.mark.parametrize("as_set", [True, False])
def test_the_newer_descriptor_with_the_schema_of_the_user(tmp_path: Path, as_set: bool) -> None:
    desc = encode_networkdesc(
        NetworkDesc(major_version=9, network_name="N", thread_group_names=("HVX", "HMX"))
    )
    path, schema = tmp_path / "programqpc.bin", tmp_path / "desc.pb"
    path.write_bytes(write_qpc({"networkdesc.bin": desc, "opstatsdesc.bin": opstatsdesc()}))
    schema.write_bytes(field(1, descriptor_file()) if as_set else descriptor_file())
    with pytest.raises(FileError) as caught:
        read_sheet(path)
    assert caught.value.message == (
        "the ops of this program are in opstatsdesc.bin, whose schema is not public"
    )
    (row,) = read_sheet(path, Companions(descriptors=schema)).ops
    assert (row.core, row.kind, row.memory, row.engine) == (0, "aicsoftmax", "TCM", "HVX")
    assert (row.count, row.out_bytes) == (3, 3 * 4096)


def test_a_program_without_stats_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "programqpc.bin"
    desc = encode_networkdesc(NetworkDesc(major_version=9))
    path.write_bytes(write_qpc({"networkdesc.bin": desc}))
    with pytest.raises(FileError) as caught:
        read_sheet(path)
    assert (caught.value.message, caught.value.hint) == (
        "no ops are listed in this program",
        "compile it with -stats-level=70",
    )


def test_a_schema_of_something_else_is_refused(tmp_path: Path) -> None:
    path, schema = tmp_path / "opstatsdesc.bin", tmp_path / "desc.pb"
    path.write_bytes(opstatsdesc())
    schema.write_bytes(field(1, field(2, "other") + field(4, described("X"))))
    with pytest.raises(FileError, match="descriptors do not contain aicopstatsdesc"):
        read_sheet(path, Companions(descriptors=schema))
    schema.write_bytes(b"")
    with pytest.raises(FileError, match="no message is described"):
        read_sheet(path, Companions(descriptors=schema))
