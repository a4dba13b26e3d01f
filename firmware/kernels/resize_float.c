/* SPDX-License-Identifier: Apache-2.0
 * Linear resize of images (N, H, W, C) in real values, or of bytes as numbers. */
#include "tensor.h"

/* The neighbours of an output place along an axis, and the share of the upper one. */
typedef struct {
  uint32_t lower, upper;
  float share;
} place;

static place place_of(const npuscope_tensor *arrays, uint32_t at) {
  place found = {(uint32_t)((const int32_t *)arrays[0].data)[at],
                 (uint32_t)((const int32_t *)arrays[1].data)[at],
                 ((const float *)arrays[2].data)[at]};
  return found;
}

/* Of bytes: the value without its scale; a result in the middle is rounded up, as LiteRT does. */
static void store_byte(const npuscope_tensor *y, uint32_t at, float sum) {
  ((uint8_t *)y->data)[at] = (uint8_t)(sum + 0.5f);
}

static float load_byte(const npuscope_tensor *x, uint32_t at) {
  return (float)((const uint8_t *)x->data)[at];
}

typedef float (*load_value)(const npuscope_tensor *x, uint32_t at);
typedef void (*store_value)(const npuscope_tensor *y, uint32_t at, float value);

static void one_pixel(const npuscope_call *call, uint32_t image, place down, place across,
                      uint32_t first, load_value load, store_value store) {
  const npuscope_tensor *x = &call->inputs[0];
  uint32_t height = x->shape[1], width = x->shape[2], channels = x->shape[3];
  uint32_t top = (image * height + down.lower) * width;
  uint32_t bottom = (image * height + down.upper) * width;
  float up = 1.0f - down.share, back = 1.0f - across.share;
  float shares[4] = {up * back, up * across.share, down.share * back, down.share * across.share};
  for (uint32_t c = 0; c < channels; c++) {
    float sum = shares[0] * load(x, (top + across.lower) * channels + c);
    sum += shares[1] * load(x, (top + across.upper) * channels + c);
    sum += shares[2] * load(x, (bottom + across.lower) * channels + c);
    sum += shares[3] * load(x, (bottom + across.upper) * channels + c);
    store(&call->outputs[0], first + c, sum);
  }
}

/* Inputs: x, then per output row the upper neighbour, the lower one and the lower one's share, then
 * the same per output column. */
static void linear(const npuscope_call *call, load_value load, store_value store) {
  const npuscope_tensor *y = &call->outputs[0];
  uint32_t rows = y->shape[1], columns = y->shape[2], channels = y->shape[3], first = 0;
  for (uint32_t line = 0; line < y->shape[0] * rows; line++) {
    place down = place_of(call->inputs + 1, line % rows);
    for (uint32_t column = 0; column < columns; column++, first += channels) {
      one_pixel(call, line / rows, down, place_of(call->inputs + 4, column), first, load, store);
    }
  }
}

void npuscope_resize_linear(const npuscope_call *call) {
  linear(call, npuscope_load, npuscope_store);
}

void npuscope_resize_linear_bytes(const npuscope_call *call) {
  linear(call, load_byte, store_byte);
}
