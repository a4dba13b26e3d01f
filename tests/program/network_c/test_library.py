"""Calls of the vendor's libraries: every function of the public headers is read, or refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from npuscope.errors import TargetError
from npuscope.program.addresses import copies_of
from npuscope.program.model import Call, Program
from npuscope.program.network_c import read_kernels, read_library
from npuscope.program.network_c.reader import read_network_c
from npuscope.program.network_c.vendor_functions import (
    KERNEL,
    KERNEL_FUNCTIONS,
    LIBRARY,
    LIBRARY_FUNCTIONS,
    VendorFunction,
)
from npuscope.sim.memory import Memory
from npuscope.sim.run import execute, run_epoch

BASE = 0x342E0000
OUTPUT = 256  # offset of the first output
HEAD = f"""/* global pool 1 is 1 KB */
/* index=1 file postfix=AXISRAM5 name=npuRAM5 offset={BASE:#x} absolute_mode size=4095 READ_WRITE
   THROUGHPUT=HIGH LATENCY=LOW byte width=8 freq ratio=1.25 cacheable=OFF read_power=18.531
   write_power=16.201 use4initializers=NO score=94 */
"""
ITEMS = """
const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_Default(void) {
  static const EpochBlock_ItemTypeDef ll_atonn_rt_epoch_block_array[] = {
    { .end_epoch_block = LL_ATON_End_EpochBlock_1, .epoch_num = 1, .last_epoch_num = 1,
      .flags = EpochBlock_Flags_pure_sw, },
    { .flags = EpochBlock_Flags_last_eb, },
  };
  return ll_atonn_rt_epoch_block_array;
}
"""


def row(start: int, shape: str, count: int, batch: int = 1, nbits: int = 8) -> str:
    end = start + count * nbits // 8
    return (
        f"{{ .addr_base = {{(unsigned char *)({BASE:#x}UL)}}, .offset_start = {start}, "
        f".offset_end = {end}, .offset_limit = {end + 64}, .ndims = 4, .nbits = {nbits}, "
        f".shape = {shape}, .batch = {batch}, }}"
    )


def read(declared: str, call: str, folder: Path) -> Program:
    function = (
        f"static void LL_ATON_End_EpochBlock_1(const void *epoch_block) {{\n{declared}\n{call}\n}}"
    )
    path = folder / "network.c"
    path.write_text(HEAD + function + ITEMS, encoding="utf-8")
    return read_network_c(path).program


def moved(program: Program, values: np.ndarray) -> np.ndarray:
    """The bytes from the first output on, after the epoch."""
    memory = Memory(program)
    raw = values.tobytes()
    memory.window(BASE, (len(raw),), (1,), np.dtype("u1"))[...] = np.frombuffer(raw, np.uint8)
    run_epoch(program.epochs[0], memory)
    return memory.window(BASE + OUTPUT, (len(raw),), (1,), np.dtype("u1")).copy()


TABLE = "static const LL_LIB_TensorShape_TypeDef {name}[] = {{ {rows} }};"


def tables(whole: str, parts: list[str]) -> str:
    return "\n".join(
        [
            TABLE.format(name="src", rows=whole),
            TABLE.format(name="dst", rows=", ".join(parts)),
        ]
    )


def test_rows_of_bytes_that_lie_apart(tmp_path: Path) -> None:
    shapes = "static const uint32_t a[] = { 1, 5, 4 }; static const uint32_t b[] = { 1, 5, 2 };"
    declared = shapes + tables(row(1, "a", 20), [row(OUTPUT, "b", 10)])
    call = "LL_ATON_LIB_DMA_Outputs_Slice_SplitLike(&src[0], &dst[0], 10, 2, 5, 4, 8, 9, 1);"
    x = np.arange(32, dtype=np.uint8)
    found = moved(read(declared, call, tmp_path), x)
    assert found[:10].tolist() == x[1:21].reshape(5, 4)[:, :2].ravel().tolist()
    assert not found[10:].any()


SPLIT = "LL_ATON_LIB_Split(&src[0], {canonical}, &dst, 2, 4, {axis}, 1, {case}, -1, -1);"


@pytest.mark.parametrize("nbits", [8, 16])
@pytest.mark.parametrize(
    ("canonical", "axis", "case"),
    [
        ("false", 1, 0),  # on any axis, as the network has them
        ("false", 3, 0),
        ("true", 1, 0),  # channels last in memory
        ("true", 2, 0),
        ("true", 1, 2),
        ("true", 1, 4),  # blocks of channels
        ("false", 1, 6),  # whole channels one after the other
    ],
)
def test_splits(canonical: str, axis: int, case: int, nbits: int, tmp_path: Path) -> None:
    whole = (1, 6, 4, 4)
    sizes = (2, whole[axis] - 2)
    parts = [tuple(n if a == axis else s for a, s in enumerate(whole)) for n in sizes]
    kind = np.dtype(f"<u{nbits // 8}")
    x = np.arange(np.prod(whole), dtype=kind).reshape(whole)
    last, first = (0, 2, 3, 1), (0, 1, 2, 3)
    stored = x.transpose(last if canonical == "true" else first)
    texts, starts, start = [], [], OUTPUT
    for part, name in zip(parts, "bc", strict=True):
        count = int(np.prod(part))
        texts.append(row(start, name, count, 2 if case == 4 else 1, nbits))
        starts.append(start - OUTPUT)
        start += count * nbits // 8
    arrays = "".join(
        f"static const uint32_t {name}[] = {{ {', '.join(map(str, shape))} }};"
        for name, shape in zip("abc", (whole, *parts), strict=True)
    )
    declared = arrays + tables(row(0, "a", x.size, 6, nbits), texts)
    program = read(declared, SPLIT.format(canonical=canonical, axis=axis, case=case), tmp_path)
    found = moved(program, stored)
    begin = 0
    for part, at in zip(parts, starts, strict=True):
        piece = np.take(x, range(begin, begin + part[axis]), axis)
        begin += part[axis]
        if case == 4:
            n, c, h, w = piece.shape
            expected = piece.reshape(n, c // 2, 2, h, w).transpose(0, 1, 3, 4, 2)
        else:
            expected = piece.transpose(last if canonical == "true" else first)
        raw = np.ascontiguousarray(expected).tobytes()
        assert found[at : at + len(raw)].tobytes() == raw
    call = program.epochs[0].call
    assert call is not None and len(call.outputs) == len(copies_of(call)) == 2


def test_a_split_that_is_not_known(tmp_path: Path) -> None:
    declared = "static const uint32_t a[] = { 1, 6, 4, 4 };"
    declared += tables(row(0, "a", 96), [row(OUTPUT, "a", 96)])
    for text, message in (("9, 1, 0", "no such axis"), ("1, 1, 77", "case 77 is unknown")):
        call = f"LL_ATON_LIB_Split(&src[0], true, &dst, 1, 4, {text}, -1, -1);"
        with pytest.raises(Exception, match=message):
            read(declared, call, tmp_path)


@pytest.mark.parametrize(
    ("function", "order"),
    [("LL_ATON_LIB_Transpose", (0, 2, 3, 1)), ("LL_ATON_LIB_DMA_Transpose", (0, 3, 1, 2))],
)
def test_transposes_name_their_axes_each_in_its_own_way(
    function: str, order: tuple[int, ...], tmp_path: Path
) -> None:
    """The CPU's takes ONNX's `perm`, the engines' where each axis goes: its inverse."""
    whole = (1, 3, 4, 5)
    declared = (
        "static const uint32_t a[] = { 1, 3, 4, 5 }; static const uint32_t b[] = { 1, 4, 5, 3 };"
        "static const uint32_t in_steps[] = { 60, 20, 5, 1 };"
        "static const uint32_t out_steps[] = { 60, 15, 3, 1 };"
        f"static const uint8_t order[] = {{ {', '.join(map(str, order))} }};"
        + tables(row(0, "a", 60), [row(OUTPUT, "b", 60)])
    )
    x = np.arange(60, dtype=np.uint8).reshape(whole)
    call = f"{function}(&src[0], in_steps, &dst[0], out_steps, order);"
    found = moved(read(declared, call, tmp_path), x)
    assert found[:60].tolist() == x.transpose(0, 2, 3, 1).ravel().tolist()


