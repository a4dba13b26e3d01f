/* SPDX-License-Identifier: Apache-2.0 */
#include "fixed_point.h"

#define LIMIT ((int64_t)1 << 31)
#define ONE ((int64_t)0x7fffffff)          /* 1.0 without integer bits, as near as it gets */
#define ONE_OF_TWO_BITS ((int64_t)1 << 29) /* 1.0 with two integer bits */
#define GUESS_OFFSET 1515870810            /* 48 / 17 with two integer bits */
#define GUESS_SLOPE (-1010580540)          /* -32 / 17 with two integer bits */
#define NEWTON_STEPS 3

/* Shifts and products of signed numbers that do not fit are undefined in C: unsigned ones wrap. */
static int64_t shift_left(int64_t value, int32_t bits) {
  return (int64_t)((uint64_t)value << bits);
}

static int64_t product(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

static int64_t sum(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

int64_t npuscope_rounding_shift(int64_t value, int32_t bits) {
  int64_t half = ((int64_t)1 << bits) >> 1;
  return sum(value, half - (value < 0 && half > 0)) >> bits;
}

int64_t npuscope_times(int64_t a, int64_t b) {
  return sum(product(a, b), (int64_t)1 << 30) >> 31;
}

int64_t npuscope_scale_twice(int64_t value, int32_t mantissa, int32_t shift) {
  int64_t high = npuscope_times(shift > 0 ? shift_left(value, shift) : value, mantissa);
  return npuscope_rounding_shift(high, shift < 0 ? -shift : 0);
}

int32_t npuscope_bit_length(uint64_t magnitude) {
  int32_t bits = 0;
  for (; magnitude != 0; magnitude >>= 1)
    bits++;
  return bits;
}

/* Fewer integer bits, saturating. */
static int64_t fewer_integer_bits(int64_t value, int32_t bits) {
  int64_t moved = shift_left(value, bits);
  if (moved < -LIMIT)
    return -LIMIT;
  return moved > LIMIT - 1 ? LIMIT - 1 : moved;
}

/* 1 / (1 + x) of a fraction, by Newton steps from the line through the ends. */
static int64_t one_over_one_plus(int64_t x) {
  int64_t half = (x + ONE + 1) >> 1;
  int64_t guess = GUESS_OFFSET + npuscope_times(half, GUESS_SLOPE);
  for (int step = 0; step < NEWTON_STEPS; step++) {
    int64_t error = ONE_OF_TWO_BITS - npuscope_times(half, guess);
    guess += fewer_integer_bits(npuscope_times(guess, error), 2);
  }
  return fewer_integer_bits(guess, 1);
}

int64_t npuscope_fixed_reciprocal(int64_t value, int32_t *bits) {
  *bits = npuscope_bit_length((uint64_t)value);
  return one_over_one_plus(shift_left(value, 32 - *bits) - ((int64_t)1 << 31));
}

int32_t npuscope_clamp(int64_t value, int32_t low, int32_t high) {
  if (value < low)
    return low;
  return value > high ? high : (int32_t)value;
}

int32_t npuscope_zero_point(const npuscope_tensor *tensor) {
  return tensor->scales != NULL ? tensor->zero_points[0] : 0;
}
