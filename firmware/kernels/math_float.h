/* SPDX-License-Identifier: Apache-2.0
 * Functions of real numbers, operation by operation those of the simulator (real_math.py,
 * circle_math.py). */
#ifndef NPUSCOPE_MATH_FLOAT_H
#define NPUSCOPE_MATH_FLOAT_H

#include "rounding.h"

float npuscope_exp_of(float x);
float npuscope_expm1_below_of(float x); /* for x <= 0 */
float npuscope_log_of(float x);
float npuscope_log1p_fraction_of(float x); /* for 0 <= x <= 1 */
float npuscope_tanh_of(float x);
float npuscope_erf_of(float x);
float npuscope_sin_of(float x);
float npuscope_cos_of(float x);
float npuscope_tan_of(float x);
float npuscope_asin_of(float x);
float npuscope_acos_of(float x);
float npuscope_atan_of(float x);
float npuscope_sinh_of(float x);
float npuscope_cosh_of(float x);
float npuscope_asinh_of(float x);
float npuscope_acosh_of(float x);
float npuscope_atanh_of(float x);
float npuscope_power_of(float base, float exponent);

/* The square root rounded to the nearest, with whole numbers only. */
float npuscope_sqrt_by_bits(float x);

/* The CPU's own square root where it has one: exact as well, and no library's that sets errno. */
static inline float npuscope_sqrt_of(float x) {
#if defined(__arm__) && !defined(__ARM_FP)
  return npuscope_sqrt_by_bits(x);
#elif defined(__clang__)
  return __builtin_elementwise_sqrt(x);
#elif defined(__arm__)
  float root;
  __asm__("vsqrt.f32 %0, %1" : "=t"(root) : "t"(x));
  return root;
#else
  return __builtin_sqrtf(x);
#endif
}

/* x = m * 2^k with m between the roots of 1/2 and 2, for finite x > 0. */
static inline float npuscope_mantissa_of(float x, int32_t *k) {
  int tiny = x < 0x1p-126f;
  int32_t bits = (int32_t)npuscope_bits_of(tiny ? x * 0x1p23f : x);
  int32_t above = bits - 0x3f3504f3;
  int32_t whole = (above - (above & 0x7fffff)) / 0x800000;
  *k = whole - (tiny ? 23 : 0);
  return npuscope_float_of((uint32_t)bits - ((uint32_t)whole << 23));
}

/* Of two values; NaN if one is. Never -0, as nobody says which of two zeros is larger. */
static inline float npuscope_larger(float a, float b) {
  return (a > b || a != a ? a : b) + 0.0f;
}

static inline float npuscope_smaller(float a, float b) {
  return (a < b || a != a ? a : b) + 0.0f;
}

#endif