@pytest.mark.parametrize("mode", [0, 1])
def test_blocks_of_pixels_by_the_cpu(mode: int, tmp_path: Path) -> None:
    declared = (
        "static const uint32_t a[] = { 1, 8, 2, 3 }; static const uint32_t b[] = { 1, 2, 4, 6 };"
        "static const uint32_t in_steps[] = { 48, 6, 3, 1 };"
        "static const uint32_t out_steps[] = { 48, 24, 6, 1 };"
        + tables(row(0, "a", 48), [row(OUTPUT, "b", 48)])
    )
    x = np.arange(48, dtype=np.uint8).reshape(1, 8, 2, 3)
    call = f"LL_ATON_LIB_SW_DepthToSpace(&src[0], in_steps, &dst[0], out_steps, 2, 2, {mode});"
    found = moved(read(declared, call, tmp_path), x)
    if mode == 0:
        image = x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2)
    else:
        image = x.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3)
    assert found[:48].tolist() == image.ravel().tolist()


def test_pixels_as_channels_by_the_cpu(tmp_path: Path) -> None:
    """The block's place comes before the channel."""
    declared = (
        "static const uint32_t a[] = { 1, 2, 4, 6 }; static const uint32_t b[] = { 1, 8, 2, 3 };"
        "static const uint32_t in_steps[] = { 48, 24, 6, 1 };"
        "static const uint32_t out_steps[] = { 48, 6, 3, 1 };"
        + tables(row(0, "a", 48), [row(OUTPUT, "b", 48)])
    )
    x = np.arange(48, dtype=np.uint8).reshape(1, 2, 4, 6)
    call = "LL_ATON_LIB_SW_SpaceToDepth(&src[0], in_steps, &dst[0], out_steps, 2, 2);"
    found = moved(read(declared, call, tmp_path), x)
    deep = x.reshape(1, 2, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4)
    assert found[:48].tolist() == deep.ravel().tolist()


