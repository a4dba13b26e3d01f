/* SPDX-License-Identifier: Apache-2.0
 * Pooling of (N, H, W, C) images. numbers: window height and width, stride down and right, pads
 * top, left, bottom and right, 1 if pads count in averages, fused activation. */
#include "math_float.h"
#include "tensor.h"

enum { WINDOW = 0, STRIDE = 2, PAD = 4, COUNT_PADS = 8, ACTIVATION = 9, LOW = 10, HIGH = 11 };

/* One window of one channel of one image. */
typedef struct {
  const npuscope_call *call;
  uint32_t image, channel;
  int32_t top, left;
} window;

typedef void pool_function(const window *of, uint32_t made);

static int32_t number(const window *of, int index) {
  return of->call->numbers[index];
}

/* Where a place of the window lies in the input, or -1 in the pads. */
static int32_t place(const window *of, int32_t row, int32_t column) {
  const npuscope_tensor *x = &of->call->inputs[0];
  int32_t y = of->top + row, z = of->left + column;
  if (y < 0 || z < 0 || (uint32_t)y >= x->shape[1] || (uint32_t)z >= x->shape[2])
    return -1;
  return (int32_t)(((of->image * x->shape[1] + (uint32_t)y) * x->shape[2] + (uint32_t)z) *
                       x->shape[3] +
                   of->channel);
}

static void pool_all(const npuscope_call *call, pool_function *pool) {
  const npuscope_tensor *made = &call->outputs[0];
  uint32_t count = npuscope_count(made), width = made->shape[2], channels = made->shape[3];
  for (uint32_t i = 0; i < count; i++) {
    uint32_t pixel = i / channels, row = pixel / width;
    window of = {call, row / made->shape[1], i % channels, 0, 0};
    of.top = (int32_t)(row % made->shape[1]) * call->numbers[STRIDE] - call->numbers[PAD];
    of.left = (int32_t)(pixel % width) * call->numbers[STRIDE + 1] - call->numbers[PAD + 1];
    pool(&of, i);
  }
}

static void real_largest(const window *of, uint32_t made) {
  float best = -__builtin_inff();
  for (int32_t row = 0; row < number(of, WINDOW); row++)
    for (int32_t column = 0; column < number(of, WINDOW + 1); column++) {
      int32_t at = place(of, row, column);
      if (at >= 0)
        best = npuscope_larger(best, npuscope_load(&of->call->inputs[0], (uint32_t)at));
    }
  npuscope_store(&of->call->outputs[0], made, npuscope_activated(best, number(of, ACTIVATION)));
}

static void raw_largest(const window *of, uint32_t made) {
  int32_t best = number(of, LOW);
  for (int32_t row = 0; row < number(of, WINDOW); row++)
    for (int32_t column = 0; column < number(of, WINDOW + 1); column++) {
      int32_t at = place(of, row, column);
      int32_t value = at < 0 ? best : npuscope_raw(&of->call->inputs[0], (uint32_t)at);
      best = value > best ? value : best;
    }
  npuscope_put_whole(&of->call->outputs[0], made,
                     best < number(of, HIGH) ? best : number(of, HIGH));
}

void npuscope_max_pool(const npuscope_call *call) {
  pool_all(call, real_largest);
}

/* Raw values; two more numbers: the lowest and the highest result. */
void npuscope_max_pool_raw(const npuscope_call *call) {
  pool_all(call, raw_largest);
}

/* Pads are terms too, of 0. */
static float column_sum(const window *of, int32_t column) {
  float sum = 0.0f;
  for (int32_t row = 0; row < number(of, WINDOW); row++) {
    int32_t at = place(of, row, column);
    float term = at < 0 ? 0.0f : npuscope_load(&of->call->inputs[0], (uint32_t)at);
    sum = row == 0 ? term : sum + term;
  }
  return sum;
}

static uint32_t covered(int32_t start, int32_t size, uint32_t limit) {
  int32_t first = start < 0 ? 0 : start;
  int32_t end = start + size < (int32_t)limit ? start + size : (int32_t)limit;
  return end > first ? (uint32_t)(end - first) : 0;
}

static uint32_t divisor(const window *of) {
  const uint32_t *shape = of->call->inputs[0].shape;
  int32_t height = number(of, WINDOW), width = number(of, WINDOW + 1);
  if (number(of, COUNT_PADS))
    return (uint32_t)(height * width);
  return covered(of->top, height, shape[1]) * covered(of->left, width, shape[2]);
}

/* The sums of the window's columns are added from left to right. */
static void average(const window *of, uint32_t made) {
  float sum = 0.0f;
  for (int32_t column = 0; column < number(of, WINDOW + 1); column++) {
    float term = column_sum(of, column);
    sum = column == 0 ? term : sum + term;
  }
  sum = sum / (float)divisor(of);
  npuscope_store(&of->call->outputs[0], made, npuscope_activated(sum, number(of, ACTIVATION)));
}

void npuscope_average_pool(const npuscope_call *call) {
  pool_all(call, average);
}
