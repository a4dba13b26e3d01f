"""Calls of the vendor's library with arguments that few builds have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npuscope.errors import FileError, TargetError
from npuscope.program.model import Call
from npuscope.sim.run import execute
from program.network_c.test_library import BASE, OUTPUT, moved, operand, read

PAD = """LL_ATON_LIB_{name}(in, out, in_limit, out_limit, kept, {mode}, {element}, {count}, {value},
    1, 4, cut_start, cut_end, pad_start, pad_end, shape, steps, {rank}, 2, 3);"""


def declared(**arrays: list[int]) -> str:
    places = "".join(
        f"unsigned char* {name} = ((unsigned char *)(({BASE:#x}UL + {start})));"
        for name, start in (("in", 0), ("out", OUTPUT), ("in_limit", 64), ("out_limit", 320))
    )
    return places + "".join(
        f"static const int32_t {name}[] = {{ {', '.join(map(str, values))} }};"
        for name, values in arrays.items()
    )


@pytest.mark.parametrize("name", ["Pad", "Pad_Standard"])
def test_a_pad_of_floats_behind_the_channels(name: str, tmp_path: Path) -> None:
    """The offsets in the input are those in the output where nothing is cut."""
    text = declared(
        kept=[1, 2, 1, 3],
        cut_start=[0, 0, 0, 0],
        cut_end=[0, 12, 0, 0],
        pad_start=[0, 0, 0, 0],
        pad_end=[0, 12, 0, 0],
        shape=[1, 3, 1, 3],
        steps=[36, 12, 12, 4],
    )
    text += "const float native = 1.5; assert(sizeof(float) == 4);"
    value = "*((int32_t*)&native)"
    call = PAD.format(name=name, mode=0, element=4, count=9, value=value, rank=4)
    x = np.arange(6, dtype=np.float32)
    found = moved(read(text, call, tmp_path), np.append(x, [0] * 6).astype(np.float32))
    assert found[:36].view(np.float32).tolist() == [*range(6), 1.5, 1.5, 1.5]


def test_a_pad_that_cuts_the_input_too(tmp_path: Path) -> None:
    """2 x 5 bytes; the first two columns go, one comes behind, and a row comes in front."""
    text = declared(
        kept=[2, 3],
        cut_start=[0, -2],
        cut_end=[0, 0],
        pad_start=[4, 0],
        pad_end=[0, 1],
        shape=[3, 4],
        steps=[4, 1],
    )
    call = PAD.format(name="Pad", mode=0, element=1, count=12, value=-7, rank=2)
    x = np.arange(12, dtype=np.int8)
    found = moved(read(text, call, tmp_path), x).view(np.int8)
    assert found.reshape(3, 4).tolist() == [[-7] * 4, [2, 3, 4, -7], [7, 8, 9, -7]]


def test_pads_that_are_not_read(tmp_path: Path) -> None:
    """Reflected edges are refused by name; ranks that differ are a damaged file."""
    arrays = {name: [0] for name in ("cut_start", "cut_end", "pad_start", "pad_end")}
    text = declared(kept=[4], shape=[4], steps=[1], **arrays)
    program = read(
        text, PAD.format(name="Pad", mode=1, element=1, count=4, value=0, rank=1), tmp_path
    )
    with pytest.raises(TargetError, match="unknown software kernel 'LL_ATON_LIB_Pad'"):
        execute(program, {})
    text = declared(kept=[4], shape=[4, 4], steps=[1], **arrays)
    with pytest.raises(FileError, match="the ranks of a pad differ"):
        read(text, PAD.format(name="Pad", mode=0, element=1, count=4, value=0, rank=1), tmp_path)
    text = declared(kept=[4], shape=[4], steps=[1], **arrays)
    with pytest.raises(FileError, match="the value of a pad is missing"):
        read(text, PAD.format(name="Pad", mode=0, element=1, count=4, value="x", rank=1), tmp_path)
    text = declared(kept=[4], shape=[4], steps=[0], **arrays)
    with pytest.raises(FileError, match="cannot be understood"):
        read(text, PAD.format(name="Pad", mode=0, element=1, count=4, value=0, rank=1), tmp_path)


GATHER = "Gather_sw_info info = {{ {fields} .axis = 1, .general.type = LL_SW_GATHER, }};"


def test_a_gather_along_the_axis_that_changes(tmp_path: Path) -> None:
    """Three of four values, two of them the same, for both channels of each."""
    fields = [operand("general.input", 0, 2, width=4), operand("operand", 32, 3)]
    fields.append(operand("general.output", OUTPUT, 2, width=3))
    program = read(GATHER.format(fields=" ".join(fields)), "ll_sw_forward_gather(&info);", tmp_path)
    x = np.arange(8, dtype=np.float32)
    places = np.array([3, 0, 3], np.int32)
    found = moved(program, np.concatenate([x.view(np.int32), places]))[:24].view(np.float32)
    assert found.tolist() == [6, 7, 0, 1, 6, 7]


def test_a_gather_along_an_axis_that_nothing_tells(tmp_path: Path) -> None:
    fields = [operand("general.input", 0, 2, width=2), operand("operand", 32, 2)]
    fields.append(operand("general.output", OUTPUT, 2, width=2))
    program = read(GATHER.format(fields=" ".join(fields)), "ll_sw_forward_gather(&info);", tmp_path)
    call = program.epochs[0].call
    assert isinstance(call, Call) and call.kernel == "gather"
    with pytest.raises(TargetError, match="unknown software kernel 'gather'"):
        execute(program, {})


def test_slopes_of_floats_stand_behind_their_number(tmp_path: Path) -> None:
    fields = [operand("general.input", 0, 2, width=3), operand("operand", 32, 3)]
    fields.append(operand("general.output", OUTPUT, 2, width=3))
    info = f"Activ_sw_info info = {{ {' '.join(fields)} .general.type = LL_SW_PRELU, }};"
    program = read(info, "ll_sw_forward_activ(&info);", tmp_path)
    x = np.array([-1, -1, 2, 2, -4, -4, 0, 0], np.float32)
    slopes = np.array([2, 0.5, 0.25], np.float32)
    found = moved(program, np.concatenate([x, slopes]))[:24].view(np.float32)
    assert found.tolist() == [-0.5, -0.25, 2, 2, -2, -1]


def test_a_piece_of_a_kernel_reads_what_its_output_reaches(tmp_path: Path) -> None:
    """One weight on four positions of a row, of which the first gives the one output."""
    fields = [operand("general.input", 0, 1, width=4), operand("weights", 32, 1)]
    fields.append(operand("general.output", OUTPUT, 1))
    info = f"""Conv_sw_info info = {{ {" ".join(fields)} .ngroup = 1, .strides = {{1, 1}},
        .pads = {{0, 0, 0, 0}}, .dilations = {{1, 1}}, .general.type = LL_SW_CONV, }};"""
    program = read(info, "ll_sw_forward_conv(&info);", tmp_path)
    values = np.array([3, 5, 7, 9, 0, 0, 0, 0, 2], np.float32)
    assert moved(program, values)[:4].view(np.float32).tolist() == [6]


def test_a_step_of_nothing_is_a_damaged_file(tmp_path: Path) -> None:
    fields = [operand("general.input", 0, 1, width=4), operand("weights", 32, 1)]
    fields.append(operand("general.output", OUTPUT, 1))
    info = f"""Conv_sw_info info = {{ {" ".join(fields)} .ngroup = 1, .strides = {{0, 0}},
        .pads = {{0, 0, 0, 0}}, .dilations = {{1, 1}}, .general.type = LL_SW_CONV, }};"""
    with pytest.raises(FileError, match="cannot be understood"):
        read(info, "ll_sw_forward_conv(&info);", tmp_path)