def operand(name: str, start: int, channels: int, element: int = 4, width: int = 1) -> str:
    row_bytes = channels * element
    return (
        f".{name}.dim.tensor_w = {width}, .{name}.dim.tensor_c = {channels}, "
        f".{name}.dim.num_elem = {width * channels}, "
        f".{name}.stride.h = {row_bytes * width}, .{name}.stride.w = {row_bytes}, "
        f".{name}.stride.c = {element}, .{name}.format.is_signed = 1, "
        f".{name}.mem.start_offset = ((unsigned char *)(MOVED({BASE:#x}UL + {start}))),"
    )


def test_a_batch_norm(tmp_path: Path) -> None:
    """Scale, bias, mean and variance of each channel; the variance holds the epsilon."""
    names = ("general.input", "scale", "bias", "mean", "var")
    sizes = (6, 3, 3, 3, 3)
    starts = np.cumsum([0, *sizes[:-1]]) * 4
    fields = [operand(names[0], 0, 3, width=2)]
    fields += [operand(n, s, 3) for n, s in zip(names[1:], starts[1:], strict=True)]
    fields.append(operand("general.output", OUTPUT, 3, width=2))
    info = f"Bn_sw_info info = {{ {' '.join(fields)} .general.type = LL_SW_BATCHNORM, }};"
    program = read(info, "ll_sw_forward_bn(&info);", tmp_path)
    generator = np.random.default_rng(0)
    x, scale, bias, mean, var = (generator.random(n, np.float32) + 0.5 for n in sizes)
    found = moved(program, np.concatenate([x, scale, bias, mean, var]))[:24].view(np.float32)
    expected = (x.reshape(2, 3) - mean) / np.sqrt(var) * scale + bias
    assert np.allclose(found, expected.ravel(), rtol=1e-6)


PARAMETERS = f"""
const LL_Buffer_InfoTypeDef *LL_ATON_Internal_Buffers_Info_Default(void) {{
  static const uint32_t shape_1[] = {{ 1, 1, 1, 3 }};
  static const LL_Buffer_InfoTypeDef buff_info[] = {{
    {{ .name = "table", .addr_base = {{(unsigned char *)({BASE:#x}UL)}}, .offset_start = 24,
      .offset_end = 72, .offset_limit = 136, .is_param = 1, .epoch = 0, .batch = 3,
      .mem_shape = shape_1, .mem_ndims = 4, .chpos = CHPos_Last, .Qm = 7, .Qn = 0, .Qunsigned = 0,
      .type = DataType_FLOAT, .nbits = 32, .ndims = 4, .shape = shape_1, }},
    {{ .name = NULL, }},
  }};
  return buff_info;
}}
"""


def test_parameters_in_ram_are_parameters(tmp_path: Path) -> None:
    """A build without flash has its weights in a RAM that can be written; its tables say which
    bytes they are. Layers on the CPU cost by their products, so weights must not pass for data."""
    fields = [operand("general.input", 0, 3, width=2)]
    fields += [
        operand(name, 24 + 12 * i, 3) for i, name in enumerate(("scale", "bias", "mean", "var"))
    ]
    fields.append(operand("general.output", OUTPUT, 3, width=2))
    info = f"Bn_sw_info info = {{ {' '.join(fields)} .general.type = LL_SW_BATCHNORM, }};"
    plain = read(info, "ll_sw_forward_bn(&info);", tmp_path)
    function = (tmp_path / "network.c").read_text(encoding="utf-8")
    (tmp_path / "network.c").write_text(function + PARAMETERS, encoding="utf-8")
    tabled = read_network_c(tmp_path / "network.c").program
    for program, expected in ((plain, [False] * 5), (tabled, [False, True, True, True, True])):
        call, buffers = program.epochs[0].call, program.buffer_map()
        assert call is not None
        assert [buffers[name].is_param for name in call.inputs] == expected


