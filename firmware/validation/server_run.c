/* SPDX-License-Identifier: Apache-2.0
 * One inference for a host. */
#include "server_run.h"

#include "describe.h"
#include "npuscope_memory.h"
#include "statistics.h"

enum {
  RUN_PER_LAYER = 2,
  RUN_PER_LAYER_WITH_DATA = 4,
  RUN_PERF = 8,
  RUN_CONST_VALUE = 0x200,
  RUN_DIRECT_WRITE = 0x400,
  RUN_DIRECT_READ = 0x800
};

#define OPTION_SHIFT 8
#define ELEMENT_ROOM 8u

/* What is told of the nodes while the network runs. */
typedef struct {
  exchange *talk;
  uint32_t mcu_hz;
  uint32_t index;
  int32_t current;
  wire_result result;
} listener_t;

static bool asks(const exchange *talk, uint32_t bits) { return talk->request.param & bits; }

static void repeat(const validation_tensor *tensor, const uint8_t *element) {
  uint8_t *target = tensor->data;
  for (uint32_t i = 0; i < validation_bytes(tensor); i++) target[i] = element[i % tensor->element_bytes];
}

/* One input, straight to its place; or one element that stands for all of them. */
static wire_result take_input(exchange *talk, const validation_tensor *tensor, uint32_t *bytes) {
  if (!asks(talk, RUN_CONST_VALUE))
    return exchange_receive_data(talk, tensor->data, validation_bytes(tensor), bytes);
  uint8_t element[ELEMENT_ROOM];
  const wire_result got = exchange_receive_data(talk, element, sizeof element, bytes);
  if (got == WIRE_OK && *bytes == tensor->element_bytes) repeat(tensor, element);
  return got;
}

static uint32_t wanted_bytes(const exchange *talk, const validation_tensor *tensor) {
  return asks(talk, RUN_CONST_VALUE) ? tensor->element_bytes : validation_bytes(tensor);
}

/* `refused`: the host was told why, and the run is over. */
static wire_result receive_inputs(exchange *talk, const validation_network *network,
                                  bool *refused) {
  validation_tensor tensor;
  uint32_t bytes;
  for (uint32_t i = 0; i < network->inputs; i++) {
    network->input(network, i, &tensor);
    wire_result got = take_input(talk, &tensor, &bytes);
    if (got != WIRE_OK) return got;
    *refused = bytes != wanted_bytes(talk, &tensor);
    if (*refused) {
      exchange_refuse(talk, FAULT_INVALID_SIZE, bytes);
      return WIRE_OK;
    }
    exchange_ack(talk, i + 1 == network->inputs ? STATE_PROCESSING : STATE_WAITING, bytes);
    got = exchange_receive_ack(talk);
    if (got != WIRE_OK) return got;
  }
  return WIRE_OK;
}

static void send_tensors(exchange *talk, const validation_network *network, uint32_t count) {
  validation_tensor tensor;
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t flags = TENSOR_INTERNAL | (i + 1 == count ? TENSOR_LAST : 0);
    network->node_tensor(network, i, &tensor);
    exchange_reply(talk, STATE_PROCESSING, PAYLOAD_TENSOR, describe_tensor,
                   &(described_tensor){&tensor, flags});
  }
}

static bool tell_node(void *who, const validation_network *network, const validation_node *node,
                      uint32_t tensors) {
  listener_t *listener = who;
  exchange *talk = listener->talk;
  if (!validation_is_extra(node)) listener->current = node->number;
  const statistics_place place = {listener->index++, listener->current, tensors};
  if (exchange_takes_statistics(talk)) {
    listener->result = statistics_send_node(talk, node, &place);
    if (listener->result != WIRE_OK) return false;
  }
  const described_node described = {node, listener->current, tensors, listener->mcu_hz};
  exchange_reply(talk, STATE_PROCESSING, PAYLOAD_OPERATOR, describe_node, &described);
  send_tensors(talk, network, tensors);
  return true;
}

static validation_request as_asked(const exchange *talk, listener_t *listener) {
  const bool each = asks(talk, RUN_PER_LAYER | RUN_PER_LAYER_WITH_DATA);
  return (validation_request){
      .each_node = each,
      .with_tensors = asks(talk, RUN_PER_LAYER_WITH_DATA) && !asks(talk, RUN_PERF),
      .options = each ? talk->request.option >> OPTION_SHIFT & COUNT_ALL : 0,
      .node = tell_node,
      .listener = listener,
  };
}

/* The last one is marked twice, by its flag and by the state: hosts check both. */
static void send_outputs(exchange *talk, const validation_network *network) {
  validation_tensor tensor;
  for (uint32_t i = 0; i < network->outputs; i++) {
    const bool last = i + 1 == network->outputs;
    const uint32_t flags = TENSOR_OUTPUT | (last ? TENSOR_LAST : 0) |
                           (asks(talk, RUN_PERF) ? TENSOR_NO_DATA : 0);
    network->output(network, i, &tensor);
    exchange_reply(talk, last ? STATE_DONE : STATE_PROCESSING, PAYLOAD_TENSOR, describe_tensor,
                   &(described_tensor){&tensor, flags});
  }
}

static wire_result run_network(exchange *talk, const validation_board *board,
                               const validation_network *network) {
  listener_t listener = {.talk = talk, .mcu_hz = board->mcu_hz, .result = WIRE_OK};
  const validation_request request = as_asked(talk, &listener);
  validation_totals totals = {0};
  const bool ran = network->run(network, &request, &totals);
  if (listener.result != WIRE_OK) return listener.result;
  if (!ran) {
    exchange_refuse(talk, FAULT_GENERIC, FAULT_GENERIC);
    return WIRE_OK;
  }
  exchange_reply(talk, STATE_PROCESSING, PAYLOAD_OPERATOR, describe_inference,
                 &(described_inference){&totals, board->mcu_hz});
  send_outputs(talk, network);
  return WIRE_OK;
}

wire_result server_run(exchange *talk, const validation_board *board,
                       const validation_network *network) {
  validation_tensor first;
  bool refused = false;
  if (asks(talk, RUN_DIRECT_WRITE | RUN_DIRECT_READ)) {
    exchange_refuse(talk, FAULT_INVALID_PARAM, FAULT_INVALID_PARAM);
    return WIRE_OK;
  }
  if (network->prepare && !network->prepare(network)) {
    exchange_refuse(talk, FAULT_GENERIC, FAULT_GENERIC);
    return WIRE_OK;
  }
  if (network->inputs) network->input(network, 0, &first);
  exchange_ack(talk, STATE_WAITING, network->inputs ? validation_bytes(&first) : 0);
  const wire_result got = receive_inputs(talk, network, &refused);
  return got != WIRE_OK || refused ? got : run_network(talk, board, network);
}
