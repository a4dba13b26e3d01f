/* SPDX-License-Identifier: Apache-2.0
 * A board, its networks and what ran on it, as messages. Every field is written, also where it is
 * 0: old hosts miss fields that are not there. */
#include "describe.h"

/* Accepted by hosts of all revisions; 0x0302 is refused by the older two. */
#define SYNC_VERSION 0x0301u
#define CAN_OBSERVE 1u
#define CAN_RELOCATE 2u
#define CAN_READ_WRITE 8u
/* The NPU's runtime with the newer interface, built with GCC's conventions. */
#define RUNTIME_ID (4u | 1u << 8 | 1u << 16)
#define MACC_NOT_GIVEN (4u << 24)
/* Series N6, FPU, both caches of the CPU; bit 0 is the NPU cache. */
#define CACHE_WORD 0x05010C00u
#define SHAPE_AS_IS (5u << 24)
#define COUNTERS_64 0u
#define COUNTERS_32 0x00010000u
#define NOT_MEASURED (-1)
#define FLAG_SHIFT 24

uint32_t validation_elements(const validation_tensor *tensor) {
  uint32_t count = 1;
  for (uint32_t i = 0; i < tensor->rank; i++) count *= tensor->dims[i];
  return count;
}

uint32_t validation_bytes(const validation_tensor *tensor) {
  return validation_elements(tensor) * tensor->element_bytes;
}

bool validation_is_extra(const validation_node *node) { return node->block == BLOCK_EXTRA; }

void describe_sync(wire_output *output, const void *what) {
  const validation_board *board = what;
  const uint32_t able = CAN_OBSERVE | (board->loads_networks ? CAN_RELOCATE : 0) |
                        (board->memory_count ? CAN_READ_WRITE : 0);
  wire_number(output, 1, SYNC_VERSION);
  wire_number(output, 4, able);
  wire_number(output, 5, RUNTIME_ID);
}

/* Field 5 changed its meaning: the oldest hosts read clocks there, newer ones keep its last item
 * as the size of large packets, and 0 there means that packets stay small. */
void describe_system(wire_output *output, const void *what) {
  const validation_board *board = what;
  const uint32_t clocks[] = {0, board->npu_hz, board->nic_hz, 0};
  wire_number(output, 1, board->device_id);
  wire_number(output, 2, board->mcu_hz);
  wire_number(output, 3, board->noc_hz);
  wire_number(output, 4, CACHE_WORD | board->has_npu_cache);
  for (uint32_t field = 5; field <= 6; field++)
    for (uint32_t i = 0; i < 4; i++) wire_number(output, field, clocks[i]);
  for (uint32_t i = 0; i < board->failure_count; i++) wire_number(output, 6, board->failures[i]);
}

static void emit_description(wire_output *output, const void *what) {
  const described_tensor *described = what;
  const validation_tensor *tensor = described->tensor;
  const uint32_t one = 1;
  const uint32_t rank = tensor->rank ? tensor->rank : 1;
  const uint32_t *dims = tensor->rank ? tensor->dims : &one;
  wire_name(output, 1, tensor->name);
  wire_number(output, 2, tensor->format);
  wire_number(output, 3, validation_elements(tensor));
  wire_number(output, 4, SHAPE_AS_IS | rank);
  for (uint32_t i = 0; i < rank; i++) wire_number(output, 5, dims[i]);
  wire_float(output, 6, tensor->scale);
  wire_signed(output, 7, tensor->zero_point);
  wire_number(output, 8, tensor->address);
  wire_number(output, 9, described->flags | (tensor->address ? TENSOR_IN_MEMPOOL : 0));
}

void describe_data(wire_output *output, const void *what) {
  const described_data *data = what;
  wire_number(output, 1, 0);
  wire_number(output, 2, data->bytes);
  wire_number(output, 3, data->address);
  wire_bytes(output, 4, data->data, data->bytes);
}

void describe_tensor(wire_output *output, const void *what) {
  const described_tensor *described = what;
  const validation_tensor *tensor = described->tensor;
  described_data data = {0};
  if (!(described->flags & TENSOR_NO_DATA))
    data = (described_data){tensor->address, validation_bytes(tensor), tensor->data};
  wire_nested(output, 1, emit_description, described);
  wire_nested(output, 2, describe_data, &data);
}

