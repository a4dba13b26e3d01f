/* SPDX-License-Identifier: Apache-2.0
 * Two callbacks for the runtime: what every epoch block costs, a row each, in a table in memory. */
#include "callbacks_table.h"

#define CLOCK 0u         /* this counter runs with the NPU's clock */
#define FIRST_ENGINE 1u /* then one for each engine, ten at most */
#define LENGTH 13u       /* the count, and the two events that it lies between */
#define MCU_CYCLES (*(volatile uint32_t *)0xE0001004u) /* DWT */
#define PHASES 3u

typedef NPUSCOPE_ITEM item_t;

callbacks_row callbacks_rows[CALLBACKS_MOST_ROWS];
uint32_t callbacks_count;

static callbacks_pass pass;
static struct {
  uint32_t mcu, npu;
} stamps[PHASES + 1];

void callbacks_begin(callbacks_pass next) {
  pass = next;
  callbacks_count = 0;
}

void callbacks_on_runtime(LL_ATON_RT_Callbacktype_t type) {
  if (type == LL_ATON_RT_Callbacktype_RT_Init) {
    LL_Dbgtrc_EnableClock();
    LL_Dbgtrc_Init(0);
  } else if (type == LL_ATON_RT_Callbacktype_RT_Deinit) {
    LL_Dbgtrc_Deinit(0);
    LL_Dbgtrc_DisableClock();
  }
}

static void watch_clock(void) {
  const LL_Dbgtrc_Counter_InitTypdef conf = {
      .signal = DBGTRC_VDD, .evt_type = DBGTRC_EVT_HI, .wrap = 1, .int_disable = 1};
  LL_Dbgtrc_Counter_Init(0, CLOCK, &conf);
  LL_Dbgtrc_Counter_Start(0, CLOCK);
}

static uint32_t lowest(uint32_t mask) { return (uint32_t)__builtin_ctz(mask); }
static uint32_t number_of(uint32_t mask) { return (uint32_t)__builtin_popcount(mask); }
static uint32_t highest(uint32_t mask) { return 31u - (uint32_t)__builtin_clz(mask); }

/* The masks do not tell which engine begins and which one ends: the lowest input and the highest
 * output are taken. A block of the processor has none. */
static void watch_engines(const item_t *block) {
  const uint32_t inputs = block->in_streng_mask, outputs = block->out_streng_mask;
  watch_clock();
  LL_Dbgtrc_Count_StrengActive_Config(inputs, outputs, FIRST_ENGINE);
  LL_Dbgtrc_Count_StrengActive_Start(inputs, outputs, FIRST_ENGINE);
  if (inputs && outputs) LL_Dbgtrc_Count_Epoch_Len(LENGTH, lowest(inputs), highest(outputs));
}

static void configure_counters(const item_t *block) {
  /* Counters of the block before would go on. */
  for (uint32_t i = 0; i < NPU_COUNTERS; i++) LL_Dbgtrc_Counter_Stop(0, (int)i);
  npu_cache_monitors_start();
  if (pass == CALLBACKS_ENGINES)
    watch_engines(block);
  else
    LL_Dbgtrc_BurstLenBenchStart(0);
}

static void dump_engines(callbacks_row *row, const item_t *block) {
  const uint32_t inputs = block->in_streng_mask, outputs = block->out_streng_mask;
  const uint32_t engines = number_of(inputs) + number_of(outputs);
  LL_Dbgtrc_Count_StrengActive_Stop(inputs, outputs, FIRST_ENGINE);
  row->inputs = inputs;
  row->outputs = outputs;
  /* Counters behind them hold what an earlier block left there. */
  for (uint32_t i = 0; i < NPU_ENGINES; i++)
    row->engines[i] = i < engines ? LL_Dbgtrc_Counter_Read(0, (int)(FIRST_ENGINE + i)) : 0;
  row->length = inputs && outputs ? LL_Dbgtrc_Counter_Read(0, LENGTH) : 0;
}

static void dump_phases(callbacks_row *row) {
  for (uint32_t i = 0; i < PHASES; i++) {
    row->mcu[i] = stamps[i + 1].mcu - stamps[i].mcu;
    row->npu[i] = stamps[i + 1].npu - stamps[i].npu;
  }
}

static void dump_counters(const item_t *block) {
  callbacks_row *row = &callbacks_rows[callbacks_count];
  if (callbacks_count++ >= CALLBACKS_MOST_ROWS) return;
  row->number = (uint32_t)block->epoch_num;
  row->last_number = (uint32_t)block->last_epoch_num;
  row->flags = block->flags;
  npu_cache_monitors_stop();
  npu_cache_monitors_read(row->cache);
  if (pass == CALLBACKS_BURSTS) {
    LL_Dbgtrc_BurstLenGet(0, (unsigned int *)row->bursts);
    return;
  }
  dump_engines(row, block);
  dump_phases(row);
}

/* One look at each clock: the end of a phase is the beginning of the next. */
static void stamp(uint32_t index) {
  stamps[index].npu = LL_Dbgtrc_Counter_Read(0, CLOCK);
  stamps[index].mcu = MCU_CYCLES;
}

void callbacks_on_block(LL_ATON_RT_Callbacktype_t type, const NN_Instance_TypeDef *nn_instance,
                        const item_t *block) {
  (void)nn_instance;
  switch (type) {
    case LL_ATON_RT_Callbacktype_PRE_START:
      configure_counters(block);
      stamp(0);
      break;
    case LL_ATON_RT_Callbacktype_POST_START: stamp(1); break;
    case LL_ATON_RT_Callbacktype_PRE_END: stamp(2); break;
    case LL_ATON_RT_Callbacktype_POST_END:
      stamp(3);
      dump_counters(block);
      break;
    default: break; /* the network comes and goes */
  }
}
