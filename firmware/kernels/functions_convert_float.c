/* SPDX-License-Identifier: Apache-2.0
 * Conversions between types, and clamps. */
#include "rounding.h"
#include "tensor.h"

static void load_and_store(const npuscope_call *call) {
  uint32_t count = npuscope_count(&call->outputs[0]);
  for (uint32_t i = 0; i < count; i++)
    npuscope_store(&call->outputs[0], i, npuscope_load(&call->inputs[0], i));
}

static int is_byte_with_one_scale(const npuscope_tensor *tensor) {
  int is_byte = tensor->type == NPUSCOPE_INT8 || tensor->type == NPUSCOPE_UINT8;
  return is_byte && tensor->scales != NULL && tensor->axis == NPUSCOPE_WHOLE;
}

/* What npuscope_store does for one value, with all that stays the same in front of the loop: inputs
 * of networks are quantized here, some hundred thousand values at once. */
static void to_bytes(const npuscope_call *call) {
  const npuscope_tensor *made = &call->outputs[0];
  const float *values = (const float *)call->inputs[0].data;
  uint8_t *bytes = (uint8_t *)made->data;
  uint32_t count = npuscope_count(made);
  float scale = made->scales[0], zero = (float)made->zero_points[0];
  float low = made->type == NPUSCOPE_INT8 ? -128.0f : 0.0f, high = low + 255.0f;
  int away = made->rounding == NPUSCOPE_HALF_AWAY;
  for (uint32_t i = 0; i < count; i++) {
    float ratio = values[i] / scale;
    ratio = (away ? npuscope_round_away(ratio) : npuscope_round_even(ratio)) + zero;
    if (!(ratio > low)) /* NaN too */
      ratio = low;
    bytes[i] = (uint8_t)(int32_t)(ratio >= high ? high : ratio);
  }
}

void npuscope_quantize(const npuscope_call *call) {
  int is_float = call->inputs[0].type == NPUSCOPE_FLOAT32;
  if (is_float && is_byte_with_one_scale(&call->outputs[0]))
    to_bytes(call);
  else
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
