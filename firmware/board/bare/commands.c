/* SPDX-License-Identifier: Apache-2.0
 * What each command of the mailbox does. */
#include "mailbox.h"
#include "npuscope_kernels.h"
#include "npuscope_loader.h"
#include "npuscope_memory.h"
#include "npuscope_platform.h"
#include "npuscope_runtime.h"

#define MOST_MEMORIES 5u

/* A test links its kernels in; firmware without has neither. */
extern npuscope_kernel *const npuscope_test_kernels[] __attribute__((weak));
extern const uint32_t npuscope_test_kernel_count __attribute__((weak));

npuscope_mailbox npuscope_box;

static NN_Instance_TypeDef instance;
static npuscope_memory memories[MOST_MEMORIES];

static void append(const char *text) {
  for (; *text && npuscope_box.log_bytes < sizeof npuscope_box.log; text++)
    npuscope_box.log[npuscope_box.log_bytes++] = *text;
}

void npuscope_loader_print(const char *text) {
  append(text);
  append("\n");
}

static void give_reason(npuscope_mailbox *box, const char *reason) {
  uint32_t at = 0;
  for (; reason[at] && at < sizeof box->reason - 1; at++) box->reason[at] = reason[at];
  box->reason[at] = 0;
}

static int loader_status(npuscope_mailbox *box, int code) {
  if (code) give_reason(box, npuscope_loader_reason());
  return code;
}

static int unknown(npuscope_mailbox *box, const char *reason) {
  give_reason(box, reason);
  return NPUSCOPE_STATUS_UNKNOWN;
}

static int do_info(npuscope_mailbox *box) {
  ll_aton_reloc_info info = {0};
  _Static_assert(sizeof info <= sizeof box->results, "the info fits the results");
  npuscope_loader_set_file_limit(box->arguments[1]);
  const int code = ll_aton_reloc_get_info(box->arguments[0], &info);
  memcpy(box->results, &info, sizeof info);
  return loader_status(box, code);
}

static int do_install(npuscope_mailbox *box) {
  npuscope_install_arguments given;
  memcpy(&given, box->arguments, sizeof given);
  const ll_aton_reloc_config config = {
      .exec_ram_addr = given.exec_ram, .exec_ram_size = given.exec_ram_bytes,
      .ext_ram_addr = given.ext_ram,   .ext_ram_size = given.ext_ram_bytes,
      .ext_param_addr = given.params,  .mode = given.mode,
  };
  npuscope_loader_set_file_limit(given.file_limit);
  npuscope_loader_set_params_limit(given.params_limit);
  npuscope_loader_require_trailer(given.requires_trailer);
  return loader_status(box, ll_aton_reloc_install(given.file, &config, &instance));
}

static void count_runtime(LL_ATON_RT_Callbacktype_t type) { npuscope_box.results[1 + type]++; }

static void count_block(LL_ATON_RT_Callbacktype_t type, const NN_Instance_TypeDef *nn_instance,
                        const NPUSCOPE_ITEM *block) {
  (void)nn_instance, (void)block;
  npuscope_box.results[1 + type]++;
}

static LL_ATON_RT_RetValues_t infer(void) {
  LL_ATON_RT_RetValues_t value;
  do {
    value = LL_ATON_RT_RunEpochBlock(&instance);
    if (value == LL_ATON_RT_WFE) npuscope_wait_for_event();
  } while (value == LL_ATON_RT_NO_WFE || value == LL_ATON_RT_WFE);
  return value;
}

static int run(npuscope_mailbox *box) {
  for (uint32_t i = 0; i < box->arguments[0]; i++) {
    if (i) LL_ATON_RT_Reset_Network(&instance);
    if (infer() != LL_ATON_RT_DONE) {
      give_reason(box, npuscope_runtime_reason(&instance));
      return NPUSCOPE_STATUS_REFUSED;
    }
    box->results[0]++;
  }
  return 0;
}

static int do_run(npuscope_mailbox *box) {
  const int code = ll_aton_reloc_is_valid(&instance);
  if (code) return loader_status(box, code);
  LL_ATON_RT_SetRuntimeCallback(count_runtime);
  LL_ATON_RT_SetNetworkCallback(&instance, count_block);
  LL_ATON_RT_RuntimeInit();
  LL_ATON_RT_Init_Network(&instance);
  const int status = run(box);
  LL_ATON_RT_DeInit_Network(&instance);
  LL_ATON_RT_RuntimeDeInit();
  return status;
}

