/* SPDX-License-Identifier: Apache-2.0 */
#include "fixed_point.h"
#include "layers_place.h"
#include "tensor.h"

/* One factor for all three scales, and what the activation leaves. */
typedef struct {
  int32_t mantissa, shift, low, high;
} division;

/* Bits in two's complement without the sign: a negative power of two needs one less. */
static int32_t bits_of(int64_t value) {
  return npuscope_bit_length((uint64_t)(value < 0 ? -value - 1 : value));
}

static int32_t within(int32_t value, int32_t low, int32_t high) {
  return npuscope_clamp(value, low, high);
}

static int64_t quotient(int64_t above, int64_t below, const division *by) {
  int32_t bits, room = 31 - bits_of(above);
  int64_t inverse = npuscope_fixed_reciprocal(below, &bits);
  int64_t whole = (int64_t)((uint64_t)above << room);
  int32_t shift = within(bits - 1 + room - by->shift, 0, 62);
  int64_t scaled = npuscope_times(npuscope_times(whole, inverse), by->mantissa);
  return npuscope_rounding_shift(scaled, shift);
}

/* Divisors of 0 saturate; 0 / 0 is 0. */
static int64_t divided(int64_t above, int64_t below, const division *by) {
  if (below < 0)
    above = -above, below = -below;
  if (below != 0)
    return quotient(above, below, by);
  return above == 0 ? 0 : above < 0 ? -((int64_t)1 << 31) : (int64_t)1 << 31;
}

/* 8-bit quotients with broadcasting. Inputs: a, b. Numbers: mantissa and shift of the factor,
 * lowest and highest output. */
void npuscope_div_integer(const npuscope_call *call) {
  const npuscope_tensor *a = &call->inputs[0], *b = &call->inputs[1], *y = &call->outputs[0];
  const int32_t *given = call->numbers;
  division by = {given[0], given[1], given[2], given[3]};
  uint32_t count = npuscope_count(y);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t place_a = npuscope_broadcast_place(a, y, i, 0);
    uint32_t place_b = npuscope_broadcast_place(b, y, i, 0);
    int64_t above = (int64_t)npuscope_raw(a, place_a) - npuscope_zero_point(a);
    int64_t below = (int64_t)npuscope_raw(b, place_b) - npuscope_zero_point(b);
    int64_t value = divided(above, below, &by) + npuscope_zero_point(y);
    npuscope_put_whole(y, i, npuscope_clamp(value, by.low, by.high));
  }
}
