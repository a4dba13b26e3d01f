/* SPDX-License-Identifier: Apache-2.0
 * Loaded networks: install, describe, run. */
#include "networks.h"

#include "buffers.h"
#include "instrument.h"
#include "library.h"
#include "npuscope_image.h"
#include "npuscope_memory.h"
#include "npuscope_npu.h"
#include "npuscope_platform.h"

/* What built this firmware, and when; the emulated board states both. */
#ifndef NPUSCOPE_BUILT
#define NPUSCOPE_BUILT ""
#endif
#ifndef NPUSCOPE_TOOL_VERSION
#define NPUSCOPE_TOOL_VERSION 0u
#endif

#define TEXT_BYTES 64u
#define MOST_NODE_TENSORS 16u
#define USER_ALIGN 32u

typedef NN_Instance_TypeDef instance_t;

typedef struct {
  instance_t instance;
  networks_source source;
  char name[TEXT_BYTES], runtime[TEXT_BYTES], signature[TEXT_BYTES];
  bool copies_parameters;     /* into memory that other networks use too */
  const void *written[MOST_NODE_TENSORS]; /* buffers of the current node */
} loaded_t;

typedef struct {
  loaded_t *loaded;
  const validation_network *network;
  const validation_request *request;
  validation_totals *totals;
  bool is_stopped;
} run_t;

static loaded_t loaded[NETWORKS_MOST];
static validation_network table[NETWORKS_MOST];
static uint32_t count;
static const loaded_t *current; /* the last that used the shared memory */
static const char *reason = "";

const validation_network *networks_table(void) { return table; }
uint32_t networks_count(void) { return count; }
const char *networks_reason(void) { return reason; }

static int refuse(int code, const char *why) {
  reason = why;
  return code;
}

static loaded_t *own(const validation_network *network) { return network->own; }

/* Text cut to its room. */
static uint32_t append(char *text, uint32_t at, const char *more) {
  for (; more && *more && at < TEXT_BYTES - 1; more++) text[at++] = *more;
  text[at] = 0;
  return at;
}

static bool same(const char *a, const char *b) {
  for (; *a && *a == *b; a++, b++) {
  }
  return *a == *b;
}

static bool is_taken(const char *name) {
  for (uint32_t i = 0; i < count; i++)
    if (same(loaded[i].name, name)) return true;
  return false;
}

/* A name that was there already gets a number; there are fewer than ten networks. */
static void set_name(char *name, const char *wanted) {
  uint32_t bytes = append(name, 0, wanted && *wanted ? wanted : "network");
  if (bytes > TEXT_BYTES - 3 && is_taken(name)) bytes = TEXT_BYTES - 3;
  for (char number[] = "_2"; is_taken(name); number[1]++) append(name, bytes, number);
}

static void set_signature(char *text, uint32_t crc) {
  for (uint32_t i = 0; i < 8; i++) text[i] = "0123456789abcdef"[crc >> (28 - 4 * i) & 0xFu];
  text[8] = 0;
}

static const npuscope_context *context_of(const loaded_t *network) {
  return (const npuscope_context *)network->instance.exec_state.inst_reloc;
}

static bool has_copied_pool(uintptr_t file) {
  const ll_aton_reloc_mem_pool_desc *pool;
  for (int i = 0; (pool = ll_aton_reloc_get_mem_pool_desc(file, i)); i++)
    if (pool->flags >> 24 == NPUSCOPE_POOL_COPY) return true;
  return false;
}

/* Buffers that the network leaves to its user lie behind its own part of the external RAM. */
static int give_user_buffers(loaded_t *network) {
  const ll_aton_reloc_config *places = &network->source.places;
  buffers_room room = {places->ext_ram_addr + context_of(network)->ext_ram_sz,
                       places->ext_ram_addr + places->ext_ram_size};
  room.next = (room.next + USER_ALIGN - 1) & ~(uintptr_t)(USER_ALIGN - 1);
  if (buffers_give(&network->instance, &room)) return AI_RELOC_RT_ERR_NONE;
  return refuse(AI_RELOC_RT_ERR_MEMORY, "no external RAM is left for inputs and outputs");
}

static int load(loaded_t *network) {
  const networks_source *source = &network->source;
  npuscope_loader_set_file_limit(source->file_bytes);
  npuscope_loader_set_params_limit(source->params_bytes);
  int code = ll_aton_reloc_install(source->file, &source->places, &network->instance);
  if (!code) code = ll_aton_reloc_set_callbacks(&network->instance, library_callbacks());
  return code ? refuse(code, npuscope_loader_reason()) : AI_RELOC_RT_ERR_NONE;
}

static int start(loaded_t *network) {
  npuscope_invalidate_npu_cache();
  LL_ATON_RT_Init_Network(&network->instance);
  LL_ATON_RT_SetNetworkCallback(&network->instance, instrument_on_block);
  const char *why = npuscope_runtime_reason(&network->instance);
  return *why ? refuse(AI_RELOC_RT_ERR_INSTALL, why) : AI_RELOC_RT_ERR_NONE;
}