def test_the_librarys_generic_convolution_is_named(tmp_path: Path) -> None:
    """Its cost rests on no measurement of its own, so the answer says that it is there."""
    fields = operand("general.input", 0, 3) + operand("general.output", OUTPUT, 3)
    info = f"Sign_sw_info info = {{ {fields} .general.type = LL_SW_SIGN, %s }};"
    call = "ll_sw_forward_sign(&info);"
    assert read(info % "", call, tmp_path).notes == ()
    assert read(info % ".fwd_func = LL_SW_SSSA_PW_CONV,", call, tmp_path).notes == ()
    (note,) = read(info % ".fwd_func = LL_SW_GENERIC_CONV,", call, tmp_path).notes
    assert note.startswith("1 convolution on the CPU in the library's generic kernel")


def test_signs(tmp_path: Path) -> None:
    fields = operand("general.input", 0, 3) + operand("general.output", OUTPUT, 3)
    info = f"Sign_sw_info info = {{ {fields} .general.type = LL_SW_SIGN, }};"
    program = read(info, "ll_sw_forward_sign(&info);", tmp_path)
    found = moved(program, np.array([-2.5, 0, 7], np.float32))[:12].view(np.float32)
    assert found.tolist() == [-1, 0, 1]


def test_a_resize_that_states_its_zero_points_as_scales(tmp_path: Path) -> None:
    """Later compilers give no fourth field: what is named `is` and `os` are the zero points."""
    fields = operand("general.input", 0, 1, 1, 2) + operand("general.output", OUTPUT, 1, 1, 4)
    fields += operand("is", 16, 1) + operand("izp", 20, 1) + operand("os", 16, 1)
    info = f"""Resize_integer_sw_info info = {{ {fields} .general.type = LL_SW_RESIZE,
        .mode = RESIZE_NEAREST, .nearest_mode = FLOOR, .coord_transf_mode = ASYMMETRIC, }};"""
    program = read(info, "ll_sw_forward_resize_integer(&info);", tmp_path)
    call = program.epochs[0].call
    assert call is not None and call.kernel == "Resize"
    quants = [program.buffer_map()[n].quant for n in (*call.inputs, *call.outputs)]
    assert quants[0] == quants[1]
    found = moved(program, np.array([3, 250, 0, 0], np.uint8))
    assert found[:4].tolist() == [3, 3, 250, 250]


# --- Every function of the headers ---


def refused(functions: dict[str, VendorFunction]) -> list[str]:
    return [name for name, function in functions.items() if not function.ops]


def test_each_function_of_the_headers_is_read_or_refused() -> None:
    for functions, read_here in (
        (LIBRARY_FUNCTIONS, read_library.OPERATORS),
        (KERNEL_FUNCTIONS, read_kernels.KERNELS),
    ):
        assert {name for name in functions if name not in refused(functions)} == set(read_here)


def test_each_function_that_is_read_has_a_test() -> None:
    texts = [path.read_text("utf-8") for path in Path(__file__).parents[2].rglob("test_*.py")]
    text = "".join(texts)
    for name in read_kernels.KERNELS:
        assert re.search(rf'"{name}"|{KERNEL}{name}\b', text), name
    for name in read_library.OPERATORS:
        assert re.search(rf'"{name}"|{LIBRARY}{name}\b', text), name


@pytest.mark.parametrize("name", refused(LIBRARY_FUNCTIONS))
def test_a_library_call_that_is_not_read_is_refused_by_name_and_epoch(
    name: str, tmp_path: Path
) -> None:
    program = read("", f"LL_ATON_LIB_{name}(a, b);", tmp_path)
    message = f"EpochBlock_1: not executed: unknown software kernel 'LL_ATON_LIB_{name}'"
    with pytest.raises(TargetError, match=message):
        execute(program, {})


@pytest.mark.parametrize("name", refused(KERNEL_FUNCTIONS))
def test_a_kernel_that_is_not_read_is_refused_by_name_and_epoch(name: str, tmp_path: Path) -> None:
    info = "Some_sw_info info = { .general.type = LL_SW_SOME, };"
    program = read(info, f"ll_sw_forward_{name}(&info);", tmp_path)
    assert program.epochs[0].call == Call(name, (), ())
    with pytest.raises(TargetError, match=f"unknown software kernel '{name}'"):
        execute(program, {})
