"""network.c of compiled networks: valid C in every dialect, right places, harmless names."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import fields

from compiler.nets import (
    GENERATIONS,
    Net,
    dilated,
    per_tensor,
    random_network,
    small_groups,
    uint8_network,
)
from npuscope.compiler.pipeline import compile_graph
from npuscope.demo_network import demo_graph
from npuscope.errors import TargetError
from npuscope.graph.model import Attrs, Numerics
from npuscope.machine.load import load_machine
from npuscope.ops.images import BlockAttrs
from npuscope.ops.moves import SliceAttrs, TransposeAttrs
from npuscope.ops.unknown import UnknownAttrs
from npuscope.program.model import EpochKind
from npuscope.program.network_c.layout import ONLY_OURS, UNITS
from npuscope.program.network_c.writer import network_c_text, network_h_text
from npuscope.program.units import UNIT_TYPES, Link, Port, Streng
from npuscope.structs import replace
from program.network_c.nets import HOSTILE, build, compile_c, kernels, layers, moves, renamed

NETS = {
    "demo": demo_graph,
    "random": lambda: random_network(2),
    "uint8": uint8_network,
    "groups": small_groups,
    "dilated": dilated,
    "moves": moves,
    "kernels": kernels,
    "layers": layers,
}


@pytest.fixture(scope="module")
def demo():
    """The demo network without the epoch controller, and its source."""
    program, machine = build(demo_graph())
    return program, machine, network_c_text(program, machine)


def struct(text, name):
    """Fields of one init struct, as text."""
    body = text.split(f" {name} = {{\n")[1].split("\n  };")[0]
    return dict(re.findall(r"\.(\w+) = (.*?),(?: /\*.*\*/)?$", body, re.MULTILINE))


@pytest.mark.parametrize("unit", UNIT_TYPES)
def test_layout_has_every_field_of_the_records(unit):
    ours = {field.name for field in fields(UNIT_TYPES[unit])} - {"id"}
    assert set(UNITS[unit].fields) == ours - ONLY_OURS.get(unit, frozenset())


@pytest.mark.parametrize("controller", [False, True], ids=["start_end", "blobs"])
@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("net", NETS)
def test_valid_c(tmp_path, net, generation, controller):
    program, machine = build(NETS[net](), generation, controller)
    text = network_c_text(program, machine)
    text += network_h_text(program, machine)
    assert compile_c(tmp_path, text, generation) == ""


@pytest.mark.parametrize("same", [True, False], ids=["one scale", "two scales"])
def test_the_library_joins_parts_of_one_scale_only(same):
    """It copies bytes: parts of another scale have to be rounded to that of the whole."""
    net = Net(5)
    x = net.input((1, 8, 8, 8))
    parts = [net.conv(x, count) for count in (8, 5)]
    wide = per_tensor(0.3, 4)
    parts = [net.op("Quantize", (part,), Attrs(), net.shape(part), wide) for part in parts]
    graph = net.graph(net.concat(parts, (0.3, 4) if same else (0.2, 1)))
    text = network_c_text(*build(graph, "2.2"))
    assert ("LL_ATON_LIB_Concat(" in text) == same


MOVES = {
    "Transpose": (TransposeAttrs((0, 2, 1, 3)), (1, 4, 6, 8), "LL_ATON_LIB_DMA_Transpose("),
    "Slice": (SliceAttrs((0, 1, 0, 0), (1, 3, 4, 8), (1, 1, 1, 1)), (1, 3, 4, 8), "LIB_Slice("),
    "DepthToSpace": (BlockAttrs(2), (1, 12, 8, 2), "LL_ATON_LIB_DMA_DepthToSpace("),
}


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
@pytest.mark.parametrize("same", [True, False], ids=["one scale", "two scales"])
@pytest.mark.parametrize("kind", MOVES)
def test_the_library_moves_bytes_of_one_scale_only(kind, same, generation):
    """Bytes that are moved to another scale have to be rounded: that is another kernel's work."""
    attrs, shape, function = MOVES[kind]
    net = Net(5, Numerics.QDQ)
    x = net.input((1, 6, 4, 8), (0.3, 4))
    graph = net.graph(net.op(kind, (x,), attrs, shape, per_tensor(*(0.3, 4) if same else (0.2, 1))))
    text = network_c_text(*build(graph, generation))
    assert (function in text) == same


