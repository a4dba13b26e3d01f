/* SPDX-License-Identifier: Apache-2.0
 * Floats to whole floats without a library: the same on CPUs with and without such instructions. */
#ifndef NPUSCOPE_ROUNDING_H
#define NPUSCOPE_ROUNDING_H

#include <stdint.h>

typedef union {
  float real;
  uint32_t bits;
} npuscope_bits;

static inline uint32_t npuscope_bits_of(float value) {
  npuscope_bits both = {.real = value};
  return both.bits;
}

static inline float npuscope_float_of(uint32_t bits) {
  npuscope_bits both = {.bits = bits};
  return both.real;
}

static inline float npuscope_absolute(float value) {
  return npuscope_float_of(npuscope_bits_of(value) & 0x7fffffffu);
}

static inline float npuscope_with_sign(float size, float sign) {
  return npuscope_float_of((npuscope_bits_of(size) & 0x7fffffffu) |
                           (npuscope_bits_of(sign) & 0x80000000u));
}

/* From 2^23 on every float is whole; NaN is not below it either. */
static inline int npuscope_has_fraction(float value) {
  return npuscope_absolute(value) < 0x1p23f;
}

static inline float npuscope_truncated(float value) {
  if (!npuscope_has_fraction(value))
    return value;
  return npuscope_with_sign((float)(int32_t)value, value);
}

/* The sum has no room for a fraction, so it rounds half to even by itself. */
static inline float npuscope_round_even(float value) {
  float size = npuscope_absolute(value);
  if (!npuscope_has_fraction(value))
    return value;
  return npuscope_with_sign((size + 0x1p23f) - 0x1p23f, value);
}

/* The addend is the float below one half: see round_half_away of the simulator. */
static inline float npuscope_round_away(float value) {
  return npuscope_truncated(value + npuscope_with_sign(0x1.fffffep-2f, value));
}

static inline float npuscope_floored(float value) {
  float cut = npuscope_truncated(value);
  return cut > value ? cut - 1.0f : cut;
}

/* Between -1 and 0 the result is -0, as everywhere. */
static inline float npuscope_ceiled(float value) {
  float cut = npuscope_truncated(value);
  return cut < value ? cut + 1.0f : cut;
}

#endif
