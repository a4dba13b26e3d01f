/* SPDX-License-Identifier: Apache-2.0
 * Fields of messages, read and written one after the other. */
#include "wire_fields.h"

#include "npuscope_memory.h"

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
#define TEXT_FIELD 4u

/* Where the bytes of field 4 go. */
typedef struct {
  wire_fields *fields;
  uint8_t *place;
  uint32_t room;
} target_t;

static bool read_varint(wire_input *input, uint64_t *value) {
  *value = 0;
  for (uint32_t shift = 0; shift < 70; shift += 7) {
    uint8_t byte;
    if (!wire_take(input, &byte)) return false;
    *value |= (uint64_t)(byte & 0x7Fu) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

static bool is_kept(uint64_t field) { return field < WIRE_FIELDS; }

static bool read_number(wire_input *input, uint64_t field, wire_fields *fields) {
  uint64_t value;
  if (!read_varint(input, &value)) return false;
  if (!is_kept(field)) return true;
  fields->numbers[field] = (uint32_t)value;
  fields->as_number |= 1u << field;
  return true;
}

static bool read_bytes(wire_input *input, uint64_t field, uint64_t size, const target_t *target) {
  wire_fields *fields = target->fields;
  if (size > input->left) return false;
  if (is_kept(field)) fields->as_bytes |= 1u << field;
  if (field == TEXT_FIELD) fields->bytes = (uint32_t)size;
  for (uint32_t i = 0; i < size; i++) {
    uint8_t byte;
    if (!wire_take(input, &byte)) return false;
    if (field != TEXT_FIELD) continue;
    if (i < WIRE_TEXT_BYTES) fields->text[i] = byte;
    if (i < target->room) target->place[i] = byte;
  }
  return true;
}

static bool read_field(wire_input *input, const target_t *target) {
  uint64_t tag, size;
  if (!read_varint(input, &tag)) return false;
  const uint64_t field = tag >> 3;
  if (!field) return false;
  switch (tag & 7u) {
    case VARINT: return read_number(input, field, target->fields);
    case BYTES: return read_varint(input, &size) && read_bytes(input, field, size, target);
    case FIXED32: return read_bytes(input, field, 4, target);
    case FIXED64: return read_bytes(input, field, 8, target);
    default: return false;
  }
}

wire_result wire_read_fields(wire_input *input, wire_fields *fields, uint8_t *place,
                             uint32_t room) {
  const target_t target = {fields, place, place ? room : 0};
  bool right = true;
  memset(fields, 0, sizeof *fields);
  while (right && input->left) right = read_field(input, &target);
  /* The host sends all of a message, also where it makes no sense. */
  const wire_result closed = wire_close(input);
  return right ? closed : WIRE_BROKEN;
}

static void put_varint(wire_output *output, uint64_t value) {
  uint8_t bytes[10];
  uint32_t count = 0;
  for (; value > 0x7F; value >>= 7) bytes[count++] = (uint8_t)(value | 0x80u);
  bytes[count++] = (uint8_t)value;
  wire_put(output, bytes, count);
}

static void put_tag(wire_output *output, uint32_t field, uint32_t type) {
  put_varint(output, field << 3 | type);
}

void wire_number(wire_output *output, uint32_t field, uint64_t value) {
  put_tag(output, field, VARINT);
  put_varint(output, value);
}

void wire_signed(wire_output *output, uint32_t field, int32_t value) {
  wire_number(output, field, (uint64_t)(int64_t)value);
}

void wire_float(wire_output *output, uint32_t field, float value) {
  put_tag(output, field, FIXED32);
  wire_put(output, &value, sizeof value);
}

void wire_bytes(wire_output *output, uint32_t field, const void *bytes, uint32_t count) {
  put_tag(output, field, BYTES);
  put_varint(output, count);
  wire_put(output, bytes, count);
}

static bool continues_character(char byte) { return ((uint8_t)byte & 0xC0u) == 0x80u; }

void wire_name(wire_output *output, uint32_t field, const char *text) {
  uint32_t count = 0;
  if (!text) text = "";
  while (count < WIRE_TEXT_BYTES - 1 && text[count]) count++;
  if (text[count])
    while (count && continues_character(text[count])) count--;
  wire_bytes(output, field, text, count);
}

void wire_nested(wire_output *output, uint32_t field, wire_emitter *emit, const void *what) {
  wire_output measure;
  wire_begin(&measure, NULL);
  emit(&measure, what);
  put_tag(output, field, BYTES);
  put_varint(output, measure.count);
  emit(output, what);
}
