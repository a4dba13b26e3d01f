/* SPDX-License-Identifier: Apache-2.0
 * The callbacks of the profiler's guideline in the place of those of firmware/examples. The pieces
 * that a reader of the page has to complete are here: the counters' numbers, where values go, and
 * when the clock is set. The page's own pieces are included as they are. */
#include "callbacks_table.h"
#include "ll_aton_dbgtrc.h"
#include "ll_aton_runtime.h"

#define _COUNTER_BASE_IDX 1
#define _COUNTER_ID 15
#define _NPU_CLK_COUNTER 15
#define LENGTH 11u /* and two more */

callbacks_row callbacks_rows[CALLBACKS_MOST_ROWS];
uint32_t callbacks_count;

static callbacks_pass pass;
static uint32_t stamps[4], stamp_count, values[16], value_count;

void callbacks_begin(callbacks_pass next) {
  pass = next;
  callbacks_count = 0;
}

static void start_clock(void) {
#include "clock_start.inc"
}

static void reset_clock(void) {
#include "clock_reset.inc"
}

static uint32_t _get_free_running_counters(void) {
  const uint32_t now =
#include "clock_read.inc"
  stamps[stamp_count++ % 4u] = now;
  return now;
}

#define _rt_callback callbacks_on_runtime
#include "runtime.inc"

/* The page keeps the values in an array of the function that reads them: look over its shoulder. */
static uint32_t seen(uint32_t value) {
  values[value_count++ % 16u] = value;
  return value;
}
#define LL_Dbgtrc_Counter_Read(id, counter) seen(LL_Dbgtrc_Counter_Read(id, counter))

#define _configure_counters engines_configure
#define _dump_counters engines_dump
#define _epoch_callback engines_callback
#include "engines.inc"
#include "epoch.inc"
#undef _configure_counters
#undef _dump_counters
#undef _epoch_callback
#define _configure_counters bursts_configure
#define _dump_counters bursts_dump
#define _epoch_callback bursts_callback
#include "bursts.inc"
#include "epoch.inc"
#undef LL_Dbgtrc_Counter_Read

static void begin(const NPUSCOPE_ITEM *block) {
  const uint32_t inputs = block->in_streng_mask, outputs = block->out_streng_mask;
  stamp_count = value_count = 0;
  for (int counter = 0; counter < 16; counter++) LL_Dbgtrc_Counter_Stop(0, counter);
  if (pass == CALLBACKS_BURSTS) return;
  start_clock();
  reset_clock();
  if (inputs && outputs)
    LL_Dbgtrc_Count_Epoch_Len(LENGTH, (uint32_t)__builtin_ctz(inputs),
                              31u - (uint32_t)__builtin_clz(outputs));
}

static void keep(const NPUSCOPE_ITEM *block) {
  callbacks_row *row = &callbacks_rows[callbacks_count];
  if (callbacks_count++ >= CALLBACKS_MOST_ROWS) return;
  row->number = (uint32_t)block->epoch_num;
  if (pass == CALLBACKS_BURSTS) {
    for (uint32_t i = 0; i < 16; i++) row->bursts[i] = values[i];
    return;
  }
  row->inputs = block->in_streng_mask;
  row->outputs = block->out_streng_mask;
  for (uint32_t i = 0; i < NPU_ENGINES; i++) row->engines[i] = i < value_count ? values[i] : 0;
  for (uint32_t i = 0; i < 3; i++) row->npu[i] = stamps[i + 1] - stamps[i];
  row->length = row->inputs && row->outputs ? LL_Dbgtrc_Counter_Read(0, LENGTH) : 0;
}

void callbacks_on_block(LL_ATON_RT_Callbacktype_t type, const NN_Instance_TypeDef *nn_instance,
                        const NPUSCOPE_ITEM *block) {
  if (type == LL_ATON_RT_Callbacktype_PRE_START) begin(block);
  if (type > LL_ATON_RT_Callbacktype_POST_END) return;
  (pass == CALLBACKS_ENGINES ? engines_callback : bursts_callback)(type, nn_instance, block);
  if (type == LL_ATON_RT_Callbacktype_POST_END) keep(block);
}