def test_a_wrong_dialect_does_not_compile(tmp_path, demo):
    assert "error" in compile_c(tmp_path, demo[2], "2.2")


@pytest.mark.parametrize("controller", [False, True])
def test_hostile_names_stay_harmless(tmp_path, controller):
    program, machine = build(renamed(kernels(), HOSTILE), "4.0", controller)
    text = network_c_text(program, machine, HOSTILE) + network_h_text(program, machine, HOSTILE)
    name = re.search(r"LL_ATON_EpochBlockItems_(\w+)\(", text)[1]
    assert text.isascii()
    assert not re.search(r"^\s*#error", text, re.MULTILINE)
    assert compile_c(tmp_path, text, "4.0", name) == ""


def test_engines_count_from_the_pool(demo):
    program, _, text = demo
    epoch = next(epoch for epoch in program.epochs if epoch.kind is EpochKind.HW)
    weights = next(u for u in epoch.units if isinstance(u, Streng) and u.raw)
    buffer = program.buffer_map()[weights.addr_base.buffer]
    found = struct(text, f"STRENG_{weights.id}_init_{epoch.number}")
    assert found["addr_base"] == "{(unsigned char *)(0x71000000UL)}"
    assert int(found["offset_start"]) == buffer.offset
    assert int(found["offset_end"]) == buffer.offset + buffer.size_bytes
    assert int(found["offset_limit"]) == buffer.offset + buffer.size_bytes + 64
    assert f"/* {buffer.name} */" in text
    index = [pool.name for pool in program.pools].index("octoFlash")
    end = buffer.offset + buffer.size_bytes
    assert f"ports=1 range={index}[{buffer.offset},{end}] */" in text


def test_units_carry_their_fields(demo):
    program, _, text = demo
    epoch = program.epochs[1]
    conv = next(unit for unit in epoch.units if unit.unit == "CONVACC")
    found = struct(text, f"CONVACC_{conv.id}_init_{epoch.number}")
    assert found.pop("afilt_mode") == "AFILT_MODE_NONE"
    assert {name: int(value) for name, value in found.items()} == {
        field.name: getattr(conv, field.name)
        for field in fields(conv)
        if field.name not in ("id", "afilt_mode")
    }
    assert "/* Unit= 10 [CONV_ACC_V2 0] */" in text
    arith = struct(text, f"ARITH_0_init_{epoch.number}")
    assert arith["operation"] == "ARITH_AFFINE"
    assert arith["bcast"] == "ARITH_BCAST_CHAN"
    assert arith["vec_precision"] == "{16, 16, 32}"


def test_a_pool_crops_nothing(demo):
    """The driver always crops: a last row of 0 would leave one row."""
    program, _, text = demo
    epoch, pool = next(
        (epoch, unit) for epoch in program.epochs for unit in epoch.units if unit.unit == "POOL"
    )
    found = struct(text, f"POOL_{pool.id}_init_{epoch.number}")
    assert found["bottomCrop"] == str(pool.inputY - 1)
    assert found["rightCrop"] == str(pool.inputX - 1)


def test_bandwidth_is_told_by_pool(demo):
    program, _, text = demo
    access = program.epochs[1].claims.accesses
    reads = {entry.pool: entry.reads for entry in access}
    start = text.index("LL_ATON_Start_EpochBlock_2(")
    part = text[start : text.index("LL_ATON_End_EpochBlock_2(")]
    assert dict(re.findall(r"/\* (\w+) -> (\d+) \*/", part)) == {
        pool: str(count) for pool, count in reads.items()
    }


