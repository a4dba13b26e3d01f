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

/* Where the first channel of the four neighbours lies: upper left, upper right, lower left, lower
 * right. */
typedef struct {
  uint32_t at[4];
} corners;

static corners corners_of(const npuscope_tensor *x, uint32_t image, place down, place across) {
  uint32_t height = x->shape[1], width = x->shape[2], channels = x->shape[3];
  uint32_t top = (image * height + down.lower) * width;
  uint32_t bottom = (image * height + down.upper) * width;
  corners found = {{(top + across.lower) * channels, (top + across.upper) * channels,
                    (bottom + across.lower) * channels, (bottom + across.upper) * channels}};
  return found;
}

typedef void (*one_pixel)(const npuscope_call *call, corners from, place down, place across,
                          uint32_t first);

static void real_pixel(const npuscope_call *call, corners from, place down, place across,
                       uint32_t first) {
  const npuscope_tensor *x = &call->inputs[0];
  float up = 1.0f - down.share, back = 1.0f - across.share;
  float shares[4] = {up * back, up * across.share, down.share * back, down.share * across.share};
  for (uint32_t c = 0; c < x->shape[3]; c++) {
    float sum = shares[0] * npuscope_load(x, from.at[0] + c);
    sum += shares[1] * npuscope_load(x, from.at[1] + c);
    sum += shares[2] * npuscope_load(x, from.at[2] + c);
    sum += shares[3] * npuscope_load(x, from.at[3] + c);
    npuscope_store(&call->outputs[0], first + c, sum);
  }
}

/* Values without their scale, in LiteRT's order of operations, which decides where a result lies
 * in the middle of two bytes: there it is rounded up. */
static void byte_pixel(const npuscope_call *call, corners from, place down, place across,
                       uint32_t first) {
  const uint8_t *x = call->inputs[0].data;
  uint8_t *y = (uint8_t *)call->outputs[0].data + first;
  float up = 1.0f - down.share, back = 1.0f - across.share;
  for (uint32_t c = 0; c < call->inputs[0].shape[3]; c++) {
    float sum = (float)x[from.at[0] + c] * up * back;
    sum += (float)x[from.at[2] + c] * down.share * back;
    sum += (float)x[from.at[1] + c] * up * across.share;
    sum += (float)x[from.at[3] + c] * down.share * across.share;
    y[c] = (uint8_t)(sum + 0.5f);
  }
}

/* Inputs: x, then per output row the upper neighbour, the lower one and the lower one's share, then
 * the same per output column. */
static void linear(const npuscope_call *call, one_pixel pixel) {
  const npuscope_tensor *x = &call->inputs[0], *y = &call->outputs[0];
  uint32_t rows = y->shape[1], columns = y->shape[2], channels = y->shape[3], first = 0;
  for (uint32_t line = 0; line < y->shape[0] * rows; line++) {
    place down = place_of(call->inputs + 1, line % rows);
    for (uint32_t column = 0; column < columns; column++, first += channels) {
      place across = place_of(call->inputs + 4, column);
      pixel(call, corners_of(x, line / rows, down, across), down, across, first);
    }
  }
}

void npuscope_resize_linear(const npuscope_call *call) {
  linear(call, real_pixel);
}

void npuscope_resize_linear_bytes(const npuscope_call *call) {
  linear(call, byte_pixel);
}
