/* SPDX-License-Identifier: Apache-2.0
 * Any function of one byte: a look-up a value. */
#include "tensor.h"

static void look_up_bytes(const uint8_t *values, const uint8_t *table, uint8_t *made,
                          uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    made[i] = table[values[i]];
}

static void look_up_halves(const uint8_t *values, const uint16_t *table, uint16_t *made,
                           uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    made[i] = table[values[i]];
}

static void look_up_words(const uint8_t *values, const uint32_t *table, uint32_t *made,
                          uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    made[i] = table[values[i]];
}

static void look_up_doubles(const uint8_t *values, const uint64_t *table, uint64_t *made,
                            uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    made[i] = table[values[i]];
}

/* Inputs: values, 256 results in the order of the values as unsigned bytes. */
void npuscope_table(const npuscope_call *call) {
  const uint8_t *values = call->inputs[0].data;
  const void *table = call->inputs[1].data;
  void *made = call->outputs[0].data;
  uint32_t count = npuscope_count(&call->outputs[0]);
  switch (npuscope_element_bytes(&call->outputs[0])) {
  case 1:
    look_up_bytes(values, table, made, count);
    break;
  case 2:
    look_up_halves(values, table, made, count);
    break;
  case 4:
    look_up_words(values, table, made, count);
    break;
  default:
    look_up_doubles(values, table, made, count);
  }
}
