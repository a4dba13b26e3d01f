/* SPDX-License-Identifier: Apache-2.0
 * The loop over the epochs of a network, linked into the firmware or loaded. */
#include "npuscope_runtime.h"

#include "npuscope_entries.h"
#include "npuscope_memory.h"

#define WEAK __attribute__((weak))

typedef NN_Instance_TypeDef instance_t;
typedef NPUSCOPE_ITEM item_t;

static TraceRuntime_FuncPtr_t runtime_callback;

WEAK bool npuscope_start_npu(const instance_t *nn_instance, const item_t *block) {
  (void)nn_instance, (void)block;
  return false;
}

WEAK void npuscope_run_blob(const instance_t *nn_instance, const item_t *block) {
  (void)nn_instance, (void)block;
}

WEAK bool npuscope_npu_finished(const instance_t *nn_instance, const item_t *block) {
  (void)nn_instance, (void)block;
  return true;
}

WEAK void npuscope_stop_npu(const instance_t *nn_instance, const item_t *block) {
  (void)nn_instance, (void)block;
}

WEAK void npuscope_wait_for_event(void) { __asm volatile("wfe" ::: "memory"); }

static bool has(const item_t *block, uint16_t flag) { return block->flags & flag; }

static bool needs_npu(const item_t *block) {
  return has(block,
             EpochBlock_Flags_pure_hw | EpochBlock_Flags_internal | EpochBlock_Flags_blob);
}

static bool is_loaded(const instance_t *nn_instance) { return nn_instance->exec_state.inst_reloc; }

static void tell_runtime(LL_ATON_RT_Callbacktype_t type) {
  if (runtime_callback) runtime_callback(type);
}

static void tell(const instance_t *nn_instance, LL_ATON_RT_Callbacktype_t type,
                 const item_t *block) {
  const TraceEpochBlock_FuncPtr_t callback = nn_instance->exec_state.epoch_callback_function;
  if (callback) callback(type, nn_instance, block);
}

static LL_ATON_RT_RetValues_t refuse(instance_t *nn_instance, const char *reason) {
  nn_instance->exec_state.refusal = reason;
  return NPUSCOPE_RT_REFUSED;
}

const char *npuscope_runtime_reason(const instance_t *nn_instance) {
  const char *reason = nn_instance->exec_state.refusal;
  return reason ? reason : "";
}

/* A bool fills one byte of the register that it comes back in. */
static bool initialise_network(const instance_t *nn_instance) {
  if (is_loaded(nn_instance))
    return (uint8_t)npuscope_call_entry(nn_instance, NPUSCOPE_EC_NETWORK_INIT, 0, 0, 0);
  return nn_instance->network->ec_network_init();
}

static bool initialise_inference(const instance_t *nn_instance) {
  if (is_loaded(nn_instance))
    return (uint8_t)npuscope_call_entry(nn_instance, NPUSCOPE_EC_INFERENCE_INIT, 0, 0, 0);
  return nn_instance->network->ec_inference_init();
}

static const item_t *first_block(const instance_t *nn_instance) {
  if (is_loaded(nn_instance))
    return (const item_t *)(uintptr_t)npuscope_call_entry(nn_instance, NPUSCOPE_EPOCH_ITEMS, 0,
                                                          0, 0);
  return nn_instance->network->epoch_block_items();
}

/* Functions of the older dialect take the block only and leave the second argument alone. */
static void call(const instance_t *nn_instance, npuscope_epoch_function function,
                 const item_t *block) {
  if (!function) return;
  if (is_loaded(nn_instance)) {
    npuscope_call_image(nn_instance, (uintptr_t)function, (uint32_t)(uintptr_t)block,
                        (uint32_t)(uintptr_t)nn_instance, 0);
    return;
  }
#if NPUSCOPE_DIALECT != 3
  function(block);
#else
  function(block, nn_instance);
#endif
}

void LL_ATON_RT_RuntimeInit(void) { tell_runtime(LL_ATON_RT_Callbacktype_RT_Init); }
void LL_ATON_RT_RuntimeDeInit(void) { tell_runtime(LL_ATON_RT_Callbacktype_RT_Deinit); }

void LL_ATON_RT_SetRuntimeCallback(TraceRuntime_FuncPtr_t callback) { runtime_callback = callback; }

void LL_ATON_RT_SetNetworkCallback(instance_t *nn_instance, TraceEpochBlock_FuncPtr_t callback) {
  nn_instance->exec_state.epoch_callback_function = callback;
}

void LL_ATON_RT_SetEpochCallback(TraceEpochBlock_FuncPtr_t callback, instance_t *nn_instance) {
  LL_ATON_RT_SetNetworkCallback(nn_instance, callback);
}

void LL_ATON_RT_Reset_Network(instance_t *nn_instance) {
  NN_Execution_State_TypeDef *state = &nn_instance->exec_state;
  const TraceEpochBlock_FuncPtr_t callback = state->epoch_callback_function;
  const uintptr_t inst_reloc = state->inst_reloc;
  memset(state, 0, sizeof *state);
  state->epoch_callback_function = callback;
  state->inst_reloc = inst_reloc;
  state->first_epoch_block = first_block(nn_instance);
  state->current_epoch_block = state->first_epoch_block;
}