static int do_memories(npuscope_mailbox *box) {
  const uint32_t count = box->arguments[0];
  if (count > MOST_MEMORIES) return unknown(box, "too many memories");
  memcpy(memories, box->arguments + 1, count * sizeof *memories);
  npuscope_loader_set_memories(memories, count);
  return 0;
}

static int do_kernel(npuscope_mailbox *box) {
  const uint32_t index = box->arguments[0];
  if (!&npuscope_test_kernel_count || index >= npuscope_test_kernel_count)
    return unknown(box, "no such kernel");
  npuscope_test_kernels[index]((const npuscope_call *)(uintptr_t)box->arguments[1]);
  return 0;
}

static int do_buffer(npuscope_mailbox *box) {
  const int32_t number = (int32_t)box->arguments[1];
  const LL_Buffer_InfoTypeDef *info = NULL;
  if (box->arguments[0] == 0) info = ll_aton_reloc_get_input_buffers_info(&instance, number);
  if (box->arguments[0] == 1) info = ll_aton_reloc_get_output_buffers_info(&instance, number);
  if (box->arguments[0] == 2) info = ll_aton_reloc_get_internal_buffers_info(&instance);
  box->results[0] = (uint32_t)(uintptr_t)info;
  return info ? 0 : unknown(box, "no such buffer");
}

static int do_set(npuscope_mailbox *box) {
  const uint32_t *given = box->arguments;
  void *buffer = (void *)(uintptr_t)given[1];
  const int code = ll_aton_reloc_is_valid(&instance);
  if (code) return loader_status(box, code);
  box->results[0] = box->command == NPUSCOPE_DO_SET_INPUT
                        ? ll_aton_reloc_set_input(&instance, given[0], buffer, given[2])
                        : ll_aton_reloc_set_output(&instance, given[0], buffer, given[2]);
  return 0;
}

static int do_get(npuscope_mailbox *box) {
  const void *buffer = box->command == NPUSCOPE_DO_GET_INPUT
                           ? ll_aton_reloc_get_input(&instance, box->arguments[0])
                           : ll_aton_reloc_get_output(&instance, box->arguments[0]);
  box->results[0] = (uint32_t)(uintptr_t)buffer;
  return buffer ? 0 : unknown(box, "no such buffer");
}

static int do_pool(npuscope_mailbox *box) {
  npuscope_loader_set_file_limit(box->arguments[1]);
  const ll_aton_reloc_mem_pool_desc *pool =
      ll_aton_reloc_get_mem_pool_desc(box->arguments[0], (int)box->arguments[2]);
  if (!pool) return unknown(box, "no such pool");
  memcpy(box->results, pool, sizeof *pool);
  return 0;
}

static int do_log(npuscope_mailbox *box) {
  npuscope_loader_set_file_limit(box->arguments[1]);
  ll_aton_reloc_log_info(box->arguments[0]);
  return 0;
}

static int carry_out(npuscope_mailbox *box) {
  switch (box->command) {
    case NPUSCOPE_DO_INFO: return do_info(box);
    case NPUSCOPE_DO_INSTALL: return do_install(box);
    case NPUSCOPE_DO_RUN: return do_run(box);
    case NPUSCOPE_DO_MEMORIES: return do_memories(box);
    case NPUSCOPE_DO_KERNEL: return do_kernel(box);
    case NPUSCOPE_DO_SET_INPUT:
    case NPUSCOPE_DO_SET_OUTPUT: return do_set(box);
    case NPUSCOPE_DO_GET_INPUT:
    case NPUSCOPE_DO_GET_OUTPUT: return do_get(box);
    case NPUSCOPE_DO_BUFFER: return do_buffer(box);
    case NPUSCOPE_DO_POOL: return do_pool(box);
    case NPUSCOPE_DO_LOG: return do_log(box);
    default: return unknown(box, "no such command");
  }
}

void npuscope_execute(npuscope_mailbox *box) {
  box->reason[0] = 0;
  box->log_bytes = 0;
  memset(box->results, 0, sizeof box->results);
  box->status = carry_out(box);
}
