"""A network written by hand: two software epochs that add a weight, then count the inferences."""

from __future__ import annotations

import struct
from pathlib import Path

COUNT = 16
WEIGHTS = tuple(100 * number for number in range(COUNT))
POOL = 0x34100000
INPUT, OUTPUT = 0, 64

_SOURCE = """/* A network for tests. */
#include "ll_aton_NN_interface.h"
#include "ll_aton.h"
#include "ll_aton_lib.h"
#include "ll_aton_version.h"
@INCLUDE@
/* global pool 0 is 0.12 KB */
@POOL_0@
/* global pool 1 is 0.06 KB */
@POOL_1@
@SYMBOL@
@GLOBAL@

static int32_t *volatile weights = (int32_t *)(@WEIGHTS_BASE@);
static int32_t inferences;

bool LL_ATON_EC_Network_Init_hand(void) { return true; }
bool LL_ATON_EC_Inference_Init_hand(void) { inferences++; return true; }
LL_ATON_User_IO_Result_t LL_ATON_Set_User_Input_Buffer_hand(
  uint32_t num, void *buffer, uint32_t size)
{ (void)num; (void)buffer; (void)size; return LL_ATON_User_IO_WRONG_INDEX; }
LL_ATON_User_IO_Result_t LL_ATON_Set_User_Output_Buffer_hand(
  uint32_t num, void *buffer, uint32_t size)
{ (void)num; (void)buffer; (void)size; return LL_ATON_User_IO_WRONG_INDEX; }
void *LL_ATON_Get_User_Input_Buffer_hand(uint32_t num) { (void)num; return NULL; }
void *LL_ATON_Get_User_Output_Buffer_hand(uint32_t num) { (void)num; return NULL; }

static void LL_ATON_End_EpochBlock_1(
  const LL_ATON_RT_EpochBlockItem_t *epoch_block, const NN_Instance_TypeDef *nn_instance)
{
  (void)epoch_block; (void)nn_instance;
  const int32_t *in = (const int32_t *)(@PLACE@);
  int32_t *out = (int32_t *)(@PLACE@ + 64);
  for (int i = 0; i < 16; i++) out[i] = in[i] + @WEIGHTS@[i];
  @FIRST@
}

static void LL_ATON_End_EpochBlock_2(
  const LL_ATON_RT_EpochBlockItem_t *epoch_block, const NN_Instance_TypeDef *nn_instance)
{
  (void)epoch_block; (void)nn_instance;
  int32_t *out = (int32_t *)(@PLACE@ + 64);
  for (int i = 0; i < 16; i++) out[i] += inferences;
  @SECOND@
}

const LL_ATON_RT_EpochBlockItem_t *LL_ATON_EpochBlockItems_hand(void)
{
  static @CONST@ LL_ATON_RT_EpochBlockItem_t ll_atonn_rt_epoch_block_array[] = {
@ITEM_1@
@ITEM_2@
    { .flags = EpochBlock_Flags_last_eb, },
  };
  return ll_atonn_rt_epoch_block_array;
}

const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info_hand(void)
{
  static const uint32_t shape[] = { 1, 1, 1, 16 };
  static @CONST@ LL_Buffer_InfoTypeDef buff_info[] = {
@IN@
#if LL_ATON_DBG_BUFFER_INFO_EXCLUDED == 0
@PARAMETER@
#endif
    { .name = NULL },
  };
  return buff_info;
}

const LL_Buffer_InfoTypeDef *LL_ATON_Output_Buffers_Info_hand(void)
{
  static const uint32_t shape[] = { 1, 1, 1, 16 };
  static @CONST@ LL_Buffer_InfoTypeDef buff_info[] = {
@OUT@
    { .name = NULL },
  };
  return buff_info;
}
@TAIL@
"""


def _pool(index: int, file: str, name: str, place: str, rest: str) -> str:
    return f"/* index={index} file postfix={file} name={name} offset={place} {rest} score=1  */"


def _item(number: int) -> str:
    flags = " | ".join(f"EpochBlock_Flags_{f}" for f in ("epoch_start", "epoch_end", "pure_sw"))
    function = f".end_epoch_block = LL_ATON_End_EpochBlock_{number}"
    return f"{{ {function}, .flags = {flags}, .epoch_num = {number}, .last_epoch_num = {number} }},"


def _buffer(name: str, base: str, start: int, is_param: int) -> str:
    place = f".offset_start = {start}, .offset_end = {start + 64}, .offset_limit = {start + 128}"
    return (
        f'{{ .name = "{name}", .addr_base = {{(unsigned char *)({base})}}, {place}, '
        f".is_param = {is_param}, .epoch = {1 - is_param}, .batch = 16, .mem_shape = shape, "
        ".mem_ndims = 4, .chpos = CHPos_Last, .Qm = 31, .type = DataType_INT32, .nbits = 32, "
        ".ndims = 4, .shape = shape },"
    )


_WIDTH = "byte width=8 freq ratio=2.5"
# The first ones may hold marks of the later ones.
_PLAIN = {
    "POOL_0": _pool(
        0, "AXISRAM2", "cpuRAM2", "@PLACE@  absolute_mode", f"size=4096 READ_WRITE {_WIDTH}"
    ),
    "POOL_1": _pool(
        1,
        "xSPI2",
        "octoFlash",
        "0x71000000  @MODE@_mode",
        f"size=4096 READ_ONLY {_WIDTH} cacheable=ON",
    ),
    "ITEM_1": _item(1),
    "ITEM_2": _item(2),
    "IN": _buffer("in", "@PLACE@", INPUT, 0),
    "OUT": _buffer("out", "@PLACE@", OUTPUT, 0),
    "PARAMETER": _buffer("weights", "@WEIGHTS_BASE@", 0, 1),
    "PLACE": f"{POOL:#x}",
    "INCLUDE": "",
    "MODE": "relative",
    "SYMBOL": "extern unsigned char _mem_pool_xSPI2_hand[]; /* [64]; */",
    "GLOBAL": "",
    "WEIGHTS": "weights",
    "WEIGHTS_BASE": "_mem_pool_xSPI2_hand",
    "FIRST": "",
    "SECOND": "",
    "CONST": "__attribute__((used))",
    "TAIL": "",
}


def source(**parts: str) -> str:
    """The source; `parts` replace marked places, such as FIRST, the end of the first epoch."""
    text = _SOURCE
    for name, value in (_PLAIN | parts).items():
        text = text.replace(f"@{name}@", value)
    return text


def write_net(folder: Path, **parts: str) -> Path:
    """A build folder: the source, and the initialiser of its pool."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "network.c").write_text(source(**parts))
    (folder / "network_atonbuf.xSPI2.raw").write_bytes(struct.pack(f"<{COUNT}i", *WEIGHTS))
    return folder
