/* SPDX-License-Identifier: Apache-2.0
 * The commands of a host, one after the other. */
#include "validation.h"

#include "describe.h"
#include "exchange.h"
#include "npuscope_memory.h"
#include "server_memory.h"
#include "server_run.h"
#include "statistics.h"

enum {
  COMMAND_SYNC = 0,
  COMMAND_SYS_INFO = 1,
  COMMAND_DISCONNECT = 2,
  COMMAND_NETWORK_INFO = 10,
  COMMAND_NETWORK_RUN = 11,
  COMMAND_MEMORY_READ = 20,
  COMMAND_MEMORY_WRITE = 21,
  COMMAND_MEMORY_CHECKSUM = 22
};

/* A message is at most an input with its heads; memory comes in far smaller chunks. */
#define ROOM_BYTES 0x10000u

static uint32_t limit_of(const validation_board *board) {
  validation_tensor tensor;
  uint32_t most = 0;
  for (uint32_t n = 0; n < board->network_count; n++) {
    const validation_network *network = &board->networks[n];
    for (uint32_t i = 0; i < network->inputs; i++) {
      network->input(network, i, &tensor);
      if (validation_bytes(&tensor) > most) most = validation_bytes(&tensor);
    }
  }
  return most + ROOM_BYTES;
}

static wire_result refuse_parameter(exchange *talk) {
  exchange_refuse(talk, FAULT_INVALID_PARAM, FAULT_INVALID_PARAM);
  return WIRE_OK;
}

/* Hosts count upwards until they are refused. */
static wire_result describe_network(exchange *talk, const validation_board *board) {
  const uint32_t index = talk->request.param;
  if (index >= board->network_count) return refuse_parameter(talk);
  if (exchange_takes_statistics(talk)) {
    const wire_result sent = statistics_send_config(talk, board);
    if (sent != WIRE_OK) return sent;
  }
  exchange_reply(talk, STATE_IDLE, PAYLOAD_MODEL, describe_model, &board->networks[index]);
  return WIRE_OK;
}

static bool is_named(const validation_network *network, const exchange_request *request) {
  const char *name = network->name;
  const uint32_t bytes = request->name_bytes;
  if (bytes >= WIRE_TEXT_BYTES) return false;
  for (uint32_t i = 0; i < bytes; i++)
    if (!name[i] || (uint8_t)name[i] != request->name[i]) return false;
  return !name[bytes];
}

/* By its name; without one, the first. */
static const validation_network *named(const exchange *talk, const validation_board *board) {
  if (!talk->request.name_bytes && board->network_count) return board->networks;
  for (uint32_t i = 0; i < board->network_count; i++)
    if (is_named(&board->networks[i], &talk->request)) return &board->networks[i];
  return NULL;
}

static wire_result run_network(exchange *talk, const validation_board *board) {
  const validation_network *network = named(talk, board);
  return network ? server_run(talk, board, network) : refuse_parameter(talk);
}

static wire_result answer(exchange *talk, const validation_board *board) {
  switch (talk->request.command) {
    case COMMAND_SYNC:
      exchange_reply(talk, STATE_IDLE, PAYLOAD_SYNC, describe_sync, board);
      return WIRE_OK;
    case COMMAND_SYS_INFO:
      exchange_reply(talk, STATE_IDLE, PAYLOAD_SYSTEM, describe_system, board);
      return WIRE_OK;
    case COMMAND_DISCONNECT: return WIRE_OK;
    case COMMAND_NETWORK_INFO: return describe_network(talk, board);
    case COMMAND_NETWORK_RUN: return run_network(talk, board);
    case COMMAND_MEMORY_READ: return server_read_memory(talk, board);
    case COMMAND_MEMORY_WRITE: return server_write_memory(talk, board);
    case COMMAND_MEMORY_CHECKSUM: return server_sum_memory(talk, board);
    default: return refuse_parameter(talk);
  }
}

void validation_serve(const validation_board *board, const wire_line *line) {
  exchange talk = {.peer = {.line = line}, .limit_bytes = limit_of(board)};
  for (wire_result result = WIRE_OK;;) {
    if (result == WIRE_INTERRUPTED)
      talk.request = talk.pending;
    else
      result = exchange_next(&talk);
    if (result == WIRE_OK || result == WIRE_INTERRUPTED) result = answer(&talk, board);
    if (result == WIRE_BROKEN) wire_drop(&talk.peer);
  }
}
