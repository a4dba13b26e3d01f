/* SPDX-License-Identifier: Apache-2.0
 * Conversions between types, and clamps. */
#include "tensor.h"

static void load_and_store(const npuscope_call *call) {
  uint32_t count = npuscope_count(&call->outputs[0]);
  for (uint32_t i = 0; i < count; i++)
    npuscope_store(&call->outputs[0], i, npuscope_load(&call->inputs[0], i));
}

void npuscope_quantize(const npuscope_call *call) {
  load_and_store(call);
}

void npuscope_dequantize(const npuscope_call *call) {
  load_and_store(call);
}

/* Floats are cut towards zero; whole numbers lose the bits that the new type lacks. */
void npuscope_cast(const npuscope_call *call) {
  const npuscope_tensor *source = &call->inputs[0], *made = &call->outputs[0];
  uint32_t count = npuscope_count(made);
  if (source->type == NPUSCOPE_FLOAT32) {
    load_and_store(call);
    return;
  }
  for (uint32_t i = 0; i < count; i++)
    npuscope_put_whole(made, i, npuscope_whole(source, i));
}

/* reals: lowest, highest. */
void npuscope_clip(const npuscope_call *call) {
  uint32_t count = npuscope_count(&call->outputs[0]);
  for (uint32_t i = 0; i < count; i++) {
    float value = npuscope_load(&call->inputs[0], i);
    npuscope_store(&call->outputs[0], i,
                   npuscope_clamped(value, call->reals[0], call->reals[1]));
  }
}

static int32_t whole_clamped(int32_t value, int32_t low, int32_t high) {
  value = value < low ? low : value;
  return value > high ? high : value;
}

/* Of whole numbers up to 32 bits; numbers: lowest, highest. */
void npuscope_clip_whole(const npuscope_call *call) {
  uint32_t count = npuscope_count(&call->outputs[0]);
  for (uint32_t i = 0; i < count; i++) {
    int32_t value = npuscope_raw(&call->inputs[0], i);
    npuscope_put_whole(&call->outputs[0], i,
                       whole_clamped(value, call->numbers[0], call->numbers[1]));
  }
}