/* All activations or parameters as one stretch of bytes. */
static void emit_total(wire_output *output, uint32_t field, const char *name, uint32_t bytes) {
  const validation_tensor tensor = {.name = name,
                                    .format = validation_format(ELEMENT_WHOLE, 0, 8),
                                    .element_bytes = 1,
                                    .rank = 1,
                                    .dims = {bytes}};
  wire_number(output, field, 1);
  wire_nested(output, field + 1, emit_description, &(described_tensor){&tensor, TENSOR_MEMPOOL});
}

typedef void give_tensor(const validation_network *network, uint32_t index,
                         validation_tensor *tensor);

static void emit_tensors(wire_output *output, uint32_t field, const validation_network *network,
                         give_tensor *give, uint32_t count, uint32_t flags) {
  validation_tensor tensor;
  wire_number(output, field, count);
  for (uint32_t i = 0; i < count; i++) {
    give(network, i, &tensor);
    wire_nested(output, field + 1, emit_description, &(described_tensor){&tensor, flags});
  }
}

void describe_model(wire_output *output, const void *what) {
  const validation_network *network = what;
  wire_name(output, 1, network->name);
  wire_number(output, 2, RUNTIME_ID | (network->macc ? 0 : MACC_NOT_GIVEN));
  wire_name(output, 3, network->signature);
  wire_name(output, 4, network->compiled);
  wire_number(output, 5, network->runtime_version);
  wire_number(output, 6, network->tool_version);
  wire_number(output, 7, network->macc);
  wire_number(output, 8, network->nodes);
  emit_tensors(output, 10, network, network->input, network->inputs, TENSOR_INPUT);
  emit_tensors(output, 12, network, network->output, network->outputs, TENSOR_OUTPUT);
  emit_total(output, 14, "activations", network->activations_bytes);
  emit_total(output, 16, "params", network->params_bytes);
  wire_name(output, 20, network->runtime);
  wire_float(output, 21, 0);
  wire_float(output, 22, 0);
}

/* The sub-number of an extra block is minus its number. */
uint32_t describe_operator_type(const validation_node *node, uint32_t tensors) {
  const uint32_t flags = OPERATOR_INTERNAL | (tensors ? 0 : OPERATOR_WITHOUT_TENSOR);
  const uint32_t sub = validation_is_extra(node) ? (uint32_t)(-node->last & 0x3F) << 4 : 0;
  return flags << FLAG_SHIFT | sub | node->block;
}

static uint32_t operator_id(const described_node *described) {
  const validation_node *node = described->node;
  const int32_t first = validation_is_extra(node) ? described->current : node->number;
  return ((uint32_t)node->last & 0xFFFFu) << 16 | ((uint32_t)first & 0xFFFFu);
}

static double milliseconds(uint64_t cycles, uint32_t hz) {
  return 1e3 * (double)cycles / (double)(hz ? hz : 1);
}

static void emit_usage(wire_output *output) {
  wire_signed(output, 7, NOT_MEASURED);
  wire_signed(output, 8, NOT_MEASURED);
}

void describe_node(wire_output *output, const void *what) {
  const described_node *described = what;
  const uint32_t *cycles = described->node->mcu_cycles;
  const uint64_t all = (uint64_t)cycles[0] + cycles[1] + cycles[2];
  wire_name(output, 1, "");
  wire_number(output, 2, describe_operator_type(described->node, described->tensors));
  wire_number(output, 3, operator_id(described));
  wire_float(output, 4, (float)milliseconds(all, described->mcu_hz));
  wire_number(output, 5, COUNTERS_32);
  for (uint32_t i = 0; i < 3; i++) wire_number(output, 6, cycles[i]);
  emit_usage(output);
}

/* Before, during, after, all of them, and the NPU's core cycles: pairs of words, low one first. */
void describe_inference(wire_output *output, const void *what) {
  const described_inference *described = what;
  const uint64_t *cycles = described->totals->mcu_cycles;
  const uint64_t all = cycles[0] + cycles[1] + cycles[2];
  const uint64_t counts[] = {cycles[0], cycles[1], cycles[2], all,
                             described->totals->npu_core_cycles};
  wire_name(output, 1, "");
  wire_number(output, 2, 0);
  wire_number(output, 3, 0);
  wire_float(output, 4, (float)milliseconds(all, described->mcu_hz));
  wire_number(output, 5, COUNTERS_64);
  for (uint32_t i = 0; i < 5; i++) {
    wire_number(output, 6, (uint32_t)counts[i]);
    wire_number(output, 6, counts[i] >> 32);
  }
  emit_usage(output);
}