static int install(loaded_t *network) {
  reason = "";
  int code = load(network);
  if (!code) code = give_user_buffers(network);
  if (!code) code = start(network);
  if (!code) current = network;
  return code;
}

static uint32_t nodes_of(const instance_t *nn_instance) {
  uint32_t nodes = 0;
  const NPUSCOPE_ITEM *block = nn_instance->exec_state.first_epoch_block;
  for (; !(block->flags & EpochBlock_Flags_last_eb); block++) nodes += instrument_ends_node(block);
  return nodes;
}

static void give_input(const validation_network *network, uint32_t index,
                       validation_tensor *tensor) {
  buffers_describe_input(&own(network)->instance, index, tensor);
}

static void give_output(const validation_network *network, uint32_t index,
                        validation_tensor *tensor) {
  buffers_describe_output(&own(network)->instance, index, tensor);
}

static void give_node_tensor(const validation_network *network, uint32_t index,
                             validation_tensor *tensor) {
  buffers_describe(own(network)->written[index], tensor);
}

/* Pools are shared: another network may have run over the parameters that were copied there. */
static bool make_current(loaded_t *network) {
  if (current != network && network->copies_parameters) return !install(network);
  current = network;
  return true;
}

static bool prepare(const validation_network *network) { return make_current(own(network)); }

static void on_node(void *who, const validation_node *node, const NPUSCOPE_ITEM *last_block) {
  run_t *run = who;
  const validation_request *request = run->request;
  for (uint32_t i = 0; i < 3; i++) run->totals->mcu_cycles[i] += node->mcu_cycles[i];
  if (!request->each_node || run->is_stopped) return;
  if (node->has_npu_cycles) run->totals->npu_core_cycles += node->npu_cycles[1];
  const uint32_t tensors =
      request->with_tensors ? buffers_written(&run->loaded->instance, last_block,
                                              run->loaded->written, MOST_NODE_TENSORS)
                            : 0;
  run->is_stopped = !request->node(request->listener, run->network, node, tensors);
}

static bool infer(run_t *run) {
  instance_t *nn_instance = &run->loaded->instance;
  LL_ATON_RT_RetValues_t value;
  do {
    value = LL_ATON_RT_RunEpochBlock(nn_instance);
    if (npuscope_npu_take_error()) return false;
    if (value == LL_ATON_RT_WFE) npuscope_wait_for_event();
  } while (!run->is_stopped && (value == LL_ATON_RT_NO_WFE || value == LL_ATON_RT_WFE));
  return value == LL_ATON_RT_DONE;
}

static bool run_network(const validation_network *network, const validation_request *request,
                        validation_totals *totals) {
  run_t run = {own(network), network, request, totals, false};
  if (ll_aton_reloc_is_valid(&run.loaded->instance) || !make_current(run.loaded)) return false;
  npuscope_npu_take_error();
  /* The host wrote the inputs with the processor; every inference starts with a cold cache. */
  npuscope_invalidate_npu_cache();
  LL_ATON_RT_Reset_Network(&run.loaded->instance);
  instrument_start(request->options, on_node, &run);
  return infer(&run);
}

static void describe(validation_network *network, loaded_t *with, const char *remark) {
  const npuscope_context *context = context_of(with);
  ll_aton_reloc_info info = {0};
  ll_aton_reloc_get_info(with->source.file, &info);
  set_name(with->name, info.c_name);
  set_signature(with->signature, context->params_bin_crc32);
  const uint32_t at = append(with->runtime, 0, info.rt_version_desc);
  append(with->runtime, append(with->runtime, at, " "), remark);
  *network = (validation_network){
      .name = with->name,
      .signature = with->signature,
      .compiled = NPUSCOPE_BUILT,
      .runtime = with->runtime,
      .runtime_version = info.rt_version,
      .tool_version = NPUSCOPE_TOOL_VERSION,
      .nodes = nodes_of(&with->instance),
      .inputs = buffers_inputs(&with->instance),
      .outputs = buffers_outputs(&with->instance),
      .activations_bytes = info.acts_sz,
      .params_bytes = info.params_sz,
      .prepare = prepare,
      .input = give_input,
      .output = give_output,
      .node_tensor = give_node_tensor,
      .run = run_network,
      .own = with,
  };
}

int networks_add(const networks_source *source, const char *remark) {
  if (count == NETWORKS_MOST) return refuse(AI_RELOC_RT_ERR_MEMORY, "too many networks");
  loaded_t *next = &loaded[count];
  memset(next, 0, sizeof *next);
  next->source = *source;
  const int code = install(next);
  if (code) return code;
  next->copies_parameters = has_copied_pool(source->file);
  describe(&table[count], next, remark);
  count++;
  return AI_RELOC_RT_ERR_NONE;
}
