"""The network descriptor against an independent protobuf, and damaged ones."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from many_core import samples
from npuscope.errors import FileError
from npuscope.families.many_core.container import networkdesc_of, stats_bytes
from npuscope.families.many_core.networkdesc import (
    MAJOR,
    CopyDmaBuffer,
    DmaBuffer,
    IoBinding,
    IoDescriptor,
    NetworkDesc,
    OpNameKind,
    StatsDesc,
    Transform,
    decode_networkdesc,
    encode_networkdesc,
)

# The public schema as far as it matters: message -> name, number, type, repeated.
SCHEMA: dict[str, list[tuple[str, int, str, bool]]] = {
    "networkDescriptor": [
        ("major_version", 1, "uint32", False),
        ("minor_version", 2, "uint32", False),
        ("network_name", 3, "string", False),
        ("inputs", 4, "IOBinding", True),
        ("outputs", 5, "IOBinding", True),
        ("dma_buffers", 6, "DMABuffer", True),
        ("num_cores", 7, "uint32", False),
        ("num_threads", 8, "uint32", False),
        ("num_hvx_threads", 9, "uint32", False),
        ("thread_groups", 10, "uint32", True),
        ("thread_group_issue_count", 11, "uint32", False),
        ("stats", 12, "Stats", False),
        ("thread_group_names", 13, "string", True),
        ("batch_size", 14, "int32", False),
    ],
    "IODescriptor": [
        ("type", 1, "uint32", False),
        ("qscale", 2, "float", False),
        ("qoffset", 3, "int32", False),
        ("dims", 4, "int32", True),
        ("layout", 5, "uint32", False),
    ],
    "IOBinding": [
        ("name", 1, "string", False),
        ("io_initial", 2, "IODescriptor", False),
        ("io_transformed", 3, "IODescriptor", False),
        ("transformseq", 4, "transform", True),
        ("is_partial_allowed", 5, "bool", False),
        ("align", 6, "uint32", False),
    ],
    "DMABuffer": [("size", 1, "uint32", False), ("dir", 2, "uint32", False)],
    "OpNameKind": [
        ("name", 1, "string", False),
        ("kind", 2, "string", False),
        ("type", 3, "string", False),
        ("memory", 4, "string", False),
        ("shape", 5, "string", False),
        ("operand", 6, "string", False),
        ("output_size", 7, "uint64", False),
        ("attributes", 8, "string", False),
        ("operands", 9, "string", True),
    ],
    "ThreadGroupOpNameKinds": [("op_name_kinds", 1, "OpNameKind", True)],
    "CoreOpNameKinds": [("tg_op_name_kinds", 1, "ThreadGroupOpNameKinds", True)],
    "Stats": [
        ("buff_num", 1, "uint32", False),
        ("print_stats", 2, "bool", False),
        ("stats_level", 3, "int32", False),
        ("stats_no_host_sync", 4, "bool", False),
        ("print_op_stats", 5, "bool", False),
        ("op_stats_level", 6, "int32", False),
        ("batch_size", 7, "int32", False),
        ("count_ddr_bw", 8, "bool", False),
        ("utimer_freq_ms", 9, "int32", False),
        ("pmu_events", 10, "int32", True),
        ("ops_per_core", 11, "int32", True),
        ("core_op_name_kinds", 12, "CoreOpNameKinds", True),
        ("pmu_stats_level", 13, "int32", False),
    ],
    "transform": [
        ("kind", 1, "uint32", False),
        ("type", 2, "uint32", False),
        ("scale", 3, "float", False),
        ("offset", 4, "int32", False),
        ("dims", 5, "int32", True),
        ("layout", 6, "uint32", False),
        ("shuffle", 7, "int32", True),
        ("copy_dma_buffer", 9, "CopyDMABuffer", False),
    ],
    "CopyDMABuffer": [
        ("dir", 1, "uint32", False),
        ("offset", 2, "uint32", False),
        ("buffer_num", 3, "uint32", False),
    ],
}
DESC = NetworkDesc(
    major_version=MAJOR,
    minor_version=3,
    network_name="résumé",
    inputs=(
        IoBinding(
            "in",
            IoDescriptor(3, 0.5, -7, (1, 300, -1)),
            IoDescriptor(),
            (Transform(6, 3, 0.25, -1, (2, 3), 1, (0, 2, 1), CopyDmaBuffer(1, 64, 2)),),
            1,
            128,
        ),
    ),
    dma_buffers=(DmaBuffer(0xFFFFFFFF, 1), DmaBuffer()),
    num_cores=2,
    thread_groups=(0, 0, 1),
    stats=StatsDesc(1, 1, 70, pmu_events=(0x3F, 0x200), utimer_freq_ms=19200),
    thread_group_names=("HVX", "", "HMX"),
    batch_size=-1,
)


@pytest.fixture(scope="module")
def independent() -> Any:
    """The schema's root message in another implementation."""
    file = descriptor_pb2.FileDescriptorProto(name="d.proto", package="p", syntax="proto3")
    scalars = descriptor_pb2.FieldDescriptorProto
    for message, fields in SCHEMA.items():
        made = file.message_type.add(name=message)
        for name, number, kind, repeated in fields:
            row = made.field.add(name=name, number=number, label=3 if repeated else 1)
            if kind in SCHEMA:
                row.type, row.type_name = scalars.TYPE_MESSAGE, f".p.{kind}"
            else:
                row.type = getattr(scalars, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("p.networkDescriptor"))


