/* SPDX-License-Identifier: Apache-2.0
 * Two callbacks for the runtime: what every epoch block costs, a row each, in a table in memory. */
#ifndef CALLBACKS_TABLE_H
#define CALLBACKS_TABLE_H

#include "debug_unit.h"
#include "ll_aton_runtime.h"

#ifndef LL_ATON_EB_DBG_INFO
#error "blocks are known by their numbers and engines: define LL_ATON_EB_DBG_INFO"
#endif

#define CALLBACKS_MOST_ROWS 128u

/* The debug unit has 16 counters: engines and bursts take an inference each. */
typedef enum { CALLBACKS_ENGINES, CALLBACKS_BURSTS } callbacks_pass;

typedef struct {
  uint32_t number, last_number, flags;
  uint32_t inputs, outputs;       /* stream engines that read and that write, a bit each */
  uint32_t mcu[3], npu[3];        /* cycles before, during and after the work, by both clocks */
  uint32_t length;                /* NPU cycles from the first input to the last output */
  uint32_t engines[NPU_ENGINES];  /* cycles not stalled, in ascending order of the engines */
  uint32_t bursts[NPU_COUNTERS];  /* interface 0 written, read, 1 written, read; 1, 2, 4, 8 beats */
  uint32_t cache[NPU_CACHE_MONITORS];
} callbacks_row;

/* Blocks behind the last row are counted but not kept. */
extern callbacks_row callbacks_rows[CALLBACKS_MOST_ROWS];
extern uint32_t callbacks_count;

/* Before each inference. A second pass fills the other columns of the same rows. */
void callbacks_begin(callbacks_pass pass);

/* For LL_ATON_RT_SetRuntimeCallback and LL_ATON_RT_SetEpochCallback. */
void callbacks_on_runtime(LL_ATON_RT_Callbacktype_t type);
void callbacks_on_block(LL_ATON_RT_Callbacktype_t type, const NN_Instance_TypeDef *nn_instance,
                        const NPUSCOPE_ITEM *block);

#endif
