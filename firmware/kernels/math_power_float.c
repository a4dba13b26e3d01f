/* SPDX-License-Identifier: Apache-2.0
 * Powers, in double precision in between as errors of a logarithm grow with the exponent; and the
 * square root for CPUs that have none. */
#include "math_float.h"

#define INFINITE ((double)__builtin_inff())

typedef union {
  double real;
  uint64_t bits;
} wide_bits;

static double polynomial(double x, const double *coefficients, int count) {
  double result = coefficients[count - 1];
  for (int i = count - 2; i >= 0; i--)
    result = result * x + coefficients[i];
  return result;
}

static double log2_of_finite(float size) {
  static const double LOG2[] = {2.8853900817779268,      2.8853900817779268 / 3,
                                2.8853900817779268 / 5,  2.8853900817779268 / 7,
                                2.8853900817779268 / 9,  2.8853900817779268 / 11,
                                2.8853900817779268 / 13, 2.8853900817779268 / 15,
                                2.8853900817779268 / 17};
  int32_t k;
  double m = npuscope_mantissa_of(size, &k);
  double s = (m - 1.0) / (m + 1.0);
  return (double)k + s * polynomial(s * s, LOG2, 9);
}

static double log2_of(float size) {
  if (size == 0.0f)
    return -INFINITE;
  return size < __builtin_inff() ? log2_of_finite(size) : (double)size;
}

static float exp2_of(double y) {
  static const double EXP[] = {1.0,
                               1.0,
                               0.5,
                               0.16666666666666666,
                               0.041666666666666664,
                               0.008333333333333333,
                               0.001388888888888889,
                               0.0001984126984126984,
                               2.48015873015873e-05,
                               2.7557319223985893e-06,
                               2.755731922398589e-07};
  double n;
  wide_bits power;
  if (y != y)
    return __builtin_nanf("");
  y = y < -300.0 ? -300.0 : y > 300.0 ? 300.0 : y;
  n = (y + 0x1.8p52) - 0x1.8p52; /* the nearest whole number, half to even */
  power.bits = (uint64_t)((int32_t)n + 1023) << 52;
  return (float)(polynomial((y - n) * 0.6931471805599453, EXP, 11) * power.real);
}

/* From 2^24 on all floats are even. */
static int is_odd(float value) {
  if (!(npuscope_absolute(value) < 0x1p24f))
    return 0;
  return (float)(int32_t)value == value && ((int32_t)value & 1);
}

static int is_infinite(float value) {
  return npuscope_absolute(value) == __builtin_inff();
}

float npuscope_power_of(float base, float exponent) {
  float value;
  if (base == 1.0f || exponent == 0.0f || (base == -1.0f && is_infinite(exponent)))
    return 1.0f;
  if (base < 0.0f && !is_infinite(base) && npuscope_truncated(exponent) != exponent)
    return __builtin_nanf("");
  value = exp2_of((double)exponent * log2_of(npuscope_absolute(base)));
  return npuscope_bits_of(base) >> 31 && is_odd(exponent) ? -value : value;
}

/* The largest whole number whose square is not above `value`, which is below 2^50. */
static uint32_t whole_root(uint64_t value) {
  uint64_t root = 0;
  for (uint64_t bit = 1u << 24; bit != 0; bit >>= 1)
    if ((root + bit) * (root + bit) <= value)
      root += bit;
  return (uint32_t)root;
}

/* One bit more than the result has decides the rounding: a root never lies halfway. */
static float root_of_positive(float x) {
  int tiny = x < 0x1p-126f;
  uint32_t bits = npuscope_bits_of(tiny ? x * 0x1p24f : x);
  uint32_t exponent = (bits >> 23) + 127u - (tiny ? 24u : 0u); /* biased twice: not below 0 */
  uint64_t mantissa = (bits & 0x7fffffu) | 0x800000u;
  uint32_t root;
  if (exponent & 1u) { /* the unbiased exponent is odd */
    mantissa <<= 1;
    exponent--;
  }
  root = (whole_root(mantissa << 25) + 1u) >> 1;
  return npuscope_float_of((exponent / 2u << 23) + root - 0x800000u);
}

float npuscope_sqrt_by_bits(float x) {
  if (!(x > 0.0f))
    return x == 0.0f ? x : __builtin_nanf("");
  return x < __builtin_inff() ? root_of_positive(x) : x;
}
