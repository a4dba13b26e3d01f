/* SPDX-License-Identifier: Apache-2.0
 * A small proto2: what the messages of this wire need, and nothing is trusted. */
#ifndef WIRE_FIELDS_H
#define WIRE_FIELDS_H

#include "wire_frame.h"

#define WIRE_TEXT_BYTES 64u /* the room that names have on the wire, the terminator included */
#define WIRE_FIELDS 6u

/* What the host sends is a request, an acknowledgement or data: all have numbers in fields 1 to 3
 * and bytes in field 4, and only a request has a fifth. */
typedef struct {
  uint32_t numbers[WIRE_FIELDS];
  uint32_t as_number, as_bytes; /* bit n: field n came as this */
  uint32_t bytes;               /* length of field 4 */
  uint8_t text[WIRE_TEXT_BYTES];
} wire_fields;

/* Reads a whole message. Field 4 goes to `place` as far as there is room, its begin to `text`. */
wire_result wire_read_fields(wire_input *input, wire_fields *fields, uint8_t *place,
                             uint32_t room);

void wire_number(wire_output *output, uint32_t field, uint64_t value);
void wire_signed(wire_output *output, uint32_t field, int32_t value);
void wire_float(wire_output *output, uint32_t field, float value);
void wire_bytes(wire_output *output, uint32_t field, const void *bytes, uint32_t count);
/* A string, cut to the room that names have, never inside a character. */
void wire_name(wire_output *output, uint32_t field, const char *text);

/* A message inside another: `emit` is called twice, first to measure it. */
typedef void wire_emitter(wire_output *output, const void *what);
void wire_nested(wire_output *output, uint32_t field, wire_emitter *emit, const void *what);

#endif
