"""Sources whose inputs and outputs the application allocates, and statements nobody has seen."""

from __future__ import annotations

from pathlib import Path

import pytest

import npuscope
from npuscope.errors import FileError
from npuscope.program.model import Program
from npuscope.program.network_c.reader import read_network_c
from npuscope.program.sources import read_program

POOL = (
    "/* index=1 file postfix=AXISRAM5 name=npuRAM5 offset=0x342e0000  absolute_mode size=458752 "
    "READ_WRITE byte width=8 freq ratio=1.25 cacheable=OFF score=94 */"
)
HEAD = f"""
#include "ll_aton.h"
#if LL_ATON_VERSION_MAJOR != 1
#endif
#define RETURN_EARLY(x) do {{ \\
    if (x) return;           \\
  }} while (0)
/* global pool 1 is 1 KB */
{POOL}
"""
GIVEN = """
/* User Output allocated buffer (mempool 9) size 64 */
static unsigned char *_mem_pool__user_io_output_0_Default = NULL; /* tensor name out */

int LL_ATON_Set_User_Output_Buffer_Default(uint32_t num, void *buffer, uint32_t size)
{
  if (num == 0) {
    if (((uintptr_t)buffer % 32) != 0)
      return 1;
    if (size < 64)
      return 2;
    _mem_pool__user_io_output_0_Default = buffer;
    return 0;
  } else
  {
    return 3;
  }
}
"""
EPOCH = """
static void LL_ATON_End_EpochBlock_1(const void *epoch_block)
{
  /* kind=DequantizeLinear node=last */
  static const float scale[] = { 0.5 };
  static const int8_t zero[] = { 0 };
  Dequantizelinear_sw_info info = {
    .general.input.dim.tensor_w = 4,
    .general.input.dim.tensor_c = 4,
    .general.input.stride.w = 4,
    .general.input.stride.c = 1,
    .general.input.mem.start_offset = ((unsigned char *)(MOVED(0x342e0000UL + 32))),
    .general.input.format.is_signed = 1,
    .is.mem.start_offset = scale,
    .izp.mem.start_offset = zero,
    .general.output.dim.tensor_w = 4,
    .general.output.dim.tensor_c = 4,
    .general.output.stride.w = 16,
    .general.output.stride.c = 4,
    .general.output.mem.start_offset = ((unsigned char *)((uintptr_t)(OUTPUT) + 0)),
  };
  ll_sw_forward_dequantizelinear(&info);
}
"""
ITEMS = """
const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_Default(void) {
  static const EpochBlock_ItemTypeDef ll_atonn_rt_epoch_block_array[] = {
    { .end_epoch_block = LL_ATON_End_EpochBlock_1, .epoch_num = 1, .last_epoch_num = 1,
      .flags = EpochBlock_Flags_pure_sw | (SECRET ? EpochBlock_Flags_blob_encrypted : NONE), },
    { .flags = EpochBlock_Flags_last_eb, },
  };
  return ll_atonn_rt_epoch_block_array;
}
"""
TEXT = HEAD + GIVEN + EPOCH.replace("OUTPUT", "_mem_pool__user_io_output_0_Default") + ITEMS


def read(text: str, folder: Path, name: str = "network.c") -> Program:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_network_c(path).program


def test_a_buffer_of_the_application_is_a_pool_of_its_own(tmp_path: Path) -> None:
    program = read(TEXT, tmp_path)
    pool = program.pool("_user_io_output_0")
    assert (pool.size_bytes, pool.relative) == (64, True)
    (epoch,) = program.epochs
    assert epoch.call is not None
    buffers = program.buffer_map()
    assert [buffers[n].pool for n in epoch.call.inputs] == ["npuRAM5"]
    assert [buffers[n].pool for n in epoch.call.outputs] == ["_user_io_output_0"]
    assert program.notes == (
        "the application decides where to place _user_io_output_0: timed as the compiler assumes, "
        "with 2 bytes per cycle",
    )


def test_without_its_declaration_the_base_is_not_known(tmp_path: Path) -> None:
    text = TEXT.replace(GIVEN, "")
    with pytest.raises(FileError, match="'_mem_pool__user_io_output_0_Default' is not declared"):
        read(text, tmp_path)


@pytest.mark.parametrize("name", ["network.c.old", "network.bak", "model.C"])
def test_any_name_will_do(name: str, tmp_path: Path) -> None:
    read(TEXT, tmp_path, name)
    assert npuscope.estimate(tmp_path / name).counts["SW"] == 1


def test_a_statement_that_nothing_hangs_on_is_noted(tmp_path: Path) -> None:
    text = TEXT.replace("  ll_sw_forward", "  trace->level ^= 3;\n  ll_sw_forward")
    *_, note = read(text, tmp_path).notes
    assert note.startswith(f"skipped at {tmp_path / 'network.c'}:")
    assert "unknown statement 'trace->level ^= 3' at offset" in note


@pytest.mark.parametrize(
    "statement",
    [
        "info.general.input.dim.tensor_w = 9;",
        "info.general.input.dim.tensor_w = a ? b : c;",
        "Dequantizelinear_sw_info info = table[2] * other;",
    ],
)
def test_a_statement_that_matters_is_an_error(statement: str, tmp_path: Path) -> None:
    text = TEXT.replace("  ll_sw_forward", f"  {statement}\n  ll_sw_forward")
    with pytest.raises(FileError, match=r"network\.c:\d+:\d+: .* at offset \d+") as caught:
        read(text, tmp_path)
    assert "npuscope does not know this form of C" in caught.value.hint


def test_arguments_that_are_not_known_matter_to_kernels_only(tmp_path: Path) -> None:
    harmless = TEXT.replace("  ll_sw", "  invalidate(a * b);\n  ll_sw")
    assert "skipped at" in read(harmless, tmp_path).notes[-1]
    with pytest.raises(FileError, match="between these values"):
        read(TEXT.replace("(&info)", "(info * other)"), tmp_path)


def test_empty_files_and_pointers_are_told(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="is empty"):
        read(" \n", tmp_path)
    with pytest.raises(FileError, match="this is a Git LFS pointer, not the file itself") as caught:
        read("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", tmp_path)
    assert caught.value.hint == "fetch the file: git lfs pull"


def test_a_sign_in_the_middle_of_a_line_is_damage(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="'#' in the middle of a line") as caught:
        read(TEXT.replace("0.5 }", "0.####5 }"), tmp_path)
    assert "truncated or edited" in caught.value.hint


def test_the_other_networks_of_a_folder_are_named(tmp_path: Path) -> None:
    for name in ("b.c", "a.c"):
        (tmp_path / name).write_text(TEXT, encoding="utf-8")
    (tmp_path / "atonbuf.AXISRAM5.c").write_text(f"{POOL}\nconst uint64_t x[1] = {{1}};")
    program = read_program(tmp_path)
    assert program.name == "a"
    assert program.notes[-1] == "this is a.c; the folder also holds the network of b.c"


def test_integers_may_have_16_bits(tmp_path: Path) -> None:
    wide = TEXT.replace("input.stride.w = 4", "input.stride.w = 8")
    wide = wide.replace("input.stride.c = 1", "input.stride.c = 2")
    program = read(wide, tmp_path)
    (epoch,) = program.epochs
    assert epoch.call is not None
    source = program.buffer_map()[epoch.call.inputs[0]]
    assert (source.nbits, source.size_bytes, source.shape) == (16, 32, (1, 1, 4, 4))
