/* SPDX-License-Identifier: Apache-2.0
 * Memory in chunks, each with its checksum. */
#include "server_memory.h"

#include "describe.h"
#include "npuscope_memory.h"

#define CHUNK_BYTES 1024u

static bool holds(const validation_memory *memory, uint32_t address, uint32_t bytes) {
  return address >= memory->address && bytes <= memory->bytes &&
         address - memory->address <= memory->bytes - bytes;
}

static uint8_t *find(const validation_board *board, uint32_t address, uint32_t bytes,
                     bool for_writing) {
  for (uint32_t i = 0; i < board->memory_count; i++) {
    const validation_memory *memory = &board->memories[i];
    if (holds(memory, address, bytes) && (memory->is_writable || !for_writing))
      return memory->data + (address - memory->address);
  }
  return NULL;
}

/* The memory of a request; a request that names none is answered here. */
static uint8_t *asked_for(exchange *talk, const validation_board *board, bool for_writing) {
  const exchange_request *request = &talk->request;
  exchange_fault fault = FAULT_INVALID_PARAM;
  uint8_t *found = NULL;
  if (!board->memory_count)
    fault = FAULT_INVALID_CMD;
  else if (!request->option)
    fault = FAULT_INVALID_SIZE;
  else
    found = find(board, request->param, request->option, for_writing);
  if (!found) exchange_refuse(talk, fault, fault);
  return found;
}

/* The 16-bit checksum of BSD: rotate right by one, add the byte. */
static uint32_t checksum(const uint8_t *bytes, uint32_t count) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < count; i++)
    sum = ((sum >> 1 | (sum & 1u) << 15) + bytes[i]) & 0xFFFFu;
  return sum;
}

static uint32_t chunk_of(uint32_t left) { return left < CHUNK_BYTES ? left : CHUNK_BYTES; }

/* All chunks but the last are acknowledged by the host. */
wire_result server_read_memory(exchange *talk, const validation_board *board) {
  const uint32_t address = talk->request.param, bytes = talk->request.option;
  const uint8_t *found = asked_for(talk, board, false);
  if (!found) return WIRE_OK;
  wire_result got = WIRE_OK;
  exchange_ack(talk, STATE_PROCESSING, CHUNK_BYTES);
  for (uint32_t at = 0; got == WIRE_OK && at < bytes; at += chunk_of(bytes - at)) {
    const described_data chunk = {address + at, chunk_of(bytes - at), found + at};
    const bool last = at + chunk.bytes == bytes;
    exchange_reply(talk, last ? STATE_DONE : STATE_PROCESSING, PAYLOAD_DATA, describe_data, &chunk);
    if (!last) got = exchange_receive_ack(talk);
  }
  return got;
}

/* A chunk waits aside until it is known to be one: it could be the name in a new request. */
static wire_result write_chunk(exchange *talk, uint8_t *target, uint32_t left, uint32_t *bytes) {
  static uint8_t chunk[CHUNK_BYTES];
  const wire_result got = exchange_receive_data(talk, chunk, sizeof chunk, bytes);
  if (got != WIRE_OK) return got;
  if (*bytes == 0 || *bytes > chunk_of(left)) {
    exchange_refuse(talk, FAULT_INVALID_SIZE, *bytes);
    *bytes = 0;
    return WIRE_OK;
  }
  memcpy(target, chunk, *bytes);
  exchange_ack(talk, *bytes < left ? STATE_WAITING : STATE_DONE, checksum(chunk, *bytes));
  return WIRE_OK;
}

wire_result server_write_memory(exchange *talk, const validation_board *board) {
  const uint32_t address = talk->request.param;
  uint32_t left = talk->request.option;
  uint8_t *target = asked_for(talk, board, true);
  if (!target) return WIRE_OK;
  exchange_ack(talk, STATE_WAITING, CHUNK_BYTES);
  while (left) {
    uint32_t bytes;
    const wire_result got = write_chunk(talk, target, left, &bytes);
    if (got != WIRE_OK || !bytes) return got;
    target += bytes;
    left -= bytes;
    if (board->memory_written)
      board->memory_written(address + talk->request.option - left - bytes, bytes);
  }
  return WIRE_OK;
}

wire_result server_sum_memory(exchange *talk, const validation_board *board) {
  const uint8_t *found = asked_for(talk, board, false);
  if (found) exchange_ack(talk, STATE_DONE, checksum(found, talk->request.option));
  return WIRE_OK;
}
