/* SPDX-License-Identifier: Apache-2.0
 * Packets in both directions. */
#include "wire_frame.h"

#include "npuscope_memory.h"

#define SYNC_BYTE 0xAAu
#define MOST_DROPPED 0x1000000u /* a host that never stops must not hold the board for ever */

static uint32_t header_bytes(const wire_peer *peer) { return peer->is_oldest ? 1u : 2u; }

/* Of the oldest revision the first byte is the payload's size, 1 to 32; else the size's high byte,
 * which is 0 in a small packet. */
static bool begins_packet(uint8_t byte) { return byte <= WIRE_PAYLOAD_BYTES; }

static bool read_exactly(const wire_peer *peer, uint8_t *target, uint32_t count,
                         uint32_t first_wait_ms) {
  const wire_line *line = peer->line;
  for (uint32_t i = 0; i < count; i++)
    if (!line->read(target + i, i ? line->silence_ms : first_wait_ms)) return false;
  return true;
}

/* The rest of a packet whose header is complete; the end flag of a host means nothing. */
static bool read_payload(wire_input *input, uint32_t header) {
  const uint32_t size = header & (input->peer->is_oldest ? 0x7Fu : 0x7FFFu);
  const uint32_t wait_ms = input->peer->line->silence_ms;
  if (!read_exactly(input->peer, input->payload, WIRE_PAYLOAD_BYTES, wait_ms)) return false;
  input->at = 0;
  input->end = size;
  return size <= WIRE_PAYLOAD_BYTES;
}

static bool read_further_packet(wire_input *input) {
  const wire_line *line = input->peer->line;
  const uint8_t sync = SYNC_BYTE;
  uint8_t header[WIRE_HEADER_BYTES] = {0};
  const uint32_t bytes = header_bytes(input->peer);
  line->write(&sync, 1);
  if (!read_exactly(input->peer, header, bytes, line->packet_gap_ms)) return false;
  const uint32_t word = bytes == 1 ? header[0] : (uint32_t)header[0] << 8 | header[1];
  return read_payload(input, word) && input->end > 0;
}

static bool read_first_packet(wire_input *input, wire_peer *peer, uint8_t first) {
  uint8_t second = 0;
  const bool was_oldest = peer->is_oldest;
  peer->is_oldest = first != 0;
  const bool whole = (first || peer->line->read(&second, peer->line->silence_ms)) &&
                     read_payload(input, first ? first : second);
  /* Only a whole packet tells what the host speaks. */
  if (!whole) peer->is_oldest = was_oldest;
  return whole;
}

/* The length lies in the first packet as a whole. */
static bool read_length(wire_input *input, uint64_t *length) {
  *length = 0;
  for (uint32_t shift = 0; shift < 70; shift += 7) {
    if (input->at >= input->end) return false;
    const uint8_t byte = input->payload[input->at++];
    *length |= (uint64_t)(byte & 0x7Fu) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

wire_result wire_open(wire_input *input, wire_peer *peer, uint32_t wait_ms, uint32_t limit_bytes) {
  uint8_t first;
  uint64_t length;
  *input = (wire_input){.peer = peer};
  if (!peer->line->read(&first, wait_ms)) return WIRE_IDLE;
  if (!begins_packet(first) || !read_first_packet(input, peer, first)) return WIRE_BROKEN;
  if (!read_length(input, &length) || length > limit_bytes) return WIRE_BROKEN;
  input->left = (uint32_t)length;
  return WIRE_OK;
}

bool wire_take(wire_input *input, uint8_t *byte) {
  if (input->broken || !input->left) return false;
  if (input->at == input->end && !read_further_packet(input)) {
    input->broken = true;
    return false;
  }
  *byte = input->payload[input->at++];
  input->left--;
  return true;
}

wire_result wire_close(wire_input *input) {
  uint8_t passed;
  while (wire_take(input, &passed)) {
  }
  return input->broken || input->at != input->end ? WIRE_BROKEN : WIRE_OK;
}

void wire_drop(const wire_peer *peer) {
  uint8_t dropped;
  for (uint32_t i = 0; i < MOST_DROPPED; i++)
    if (!peer->line->read(&dropped, peer->line->silence_ms)) return;
}

void wire_begin(wire_output *output, const wire_peer *peer) {
  *output = (wire_output){.peer = peer};
}

static uint8_t *payload_of(wire_output *output) { return output->packet + WIRE_HEADER_BYTES; }

static void send_packet(wire_output *output, bool last) {
  const uint32_t header = header_bytes(output->peer);
  uint8_t *payload = payload_of(output);
  memset(payload + output->used, 0, WIRE_PAYLOAD_BYTES - output->used);
  if (header == 1) {
    payload[-1] = (uint8_t)(output->used | (last ? 0x80u : 0));
  } else {
    payload[-2] = last ? 0x80u : 0;
    payload[-1] = (uint8_t)output->used;
  }
  output->peer->line->write(payload - header, header + WIRE_PAYLOAD_BYTES);
  output->used = 0;
}

/* A full packet waits for the next byte: the last one is marked. */
static uint32_t put_some(wire_output *output, const uint8_t *bytes, uint32_t count) {
  if (output->used == WIRE_PAYLOAD_BYTES) send_packet(output, false);
  const uint32_t room = WIRE_PAYLOAD_BYTES - output->used;
  const uint32_t some = count < room ? count : room;
  memcpy(payload_of(output) + output->used, bytes, some);
  output->used += some;
  return some;
}

void wire_put(wire_output *output, const void *bytes, uint32_t count) {
  const uint8_t *from = bytes;
  output->count += count;
  while (output->peer && count) {
    const uint32_t some = put_some(output, from, count);
    from += some;
    count -= some;
  }
}

void wire_end(wire_output *output) {
  if (output->peer) send_packet(output, true);
}