def test_items_wait_for_output_engines(demo):
    program, _, text = demo
    items = text.split("ll_atonn_rt_epoch_block_array[] = {")[1]
    epoch = program.epochs[1]
    mask = sum(1 << u.id for u in epoch.units if isinstance(u, Streng) and u.dir)
    first = items.split("    },\n")[0]
    assert f".wait_mask = {mask:#010x}," in first
    assert "epoch_start | EpochBlock_Flags_epoch_end | EpochBlock_Flags_pure_hw" in first
    assert f".estimated_npu_cycles = {epoch.claims.compute_cycles}," in first
    assert items.count(".epoch_num") == len(program.executed)
    assert ".flags = EpochBlock_Flags_last_eb," in items


def test_neighbours_become_one_blob():
    program, machine = build(demo_graph(), "4.0", controller=True)
    text = network_c_text(program, machine, "face")
    hardware = [epoch for epoch in program.epochs if epoch.kind is EpochKind.HW]
    assert '#include "face_ecblobs.h"' in text
    assert text.count(".blob_address = (uintptr_t)(_ec_blob_face_1),") == 1
    assert "LL_Convacc_Init(" not in text
    item = text.split(".blob_address")[1].split("    },")[0]
    assert ".wait_mask = 0x00000000," in item
    assert f".epoch_num = {hardware[0].number}," in item
    assert f".last_epoch_num = {hardware[-1].number}," in item


def test_pools_are_told_in_comments(demo):
    program, _, text = demo
    found = re.findall(r"/\* index=(\d+) file postfix=(\w+) name=(\w+) offset=(\w+)", text)
    assert [(int(index), name, int(offset, 0)) for index, _, name, offset in found] == [
        (index, pool.name, pool.address) for index, pool in enumerate(program.pools)
    ]
    assert "name=octoFlash offset=0x71000000  absolute_mode size=117440512 READ_ONLY" in text
    assert " vpool READ_WRITE " in text
    assert f"is {program.pool('octoFlash').used_bytes / 1024:.2f} KB */" in text


def test_buffer_tables(demo):
    program, _, text = demo
    output = text.split("LL_ATON_Output_Buffers_Info_network(void)")[1].split("\n}\n")[0]
    assert '.name = "scores",' in output
    assert "output_0_shape[] = { 1, 1, 1, 10 };" in output
    assert "output_0_mem_shape[] = { 1, 10 };" in output
    assert "output_0_quant_scale[] = { 0.00390625 };" in output
    assert "output_0_quant_offset[] = { -128 };" in output
    assert ".type = DataType_INT8," in output
    names = re.findall(r'\.name = "(.*)",', text)
    assert sorted(names) == sorted(buffer.name for buffer in program.buffers)


def test_softmax_has_the_fixed_point_numbers_of_its_scale(demo):
    """0.08 * 2**26 = 1374389534 / 2**31 * 2**23: 31 * 2**26 / 2**23 = 248 steps."""
    text = demo[2]
    found = struct(text, "kernel_23_sw_info")
    assert "Softmax_integer_sw_info kernel_23_sw_info" in text
    assert (found["left_shift"], found["diff_min"]) == ("23", "-248")
    assert int(found["quantized_multiplier"]) == round(0.07999999821186066 * 2**26 * 2**8)
    assert found["axis"] == "1"
    assert "ll_sw_forward_softmax_integer(&kernel_23_sw_info);" in text
    assert "LL_ATON_Cache_MCU_Invalidate_Range(" in text
    assert "LL_ATON_Cache_MCU_Clean_Range(" in text


def test_kernels_that_the_library_lacks_are_npuscopes_own():
    program, machine = build(kernels())
    text = network_c_text(program, machine)
    assert '#include "npuscope_kernels.h"\nnpuscope_kernel npuscope_move;' in text
    assert "npuscope_move(&call_" in text
    assert "LL_ATON_LIB_Slice(" in text
    assert "ll_sw_forward_eltwise_integer(" in text


