/* SPDX-License-Identifier: Apache-2.0
 * Counters around the epochs of one inference. */
#include "instrument.h"

#include "debug_unit.h"
#include "npuscope_memory.h"

#ifndef LL_ATON_EB_DBG_INFO
#error "epochs are known by their numbers: define LL_ATON_EB_DBG_INFO"
#endif

#define CLOCK 0        /* this counter runs with the NPU's clock */
#define FIRST_ENGINE 1
#define ENGINE_ROOM (NPU_COUNTERS - FIRST_ENGINE)
#define ALL_ENGINES ((1u << NPU_ENGINES) - 1u)
#define ENGINE_CHOICES 4u
#define ACTIVE (COUNT_STRG_I_ACTIVE | COUNT_STRG_O_ACTIVE | COUNT_STRG_ACTIVE)

typedef NPUSCOPE_ITEM item_t;

typedef struct {
  uint32_t mcu, npu;
} stamp_t;

static struct {
  uint32_t options;
  instrument_listener *listener;
  void *who;
  bool is_open;     /* blocks of the node are still to come */
  uint32_t phase;   /* the one that is under way */
  stamp_t begun;    /* when it began */
  uint32_t inputs, outputs; /* engines that are counted */
  validation_node node;
} state;

uint32_t instrument_granted(uint32_t options) {
  static const uint8_t choices[ENGINE_CHOICES] = {COUNT_STRG_I_ACTIVE, COUNT_STRG_O_ACTIVE,
                                                  COUNT_STRG_ACTIVE, COUNT_STRG_HENV};
  const uint32_t cache = options & COUNT_NPU_CACHE;
  for (uint32_t i = 0; i < ENGINE_CHOICES; i++)
    if (options & choices[i]) return choices[i] | COUNT_EPOCH_LEN | cache;
  if (options & COUNT_BUSIF_RW_DATA) return COUNT_BUSIF_RW_DATA | cache;
  return (options & COUNT_EPOCH_LEN) | cache;
}

void instrument_start(uint32_t options, instrument_listener *listener, void *who) {
  state.options = instrument_granted(options);
  state.listener = listener;
  state.who = who;
  state.is_open = false;
}

void instrument_on_runtime(LL_ATON_RT_Callbacktype_t type) {
  if (type == LL_ATON_RT_Callbacktype_RT_Init) {
    LL_Dbgtrc_EnableClock();
    LL_Dbgtrc_Init(0);
  } else if (type == LL_ATON_RT_Callbacktype_RT_Deinit) {
    LL_Dbgtrc_Deinit(0);
    LL_Dbgtrc_DisableClock();
  }
}

static bool counts(uint32_t options) { return state.options & options; }

static bool is_internal(const item_t *block) { return block->flags & EpochBlock_Flags_internal; }

bool instrument_ends_node(const item_t *block) {
  const uint32_t next = block[1].flags;
  return is_internal(block) || block->flags & EpochBlock_Flags_epoch_end ||
         next & (EpochBlock_Flags_epoch_start | EpochBlock_Flags_last_eb);
}

static void find_engines(const item_t *block, uint32_t *inputs, uint32_t *outputs) {
  *inputs = *outputs = 0;
  for (;; block++) {
    *inputs |= block->in_streng_mask & ALL_ENGINES;
    *outputs |= block->out_streng_mask & ALL_ENGINES;
    if (instrument_ends_node(block)) return;
  }
}

static uint32_t number_of(uint32_t mask) {
  uint32_t count = 0;
  for (; mask; mask &= mask - 1) count++;
  return count;
}

/* The lowest engines of a mask. */
static uint32_t lowest(uint32_t mask, uint32_t count) {
  uint32_t kept = 0;
  for (; mask && count; mask &= mask - 1, count--) kept |= mask & (0u - mask);
  return kept;
}

/* Both ways at once, engines past the last counter are left out. */
static void choose_engines(const item_t *block) {
  find_engines(block, &state.inputs, &state.outputs);
  if (counts(COUNT_STRG_I_ACTIVE)) {
    state.inputs = ALL_ENGINES;
    state.outputs = 0;
  } else if (counts(COUNT_STRG_O_ACTIVE)) {
    state.inputs = 0;
    state.outputs = ALL_ENGINES;
  } else {
    const uint32_t room = counts(COUNT_STRG_HENV) ? 0 : ENGINE_ROOM - number_of(state.inputs);
    state.outputs = lowest(state.outputs, room);
  }
}

static void watch_clock(void) {
  const LL_Dbgtrc_Counter_InitTypdef conf = {
      .signal = DBGTRC_VDD, .evt_type = DBGTRC_EVT_HI, .wrap = 1, .int_disable = 1};
  LL_Dbgtrc_Counter_Init(0, CLOCK, &conf);
  LL_Dbgtrc_Counter_Start(0, CLOCK);
}

static void set_counters_up(const item_t *block) {
  choose_engines(block);
  if (counts(COUNT_EPOCH_LEN)) watch_clock();
  if (counts(ACTIVE)) {
    LL_Dbgtrc_Count_StrengActive_Config(state.inputs, state.outputs, FIRST_ENGINE);
    LL_Dbgtrc_Count_StrengActive_Start(state.inputs, state.outputs, FIRST_ENGINE);
  }
  if (counts(COUNT_STRG_HENV)) {
    LL_Dbgtrc_Count_StrengHENV_Config(state.inputs, FIRST_ENGINE);
    LL_Dbgtrc_Count_StrengHENV_Start(state.inputs, FIRST_ENGINE);
  }
  if (counts(COUNT_BUSIF_RW_DATA)) LL_Dbgtrc_BurstLenBenchStart(0);
  if (counts(COUNT_NPU_CACHE)) npu_cache_monitors_start();
}

