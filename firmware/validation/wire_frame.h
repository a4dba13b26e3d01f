/* SPDX-License-Identifier: Apache-2.0
 * Messages cut into packets and put together again.
 *
 * Packets have one length, zero padded. From the host a message has its length in front (a varint)
 * and the device sends one byte before each further packet; towards the host there is neither, and
 * a flag marks the last packet. A message is never held as a whole: it is read and written as it
 * passes, so that its size is bounded by what it is about and not by a buffer.
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include "wire_line.h"

#define WIRE_PAYLOAD_BYTES 32u
#define WIRE_HEADER_BYTES 2u /* of the newer revisions; the oldest has one */

typedef struct {
  const wire_line *line;
  bool is_oldest; /* packets of the revision with a header of one byte */
} wire_peer;

typedef enum {
  WIRE_OK,
  WIRE_IDLE,       /* nothing came */
  WIRE_BROKEN,     /* what came is no message */
  WIRE_INTERRUPTED /* a new request came where something else was expected */
} wire_result;

/* A message of the host while it is read. */
typedef struct {
  const wire_peer *peer;
  uint8_t payload[WIRE_PAYLOAD_BYTES];
  uint32_t at, end; /* in the payload */
  uint32_t left;    /* bytes of the message that were not taken yet */
  bool broken;
} wire_input;

/* The first packet of a message, which tells the revision too. */
wire_result wire_open(wire_input *input, wire_peer *peer, uint32_t wait_ms, uint32_t limit_bytes);
/* False at the end of the message, or when it broke off. */
bool wire_take(wire_input *input, uint8_t *byte);
/* Passes over the rest; OK when the packets held the message exactly. */
wire_result wire_close(wire_input *input);
/* Forgets what is still coming, until the line is silent: a new packet starts after it. */
void wire_drop(const wire_peer *peer);

/* A message of the device while it is written; without a peer it is only measured. */
typedef struct {
  const wire_peer *peer;
  uint32_t count;
  uint32_t used; /* in the payload */
  uint8_t packet[WIRE_HEADER_BYTES + WIRE_PAYLOAD_BYTES];
} wire_output;

void wire_begin(wire_output *output, const wire_peer *peer);
void wire_put(wire_output *output, const void *bytes, uint32_t count);
void wire_end(wire_output *output);

#endif
