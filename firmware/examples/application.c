/* SPDX-License-Identifier: Apache-2.0
 * A small application: an image is loaded, runs twice, and its epochs are counted. For the
 * emulated board; another one has other memories and another way to open the NPU's line. */
#include "application.h"

#include "board.h"
#include "callbacks_table.h"
#include "library.h"
#include "npuscope_loader.h"
#include "npuscope_memory.h"
#include "npuscope_npu.h"
#include "npuscope_platform.h"

volatile int32_t application_code = APPLICATION_BUSY;
const char *volatile application_reason = "";

static const npuscope_memory pools[] = {
    {POOLS_ADDRESS, INTERNAL_RAM_END - POOLS_ADDRESS},
    {NETWORK_RAM_ADDRESS, NETWORK_RAM_BYTES},
};

static NN_Instance_TypeDef network;

void npuscope_npu_open_line(void) {
  BOARD_WORD(0xE000E100u + 4u * (NPU_INTERRUPT / 32u)) = 1u << NPU_INTERRUPT % 32u;
}

static int refuse(int code, const char *reason) {
  application_reason = reason;
  return code;
}

static int load(void) {
  const ll_aton_reloc_config places = {.exec_ram_addr = EXEC_RAM_ADDRESS,
                                       .exec_ram_size = EXEC_RAM_BYTES,
                                       .ext_ram_addr = NETWORK_RAM_ADDRESS,
                                       .ext_ram_size = NETWORK_RAM_BYTES,
                                       .mode = AI_RELOC_RT_LOAD_MODE_COPY |
                                               AI_RELOC_RT_LOAD_MODE_CLEAR};
  npuscope_loader_set_memories(pools, sizeof pools / sizeof *pools);
  int code = ll_aton_reloc_install(APPLICATION_IMAGE_ADDRESS, &places, &network);
  /* Kernels and moves that an image leaves to its firmware. */
  if (!code) code = ll_aton_reloc_set_callbacks(&network, library_callbacks());
  return code ? refuse(code, npuscope_loader_reason()) : code;
}

/* Before every inference: a network uses the memory of its inputs for other things as well. */
static int give_inputs(void) {
  const uint8_t *data = (const uint8_t *)APPLICATION_INPUTS_ADDRESS;
  const LL_Buffer_InfoTypeDef *info;
  for (int32_t i = 0; (info = ll_aton_reloc_get_input_buffers_info(&network, i)); i++) {
    if (info->is_param) break; /* they follow the inputs */
    if (info->is_user_allocated)
      return refuse(AI_RELOC_RT_ERR_MEMORY, "the image brings no memory for its inputs");
    unsigned char *input = info->addr_base.p + info->offset_start;
    const uint32_t bytes = info->offset_end - info->offset_start;
    memcpy(input, data, bytes);
    npuscope_clean_data_cache((uintptr_t)input, bytes);
    data += bytes;
  }
  return AI_RELOC_RT_ERR_NONE;
}

static int infer(callbacks_pass pass) {
  LL_ATON_RT_RetValues_t value;
  const int code = give_inputs();
  if (code) return code;
  callbacks_begin(pass);
  npuscope_invalidate_npu_cache();
  LL_ATON_RT_Reset_Network(&network);
  while ((value = LL_ATON_RT_RunEpochBlock(&network)) != LL_ATON_RT_DONE) {
    if (value == NPUSCOPE_RT_REFUSED)
      return refuse(AI_RELOC_RT_ERR_INSTALL, npuscope_runtime_reason(&network));
    if (value == LL_ATON_RT_WFE) npuscope_wait_for_event();
  }
  return npuscope_npu_take_error();
}

static int run(void) {
  int code = load();
  if (code) return code;
  LL_ATON_RT_Init_Network(&network);
  if (*npuscope_runtime_reason(&network))
    return refuse(AI_RELOC_RT_ERR_INSTALL, npuscope_runtime_reason(&network));
  LL_ATON_RT_SetEpochCallback(callbacks_on_block, &network);
  code = infer(CALLBACKS_ENGINES);
  if (!code) code = infer(CALLBACKS_BURSTS);
  LL_ATON_RT_DeInit_Network(&network);
  return code;
}

int main(void) {
  npuscope_npu_init();
  LL_ATON_RT_SetRuntimeCallback(callbacks_on_runtime);
  LL_ATON_RT_RuntimeInit();
  application_code = run();
  LL_ATON_RT_RuntimeDeInit();
  for (;;) __asm volatile("wfi");
}