static void take_counters_down(void) {
  if (counts(COUNT_EPOCH_LEN)) LL_Dbgtrc_Counter_Stop(0, CLOCK);
  if (counts(ACTIVE))
    LL_Dbgtrc_Count_StrengActive_Stop(state.inputs, state.outputs, FIRST_ENGINE);
  if (counts(COUNT_STRG_HENV)) LL_Dbgtrc_Count_StrengHENV_Stop(state.inputs, FIRST_ENGINE);
  if (counts(COUNT_BUSIF_RW_DATA))
    for (int counter = 0; counter < (int)NPU_COUNTERS; counter++)
      LL_Dbgtrc_Counter_Stop(0, counter);
  if (counts(COUNT_NPU_CACHE)) npu_cache_monitors_stop();
}

/* Counters are in ascending order of the engines; one that goes both ways has two, reading first. */
static uint32_t read_engines(char way, validation_engine *found, bool also_idle) {
  const uint32_t mask = way == 'i' ? state.inputs : state.outputs;
  uint32_t count = 0, counter = FIRST_ENGINE;
  for (uint32_t engine = 0; mask >> engine; engine++) {
    const bool reads = state.inputs >> engine & 1u, writes = state.outputs >> engine & 1u;
    const uint32_t at = counter + (way == 'o' && reads);
    counter += (uint32_t)reads + (uint32_t)writes;
    if (!(mask >> engine & 1u)) continue;
    const uint32_t cycles = LL_Dbgtrc_Counter_Read(0, (int)at);
    if (cycles || also_idle) found[count++] = (validation_engine){(uint8_t)engine, way, cycles};
  }
  return count;
}

/* An idle engine is stalled all the time: it is not told of. */
static void read_active(validation_node *node) {
  const uint32_t inputs = read_engines('i', node->active, false);
  node->engine_way = counts(COUNT_STRG_O_ACTIVE) ? 'o' : 'i';
  node->active_engines = inputs + read_engines('o', node->active + inputs, false);
}

static void read_counters(validation_node *node) {
  node->has_npu_cycles = counts(COUNT_EPOCH_LEN);
  node->has_bursts = counts(COUNT_BUSIF_RW_DATA);
  node->has_cache = counts(COUNT_NPU_CACHE);
  if (counts(ACTIVE)) read_active(node);
  if (counts(COUNT_STRG_HENV))
    node->henv_engines = read_engines('i', node->henv, true);
  if (node->has_bursts) {
    _Static_assert(sizeof node->bursts == NPU_COUNTERS * sizeof(unsigned int), "16 counters");
    LL_Dbgtrc_BurstLenGet(0, (unsigned int *)node->bursts);
  }
  if (node->has_cache) npu_cache_monitors_read(node->cache);
}

static stamp_t now(void) {
  const uint32_t npu = counts(COUNT_EPOCH_LEN) ? LL_Dbgtrc_Counter_Read(0, CLOCK) : 0;
  return (stamp_t){instrument_mcu_cycles(), npu};
}

static validation_block kind_of(uint32_t flags) {
  if (flags & EpochBlock_Flags_internal) return BLOCK_EXTRA;
  if (flags & EpochBlock_Flags_pure_sw) return BLOCK_SW;
  if (flags & EpochBlock_Flags_hybrid) return BLOCK_HYBRID;
  return flags & EpochBlock_Flags_blob ? BLOCK_EC : BLOCK_HW;
}

static void begin_block(const item_t *block) {
  validation_node *node = &state.node;
  if (!state.is_open) {
    memset(node, 0, sizeof *node);
    node->number = block->epoch_num;
    set_counters_up(block);
  }
  state.is_open = true;
  state.phase = 0;
  node->last = block->last_epoch_num;
  node->flags |= block->flags;
}

static void end_phase(void) {
  const stamp_t end = now();
  state.node.mcu_cycles[state.phase] += end.mcu - state.begun.mcu;
  state.node.npu_cycles[state.phase] += end.npu - state.begun.npu;
  state.phase++;
}

static void end_block(const item_t *block) {
  if (!instrument_ends_node(block)) return;
  state.is_open = false;
  state.node.block = kind_of(state.node.flags);
  take_counters_down();
  read_counters(&state.node);
  if (state.listener) state.listener(state.who, &state.node, block);
}

/* The time of a callback belongs to no phase: one ends when it begins, the next begins at its
 * end. */
void instrument_on_block(LL_ATON_RT_Callbacktype_t type, const NN_Instance_TypeDef *nn_instance,
                         const item_t *block) {
  (void)nn_instance;
  switch (type) {
    case LL_ATON_RT_Callbacktype_PRE_START: begin_block(block); break;
    case LL_ATON_RT_Callbacktype_POST_START:
    case LL_ATON_RT_Callbacktype_PRE_END: end_phase(); break;
    case LL_ATON_RT_Callbacktype_POST_END:
      end_phase();
      end_block(block);
      return;
    default: return;
  }
  state.begun = now();
}