@pytest.mark.parametrize("desc", [DESC, networkdesc_of(samples.program())], ids=["hand", "program"])
def test_another_protobuf_reads_and_writes_the_same_bytes(independent: Any, desc: Any) -> None:
    data = encode_networkdesc(desc)
    message = independent.FromString(data)
    assert message.SerializeToString(deterministic=True) == data
    assert decode_networkdesc(data) == desc


def test_what_another_protobuf_understands(independent: Any) -> None:
    message = independent.FromString(encode_networkdesc(networkdesc_of(samples.program())))
    assert (message.major_version, message.num_cores, message.num_hvx_threads) == (9, 2, 4)
    assert list(message.thread_groups) == [0, 0, 0, 0, 1, 2]
    assert list(message.stats.pmu_events) == list(samples.RECIPE.events)
    assert message.stats.core_op_name_kinds[1].tg_op_name_kinds[1].op_name_kinds[0].kind == (
        "aicconvolutiond32"
    )


def test_zero_is_left_out_and_lists_are_packed() -> None:
    assert encode_networkdesc(NetworkDesc()) == b""
    assert encode_networkdesc(NetworkDesc(major_version=9, thread_groups=(0, 1, 300))).hex() == (
        "0809" + "52" + "04" + "0001ac02"
    )
    assert encode_networkdesc(NetworkDesc(stats=StatsDesc())).hex() == "6200"


def test_lists_that_are_not_packed_are_read_too() -> None:
    assert decode_networkdesc(bytes.fromhex("0809 5001 5002")).thread_groups == (1, 2)


def test_the_stats_buffer_is_an_output_like_others() -> None:
    made = samples.program()
    desc = networkdesc_of(made)
    assert [binding.name for binding in desc.outputs] == ["output", "aiccyclecounts"]
    assert desc.stats is not None
    assert desc.dma_buffers[desc.stats.buff_num] == DmaBuffer(stats_bytes(made.layout), 1)
    copy = desc.outputs[-1].transformseq[0].copy_dma_buffer
    assert copy is not None
    assert copy.buffer_num == desc.stats.buff_num
    assert (desc.stats.utimer_freq_ms, desc.stats.ops_per_core) == (19200, (13, 13))


def test_the_table_has_core_then_group_then_op() -> None:
    desc = networkdesc_of(samples.program())
    assert desc.stats is not None
    first = desc.stats.core_op_name_kinds[1].tg_op_name_kinds[2].op_name_kinds[1]
    assert first == OpNameKind(
        "layer1/aiccopytovtcm__1",
        "aiccopytovtcm",
        "float16",
        "TCM",
        "1x64x512",
        "",
        65536,
        "",
        ("out TCM Output t1 float16 1x64x512 64KB",),
    )


def test_a_buffer_has_room_for_what_its_level_collects() -> None:
    from npuscope.families.many_core.buffer import write_buffer

    for level in (40, 50, 70, 100):
        layout = samples.layout(level=level)
        assert len(write_buffer(samples.stats(layout))) <= stats_bytes(layout)


def test_other_versions_are_refused() -> None:
    with pytest.raises(FileError, match=r"networkdesc\.bin: has version 8, expected 9"):
        decode_networkdesc(encode_networkdesc(NetworkDesc(major_version=8)))


def test_cut_off_anywhere_is_an_error_or_less_of_the_same() -> None:
    data = encode_networkdesc(DESC)
    broken = 0
    for end in range(len(data)):
        try:
            decode_networkdesc(data[:end])
        except FileError as error:
            broken += 1
            assert error.where.startswith("networkdesc.bin")
    assert broken > len(data) // 2