def test_library_moves_are_hybrid_epochs():
    program, machine = build(moves(), "2.2")
    text = network_c_text(program, machine)
    assert re.search(r"LL_ATON_LIB_DMA_DepthToSpace\(\w+, 1, \w+, 2, 2, 0, 1\);", text)
    assert "EpochBlock_Flags_hybrid" in text
    later, machine = build(moves(), "4.0")
    assert ", 2, 2, 0, 1, nn_instance);" in network_c_text(later, machine)


def test_header():
    program, machine = build(demo_graph())
    text = network_h_text(program, machine)
    assert "#define LL_ATON_NETWORK_IN_1_SIZE_BYTES (27648)" in text
    assert "#define LL_ATON_NETWORK_OUT_NUM (1)" in text


def test_without_registers_there_is_no_source(demo):
    program, machine, _ = demo
    epochs = tuple(replace(epoch, groups=None) for epoch in program.epochs)
    with pytest.raises(TargetError) as caught:
        network_c_text(replace(program, epochs=epochs), machine)
    assert caught.value.message == (
        "the program has no unit registers, so it cannot be written as C source"
    )


def test_validate_is_no_way_around_an_op_that_nobody_knows():
    net = Net()
    x = net.input((1, 2, 2, 4))
    net.op("Unknown", (x,), UnknownAttrs("Det", (1, 4)), (1, 4), net.quant(x))
    with pytest.raises(TargetError, match="no C kernel computes this Det") as caught:
        network_c_text(*build(net.graph()))
    assert caught.value.hint == "estimate and explain work without it; cut the model before it"


def changed_link(program, change):
    epoch = next(epoch for epoch in program.epochs if epoch.groups)
    group = epoch.groups[0]
    wrong = replace(group, links=(change(group.links[0]), *group.links[1:]))
    epochs = tuple(replace(e, groups=(wrong,)) if e is epoch else e for e in program.epochs)
    return replace(program, epochs=epochs)


def test_the_switch_counts_to_255(demo):
    def many(link: Link) -> Link:
        return replace(link, frames0=300, frames1=1)

    with pytest.raises(TargetError, match="at most 255 frames, but 300 and 1 are needed"):
        network_c_text(changed_link(demo[0], many), demo[1])


def test_a_foreign_unit_type_is_refused(demo):
    def odd(link: Link) -> Link:
        return replace(link, source=Port("X, 0); system(", 0))

    with pytest.raises(TargetError, match="has no name in C"):
        network_c_text(changed_link(demo[0], odd), demo[1])


def test_the_version_check_is_one_line_of_four_numbers(demo):
    """The vendor's profiler reads the numbers by their place in the line."""
    _, _, source = demo
    (line,) = (row for row in source.splitlines() if "LL_ATON_VERSION_MAJOR" in row)
    words = line.replace("#if", "").replace("!=", "").replace("||", "").split()
    assert [words[i] for i in (1, 3, 5, 7)] == ["1", "1", "3", "262"]


def test_what_2_1_writes(tmp_path):
    machine = load_machine(generation="2.1")
    text = network_c_text(compile_graph(kernels(), machine), machine)
    assert "LL_ATON_VERSION_MICRO != 0 || LL_ATON_VERSION_DEV != 31" in text
    assert compile_c(tmp_path, text, "2.1") == ""


def test_what_3_0_writes():
    """As in five public builds of it: items and functions of 2.x, a runtime of its own."""
    text = network_c_text(*build(kernels(), "3.0"))
    assert "static const EpochBlock_ItemTypeDef ll_atonn_rt_epoch_block_array[]" in text
    assert "LL_ATON_VERSION_MICRO != 3 || LL_ATON_VERSION_DEV != 8" in text
    assert "(const void *epoch_block)" in text and "nn_instance" not in text
    assert "LL_ATON_WeightEncryption_Info" in text