void LL_ATON_RT_Init_Network(instance_t *nn_instance) {
  const bool ready = initialise_network(nn_instance);
  LL_ATON_RT_Reset_Network(nn_instance);
  if (!ready) refuse(nn_instance, "the network could not be initialised");
  tell(nn_instance, LL_ATON_RT_Callbacktype_NN_Init, NULL);
}

void LL_ATON_RT_DeInit_Network(instance_t *nn_instance) {
  tell(nn_instance, LL_ATON_RT_Callbacktype_NN_DeInit, NULL);
}

bool npuscope_insert_epoch_blocks(instance_t *nn_instance, const item_t *blocks) {
  NN_Execution_State_TypeDef *state = &nn_instance->exec_state;
  if (state->saved_current_epoch_block || state->next_epoch_block) return false;
  state->next_epoch_block = blocks;
  return true;
}

static bool start_block(const instance_t *nn_instance, const item_t *block) {
  tell(nn_instance, LL_ATON_RT_Callbacktype_PRE_START, block);
  if (needs_npu(block) && !npuscope_start_npu(nn_instance, block)) return false;
  call(nn_instance, block->start_epoch_block, block);
  if (has(block, EpochBlock_Flags_blob)) npuscope_run_blob(nn_instance, block);
  tell(nn_instance, LL_ATON_RT_Callbacktype_POST_START, block);
  return true;
}

static void end_block(const instance_t *nn_instance, const item_t *block) {
  tell(nn_instance, LL_ATON_RT_Callbacktype_PRE_END, block);
  call(nn_instance, block->end_epoch_block, block);
  if (needs_npu(block)) npuscope_stop_npu(nn_instance, block);
  tell(nn_instance, LL_ATON_RT_Callbacktype_POST_END, block);
}

static void enter_inserted_list(NN_Execution_State_TypeDef *state) {
  state->saved_current_epoch_block = state->current_epoch_block;
  state->saved_first_epoch_block = state->first_epoch_block;
  state->first_epoch_block = state->current_epoch_block = state->next_epoch_block;
  state->next_epoch_block = NULL;
}

static void leave_inserted_list(NN_Execution_State_TypeDef *state) {
  state->current_epoch_block = state->saved_current_epoch_block + 1;
  state->first_epoch_block = state->saved_first_epoch_block;
  state->saved_current_epoch_block = state->saved_first_epoch_block = NULL;
}

static LL_ATON_RT_RetValues_t position(NN_Execution_State_TypeDef *state) {
  if (has(state->current_epoch_block, EpochBlock_Flags_last_eb) &&
      state->saved_current_epoch_block)
    leave_inserted_list(state);
  return has(state->current_epoch_block, EpochBlock_Flags_last_eb) ? LL_ATON_RT_DONE
                                                                   : LL_ATON_RT_NO_WFE;
}

static LL_ATON_RT_RetValues_t advance(NN_Execution_State_TypeDef *state) {
  state->current_epoch_block_started = false;
  if (state->next_epoch_block)
    enter_inserted_list(state);
  else
    state->current_epoch_block++;
  return position(state);
}

LL_ATON_RT_RetValues_t LL_ATON_RT_RunEpochBlock(instance_t *nn_instance) {
  NN_Execution_State_TypeDef *state = &nn_instance->exec_state;
  if (state->refusal) return NPUSCOPE_RT_REFUSED;
  if (!state->inference_started && !initialise_inference(nn_instance))
    return refuse(nn_instance, "the inference could not be initialised");
  state->inference_started = true;
  if (position(state) == LL_ATON_RT_DONE) return LL_ATON_RT_DONE;
  const item_t *block = state->current_epoch_block;
  if (!state->current_epoch_block_started && !start_block(nn_instance, block))
    return refuse(nn_instance, "an epoch needs the NPU, which this firmware has not");
  state->current_epoch_block_started = true;
  if (needs_npu(block) && !npuscope_npu_finished(nn_instance, block)) return LL_ATON_RT_WFE;
  end_block(nn_instance, block);
  return advance(state);
}

LL_ATON_RT_RetValues_t LL_ATON_RT_Main(instance_t *nn_instance) {
  LL_ATON_RT_RetValues_t value;
  LL_ATON_RT_RuntimeInit();
  LL_ATON_RT_Init_Network(nn_instance);
  do {
    value = LL_ATON_RT_RunEpochBlock(nn_instance);
    if (value == LL_ATON_RT_WFE) npuscope_wait_for_event();
  } while (value == LL_ATON_RT_NO_WFE || value == LL_ATON_RT_WFE);
  LL_ATON_RT_DeInit_Network(nn_instance);
  LL_ATON_RT_RuntimeDeInit();
  return value;
}
