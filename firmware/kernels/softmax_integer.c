/* SPDX-License-Identifier: Apache-2.0 */
#include "fixed_point.h"
#include "tensor.h"

#define SUM_BITS 12 /* integer bits of the sum of exponentials */

/* A line of values along the axis. */
typedef struct {
  uint32_t first, count, step;
} line;

static int32_t largest(const npuscope_tensor *x, line at) {
  int32_t found = INT32_MIN;
  for (uint32_t i = 0; i < at.count; i++) {
    int32_t value = npuscope_raw(x, at.first + i * at.step);
    found = value > found ? value : found;
  }
  return found;
}

static int64_t sum_of_powers(const npuscope_tensor *x, const int32_t *powers, int32_t peak,
                             line at) {
  int64_t sum = 0;
  for (uint32_t i = 0; i < at.count; i++) {
    int32_t power = powers[peak - npuscope_raw(x, at.first + i * at.step)];
    sum += npuscope_rounding_shift(power, SUM_BITS);
  }
  return sum;
}

static void one_line(const npuscope_call *call, line at) {
  const npuscope_tensor *x = &call->inputs[0], *y = &call->outputs[0];
  const int32_t *powers = call->inputs[1].data;
  int32_t lowest = y->type == NPUSCOPE_INT8 ? -128 : 0, peak = largest(x, at), bits;
  int64_t inverse = npuscope_fixed_reciprocal(sum_of_powers(x, powers, peak, at), &bits);
  int32_t shift = bits + SUM_BITS - 32 + 31 - 8; /* down to the 8 bits of the output */
  for (uint32_t i = 0; i < at.count; i++) {
    uint32_t place = at.first + i * at.step;
    int64_t share = npuscope_times(powers[peak - npuscope_raw(x, place)], inverse);
    int64_t value = npuscope_rounding_shift(share, shift) + lowest;
    npuscope_put_whole(y, place, npuscope_clamp(value, lowest, lowest + 255));
  }
}

/* 8-bit softmax in fixed point. Inputs: x, then exp(-beta * scale * d) for d = 0 ... 255 as
 * fractions of 31 bits. Numbers: values along the axis, values behind it. */
void npuscope_softmax_integer(const npuscope_call *call) {
  uint32_t count = (uint32_t)call->numbers[0], inner = (uint32_t)call->numbers[1];
  uint32_t lines = count == 0 ? 0 : npuscope_count(&call->inputs[0]) / count;
  for (uint32_t i = 0; i < lines; i++) {
    line at = {.first = i / inner * count * inner + i % inner, .count = count, .step = inner};
    one_line(call, at);
  }
}
