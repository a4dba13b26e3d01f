"""The loader's functions as an application in C calls them."""

from __future__ import annotations

import struct
from pathlib import Path

from firmware.bare import M33, BareM33, Code, Do, build_firmware
from firmware.loading import HERE, INPUTS
from firmware.sample_image import COUNT, build_sample, expected

_APPLICATION = r"""
#include "npuscope_kernels.h"
#include "npuscope_loader.h"
#include "npuscope_memory.h"
static uint32_t cleaned;
static void clean(uintptr_t address, uint32_t size) { (void)address; cleaned += size; }
static const struct ll_aton_reloc_callback callbacks = {.ll_aton_cache_mcu_clean_range = clean};
static const npuscope_memory memories[] = {{COPY_POOL, 64}, {RESET_POOL, 64}};
static const ll_aton_reloc_config config = {EXEC_RAM, 0x10000, EXT_RAM, 0x1000, 0,
                                            AI_RELOC_RT_LOAD_MODE_COPY | 4};
static int32_t results[20], output[10];
static void use(int32_t *input) {
  static NN_Instance_TypeDef network, none;
  ll_aton_reloc_info info;
  uintptr_t file = 1;
  int32_t *at = results;
  npuscope_loader_set_memories(memories, 2);
  *at++ = ll_aton_reloc_get_info(FILE_AT, 0);
  *at++ = ll_aton_reloc_get_info(FILE_AT, &info);
  *at++ = ll_aton_reloc_install(FILE_AT, 0, &network);
  *at++ = ll_aton_reloc_install(FILE_AT, &config, 0);
  *at++ = ll_aton_reloc_install(0, &config, &network);
  *at++ = ll_aton_reloc_install(FILE_AT, &config, &network);
  *at++ = npuscope_loader_reason()[0];
  *at++ = ll_aton_reloc_is_valid(0);
  *at++ = ll_aton_reloc_is_valid(&none);
  *at++ = ll_aton_reloc_get_file_ptr(&none, &file);
  *at++ = (int32_t)file;
  *at++ = ll_aton_reloc_get_file_ptr(&network, 0);
  *at++ = ll_aton_reloc_get_file_ptr(&network, &file);
  *at++ = (int32_t)file;
  *at++ = ll_aton_reloc_set_callbacks(&none, &callbacks);
  *at++ = ll_aton_reloc_set_callbacks(&network, 0);
  *at++ = ll_aton_reloc_set_callbacks(&network, &callbacks);
  *at++ = memcmp(network.network->network_name, "sample", 7);
  ll_aton_reloc_set_input(&network, 0, input, 32);
  ll_aton_reloc_set_output(&network, 0, output, sizeof output);
  *at++ = LL_ATON_RT_Main(&network);
  *at++ = (int32_t)cleaned;
}
static void application(const npuscope_call *call) {
  use(call->inputs[0].data);
  memcpy(call->outputs[0].data, results, sizeof results);
  memcpy((char *)call->outputs[0].data + sizeof results, output, sizeof output);
}
npuscope_kernel *const npuscope_test_kernels[] = {application};
const uint32_t npuscope_test_kernel_count = 1;
"""

CALL, IN, OUT = HERE.buffers, HERE.buffers + 256, HERE.buffers + 512


def test_application(tmp_path: Path) -> None:
    (tmp_path / "application.c").write_text(_APPLICATION)
    places = {
        "FILE_AT": HERE.file,
        "EXEC_RAM": HERE.exec_ram,
        "EXT_RAM": HERE.ext_ram,
        "COPY_POOL": HERE.copy_pool,
        "RESET_POOL": HERE.reset_pool,
    }
    defines = [f"{name}={value:#x}u" for name, value in places.items()]
    board = BareM33(build_firmware(M33, [tmp_path / "application.c"], defines=defines))
    board.load(HERE.file, build_sample(HERE).sealed)
    tensors = [struct.pack("<3I8I4B", at, *(0,) * 10, 0, 5, 255, 0) for at in (IN, OUT)]
    board.load(CALL, struct.pack("<4I2B2x", CALL + 64, CALL + 128, 0, 0, 1, 1))
    board.load(CALL + 64, tensors[0].ljust(64, b"\0") + tensors[1])
    board.load(IN, struct.pack(f"<{COUNT}i", *INPUTS))
    assert board.command(Do.KERNEL, 0, CALL).status == Code.NONE
    found = struct.unpack("<20i", board.read(OUT, 80))
    assert found[:7] == (Code.ARG, 0, Code.ARG, Code.ARG, Code.INVALID_BIN, 0, 0)
    assert found[7:10] == (Code.INVALID_HDL,) * 3
    assert found[10:14] == (0, Code.ARG, 0, HERE.file)
    assert found[14:18] == (Code.INVALID_HDL, Code.ARG, 0, 0)
    assert found[18:] == (2, 4 * COUNT)
    assert struct.unpack("<8i", board.read(OUT + 80, 4 * COUNT)) == expected(INPUTS, 1)
