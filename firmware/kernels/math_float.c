/* SPDX-License-Identifier: Apache-2.0
 * Exponentials, logarithms and what is made of them, in single precision. */
#include "math_float.h"

#define LN2_HIGH 0.69314575f
#define LN2_LOW 1.4286068e-06f

/* Coefficients from the constant on. */
static inline float polynomial(float x, const float *coefficients, int count) {
  float result = coefficients[count - 1];
  for (int i = count - 2; i >= 0; i--)
    result = result * x + coefficients[i];
  return result;
}

static float power_of_two(int32_t exponent) {
  return npuscope_float_of((uint32_t)(exponent + 127) << 23);
}

static float between(float x, float low, float high) {
  return x < low ? low : x > high ? high : x;
}

/* k and exp(r) - 1, where x = k ln 2 + r. */
static int32_t exp_parts(float x, float *rest) {
  static const float EXP[] = {0.5f,         0.16666667f,   0.041666254f,
                              0.008333261f, 0.0013947212f, 0.00019919922f};
  float k = npuscope_round_even(x * 1.442695f);
  float r = (x - k * LN2_HIGH) - k * LN2_LOW;
  *rest = r * r * polynomial(r, EXP, 6) + r;
  return (int32_t)k;
}

float npuscope_exp_of(float x) {
  float rest;
  int32_t k, half;
  if (x != x)
    return x;
  k = exp_parts(between(x, -104.0f, 89.0f), &rest);
  /* Half of k rounded down, as a shift would, which C leaves open below 0. */
  half = (k - (k & 1)) / 2;
  return (rest + 1.0f) * power_of_two(half) * power_of_two(k - half);
}

float npuscope_expm1_below_of(float x) {
  float rest, power;
  if (x != x)
    return x;
  power = power_of_two(exp_parts(between(x, -18.0f, 0.0f), &rest));
  return rest * power + (power - 1.0f);
}

float npuscope_log_of(float x) {
  static const float LOG[] = {0.3333331f,   -0.24999985f, 0.2000227f,    -0.16669364f, 0.14217773f,
                              -0.12381707f, 0.118774466f, -0.118082404f, 0.06927269f};
  int32_t whole;
  float f, k, tail;
  if (!(x > 0.0f && x < __builtin_inff()))
    return x == 0.0f ? -__builtin_inff() : x > 0.0f ? x : __builtin_nanf("");
  f = npuscope_mantissa_of(x, &whole) - 1.0f;
  k = (float)whole;
  tail = (f * polynomial(f, LOG, 9) - 0.5f) * (f * f);
  return k * LN2_HIGH + (f + (tail + k * LN2_LOW));
}

float npuscope_log1p_fraction_of(float x) {
  static const float LOG1P[] = {0.66666675f, 0.39998877f, 0.28616884f, 0.21427658f, 0.24300933f};
  float s = x / (x + 2.0f), half = 0.5f * x * x;
  float z = s * s;
  return x - (half - s * (half + z * polynomial(z, LOG1P, 5)));
}

float npuscope_tanh_of(float x) {
  static const float TANH[] = {-0.3333333f, 0.1333321f,    -0.053947203f,
                               0.02170297f, -0.008182677f, 0.00214754f};
  float size = npuscope_absolute(x), z = x * x;
  if (size < 0.625f)
    return npuscope_with_sign(x + x * (z * polynomial(z, TANH, 6)), x);
  return npuscope_with_sign(1.0f - 2.0f / (npuscope_exp_of(size + size) + 1.0f), x);
}

/* Far out it is 1 - exp(-q), q a polynomial: the error is that of a small number. */
float npuscope_erf_of(float x) {
  static const float ERF[] = {0.12837911f,   -0.37612626f,    0.112835854f,  -0.026853813f,
                              0.0051883277f, -0.00080101937f, 7.8538615e-05f};
  static const float TAIL[] = {5.364941f,      4.418161f,      0.923751f,       0.016465815f,
                               -0.0035705024f, 0.00073022075f, -0.00013772064f, 2.1686750e-05f};
  float size = npuscope_absolute(x), outer;
  if (size < 1.0f)
    return npuscope_with_sign(x + x * polynomial(x * x, ERF, 7), x);
  outer = (size > 4.0f ? 4.0f : size) - 2.0f;
  return npuscope_with_sign(1.0f - npuscope_exp_of(-polynomial(outer, TAIL, 8)), x);
}

/* 2 / pi behind 32 zero bits: what a product with any float can need of it. */
static const uint32_t TWO_OVER_PI[] = {0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                       0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};

/* Quarter turns in a finite x >= 0, modulo 4, and the angle that is left. The product with 2 / pi
 * is exact in whole numbers; only its fraction of a full turn is computed. */
static uint32_t quarters(float size, float *angle) {
  uint32_t bits = npuscope_bits_of(size), place = (bits >> 23) - 120u;
  uint64_t mantissa = (bits & 0x7fffffu) | 0x800000u;
  const uint32_t *word = TWO_OVER_PI + (place >> 5);
  uint32_t shift = place & 31u;
  uint64_t high = (uint64_t)word[0] << 32 | word[1], low = (uint64_t)word[2] << 32 | word[3];
  uint64_t upper = high << shift | (low >> 1) >> (63u - shift);
  uint64_t lower = (low << shift) >> 32;
  uint64_t product = mantissa * upper + (mantissa * lower >> 32);
  uint32_t quarter = (uint32_t)((product + (1ull << 61)) >> 62);
  int64_t left = (int64_t)(product - ((uint64_t)quarter << 62));
  *angle = (float)((double)left * 3.4061215800865545e-19);
  return quarter;
}

/* sin(size + turn quarters) for size >= 0. */
static float circle(float size, uint32_t turn) {
  static const float SIN[] = {-0.16666654f, 0.0083321314f, -0.0001951084f};
  static const float COS[] = {0.041666646f, -0.0013887306f, 2.4431205e-05f};
  float angle = size, z, value;
  if (!(size < __builtin_inff()))
    return __builtin_nanf("");
  if (size >= 0.125f)
    turn += quarters(size, &angle);
  z = angle * angle;
  if (turn & 1u)
    value = (z * z * polynomial(z, COS, 3) - 0.5f * z) + 1.0f;
  else
    value = angle + angle * (z * polynomial(z, SIN, 3));
  return turn & 2u ? -value : value;
}

float npuscope_sin_of(float x) {
  float value = circle(npuscope_absolute(x), 0);
  return npuscope_bits_of(x) >> 31 ? -value : value;
}

float npuscope_cos_of(float x) {
  return circle(npuscope_absolute(x), 1);
}
